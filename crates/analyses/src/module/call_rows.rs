//! Rows of the views with one row per call of a module: `module_calls` and `lightning_calls`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use query::columns::{get, ints};
use query::dictionary_array;
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::find_calls::{ModuleCall, OpFacts};
use crate::call_tree::{CallForest, CallForests, ForestEvent};

/// A row of a view with one row per call of a module.
pub(crate) struct CallRow<'a> {
    pub(crate) rank: i64,
    pub(crate) forest: &'a CallForest,
    pub(crate) call: ModuleCall,
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) path: String,
    pub(crate) parent_path: Option<String>,
    pub(crate) thread: i64,
    pub(crate) step: Option<i64>,
}

/// The path of a call inside `parent`.
pub(crate) fn join_path(parent: Option<&str>, name: &str) -> String {
    parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"))
}

/// The properties of operators that [`find_calls`](super::find_calls) needs.
pub(crate) fn op_facts<'a>(
    forests: &'a CallForests<'_>,
) -> Result<impl Fn(&ForestEvent) -> OpFacts + use<'a>> {
    let accumulates_grad: Vec<bool> =
        forests.op_names.texts.iter().map(|name| name.ends_with("AccumulateGrad")).collect();
    let (threads, forward) = (ints(forests.ops, "thread")?, ints(forests.ops, "forward_op")?);
    Ok(move |event: &ForestEvent| {
        let row = event.row as usize;
        let name = forests.op_names.ids[row] as usize;
        OpFacts {
            thread: threads.value(row),
            forward_op: get(&forward, row),
            accumulates_grad: accumulates_grad.get(name).copied().unwrap_or(false),
        }
    })
}

/// The rows as a batch.
pub(crate) fn call_batch(rows: &[CallRow<'_>]) -> Result<RecordBatch> {
    let int64 = |value: &dyn Fn(&CallRow<'_>) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Int64Array>())
    };
    let int32 = |value: &dyn Fn(&CallRow<'_>) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int32Array>())
    };
    let event = |row: &CallRow<'_>| row.forest.events[row.call.at as usize];
    let totals = |row: &CallRow<'_>| row.forest.totals[row.call.at as usize];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", int32(&|row| row.rank as i32)),
        ("event_id", int64(&|row| Some(event(row).id))),
        ("name", dictionary_array(rows.iter().map(|row| Some(row.name.as_str())))),
        ("class", dictionary_array(rows.iter().map(|row| Some(row.class.as_str())))),
        ("path", dictionary_array(rows.iter().map(|row| Some(row.path.as_str())))),
        ("parent_path", dictionary_array(rows.iter().map(|row| row.parent_path.as_deref()))),
        ("depth", int32(&|row| row.call.depth)),
        ("thread", int32(&|row| row.thread as i32)),
        ("step", int64(&|row| row.step)),
        ("ts_ns", int64(&|row| Some(event(row).ts_ns))),
        ("operator_count", int64(&|row| Some(row.call.operator_count))),
        ("host_total_ns", int64(&|row| Some(event(row).end_ns - event(row).ts_ns))),
        ("host_self_ns", int64(&|row| Some(totals(row).host_self_ns))),
        ("device_total_ns", int64(&|row| Some(totals(row).device_total_ns))),
        (
            "device_self_ns",
            int64(&|row| Some(totals(row).device_self_ns + row.call.operators_device_ns)),
        ),
        ("backward_host_ns", int64(&|row| Some(row.call.backward?.host_ns))),
        ("backward_device_ns", int64(&|row| Some(row.call.backward?.device_ns))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
