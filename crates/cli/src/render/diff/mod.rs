//! Comparisons of two runs, one file per format. What several formats say is in `phrases` and `sections`.

mod context;
mod github;
mod junit;
mod markdown;
mod phrases;
mod sections;
mod text;

use std::io::{self, Write};

use crate::console::Terminal;

pub(crate) use context::DiffReport;

/// Writes the comparison as text: the overview or, if `by_level`, the rows of each level.
pub(crate) fn write_text(
    report: &DiffReport<'_>,
    by_level: bool,
    terminal: Option<Terminal>,
    out: &mut dyn Write,
) -> io::Result<()> {
    text::write(report, by_level, terminal, out)
}

/// The comparison as a comment on a pull request.
pub(crate) fn markdown(report: &DiffReport<'_>) -> String {
    markdown::comment(report)
}

/// The comparison as annotations of GitHub Actions.
pub(crate) fn github(report: &DiffReport<'_>) -> String {
    github::annotations(report)
}

/// The comparison as a JUnit test suite.
pub(crate) fn junit(report: &DiffReport<'_>) -> String {
    junit::suite(report)
}
