//! Reports, one file a format. All say the same: what they share is in `words`.

mod csv;
mod github;
mod json;
mod junit;
mod markdown;
mod phrases;
mod sarif;
mod text;

#[cfg(test)]
mod tests;

use std::io::Write;

use trace_advisor::advisor::{BaselineState, Finding, Severity};
use trace_advisor::{Report, RuleSet};

use crate::args::ReportFormat;

pub(crate) use text::{finding, run};

/// What was checked, and how it is to be told.
pub(crate) struct Checked<'a> {
    /// Reports of the runs, in the order in which they were given.
    pub(crate) reports: &'a [Report],
    /// The rules they were judged by.
    pub(crate) rules: &'a RuleSet,
    /// Infos, notes about the trace, passed rules and evidence too, for people.
    pub(crate) all: bool,
    /// The least severity that fails the check.
    pub(crate) fail_on: Option<Severity>,
    /// For people: the queries behind the numbers, as commands with these options.
    pub(crate) explain: Option<Vec<String>>,
    /// Of the reports for people, what the run is stands there already, see [`run`].
    pub(crate) is_begun: bool,
}

impl Checked<'_> {
    /// Findings that people are shown.
    fn shown<'r>(&self, report: &'r Report) -> impl Iterator<Item = &'r Finding> {
        let all = self.all;
        report.findings.iter().filter(move |f| all || (!f.is_note() && f.severity > Severity::Info))
    }

    /// Whether a finding makes the check fail.
    fn fails(&self, finding: &Finding) -> bool {
        let counts = finding.baseline_state.is_none_or(BaselineState::is_regression);
        counts && !finding.is_note() && self.fail_on.is_some_and(|limit| finding.severity >= limit)
    }
}

/// Writes the reports. What is not for people has no byte that a terminal would obey, wherever it goes.
pub(crate) fn write(
    checked: &Checked<'_>,
    format: ReportFormat,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let text = match format {
        ReportFormat::Text => return Ok(text::write(checked, out)?),
        ReportFormat::Json => json::document(checked)?,
        ReportFormat::Jsonl => json::lines(checked)?,
        ReportFormat::Markdown => markdown::comment(checked),
        ReportFormat::Sarif => sarif::log(checked)?,
        ReportFormat::Github => github::annotations(checked),
        ReportFormat::Junit => junit::suites(checked),
        ReportFormat::Csv => csv::rows(checked)?,
    };
    Ok(out.write_all(text.as_bytes())?)
}
