//! Runs the tests of rules: rows with their expected verdicts.

use std::fmt;

use serde::Serialize;
use trace_model::{MetricTable, Unit, Value};

use crate::evaluation::evaluate_rule::{RuleVerdict, StepTimes, evaluate_rule};
use crate::evaluation::run_traits::RunTraits;
use crate::language::expr;
use crate::language::rule::{Rule, Test};
use crate::language::ruleset::{Inactive, RuleSet};
use crate::report::finding::Finding;

/// Results of the rules' own tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestRun {
    /// Enabled rules, selected or not.
    pub rules: usize,
    /// Number of tests.
    pub run: usize,
    /// Rules without tests, and rules whose tests no longer apply because a later file changes the thresholds
    /// or conditions.
    pub untested: Vec<String>,
    /// Tests that failed.
    pub failures: Vec<TestFailure>,
}

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestFailure {
    /// Code of the rule.
    pub code: String,
    /// Name of the rule.
    pub name: String,
    /// `file:line` of the test.
    pub at: String,
    /// Expected and actual result.
    pub message: String,
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}: {}", self.at, self.code, self.name, self.message)
    }
}

impl RuleSet {
    /// Runs each rule's own tests.
    pub fn test(&self) -> TestRun {
        let mut result = TestRun { rules: 0, run: 0, untested: Vec::new(), failures: Vec::new() };
        for rule in self.all().iter().filter(|r| self.inactive(r) != Some(Inactive::Disabled)) {
            result.rules += 1;
            if rule.tests.is_empty() {
                result.untested.push(rule.code.clone());
            }
            for test in &rule.tests {
                result.run += 1;
                if let Err(message) = run(rule, test) {
                    result.failures.push(TestFailure {
                        code: rule.code.clone(),
                        name: rule.name.clone(),
                        at: test.at.clone(),
                        message,
                    });
                }
            }
        }
        result
    }
}

fn run(rule: &Rule, test: &Test) -> Result<(), String> {
    let env = expr::environment();
    let table = table(rule, test);
    let traits = RunTraits::of_test(test, rule.is_comparison());
    let verdict = evaluate_rule(rule, Some(&table), &StepTimes::default(), &traits, &env);
    let got = match &verdict {
        RuleVerdict::Passed => "pass".to_owned(),
        RuleVerdict::Unknown { .. } => "unknown".to_owned(),
        RuleVerdict::Fired(finding) => finding.severity.to_string(),
    };
    if got != test.expect {
        let because = match &verdict {
            RuleVerdict::Unknown { reason, .. } => format!(" ({reason})"),
            RuleVerdict::Fired(finding) => format!(" ({})", finding.message),
            RuleVerdict::Passed => String::new(),
        };
        return Err(format!("expected {}, got {got}{because}", test.expect));
    }
    match verdict {
        RuleVerdict::Fired(finding) => check_finding(rule, test, &finding),
        _ => Ok(()),
    }
}

/// The finding of the rule in the row of one of its tests.
pub(crate) fn finding(rule: &Rule, test: &Test) -> Option<Finding> {
    let (env, table) = (expr::environment(), table(rule, test));
    let traits = RunTraits::of_test(test, rule.is_comparison());
    match evaluate_rule(rule, Some(&table), &StepTimes::default(), &traits, &env) {
        RuleVerdict::Fired(finding) => Some(*finding),
        _ => None,
    }
}

fn check_finding(rule: &Rule, test: &Test, finding: &Finding) -> Result<(), String> {
    // A finding shows the error of its texts in brackets; a test reports it.
    let env = expr::environment();
    let table = table(rule, test);
    let row = table.first_row().unwrap_or_default();
    let context = RunTraits::of_test(test, rule.is_comparison()).context(row);
    for text in [&rule.title, &rule.message] {
        text.render(&env, &context).map_err(|e| format!("`{}`: {e}", text.source()))?;
    }
    for part in &rule.advice {
        part.render(&env, &context).map_err(|e| format!("`{}`: {e}", part.source()))?;
    }
    if let Some(expected) = test.expect_gain_pct {
        let got = [finding.gain.low_pct, finding.gain.high_pct].map(|g| g.unwrap_or(0.0));
        if expected.iter().zip(got).any(|(e, g)| (e - g).abs() > 0.05) {
            return Err(format!("expected a gain of {expected:?} percent, got {got:.2?}"));
        }
    }
    match test.expect_confidence {
        Some(expected) if expected != finding.confidence => {
            Err(format!("expected {expected} confidence, got {}", finding.confidence))
        }
        _ => Ok(()),
    }
}

/// A table with one row; columns that the test does not give have no value.
fn table(rule: &Rule, test: &Test) -> MetricTable {
    let columns: Vec<(String, Unit)> = if rule.metric.columns.is_empty() {
        test.columns.keys().map(|name| (name.clone(), Unit::None)).collect()
    } else {
        rule.metric.columns.clone()
    };
    let cell = |name: &String| test.columns.get(name).cloned().unwrap_or(Value::Null);
    let row = columns.iter().map(|(name, _)| cell(name));
    let rows = vec![row.collect()];
    MetricTable { view: rule.table().to_owned(), columns, rows, when_empty: String::new() }
}
