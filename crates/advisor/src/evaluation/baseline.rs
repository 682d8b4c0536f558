//! Compares a report with an earlier one: findings that are new, gone, better and worse.

use std::cmp::Ordering;

use serde::Deserialize;

use crate::evaluation::baseline_comparison::{
    BaselineComparison, GoneFinding, StillUnknown, UnknownReason,
};
use crate::language::rule::TRACE_QUALITY;
use crate::language::ruleset::RuleSet;
use crate::language::severity::Severity;
use crate::report::finding::{BaselineState, Finding};
use crate::report::report::{REPORT_SCHEMA_VERSION, Report};

/// A value that changes by no more than this share of itself is unchanged: two runs of the same program
/// differ by as much.
const SAME_VALUE_RATIO: f64 = 0.10;

/// First schema version whose gains are intervals from re-timing.
const FIRST_VERSION_OF_GAINS: u64 = 3;

/// A gain that changes by no more than this many percentage points of step time is unchanged.
const SAME_GAIN_PCT: f64 = 1.0;

/// Earlier reports, as `advisor check --format json` wrote them.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// One per run, in the order of the file.
    pub reports: Vec<BaselineReport>,
}

/// The parts of an earlier report that are compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BaselineReport {
    run: OldRun,
    findings: Vec<OldFinding>,
    /// Whether gains are those of this version.
    #[serde(skip)]
    has_gains: bool,
    #[serde(default)]
    passed: Vec<String>,
    #[serde(default)]
    unknown: Vec<OldUnknown>,
    #[serde(default)]
    ignored: Vec<OldCode>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldRun {
    path: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldFinding {
    code: String,
    name: String,
    category: String,
    severity: Severity,
    title: String,
    metric: String,
    value: Option<f64>,
    unit: String,
    scope: String,
    gain: OldGain,
    fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldGain {
    high_pct: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldUnknown {
    code: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldCode {
    code: String,
}

impl Baseline {
    /// Parses the output of `advisor check --format json`, for one run or several. Reads every schema
    /// version up to [`REPORT_SCHEMA_VERSION`]. Gains are compared from version 3 on: before, they were estimated
    /// in another way.
    ///
    /// # Errors
    /// The reason why the text is not such a report.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
        let list = match json {
            serde_json::Value::Array(list) => list,
            one => vec![one],
        };
        if list.is_empty() {
            return Err("it has no report".to_owned());
        }
        let reports = list.into_iter().map(|json| {
            let version = json["schema_version"].as_u64();
            match version {
                Some(version) if !(1..=u64::from(REPORT_SCHEMA_VERSION)).contains(&version) => {
                    return Err(format!(
                        "it has schema_version {version}, and this program reads versions 1 to \
                         {REPORT_SCHEMA_VERSION}"
                    ));
                }
                Some(_) if json["findings"].is_array() && json["run"].is_object() => {}
                _ => return Err("it does not contain reports".to_owned()),
            }
            let mut report: BaselineReport = serde_json::from_value(json)
                .map_err(|e| format!("a report in it is invalid: {e}"))?;
            report.has_gains = version >= Some(FIRST_VERSION_OF_GAINS);
            Ok(report)
        });
        Ok(Self { reports: reports.collect::<Result<_, _>>()? })
    }

    /// The report to compare run `index` of `count` with: the one with the same path; else the only one,
    /// or the one at the same index if there are as many.
    pub fn of(&self, path: &str, index: usize, count: usize) -> Option<&BaselineReport> {
        let same = self.reports.iter().find(|r| r.run.path == path);
        same.or_else(|| match self.reports.as_slice() {
            [only] => Some(only),
            reports if reports.len() == count => reports.get(index),
            _ => None,
        })
    }
}

impl BaselineReport {
    /// The earlier state of `finding`: of the same rule for the same rows; else of the same rule.
    fn before(&self, finding: &Finding) -> Option<&OldFinding> {
        let same = self.findings.iter().find(|old| old.fingerprint == finding.fingerprint);
        same.or_else(|| {
            self.findings.iter().find(|old| old.code == finding.code && old.scope == finding.scope)
        })
    }

    /// The reason why a rule has no finding in the baseline; `None` if it passed.
    fn unknown_reason(&self, code: &str) -> Option<String> {
        if self.passed.iter().any(|c| c == code) || self.findings.iter().any(|f| f.code == code) {
            return None;
        }
        if let Some(unknown) = self.unknown.iter().find(|u| u.code == code) {
            return Some(unknown.reason.clone());
        }
        let ignored = self.ignored.iter().any(|i| i.code == code);
        Some(if ignored { "it was ignored" } else { "the rule was not evaluated" }.to_owned())
    }
}

impl Report {
    /// Compares the report with an earlier one from the file `path`; `rules` are those of this report.
    ///
    /// Findings are matched by fingerprint, then by code and scope. A finding is better or worse if its value
    /// changed by more than 10 %, and its gain by more than one percentage point of step time; without a
    /// gain, the value decides.
    pub fn apply_baseline(&mut self, old: &BaselineReport, path: &str, rules: &RuleSet) {
        let mut unknown_before = Vec::new();
        for finding in &mut self.findings {
            let state = match old.before(finding) {
                Some(before) => state(finding, before, old.has_gains, rules),
                None => BaselineState::New,
            };
            finding.baseline_state = Some(state);
            if state == BaselineState::New
                && let Some(reason) = old.unknown_reason(&finding.code)
            {
                unknown_before.push(UnknownReason { code: finding.code.clone(), reason });
            }
        }
        let (mut gone, mut still_unknown) = (Vec::new(), Vec::new());
        for before in &old.findings {
            let hidden = self.below_min_gain.iter().any(|f| f.code == before.code);
            let is_here = hidden || self.findings.iter().any(|f| f.code == before.code);
            if is_here || before.category == TRACE_QUALITY {
                continue;
            }
            let was = GoneFinding::from(before);
            if self.passed.contains(&before.code) {
                gone.push(was);
                continue;
            }
            let unknown = self.unknown.iter().find(|u| u.code == before.code);
            let ignored = self.ignored.iter().find(|i| i.code == before.code);
            let reason = match (unknown, ignored) {
                (Some(unknown), _) => unknown.reason.clone(),
                (_, Some(ignored)) => format!("it is ignored: {}", ignored.reason),
                _ => "the rule was not evaluated".to_owned(),
            };
            still_unknown.push(StillUnknown { was, reason });
        }
        let count = |state| self.advice().filter(|f| f.baseline_state == Some(state)).count();
        self.baseline = Some(BaselineComparison {
            path: path.to_owned(),
            run_path: old.run.path.clone(),
            new: count(BaselineState::New),
            unchanged: count(BaselineState::Unchanged),
            better: count(BaselineState::Better),
            worse: count(BaselineState::Worse),
            gone,
            still_unknown,
            unknown_before,
        });
    }
}

impl From<&OldFinding> for GoneFinding {
    fn from(old: &OldFinding) -> Self {
        Self {
            code: old.code.clone(),
            name: old.name.clone(),
            severity: old.severity,
            title: old.title.clone(),
            value: old.value,
            unit: old.unit.clone(),
            gain_high_pct: old.gain.high_pct,
            fingerprint: old.fingerprint.clone(),
        }
    }
}

fn state(finding: &Finding, old: &OldFinding, has_gains: bool, rules: &RuleSet) -> BaselineState {
    // Values of different columns cannot be compared.
    let same_metric = finding.metric == old.metric && finding.unit == old.unit;
    let value = old.value.filter(|_| same_metric).map(|was| {
        let moved = (finding.value - was).abs() > SAME_VALUE_RATIO * was.abs();
        if moved { badness(finding, was, rules) } else { Ordering::Equal }
    });
    let old_pct = old.gain.high_pct.filter(|_| has_gains);
    let gain = finding.gain.high_pct.zip(old_pct).map(|(now, was)| {
        let moved = (now - was).abs() > SAME_GAIN_PCT;
        if moved { now.total_cmp(&was) } else { Ordering::Equal }
    });
    let change = match (value, gain) {
        (Some(value), Some(gain)) if value != gain => Ordering::Equal,
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => Ordering::Equal,
    };
    match change {
        Ordering::Greater => BaselineState::Worse,
        Ordering::Less => BaselineState::Better,
        Ordering::Equal => BaselineState::Unchanged,
    }
}

/// Compares the value with `was`: the one further beyond the finding's threshold is greater.
fn badness(finding: &Finding, was: f64, rules: &RuleSet) -> Ordering {
    let threshold = rules.find(&finding.code).and_then(|rule| {
        let column = finding.metric.rsplit('.').next()?;
        let check = rule.checks.iter().find(|c| c.column == column)?;
        check.thresholds.iter().map(|(_, t)| t).find(|t| t.text == finding.threshold)
    });
    let Some(threshold) = threshold else { return Ordering::Equal };
    match (threshold.margin(finding.value), threshold.margin(was)) {
        (Some(now), Some(before)) => now.total_cmp(&before),
        (Some(_), None) => Ordering::Greater,
        (None, _) => Ordering::Equal,
    }
}
