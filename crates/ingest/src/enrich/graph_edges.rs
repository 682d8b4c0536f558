//! Dependencies between the nodes of a replayed graph. Cuspy, PyTorch's second trace writer, draws them as arrows from the end of
//! one node to the start of another.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;
use trace_model::tables::GraphEdge;

use crate::timeline::columns::Columns;

/// First id of arrows between nodes. Smaller ids are correlation ids of arrows from launches.
const FIRST_ID: i64 = 1 << 40;

/// Category of arrows between nodes, and of arrows between host and device.
const ARROWS: &str = "ac2g";

/// Categories of nodes that run nothing on the device. The table `spans` contains them.
const OTHER_NODES: [&str; 2] = ["graph_event_node", "graph_host_node"];

/// Maximum difference between the time of an arrow and the time of its node, which are rounded differently.
const MAX_ROUNDING_NS: u64 = 1_000;

/// Maximum number of compared nodes that start, or end, at the same time on a lane, before and after an arrow.
const MAX_ALIKE: usize = 8;

/// Maximum number of consecutive event records and host functions that an edge skips.
const MAX_PASSED: usize = 64;

/// One node of a replay.
struct Node {
    event_id: i64,
    end_ns: i64,
    is_work: bool,
}

/// Lane and time of one end of an arrow or of a node.
type Place = (i32, i64);

/// All rows that may be graph nodes, and the numbers of these nodes by the place of their start and of their end.
#[derive(Default)]
struct NodeIndex {
    nodes: Vec<Node>,
    starts: Vec<(Place, u32)>,
    ends: Vec<(Place, u32)>,
}

/// Fills `graph_edges`.
pub(super) fn link(columns: &mut Columns) {
    let arrows = arrows(columns);
    if arrows.is_empty() {
        return;
    }
    let NodeIndex { nodes, starts, ends } = NodeIndex::of(columns);
    let mut edges: Vec<(u32, u32)> = Vec::with_capacity(arrows.len());
    // Nodes with an arrow whose source is unknown, and nodes to which an ambiguous arrow may lead.
    let mut incomplete: FxHashSet<u32> = FxHashSet::default();
    for (from, to) in arrows {
        let Some(target) = nearest(&nodes, &starts, to) else {
            incomplete.extend(alike(&starts, to));
            continue;
        };
        match from.and_then(|from| nearest(&nodes, &ends, from)) {
            Some(source) if source != target => edges.push((source, target)),
            Some(_) => {}
            None => {
                incomplete.insert(target);
            }
        }
    }
    let mut found: Vec<(i64, i64)> = Vec::with_capacity(edges.len());
    let mut incomplete_ids: FxHashSet<i64> =
        incomplete.iter().map(|&node| nodes[node as usize].event_id).collect();
    let before = passed(&nodes, &edges);
    for (mut source, target) in edges {
        let target = &nodes[target as usize];
        let mut left = MAX_PASSED;
        while !nodes[source as usize].is_work {
            if left == 0 || incomplete.contains(&source) {
                incomplete_ids.insert(target.event_id);
                break;
            }
            let Some(&earlier) = before.get(&source) else { break };
            source = earlier;
            left -= 1;
        }
        let source = &nodes[source as usize];
        if source.is_work && target.is_work && source.event_id != target.event_id {
            found.push((target.event_id, source.event_id));
        }
    }
    found.sort_unstable();
    found.dedup();
    for (target, source) in found {
        let is_complete = !incomplete_ids.contains(&target);
        columns.graph_edges.push(GraphEdge { rank: 0, source, target, is_complete });
    }
}

/// Returns both ends of each arrow between nodes. The start is `None` if the trace does not contain it.
fn arrows(columns: &Columns) -> Vec<(Option<Place>, Place)> {
    let flows = &columns.flows;
    let is_own = |row: &usize| flows.id.get(*row) >= FIRST_ID;
    if !(0..flows.len()).any(|row| is_own(&row)) {
        return Vec::new();
    }
    let id_of = |text: &str| columns.strings.find(text);
    let (Some(category), Some(start), Some(finish)) = (id_of(ARROWS), id_of("s"), id_of("f"))
    else {
        return Vec::new();
    };
    let is_arrow = |row: &usize| is_own(row) && flows.category.get(*row) == category;
    let place = |row: usize| (flows.thread.get(row), flows.ts_ns.get(row));
    let of_phase = |phase: StrId| {
        (0..flows.len()).filter(is_arrow).filter(move |&row| flows.phase.get(row) == phase)
    };
    let starts: FxHashMap<i64, Place> =
        of_phase(start).map(|row| (flows.id.get(row), place(row))).collect();
    of_phase(finish).map(|row| (starts.get(&flows.id.get(row)).copied(), place(row))).collect()
}

impl NodeIndex {
    fn of(columns: &Columns) -> Self {
        let mut all = Self::default();
        macro_rules! add_rows {
            ($table:ident, $is_work:expr, $is_node:expr) => {
                let t = &columns.$table;
                for row in (0..t.len()).filter($is_node) {
                    let (ts_ns, dur_ns) = (t.ts_ns.get(row), t.dur_ns.get(row));
                    all.add(t.event_id.get(row), t.thread.get(row), ts_ns, dur_ns, $is_work);
                }
            };
        }
        add_rows!(kernels, true, |_| true);
        add_rows!(memcpys, true, |_| true);
        add_rows!(memsets, true, |_| true);
        let categories = OTHER_NODES.map(|category| columns.strings.find(category));
        let of_spans = &columns.spans.category;
        add_rows!(spans, false, |&row| categories.contains(&Some(of_spans.get(row))));
        all.starts.sort_unstable();
        all.ends.sort_unstable();
        all
    }

    fn add(&mut self, event_id: i64, thread: i32, ts_ns: i64, dur_ns: i64, is_work: bool) {
        let (number, end_ns) = (self.nodes.len() as u32, ts_ns + dur_ns);
        self.nodes.push(Node { event_id, end_ns, is_work });
        self.starts.push(((thread, ts_ns), number));
        self.ends.push(((thread, end_ns), number));
    }
}

/// Returns the node on the lane that starts, or ends, nearest to the time of an arrow. Returns `None` if several kernels, copies or
/// fills do, for example on a lane on which several streams are drawn.
fn nearest(nodes: &[Node], places: &[(Place, u32)], place: Place) -> Option<u32> {
    let mut alike = alike(places, place);
    // Work takes precedence over an event record, which has no length and is skipped in any case.
    let mut work = alike.clone().filter(|&node| nodes[node as usize].is_work);
    match (work.next(), work.next()) {
        (Some(only), None) => Some(only),
        (None, _) => alike.next(),
        (Some(_), Some(_)) => None,
    }
}

/// Returns the nodes on the lane that start, or end, nearest to the time of an arrow; none if all are too far away.
fn alike(places: &[(Place, u32)], (thread, ts_ns): Place) -> impl Iterator<Item = u32> + Clone {
    let next = places.partition_point(|&(place, _)| place < (thread, ts_ns));
    let (before, after) = places.split_at(next);
    let is_on_lane = move |place: &&(Place, u32)| place.0.0 == thread;
    let before = before.iter().rev().take(MAX_ALIKE).take_while(is_on_lane);
    let after = after.iter().take(MAX_ALIKE).take_while(is_on_lane);
    let distance_ns = move |place: &(Place, u32)| place.0.1.abs_diff(ts_ns);
    let all = before.chain(after);
    let near_ns = all.clone().map(distance_ns).min().filter(|&near_ns| near_ns <= MAX_ROUNDING_NS);
    all.filter(move |place| Some(distance_ns(place)) == near_ns).map(|&(_, node)| node)
}

/// Returns, for each node that runs nothing, its predecessor that ended last.
fn passed(nodes: &[Node], edges: &[(u32, u32)]) -> FxHashMap<u32, u32> {
    let mut before: FxHashMap<u32, u32> = FxHashMap::default();
    for &(source, target) in edges.iter().filter(|(_, target)| !nodes[*target as usize].is_work) {
        let last = before.entry(target).or_insert(source);
        if nodes[source as usize].end_ns > nodes[*last as usize].end_ns {
            *last = source;
        }
    }
    before
}
