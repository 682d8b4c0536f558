//! Target for the whole path from a trace to the report: values of views are plausible, and the report is well-formed.

use std::ffi::OsString;
use std::sync::Arc;

use arrow::array::RecordBatch;
use cli::embedding::{CheckOptions, CheckedRun, Style, WorkProgress};
use trace_advisor::query::{Column, ViewDef};
use trace_advisor::{Run, analyses};
use trace_model::Unit;
use trace_model::text::is_dangerous;

use crate::tables::{assert_finite, assert_range, folder};

/// Prefixes of views that reproduce the results of another tool. Their values only have to be finite.
const UNBOUNDED: &[&str] = &["hta_"];

/// Reads a trace, computes all views, checks it, and renders the report.
pub(crate) fn run(bytes: &[u8]) {
    let folder = folder(&[("trace.json", bytes)]);
    let path = folder.path().join("trace.json");
    let options = [OsString::from("--no-cache"), OsString::from("--full")];
    let options = CheckOptions::parse(&path, &options).expect("options of `advisor check`");
    let Ok(run) = options.open(&WorkProgress::of_check()) else { return };
    let run = Arc::new(run);
    let checked = options.check(Arc::clone(&run)).unwrap_or_else(|e| panic!("no report: {e:#}"));
    check_report(&checked);
    for view in analyses::catalog().views() {
        check_view(&run, view);
    }
}

fn check_report(checked: &CheckedRun) {
    let render = |format, options: &[OsString], style| {
        checked.render(format, options, style).expect("a report")
    };
    let json = render("json", &[], Style::default());
    serde_json::from_str::<serde_json::Value>(&json).expect("a report that is JSON");
    assert!(!json.contains(is_control), "control characters in the JSON report");
    // Without color, the renderer would strip escape sequences from names along with its own.
    let full = [OsString::from("--full")];
    let text = render("text", &full, Style { has_color: true, terminal: None });
    let colors = text.split("\u{1b}[").enumerate().map(|(at, part)| match part.find('m') {
        Some(end) if at > 0 && part[..end].bytes().all(|b| matches!(b, b'0'..=b'9' | b';')) => {
            &part[end + 1..]
        }
        _ if at > 0 => panic!("an escape sequence that is no color: {part:?}"),
        _ => part,
    });
    let text: String = colors.collect();
    assert!(!text.contains(is_control), "control characters in the text report: {text:?}");
}

fn is_control(c: char) -> bool {
    c != '\n' && is_dangerous(c)
}

fn check_view(run: &Run, view: &ViewDef) {
    let name = &view.name;
    let batches = run.analyze(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    for batch in &batches {
        for column in &view.columns {
            check_column(name, column, batch);
        }
    }
}

fn check_column(view: &str, column: &Column, batch: &RecordBatch) {
    let what = format!("{view}.{}", column.name);
    let values = batch.column_by_name(&column.name).unwrap_or_else(|| panic!("{what} is missing"));
    assert_finite(values, &what);
    let Some((low, high)) = bounds(view, column) else { return };
    assert_range(values, &what, low, high);
}

/// Returns the range of values that a column may have, by its unit.
fn bounds(view: &str, column: &Column) -> Option<(f64, f64)> {
    /// Tolerance for rounding errors in sums of shares.
    const ROUNDING: f64 = 1e-9;
    // Descriptions of signed differences mention negative values.
    let is_signed = column.doc.contains("negative");
    if is_signed || UNBOUNDED.iter().any(|start| view.starts_with(start)) {
        return None;
    }
    match column.unit {
        Unit::Ns => Some((0.0, f64::INFINITY)),
        // A share is a part of a whole; other ratios compare two quantities and can exceed 1.
        Unit::Ratio if column.doc.contains("share of") => Some((-ROUNDING, 1.0 + ROUNDING)),
        Unit::Ratio => Some((-ROUNDING, f64::INFINITY)),
        _ if column.name.ends_with("_pct") => Some((-ROUNDING, 100.0 + ROUNDING)),
        _ => None,
    }
}
