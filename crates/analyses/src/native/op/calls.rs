//! `op_calls`: every call with what lies below it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringDictionaryBuilder};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::error::Result;
use trace_model::RecordBatch;

use super::load::{RankTree, load};
use super::tree::{Kind, Tree, Work};
use crate::native::Inputs;

/// What a call launched, itself or through the calls below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) kernel_count: i64,
    pub(super) kernel_dur_ns: i64,
    /// First start and last end.
    pub(super) kernels_ns: Option<(i64, i64)>,
    /// Of the longest chain of calls below, itself included.
    pub(super) height: i32,
}

impl Below {
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

/// By position in the tree.
pub(super) fn below(tree: &Tree, work: &[Work]) -> Vec<Below> {
    let mut below = vec![Below { height: 1, ..Below::default() }; tree.calls.len()];
    for (work, launch) in work.iter().zip(&tree.launches) {
        let Some(launch) = *launch else { continue };
        below[launch].add(&Below {
            kernel_count: 1,
            kernel_dur_ns: work.dur_ns,
            kernels_ns: Some((work.ts_ns, work.end_ns)),
            height: 0,
        });
    }
    // Children follow their parents, so that each is complete when it is added.
    for position in (0..tree.calls.len()).rev() {
        if let Some(parent) = tree.parents[position] {
            let child = below[position];
            below[parent].add(&child);
        }
    }
    below
}

pub(crate) fn calls(inputs: &Inputs<'_>) -> Result<RecordBatch> {
    let loaded = load(inputs)?;
    let mut rows: Vec<(&RankTree, usize)> = Vec::new();
    let mut belows = Vec::new();
    for rank in &loaded.ranks {
        let start = rows.len();
        rows.extend((0..rank.tree.calls.len()).map(|position| (rank, position)));
        rows[start..].sort_by_key(|&(rank, position)| {
            let call = &rank.tree.calls[position];
            (call.ts_ns, call.id)
        });
        let below = below(&rank.tree, &rank.work);
        belows.extend(rows[start..].iter().map(|&(_, position)| below[position]));
    }

    let call = |&(rank, position): &(&'_ RankTree, usize)| rank.tree.calls[position];
    let mut names = StringDictionaryBuilder::<Int32Type>::new();
    let mut kinds = StringDictionaryBuilder::<Int32Type>::new();
    for row in &rows {
        names.append_option(loaded.call_names.get(call(row).name as usize));
        kinds.append_value(match call(row).kind {
            Kind::Operator => "operator",
            Kind::RuntimeCall => "runtime_call",
            Kind::Annotation => "annotation",
            Kind::PythonFrame => "python_frame",
        });
    }
    let of_call = |value: &dyn Fn(super::tree::Call) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(call(row)))).collect::<Int64Array>())
    };
    let of_below = |value: &dyn Fn(&Below) -> Option<i64>| -> ArrayRef {
        Arc::new(belows.iter().map(value).collect::<Int64Array>())
    };
    let small = |value: &dyn Fn(&(&RankTree, usize)) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int32Array>())
    };
    let parents: Int64Array = rows
        .iter()
        .map(|(rank, position)| rank.tree.parents[*position].map(|p| rank.tree.calls[p].id))
        .collect();
    let heights: Int32Array = belows.iter().map(|below| Some(below.height)).collect();
    Ok(RecordBatch::try_from_iter([
        ("rank", small(&|(rank, _)| rank.rank)),
        ("event_id", of_call(&|call| call.id)),
        ("kind", Arc::new(kinds.finish()) as ArrayRef),
        ("name", Arc::new(names.finish())),
        ("thread", small(&|row| call(row).thread as i32)),
        ("ts_ns", of_call(&|call| call.ts_ns)),
        ("dur_ns", of_call(&|call| call.dur_ns)),
        ("self_dur_ns", of_call(&|call| call.self_dur_ns)),
        ("parent", Arc::new(parents)),
        ("depth", small(&|(rank, position)| rank.tree.depths[*position])),
        ("height", Arc::new(heights)),
        ("kernel_count", of_below(&|below| Some(below.kernel_count))),
        ("kernel_dur_ns", of_below(&|below| Some(below.kernel_dur_ns))),
        ("first_kernel_ts_ns", of_below(&|below| Some(below.kernels_ns?.0))),
        ("last_kernel_end_ns", of_below(&|below| Some(below.kernels_ns?.1))),
        (
            "kernel_span_ns",
            of_below(&|below| below.kernels_ns.map(|(first, last)| last.saturating_sub(first))),
        ),
    ])?)
}
