//! `comm_phase_totals`: what a rank had done by the time of each of its collectives. Whoever compares ranks needs no more of
//! what each of them did all the time.

use std::collections::HashMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::phases::{self, AtCall, KINDS, Spent, Timeline};
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
        // Where a device computes, as stretches that do not overlap.
        (
            "busy",
            "SELECT rank, ts_ns, dur_ns FROM activity_segments WHERE computation_count > 0 ORDER BY rank, ts_ns",
        ),
    ],
    compute,
);

const AT_START: [&str; KINDS] = [
    "device_until_start_ns",
    "dataloader_until_start_ns",
    "forward_until_start_ns",
    "backward_until_start_ns",
    "optimizer_until_start_ns",
    "other_until_start_ns",
];
const AT_END: [&str; KINDS] = [
    "device_until_end_ns",
    "dataloader_until_end_ns",
    "forward_until_end_ns",
    "backward_until_end_ns",
    "optimizer_until_end_ns",
    "other_until_end_ns",
];

struct Row {
    rank: i64,
    collective: i64,
    spent: Option<AtCall>,
}

fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let batch = inputs.batch("collectives")?;
    let (number, ts) = (OptIntColumn::of(batch, "collective")?, OptIntColumn::of(batch, "ts_ns")?);
    let dur = OptIntColumn::of(batch, "dur_ns")?;
    let (collectives, mut timelines) = (rank_ranges(batch)?, timelines(inputs)?);
    let mut rows = Vec::with_capacity(batch.num_rows());
    for (rank, of_rank) in collectives {
        let timeline = timelines.remove(&rank).unwrap_or_default();
        rows.extend(of_rank.map(|row| {
            let interval = ts.get(row).zip(dur.get(row));
            let spent = interval.map(|(ts, dur)| AtCall {
                start: timeline.before(ts),
                end: timeline.before(ts.saturating_add(dur)),
            });
            Row { rank, collective: number.value_or_0(row), spent }
        }));
    }
    let mut output = BatchBuilder::of(&rows)
        .int("rank", |r| Some(r.rank))
        .int("collective", |r| Some(r.collective));
    for (kind, name) in AT_START.into_iter().enumerate() {
        output = output.int(name, |r| Some(r.spent?.start[kind]));
    }
    for (kind, name) in AT_END.into_iter().enumerate() {
        output = output.int(name, |r| Some(r.spent?.end[kind]));
    }
    output.finish()
}

fn timelines(inputs: &ViewInputs<'_>) -> Result<HashMap<i64, Timeline>> {
    let (phases, busy) = (inputs.batch("phases")?, inputs.batch("busy")?);
    let kinds = texts(phases, "phase")?;
    let (starts, durs) = (OptIntColumn::of(phases, "ts_ns")?, OptIntColumn::of(phases, "dur_ns")?);
    let (busy_starts, busy_durs) =
        (OptIntColumn::of(busy, "ts_ns")?, OptIntColumn::of(busy, "dur_ns")?);
    let mut of_rank: HashMap<i64, (Vec<_>, Vec<_>)> = HashMap::new();
    for (rank, rows) in rank_ranges(phases)? {
        let phases = rows.map(|row| {
            let start = starts.value_or_0(row);
            (start, start + durs.value_or_0(row), phases::kind(kinds.get(row).unwrap_or_default()))
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
        |(rank, (phases, busy)): (_, (Vec<_>, Vec<_>))| (rank, Timeline::new(&phases, &busy));
    Ok(of_rank.into_iter().map(timeline).collect())
}

/// What was spent by the time of each collective, in the order of the rows.
pub(super) fn read(batch: &RecordBatch) -> Result<Vec<AtCall>> {
    let mut spent = vec![AtCall::default(); batch.num_rows()];
    let mut fill = |names: [&str; KINDS], part: fn(&mut AtCall) -> &mut Spent| {
        for (kind, name) in names.into_iter().enumerate() {
            let column = OptIntColumn::of(batch, name)?;
            for (row, at) in spent.iter_mut().enumerate() {
                part(at)[kind] = column.value_or_0(row);
            }
        }
        Ok::<_, query::ViewError>(())
    };
    fill(AT_START, |at| &mut at.start)?;
    fill(AT_END, |at| &mut at.end)?;
    Ok(spent)
}
