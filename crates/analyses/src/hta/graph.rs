//! A directed graph with at most one edge between two nodes, and its longest path.

use std::cmp::Reverse;
use std::mem::replace;

/// The meaning of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    Operator,
    Dependency,
    LaunchDelay,
    KernelDelay,
    Sync,
}

impl EdgeKind {
    pub(super) const ALL: [Self; 5] =
        [Self::Operator, Self::Dependency, Self::LaunchDelay, Self::KernelDelay, Self::Sync];

    /// HTA's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Operator => "critical_path_operator",
            Self::Dependency => "critical_path_dependency",
            Self::LaunchDelay => "critical_path_kernel_launch_delay",
            Self::KernelDelay => "critical_path_kernel_kernel_delay",
            Self::Sync => "critical_path_sync_dependency",
        }
    }
}

/// An edge between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: EdgeKind,
    pub(super) weight_ns: i64,
    /// Row of the event that the weight is the time of.
    pub(super) event: Option<u32>,
}

/// Edges in the order in which their pairs of nodes were first connected.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) edges: Vec<Edge>,
}

/// HTA takes an edge that goes back in time by a microsecond or more for an error of the trace, with no weight.
const CLOCK_ERROR_NS: i64 = -1_000;

impl Graph {
    /// Adds an edge.
    pub(super) fn add(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    /// Keeps one edge between two nodes: the last one, at the position of the first. The order of edges stays the order
    /// in which pairs of nodes were first connected.
    pub(super) fn sort_edges(&mut self) {
        let adjacency = Adjacency::new(&self.edges);
        let mut is_kept = vec![true; self.edges.len()];
        let mut same: Vec<(u32, u32)> = Vec::new();
        for node in 0..adjacency.nodes() {
            same.clear();
            same.extend(adjacency.edges(node).iter().map(|&at| (self.edges[at as usize].to, at)));
            // Edges to one node stay in the order in which they were added.
            same.sort_unstable();
            for edges in same.chunk_by(|a, b| a.0 == b.0).filter(|edges| edges.len() > 1) {
                let (first, last) = (edges[0].1, edges[edges.len() - 1].1);
                self.edges[first as usize] = self.edges[last as usize];
                for &(_, later) in &edges[1..] {
                    is_kept[later as usize] = false;
                }
            }
        }
        let mut is_kept = is_kept.into_iter();
        self.edges.retain(|_| is_kept.next() == Some(true));
    }

    /// The edges of the longest path, by position; `None` if the graph has a cycle. Ties are broken as in networkx:
    /// nodes are ordered by the edges that first name them, and the first of equals wins.
    pub(super) fn longest_path(&self) -> Option<Vec<usize>> {
        let adjacency = Adjacency::new(&self.edges);
        let mut distances = vec![Distance::default(); adjacency.nodes()];
        for edge in &self.edges {
            distances[edge.to as usize].unvisited_edges += 1;
        }
        // Topological order by Kahn's algorithm.
        let mut order = self.sources(&distances);
        let mut last: Option<(i64, u32)> = None;
        let mut done = 0;
        while let Some(&node) = order.get(done) {
            done += 1;
            let distance = &mut distances[node as usize];
            if distance.length_ns < 0 {
                (distance.length_ns, distance.via) = (0, NO_EDGE);
            }
            let length_ns = distance.length_ns;
            if last.is_none_or(|(longest_ns, _)| length_ns > longest_ns) {
                last = Some((length_ns, node));
            }
            for &at in adjacency.edges(node as usize) {
                let edge = &self.edges[at as usize];
                let weight_ns = if edge.weight_ns <= CLOCK_ERROR_NS { 0 } else { edge.weight_ns };
                let total_ns = length_ns.saturating_add(weight_ns);
                let to = &mut distances[edge.to as usize];
                let is_first = to.via == NO_EDGE;
                if is_first || (total_ns, Reverse(at)) > (to.length_ns, Reverse(to.via)) {
                    (to.length_ns, to.via) = (total_ns, at);
                }
                to.unvisited_edges -= 1;
                if to.unvisited_edges == 0 {
                    order.push(edge.to);
                }
            }
        }
        if distances.iter().any(|distance| distance.unvisited_edges > 0) {
            return None;
        }
        let mut path = Vec::new();
        let mut node = last.map(|(_, node)| node);
        while let Some(distance) =
            node.map(|node| distances[node as usize]).filter(|d| d.via != NO_EDGE)
        {
            path.push(distance.via as usize);
            node = Some(self.edges[distance.via as usize].from);
        }
        path.reverse();
        Some(path)
    }

    /// Nodes without incoming edges, in the order in which edges name them.
    fn sources(&self, distances: &[Distance]) -> Vec<u32> {
        let mut is_named = vec![false; distances.len()];
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        ends.filter(|&node| {
            distances[node as usize].unvisited_edges == 0
                && !replace(&mut is_named[node as usize], true)
        })
        .collect()
    }
}

/// The value of `via` for a node without an incoming edge on its path.
const NO_EDGE: u32 = u32::MAX;

/// The longest path to a node so far.
#[derive(Debug, Clone, Copy)]
struct Distance {
    length_ns: i64,
    /// The last edge of that path.
    via: u32,
    /// Incoming edges that are not visited yet.
    unvisited_edges: u32,
}

impl Default for Distance {
    fn default() -> Self {
        Self { length_ns: 0, via: NO_EDGE, unvisited_edges: 0 }
    }
}

/// The outgoing edges of each node, in order.
struct Adjacency {
    starts: Vec<u32>,
    edges: Vec<u32>,
}

impl Adjacency {
    fn new(edges: &[Edge]) -> Self {
        let nodes = edges.iter().map(|e| e.from.max(e.to) as usize + 1).max().unwrap_or(0);
        // While edges are placed, `starts[node + 1]` is the position of the next edge of the node; in the end it is the
        // end of the edges of the node.
        let mut starts = vec![0; nodes + 2];
        for edge in edges {
            starts[edge.from as usize + 2] += 1;
        }
        for node in 2..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut positions = vec![0; edges.len()];
        for (edge, at) in edges.iter().zip(0..) {
            let next = &mut starts[edge.from as usize + 1];
            positions[*next as usize] = at;
            *next += 1;
        }
        starts.pop();
        Self { starts, edges: positions }
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn edges(&self, node: usize) -> &[u32] {
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32, i64)]) -> Graph {
        let mut graph = Graph::default();
        for &(from, to, weight_ns) in edges {
            graph.add(Edge { from, to, kind: EdgeKind::Operator, weight_ns, event: None });
        }
        graph.sort_edges();
        graph
    }

    fn nodes(graph: &Graph) -> Option<Vec<u32>> {
        let path = graph.longest_path()?;
        let first = path.first().map(|&edge| graph.edges[edge].from);
        Some(first.into_iter().chain(path.iter().map(|&edge| graph.edges[edge].to)).collect())
    }

    #[test]
    fn longest_path_takes_the_heavier_branch() {
        let graph = graph(&[(0, 1, 5), (1, 3, 5), (0, 2, 1), (2, 3, 20), (3, 4, 1)]);
        assert_eq!(nodes(&graph), Some(vec![0, 2, 3, 4]));
    }

    #[test]
    fn longest_path_takes_the_first_of_equals_and_no_weightless_tail() {
        let graph = graph(&[(0, 1, 5), (0, 2, 5), (1, 3, 0), (2, 3, 0), (3, 4, 0)]);
        assert_eq!(nodes(&graph), Some(vec![0, 1]));
        let graph = super::tests::graph(&[(0, 1, 5), (0, 2, 5), (2, 3, 1), (1, 3, 1)]);
        assert_eq!(nodes(&graph), Some(vec![0, 2, 3]), "the edge added first");
    }

    #[test]
    fn sort_edges_replaces_an_earlier_edge_by_a_later_one() {
        let graph = graph(&[(0, 1, 5), (1, 2, 1), (0, 1, 9), (0, 2, 3), (0, 1, 7)]);
        let edges: Vec<_> = graph.edges.iter().map(|e| (e.from, e.to, e.weight_ns)).collect();
        assert_eq!(edges, [(0, 1, 7), (1, 2, 1), (0, 2, 3)]);
    }

    #[test]
    fn longest_path_ignores_clock_errors_of_a_microsecond_or_more() {
        assert_eq!(nodes(&graph(&[(0, 1, 10), (1, 2, -1_000), (2, 3, 1)])), Some(vec![0, 1, 2, 3]));
        assert_eq!(nodes(&graph(&[(0, 1, 10), (1, 2, -999), (2, 3, 1)])), Some(vec![0, 1]));
        assert_eq!(
            nodes(&graph(&[(0, 1, 2_000), (1, 2, -999), (2, 3, 1_000)])),
            Some(vec![0, 1, 2, 3])
        );
    }

    /// The weight of the heaviest path from a node, by brute force.
    fn heaviest(edges: &[(u32, u32, i64)], from: u32) -> i64 {
        let out = edges.iter().filter(|edge| edge.0 == from);
        out.map(|&(_, to, weight_ns)| weight_ns + heaviest(edges, to)).max().unwrap_or(0).max(0)
    }

    proptest::proptest! {
        #[test]
        fn longest_path_agrees_with_brute_force(drawn in proptest::collection::vec((0_u32..8, 1_u32..4, -900_i64..2_000), 0..25)) {
            let mut edges: Vec<(u32, u32, i64)> = Vec::new();
            for (from, step, weight_ns) in drawn {
                edges.retain(|&(a, b, _)| (a, b) != (from, from + step));
                edges.push((from, from + step, weight_ns));
            }
            let graph = graph(&edges);
            let path = graph.longest_path().unwrap();
            let weight_ns: i64 = path.iter().map(|&edge| graph.edges[edge].weight_ns).sum();
            let heaviest = (0..8).map(|node| heaviest(&edges, node)).max().unwrap_or(0);
            proptest::prop_assert_eq!(weight_ns, heaviest);
            for pair in path.windows(2) {
                proptest::prop_assert_eq!(graph.edges[pair[0]].to, graph.edges[pair[1]].from);
            }
        }
    }

    #[test]
    fn longest_path_is_none_for_a_cycle_and_empty_for_an_empty_graph() {
        assert_eq!(nodes(&graph(&[(0, 1, 1), (1, 2, 1), (2, 1, 1)])), None);
        assert_eq!(Graph::default().longest_path(), Some(vec![]));
    }
}
