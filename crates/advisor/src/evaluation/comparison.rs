//! Evaluates the rules about comparisons on a comparison of two runs.

use serde::Serialize;
use trace_model::{MetricTable, RunInfo};

use crate::evaluation::evaluate::{EvaluatedRules, evaluate_rules};
use crate::evaluation::evaluate_rule::StepTimes;
use crate::evaluation::prioritize::prioritize;
use crate::evaluation::run_traits::RunTraits;
use crate::language::expr;
use crate::language::ruleset::RuleSet;
use crate::report::finding::{Finding, Queries};
use crate::report::report::{IgnoredFinding, ReportWarning, UnknownRule};

/// The findings of the rules in a comparison. The fields are those of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Findings: those that contain others first, then the most useful.
    pub findings: Vec<Finding>,
    /// Codes of rules that passed.
    pub passed: Vec<String>,
    /// Rules without a verdict, with the reason.
    pub unknown: Vec<UnknownRule>,
    /// Findings that the rule files ignore.
    pub ignored: Vec<IgnoredFinding>,
    /// Ignore entries that no longer have an effect.
    pub warnings: Vec<ReportWarning>,
}

/// Evaluates the rules about comparisons. `tables`: [`trace_model::COMPARISON_VIEWS`].
pub fn evaluate_comparison(
    rules: &RuleSet,
    tables: &[MetricTable],
    before: &RunInfo,
    after: &RunInfo,
) -> Comparison {
    let env = expr::environment();
    let steps = StepTimes::default();
    // There are two runs: what holds for one may not hold for the other.
    let traits = RunTraits::of_comparison(before, after);
    let evaluated = evaluate_rules(rules.comparison_rules(), rules, tables, &steps, &traits, &env);
    let EvaluatedRules { mut findings, passed, unknown, ignored, warnings, .. } = evaluated;
    prioritize(&mut findings, rules.rules());
    // First that the step got slower, then the operators that did.
    findings.sort_by_key(|f| f.gain.within.len());
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.position = i + 1;
        // The tables exist in this comparison only: no run can answer the queries.
        finding.sql = Queries::default();
    }
    Comparison { findings, passed, unknown, ignored, warnings }
}
