//! Counts how often each rule fires over many runs: a threshold that most runs meet says little.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::language::rule::Rule;
use crate::language::ruleset::RuleSet;
use crate::language::severity::Severity;
use crate::report::report::Report;

/// Verdicts of each rule, counted over runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiringRates {
    /// Runs that were evaluated.
    pub runs: usize,
    /// Evaluated runs that are known to be healthy.
    pub healthy_runs: usize,
    /// One entry per rule, by code.
    pub rules: Vec<RuleRate>,
}

/// Verdicts of one rule, counted over runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRate {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Runs on which it fires, by severity; severities that never occur are absent.
    pub fired: BTreeMap<Severity, usize>,
    /// Runs on which it passes.
    pub passed: usize,
    /// Runs on which it has no verdict.
    pub unknown: usize,
    /// Runs on which its finding is ignored.
    pub ignored: usize,
    /// Of `healthy`, runs on which it fires above info.
    pub healthy_fired: usize,
    /// Healthy runs with a verdict.
    pub healthy: usize,
}

impl RuleRate {
    /// Runs on which it fires above info.
    pub fn above_info(&self) -> usize {
        self.fired.range(Severity::Low..).map(|(_, count)| count).sum()
    }

    /// Runs with a verdict.
    pub fn evaluated(&self) -> usize {
        self.fired.values().sum::<usize>() + self.passed + self.ignored
    }

    /// Share of the runs with a verdict on which it fires above info; `None` if there are none.
    pub fn share(&self) -> Option<f64> {
        (self.evaluated() > 0).then(|| self.above_info() as f64 / self.evaluated() as f64)
    }
}

impl FiringRates {
    /// Counts of no runs.
    pub fn new(rules: &RuleSet) -> Self {
        let rule = |rule: &Rule| RuleRate {
            code: rule.code.clone(),
            name: rule.name.clone(),
            fired: BTreeMap::new(),
            passed: 0,
            unknown: 0,
            ignored: 0,
            healthy_fired: 0,
            healthy: 0,
        };
        Self { runs: 0, healthy_runs: 0, rules: rules.rules().iter().map(rule).collect() }
    }

    /// Adds the verdicts of a report.
    pub fn add(&mut self, report: &Report, is_healthy: bool) {
        self.runs += 1;
        self.healthy_runs += usize::from(is_healthy);
        for rule in &mut self.rules {
            let severity = report.findings.iter().find(|f| f.code == rule.code).map(|f| f.severity);
            if let Some(severity) = severity {
                *rule.fired.entry(severity).or_default() += 1;
            } else if report.ignored.iter().any(|i| i.code == rule.code) {
                rule.ignored += 1;
            } else if report.passed.contains(&rule.code) {
                rule.passed += 1;
            } else {
                rule.unknown += 1;
                continue;
            }
            if is_healthy {
                rule.healthy += 1;
                rule.healthy_fired += usize::from(severity > Some(Severity::Info));
            }
        }
    }
}
