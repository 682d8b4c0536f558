//! `module_calls`: every call of an `nn.Module`, with the time of the call and of the calls inside.

use query::columns::{get, ints};
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;
use trace_model::vocabulary::MODULE_PREFIX;

use super::{CallRow, call_batch, find_calls, join_path, op_facts};
use crate::call_tree::{ModuleSource, load_forests};

pub(super) fn calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Frames)?;
    let (threads, steps) = (ints(forests.frames, "thread")?, ints(forests.frames, "step")?);
    let mut rows: Vec<CallRow<'_>> = Vec::new();
    for (&rank, forest) in &forests.forests {
        let facts = op_facts(&forests)?;
        let first = rows.len();
        for call in find_calls(forest, facts) {
            let row = forest.events[call.at as usize].row as usize;
            let name = forests.frame_names.get(row).unwrap_or("");
            let name = name.strip_prefix(MODULE_PREFIX).unwrap_or(name);
            let parent_path = call.parent.map(|parent| rows[first + parent as usize].path.clone());
            rows.push(CallRow {
                rank,
                forest,
                call,
                name: name.to_owned(),
                class: class(name).to_owned(),
                path: join_path(parent_path.as_deref(), name),
                parent_path,
                thread: threads.value(row),
                step: get(&steps, row),
            });
        }
    }
    call_batch(&rows)
}

/// `Linear` of `Linear_12`.
fn class(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((class, number)) if number.bytes().all(|b| b.is_ascii_digit()) => class,
        _ => name,
    }
}
