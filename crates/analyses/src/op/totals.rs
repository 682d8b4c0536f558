//! `op_by_name`, `op_by_shape`, `op_by_stack`: sums over the calls of operators.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::forest::{Forest, Kind};
use super::load::{MODULE_PREFIX, Modules, Tables, load};
use super::stacks::{Frame, Stacks};
use query::columns::{Names, names};
use query::dictionary_array;
use query::rust_view::ViewInputs;

/// The calls of one row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    name: u32,
    detail: u32,
    call_count: i64,
    host_total_ns: i64,
    host_self_ns: i64,
    device_total_ns: i64,
    device_self_ns: i64,
    launch_count: i64,
}

/// The rows of one rank, and the source that most of each row's time comes from.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    sources: Vec<u32>,
}

/// Names that are no operators to anyone who looks for them: what wraps a whole model or optimizer.
fn is_wrapper(name: &str) -> bool {
    matches!(name, "DataParallel.forward" | "DistributedDataParallel.forward")
        || name.starts_with("Optimizer.")
}

/// Sums the operators of a rank by name and `detail`, which is given positions.
fn rows(
    tables: &Tables<'_>,
    sources: &Names,
    forest: &Forest,
    detail: impl Fn(usize, usize) -> u32,
) -> Rows {
    let wrappers: Vec<bool> = tables.op_names.texts.iter().map(|name| is_wrapper(name)).collect();
    let name = |at: u32| tables.op_names.ids[forest.events[at as usize].row as usize];
    let merged = forest.merged(|a, b| name(a) == name(b));
    let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    let mut time_of: FxHashMap<(u32, u32), (i64, i64)> = FxHashMap::default();
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind != Kind::Operator {
            continue;
        }
        let whole = merged[at] as usize;
        let first = forest.events[whole].row as usize;
        let name = tables.op_names.ids[first];
        if wrappers.get(name as usize).copied().unwrap_or(true) {
            continue;
        }
        let detail = detail(whole, first);
        let index = *known.entry((name, detail)).or_insert_with(|| {
            rows.push(Row { name, detail, ..Row::default() });
            (rows.len() - 1) as u32
        });
        let row = &mut rows[index as usize];
        let sums = &forest.sums[at];
        row.host_self_ns += sums.host_self_ns;
        row.device_self_ns = row.device_self_ns.saturating_add(sums.device_self_ns);
        row.launch_count += sums.launch_count;
        if whole != at {
            continue;
        }
        let host_ns = event.end_ns - event.ts_ns;
        row.call_count += 1;
        row.host_total_ns = row.host_total_ns.saturating_add(host_ns);
        row.device_total_ns = row.device_total_ns.saturating_add(sums.device_total_ns);
        let source = sources.ids[first];
        if source != Names::NONE {
            let time = time_of.entry((index, source)).or_default();
            time.0 = time.0.saturating_add(sums.device_total_ns);
            time.1 = time.1.saturating_add(host_ns);
        }
    }
    // Of equal ones the first by text, so that the order of a hash table decides nothing.
    let mut best: Vec<Option<((i64, i64), u32)>> = vec![None; rows.len()];
    let text = |source: u32| sources.texts[source as usize].as_str();
    #[expect(clippy::iter_over_hash_type, reason = "the largest does not depend on order")]
    for ((row, source), time) in time_of {
        let best = &mut best[row as usize];
        let is_more = best.is_none_or(|(most, known)| {
            time > most || (time == most && text(source) < text(known))
        });
        if is_more {
            *best = Some((time, source));
        }
    }
    let sources = best.into_iter().map(|best| best.map_or(Names::NONE, |(_, s)| s)).collect();
    Rows { rows, sources }
}

/// The text that tells rows with one name apart: the name of its column, and the texts by detail.
type Details<'a> = Option<(&'static str, Vec<Option<&'a str>>)>;

fn batch(
    tables: &Tables<'_>,
    sources: &Names,
    found: &[(i64, Rows)],
    detail: Details<'_>,
) -> Result<RecordBatch> {
    let rows =
        || found.iter().flat_map(|(rank, rows)| rows.rows.iter().map(move |row| (*rank, row)));
    let ranks: Int32Array = rows().map(|(rank, _)| Some(rank as i32)).collect();
    let names = dictionary_array(rows().map(|(_, row)| text(&tables.op_names.texts, row.name)));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("rank", Arc::new(ranks)), ("name", names)];
    if let Some((column, details)) = detail {
        let of_row = |row: &Row| details.get(row.detail as usize).copied().flatten();
        columns.push((column, dictionary_array(rows().map(|(_, row)| of_row(row)))));
    }
    let ints = |value: fn(&Row) -> i64| -> ArrayRef {
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
    let lines = found.iter().flat_map(|(_, rows)| &rows.sources);
    columns.push(("source", dictionary_array(lines.map(|&source| text(&sources.texts, source)))));
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}

fn text(texts: &[String], at: u32) -> Option<&str> {
    texts.get(at as usize).map(String::as_str)
}

pub(super) fn by_name(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let tables = load(inputs, Modules::Frames)?;
    let sources = names(tables.ops, "source")?;
    let found: Vec<(i64, Rows)> = tables
        .forests
        .iter()
        .map(|(&rank, forest)| (rank, rows(&tables, &sources, forest, |_, _| 0)))
        .collect();
    batch(&tables, &sources, &found, None)
}

pub(super) fn by_shape(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let tables = load(inputs, Modules::Frames)?;
    let sources = names(tables.ops, "source")?;
    let shapes = names(tables.ops, "input_dims")?;
    let found: Vec<(i64, Rows)> = tables
        .forests
        .iter()
        .map(|(&rank, forest)| (rank, rows(&tables, &sources, forest, |_, row| shapes.ids[row])))
        .collect();
    let texts = shapes.texts.iter().map(|text| Some(text.as_str())).collect();
    batch(&tables, &sources, &found, Some(("input_dims", texts)))
}

pub(super) fn by_stack(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let tables = load(inputs, Modules::Frames)?;
    let sources = names(tables.ops, "source")?;
    let written = names(tables.ops, "call_stack")?;
    // Built-in functions have no line, and modules are no frames.
    let is_frame: Vec<bool> = tables
        .frame_names
        .texts
        .iter()
        .map(|name| !name.starts_with('<') && !name.starts_with(MODULE_PREFIX))
        .collect();
    let mut stacks = Stacks::default();
    let mut found: Vec<(i64, Rows)> = Vec::new();
    for (&rank, forest) in &tables.forests {
        let of: Vec<u32> = stacks_of(&tables, &written, &is_frame, forest, &mut stacks);
        let has_stacks = forest
            .events
            .iter()
            .zip(&of)
            .any(|(event, &stack)| event.kind == Kind::Operator && stack != Names::NONE);
        if has_stacks {
            found.push((rank, rows(&tables, &sources, forest, |at, _| of[at])));
        }
    }
    let used = found.iter().flat_map(|(_, rows)| &rows.rows).map(|row| row.detail);
    let mut texts: Vec<Option<String>> = Vec::new();
    for stack in used.filter(|&stack| stack != Names::NONE) {
        if texts.len() <= stack as usize {
            texts.resize(stack as usize + 1, None);
        }
        texts[stack as usize].get_or_insert_with(|| {
            stacks.text(stack, |frame| match frame {
                Frame::Call(name) => tables.frame_names.texts[name as usize].as_str(),
                Frame::Stack(text) => written.texts[text as usize].as_str(),
            })
        });
    }
    let texts = texts.iter().map(Option::as_deref).collect();
    batch(&tables, &sources, &found, Some(("call_stack", texts)))
}

/// The stack of each event: what an operator carries, else the frames around it.
fn stacks_of(
    tables: &Tables<'_>,
    written: &Names,
    is_frame: &[bool],
    forest: &Forest,
    stacks: &mut Stacks,
) -> Vec<u32> {
    let mut of: Vec<u32> = Vec::with_capacity(forest.events.len());
    for (at, event) in forest.events.iter().enumerate() {
        let around = forest.parents[at].map(|parent| of[parent as usize]);
        let around = around.filter(|&stack| stack != Names::NONE);
        let row = event.row as usize;
        let stack = match event.kind {
            Kind::Operator => match written.ids[row] {
                Names::NONE => around,
                text => Some(stacks.enter(None, Frame::Stack(text))),
            },
            Kind::Frame => match tables.frame_names.ids[row] {
                name if is_frame.get(name as usize) == Some(&true) => {
                    Some(stacks.enter(around, Frame::Call(name)))
                }
                _ => around,
            },
            _ => around,
        };
        of.push(stack.unwrap_or(Names::NONE));
    }
    of
}
