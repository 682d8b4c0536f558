//! The time that recording adds to host threads.

use super::graph::{EdgeKind, Graph};
use super::model::{EventTable, RankEvents, TimeClass};
use super::replay::Weights;

/// Time that recording one host event adds to its thread, in ns, at the ends of an 80 % interval and in between. Half
/// of it passes where the event begins, half where it ends. Fitted on the runs of `tests/fixtures/h100` whose steps were
/// also timed without the profiler (`docs/measured-gains.md`).
struct EventOverhead {
    operator: [f64; 3],
    runtime_call: [f64; 3],
    annotation: [f64; 3],
    frame: [f64; 3],
}

const OVERHEAD: EventOverhead = EventOverhead {
    operator: [1_300.0, 2_500.0, 3_700.0],
    runtime_call: [200.0, 500.0, 1_000.0],
    annotation: [1_300.0, 2_500.0, 3_700.0],
    frame: [100.0, 250.0, 500.0],
};

/// Share by which the rest of the host time is longer as well: what the profiler writes takes the caches from the
/// program, and a short recording begins on a cold CPU. Fitted like [`OVERHEAD`].
const SLOWDOWN_RATIO: [f64; 3] = [0.05, 0.2, 0.35];

/// Longest part of a stretch of host time that is slower: inside an operator or a call, and between them. A longer one
/// computes, copies or waits, at its own speed.
const MAX_SLOWED_OPERATOR_NS: f64 = 500_000.0;
const MAX_SLOWED_CALL_NS: f64 = 10_000.0;
const MAX_SLOWED_GAP_NS: f64 = 20_000_000.0;

/// Recording takes at most this share of any stretch of host time.
const MAX_OVERHEAD_RATIO: f64 = 0.7;

/// How much of the fitted overhead is assumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OverheadLevel {
    /// Position in the interval: 0 is the lower end, 1 the fit, 2 the upper end.
    pub(super) position: usize,
    /// Factor on all of it.
    pub(super) scale: f64,
}

impl OverheadLevel {
    pub(super) const EXPECTED: Self = Self { position: 1, scale: 1.0 };
}

/// The overhead inside each host edge of a graph, in ns, by position in the interval.
pub(super) struct HostOverhead {
    edges: Vec<(u32, [f64; 3])>,
}

impl HostOverhead {
    pub(super) fn new(graph: &Graph, events: &RankEvents) -> Self {
        // Other tools than PyTorch's profiler record few events.
        let is_profiled =
            events.host.iter().any(|event| !matches!(event.table, EventTable::Annotations));
        if !is_profiled {
            return Self { edges: Vec::new() };
        }
        let timelines = &graph.host.timelines;
        let mut borders: Vec<Vec<(i64, [f64; 3])>> = vec![Vec::new(); timelines.len()];
        for event in &events.host {
            let cost = match event.table {
                EventTable::CpuOps => OVERHEAD.operator,
                EventTable::RuntimeCalls => OVERHEAD.runtime_call,
                EventTable::Annotations => OVERHEAD.annotation,
                EventTable::PythonFrames => OVERHEAD.frame,
                EventTable::Kernels | EventTable::Memcpys | EventTable::Memsets => continue,
            };
            if let Ok(k) = timelines.binary_search_by_key(&event.lane, |t| t.lane) {
                let half = cost.map(|ns| ns / 2.0);
                borders[k].extend([(event.ts_ns, half), (event.end_ns, half)]);
            }
        }
        // Costs up to each border.
        for borders in &mut borders {
            borders.sort_by_key(|&(ts_ns, _)| ts_ns);
            let mut sum = [0.0; 3];
            for (_, cost) in borders {
                for (sum, cost) in sum.iter_mut().zip(cost.iter_mut()) {
                    *sum += *cost;
                    *cost = *sum;
                }
            }
        }
        let mut edges = Vec::new();
        for target in 0..graph.nodes.len() {
            for at in graph.edge_range(target) {
                let edge = &graph.edges[at];
                if edge.kind != EdgeKind::Host || edge.weight == 0 {
                    continue;
                }
                let borders = &borders[edge.subject as usize];
                let until = |ts_ns: i64| {
                    let next = borders.partition_point(|&(at, _)| at <= ts_ns);
                    next.checked_sub(1).map_or([0.0; 3], |last| borders[last].1)
                };
                let before = until(graph.nodes[edge.source as usize].ts_ns);
                let mut inside = until(graph.nodes[target].ts_ns);
                for (inside, before) in inside.iter_mut().zip(before) {
                    *inside -= before;
                }
                let max_slowed_ns = match edge.class {
                    TimeClass::Operator => MAX_SLOWED_OPERATOR_NS,
                    TimeClass::RuntimeCall => MAX_SLOWED_CALL_NS,
                    class if class.host_kind().is_some() => MAX_SLOWED_GAP_NS,
                    _ => 0.0,
                };
                for (inside_ns, ratio) in inside.iter_mut().zip(SLOWDOWN_RATIO) {
                    let rest_ns = (edge.weight as f64 - *inside_ns).clamp(0.0, max_slowed_ns);
                    *inside_ns += rest_ns * ratio / (1.0 + ratio);
                }
                edges.push((at as u32, inside));
            }
        }
        Self { edges }
    }

    /// The recorded weights without the overhead.
    pub(super) fn without(&self, recorded: &Weights, level: OverheadLevel) -> Weights {
        let mut weights = recorded.clone();
        for (edge, overhead_ns) in &self.edges {
            let edge = *edge as usize;
            let ns = recorded.edge(edge);
            let most = ns as f64 * MAX_OVERHEAD_RATIO;
            let overhead_ns = (overhead_ns[level.position] * level.scale).min(most);
            weights.set_edge(edge, ns - overhead_ns.round() as i64);
        }
        weights
    }

    /// All of it, in ns.
    pub(super) fn sum_ns(&self) -> f64 {
        self.edges.iter().map(|(_, overhead_ns)| overhead_ns[1]).sum()
    }
}
