//! Several runs side by side, one line each.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

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
    let first = report.findings.iter().find(|f| report.headline.first.as_ref() == Some(&f.code));
    first.map_or_else(|| "-".to_owned(), phrases::tag)
}

/// The paths without the folders that all of them begin with.
fn short_names(paths: &[&str]) -> Vec<String> {
    let parts = |path: &str| {
        Path::new(path)
            .components()
            .map(Component::as_os_str)
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let paths: Vec<Vec<_>> = paths.iter().map(|path| parts(path)).collect();
    let Some((first, others)) = paths.split_first() else { return Vec::new() };
    let is_common = |at: &usize| others.iter().all(|path| path.get(*at) == first.get(*at));
    // The last part of a path stays, also if another path is below that path.
    let shortest = paths.iter().map(Vec::len).min().unwrap_or(0);
    let common = (0..shortest.saturating_sub(1)).take_while(is_common).count();
    paths
        .iter()
        .map(|path| path[common..].iter().collect::<PathBuf>().display().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::short_names;

    #[test]
    fn names_are_paths_without_what_all_begin_with() {
        assert_eq!(short_names(&["/a/b/run1", "/a/b/run2"]), ["run1", "run2"]);
        assert_eq!(short_names(&["/a/b/run1", "/a/c/run1"]), ["b/run1", "c/run1"]);
        assert_eq!(short_names(&["a/run", "a/run/old"]), ["run", "run/old"]);
        assert_eq!(short_names(&["run", "run"]), ["run", "run"]);
        assert_eq!(short_names(&["x", "y/z"]), ["x", "y/z"]);
        assert_eq!(short_names(&[]), [""; 0]);
    }
}
