//! The scales of findings and fixes: severity, confidence, effort, the source of the gain, and the severity that fails a check.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Severity of a finding, ascending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; hidden in text output by default.
    Info,
    /// Worth fixing on occasion.
    Low,
    /// Worth a task.
    Medium,
    /// Costs a large part of the run.
    High,
    /// Most of the run is lost.
    Critical,
}

impl Severity {
    /// All severities, worst first.
    pub const WORST_FIRST: [Self; 5] =
        [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info];

    /// As written in rule files and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// The inverse of [`Severity::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::WORST_FIRST.into_iter().find(|s| s.as_str() == text)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Confidence in a finding, ascending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A rule of thumb, or the trace lacks the data that would settle it.
    Low,
    /// Modeled from measured numbers.
    Medium,
    /// Measured directly.
    High,
}

impl Confidence {
    /// Weight of a percent of estimated gain in the order of findings.
    pub fn weight(self) -> f64 {
        match self {
            Self::Low => 0.5,
            Self::Medium => 0.8,
            Self::High => 1.0,
        }
    }

    /// One level down; low stays low.
    #[must_use]
    pub fn lowered(self) -> Self {
        match self {
            Self::High => Self::Medium,
            Self::Medium | Self::Low => Self::Low,
        }
    }

    /// As written in rule files and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The inverse of [`Confidence::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High].into_iter().find(|c| c.as_str() == text)
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Effort of a fix, ascending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// An option or an argument.
    Low,
    /// Some lines of the program.
    #[default]
    Medium,
    /// Another design, or new constraints on the program.
    High,
}

impl Effort {
    /// Factor of the gain in the choice of the next fix: each level of effort is worth twice the saving.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Low => 1.0,
            Self::Medium => 0.5,
            Self::High => 0.25,
        }
    }

    /// As written in rule files and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Severity from which a finding fails a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Every finding fails the check
    Info,
    /// Low and worse
    Low,
    /// Medium and worse
    Medium,
    /// High and critical
    High,
    /// Critical only
    Critical,
    /// Findings never fail the check
    Never,
}

impl FailOn {
    /// The lowest severity that fails.
    pub fn severity(self) -> Option<Severity> {
        match self {
            Self::Info => Some(Severity::Info),
            Self::Low => Some(Severity::Low),
            Self::Medium => Some(Severity::Medium),
            Self::High => Some(Severity::High),
            Self::Critical => Some(Severity::Critical),
            Self::Never => None,
        }
    }
}

/// Source of an estimate of gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum GainMethod {
    /// Lost time was measured; the fix returns it.
    Measured,
    /// From a model of the hardware's limits.
    Roofline,
    /// A rule of thumb.
    Heuristic,
    /// The recording was timed again with the fix.
    Retimed,
    /// No estimate.
    #[default]
    None,
}

#[cfg(test)]
mod tests {
    use super::{Confidence, Severity};

    #[test]
    fn the_scales_are_ordered_and_round_trip() {
        assert!(Severity::WORST_FIRST.is_sorted_by(|a, b| a > b));
        for severity in Severity::WORST_FIRST {
            assert_eq!(Severity::parse(severity.as_str()), Some(severity));
        }
        assert_eq!(Confidence::High.lowered().lowered().lowered(), Confidence::Low);
        assert!(Confidence::Low.weight() < Confidence::Medium.weight());
    }
}
