//! JSON and JSON Lines: the report as it is, described by `docs/report.schema.json`.

use serde::Serialize;
use trace_advisor::Report;
use trace_advisor::advisor::Finding;

use super::phrases;
use crate::render::sanitize::sanitize_json;

/// The report of one run is an object, as the format promises. Several reports are an array of such objects.
pub(super) fn document(reports: &[Report]) -> serde_json::Result<String> {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report)?,
        reports => serde_json::to_string_pretty(reports)?,
    };
    Ok(sanitize_json(&text) + "\n")
}

/// A finding with its run.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    recording: Option<String>,
    #[serde(flatten)]
    finding: Option<&'a Finding>,
}

/// One finding per line; a run without findings is a line with its path and recording only.
pub(super) fn lines(reports: &[Report]) -> serde_json::Result<String> {
    let mut text = String::new();
    for report in reports {
        let findings = report.findings.iter().map(Some);
        let none = report.findings.is_empty().then_some(None);
        for finding in findings.chain(none) {
            let line =
                Line { run: &report.run.path, recording: phrases::recording(report), finding };
            text.push_str(&sanitize_json(&serde_json::to_string(&line)?));
            text.push('\n');
        }
    }
    Ok(text)
}
