//! The ranks that agents report for, and what their traces have filled already.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{PrimitiveArray, RecordBatch};
use trace_model::tables::Steps;

use crate::run::attachment::RunBuilder;

/// A rank that agents report for.
#[derive(Debug, Default)]
pub(super) struct Target {
    /// It has a row already, from its trace.
    pub(super) is_known: bool,
    /// First number that no event has, and no lane.
    pub(super) next_event: i64,
    pub(super) next_thread: i32,
    /// Steps of its trace.
    pub(super) steps: Steps,
    /// First and last moment of the metrics.
    pub(super) extent: Option<(i64, i64)>,
    pub(super) samples: i64,
    pub(super) timings: i64,
}

impl Target {
    /// Something happened from `start_ns` to `end_ns`.
    pub(super) fn saw(&mut self, start_ns: i64, end_ns: i64) {
        let (first, last) = self.extent.unwrap_or((start_ns, end_ns));
        self.extent = Some((first.min(start_ns), last.max(end_ns)));
    }
}

/// The ranks that agents report for, as far as timelines have filled them.
pub(super) fn targets(ranks: impl Iterator<Item = i32>, run: &RunBuilder) -> BTreeMap<i32, Target> {
    let mut targets: BTreeMap<i32, Target> = ranks.map(|rank| (rank, Target::default())).collect();
    for batch in run.tables.get("ranks") {
        let events = int64(batch, "event_count");
        for (row, rank) in int32(batch, "rank").values().iter().enumerate() {
            if let Some(target) = targets.get_mut(rank) {
                target.is_known = true;
                target.next_event = target.next_event.max(events.value(row));
            }
        }
    }
    for timeline in &run.timelines {
        if let Some(target) = targets.get_mut(&timeline.rank) {
            target.next_thread = timeline.lane_count;
            target.steps = timeline.steps.clone();
        }
    }
    targets
}

fn int32(batch: &RecordBatch, name: &str) -> PrimitiveArray<Int32Type> {
    batch[name].as_primitive().clone()
}

fn int64(batch: &RecordBatch, name: &str) -> PrimitiveArray<Int64Type> {
    batch[name].as_primitive().clone()
}
