//! `module_calls` and `lightning_calls`: every call of a module with what it and those inside it did.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use query::rust_view::Result;
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::RecordBatch;

use super::forest::{Event, Forest, Kind};
use super::load::{MODULE_PREFIX, Modules, Tables, load, value};
use query::columns::ints;
use query::dictionary_array;
use query::rust_view::ViewInputs;

/// A call of a module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// Position in the forest.
    pub(super) at: u32,
    /// The call around it, among the calls.
    pub(super) parent: Option<u32>,
    pub(super) depth: i32,
    /// Operators directly inside, and the work that they and those inside them launched.
    pub(super) operator_count: i64,
    pub(super) operators_device_ns: i64,
    /// Backward operators of the operators inside, those of modules inside included.
    pub(super) backward: Option<Backward>,
}

/// Host and device time of backward operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backward {
    pub(super) host_ns: i64,
    pub(super) device_ns: i64,
}

/// What the forest cannot know of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpFacts {
    pub(super) thread: i64,
    /// The forward operator that it undoes.
    pub(super) forward_op: Option<i64>,
    /// It adds a gradient to a parameter: the end of the backward pass of the operator before.
    pub(super) accumulates: bool,
}

/// The calls of modules of a rank, in order of start; parents before children.
pub(super) fn find(forest: &Forest, facts: impl Fn(&Event) -> OpFacts) -> Vec<Call> {
    let nearest = forest.nearest(Kind::Module);
    let mut index = vec![u32::MAX; forest.events.len()];
    let mut calls: Vec<Call> = Vec::new();
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind != Kind::Module {
            continue;
        }
        let around = forest.parents[at].and_then(|parent| nearest[parent as usize]);
        let parent = around.map(|around| index[around as usize]);
        let depth = parent.map_or(0, |parent| calls[parent as usize].depth + 1);
        index[at] = calls.len() as u32;
        calls.push(Call { at: at as u32, parent, depth, ..Call::default() });
    }
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind == Kind::Operator
            && let Some(around) = forest.around[at]
            && forest.events[around as usize].kind == Kind::Module
        {
            let call = &mut calls[index[around as usize] as usize];
            call.operator_count += 1;
            let device_ns = forest.sums[at].device_total_ns;
            call.operators_device_ns = call.operators_device_ns.saturating_add(device_ns);
        }
    }
    let call_of = |at: u32| nearest[at as usize].map(|at| index[at as usize]);
    backward(forest, facts, &mut calls, call_of);
    calls
}

/// Gives each backward operator that lies in no other to the call around its forward operator, and to the
/// calls around that one.
fn backward(
    forest: &Forest,
    facts: impl Fn(&Event) -> OpFacts,
    calls: &mut [Call],
    call_of: impl Fn(u32) -> Option<u32>,
) {
    let positions = forest.positions();
    let mut is_known = false;
    let mut in_backward = vec![false; forest.events.len()];
    // By thread: where the backward operator before belongs.
    let mut before: FxHashMap<i64, Option<u32>> = FxHashMap::default();
    let mut own = vec![Backward::default(); calls.len()];
    for (at, event) in forest.events.iter().enumerate() {
        in_backward[at] = forest.parents[at].is_some_and(|parent| in_backward[parent as usize]);
        if event.kind != Kind::Operator || in_backward[at] {
            continue;
        }
        let facts = facts(event);
        let call = match facts.forward_op {
            Some(forward) => {
                is_known = true;
                positions.get(forward).and_then(&call_of)
            }
            None if facts.accumulates => before.get(&facts.thread).copied().flatten(),
            None => continue,
        };
        in_backward[at] = true;
        before.insert(facts.thread, call);
        if let Some(call) = call {
            let own = &mut own[call as usize];
            own.host_ns = own.host_ns.saturating_add(event.end_ns - event.ts_ns);
            own.device_ns = own.device_ns.saturating_add(forest.sums[at].device_total_ns);
        }
    }
    if !is_known {
        return;
    }
    for i in (0..calls.len()).rev() {
        calls[i].backward = Some(own[i]);
        if let Some(parent) = calls[i].parent {
            let inside = own[i];
            let around = &mut own[parent as usize];
            around.host_ns = around.host_ns.saturating_add(inside.host_ns);
            around.device_ns = around.device_ns.saturating_add(inside.device_ns);
        }
    }
}

/// A row of the result.
struct Row<'a> {
    rank: i64,
    forest: &'a Forest,
    call: Call,
    name: String,
    class: String,
    path: String,
    parent_path: Option<String>,
    thread: i64,
    step: Option<i64>,
}

pub(super) fn calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let tables = load(inputs, Modules::Frames)?;
    let (threads, steps) = (ints(tables.frames, "thread")?, ints(tables.frames, "step")?);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (&rank, forest) in &tables.forests {
        let facts = facts(&tables)?;
        let first = rows.len();
        for call in find(forest, facts) {
            let row = forest.events[call.at as usize].row as usize;
            let name = tables.frame_names.get(row).unwrap_or("");
            let name = name.strip_prefix(MODULE_PREFIX).unwrap_or(name);
            let parent_path = call.parent.map(|parent| rows[first + parent as usize].path.clone());
            rows.push(Row {
                rank,
                forest,
                call,
                name: name.to_owned(),
                class: class(name).to_owned(),
                path: join(parent_path.as_deref(), name),
                parent_path,
                thread: threads.value(row),
                step: value(&steps, row),
            });
        }
    }
    batch(&rows)
}

/// `Linear` of `Linear_12`.
fn class(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((class, number)) if number.bytes().all(|b| b.is_ascii_digit()) => class,
        _ => name,
    }
}

fn join(parent: Option<&str>, name: &str) -> String {
    parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"))
}

pub(super) fn lightning(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let tables = load(inputs, Modules::Lightning)?;
    let (threads, steps) = (ints(tables.ranges, "thread")?, ints(tables.ranges, "step")?);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (&rank, forest) in &tables.forests {
        let facts = facts(&tables)?;
        let first = rows.len();
        for call in find(forest, facts) {
            let row = forest.events[call.at as usize].row as usize;
            let (class, name) = lightning_name(tables.range_names.get(row).unwrap_or(""));
            let is_hook = class == HOOK;
            // Hooks nest by time; a module says itself where it is.
            let around = call.parent.map(|parent| &rows[first + parent as usize]);
            let parent_path = around
                .filter(|around| is_hook && around.class == HOOK)
                .map(|around| around.path.clone());
            let path = if is_hook { join(parent_path.as_deref(), name) } else { name.to_owned() };
            rows.push(Row {
                rank,
                forest,
                call,
                name: name.to_owned(),
                class: class.to_owned(),
                path,
                parent_path,
                thread: threads.value(row),
                step: value(&steps, row),
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
    batch(&rows)
}

/// What hooks have in place of a class.
const HOOK: &str = "[hook]";

/// Class and name of `[pl][module]torch.nn.Linear: model.fc` and `[pl][profile]run_training_batch`.
fn lightning_name(range: &str) -> (&str, &str) {
    if let Some(module) = range.strip_prefix("[pl][module]") {
        return module.split_once(": ").unwrap_or((module, module));
    }
    (HOOK, range.strip_prefix("[pl][profile]").unwrap_or(range))
}

/// The longest dotted prefix of `path` that is a path too.
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

fn facts<'a>(tables: &'a Tables<'_>) -> Result<impl Fn(&Event) -> OpFacts + use<'a>> {
    let accumulates: Vec<bool> =
        tables.op_names.texts.iter().map(|name| name.ends_with("AccumulateGrad")).collect();
    let (threads, forward) = (ints(tables.ops, "thread")?, ints(tables.ops, "forward_op")?);
    Ok(move |event: &Event| {
        let row = event.row as usize;
        let name = tables.op_names.ids[row] as usize;
        OpFacts {
            thread: threads.value(row),
            forward_op: value(&forward, row),
            accumulates: accumulates.get(name).copied().unwrap_or(false),
        }
    })
}

fn batch(rows: &[Row<'_>]) -> Result<RecordBatch> {
    let long = |value: &dyn Fn(&Row<'_>) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Int64Array>())
    };
    let short = |value: &dyn Fn(&Row<'_>) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int32Array>())
    };
    let event = |row: &Row<'_>| row.forest.events[row.call.at as usize];
    let sums = |row: &Row<'_>| row.forest.sums[row.call.at as usize];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", short(&|row| row.rank as i32)),
        ("event_id", long(&|row| Some(event(row).id))),
        ("name", dictionary_array(rows.iter().map(|row| Some(row.name.as_str())))),
        ("class", dictionary_array(rows.iter().map(|row| Some(row.class.as_str())))),
        ("path", dictionary_array(rows.iter().map(|row| Some(row.path.as_str())))),
        ("parent_path", dictionary_array(rows.iter().map(|row| row.parent_path.as_deref()))),
        ("depth", short(&|row| row.call.depth)),
        ("thread", short(&|row| row.thread as i32)),
        ("step", long(&|row| row.step)),
        ("ts_ns", long(&|row| Some(event(row).ts_ns))),
        ("operator_count", long(&|row| Some(row.call.operator_count))),
        ("host_total_ns", long(&|row| Some(event(row).end_ns - event(row).ts_ns))),
        ("host_self_ns", long(&|row| Some(sums(row).host_self_ns))),
        ("device_total_ns", long(&|row| Some(sums(row).device_total_ns))),
        (
            "device_self_ns",
            long(&|row| Some(sums(row).device_self_ns + row.call.operators_device_ns)),
        ),
        ("backward_host_ns", long(&|row| Some(row.call.backward?.host_ns))),
        ("backward_device_ns", long(&|row| Some(row.call.backward?.device_ns))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
