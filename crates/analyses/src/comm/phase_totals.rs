//! `comm_phase_totals`: time per phase that a rank has spent up to the start and the end of each collective. Views that
//! compare ranks read these totals instead of full timelines.

use std::collections::HashMap;

use query::rust_view::Result;
use query::view_error;
use trace_model::RecordBatch;

use super::phases::{PHASE_COUNT, PhaseTimeline, TotalsAtCollective, phase_index};
use query::BatchBuilder;
use query::columns::names as texts;
use query::columns::{OptIntColumn, rank_ranges};
use query::rust_view::{RustView, ViewInputs};

pub(crate) const VIEW: RustView = RustView::new(
    "comm_phase_totals",
    &[
        (
            "collectives",
            "SELECT rank, collective, ts_ns, dur_ns FROM comm_collectives ORDER BY rank, collective",
        ),
        ("phases", "SELECT rank, phase, ts_ns, dur_ns FROM host_phases ORDER BY rank, ts_ns"),
        // Disjoint intervals in which the device computes.
        (
            "busy",
            "SELECT rank, ts_ns, dur_ns FROM activity_segments WHERE computation_count > 0 ORDER BY rank, ts_ns",
        ),
    ],
    compute,
);

const AT_START: [&str; PHASE_COUNT] = [
    "device_until_start_ns",
    "dataloader_until_start_ns",
    "forward_until_start_ns",
    "backward_until_start_ns",
    "optimizer_until_start_ns",
    "other_until_start_ns",
];
const AT_END: [&str; PHASE_COUNT] = [
    "device_until_end_ns",
    "dataloader_until_end_ns",
    "forward_until_end_ns",
    "backward_until_end_ns",
    "optimizer_until_end_ns",
    "other_until_end_ns",
];

struct CollectiveTotals {
    rank: i64,
    collective: i64,
    totals: Option<TotalsAtCollective>,
}

fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let batch = inputs.batch("collectives")?;
    let (number, ts) = (OptIntColumn::of(batch, "collective")?, OptIntColumn::of(batch, "ts_ns")?);
    let dur = OptIntColumn::of(batch, "dur_ns")?;
    let (collectives, mut timelines) = (rank_ranges(batch)?, phase_timelines(inputs)?);
    let mut rows = Vec::with_capacity(batch.num_rows());
    for (rank, of_rank) in collectives {
        let timeline = timelines.remove(&rank).unwrap_or_default();
        rows.extend(of_rank.map(|row| {
            let interval = ts.get(row).zip(dur.get(row));
            let totals = interval.map(|(ts, dur)| TotalsAtCollective {
                start: timeline.totals_until(ts),
                end: timeline.totals_until(ts.saturating_add(dur)),
            });
            CollectiveTotals { rank, collective: number.value_or_0(row), totals }
        }));
    }
    let mut output = BatchBuilder::of(&rows)
        .int("rank", |r| Some(r.rank))
        .int("collective", |r| Some(r.collective));
    for (kind, name) in AT_START.into_iter().enumerate() {
        output = output.int(name, |r| Some(r.totals?.start[kind]));
    }
    for (kind, name) in AT_END.into_iter().enumerate() {
        output = output.int(name, |r| Some(r.totals?.end[kind]));
    }
    output.finish()
}

fn phase_timelines(inputs: &ViewInputs<'_>) -> Result<HashMap<i64, PhaseTimeline>> {
    let (phases, busy) = (inputs.batch("phases")?, inputs.batch("busy")?);
    let kinds = texts(phases, "phase")?;
    let (starts, durs) = (OptIntColumn::of(phases, "ts_ns")?, OptIntColumn::of(phases, "dur_ns")?);
    let (busy_starts, busy_durs) =
        (OptIntColumn::of(busy, "ts_ns")?, OptIntColumn::of(busy, "dur_ns")?);
    let mut of_rank: HashMap<i64, (Vec<_>, Vec<_>)> = HashMap::new();
    for (rank, rows) in rank_ranges(phases)? {
        let phases = rows.map(|row| {
            let start = starts.value_or_0(row);
            (start, start + durs.value_or_0(row), phase_index(kinds.get(row).unwrap_or_default()))
        });
        of_rank.entry(rank).or_default().0 = phases.collect();
    }
    for (rank, rows) in rank_ranges(busy)? {
        let busy = rows.map(|row| {
            let start = busy_starts.value_or_0(row);
            (start, start + busy_durs.value_or_0(row))
        });
        of_rank.entry(rank).or_default().1 = busy.collect();
    }
    let timeline =
        |(rank, (phases, busy)): (_, (Vec<_>, Vec<_>))| (rank, PhaseTimeline::new(&phases, &busy));
    Ok(of_rank.into_iter().map(timeline).collect())
}

/// The rows of [`VIEW`] where they are.
#[derive(Debug)]
pub(super) struct CollectiveTotalsColumns {
    start: [OptIntColumn; PHASE_COUNT],
    end: [OptIntColumn; PHASE_COUNT],
}

impl CollectiveTotalsColumns {
    pub(super) fn of(batch: &RecordBatch) -> Result<Self> {
        let columns = |names: [&str; PHASE_COUNT]| {
            let columns = names.map(|name| OptIntColumn::of(batch, name));
            let columns: Vec<OptIntColumn> = columns.into_iter().collect::<Result<_>>()?;
            columns.try_into().map_err(|_| view_error!("there is one column per phase"))
        };
        Ok(Self { start: columns(AT_START)?, end: columns(AT_END)? })
    }

    /// The totals of a row; 0 where they are unknown.
    pub(super) fn at(&self, row: usize) -> TotalsAtCollective {
        let totals = |columns: &[OptIntColumn; PHASE_COUNT]| {
            std::array::from_fn(|kind| columns[kind].value_or_0(row))
        };
        TotalsAtCollective { start: totals(&self.start), end: totals(&self.end) }
    }
}
