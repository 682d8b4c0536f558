//! JSON and JSON lines: the report as it is. `docs/report.schema.json` describes it.

use serde::Serialize;
use trace_advisor::advisor::Finding;

use super::Checked;
use crate::render::sanitize::sanitize_json;

/// One run is one object: the promise of the format. Several are an array of them.
pub(super) fn document(checked: &Checked<'_>) -> serde_json::Result<String> {
    let text = match checked.reports {
        [report] => serde_json::to_string_pretty(report)?,
        reports => serde_json::to_string_pretty(reports)?,
    };
    Ok(sanitize_json(&text) + "\n")
}

/// A finding with the run it is of.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// One finding a line.
pub(super) fn lines(checked: &Checked<'_>) -> serde_json::Result<String> {
    let mut text = String::new();
    for report in checked.reports {
        for finding in &report.findings {
            let line = Line { run: &report.run.path, finding };
            text.push_str(&sanitize_json(&serde_json::to_string(&line)?));
            text.push('\n');
        }
    }
    Ok(text)
}
