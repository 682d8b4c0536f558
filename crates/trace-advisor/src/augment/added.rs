//! Counts of added events.

/// Counts of the events added to a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Counter tracks.
    pub counters: usize,
    /// Values of counters.
    pub samples: usize,
    /// Segments of the critical path.
    pub segments: usize,
    /// Arrows along it.
    pub arrows: usize,
    /// Findings that concern the rank.
    pub findings: usize,
    /// Time ranges that show them.
    pub ranges: usize,
    /// Events in all.
    pub events: u64,
}
