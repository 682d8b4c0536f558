//! What a run needs to know of a timeline to put it in its place among others.

use trace_model::{TableSet, Warning};

use crate::formats::kineto::Trace;

/// A timeline as the run sees it: in memory, or put away already.
pub(crate) trait Timeline: Send {
    /// Rank, and what says so.
    fn rank(&self) -> Option<(i32, &'static str)>;
    /// Ranks in the job, as the trace says.
    fn world_size(&self) -> Option<i32>;
    /// What must be added to times as written to get nanoseconds since 1970; `None` if unknown.
    fn base_time_ns(&self) -> Option<i64>;
    /// First event and end of the last, as written.
    fn extent(&self) -> (i64, i64);
    /// Entries of the event list.
    fn events(&self) -> u64;
    /// Steps found; none if the whole recording stands in for one.
    fn steps(&self) -> usize;
    /// Bytes of JSON it was read from.
    fn json_bytes(&self) -> u64;
    /// What went wrong in its files.
    fn warnings(&self) -> Vec<Warning>;
}

/// Where a timeline lies in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) rank: i32,
    /// What is added to its times.
    pub(crate) shift_ns: i64,
    /// Absolute time of zero on the run's clock.
    pub(crate) base_time_ns: Option<i64>,
    /// How its times relate to those of other ranks.
    pub(crate) clock: &'static str,
}

impl Timeline for Trace {
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

    fn steps(&self) -> usize {
        self.steps()
    }

    fn json_bytes(&self) -> u64 {
        self.json_bytes
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings()
    }
}

/// The tables of a trace, in their place.
pub(crate) fn tables(trace: Trace, placement: Placement) -> TableSet {
    let Placement { rank, shift_ns, base_time_ns, clock } = placement;
    let mut tables = TableSet::default();
    trace.into_tables(&mut tables, rank, shift_ns, base_time_ns, clock);
    tables
}
