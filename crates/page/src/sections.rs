//! A page of one or several runs.

use std::fmt::Write as _;

use serde::Serialize;
use trace_advisor::{Error, Report, Run};

use crate::blocks::Pane;
use crate::clean::{html, html_with_code, json};
use crate::document::{Document, Entry, Options};
use crate::findings::FindingData;
use crate::heat::Heat;
use crate::queries::or_reason;
use crate::{concurrent, findings, head, heat, limits, panes, step, words};

/// A page to which runs are added one by one.
#[derive(Debug)]
pub struct Page {
    options: Options,
    runs: Vec<Section>,
    data: Vec<String>,
}

#[derive(Debug)]
struct Section {
    path: String,
    headline: String,
    findings: usize,
    panes: Vec<(&'static str, &'static str)>,
    html: String,
}

/// The data of one run that the script draws.
#[derive(Serialize)]
struct RunData {
    panes: Vec<Pane>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<Heat>,
    findings: FindingData,
}

impl Page {
    /// A page without runs.
    pub fn new(options: &Options) -> Self {
        Self { options: options.clone(), runs: Vec::new(), data: Vec::new() }
    }

    /// Adds a run with its report.
    ///
    /// # Errors
    /// If a view of the run cannot be computed.
    pub fn add(&mut self, run: &Run, report: &Report) -> Result<(), Error> {
        let number = self.runs.len();
        let id = |name: &str| {
            if number == 0 { name.to_owned() } else { format!("{name}-{}", number + 1) }
        };
        let rank = shown_rank(run, report);
        let is_whole = !self.options.overview_only;
        let findings = || findings::section(run, report, number);
        let heat = || if is_whole { or_reason(heat::of(run)) } else { Ok(Ok(None)) };
        let panes = || if is_whole { panes::all(run, report, rank) } else { Ok(Vec::new()) };
        let rest = || concurrent::both(run, heat, panes);
        let ((cards, finding_data), (heat, mut panes)) = concurrent::both(run, findings, rest)?;
        let heat = heat.unwrap_or_else(|reason| {
            panes.insert(0, Pane::missing("ranks", "Ranks and steps", &reason));
            None
        });
        let mut out = String::new();
        let _ = writeln!(out, "<article class=\"run\" data-run=\"{number}\" id=\"{}\">", id("run"));
        let step = or_reason(step::of(run, report, rank))?.unwrap_or_default();
        head::write(report, step.as_ref(), &id("overview"), &mut out);
        let _ = writeln!(
            out,
            "<section id=\"{}\" aria-label=\"Findings\">\n<h2>Findings</h2>\n{cards}</section>",
            id("findings")
        );
        if heat.is_some() {
            let _ = writeln!(
                out,
                "<section id=\"{0}\" class=\"heat\" aria-label=\"Ranks and steps\">\n<h2>Ranks and steps</h2>\n<p class=\"lead\">Which rank is slow, in which step, and who waits for whom?</p>\n</section>",
                id("ranks")
            );
        }
        let (filled, without): (Vec<&Pane>, Vec<&Pane>) =
            panes.iter().partition(|pane| pane.empty.is_none());
        for pane in &filled {
            write_pane(pane, &id(pane.id), &mut out);
        }
        write_without(&without, &id("without"), &mut out);
        if is_whole {
            limits::write(report, &id("limits"), &mut out);
        }
        out.push_str("</article>\n");
        let mut shown: Vec<(&str, &str)> =
            filled.iter().map(|pane| (pane.id, pane.title)).collect();
        shown.extend((!without.is_empty()).then_some(("without", "Without data")));
        self.runs.push(Section {
            path: report.run.path.clone(),
            headline: report.headline.text.clone(),
            findings: report.headline.findings,
            panes: shown,
            html: out,
        });
        self.data.push(json(&RunData { panes, heat, findings: finding_data }));
        Ok(())
    }

    /// The page.
    pub fn finish(self) -> String {
        let mut contents = Vec::new();
        let entry = Entry::new;
        let mut body = String::new();
        match self.runs.as_slice() {
            [] => body.push_str("<p>No run was checked.</p>\n"),
            [run] => {
                contents.push(entry("overview", "Overview"));
                contents.push(Entry { count: Some(run.findings), ..entry("findings", "Findings") });
                if run.html.contains("id=\"ranks\"") {
                    contents.push(entry("ranks", "Ranks and steps"));
                }
                contents.extend(run.panes.iter().map(|(id, title)| entry(id, title)));
                if !self.options.overview_only {
                    contents.push(entry("limits", "Not recorded"));
                }
            }
            runs => {
                contents.push(entry("index", "Runs"));
                body.push_str("<section id=\"index\" aria-label=\"Runs\">\n<h1>Runs</h1>\n<ol class=\"index\">\n");
                for (i, run) in runs.iter().enumerate() {
                    let id = if i == 0 { "run".to_owned() } else { format!("run-{}", i + 1) };
                    let _ = writeln!(
                        body,
                        "<li><a href=\"#{id}\">{}</a><span>{}</span></li>",
                        html(&run.path),
                        html(&run.headline)
                    );
                    contents.push(Entry { count: Some(run.findings), ..entry(&id, &run.path) });
                }
                body.push_str("</ol>\n</section>\n");
            }
        }
        for run in &self.runs {
            body.push_str(&run.html);
        }
        let title = match self.runs.as_slice() {
            [run] => format!("{} - Trace Advisor", run.path),
            runs => format!("{} runs - Trace Advisor", runs.len()),
        };
        Document { title, contents, body, data: &self.data, options: &self.options }.render()
    }
}

/// Writes the section of a pane, without what the script draws in it.
pub(crate) fn write_pane(pane: &Pane, id: &str, out: &mut String) {
    let _ = write!(
        out,
        "<section id=\"{id}\" class=\"pane\" data-pane=\"{}\" aria-label=\"{}\">\n<h2>{}</h2>\n<p class=\"lead\">{}</p>\n",
        pane.id,
        html(pane.title),
        html(pane.title),
        html(pane.question),
    );
    if !pane.scope.is_empty() {
        let _ = writeln!(out, "<p class=\"scope\">{}</p>", html(&pane.scope));
    }
    out.push_str("</section>\n");
}

/// Writes which panes have no data, and which option of the profiler would fill them.
fn write_without(panes: &[&Pane], id: &str, out: &mut String) {
    if panes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<section id=\"{id}\" aria-label=\"Panes without data\">\n<h2>Panes without data</h2>\n<dl class=\"without\">"
    );
    for pane in panes {
        let reason = pane.empty.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "<dt>{}</dt><dd>{}</dd>",
            html(pane.title),
            html_with_code(&words::capitalized(reason))
        );
    }
    out.push_str("</dl>\n</section>\n");
}

/// The rank that panes about one rank show: the slowest, else the one that the first finding is about, else the lowest.
fn shown_rank(run: &Run, report: &Report) -> i64 {
    let slowest = report.breakdown.as_ref().map(|breakdown| breakdown.rank);
    // Of a run on the CPU: the rank that the first finding is about, if it is not about all.
    let affected = report.advice().next().map(|finding| &finding.affected);
    let affected = affected.filter(|affected| affected.ranks.len() < affected.of_ranks);
    let affected = affected.and_then(|affected| affected.ranks.first().copied());
    slowest.or(affected).or(run.info().ranks.first().map(|rank| i64::from(*rank))).unwrap_or(0)
}
