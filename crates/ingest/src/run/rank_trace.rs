//! The timeline of one rank, with the files that it was read from.

use trace_model::tables::Steps;
use trace_model::{Source, Warning};

use super::identity::TraceIdentity;
use crate::timeline::placement::Timeline;
use crate::timeline::trace::Trace;

/// A timeline with the rank that it was given.
pub(crate) struct RankTrace<T> {
    pub(crate) trace: T,
    pub(crate) file: String,
    pub(crate) rank: i32,
    /// The files that the trace was made of; `shift_ns` is the offset already added to times.
    pub(crate) sources: Vec<Source>,
    /// Offset that puts its clock on that of the lowest rank.
    pub(crate) adjust_ns: i64,
    /// Its clock was compared with those of other ranks.
    pub(crate) is_synchronized: bool,
}

impl<T: Timeline> RankTrace<T> {
    pub(crate) fn new(trace: T, file: String, rank: i32, rank_from: &'static str) -> Self {
        let source = Source {
            file: file.clone(),
            format: trace.format().into(),
            is_timeline: true,
            rank,
            rank_from: rank_from.into(),
            json_bytes: trace.json_bytes(),
            events: trace.events(),
            shift_ns: 0,
        };
        let sources = vec![source];
        Self { trace, file, rank, sources, adjust_ns: 0, is_synchronized: false }
    }

    /// Offset from times as written to nanoseconds since 1970, on the clock of the lowest rank where clocks were
    /// compared.
    pub(crate) fn base_time_ns(&self) -> Option<i64> {
        self.trace.base_time_ns().map(|base| base.saturating_add(self.adjust_ns))
    }

    /// As [`RankTrace::map`], with an operation that may fail.
    pub(crate) fn try_map<U, E>(
        self,
        f: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<RankTrace<U>, E> {
        let Self { trace, file, rank, sources, adjust_ns, is_synchronized } = self;
        let trace = f(trace)?;
        Ok(RankTrace { trace, file, rank, sources, adjust_ns, is_synchronized })
    }

    /// The same timeline in another representation.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> RankTrace<U> {
        let Self { trace, file, rank, sources, adjust_ns, is_synchronized } = self;
        RankTrace { trace: f(trace), file, rank, sources, adjust_ns, is_synchronized }
    }
}

/// A trace on its way to a sink.
pub(crate) enum RankData {
    /// In memory, until the files that it needs are read.
    Pending(Box<Trace>),
    /// In the sink, which stores all timelines as one type.
    Stored(Box<dyn Timeline>),
}

impl RankData {
    fn timeline(&self) -> &dyn Timeline {
        match self {
            Self::Pending(trace) => &**trace,
            Self::Stored(stored) => &**stored,
        }
    }

    /// A trace that is in the sink.
    pub(crate) fn stored(timeline: impl Timeline) -> Self {
        Self::Stored(Box::new(timeline))
    }

    /// The trace, if it is not in the sink yet.
    pub(crate) fn pending(&self) -> Option<&Trace> {
        match self {
            Self::Pending(trace) => Some(trace),
            Self::Stored(_) => None,
        }
    }
}

impl Timeline for RankData {
    fn format(&self) -> &'static str {
        self.timeline().format()
    }

    fn rank(&self) -> Option<(i32, &'static str)> {
        self.timeline().rank()
    }

    fn world_size(&self) -> Option<i32> {
        self.timeline().world_size()
    }

    fn base_time_ns(&self) -> Option<i64> {
        self.timeline().base_time_ns()
    }

    fn extent(&self) -> (i64, i64) {
        self.timeline().extent()
    }

    fn events(&self) -> u64 {
        self.timeline().events()
    }

    fn lane_count(&self) -> i32 {
        self.timeline().lane_count()
    }

    fn step_count(&self) -> usize {
        self.timeline().step_count()
    }

    fn steps(&self) -> &Steps {
        self.timeline().steps()
    }

    fn json_bytes(&self) -> u64 {
        self.timeline().json_bytes()
    }

    fn identity(&self) -> TraceIdentity {
        self.timeline().identity()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.timeline().warnings()
    }
}
