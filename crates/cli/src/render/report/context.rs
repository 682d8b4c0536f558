//! Rules and options that the renderers need besides the reports.

use std::path::PathBuf;

use page::StepLanes;
use trace_advisor::advisor::{BaselineState, Finding, Severity};
use trace_advisor::{Report, RuleSet};

/// Rules and options for rendering reports.
pub(crate) struct ReportContext<'a> {
    /// The rules that were evaluated.
    pub(crate) rules: &'a RuleSet,
    /// Whether formats for people include info findings, notes about the trace, passed rules and evidence.
    pub(crate) show_all: bool,
    /// Whether text shows all findings in full, not only the first screen.
    pub(crate) is_full: bool,
    /// The lowest severity that fails the check.
    pub(crate) fail_on: Option<Severity>,
    /// The options of the command line that decide what the report says.
    pub(crate) command_options: Vec<String>,
    /// The current folder: reports for reviews show paths relative to it.
    pub(crate) folder: PathBuf,
    /// With `--explain`: the options for the commands that run the queries behind the numbers.
    pub(crate) query_options: Option<Vec<String>>,
    /// With `--full`: the timeline for the first finding of each report, where there is one.
    pub(crate) timelines: Vec<Option<StepLanes>>,
}

impl ReportContext<'_> {
    /// The findings that formats for people show.
    pub(crate) fn shown<'r>(&self, report: &'r Report) -> impl Iterator<Item = &'r Finding> {
        let all = self.show_all;
        report.findings.iter().filter(move |f| all || (!f.is_note() && f.severity > Severity::Info))
    }

    /// Whether a finding makes the check fail.
    pub(super) fn fails(&self, finding: &Finding) -> bool {
        let counts = finding.baseline_state.is_none_or(BaselineState::is_regression);
        counts && !finding.is_note() && self.fail_on.is_some_and(|limit| finding.severity >= limit)
    }
}
