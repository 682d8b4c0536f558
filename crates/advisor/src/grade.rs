//! The two scales of a finding: how bad, and how sure.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad, ascending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; hidden in text output unless asked for.
    Info,
    /// Worth fixing when one passes by.
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

/// How sure, ascending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A rule of thumb, or the trace lacks what would settle it.
    Low,
    /// Modelled from measured numbers.
    Medium,
    /// Measured directly.
    High,
}

impl Confidence {
    /// What a percent of estimated gain counts for when findings are ranked.
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
