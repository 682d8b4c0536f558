//! Compares the reports of one recording that two of PyTorch's trace writers wrote.

use std::collections::BTreeMap;
use std::path::Path;

use trace_advisor::advisor::Finding;
use trace_advisor::{Report, Run, default_rules};

/// Runs of the corpus that PyTorch 2.15 wrote again.
pub(crate) const RUNS: [&str; 5] =
    ["cuda_event_sync", "diff_test", "h100_qwen", "resnet50_workers0", "two_ranks"];

/// A rule whose verdict or number differs on a run, with the reason.
pub(crate) struct Difference {
    pub(crate) run: &'static str,
    pub(crate) code: &'static str,
    pub(crate) why: &'static str,
}

pub(crate) fn is_listed(list: &[Difference], run: &str, code: &str) -> bool {
    list.iter().any(|d| d.run == run && d.code == code && !d.why.is_empty())
}

pub(crate) fn report(path: &Path) -> Report {
    Run::open(path).unwrap().check(&default_rules()).unwrap()
}

/// Returns the verdict of each rule: a severity, pass or unknown.
pub(crate) fn verdicts(report: &Report) -> BTreeMap<&str, String> {
    let findings = report.findings.iter().map(|f| (f.code.as_str(), format!("{:?}", f.severity)));
    let passed = report.passed.iter().map(|code| (code.as_str(), "pass".to_owned()));
    let unknown = report.unknown.iter().map(|rule| (rule.code.as_str(), "unknown".to_owned()));
    findings.chain(passed).chain(unknown).collect()
}

/// Maximum differences between the numbers of two reports.
pub(crate) struct Tolerance {
    /// Maximum relative difference of the number of a finding.
    pub(crate) number_ratio: f64,
    /// Maximum difference of a gain, in percent of a step.
    pub(crate) gain_pct: f64,
}

impl Tolerance {
    /// Returns the findings of both reports whose numbers or gains differ, except for the rules in `known`.
    pub(crate) fn differences(
        &self,
        first: &Report,
        second: &Report,
        known: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let pairs = first.findings.iter().filter(|finding| !known(&finding.code));
        let pairs = pairs.filter_map(|finding| {
            let other = second.findings.iter().find(|other| other.code == finding.code)?;
            Some((finding, other))
        });
        pairs.flat_map(|(finding, other)| self.of_findings(finding, other)).collect()
    }

    fn of_findings(&self, finding: &Finding, other: &Finding) -> Vec<String> {
        let code = &finding.code;
        let mut differences = Vec::new();
        if (finding.value - other.value).abs() > self.number_ratio * finding.value.abs() {
            differences.push(format!("{code}: {} became {}", finding.value, other.value));
        }
        let gains = |f: &Finding| [f.gain.low_pct, f.gain.high_pct];
        for (gain, other) in gains(finding).into_iter().zip(gains(other)) {
            let apart = gain.zip(other).map_or(0.0, |(a, b)| (a - b).abs());
            if gain.is_some() != other.is_some() || apart > self.gain_pct {
                differences.push(format!("{code}: saves {gain:?} became {other:?}"));
            }
        }
        differences
    }
}
