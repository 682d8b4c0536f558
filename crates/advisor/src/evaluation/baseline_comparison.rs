//! The result of comparing a report with a baseline, as it stands in the report.

use schemars::JsonSchema;
use serde::Serialize;

use crate::language::severity::Severity;

/// A report compared with a baseline. Counts are of findings about the program; notes about the trace have a
/// state, but are not counted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BaselineComparison {
    /// Path of the baseline file.
    pub path: String,
    /// Path of the run in the baseline.
    pub run_path: String,
    /// Findings that are not in the baseline.
    pub new: usize,
    /// Findings that did not change.
    pub unchanged: usize,
    /// Findings that got better.
    pub better: usize,
    /// Findings that got worse.
    pub worse: usize,
    /// Findings of the baseline whose rules pass now.
    pub gone: Vec<GoneFinding>,
    /// Findings of the baseline whose rules have no verdict now, or are not evaluated.
    pub still_unknown: Vec<StillUnknown>,
    /// Findings that count as new although their rules have no verdict in the baseline.
    pub unknown_before: Vec<UnknownReason>,
}

/// A finding of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GoneFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Severity in the baseline.
    pub severity: Severity,
    /// Title.
    pub title: String,
    /// Value, in `unit`.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// Percent of step time that a fix could have saved.
    pub gain_high_pct: Option<f64>,
    /// Fingerprint.
    pub fingerprint: String,
}

/// A finding of the baseline that may or may not be gone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StillUnknown {
    /// The finding.
    #[serde(flatten)]
    pub was: GoneFinding,
    /// Reason.
    pub reason: String,
}

/// A rule without a verdict in the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnknownReason {
    /// Code.
    pub code: String,
    /// Reason.
    pub reason: String,
}
