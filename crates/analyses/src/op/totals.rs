//! Totals of operators by name and one detail: the rows of `op_by_name`, `op_in_steps`,
//! `op_by_shape` and `op_by_stack`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use crate::call_tree::{CallForest, CallForests, EventKind};
use query::columns::Names;
use query::dictionary_array;

/// Totals over the calls of one operator with one detail.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpTotals {
    name: u32,
    pub(super) detail: u32,
    call_count: i64,
    host_total_ns: i64,
    host_self_ns: i64,
    device_total_ns: i64,
    device_self_ns: i64,
    launch_count: i64,
}

/// The operators of one rank, and for each the source line with the most time.
#[derive(Debug, Default)]
pub(super) struct RankTotals {
    pub(super) ops: Vec<OpTotals>,
    sources: Vec<u32>,
}

/// Whether a name wraps a whole model or optimizer: such operators would hide the others.
fn is_wrapper(name: &str) -> bool {
    matches!(name, "DataParallel.forward" | "DistributedDataParallel.forward")
        || name.starts_with("Optimizer.")
}

/// Sums up the operators of a rank by name and detail. `detail` gets the position in the forest and the row of the
/// operator; calls without one do not count.
pub(super) fn rank_totals(
    forests: &CallForests<'_>,
    sources: &Names,
    forest: &CallForest,
    detail: impl Fn(usize, usize) -> Option<u32>,
) -> RankTotals {
    let wrappers: Vec<bool> = forests.op_names.texts.iter().map(|name| is_wrapper(name)).collect();
    let name = |at: u32| forests.op_names.ids[forest.events[at as usize].row as usize];
    let merged = forest.merge_dispatch_chains(|a, b| name(a) == name(b));
    let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut ops: Vec<OpTotals> = Vec::new();
    let mut source_times: FxHashMap<(u32, u32), (i64, i64)> = FxHashMap::default();
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind != EventKind::Operator {
            continue;
        }
        let outermost = merged[at] as usize;
        let first = forest.events[outermost].row as usize;
        let name = forests.op_names.ids[first];
        if wrappers.get(name as usize).copied().unwrap_or(true) {
            continue;
        }
        let Some(detail) = detail(outermost, first) else { continue };
        let index = *known.entry((name, detail)).or_insert_with(|| {
            ops.push(OpTotals { name, detail, ..OpTotals::default() });
            (ops.len() - 1) as u32
        });
        let op = &mut ops[index as usize];
        let totals = &forest.totals[at];
        op.host_self_ns += totals.host_self_ns;
        op.device_self_ns = op.device_self_ns.saturating_add(totals.device_self_ns);
        op.launch_count += totals.launch_count;
        if outermost != at {
            continue;
        }
        let host_ns = event.end_ns - event.ts_ns;
        op.call_count += 1;
        op.host_total_ns = op.host_total_ns.saturating_add(host_ns);
        op.device_total_ns = op.device_total_ns.saturating_add(totals.device_total_ns);
        let source = sources.ids[first];
        if source != Names::NONE {
            let time = source_times.entry((index, source)).or_default();
            time.0 = time.0.saturating_add(totals.device_total_ns);
            time.1 = time.1.saturating_add(host_ns);
        }
    }
    // Of sources with equal times the first by text, so that the result does not depend on the order of a hash table.
    let mut best: Vec<Option<((i64, i64), u32)>> = vec![None; ops.len()];
    let text = |source: u32| sources.texts[source as usize].as_str();
    #[expect(clippy::iter_over_hash_type, reason = "the largest does not depend on order")]
    for ((op, source), time) in source_times {
        let best = &mut best[op as usize];
        let is_more = best.is_none_or(|(most, known)| {
            time > most || (time == most && text(source) < text(known))
        });
        if is_more {
            *best = Some((time, source));
        }
    }
    let sources = best.into_iter().map(|best| best.map_or(Names::NONE, |(_, s)| s)).collect();
    RankTotals { ops, sources }
}

/// The column that distinguishes operators of one name: its name, and its texts by detail.
type DetailColumn<'a> = Option<(&'static str, Vec<Option<&'a str>>)>;

/// The rows of all ranks as a batch.
pub(super) fn totals_batch(
    forests: &CallForests<'_>,
    sources: &Names,
    ranks: &[(i64, RankTotals)],
    detail: DetailColumn<'_>,
) -> Result<RecordBatch> {
    let rows =
        || ranks.iter().flat_map(|(rank, totals)| totals.ops.iter().map(move |op| (*rank, op)));
    let rank: Int32Array = rows().map(|(rank, _)| Some(rank as i32)).collect();
    let names = dictionary_array(rows().map(|(_, row)| text(&forests.op_names.texts, row.name)));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("rank", Arc::new(rank)), ("name", names)];
    if let Some((column, details)) = detail {
        let text = |row: &OpTotals| details.get(row.detail as usize).copied().flatten();
        columns.push((column, dictionary_array(rows().map(|(_, row)| text(row)))));
    }
    let ints = |value: fn(&OpTotals) -> i64| -> ArrayRef {
        Arc::new(rows().map(|(_, row)| Some(value(row))).collect::<Int64Array>())
    };
    columns.extend([
        ("call_count", ints(|row| row.call_count)),
        ("host_total_ns", ints(|row| row.host_total_ns)),
        ("host_self_ns", ints(|row| row.host_self_ns)),
        ("device_total_ns", ints(|row| row.device_total_ns)),
        ("device_self_ns", ints(|row| row.device_self_ns)),
        ("launch_count", ints(|row| row.launch_count)),
    ]);
    let lines = ranks.iter().flat_map(|(_, totals)| &totals.sources);
    columns.push(("source", dictionary_array(lines.map(|&source| text(&sources.texts, source)))));
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}

fn text(texts: &[String], index: u32) -> Option<&str> {
    texts.get(index as usize).map(String::as_str)
}
