//! `op_by_shape`: totals by operator and input shapes.

use query::columns::names;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::totals::{RankTotals, rank_totals, totals_batch};
use crate::call_tree::{ModuleSource, load_forests};

pub(super) fn by_shape(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Frames)?;
    let sources = names(forests.ops, "source")?;
    let shapes = names(forests.ops, "input_dims")?;
    let ranks: Vec<(i64, RankTotals)> = forests
        .forests
        .iter()
        .map(|(&rank, forest)| {
            (rank, rank_totals(&forests, &sources, forest, |_, row| Some(shapes.ids[row])))
        })
        .collect();
    let texts = shapes.texts.iter().map(|text| Some(text.as_str())).collect();
    totals_batch(&forests, &sources, &ranks, Some(("input_dims", texts)))
}
