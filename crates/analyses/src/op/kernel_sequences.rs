//! `op_kernel_sequences`: the kernels that an operator runs, in order, and how often it runs them.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::load::{RankCalls, load_trees};
use crate::call_tree::{CallKind, HostCall};
use query::rust_view::ViewInputs;

/// The calls with one name that ran the same kernels in the same order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KernelSequence {
    /// Index of the name of the call, then of the names of its kernels.
    pub(super) names: Box<[u32]>,
    pub(super) count: i64,
    pub(super) device_dur_ns: i64,
    pub(super) host_dur_ns: i64,
}

/// The calls to look at.
#[derive(Debug)]
pub(super) enum CallSelection {
    /// Calls whose name, by its index, is marked: of all of them, the outermost.
    Named(Vec<bool>),
    /// Every operator and annotation: of each name, the outermost.
    All,
}

impl CallSelection {
    /// The group of a call. Of each group only the calls of least depth count.
    fn group(&self, call: &HostCall) -> Option<u32> {
        match self {
            Self::Named(names) => (names.get(call.name as usize) == Some(&true)).then_some(0),
            Self::All => {
                matches!(call.kind, CallKind::Operator | CallKind::Annotation).then_some(call.name)
            }
        }
    }
}

/// The sequences of a rank, most frequent first, then longest on the device, then in order of appearance.
pub(super) fn find_sequences(
    rank: &RankCalls,
    selection: &CallSelection,
    min_kernels: usize,
) -> Vec<KernelSequence> {
    let RankCalls { tree, work, .. } = rank;
    let mut least_depths: FxHashMap<u32, i32> = FxHashMap::default();
    for (call, &depth) in tree.calls.iter().zip(&tree.depths) {
        if let Some(group) = selection.group(call) {
            let least = least_depths.entry(group).or_insert(depth);
            *least = depth.min(*least);
        }
    }
    // Work by the call that launched it. The work of a call and all calls below it is one range, as the calls are.
    let mut launched: Vec<(u32, usize)> = tree
        .launches
        .iter()
        .enumerate()
        .filter_map(|(order, &launch)| Some((launch?, order)))
        .collect();
    launched.sort_unstable();

    let mut known: FxHashMap<Box<[u32]>, usize> = FxHashMap::default();
    let mut found: Vec<KernelSequence> = Vec::new();
    let (mut orders, mut names) = (Vec::new(), Vec::new());
    for (position, call) in (0_u32..).zip(&tree.calls) {
        let (depth, end) = (tree.depths[position as usize], tree.ends[position as usize]);
        let group = selection.group(call).and_then(|group| least_depths.get(&group));
        if group != Some(&depth) {
            continue;
        }
        let from = launched.partition_point(|&(launch, _)| launch < position);
        let to = launched.partition_point(|&(launch, _)| launch < end);
        if to - from < min_kernels {
            continue;
        }
        orders.clear();
        orders.extend(launched[from..to].iter().map(|&(_, order)| order));
        // Work is numbered in order of start, and mostly starts in the order of its launches.
        if !orders.is_sorted() {
            orders.sort_unstable();
        }
        names.clear();
        names.push(call.name);
        names.extend(orders.iter().map(|&order| work[order].name));
        let at = known.get(names.as_slice()).copied().unwrap_or_else(|| {
            let names: Box<[u32]> = names.as_slice().into();
            known.insert(names.clone(), found.len());
            found.push(KernelSequence { names, ..KernelSequence::default() });
            found.len() - 1
        });
        let sequence = &mut found[at];
        sequence.count += 1;
        sequence.host_dur_ns = sequence.host_dur_ns.saturating_add(call.dur_ns);
        for &order in &orders {
            sequence.device_dur_ns = sequence.device_dur_ns.saturating_add(work[order].dur_ns);
        }
    }
    found.sort_by_key(|sequence| Reverse((sequence.count, sequence.device_dur_ns)));
    found
}

pub(super) fn kernel_sequences(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let operator = inputs.text("operator")?;
    let min_kernels = usize::try_from(inputs.int("min_pattern_len")?).unwrap_or(0);
    let max_sequences = match usize::try_from(inputs.int("top_k")?) {
        Ok(count) if count > 0 => count,
        _ => usize::MAX,
    };
    let trees = load_trees(inputs)?;
    let selection = if operator.is_empty() {
        CallSelection::All
    } else {
        CallSelection::Named(trees.call_names.iter().map(|name| name.contains(operator)).collect())
    };
    let mut rows = Vec::new();
    for rank in &trees.ranks {
        let found = find_sequences(rank, &selection, min_kernels);
        rows.extend(
            found
                .into_iter()
                .take(max_sequences)
                .enumerate()
                .map(|(i, found)| (rank.rank, i, found)),
        );
    }
    let name = |names: &[String], id: u32| names.get(id as usize).cloned().unwrap_or_default();
    let ints = |value: &dyn Fn(&KernelSequence) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, _, found)| Some(value(found))).collect::<Int64Array>())
    };
    let operators: StringArray = rows
        .iter()
        .map(|(_, _, found)| Some(name(&trees.call_names, *found.names.first()?)))
        .collect();
    let patterns: StringArray = rows
        .iter()
        .map(|(_, _, found)| {
            let (root, kernels) = found.names.split_first()?;
            let mut pattern = name(&trees.call_names, *root);
            for &kernel in kernels {
                pattern.push('|');
                pattern.push_str(trees.work_names.get(kernel as usize).map_or("", String::as_str));
            }
            Some(pattern)
        })
        .collect();
    Ok(RecordBatch::try_from_iter([
        ("rank", Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int32Array>()) as ArrayRef),
        ("position", Arc::new(rows.iter().map(|row| Some(row.1 as i64)).collect::<Int64Array>())),
        ("operator", Arc::new(operators)),
        ("pattern", Arc::new(patterns)),
        ("occurrence_count", ints(&|found| found.count)),
        ("kernel_count", ints(&|found| found.names.len() as i64 - 1)),
        ("device_dur_ns", ints(&|found| found.device_dur_ns)),
        ("host_dur_ns", ints(&|found| found.host_dur_ns)),
    ])?)
}
