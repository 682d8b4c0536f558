//! From solved graphs to rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, StringDictionaryBuilder,
};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::error::Result;
use trace_model::RecordBatch;

use super::frame::NONE;
use super::graph::{Edge, EdgeKind};
use super::moments::Moments;
use super::names::Short;

/// HTA's classes of what bounds an edge; dependencies have none.
const BOUNDS: [&str; 5] = [
    "cpu_bound",
    "gpu_compute_bound",
    "gpu_communication_bound",
    "gpu_kernel_kernel_overhead",
    "gpu_kernel_launch_overhead",
];

/// Index of a class.
fn bound_by(moments: &Moments<'_>, edge: &Edge, names: &[Short]) -> Option<usize> {
    match edge.kind {
        EdgeKind::KernelDelay => Some(3),
        EdgeKind::LaunchDelay => Some(4),
        EdgeKind::Dependency | EdgeKind::Sync => None,
        EdgeKind::Operator => {
            let event = edge.event.map(|row| &moments.frame.events[row as usize])?;
            let name = names.get(event.name as usize);
            Some(match event.stream {
                NONE => 0,
                _ if name.is_some_and(|name| name.is_communication) => 2,
                _ => 1,
            })
        }
    }
}

/// Columns of `hta_critical_path` after the rank.
const COLUMNS: [&str; 23] = [
    "node_count",
    "edge_count",
    "operator_edge_count",
    "dependency_edge_count",
    "launch_delay_edge_count",
    "kernel_delay_edge_count",
    "sync_edge_count",
    "operator_edges_ns",
    "launch_delay_edges_ns",
    "kernel_delay_edges_ns",
    "path_node_count",
    "path_event_count",
    "path_operator_edge_count",
    "path_dependency_edge_count",
    "path_launch_delay_edge_count",
    "path_kernel_delay_edge_count",
    "path_sync_edge_count",
    "path_ns",
    "cpu_bound_ns",
    "gpu_compute_bound_ns",
    "gpu_communication_bound_ns",
    "gpu_kernel_kernel_overhead_ns",
    "gpu_kernel_launch_overhead_ns",
];

/// Rows of `hta_critical_path`.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    ranks: Vec<i32>,
    rows: Vec<[Option<i64>; COLUMNS.len()]>,
}

impl Summaries {
    pub(super) fn push(
        &mut self,
        rank: i32,
        moments: &Moments<'_>,
        path: Option<&[usize]>,
        names: &[Short],
    ) {
        let edges = &moments.graph.edges;
        let [operators, dependencies, launches, kernels, syncs] = by_kind(edges.iter());
        let mut row = [None; COLUMNS.len()];
        row[..10].copy_from_slice(
            &[
                2 * moments.rows.len() as i64,
                edges.len() as i64,
                operators.0,
                dependencies.0,
                launches.0,
                kernels.0,
                syncs.0,
                operators.1,
                launches.1,
                kernels.1,
            ]
            .map(Some),
        );
        if let Some(path) = path {
            let path = || path.iter().map(|&edge| &edges[edge]);
            let mut nodes: Vec<u32> = path().flat_map(|e| [e.from, e.to]).collect();
            row[10] = Some(distinct(&mut nodes));
            let mut events: Vec<u32> = nodes.iter().map(|&node| moments.row(node)).collect();
            row[11] = Some(distinct(&mut events));
            for (value, (count, _)) in row[12..17].iter_mut().zip(by_kind(path())) {
                *value = Some(count);
            }
            row[17..].fill(Some(0));
            for edge in path() {
                let bound = bound_by(moments, edge, names).map(|bound| 18 + bound);
                for at in [Some(17), bound].into_iter().flatten() {
                    row[at] = row[at].map(|sum| sum.saturating_add(edge.weight_ns));
                }
            }
        }
        self.ranks.push(rank);
        self.rows.push(row);
    }

    pub(super) fn finish(self) -> Result<RecordBatch> {
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("rank", Arc::new(Int32Array::from(self.ranks)))];
        for (at, name) in COLUMNS.into_iter().enumerate() {
            let values: Int64Array = self.rows.iter().map(|row| row[at]).collect();
            columns.push((name, Arc::new(values)));
        }
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}

/// How many they are, each counted once; the others are taken out.
fn distinct(values: &mut Vec<u32>) -> i64 {
    values.sort_unstable();
    values.dedup();
    values.len() as i64
}

/// Number and weight of the edges of each kind.
fn by_kind<'a>(edges: impl Iterator<Item = &'a Edge>) -> [(i64, i64); EdgeKind::ALL.len()] {
    let mut found = [(0, 0_i64); EdgeKind::ALL.len()];
    for edge in edges {
        let (count, sum_ns) = &mut found[edge.kind as usize];
        *count += 1;
        *sum_ns = sum_ns.saturating_add(edge.weight_ns);
    }
    found
}

/// Rows of `hta_critical_path_edges`.
#[derive(Default)]
pub(super) struct Edges {
    ranks: Vec<i32>,
    positions: Vec<i64>,
    from_events: Vec<i64>,
    from_ends: Vec<bool>,
    to_events: Vec<i64>,
    to_ends: Vec<bool>,
    kinds: StringDictionaryBuilder<Int32Type>,
    starts: Vec<i64>,
    weights: Vec<i64>,
    events: Vec<Option<i64>>,
    bounds: StringDictionaryBuilder<Int32Type>,
    short_names: StringDictionaryBuilder<Int32Type>,
}

impl Edges {
    pub(super) fn push(
        &mut self,
        rank: i32,
        position: usize,
        moments: &Moments<'_>,
        edge: usize,
        names: &[Short],
    ) {
        let edge = &moments.graph.edges[edge];
        let event = |row: u32| &moments.frame.events[row as usize];
        self.ranks.push(rank);
        self.positions.push(position as i64);
        self.from_events.push(event(moments.row(edge.from)).id);
        self.from_ends.push(Moments::is_end(edge.from));
        self.to_events.push(event(moments.row(edge.to)).id);
        self.to_ends.push(Moments::is_end(edge.to));
        self.kinds.append_value(edge.kind.name());
        self.starts.push(moments.ts_ns(edge.from));
        self.weights.push(edge.weight_ns);
        let spent_in = edge.event.map(event);
        self.events.push(spent_in.map(|e| e.id));
        self.bounds.append_option(bound_by(moments, edge, names).map(|at| BOUNDS[at]));
        let name = spent_in.and_then(|e| names.get(e.name as usize));
        self.short_names.append_option(name.map(|name| name.text.as_str()));
    }

    pub(super) fn finish(mut self) -> Result<RecordBatch> {
        let columns: [(&str, ArrayRef); 12] = [
            ("rank", Arc::new(Int32Array::from(self.ranks))),
            ("position", Arc::new(Int64Array::from(self.positions))),
            ("from_event", Arc::new(Int64Array::from(self.from_events))),
            ("from_end", Arc::new(BooleanArray::from(self.from_ends))),
            ("to_event", Arc::new(Int64Array::from(self.to_events))),
            ("to_end", Arc::new(BooleanArray::from(self.to_ends))),
            ("type", Arc::new(self.kinds.finish())),
            ("ts_ns", Arc::new(Int64Array::from(self.starts))),
            ("weight_ns", Arc::new(Int64Array::from(self.weights))),
            ("event_id", Arc::new(Int64Array::from(self.events))),
            ("bound_by", Arc::new(self.bounds.finish())),
            ("short_name", Arc::new(self.short_names.finish())),
        ];
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}
