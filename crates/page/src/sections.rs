//! A page of one or several runs.

use std::fmt::Write as _;

use serde::Serialize;
use trace_advisor::{Error, Report, Run};

use crate::blocks::Pane;
use crate::clean::{html, html_with_code, json};
use crate::document::{Document, Entry, Options, numbered};
use crate::findings::FindingData;
use crate::heat::Heat;
use crate::index::{Listed, short_names};
use crate::queries::or_reason;
use crate::{concurrent, findings, head, heat, index, limits, panes, step, words};

/// A page to which runs are added one by one.
#[derive(Debug)]
pub struct Page {
    options: Options,
    runs: Vec<Section>,
    data: Vec<String>,
}

#[derive(Debug)]
struct Section {
    listed: Listed,
    findings: usize,
    /// The sections below the overview.
    contents: Vec<Entry>,
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
        let id = |name: &str| numbered(name, number);
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
        head::write(report, step.as_ref(), number, &mut out);
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
        let (mut filled, without): (Vec<&Pane>, Vec<&Pane>) =
            panes.iter().partition(|pane| pane.empty.is_none());
        filled.sort_by_key(|pane| first_finding(pane.id, report));
        for pane in &filled {
            write_pane(pane, &id(pane.id), &mut out);
        }
        write_without(&without, &id("without"), &mut out);
        if is_whole {
            limits::write(report, &id("limits"), &mut out);
        }
        out.push_str("</article>\n");
        let findings = report.headline.findings;
        let entry = |name: &str, label: &str| Entry::new(&id(name), label);
        let mut contents = vec![Entry { count: Some(findings), ..entry("findings", "Findings") }];
        contents.extend(heat.is_some().then(|| entry("ranks", "Ranks and steps")));
        contents.extend(filled.iter().map(|pane| entry(pane.id, pane.title)));
        contents.extend((!without.is_empty()).then(|| entry("without", "Without data")));
        contents.extend(is_whole.then(|| entry("limits", "Not recorded")));
        let listed = Listed::of(run, report)?;
        self.runs.push(Section { listed, findings, contents, html: out });
        self.data.push(json(&RunData { panes, heat, findings: finding_data }));
        Ok(())
    }

    /// The page.
    pub fn finish(mut self) -> String {
        let mut contents = Vec::new();
        let mut body = String::new();
        match self.runs.as_mut_slice() {
            [] => body.push_str("<p>No run was checked.</p>\n"),
            [run] => {
                contents.push(Entry::new("overview", "Overview"));
                contents.append(&mut run.contents);
            }
            runs => {
                contents.push(Entry::new("index", "Runs"));
                let paths: Vec<&str> = runs.iter().map(|run| run.listed.path.as_str()).collect();
                let names = short_names(&paths);
                index::write(runs.iter().map(|run| &run.listed), &names, &mut body);
                for (number, (run, name)) in runs.iter_mut().zip(&names).enumerate() {
                    let sections = std::mem::take(&mut run.contents);
                    let entry = Entry::new(&numbered("run", number), name);
                    contents.push(Entry { count: Some(run.findings), sections, ..entry });
                }
            }
        }
        for run in &self.runs {
            body.push_str(&run.html);
        }
        if self.options.queries.is_some() {
            contents.push(Entry::new("ask", "Ask SQL"));
            body.push_str(ASK);
        }
        let title = match self.runs.as_slice() {
            [run] => format!("{} - Trace Advisor", run.listed.path),
            runs => format!("{} runs - Trace Advisor", runs.len()),
        };
        Document { title, contents, body, data: &self.data, options: &self.options }.render()
    }
}

/// The section of queries, without the box that the script puts in it.
const ASK: &str = "<section id=\"ask\" aria-label=\"Ask SQL\">\n<h2>Ask SQL</h2>\n<p class=\"lead\">What else does the run say? Queries read its tables and views, which <code>advisor tables</code> lists.</p>\n</section>\n";

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

/// Panes, and the categories of the findings that they explain.
const AREAS: [(&str, &[&str]); 8] = [
    ("idle", &["gpu-util", "host-bound", "sync"]),
    ("kernels", &["kernels", "precision", "compiled-code"]),
    ("operators", &["cpu-compute", "optimizer"]),
    ("path", &["variability"]),
    ("loader", &["input-pipeline"]),
    ("collectives", &["comm", "hangs"]),
    ("memory", &["memory"]),
    ("system", &["config"]),
];

/// The place of the first finding about the area of a pane, by which panes are ordered. Those without one come last, in the
/// order of all panes.
fn first_finding(pane: &str, report: &Report) -> usize {
    let categories = AREAS.iter().find(|(id, _)| *id == pane).map_or(&[][..], |(_, list)| list);
    let mut advice = report.advice();
    advice.position(|finding| categories.contains(&finding.category.as_str())).unwrap_or(usize::MAX)
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
