//! Times the graph again with other weights.

use super::graph::{EdgeKind, Graph};
use super::model::{NO_INDEX, TimeClass};

/// Weight of an edge that no longer constrains its target.
const REMOVED: i64 = i64::MIN;

/// What is left of the edges and rests of a graph, in ns.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    /// By edge.
    edges: Vec<i64>,
    /// By node.
    rests: Vec<i64>,
    /// From the last node to the end of the window.
    tail: i64,
}

impl Weights {
    /// The recorded weights: replaying them gives the recorded times.
    pub(crate) fn recorded(graph: &Graph) -> Self {
        let recorded = graph.last_node().map_or(graph.window.begin_ns, |at| graph.nodes[at].ts_ns);
        Self {
            edges: graph.edges.iter().map(|edge| edge.weight).collect(),
            rests: graph.nodes.iter().map(|node| node.rest).collect(),
            tail: graph.window.end_ns - recorded,
        }
    }

    /// The same constraints without any time.
    pub(crate) fn without_time(&self) -> Self {
        let no_time = |ns: &i64| if *ns == REMOVED { REMOVED } else { 0 };
        let edges = self.edges.iter().map(no_time).collect();
        Self { edges, rests: vec![0; self.rests.len()], tail: 0 }
    }

    pub(crate) fn edge(&self, edge: usize) -> i64 {
        self.edges[edge]
    }

    pub(crate) fn set_edge(&mut self, edge: usize, ns: i64) {
        if self.edges[edge] != REMOVED {
            self.edges[edge] = ns;
        }
    }

    pub(crate) fn remove_edge(&mut self, edge: usize) {
        self.edges[edge] = REMOVED;
    }

    /// Applies `scale` to all edges and rests by class.
    pub(crate) fn scale(&mut self, graph: &Graph, scale: impl Fn(TimeClass, i64) -> i64) {
        for (ns, edge) in self.edges.iter_mut().zip(&graph.edges) {
            *ns = scale(edge.class, *ns);
        }
        for (ns, node) in self.rests.iter_mut().zip(&graph.nodes) {
            *ns = scale(node.rest_class, *ns);
        }
        self.tail = scale(TimeClass::Other, self.tail);
    }

    /// Keeps at least `gap_ns` between a device activity and its predecessors on the stream or in the graph, unless the gap in the
    /// recording is shorter. Recorded times stay unchanged.
    pub(crate) fn keep_stream_gaps(&mut self, graph: &Graph, gap_ns: i64) {
        for (target, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.on_device) {
            for at in graph.edge_range(target) {
                let edge = &graph.edges[at];
                if matches!(edge.kind, EdgeKind::StreamOrder | EdgeKind::GraphOrder) {
                    let apart = node.ts_ns - node.rest - graph.nodes[edge.source as usize].ts_ns;
                    self.set_edge(at, gap_ns.clamp(edge.weight, apart.max(edge.weight)));
                }
            }
        }
    }
}

/// The time of each node, and the end of the window.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) times: Vec<i64>,
    pub(crate) end_ns: i64,
}

/// Times the graph: a node happens when the last of its predecessors plus its weight is reached, and after its rest.
pub(crate) fn replay(graph: &Graph, weights: &Weights) -> Replay {
    let mut times: Vec<i64> = Vec::with_capacity(graph.nodes.len());
    for node in 0..graph.nodes.len() {
        let mut arrival = i64::MIN;
        for at in graph.edge_range(node) {
            let weight = weights.edges[at];
            if weight != REMOVED {
                arrival =
                    arrival.max(times[graph.edges[at].source as usize].saturating_add(weight));
            }
        }
        if arrival == i64::MIN {
            arrival = graph.window.begin_ns;
        }
        times.push(arrival.saturating_add(weights.rests[node]));
    }
    let last = times.iter().copied().max().unwrap_or(graph.window.begin_ns);
    let end_ns = last.saturating_add(weights.tail);
    Replay { times, end_ns }
}

/// Time by class on the path that leads to the last node under these weights.
pub(crate) fn path_classes(
    graph: &Graph,
    weights: &Weights,
    replay: &Replay,
) -> [i64; TimeClass::COUNT] {
    let mut by_class = [0_i64; TimeClass::COUNT];
    let times = &replay.times;
    let last = (0..times.len()).max_by_key(|&node| times[node]);
    let mut node = last;
    while let Some(at) = node {
        let arrival = |edge: usize| {
            let weight = weights.edges[edge];
            (weight != REMOVED).then(|| times[graph.edges[edge].source as usize] + weight)
        };
        let binding = graph
            .edge_range(at)
            .filter_map(|edge| Some((arrival(edge)?, edge)))
            .max_by_key(|&(ns, edge)| (ns, std::cmp::Reverse(graph.edges[edge].kind)));
        let Some((arrival_ns, edge)) = binding else { break };
        let taken = &graph.edges[edge];
        by_class[taken.class as usize] += weights.edges[edge];
        by_class[taken.rest as usize] += times[at] - arrival_ns;
        node = Some(taken.source as usize);
    }
    debug_assert!(graph.nodes.len() < NO_INDEX as usize);
    by_class
}
