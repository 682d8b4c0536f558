//! A comparison of two runs, judged by the rules about comparisons.

use serde::Serialize;
use trace_model::MetricTable;

use crate::evaluate::StepTimes;
use crate::expr;
use crate::finding::{Finding, Queries};
use crate::rank::rank;
use crate::report::{IgnoredFinding, Judged, ReportWarning, UnknownRule, judge};
use crate::ruleset::RuleSet;

/// What the rules found in a comparison. The fields are those of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Findings: what contains others first, then the most useful.
    pub findings: Vec<Finding>,
    /// Codes of rules that had something to judge and nothing to say.
    pub passed: Vec<String>,
    /// Rules that could not judge, with the reason.
    pub unknown: Vec<UnknownRule>,
    /// Findings that the rule files silence.
    pub ignored: Vec<IgnoredFinding>,
    /// Entries of rule files that no longer do anything.
    pub warnings: Vec<ReportWarning>,
}

/// Judges a comparison. `tables`: [`trace_model::COMPARISON_VIEWS`].
pub fn judge_comparison(rules: &RuleSet, tables: &[MetricTable]) -> Comparison {
    let env = expr::environment();
    let steps = StepTimes::default();
    let judged = judge(rules.of_comparisons(), rules, tables, &steps, &env);
    let Judged { mut findings, passed, unknown, ignored, warnings, .. } = judged;
    rank(&mut findings, rules.rules());
    // First that it got slower, then what did.
    findings.sort_by_key(|f| f.gain.within.len());
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
        // The tables are those of this comparison: there is no run to ask.
        finding.sql = Queries::default();
    }
    Comparison { findings, passed, unknown, ignored, warnings }
}
