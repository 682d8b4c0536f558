//! How often each rule fires over many runs: what tells a threshold that means something from one that
//! is always met.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::grade::Severity;
use crate::report::Report;
use crate::ruleset::RuleSet;

/// Verdicts of each rule, counted over runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rates {
    /// Runs that were judged.
    pub runs: usize,
    /// Those of them that count as healthy.
    pub healthy_runs: usize,
    /// One entry a rule, by code.
    pub rules: Vec<RuleRate>,
}

/// Verdicts of one rule, counted over runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRate {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Runs on which it fires, by severity; severities that never come up are absent.
    pub fired: BTreeMap<Severity, usize>,
    /// Runs on which it has something to judge and nothing to say.
    pub passed: usize,
    /// Runs on which it cannot judge.
    pub unknown: usize,
    /// Runs on which its finding is silenced.
    pub ignored: usize,
    /// Of `healthy`, runs on which it fires above info.
    pub healthy_fired: usize,
    /// Healthy runs that it judges.
    pub healthy: usize,
}

impl RuleRate {
    /// Runs on which it fires with more than an info.
    pub fn above_info(&self) -> usize {
        self.fired.range(Severity::Low..).map(|(_, count)| count).sum()
    }

    /// Runs on which it comes to a verdict.
    pub fn judged(&self) -> usize {
        self.fired.values().sum::<usize>() + self.passed + self.ignored
    }

    /// Share of the runs it judges on which it fires with more than an info; `None` if it judges none.
    pub fn share(&self) -> Option<f64> {
        (self.judged() > 0).then(|| self.above_info() as f64 / self.judged() as f64)
    }
}

impl Rates {
    /// No run yet.
    pub fn new(rules: &RuleSet) -> Self {
        let rule = |rule: &crate::Rule| RuleRate {
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

    /// Counts what a report on one more run says.
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
