//! From tables to forests.

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::forest::{Event, Forest, Kind, Work};
use query::columns::rows_by_rank;
use query::columns::{Names, ints, names};
use query::rust_view::ViewInputs;

/// What all of these views read: the whole recording.
pub(super) const READS: &[(&str, &str)] = &[OPS, LAUNCHES, RANGES, FRAMES, WORK];

/// The same, and the operators that name their module.
pub(super) const READS_WITH_NAMED: &[(&str, &str)] = &[
    OPS,
    LAUNCHES,
    RANGES,
    FRAMES,
    WORK,
    ("named", "SELECT rank, event_id, args FROM cpu_ops WHERE args LIKE '%\"Module Hierarchy\"%'"),
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

/// What [`READS`] gave.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    pub(super) ops: &'a RecordBatch,
    pub(super) ranges: &'a RecordBatch,
    pub(super) frames: &'a RecordBatch,
    pub(super) op_names: Names,
    pub(super) range_names: Names,
    pub(super) frame_names: Names,
    /// By rank.
    pub(super) forests: BTreeMap<i64, Forest>,
}

/// Which ranges and frames are calls of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Modules {
    /// `nn.Module: Linear_0` frames.
    Frames,
    /// `[pl][...]` ranges.
    Lightning,
}

/// A frame that is a call of an `nn.Module`.
pub(super) const MODULE_PREFIX: &str = "nn.Module: ";

impl Modules {
    fn of_frame(self, name: &str) -> Kind {
        if self == Self::Frames && name.starts_with(MODULE_PREFIX) {
            Kind::Module
        } else {
            Kind::Frame
        }
    }

    fn of_range(self, name: &str) -> Kind {
        const COLLECTIVES: [&str; 5] =
            ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"];
        let is_collective = name
            .strip_prefix("nccl:")
            .or_else(|| name.strip_prefix("gloo:"))
            .is_some_and(|of| COLLECTIVES.contains(&of));
        if self == Self::Lightning && name.starts_with("[pl][") {
            Kind::Module
        } else if is_collective
            || ["ProfilerStep#", "Optimizer.step", "enumerate(Data"]
                .iter()
                .any(|p| name.starts_with(p))
        {
            Kind::Range
        } else {
            Kind::Other
        }
    }
}

/// Reads the tables; events become a forest a rank.
pub(super) fn load<'a>(inputs: &'a ViewInputs<'_>, modules: Modules) -> Result<Tables<'a>> {
    let (ops, launches) = (inputs.batch("ops")?, inputs.batch("launches")?);
    let (ranges, frames) = (inputs.batch("ranges")?, inputs.batch("frames")?);
    let op_names = names(ops, "name")?;
    let (range_names, frame_names) = (names(ranges, "name")?, names(frames, "name")?);
    let kinds = |names: &Names, kind: &dyn Fn(&str) -> Kind| -> Vec<Kind> {
        names.texts.iter().map(|text| kind(text)).collect()
    };
    let range_kinds = kinds(&range_names, &|name| modules.of_range(name));
    let frame_kinds = kinds(&frame_names, &|name| modules.of_frame(name));
    let of = |kinds: &[Kind], names: &Names, row: usize| {
        kinds.get(names.ids[row] as usize).copied().unwrap_or(Kind::Other)
    };

    let mut events: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
    add(&mut events, ops, &|_| Kind::Operator)?;
    add(&mut events, launches, &|_| Kind::Launch)?;
    add(&mut events, ranges, &|row| of(&range_kinds, &range_names, row))?;
    add(&mut events, frames, &|row| of(&frame_kinds, &frame_names, row))?;
    let mut work = work(inputs.batch("work")?)?;
    let forests = events
        .into_iter()
        .map(|(rank, events)| (rank, Forest::new(events, &work.remove(&rank).unwrap_or_default())))
        .collect();
    Ok(Tables { ops, ranges, frames, op_names, range_names, frame_names, forests })
}

fn add(
    events: &mut BTreeMap<i64, Vec<Event>>,
    batch: &RecordBatch,
    kind: &dyn Fn(usize) -> Kind,
) -> Result<()> {
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
    let parent = ints(batch, "parent")?;
    for row in 0..batch.num_rows() {
        events.entry(rank.value(row)).or_default().push(Event {
            id: id.value(row),
            parent: value(&parent, row),
            ts_ns: ts_ns.value(row),
            end_ns: ts_ns.value(row).saturating_add(dur_ns.value(row)),
            kind: kind(row),
            row: row as u32,
        });
    }
    Ok(())
}

fn work(batch: &RecordBatch) -> Result<BTreeMap<i64, Vec<Work>>> {
    let (rank, dur_ns) = (ints(batch, "rank")?, ints(batch, "dur_ns")?);
    let (launch, op) = (ints(batch, "launch")?, ints(batch, "op")?);
    Ok(rows_by_rank(&rank, |row| Work {
        launch: value(&launch, row),
        op: value(&op, row),
        dur_ns: dur_ns.value(row),
    }))
}

/// The value in a row, if there is one.
pub(super) fn value(column: &Int64Array, row: usize) -> Option<i64> {
    (!column.is_null(row)).then(|| column.value(row))
}
