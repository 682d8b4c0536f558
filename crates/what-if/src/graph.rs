//! The event graph of one rank: instants, dependencies between them, and their durations.
//!
//! A node happens once each predecessor plus the weight of its edge is reached, and after an unexplained rest.
//! Weights and rests are measured, so that the times come out exactly as recorded; other weights give the times of
//! another run.

use super::device::DeviceConstraints;
use super::host::HostTimelines;
use super::model::{AnalysisWindow, NO_INDEX, RankEvents, RuntimeCallIndex, TimeClass, sort_runs};

/// The reason for a dependency. If several edges bind a node at the same moment, the first of these kinds counts as
/// the binding one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EdgeKind {
    /// From the start of a device activity to its end.
    Activity,
    /// After another node of the same graph replay, as the profiler recorded.
    GraphOrder,
    /// After the previous activity on the same stream.
    StreamOrder,
    /// After an activity of another stream, as recorded.
    StreamWait,
    /// The host waits for the device.
    Sync,
    /// The host waits for room in the queue of a stream.
    QueueFull,
    /// After an activity of another stream, inferred from times.
    InferredWait,
    /// While an activity of another stream left no room, inferred from times.
    Crowded,
    /// The host sends results of a device.
    Data,
    /// From the submission to the start.
    Launch,
    /// Time passes on a host thread.
    Host,
    /// From one host thread to another.
    Thread,
}

impl EdgeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::GraphOrder => "graph_order",
            Self::StreamOrder => "stream_order",
            Self::StreamWait => "stream_wait",
            Self::Sync => "sync",
            Self::QueueFull => "queue_full",
            Self::InferredWait => "inferred_wait",
            Self::Crowded => "crowded",
            Self::Data => "data",
            Self::Launch => "launch",
            Self::Host => "host",
            Self::Thread => "thread",
        }
    }
}

/// An edge, stored with its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) source: u32,
    /// Activity, host event (sync) or timeline (host, thread) that its time belongs to.
    pub(crate) subject: u32,
    /// Minimum time from source to target.
    pub(crate) weight: i64,
    pub(crate) kind: EdgeKind,
    /// Class of the weight.
    pub(crate) class: TimeClass,
    /// Class of the target's rest, if this edge binds the target.
    pub(crate) rest: TimeClass,
}

/// An instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) ts_ns: i64,
    /// Activity or timeline.
    pub(crate) subject: u32,
    pub(crate) on_device: bool,
    /// The host submits device work here.
    pub(crate) submits: bool,
    /// Index of the edge that bound the node; [`NO_INDEX`] at the start.
    pub(crate) binding_edge: u32,
    /// Time after the last predecessor that nothing explains.
    pub(crate) rest: i64,
    pub(crate) rest_class: TimeClass,
}

/// Nodes in topological order.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) window: AnalysisWindow,
    pub(crate) nodes: Vec<Node>,
    /// Sorted by target.
    pub(crate) edges: Vec<Edge>,
    /// For each node, the index of its first edge; one more entry at the end.
    first_edge: Vec<u32>,
    pub(crate) host: HostTimelines,
    pub(crate) device: DeviceConstraints,
    /// End node of each activity.
    pub(crate) activity_ends: Vec<u32>,
    /// Nodes of each timeline.
    pub(crate) host_nodes: Vec<Vec<u32>>,
    /// Edges left out because they would go back in time.
    pub(crate) dropped_edge_count: usize,
}

/// An edge whose target is not sorted yet.
struct EdgeDraft {
    target: u32,
    edge: Edge,
}

impl Graph {
    pub(crate) fn new(events: &RankEvents, window: AnalysisWindow) -> Self {
        let calls = RuntimeCallIndex::new(events);
        let mut host = HostTimelines::new(events, &calls);
        let device = DeviceConstraints::new(events, &calls, &mut host);
        for step in &events.steps {
            if let Some(k) = step.lane.and_then(|lane| host.timeline(lane)) {
                for ts_ns in [step.ts_ns, step.end_ns] {
                    if (host.timelines[k].begin_ns..=host.timelines[k].end_ns).contains(&ts_ns) {
                        host.add_node_time(k, ts_ns);
                    }
                }
            }
        }
        host.sort_node_times();
        let (nodes, host_nodes, starts, ends) = order_nodes(events, &host);
        let mut graph = Self {
            window,
            nodes,
            edges: Vec::new(),
            first_edge: Vec::new(),
            host,
            device,
            activity_ends: ends,
            host_nodes,
            dropped_edge_count: 0,
        };
        let mut drafts = Vec::new();
        graph.host_edges(&mut drafts);
        graph.device_edges(events, &starts, &mut drafts);
        graph.index_edges(drafts);
        graph
    }

    /// Indices of the edges into a node.
    pub(crate) fn edge_range(&self, node: usize) -> std::ops::Range<usize> {
        self.first_edge[node] as usize..self.first_edge[node + 1] as usize
    }

    /// The node of a thread at a requested instant.
    pub(crate) fn host_node(&self, timeline: usize, ts_ns: i64) -> Option<u32> {
        let node_times = &self.host.node_times[timeline];
        let at = node_times.binary_search_by_key(&ts_ns, |node_time| node_time.ts_ns).ok()?;
        Some(self.host_nodes[timeline][at])
    }

    /// The node that ends the path.
    pub(crate) fn last_node(&self) -> Option<usize> {
        self.nodes.len().checked_sub(1)
    }

    fn host_edges(&self, drafts: &mut Vec<EdgeDraft>) {
        for (k, timeline) in self.host.timelines.iter().enumerate() {
            let node_times = &self.host.node_times[k];
            let mut waits = self.host.waits[k].iter().peekable();
            let mut waits_until = i64::MIN;
            let mut pauses = self.host.pauses[k].iter().peekable();
            let mut piece = 0;
            for (at, pair) in node_times.windows(2).enumerate() {
                let (begin_ns, end_ns) = (pair[0].ts_ns, pair[1].ts_ns);
                while let Some(&(_, until)) = waits.next_if(|&&(from, _)| from <= begin_ns) {
                    waits_until = waits_until.max(until);
                }
                while pauses.next_if(|&&(_, until)| until <= begin_ns).is_some() {}
                while timeline.pieces.get(piece + 1).is_some_and(|next| next.ts_ns <= begin_ns) {
                    piece += 1;
                }
                let piece = &timeline.pieces[piece];
                let pause = pauses
                    .peek()
                    .is_some_and(|&&(from, until)| from <= begin_ns && end_ns <= until);
                let works = Some(k) == self.host.main || piece.busy || pause;
                let weight = if works && end_ns > waits_until { end_ns - begin_ns } else { 0 };
                let class = if pause { TimeClass::Gap } else { piece.class };
                drafts.push(EdgeDraft {
                    target: self.host_nodes[k][at + 1],
                    edge: Edge {
                        source: self.host_nodes[k][at],
                        subject: k as u32,
                        weight,
                        kind: EdgeKind::Host,
                        class,
                        rest: class,
                    },
                });
            }
        }
        for handoff in &self.host.handoffs {
            let (from, to) = (handoff.from, handoff.to);
            let nodes = (self.host_node(from.0, from.1), self.host_node(to.0, to.1));
            let (Some(source), Some(target)) = nodes else { continue };
            // The class of the main thread's time in between.
            let subject = self.host.main.unwrap_or(to.0) as u32;
            let (class, rest) = (handoff.class, handoff.class);
            let edge = Edge { source, subject, weight: 0, kind: EdgeKind::Thread, class, rest };
            drafts.push(EdgeDraft { target, edge });
        }
    }

    fn device_edges(&self, events: &RankEvents, starts: &[u32], drafts: &mut Vec<EdgeDraft>) {
        let ends = &self.activity_ends;
        for (i, a) in events.activities.iter().enumerate() {
            let (class, rest) = (a.class, TimeClass::Other);
            let (subject, kind) = (i as u32, EdgeKind::Activity);
            let weight = a.end_ns - a.ts_ns;
            let edge = Edge { source: starts[i], subject, weight, kind, class, rest };
            drafts.push(EdgeDraft { target: ends[i], edge });
        }
        let mut after = |source: u32, target: u32, kind: EdgeKind| {
            // Without a launch it is unknown whether the work could have come earlier.
            let linked = events.activities[target as usize].launch.is_some();
            let rest = if linked { TimeClass::DeviceGap } else { TimeClass::Other };
            let source = ends[source as usize];
            let class = TimeClass::DeviceGap;
            let edge = Edge { source, subject: target, weight: 0, kind, class, rest };
            drafts.push(EdgeDraft { target: starts[target as usize], edge });
        };
        for &(source, target) in &self.device.graph_edges {
            after(source, target, EdgeKind::GraphOrder);
        }
        for (&previous, i) in self.device.previous.iter().zip(0..) {
            if previous != NO_INDEX && !self.device.has_own_order[i as usize] {
                after(previous, i, EdgeKind::StreamOrder);
            }
        }
        for &(source, target) in &self.device.stream_waits {
            after(source, target, EdgeKind::StreamWait);
        }
        for &(source, target) in &self.device.inferred {
            after(source, target, EdgeKind::InferredWait);
        }
        for &(source, target) in &self.device.crowded {
            let (from, to) =
                (&events.activities[source as usize], &events.activities[target as usize]);
            let (subject, kind, class) = (source, EdgeKind::Crowded, from.class);
            let (weight, source, rest) =
                (to.ts_ns - from.ts_ns, starts[source as usize], TimeClass::DeviceGap);
            let edge = Edge { source, subject, weight, kind, class, rest };
            drafts.push(EdgeDraft { target: starts[target as usize], edge });
        }
        for launch in &self.device.launches {
            let Some(source) = self.host_node(launch.timeline, launch.ts_ns) else { continue };
            let (class, subject) = (TimeClass::LaunchDelay, launch.activity);
            let (weight, kind) = (launch.delay, EdgeKind::Launch);
            let edge = Edge { source, subject, weight, kind, class, rest: class };
            drafts.push(EdgeDraft { target: starts[launch.activity as usize], edge });
        }
        for sent in &self.device.sent_data {
            let Some(target) = self.host_node(sent.timeline, sent.ts_ns) else { continue };
            let (source, subject) = (ends[sent.activity as usize], sent.activity);
            let (class, rest) = (TimeClass::Sync, TimeClass::Sync);
            let edge = Edge { source, subject, weight: 0, kind: EdgeKind::Data, class, rest };
            drafts.push(EdgeDraft { target, edge });
        }
        let waits =
            self.device.host_waits.iter().map(|&wait| (wait, EdgeKind::Sync, TimeClass::Sync));
        let full = self.device.queue_waits.iter();
        let full = full.map(|&wait| (wait, EdgeKind::QueueFull, TimeClass::RuntimeCall));
        for ((source, call), kind, class) in waits.chain(full) {
            let event = &events.host[call as usize];
            let node = self.host.timeline(event.lane).and_then(|k| self.host_node(k, event.end_ns));
            let Some(target) = node else { continue };
            let activity = &events.activities[source as usize];
            // By the clock of the device the work ends after the call has returned: the call waited for all of it
            // but the difference.
            let returned_first = activity.end_ns > event.end_ns;
            let edge = if returned_first {
                let (source, weight) = (starts[source as usize], event.end_ns - activity.ts_ns);
                Edge { source, subject: call, weight, kind, class: activity.class, rest: class }
            } else {
                let source = ends[source as usize];
                Edge { source, subject: call, weight: 0, kind, class, rest: class }
            };
            drafts.push(EdgeDraft { target, edge });
        }
    }

    /// Groups the edges by target, and finds the edge that bound each node.
    fn index_edges(&mut self, drafts: Vec<EdgeDraft>) {
        let all = drafts.len();
        let mut first = vec![0_u32; self.nodes.len() + 1];
        let forward = |d: &EdgeDraft| d.edge.source < d.target;
        for draft in drafts.iter().filter(|d| forward(d)) {
            first[draft.target as usize + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let count = first[self.nodes.len()] as usize;
        let blank = Edge {
            source: 0,
            subject: 0,
            weight: 0,
            kind: EdgeKind::Host,
            class: TimeClass::Other,
            rest: TimeClass::Other,
        };
        let mut edges = vec![blank; count];
        let mut next = first.clone();
        for mut draft in drafts.into_iter().filter(forward) {
            let (source, target) = (draft.edge.source as usize, draft.target as usize);
            let apart = self.nodes[target].ts_ns - self.nodes[source].ts_ns;
            draft.edge.weight = draft.edge.weight.clamp(0, apart);
            self.nodes[source].submits |= draft.edge.kind == EdgeKind::Launch;
            edges[next[target] as usize] = draft.edge;
            next[target] += 1;
        }
        self.dropped_edge_count = all - count;
        self.edges = edges;
        self.first_edge = first;
        let main = self.host.main;
        for i in 0..self.nodes.len() {
            let arrival = |e: &Edge| self.nodes[e.source as usize].ts_ns + e.weight;
            let binding_edge = self.edge_range(i).max_by_key(|&at| {
                let edge = &self.edges[at];
                (arrival(edge), std::cmp::Reverse((edge.kind, edge.source)))
            });
            let node = &self.nodes[i];
            let (rest, class, binding_edge) = if let Some(at) = binding_edge {
                let edge = &self.edges[at];
                (node.ts_ns - arrival(edge), edge.rest, at as u32)
            } else {
                let on_main = !node.on_device && Some(node.subject as usize) == main;
                let class = if on_main { TimeClass::Gap } else { TimeClass::Other };
                (node.ts_ns - self.window.begin_ns, class, NO_INDEX)
            };
            let node = &mut self.nodes[i];
            (node.rest, node.rest_class, node.binding_edge) = (rest, class, binding_edge);
        }
    }
}

/// All nodes in order; the nodes of each timeline; start and end node of each activity.
type Nodes = (Vec<Node>, Vec<Vec<u32>>, Vec<u32>, Vec<u32>);

/// At the same moment, ends of work come before starts: ends on the device, ends on other threads, the main thread,
/// other threads, starts on the device. Edges between nodes of the same moment that contradict this order are
/// dropped: they would close a cycle and explain no time.
fn order_nodes(events: &RankEvents, host: &HostTimelines) -> Nodes {
    let count = host.node_times.iter().map(Vec::len).sum::<usize>() + 2 * events.activities.len();
    let mut keys: Vec<(i64, u8, u32)> = Vec::with_capacity(count);
    let mut subjects: Vec<(u32, bool)> = Vec::with_capacity(count);
    for (k, node_times) in host.node_times.iter().enumerate() {
        for node_time in node_times {
            let phase = match node_time.returns {
                _ if Some(k) == host.main => 2,
                true => 1,
                false => 3,
            };
            keys.push((node_time.ts_ns, phase, subjects.len() as u32));
            subjects.push((k as u32, false));
        }
    }
    let first_activity = subjects.len();
    for (a, i) in events.activities.iter().zip(0_u32..) {
        let end_phase = if a.end_ns > a.ts_ns { 0 } else { 5 };
        for (ts_ns, phase) in [(a.ts_ns, 4), (a.end_ns, end_phase)] {
            keys.push((ts_ns, phase, subjects.len() as u32));
            subjects.push((i, true));
        }
    }
    sort_runs(&mut keys);
    let mut place = vec![0_u32; keys.len()];
    let mut nodes = Vec::with_capacity(keys.len());
    for &(ts_ns, _, id) in &keys {
        place[id as usize] = nodes.len() as u32;
        let (subject, on_device) = subjects[id as usize];
        let (submits, binding_edge, rest, rest_class) = (false, NO_INDEX, 0, TimeClass::Other);
        nodes.push(Node { ts_ns, subject, on_device, submits, binding_edge, rest, rest_class });
    }
    let mut next = 0;
    let host_nodes = host
        .node_times
        .iter()
        .map(|node_times| {
            let of = place[next..next + node_times.len()].to_vec();
            next += node_times.len();
            of
        })
        .collect();
    let of_activities = &place[first_activity..];
    let starts = of_activities.iter().copied().step_by(2).collect();
    let ends = of_activities.iter().copied().skip(1).step_by(2).collect();
    (nodes, host_nodes, starts, ends)
}
