//! `op_in_steps`: totals by operator, of the steps that count.

use std::collections::BTreeMap;
use std::ops::Range;

use query::columns::{ints, names};
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::totals::{RankTotals, rank_totals, totals_batch};
use crate::call_tree::{ModuleSource, load_forests};

pub(super) fn in_steps(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Frames)?;
    let sources = names(forests.ops, "source")?;
    let steps = steps(inputs.batch("steps")?)?;
    let ranks: Vec<(i64, RankTotals)> = forests
        .forests
        .iter()
        .map(|(&rank, forest)| {
            // A call belongs to the step that it begins in, with all that it launches.
            let is_counted = |at: usize| {
                steps.get(&rank).is_none_or(|steps| steps.contains(&forest.events[at].ts_ns))
            };
            let totals =
                rank_totals(&forests, &sources, forest, |at, _| is_counted(at).then_some(0));
            (rank, totals)
        })
        .collect();
    totals_batch(&forests, &sources, &ranks, None)
}

/// The time on the host of the steps that count, by rank.
fn steps(batch: &RecordBatch) -> Result<BTreeMap<i64, Range<i64>>> {
    let (rank, start_ns, end_ns) =
        (ints(batch, "rank")?, ints(batch, "start_ns")?, ints(batch, "end_ns")?);
    let rows = 0..batch.num_rows();
    Ok(rows.map(|row| (rank.value(row), start_ns.value(row)..end_ns.value(row))).collect())
}
