//! The properties of a timeline that decide its place in the run.

use std::any::Any;

use trace_model::tables::Steps;
use trace_model::{TableSet, Warning};

use super::trace::Trace;
use crate::run::identity::TraceIdentity;

/// A timeline as the run sees it: in memory, or stored by a sink.
pub(crate) trait Timeline: Any + Send + Sync {
    /// Name of its format.
    fn format(&self) -> &'static str;
    /// Rank, and the entry of the trace that states it.
    fn rank(&self) -> Option<(i32, &'static str)>;
    /// Ranks in the job, as the trace states.
    fn world_size(&self) -> Option<i32>;
    /// Offset from times as written to nanoseconds since 1970; `None` if unknown.
    fn base_time_ns(&self) -> Option<i64>;
    /// Start of the first event and end of the last, as written.
    fn extent(&self) -> (i64, i64);
    /// Entries of the event list.
    fn events(&self) -> u64;
    /// Lanes: host threads and streams.
    fn lane_count(&self) -> i32;
    /// Steps found; 0 if the recording as a whole is the only step.
    fn step_count(&self) -> usize;
    /// Rows of `steps`, with times as written.
    fn steps(&self) -> &Steps;
    /// Bytes of JSON it was read from.
    fn json_bytes(&self) -> u64;
    /// The process and the program that it was recorded from.
    fn identity(&self) -> TraceIdentity;
    /// Problems in its files.
    fn warnings(&self) -> Vec<Warning>;
}

/// Position of a timeline in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) rank: i32,
    /// Added to its times.
    pub(crate) shift_ns: i64,
    /// Absolute time of zero on the run's clock.
    pub(crate) base_time_ns: Option<i64>,
    /// Relation of its times to those of other ranks, as in `ranks.clock`.
    pub(crate) clock: &'static str,
}

impl Timeline for Trace {
    fn format(&self) -> &'static str {
        self.format
    }

    fn rank(&self) -> Option<(i32, &'static str)> {
        self.rank()
    }

    fn world_size(&self) -> Option<i32> {
        self.world_size()
    }

    fn base_time_ns(&self) -> Option<i64> {
        self.base_time_ns()
    }

    fn extent(&self) -> (i64, i64) {
        (self.start_ns, self.end_ns)
    }

    fn events(&self) -> u64 {
        self.events()
    }

    fn lane_count(&self) -> i32 {
        self.columns.lanes.len() as i32
    }

    fn step_count(&self) -> usize {
        self.found.real_steps
    }

    fn steps(&self) -> &Steps {
        &self.found.steps
    }

    fn json_bytes(&self) -> u64 {
        self.json_bytes
    }

    fn identity(&self) -> TraceIdentity {
        TraceIdentity::new(self)
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings()
    }
}

/// The tables of a trace, at its placement.
pub(crate) fn tables_at(trace: Trace, placement: Placement) -> TableSet {
    let Placement { rank, shift_ns, base_time_ns, clock } = placement;
    let mut tables = TableSet::default();
    trace.into_tables(&mut tables, rank, shift_ns, base_time_ns, clock);
    tables
}
