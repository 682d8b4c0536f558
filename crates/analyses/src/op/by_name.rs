//! `op_by_name`: totals by operator.

use query::columns::names;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::totals::{RankTotals, rank_totals, totals_batch};
use crate::call_tree::{ModuleSource, load_forests};

pub(super) fn by_name(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Frames)?;
    let sources = names(forests.ops, "source")?;
    let ranks: Vec<(i64, RankTotals)> = forests
        .forests
        .iter()
        .map(|(&rank, forest)| (rank, rank_totals(&forests, &sources, forest, |_, _| Some(0))))
        .collect();
    totals_batch(&forests, &sources, &ranks, None)
}
