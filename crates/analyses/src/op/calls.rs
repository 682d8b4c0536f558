//! `op_calls`: every call on the host, with the device work launched below it.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::load::load_trees;
use crate::call_tree::{CallKind, LaunchedActivity, PreorderTree};
use query::rust_view::ViewInputs;

/// The work that a call launched, itself or through the calls below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SubtreeTotals {
    pub(super) kernel_count: i64,
    pub(super) kernel_dur_ns: i64,
    /// Start of the first activity and end of the last.
    pub(super) kernels_ns: Option<(i64, i64)>,
    /// Calls on the longest chain from this call down, itself included.
    pub(super) height: i32,
}

impl SubtreeTotals {
    fn add(&mut self, other: &Self) {
        self.kernel_count += other.kernel_count;
        self.kernel_dur_ns = self.kernel_dur_ns.saturating_add(other.kernel_dur_ns);
        self.kernels_ns = match (self.kernels_ns, other.kernels_ns) {
            (Some((first, last)), Some((start, end))) => Some((first.min(start), last.max(end))),
            (mine, theirs) => mine.or(theirs),
        };
        self.height = self.height.max(other.height + 1);
    }
}

/// The totals of each call, by position in the tree.
pub(super) fn subtree_totals(tree: &PreorderTree, work: &[LaunchedActivity]) -> Vec<SubtreeTotals> {
    let mut totals =
        vec![SubtreeTotals { height: 1, ..SubtreeTotals::default() }; tree.calls.len()];
    for (work, launch) in work.iter().zip(&tree.launches) {
        let Some(launch) = *launch else { continue };
        totals[launch as usize].add(&SubtreeTotals {
            kernel_count: 1,
            kernel_dur_ns: work.dur_ns,
            kernels_ns: Some((work.ts_ns, work.end_ns)),
            height: 0,
        });
    }
    // Children come after their parents, so each is complete when it is added to its parent.
    for position in (0..tree.calls.len()).rev() {
        if let Some(parent) = tree.parents[position] {
            let child = totals[position];
            totals[parent as usize].add(&child);
        }
    }
    totals
}

pub(super) fn calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let trees = load_trees(inputs)?;
    let mut rows = CallColumns::default();
    for rank in &trees.ranks {
        let tree = &rank.tree;
        let totals = subtree_totals(tree, &rank.work);
        // A call that was attached to another thread is not in order of time.
        let mut order: Vec<u32> = (0..tree.calls.len() as u32).collect();
        order.sort_by_key(|&at| {
            let call = &tree.calls[at as usize];
            (call.ts_ns, call.id)
        });
        for at in order {
            rows.push(rank.rank, tree, at as usize, &totals[at as usize]);
        }
    }
    rows.finish(trees.call_names)
}

/// The rows of the view, column by column.
#[derive(Default)]
struct CallColumns {
    ranks: Vec<i32>,
    events: Vec<i64>,
    kinds: Vec<i32>,
    names: Vec<Option<i32>>,
    threads: Vec<i32>,
    starts: Vec<i64>,
    durs: Vec<i64>,
    self_durs: Vec<i64>,
    parents: Vec<Option<i64>>,
    depths: Vec<i32>,
    heights: Vec<i32>,
    kernel_counts: Vec<i64>,
    kernel_durs: Vec<i64>,
    first_kernels: Vec<Option<i64>>,
    last_kernels: Vec<Option<i64>>,
}

impl CallColumns {
    fn push(&mut self, rank: i32, tree: &PreorderTree, at: usize, totals: &SubtreeTotals) {
        let call = &tree.calls[at];
        self.ranks.push(rank);
        self.events.push(call.id);
        self.kinds.push(call.kind as i32);
        self.names.push(i32::try_from(call.name).ok());
        self.threads.push(call.thread as i32);
        self.starts.push(call.ts_ns);
        self.durs.push(call.dur_ns);
        self.self_durs.push(call.self_dur_ns);
        self.parents.push(tree.parents[at].map(|parent| tree.calls[parent as usize].id));
        self.depths.push(tree.depths[at]);
        self.heights.push(totals.height);
        self.kernel_counts.push(totals.kernel_count);
        self.kernel_durs.push(totals.kernel_dur_ns);
        self.first_kernels.push(totals.kernels_ns.map(|(first, _)| first));
        self.last_kernels.push(totals.kernels_ns.map(|(_, last)| last));
    }

    fn finish(self, names: Vec<String>) -> Result<RecordBatch> {
        let kinds = StringArray::from(CallKind::NAMES.to_vec());
        let kinds = DictionaryArray::try_new(Int32Array::from(self.kinds), Arc::new(kinds))?;
        let names = Arc::new(StringArray::from(names));
        let names = DictionaryArray::try_new(Int32Array::from(self.names), names)?;
        let spans = self.first_kernels.iter().zip(&self.last_kernels);
        let spans = spans.map(|(first, last)| Some((*last)?.saturating_sub((*first)?)));
        let spans: Int64Array = spans.collect();
        let columns: [(&str, ArrayRef); 16] = [
            ("rank", Arc::new(Int32Array::from(self.ranks))),
            ("event_id", Arc::new(Int64Array::from(self.events))),
            ("kind", Arc::new(kinds)),
            ("name", Arc::new(names)),
            ("thread", Arc::new(Int32Array::from(self.threads))),
            ("ts_ns", Arc::new(Int64Array::from(self.starts))),
            ("dur_ns", Arc::new(Int64Array::from(self.durs))),
            ("self_dur_ns", Arc::new(Int64Array::from(self.self_durs))),
            ("parent", Arc::new(Int64Array::from(self.parents))),
            ("depth", Arc::new(Int32Array::from(self.depths))),
            ("height", Arc::new(Int32Array::from(self.heights))),
            ("kernel_count", Arc::new(Int64Array::from(self.kernel_counts))),
            ("kernel_dur_ns", Arc::new(Int64Array::from(self.kernel_durs))),
            ("first_kernel_ts_ns", Arc::new(Int64Array::from(self.first_kernels))),
            ("last_kernel_end_ns", Arc::new(Int64Array::from(self.last_kernels))),
            ("kernel_span_ns", Arc::new(spans)),
        ];
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}
