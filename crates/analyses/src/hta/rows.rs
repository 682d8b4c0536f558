//! Rows of `hta_critical_path` and `hta_critical_path_edges`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::endpoints::Endpoints;
use super::frame::NONE;
use super::graph::{Edge, EdgeKind};
use super::names::ShortName;
use query::BatchBuilder;

/// HTA's classes of edges by what bounds them. Dependencies have no class.
const BOUNDS: [&str; 5] = [
    "cpu_bound",
    "gpu_compute_bound",
    "gpu_communication_bound",
    "gpu_kernel_kernel_overhead",
    "gpu_kernel_launch_overhead",
];

/// The index of an edge's class in [`BOUNDS`].
fn bound_by(endpoints: &Endpoints<'_>, edge: &Edge, names: &[ShortName]) -> Option<usize> {
    match edge.kind {
        EdgeKind::KernelDelay => Some(3),
        EdgeKind::LaunchDelay => Some(4),
        EdgeKind::Dependency | EdgeKind::Sync => None,
        EdgeKind::Operator => {
            let event = edge.event.map(|row| &endpoints.frame.events[row as usize])?;
            let name = names.get(event.name as usize);
            Some(match event.stream {
                NONE => 0,
                _ if name.is_some_and(|name| name.is_communication) => 2,
                _ => 1,
            })
        }
    }
}

/// Columns of `hta_critical_path` after `rank`.
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
pub(super) struct SummaryRows {
    ranks: Vec<i32>,
    rows: Vec<[Option<i64>; COLUMNS.len()]>,
}

impl SummaryRows {
    pub(super) fn push(
        &mut self,
        rank: i32,
        endpoints: &Endpoints<'_>,
        path: Option<&[usize]>,
        names: &[ShortName],
    ) {
        let edges = &endpoints.graph.edges;
        let [operators, dependencies, launches, kernels, syncs] = by_kind(edges.iter());
        let mut row = [None; COLUMNS.len()];
        row[..10].copy_from_slice(
            &[
                2 * endpoints.rows.len() as i64,
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
            row[10] = Some(count_distinct(&mut nodes));
            let mut events: Vec<u32> = nodes.iter().map(|&node| endpoints.row(node)).collect();
            row[11] = Some(count_distinct(&mut events));
            for (value, (count, _)) in row[12..17].iter_mut().zip(by_kind(path())) {
                *value = Some(count);
            }
            row[17..].fill(Some(0));
            for edge in path() {
                let bound = bound_by(endpoints, edge, names).map(|bound| 18 + bound);
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

/// Removes duplicates and returns the number of remaining values.
fn count_distinct(values: &mut Vec<u32>) -> i64 {
    values.sort_unstable();
    values.dedup();
    values.len() as i64
}

/// Count and total weight of the edges of each kind.
fn by_kind<'a>(edges: impl Iterator<Item = &'a Edge>) -> [(i64, i64); EdgeKind::ALL.len()] {
    let mut found = [(0, 0_i64); EdgeKind::ALL.len()];
    for edge in edges {
        let (count, sum_ns) = &mut found[edge.kind as usize];
        *count += 1;
        *sum_ns = sum_ns.saturating_add(edge.weight_ns);
    }
    found
}

/// An edge, as a row of `hta_critical_path_edges`.
#[derive(Debug)]
pub(super) struct PathEdge<'n> {
    rank: i32,
    /// On the path.
    position: Option<i64>,
    from_event: i64,
    from_end: bool,
    to_event: i64,
    to_end: bool,
    kind: EdgeKind,
    ts_ns: i64,
    weight_ns: i64,
    event: Option<i64>,
    bound_by: Option<&'static str>,
    short_name: Option<&'n str>,
}

impl<'n> PathEdge<'n> {
    pub(super) fn new(
        rank: i32,
        position: Option<usize>,
        endpoints: &Endpoints<'_>,
        edge: &Edge,
        names: &'n [ShortName],
    ) -> Self {
        let event = |row: u32| &endpoints.frame.events[row as usize];
        let owner = edge.event.map(event);
        let name = owner.and_then(|event| names.get(event.name as usize));
        Self {
            rank,
            position: position.map(|position| position as i64),
            from_event: event(endpoints.row(edge.from)).id,
            from_end: Endpoints::is_end(edge.from),
            to_event: event(endpoints.row(edge.to)).id,
            to_end: Endpoints::is_end(edge.to),
            kind: edge.kind,
            ts_ns: endpoints.ts_ns(edge.from),
            weight_ns: edge.weight_ns,
            event: owner.map(|event| event.id),
            bound_by: bound_by(endpoints, edge, names).map(|at| BOUNDS[at]),
            short_name: name.map(|name| name.text.as_str()),
        }
    }

    pub(super) fn batch(rows: &[Self]) -> Result<RecordBatch> {
        BatchBuilder::of(rows)
            .int32("rank", |row| row.rank.into())
            .int("position", |row| row.position)
            .int("from_event", |row| Some(row.from_event))
            .flag("from_end", |row| row.from_end)
            .int("to_event", |row| Some(row.to_event))
            .flag("to_end", |row| row.to_end)
            .text("type", |row| Some(row.kind.name()))
            .int("ts_ns", |row| Some(row.ts_ns))
            .int("weight_ns", |row| Some(row.weight_ns))
            .int("event_id", |row| row.event)
            .text("bound_by", |row| row.bound_by)
            .text("short_name", |row| row.short_name)
            .finish()
    }
}
