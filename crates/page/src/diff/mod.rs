//! The page of a comparison: both steps above each other, the verdict with its interval, and what moved.

mod measures;
mod memory;
mod moved;
mod steps;
mod verdict;

use std::fmt::Write as _;

use serde::Serialize;
use trace_advisor::Run;
use trace_advisor::advisor::Comparison;
use trace_advisor::compare::Diff;

use crate::blocks::Pane;
use crate::clean::{html, html_with_code, json};
use crate::document::{Document, Entry, Options};
use crate::finding_card::write_finding;
use crate::sections::write_pane;
use crate::words::capitalized;

/// The data that the script draws.
#[derive(Serialize)]
struct DiffData {
    panes: Vec<Pane>,
}

/// The page.
pub(crate) fn page(
    before: &Run,
    after: &Run,
    diff: &Diff,
    comparison: &Comparison,
    options: &Options,
) -> String {
    let mut body = String::from("<article class=\"run\" data-run=\"0\" id=\"run\">\n");
    let paths = (before.info().path.as_str(), after.info().path.as_str());
    verdict::write(diff, paths, &mut body);
    steps::write(diff, &mut body);
    measures::write(diff, &mut body);
    if !comparison.findings.is_empty() {
        body.push_str("<section id=\"findings\" aria-label=\"Findings\">\n<h2>Findings</h2>\n");
        for finding in &comparison.findings {
            write_finding(finding, 0, None, &mut body);
        }
        body.push_str("</section>\n");
    }
    let panes: Vec<Pane> = [memory::pane(diff), moved::pane(diff)].into_iter().flatten().collect();
    for pane in &panes {
        write_pane(pane, pane.id, &mut body);
    }
    write_unknown(comparison, &mut body);
    body.push_str("</article>\n");
    let contents = contents(&body, &panes, comparison.findings.len());
    let title = format!("{} to {} - Trace Advisor", paths.0, paths.1);
    let data = [json(&DiffData { panes })];
    Document { title, contents, body, data: &data, options }.render()
}

/// The sections that the page has.
fn contents(body: &str, panes: &[Pane], findings: usize) -> Vec<Entry> {
    let mut entries = vec![
        Entry::new("overview", "Verdict"),
        Entry::new("steps", "Both steps"),
        Entry::new("measures", "Measures"),
        Entry { count: Some(findings), ..Entry::new("findings", "Findings") },
    ];
    entries.extend(panes.iter().map(|pane| Entry::new(pane.id, pane.title)));
    entries.push(Entry::new("limits", "No verdict"));
    entries.retain(|entry| body.contains(&format!("<section id=\"{}\"", entry.id)));
    entries
}

fn write_unknown(comparison: &Comparison, out: &mut String) {
    if comparison.unknown.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<section id=\"limits\" aria-label=\"Rules without a verdict\">\n<h2>Rules without a verdict</h2>\n<dl class=\"notes\">"
    );
    for rule in &comparison.unknown {
        let _ = writeln!(
            out,
            "<dt><span class=\"code-tag\">{}</span> {}</dt><dd>{}</dd>",
            html(&rule.code),
            html(&rule.name),
            html_with_code(&capitalized(&rule.reason))
        );
    }
    out.push_str("</dl>\n</section>\n");
}
