//! Files that add to the timelines of a run: Composer's files, execution traces, metrics and memory files.

use trace_model::tables::Steps;
use trace_model::{RunInfo, TableSet, Warning};

use super::rank_trace::{RankData, RankTrace};
use super::timeline::Timeline;
use crate::error::Error;
use crate::options::Options;

/// All timelines of a run.
pub(crate) type RankTraces<S> = Vec<RankTrace<RankData<S>>>;

/// The files of one kind. The reader calls the three methods in this order, each for all kinds.
pub(crate) trait Attachment<S: Timeline> {
    /// Merges the files into the timelines that they belong to, before one cycle of each rank is chosen. The traces
    /// are not enriched yet if [`super::plan::ReadPlan`] announced files of this kind. Returns the timelines of
    /// which the cycle is chosen already, and all others.
    ///
    /// # Errors
    /// If a rank has no cycle of the number that the options ask for.
    fn join(
        &mut self,
        traces: RankTraces<S>,
        _: &Options,
        _: &mut Vec<Warning>,
    ) -> Result<(RankTraces<S>, RankTraces<S>), Error> {
        Ok((Vec::new(), traces))
    }

    /// Gives each file a rank, and links it with the timeline of that rank.
    ///
    /// # Errors
    /// If the run consists of these files and none of them can be used.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData<S>>],
        options: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error>;

    /// Adds sources and rows to the run.
    fn add_to(self: Box<Self>, run: &mut RunBuilder);
}

/// A run under construction: the tables of the timelines, then what attachments add.
pub(crate) struct RunBuilder {
    pub(crate) info: RunInfo,
    pub(crate) tables: TableSet,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) timelines: Vec<TimelineSummary>,
    /// The timelines, or an attachment, determined the run's clock.
    pub(crate) has_clock: bool,
    /// Absolute time of zero on the run's clock, where known.
    pub(crate) zero_ns: Option<i64>,
}

impl RunBuilder {
    /// Returns whether the run has timelines, which have filled `ranks`.
    pub(crate) fn has_timeline(&self) -> bool {
        !self.timelines.is_empty()
    }
}

/// Properties of a timeline that attachments of its rank continue.
pub(crate) struct TimelineSummary {
    pub(crate) rank: i32,
    pub(crate) lane_count: i32,
    /// Rows of `steps`, on the run's clock.
    pub(crate) steps: Steps,
}
