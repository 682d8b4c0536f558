//! `op_by_stack`: totals by operator and call stack.

use query::columns::{Names, names};
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;
use trace_model::vocabulary::MODULE_PREFIX;

use super::stacks::{StackFrame, StackTree};
use super::totals::{RankTotals, rank_totals, totals_batch};
use crate::call_tree::{CallForest, CallForests, EventKind, ModuleSource, load_forests};

pub(super) fn by_stack(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let forests = load_forests(inputs, ModuleSource::Frames)?;
    let sources = names(forests.ops, "source")?;
    let recorded = names(forests.ops, "call_stack")?;
    // Built-in functions have no line, and calls of modules are not frames of the program.
    let is_frame: Vec<bool> = forests
        .frame_names
        .texts
        .iter()
        .map(|name| !name.starts_with('<') && !name.starts_with(MODULE_PREFIX))
        .collect();
    let mut stack_tree = StackTree::default();
    let mut ranks: Vec<(i64, RankTotals)> = Vec::new();
    for (&rank, forest) in &forests.forests {
        let stacks = event_stacks(&forests, &recorded, &is_frame, forest, &mut stack_tree);
        let has_stacks = forest
            .events
            .iter()
            .zip(&stacks)
            .any(|(event, &stack)| event.kind == EventKind::Operator && stack != Names::NONE);
        if has_stacks {
            ranks.push((rank, rank_totals(&forests, &sources, forest, |at, _| Some(stacks[at]))));
        }
    }
    let used = ranks.iter().flat_map(|(_, totals)| &totals.ops).map(|op| op.detail);
    let mut texts: Vec<Option<String>> = Vec::new();
    for stack in used.filter(|&stack| stack != Names::NONE) {
        if texts.len() <= stack as usize {
            texts.resize(stack as usize + 1, None);
        }
        texts[stack as usize].get_or_insert_with(|| {
            stack_tree.text(stack, |frame| match frame {
                StackFrame::Python(name) => forests.frame_names.texts[name as usize].as_str(),
                StackFrame::Recorded(text) => recorded.texts[text as usize].as_str(),
            })
        });
    }
    let texts = texts.iter().map(Option::as_deref).collect();
    totals_batch(&forests, &sources, &ranks, Some(("call_stack", texts)))
}

/// The stack of each event: the one that an operator carries, else the frames around it.
fn event_stacks(
    forests: &CallForests<'_>,
    recorded: &Names,
    is_frame: &[bool],
    forest: &CallForest,
    stack_tree: &mut StackTree,
) -> Vec<u32> {
    let mut stacks: Vec<u32> = Vec::with_capacity(forest.events.len());
    for (at, event) in forest.events.iter().enumerate() {
        let outer = forest.parents[at].map(|parent| stacks[parent as usize]);
        let outer = outer.filter(|&stack| stack != Names::NONE);
        let row = event.row as usize;
        let stack = match event.kind {
            EventKind::Operator => match recorded.ids[row] {
                Names::NONE => outer,
                text => Some(stack_tree.enter(None, StackFrame::Recorded(text))),
            },
            EventKind::Frame => match forests.frame_names.ids[row] {
                name if is_frame.get(name as usize) == Some(&true) => {
                    Some(stack_tree.enter(outer, StackFrame::Python(name)))
                }
                _ => outer,
            },
            _ => outer,
        };
        stacks.push(stack.unwrap_or(Names::NONE));
    }
    stacks
}
