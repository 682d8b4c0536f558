//! A report against an earlier one: what is new, gone, better and worse.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::grade::Severity;
use crate::report::{REPORT_SCHEMA_VERSION, Report};
use crate::rule::TRACE_QUALITY;
use crate::ruleset::RuleSet;

/// A value that moved by no more than this share of itself did not move: two runs of the same program
/// differ as much.
const SAME_VALUE_RATIO: f64 = 0.10;

/// A gain that moved by no more than so many points of step time did not move.
const SAME_GAIN_PCT: f64 = 1.0;

/// What became of a finding since the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaselineState {
    /// The rule found nothing then.
    New,
    /// As it was, or not clearly different.
    Unchanged,
    /// Its value got better by more than 10 % of itself, and its gain by more than a point of step time.
    Better,
    /// Its value got worse by more than 10 % of itself, and its gain by more than a point of step time.
    Worse,
}

impl BaselineState {
    /// As written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Better => "better",
            Self::Worse => "worse",
        }
    }

    /// Whether it was not there, or not as bad.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::New | Self::Worse)
    }
}

/// Earlier reports, as `advisor check --format json` wrote them.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// One a run, in the order of the file.
    pub reports: Vec<BaselineReport>,
}

/// An earlier report: what of it is compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BaselineReport {
    run: OldRun,
    findings: Vec<OldFinding>,
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

/// A report against a baseline. Counts are of findings about the program; notes about the trace have a state, but
/// are not counted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgainstBaseline {
    /// The file.
    pub path: String,
    /// Path of the run that its report is about.
    pub run_path: String,
    /// Findings that were not there.
    pub new: usize,
    /// Findings that are as they were.
    pub unchanged: usize,
    /// Findings that got better.
    pub better: usize,
    /// Findings that got worse.
    pub worse: usize,
    /// Findings that are no longer there: their rules pass now.
    pub gone: Vec<GoneFinding>,
    /// Findings that may still be there: their rules could not judge, or were not asked.
    pub cannot_tell: Vec<Undecided>,
    /// Findings counted as new, although the baseline did not judge their rules.
    pub unjudged_before: Vec<Unjudged>,
}

/// A finding of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GoneFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// How bad it was.
    pub severity: Severity,
    /// Its title.
    pub title: String,
    /// Its value, in `unit`.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// Percent of step time that a fix could have returned.
    pub gain_high_pct: Option<f64>,
    /// Its fingerprint.
    pub fingerprint: String,
}

/// A finding of the baseline of which it cannot be told whether it is gone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Undecided {
    /// What it was.
    #[serde(flatten)]
    pub was: GoneFinding,
    /// Why it cannot be told.
    pub reason: String,
}

/// A rule that the baseline did not judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unjudged {
    /// Code.
    pub code: String,
    /// Why.
    pub reason: String,
}

impl Baseline {
    /// Reads what `advisor check --format json` wrote, of one run or of several.
    ///
    /// # Errors
    /// Why the text is no such report, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
        let list = match json {
            serde_json::Value::Array(list) => list,
            one => vec![one],
        };
        if list.is_empty() {
            return Err("it holds no report".to_owned());
        }
        let reports = list.into_iter().map(|json| {
            let version = json["schema_version"].as_u64();
            match version {
                Some(version) if version != u64::from(REPORT_SCHEMA_VERSION) => {
                    return Err(format!(
                        "it has version {version} of the format, and {REPORT_SCHEMA_VERSION} can be read"
                    ));
                }
                Some(_) if json["findings"].is_array() && json["run"].is_object() => {}
                _ => return Err("it holds something else than reports".to_owned()),
            }
            serde_json::from_value(json).map_err(|e| format!("a report in it is damaged: {e}"))
        });
        Ok(Self { reports: reports.collect::<Result<_, _>>()? })
    }

    /// The report to hold run `index` of `count` against: of the same path; else the only one, or the
    /// one at the same place of as many.
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
    /// The finding that `finding` was: of the same rule for the same rows; else of the same rule.
    fn before(&self, finding: &Finding) -> Option<&OldFinding> {
        let same = self.findings.iter().find(|old| old.fingerprint == finding.fingerprint);
        same.or_else(|| {
            self.findings.iter().find(|old| old.code == finding.code && old.scope == finding.scope)
        })
    }

    /// Why a rule found nothing then, where it is not that it passed.
    fn unjudged(&self, code: &str) -> Option<String> {
        if self.passed.iter().any(|c| c == code) || self.findings.iter().any(|f| f.code == code) {
            return None;
        }
        if let Some(unknown) = self.unknown.iter().find(|u| u.code == code) {
            return Some(unknown.reason.clone());
        }
        let ignored = self.ignored.iter().any(|i| i.code == code);
        Some(if ignored { "it was ignored" } else { "the rule was not asked" }.to_owned())
    }
}

impl Report {
    /// Holds the report against an earlier one; `path` is the file that is from, `rules` those that made
    /// this report.
    ///
    /// Findings are matched by fingerprint, then by code and scope. A finding is better or worse if its value
    /// moved by more than 10 % of what it was, and the gain by more than one point of step time; where there is no
    /// gain, the value decides.
    pub fn hold_against(&mut self, old: &BaselineReport, path: &str, rules: &RuleSet) {
        let mut unjudged_before = Vec::new();
        for finding in &mut self.findings {
            let state = match old.before(finding) {
                Some(before) => state(finding, before, rules),
                None => BaselineState::New,
            };
            finding.baseline_state = Some(state);
            if state == BaselineState::New
                && let Some(reason) = old.unjudged(&finding.code)
            {
                unjudged_before.push(Unjudged { code: finding.code.clone(), reason });
            }
        }
        let (mut gone, mut cannot_tell) = (Vec::new(), Vec::new());
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
                _ => "the rule was not asked".to_owned(),
            };
            cannot_tell.push(Undecided { was, reason });
        }
        let count = |state| self.advice().filter(|f| f.baseline_state == Some(state)).count();
        self.baseline = Some(AgainstBaseline {
            path: path.to_owned(),
            run_path: old.run.path.clone(),
            new: count(BaselineState::New),
            unchanged: count(BaselineState::Unchanged),
            better: count(BaselineState::Better),
            worse: count(BaselineState::Worse),
            gone,
            cannot_tell,
            unjudged_before,
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

fn state(finding: &Finding, old: &OldFinding, rules: &RuleSet) -> BaselineState {
    // Only a value of the same column can be held against another.
    let same_metric = finding.metric == old.metric && finding.unit == old.unit;
    let value = old.value.filter(|_| same_metric).map(|was| {
        let moved = (finding.value - was).abs() > SAME_VALUE_RATIO * was.abs();
        if moved { badness(finding, was, rules) } else { Ordering::Equal }
    });
    let gain = finding.gain.high_pct.zip(old.gain.high_pct).map(|(now, was)| {
        let moved = (now - was).abs() > SAME_GAIN_PCT;
        if moved { now.total_cmp(&was) } else { Ordering::Equal }
    });
    let became = match (value, gain) {
        (Some(value), Some(gain)) if value != gain => Ordering::Equal,
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => Ordering::Equal,
    };
    match became {
        Ordering::Greater => BaselineState::Worse,
        Ordering::Less => BaselineState::Better,
        Ordering::Equal => BaselineState::Unchanged,
    }
}

/// How the value stands to `was`, the one further beyond the finding's threshold being the greater.
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
