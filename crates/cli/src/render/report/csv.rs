//! CSV: one finding per row, for spreadsheets. A run without findings has a row with its path and recording only.

use trace_advisor::Report;
use trace_advisor::advisor::{BaselineState, Finding};

use super::phrases;
use crate::render::sanitize::sanitize;

const COLUMNS: [&str; 32] = [
    "run",
    "position",
    "code",
    "name",
    "category",
    "severity",
    "confidence",
    "title",
    "message",
    "metric",
    "value",
    "unit",
    "threshold",
    "threshold_at",
    "scope",
    "worst",
    "ranks",
    "fired",
    "passed",
    "unknown",
    "gain_low_pct",
    "gain_high_pct",
    "gain_ms_per_step",
    "gain_method",
    "source",
    "ts_ns",
    "dur_ns",
    "advice",
    "fingerprint",
    "sql",
    "baseline_state",
    "recording",
];

/// The findings of all runs.
pub(super) fn rows(reports: &[Report]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for report in reports {
        for finding in &report.findings {
            writer.write_record(row(report, finding))?;
        }
        if report.findings.is_empty() {
            writer.write_record(row_without_finding(report))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(String::from_utf8(bytes)?)
}

/// Of a run without findings, its path and what the recording is.
fn row_without_finding(report: &Report) -> [String; COLUMNS.len()] {
    COLUMNS.map(|column| match column {
        "run" => text(&report.run.path),
        "recording" => text(&phrases::recording(report).unwrap_or_default()),
        _ => String::new(),
    })
}

fn row(report: &Report, finding: &Finding) -> [String; COLUMNS.len()] {
    let (gain, affected) = (&finding.gain, &finding.affected);
    let ranks: Vec<String> = affected.ranks.iter().map(ToString::to_string).collect();
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    let first = finding.occurrences.as_ref().and_then(|seen| seen.longest.first());
    let range = first
        .map(|m| (m.ts_ns, m.dur_ns))
        .or_else(|| finding.evidence.iter().find_map(|e| Some((e.ts_ns?, e.dur_ns?))));
    let worst = affected.worst.first().map(|row| row.label.as_str()).unwrap_or_default();
    let method = serde_json::to_value(gain.method).ok();
    let method = method.and_then(|m| m.as_str().map(str::to_owned)).unwrap_or_default();
    [
        text(&report.run.path),
        finding.position.to_string(),
        text(&finding.code),
        text(&finding.name),
        text(&finding.category),
        finding.severity.to_string(),
        finding.confidence.to_string(),
        text(&finding.title),
        text(&finding.message),
        text(&finding.metric),
        finding.value.to_string(),
        finding.unit.clone(),
        text(&finding.threshold),
        text(&finding.threshold_at),
        finding.scope.clone(),
        text(worst),
        ranks.join(" "),
        affected.fired.to_string(),
        affected.passed.to_string(),
        affected.unknown.to_string(),
        number(gain.low_pct),
        number(gain.high_pct),
        number(gain.ms_per_step),
        method,
        text(&finding.source.join(" ")),
        range.map(|(ts_ns, _)| ts_ns.to_string()).unwrap_or_default(),
        range.map(|(_, dur_ns)| dur_ns.to_string()).unwrap_or_default(),
        text(&finding.advice.join(" | ")),
        finding.fingerprint.clone(),
        text(&finding.sql.value.replace('\n', " ")),
        finding.baseline_state.map(BaselineState::as_str).unwrap_or_default().to_owned(),
        text(&phrases::recording(report).unwrap_or_default()),
    ]
}

/// A text that neither a spreadsheet evaluates as a formula nor a terminal obeys as a command.
fn text(text: &str) -> String {
    let text = sanitize(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if is_formula { format!("'{text}") } else { text.into_owned() }
}
