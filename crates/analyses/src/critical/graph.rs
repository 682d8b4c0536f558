//! The event graph of one rank: instants, what had to come before each, and how long that took.
//!
//! A node happens when the last of its predecessors, each with the weight of its edge, has let it, and
//! after a rest that nothing explains. Weights and rests are what was measured, so that the times come
//! out exactly as recorded; other weights give the times of another run.

use super::device::Device;
use super::host::Host;
use super::model::{Calls, Class, NONE, RankEvents, Window, sort};

/// Why one instant cannot come before another. Where several predecessors let a node go at the same
/// moment, the first of these kinds is taken as the one that held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// From the start of a device activity to its end.
    Activity,
    /// After the activity before on the same stream.
    StreamOrder,
    /// After an activity of another stream, as recorded.
    StreamWait,
    /// The host waits for the device.
    Sync,
    /// The host waits for room in the queue of a stream.
    QueueFull,
    /// After an activity of another stream, by time.
    InferredWait,
    /// While an activity of another stream left no room, by time.
    Crowded,
    /// From the submission to the start.
    Launch,
    /// Time passes on a host thread.
    Host,
    /// From one host thread to another.
    Thread,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::StreamOrder => "stream_order",
            Self::StreamWait => "stream_wait",
            Self::Sync => "sync",
            Self::QueueFull => "queue_full",
            Self::InferredWait => "inferred_wait",
            Self::Crowded => "crowded",
            Self::Launch => "launch",
            Self::Host => "host",
            Self::Thread => "thread",
        }
    }
}

/// An edge, kept with its target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) source: u32,
    /// Activity, host event (sync) or timeline (host, thread) that its time belongs to.
    pub(super) subject: u32,
    /// Least time from source to target.
    pub(super) weight: i64,
    pub(super) kind: Kind,
    /// What the weight is spent on.
    pub(super) class: Class,
    /// What the rest is spent on, where this edge holds its target.
    pub(super) rest: Class,
}

/// An instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) ts: i64,
    /// Activity, or timeline.
    pub(super) subject: u32,
    pub(super) on_device: bool,
    /// The host gives the device work.
    pub(super) submits: bool,
    /// Position of the edge that held it; [`NONE`] at the start.
    pub(super) held_by: u32,
    /// Time after the last predecessor that nothing explains.
    pub(super) rest: i64,
    pub(super) rest_class: Class,
}

/// Nodes in an order in which all edges go forward.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) window: Window,
    pub(super) nodes: Vec<Node>,
    /// By target.
    pub(super) edges: Vec<Edge>,
    /// Of each node, where its edges begin; one more at the end.
    first_edge: Vec<u32>,
    pub(super) host: Host,
    pub(super) device: Device,
    /// End node of each activity.
    pub(super) activity_ends: Vec<u32>,
    /// First node of each timeline, and their positions.
    host_nodes: Vec<Vec<u32>>,
    /// Edges left out because they would go back in time.
    pub(super) dropped: usize,
}

/// An edge before nodes have their places.
struct Draft {
    target: u32,
    edge: Edge,
}

impl Graph {
    pub(super) fn new(events: &RankEvents, window: Window) -> Self {
        let calls = Calls::new(events);
        let mut host = Host::new(events, &calls);
        let device = Device::new(events, &calls, &mut host);
        for step in &events.steps {
            if let Some(k) = step.lane.and_then(|lane| host.timeline(lane)) {
                for ts in [step.ts, step.end] {
                    if (host.timelines[k].begin..=host.timelines[k].end).contains(&ts) {
                        host.cut(k, ts);
                    }
                }
            }
        }
        host.settle();
        let (nodes, host_nodes, starts, ends) = nodes(events, &host);
        let mut graph = Self {
            window,
            nodes,
            edges: Vec::new(),
            first_edge: Vec::new(),
            host,
            device,
            activity_ends: ends,
            host_nodes,
            dropped: 0,
        };
        let mut drafts = Vec::new();
        graph.host_edges(&mut drafts);
        graph.device_edges(events, &starts, &mut drafts);
        graph.settle(drafts);
        graph
    }

    /// Edges into a node.
    pub(super) fn edges_into(&self, node: usize) -> &[Edge] {
        &self.edges[self.first_edge[node] as usize..self.first_edge[node + 1] as usize]
    }

    /// Positions of the edges into a node.
    pub(super) fn edge_range(&self, node: usize) -> std::ops::Range<usize> {
        self.first_edge[node] as usize..self.first_edge[node + 1] as usize
    }

    /// The node of a thread at an instant that was asked for.
    pub(super) fn host_node(&self, timeline: usize, ts: i64) -> Option<u32> {
        let cuts = &self.host.cuts[timeline];
        let at = cuts.binary_search_by_key(&ts, |cut| cut.ts).ok()?;
        Some(self.host_nodes[timeline][at])
    }

    /// The node that ends the path: the last one.
    pub(super) fn last(&self) -> Option<usize> {
        self.nodes.len().checked_sub(1)
    }

    fn host_edges(&self, drafts: &mut Vec<Draft>) {
        for (k, timeline) in self.host.timelines.iter().enumerate() {
            let cuts = &self.host.cuts[k];
            let mut waits = self.host.waits[k].iter().peekable();
            let mut waits_until = i64::MIN;
            let mut pauses = self.host.pauses[k].iter().peekable();
            let mut piece = 0;
            for (at, pair) in cuts.windows(2).enumerate() {
                let (begin, end) = (pair[0].ts, pair[1].ts);
                while let Some(&(_, until)) = waits.next_if(|&&(from, _)| from <= begin) {
                    waits_until = waits_until.max(until);
                }
                while pauses.next_if(|&&(_, until)| until <= begin).is_some() {}
                while timeline.pieces.get(piece + 1).is_some_and(|next| next.ts <= begin) {
                    piece += 1;
                }
                let piece = &timeline.pieces[piece];
                let pause =
                    pauses.peek().is_some_and(|&&(from, until)| from <= begin && end <= until);
                let works = Some(k) == self.host.main || piece.busy || pause;
                let weight = if works && end > waits_until { end - begin } else { 0 };
                let class = if pause { Class::Gap } else { piece.class };
                drafts.push(Draft {
                    target: self.host_nodes[k][at + 1],
                    edge: Edge {
                        source: self.host_nodes[k][at],
                        subject: k as u32,
                        weight,
                        kind: Kind::Host,
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
            // What the main thread was doing in between.
            let subject = self.host.main.unwrap_or(to.0) as u32;
            let (class, rest) = (handoff.class, handoff.class);
            let edge = Edge { source, subject, weight: 0, kind: Kind::Thread, class, rest };
            drafts.push(Draft { target, edge });
        }
    }

    fn device_edges(&self, events: &RankEvents, starts: &[u32], drafts: &mut Vec<Draft>) {
        let ends = &self.activity_ends;
        for (i, a) in events.activities.iter().enumerate() {
            let (class, rest) = (a.class, Class::Other);
            let (subject, kind) = (i as u32, Kind::Activity);
            let weight = a.end - a.ts;
            let edge = Edge { source: starts[i], subject, weight, kind, class, rest };
            drafts.push(Draft { target: ends[i], edge });
        }
        let mut after = |source: u32, target: u32, kind: Kind| {
            // Of work whose launch nobody saw, nobody knows whether it could have come earlier.
            let linked = events.activities[target as usize].launch.is_some();
            let rest = if linked { Class::DeviceGap } else { Class::Other };
            let source = ends[source as usize];
            let class = Class::DeviceGap;
            let edge = Edge { source, subject: target, weight: 0, kind, class, rest };
            drafts.push(Draft { target: starts[target as usize], edge });
        };
        for (&previous, i) in self.device.previous.iter().zip(0..) {
            if previous != NONE {
                after(previous, i, Kind::StreamOrder);
            }
        }
        for &(source, target) in &self.device.stream_waits {
            after(source, target, Kind::StreamWait);
        }
        for &(source, target) in &self.device.inferred {
            after(source, target, Kind::InferredWait);
        }
        for &(source, target) in &self.device.crowded {
            let (from, to) =
                (&events.activities[source as usize], &events.activities[target as usize]);
            let (subject, kind, class) = (source, Kind::Crowded, from.class);
            let (weight, source, rest) =
                (to.ts - from.ts, starts[source as usize], Class::DeviceGap);
            let edge = Edge { source, subject, weight, kind, class, rest };
            drafts.push(Draft { target: starts[target as usize], edge });
        }
        for launch in &self.device.launches {
            let Some(source) = self.host_node(launch.timeline, launch.ts) else { continue };
            let (class, subject) = (Class::LaunchDelay, launch.activity);
            let (weight, kind) = (launch.delay, Kind::Launch);
            let edge = Edge { source, subject, weight, kind, class, rest: class };
            drafts.push(Draft { target: starts[launch.activity as usize], edge });
        }
        let waits = self.device.host_waits.iter().map(|&wait| (wait, Kind::Sync, Class::Sync));
        let full = self.device.queue_waits.iter();
        let full = full.map(|&wait| (wait, Kind::QueueFull, Class::RuntimeCall));
        for ((source, call), kind, class) in waits.chain(full) {
            let event = &events.host[call as usize];
            let node = self.host.timeline(event.lane).and_then(|k| self.host_node(k, event.end));
            let Some(target) = node else { continue };
            let source = ends[source as usize];
            let edge = Edge { source, subject: call, weight: 0, kind, class, rest: class };
            drafts.push(Draft { target, edge });
        }
    }

    /// Files the edges under their targets, and finds what held each node.
    fn settle(&mut self, drafts: Vec<Draft>) {
        let all = drafts.len();
        let mut first = vec![0_u32; self.nodes.len() + 1];
        let forward = |d: &Draft| d.edge.source < d.target;
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
            kind: Kind::Host,
            class: Class::Other,
            rest: Class::Other,
        };
        let mut edges = vec![blank; count];
        let mut next = first.clone();
        for mut draft in drafts.into_iter().filter(forward) {
            let (source, target) = (draft.edge.source as usize, draft.target as usize);
            let apart = self.nodes[target].ts - self.nodes[source].ts;
            draft.edge.weight = draft.edge.weight.clamp(0, apart);
            self.nodes[source].submits |= draft.edge.kind == Kind::Launch;
            edges[next[target] as usize] = draft.edge;
            next[target] += 1;
        }
        self.dropped = all - count;
        self.edges = edges;
        self.first_edge = first;
        let main = self.host.main;
        for i in 0..self.nodes.len() {
            let arrival = |e: &Edge| self.nodes[e.source as usize].ts + e.weight;
            let held_by = self.edge_range(i).max_by_key(|&at| {
                let edge = &self.edges[at];
                (arrival(edge), std::cmp::Reverse((edge.kind, edge.source)))
            });
            let node = &self.nodes[i];
            let (rest, class, held_by) = if let Some(at) = held_by {
                let edge = &self.edges[at];
                (node.ts - arrival(edge), edge.rest, at as u32)
            } else {
                let on_main = !node.on_device && Some(node.subject as usize) == main;
                let class = if on_main { Class::Gap } else { Class::Other };
                (node.ts - self.window.begin, class, NONE)
            };
            let node = &mut self.nodes[i];
            (node.rest, node.rest_class, node.held_by) = (rest, class, held_by);
        }
    }
}

/// All nodes in order; those of each timeline; start and end of each activity.
type Nodes = (Vec<Node>, Vec<Vec<u32>>, Vec<u32>, Vec<u32>);

/// At the same moment, work that ends comes before work that begins: the device's ends, other threads'
/// ends, the main thread, other threads, the device's starts. Edges that go against this order between
/// nodes of the same moment are dropped: they would close a circle, and explain no time.
fn nodes(events: &RankEvents, host: &Host) -> Nodes {
    let count = host.cuts.iter().map(Vec::len).sum::<usize>() + 2 * events.activities.len();
    let mut keys: Vec<(i64, u8, u32)> = Vec::with_capacity(count);
    let mut subjects: Vec<(u32, bool)> = Vec::with_capacity(count);
    for (k, cuts) in host.cuts.iter().enumerate() {
        for cut in cuts {
            let phase = match cut.returns {
                _ if Some(k) == host.main => 2,
                true => 1,
                false => 3,
            };
            keys.push((cut.ts, phase, subjects.len() as u32));
            subjects.push((k as u32, false));
        }
    }
    let first_activity = subjects.len();
    for (a, i) in events.activities.iter().zip(0_u32..) {
        let end = if a.end > a.ts { 0 } else { 5 };
        for (ts, phase) in [(a.ts, 4), (a.end, end)] {
            keys.push((ts, phase, subjects.len() as u32));
            subjects.push((i, true));
        }
    }
    sort(&mut keys);
    let mut place = vec![0_u32; keys.len()];
    let mut nodes = Vec::with_capacity(keys.len());
    for &(ts, _, id) in &keys {
        place[id as usize] = nodes.len() as u32;
        let (subject, on_device) = subjects[id as usize];
        let (submits, held_by, rest, rest_class) = (false, NONE, 0, Class::Other);
        nodes.push(Node { ts, subject, on_device, submits, held_by, rest, rest_class });
    }
    let mut next = 0;
    let host_nodes = host
        .cuts
        .iter()
        .map(|cuts| {
            let of = place[next..next + cuts.len()].to_vec();
            next += cuts.len();
            of
        })
        .collect();
    let of_activities = &place[first_activity..];
    let starts = of_activities.iter().copied().step_by(2).collect();
    let ends = of_activities.iter().copied().skip(1).step_by(2).collect();
    (nodes, host_nodes, starts, ends)
}
