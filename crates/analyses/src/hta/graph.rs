//! A directed graph with at most one edge between two nodes, and its longest path.

use std::cmp::Reverse;
use std::mem::replace;

/// What an edge stands for.
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

/// An edge between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: EdgeKind,
    pub(super) weight_ns: i64,
    /// Row of the event whose time it is.
    pub(super) event: Option<u32>,
}

/// Edges in the order in which their pairs of nodes were first connected.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) edges: Vec<Edge>,
}

/// A microsecond back in time or more is a mistake in the trace; HTA takes it for no time at all.
const MISTAKE_NS: i64 = -1_000;

impl Graph {
    /// Adds an edge.
    pub(super) fn add(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    /// Leaves one edge between two nodes: the last one, in the place of the first.
    pub(super) fn settle(&mut self) {
        let leaving = Leaving::new(&self.edges);
        let mut is_left = vec![true; self.edges.len()];
        let mut same: Vec<(u32, u32)> = Vec::new();
        for node in 0..leaving.nodes() {
            same.clear();
            same.extend(leaving.edges(node).iter().map(|&at| (self.edges[at as usize].to, at)));
            // Edges to one node stay in the order in which they were added.
            same.sort_unstable();
            for edges in same.chunk_by(|a, b| a.0 == b.0).filter(|edges| edges.len() > 1) {
                let (first, last) = (edges[0].1, edges[edges.len() - 1].1);
                self.edges[first as usize] = self.edges[last as usize];
                for &(_, later) in &edges[1..] {
                    is_left[later as usize] = false;
                }
            }
        }
        let mut is_left = is_left.into_iter();
        self.edges.retain(|_| is_left.next() == Some(true));
    }

    /// The edges of the longest path, by position; none if the graph has a cycle. Ties are decided as in networkx:
    /// nodes count in the order in which edges first name them, the first of equals wins.
    pub(super) fn longest_path(&self) -> Option<Vec<usize>> {
        let leaving = Leaving::new(&self.edges);
        let mut ways = vec![Way::default(); leaving.nodes()];
        for edge in &self.edges {
            ways[edge.to as usize].waits_for += 1;
        }
        // Kahn's order.
        let mut order = self.sources(&ways);
        let mut last: Option<(i64, u32)> = None;
        let mut done = 0;
        while let Some(&node) = order.get(done) {
            done += 1;
            let way = &mut ways[node as usize];
            if way.length_ns < 0 {
                (way.length_ns, way.via) = (0, NO_EDGE);
            }
            let length_ns = way.length_ns;
            if last.is_none_or(|(longest_ns, _)| length_ns > longest_ns) {
                last = Some((length_ns, node));
            }
            for &at in leaving.edges(node as usize) {
                let edge = &self.edges[at as usize];
                let weight_ns = if edge.weight_ns <= MISTAKE_NS { 0 } else { edge.weight_ns };
                let total_ns = length_ns.saturating_add(weight_ns);
                let to = &mut ways[edge.to as usize];
                let is_first = to.via == NO_EDGE;
                if is_first || (total_ns, Reverse(at)) > (to.length_ns, Reverse(to.via)) {
                    (to.length_ns, to.via) = (total_ns, at);
                }
                to.waits_for -= 1;
                if to.waits_for == 0 {
                    order.push(edge.to);
                }
            }
        }
        if ways.iter().any(|way| way.waits_for > 0) {
            return None;
        }
        let mut path = Vec::new();
        let mut node = last.map(|(_, node)| node);
        while let Some(way) = node.map(|node| ways[node as usize]).filter(|w| w.via != NO_EDGE) {
            path.push(way.via as usize);
            node = Some(self.edges[way.via as usize].from);
        }
        path.reverse();
        Some(path)
    }

    /// Nodes that wait for nothing, in the order in which edges name them.
    fn sources(&self, ways: &[Way]) -> Vec<u32> {
        let mut is_named = vec![false; ways.len()];
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        ends.filter(|&node| {
            ways[node as usize].waits_for == 0 && !replace(&mut is_named[node as usize], true)
        })
        .collect()
    }
}

/// No edge leads here.
const NO_EDGE: u32 = u32::MAX;

/// The longest way to a node so far.
#[derive(Debug, Clone, Copy)]
struct Way {
    length_ns: i64,
    /// Its last edge.
    via: u32,
    /// Edges that are still to come.
    waits_for: u32,
}

impl Default for Way {
    fn default() -> Self {
        Self { length_ns: 0, via: NO_EDGE, waits_for: 0 }
    }
}

/// For each node the edges that leave it, in their order.
struct Leaving {
    starts: Vec<u32>,
    edges: Vec<u32>,
}

impl Leaving {
    fn new(edges: &[Edge]) -> Self {
        let nodes = edges.iter().map(|e| e.from.max(e.to) as usize + 1).max().unwrap_or(0);
        // Those of a node begin at `starts[node + 1]` until they are in place, which moves that to their end.
        let mut starts = vec![0; nodes + 2];
        for edge in edges {
            starts[edge.from as usize + 2] += 1;
        }
        for node in 2..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut of = vec![0; edges.len()];
        for (edge, at) in edges.iter().zip(0..) {
            let next = &mut starts[edge.from as usize + 1];
            of[*next as usize] = at;
            *next += 1;
        }
        starts.pop();
        Self { starts, edges: of }
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
        graph.settle();
        graph
    }

    fn nodes(graph: &Graph) -> Option<Vec<u32>> {
        let path = graph.longest_path()?;
        let first = path.first().map(|&edge| graph.edges[edge].from);
        Some(first.into_iter().chain(path.iter().map(|&edge| graph.edges[edge].to)).collect())
    }

    #[test]
    fn the_heavier_way_wins() {
        let graph = graph(&[(0, 1, 5), (1, 3, 5), (0, 2, 1), (2, 3, 20), (3, 4, 1)]);
        assert_eq!(nodes(&graph), Some(vec![0, 2, 3, 4]));
    }

    #[test]
    fn of_equals_the_first_wins_and_edges_without_weight_at_the_end_are_left_out() {
        let graph = graph(&[(0, 1, 5), (0, 2, 5), (1, 3, 0), (2, 3, 0), (3, 4, 0)]);
        assert_eq!(nodes(&graph), Some(vec![0, 1]));
        let graph = super::tests::graph(&[(0, 1, 5), (0, 2, 5), (2, 3, 1), (1, 3, 1)]);
        assert_eq!(nodes(&graph), Some(vec![0, 2, 3]), "the edge added first");
    }

    #[test]
    fn a_later_edge_takes_the_place_of_an_earlier_one() {
        let graph = graph(&[(0, 1, 5), (1, 2, 1), (0, 1, 9), (0, 2, 3), (0, 1, 7)]);
        let edges: Vec<_> = graph.edges.iter().map(|e| (e.from, e.to, e.weight_ns)).collect();
        assert_eq!(edges, [(0, 1, 7), (1, 2, 1), (0, 2, 3)]);
    }

    #[test]
    fn mistakes_weigh_nothing_and_less_than_a_microsecond_back_is_taken_off() {
        assert_eq!(nodes(&graph(&[(0, 1, 10), (1, 2, -1_000), (2, 3, 1)])), Some(vec![0, 1, 2, 3]));
        assert_eq!(nodes(&graph(&[(0, 1, 10), (1, 2, -999), (2, 3, 1)])), Some(vec![0, 1]));
        assert_eq!(
            nodes(&graph(&[(0, 1, 2_000), (1, 2, -999), (2, 3, 1_000)])),
            Some(vec![0, 1, 2, 3])
        );
    }

    /// The weight of the heaviest way from a node on, by trying all.
    fn heaviest(edges: &[(u32, u32, i64)], from: u32) -> i64 {
        let out = edges.iter().filter(|edge| edge.0 == from);
        out.map(|&(_, to, weight_ns)| weight_ns + heaviest(edges, to)).max().unwrap_or(0).max(0)
    }

    proptest::proptest! {
        #[test]
        fn no_way_is_heavier(drawn in proptest::collection::vec((0_u32..8, 1_u32..4, -900_i64..2_000), 0..25)) {
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
    fn a_cycle_has_no_longest_path_and_an_empty_graph_no_edges() {
        assert_eq!(nodes(&graph(&[(0, 1, 1), (1, 2, 1), (2, 1, 1)])), None);
        assert_eq!(Graph::default().longest_path(), Some(vec![]));
    }
}
