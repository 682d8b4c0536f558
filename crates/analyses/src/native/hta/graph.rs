//! A directed graph with at most one edge between two nodes, and its longest path.

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
        let nodes = self.edges.iter().map(|edge| edge.from as usize + 1).max().unwrap_or(0);
        let of = Lists::new(nodes, self.edges.iter().map(|edge| edge.from as usize));
        let mut is_left = vec![true; self.edges.len()];
        let mut same: Vec<(u32, usize)> = Vec::new();
        for node in 0..nodes {
            same.clear();
            same.extend(of.of(node).iter().map(|&at| (self.edges[at].to, at)));
            // Edges to one node stay in the order in which they were added.
            same.sort_unstable();
            for edges in same.chunk_by(|a, b| a.0 == b.0) {
                let (first, last) = (edges[0].1, edges[edges.len() - 1].1);
                self.edges[first] = self.edges[last];
                for &(_, later) in &edges[1..] {
                    is_left[later] = false;
                }
            }
        }
        let mut is_left = is_left.into_iter();
        self.edges.retain(|_| is_left.next() == Some(true));
    }

    /// The edges of the longest path, by position; none if the graph has a cycle. Ties are decided as in networkx:
    /// nodes count in the order in which edges first name them, the first of equals wins.
    pub(super) fn longest_path(&self) -> Option<Vec<usize>> {
        let numbered = Numbered::new(&self.edges);
        let order = numbered.topological()?;
        let mut length = vec![0_i64; order.len()];
        let mut via = vec![None; order.len()];
        for &node in &order {
            let mut best: Option<(i64, usize)> = None;
            for &edge in numbered.into.of(node) {
                let weight_ns = self.edges[edge].weight_ns;
                let weight_ns = if weight_ns <= MISTAKE_NS { 0 } else { weight_ns };
                let total = length[numbered.ends[edge].0].saturating_add(weight_ns);
                if best.is_none_or(|(longest, _)| total > longest) {
                    best = Some((total, edge));
                }
            }
            if let Some((total, edge)) = best.filter(|&(total, _)| total >= 0) {
                length[node] = total;
                via[node] = Some(edge);
            }
        }
        let Some(&(mut last)) = order.first() else { return Some(Vec::new()) };
        for &node in &order {
            if length[node] > length[last] {
                last = node;
            }
        }
        let mut path = Vec::new();
        while let Some(edge) = via[last] {
            path.push(edge);
            last = numbered.ends[edge].0;
        }
        path.reverse();
        Some(path)
    }
}

/// Nodes numbered in the order in which edges name them.
struct Numbered {
    /// Both ends of each edge.
    ends: Vec<(usize, usize)>,
    into: Lists,
    out_of: Lists,
}

impl Numbered {
    fn new(edges: &[Edge]) -> Self {
        const NONE: usize = usize::MAX;
        let most = edges.iter().map(|e| e.from.max(e.to) as usize + 1).max().unwrap_or(0);
        let mut numbers = vec![NONE; most];
        let mut nodes = 0;
        let mut number = |node: u32| {
            let number = &mut numbers[node as usize];
            if *number == NONE {
                *number = nodes;
                nodes += 1;
            }
            *number
        };
        let ends: Vec<(usize, usize)> =
            edges.iter().map(|e| (number(e.from), number(e.to))).collect();
        let into = Lists::new(nodes, ends.iter().map(|&(_, to)| to));
        let out_of = Lists::new(nodes, ends.iter().map(|&(from, _)| from));
        Self { ends, into, out_of }
    }

    /// Kahn's order; none if there is a cycle.
    fn topological(&self) -> Option<Vec<usize>> {
        let nodes = self.into.len();
        let mut waiting: Vec<usize> = (0..nodes).map(|node| self.into.of(node).len()).collect();
        let mut order: Vec<usize> = (0..nodes).filter(|&node| waiting[node] == 0).collect();
        let mut done = 0;
        while done < order.len() {
            for &edge in self.out_of.of(order[done]) {
                let to = self.ends[edge].1;
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    order.push(to);
                }
            }
            done += 1;
        }
        (order.len() == nodes).then_some(order)
    }
}

/// For each node the edges that belong to it, in their order.
struct Lists {
    starts: Vec<usize>,
    edges: Vec<usize>,
}

impl Lists {
    fn new(nodes: usize, owners: impl Iterator<Item = usize> + Clone) -> Self {
        let mut starts = vec![0; nodes + 1];
        for owner in owners.clone() {
            starts[owner + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut edges = vec![0; starts[nodes]];
        for (edge, owner) in owners.enumerate() {
            edges[next[owner]] = edge;
            next[owner] += 1;
        }
        Self { starts, edges }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, node: usize) -> &[usize] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
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
