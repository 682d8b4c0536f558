//! Several runs side by side, one line each.

use std::io::{self, Write};

use page::short_names;
use trace_advisor::Report;
use trace_advisor::trace_model::time::human;

use super::phrases;
use crate::render::columns::{Cell, Column, Kind, Line, Table};
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize;
use crate::render::value::plural;

/// Writes the runs with their step, what the plan saves, and the finding to start with.
pub(crate) fn write_runs(
    reports: &[Report],
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let paths: Vec<&str> = reports.iter().map(|report| report.run.path.as_str()).collect();
    let line = |(name, report): (String, &Report)| {
        let cells = [name, step(report), saves(report), first(report)];
        Line::Cells(cells.map(|text| Cell::new(sanitize(&text))).into())
    };
    let columns = [
        ("run", Kind::Name),
        ("a step", Kind::Number(1)),
        ("fixes save", Kind::Number(2)),
        ("start with", Kind::Number(0)),
    ];
    let table = Table {
        columns: columns.map(|(title, kind)| Column { title, kind }).into(),
        lines: short_names(&paths).into_iter().zip(reports).map(line).collect(),
    };
    writeln!(out, "\n{}", plural(reports.len(), "run"))?;
    table.write(Some(layout.columns), out)
}

fn step(report: &Report) -> String {
    report.headline.step_ms.map_or_else(|| "-".to_owned(), |ms| human(ms * 1e6))
}

fn saves(report: &Report) -> String {
    let headline = &report.headline;
    let range = headline.gain_low_pct.zip(headline.gain_high_pct);
    range.map_or_else(|| "-".to_owned(), |(low, high)| phrases::percent_range(low, high))
}

fn first(report: &Report) -> String {
    report.first_finding().map_or_else(|| "-".to_owned(), phrases::tag)
}
