//! The time that recording adds to host threads.

use super::graph::{EdgeKind, Graph};
use super::host::NodeTime;
use super::model::{EventTable, RankEvents, TimeClass};
use super::replay::Weights;

/// Time that recording one host event adds to its thread, in ns, at the ends of an 80 % interval and in between. Half
/// of it passes where the event begins, half where it ends. Fitted on the runs of `tests/fixtures/h100` whose steps were
/// also timed without the profiler (`docs/evidence/measured-gains.md`).
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
pub(crate) struct OverheadLevel {
    /// Position in the interval: 0 is the lower end, 1 the fit, 2 the upper end.
    pub(crate) position: usize,
    /// Factor on all of it.
    pub(crate) scale: f64,
}

impl OverheadLevel {
    pub(crate) const EXPECTED: Self = Self { position: 1, scale: 1.0 };
}

/// The overhead inside each host edge of a graph, in ns, by position in the interval.
#[derive(Debug)]
pub(crate) struct HostOverhead {
    edges: Vec<(u32, [f64; 3])>,
}

impl HostOverhead {
    pub(crate) fn new(graph: &Graph, events: &RankEvents) -> Self {
        // Other tools than PyTorch's profiler record few events.
        let is_profiled =
            events.host.iter().any(|event| !matches!(event.table, EventTable::Annotations));
        if !is_profiled {
            return Self { edges: Vec::new() };
        }
        let until = overhead_until(graph, events);
        let mut edges = Vec::new();
        for target in 0..graph.nodes.len() {
            for at in graph.edge_range(target) {
                let edge = &graph.edges[at];
                if edge.kind != EdgeKind::Host || edge.weight == 0 {
                    continue;
                }
                let mut inside = until[target];
                for (inside, before) in inside.iter_mut().zip(until[edge.source as usize]) {
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
    pub(crate) fn without(&self, recorded: &Weights, level: OverheadLevel) -> Weights {
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
    pub(crate) fn sum_ns(&self) -> f64 {
        self.edges.iter().map(|(_, overhead_ns)| overhead_ns[1]).sum()
    }
}

/// For each node of a host thread, the overhead of all that begins or ends on the thread until then. Other nodes have none.
fn overhead_until(graph: &Graph, events: &RankEvents) -> Vec<[f64; 3]> {
    let timelines = &graph.host.timelines;
    // By thread and position on it: first the overhead since the node before. Sums are exact, in any order: all terms are
    // multiples of 1/2.
    let mut until: Vec<Vec<[f64; 3]>> =
        graph.host.node_times.iter().map(|times| vec![[0.0; 3]; times.len() + 1]).collect();
    let mut near = vec![0; timelines.len()];
    for event in &events.host {
        let cost = match event.table {
            EventTable::CpuOps => OVERHEAD.operator,
            EventTable::RuntimeCalls => OVERHEAD.runtime_call,
            EventTable::Annotations => OVERHEAD.annotation,
            EventTable::PythonFrames => OVERHEAD.frame,
            EventTable::Kernels | EventTable::Memcpys | EventTable::Memsets => continue,
        };
        let Ok(k) = timelines.binary_search_by_key(&event.lane, |t| t.lane) else { continue };
        let times = &graph.host.node_times[k];
        // Events come by start, and most end soon.
        near[k] = position_near(times, near[k], event.ts_ns);
        for at in [near[k], position_near(times, near[k], event.end_ns)] {
            for (sum, ns) in until[k][at].iter_mut().zip(cost) {
                *sum += ns / 2.0;
            }
        }
    }
    let mut of_nodes = vec![[0.0; 3]; graph.nodes.len()];
    for (until, nodes) in until.iter().zip(&graph.host_nodes) {
        let mut sum = [0.0; 3];
        for (since, &node) in until.iter().zip(nodes) {
            for (sum, since) in sum.iter_mut().zip(since) {
                *sum += since;
            }
            of_nodes[node as usize] = sum;
        }
    }
    of_nodes
}

/// The first position from which on times are at least `ns`, searched from `near`.
fn position_near(times: &[NodeTime], near: usize, ns: i64) -> usize {
    let is_before = |at: usize| times.get(at).is_some_and(|time| time.ts_ns < ns);
    let (mut low, mut high, mut stride) = (near, near, 1);
    if is_before(near) {
        while is_before(high) {
            low = high + 1;
            high += stride;
            stride *= 2;
        }
    } else {
        while low > 0 && !is_before(low - 1) {
            high = low - 1;
            low = low.saturating_sub(stride);
            stride *= 2;
        }
    }
    let high = high.min(times.len());
    low + times[low..high].partition_point(|time| time.ts_ns < ns)
}

#[cfg(test)]
mod tests {
    use super::{NodeTime, position_near};

    #[test]
    fn positions_are_those_of_a_search_over_all_times() {
        let times: Vec<NodeTime> =
            [3, 5, 8, 9, 20, 21, 40].map(|ts_ns| NodeTime { ts_ns, returns: false }).into();
        for ns in 0..45 {
            let expected = times.partition_point(|time| time.ts_ns < ns);
            for near in 0..=times.len() {
                assert_eq!(position_near(&times, near, ns), expected, "{ns} from {near}");
            }
        }
        assert_eq!(position_near(&[], 0, 5), 0);
    }
}
