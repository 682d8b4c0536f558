//! `lightning_calls`: every call of a module or hook that Lightning's profiler marked.

use query::columns::{get, ints};
use query::rust_view::{Result, ViewInputs};
use rustc_hash::FxHashSet;
use trace_model::RecordBatch;

use crate::call_tree::{ModuleSource, load_forests};
use crate::module::{CallRow, call_batch, find_calls, join_path, op_facts};

pub(super) fn calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Lightning)?;
    let (threads, steps) = (ints(forests.ranges, "thread")?, ints(forests.ranges, "step")?);
    let mut rows: Vec<CallRow<'_>> = Vec::new();
    for (&rank, forest) in &forests.forests {
        let facts = op_facts(&forests)?;
        let first = rows.len();
        for call in find_calls(forest, facts) {
            let row = forest.events[call.at as usize].row as usize;
            let (class, name) = lightning_name(forests.range_names.get(row).unwrap_or(""));
            let is_hook = class == HOOK;
            // Hooks nest by time; the name of a module gives its place.
            let outer = call.parent.map(|parent| &rows[first + parent as usize]);
            let parent_path = outer
                .filter(|outer| is_hook && outer.class == HOOK)
                .map(|outer| outer.path.clone());
            let path =
                if is_hook { join_path(parent_path.as_deref(), name) } else { name.to_owned() };
            rows.push(CallRow {
                rank,
                forest,
                call,
                name: name.to_owned(),
                class: class.to_owned(),
                path,
                parent_path,
                thread: threads.value(row),
                step: get(&steps, row),
            });
        }
        let paths: FxHashSet<String> = rows[first..]
            .iter()
            .filter(|row| row.class != HOOK)
            .map(|row| row.path.clone())
            .collect();
        for row in rows[first..].iter_mut().filter(|row| row.class != HOOK) {
            row.parent_path = longest_prefix(&row.path, &paths);
        }
    }
    call_batch(&rows)
}

/// The class in rows of hooks.
const HOOK: &str = "[hook]";

/// Class and name of `[pl][module]torch.nn.Linear: model.fc` and `[pl][profile]run_training_batch`.
fn lightning_name(range: &str) -> (&str, &str) {
    if let Some(module) = range.strip_prefix("[pl][module]") {
        return module.split_once(": ").unwrap_or((module, module));
    }
    (HOOK, range.strip_prefix("[pl][profile]").unwrap_or(range))
}

/// The longest dotted prefix of `path` that is in `paths`.
fn longest_prefix(path: &str, paths: &FxHashSet<String>) -> Option<String> {
    let mut prefix = path;
    while let Some((shorter, _)) = prefix.rsplit_once('.') {
        if let Some(found) = paths.get(shorter) {
            return Some(found.clone());
        }
        prefix = shorter;
    }
    None
}
