//! Reads host events and device work into one forest per rank.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::forest::{Activity, CallForest, EventKind, ForestEvent};
use query::columns::{Names, get, ints, names, rows_by_rank};
use query::rust_view::{InputQueries, ViewInputs};
use trace_model::vocabulary::{COLLECTIVE_RANGE_PREFIXES, MODULE_PREFIX};

/// Inputs of every view over a forest. They cover the whole recording.
pub(crate) const INPUTS: InputQueries = &[OPS, LAUNCHES, RANGES, FRAMES, WORK];

/// [`INPUTS`], and the operators that name the modules around them.
pub(crate) const INPUTS_WITH_MODULE_PATHS: InputQueries = &[
    OPS,
    LAUNCHES,
    RANGES,
    FRAMES,
    WORK,
    (
        "module_paths",
        "SELECT rank, event_id, args FROM cpu_ops WHERE args LIKE '%\"Module Hierarchy\"%'",
    ),
];

/// [`INPUTS`], and the time on the host of the steps that count.
pub(crate) const INPUTS_WITH_STEPS: InputQueries = &[
    OPS,
    LAUNCHES,
    RANGES,
    FRAMES,
    WORK,
    (
        "steps",
        "SELECT rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns FROM device_steps GROUP BY rank",
    ),
];

const OPS: (&str, &str) = (
    "ops",
    "SELECT rank, event_id, name, ts_ns, dur_ns, thread, parent, input_dims, call_stack, source, forward_op
     FROM cpu_ops",
);
const LAUNCHES: (&str, &str) =
    ("launches", "SELECT rank, event_id, ts_ns, dur_ns, parent FROM runtime_calls");
const RANGES: (&str, &str) = (
    "ranges",
    "SELECT rank, event_id, name, ts_ns, dur_ns, thread, step, parent FROM annotations WHERE NOT on_device",
);
const FRAMES: (&str, &str) = (
    "frames",
    "SELECT rank, event_id, name, ts_ns, dur_ns, thread, step, parent FROM python_frames",
);
const WORK: (&str, &str) = (
    "work",
    "SELECT rank, launch, op, dur_ns FROM device_work WHERE launch IS NOT NULL OR op IS NOT NULL",
);

/// The rows of [`INPUTS`], and the forests built from them.
#[derive(Debug)]
pub(crate) struct CallForests<'a> {
    pub(crate) ops: &'a RecordBatch,
    pub(crate) ranges: &'a RecordBatch,
    pub(crate) frames: &'a RecordBatch,
    pub(crate) op_names: Names,
    pub(crate) range_names: Names,
    pub(crate) frame_names: Names,
    /// By rank.
    pub(crate) forests: BTreeMap<i64, CallForest>,
}

/// The events that are calls of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModuleSource {
    /// `nn.Module: Linear_0` frames.
    Frames,
    /// `[pl][...]` ranges.
    Lightning,
}

impl ModuleSource {
    fn frame_kind(self, name: &str) -> EventKind {
        if self == Self::Frames && name.starts_with(MODULE_PREFIX) {
            EventKind::Module
        } else {
            EventKind::Frame
        }
    }

    fn range_kind(self, name: &str) -> EventKind {
        const COLLECTIVES: [&str; 5] =
            ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"];
        let is_collective = COLLECTIVE_RANGE_PREFIXES
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .is_some_and(|collective| COLLECTIVES.contains(&collective));
        if self == Self::Lightning && name.starts_with("[pl][") {
            EventKind::Module
        } else if is_collective
            || ["ProfilerStep#", "Optimizer.step", "enumerate(Data"]
                .iter()
                .any(|p| name.starts_with(p))
        {
            EventKind::Range
        } else {
            EventKind::Other
        }
    }
}

/// Reads the tables and builds one forest per rank.
pub(crate) fn load_forests<'a>(
    inputs: &'a ViewInputs<'_>,
    modules: ModuleSource,
) -> Result<CallForests<'a>> {
    let (ops, launches) = (inputs.batch("ops")?, inputs.batch("launches")?);
    let (ranges, frames) = (inputs.batch("ranges")?, inputs.batch("frames")?);
    let op_names = names(ops, "name")?;
    let (range_names, frame_names) = (names(ranges, "name")?, names(frames, "name")?);
    let kinds = |names: &Names, kind: &dyn Fn(&str) -> EventKind| -> Vec<EventKind> {
        names.texts.iter().map(|text| kind(text)).collect()
    };
    let range_kinds = kinds(&range_names, &|name| modules.range_kind(name));
    let frame_kinds = kinds(&frame_names, &|name| modules.frame_kind(name));
    let of = |kinds: &[EventKind], names: &Names, row: usize| {
        kinds.get(names.ids[row] as usize).copied().unwrap_or(EventKind::Other)
    };

    let mut events: BTreeMap<i64, Vec<ForestEvent>> = BTreeMap::new();
    add(&mut events, ops, &|_| EventKind::Operator)?;
    add(&mut events, launches, &|_| EventKind::Launch)?;
    add(&mut events, ranges, &|row| of(&range_kinds, &range_names, row))?;
    add(&mut events, frames, &|row| of(&frame_kinds, &frame_names, row))?;
    let mut work = work(inputs.batch("work")?)?;
    let forests = events
        .into_iter()
        .map(|(rank, events)| {
            (rank, CallForest::new(events, &work.remove(&rank).unwrap_or_default()))
        })
        .collect();
    Ok(CallForests { ops, ranges, frames, op_names, range_names, frame_names, forests })
}

fn add(
    events: &mut BTreeMap<i64, Vec<ForestEvent>>,
    batch: &RecordBatch,
    kind: &dyn Fn(usize) -> EventKind,
) -> Result<()> {
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
    let parent = ints(batch, "parent")?;
    for row in 0..batch.num_rows() {
        events.entry(rank.value(row)).or_default().push(ForestEvent {
            id: id.value(row),
            parent: get(&parent, row),
            ts_ns: ts_ns.value(row),
            end_ns: ts_ns.value(row).saturating_add(dur_ns.value(row)),
            kind: kind(row),
            row: row as u32,
        });
    }
    Ok(())
}

fn work(batch: &RecordBatch) -> Result<BTreeMap<i64, Vec<Activity>>> {
    let (rank, dur_ns) = (ints(batch, "rank")?, ints(batch, "dur_ns")?);
    let (launch, op) = (ints(batch, "launch")?, ints(batch, "op")?);
    Ok(rows_by_rank(&rank, |row| Activity {
        launch: get(&launch, row),
        op: get(&op, row),
        dur_ns: dur_ns.value(row),
    }))
}

#[cfg(test)]
mod tests {
    use super::{EventKind, ModuleSource};
    use trace_model::vocabulary::COLLECTIVE_RANGE_PREFIXES;

    #[test]
    fn range_kind_is_a_node_for_collectives_of_every_library() {
        for prefix in COLLECTIVE_RANGE_PREFIXES {
            let kind = |collective: &str| {
                ModuleSource::Frames.range_kind(&format!("{prefix}{collective}"))
            };
            assert_eq!(kind("all_reduce"), EventKind::Range, "{prefix}");
            assert_eq!(kind("barrier"), EventKind::Other, "{prefix}");
        }
        assert_eq!(ModuleSource::Frames.range_kind("all_reduce"), EventKind::Other);
    }

    #[test]
    fn range_kind_is_a_module_for_ranges_of_lightning() {
        let range = "[pl][profile]run_training_batch";
        assert_eq!(ModuleSource::Lightning.range_kind(range), EventKind::Module);
        assert_eq!(ModuleSource::Frames.range_kind(range), EventKind::Other);
        assert_eq!(ModuleSource::Frames.range_kind("ProfilerStep#3"), EventKind::Range);
    }
}
