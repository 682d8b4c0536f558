//! Extracts the critical path: from the end of the window back along the edge that bound each node.

use super::graph::{EdgeKind, Graph, Node};
use super::model::{NO_INDEX, TimeClass, TrainingStep};
use super::timeline::Timeline;

/// The event or thread that a segment's time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentOwner {
    Unattributed,
    /// A host thread between events.
    Thread(u32),
    HostEvent(u32),
    Activity(u32),
}

/// A segment of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathSegment {
    pub(crate) ts_ns: i64,
    pub(crate) dur_ns: i64,
    pub(crate) class: TimeClass,
    pub(crate) owner: SegmentOwner,
    /// The waiting call that the host returned from, until it submits new device work.
    pub(crate) after_sync: Option<u32>,
}

/// The path from first to last: edges with their targets.
pub(crate) fn path_edges(graph: &Graph) -> Vec<(u32, u32)> {
    let mut path = Vec::new();
    let mut node = graph.last_node();
    while let Some(at) = node {
        let edge = graph.nodes[at].binding_edge;
        node = graph.edges.get(edge as usize).map(|e| e.source as usize);
        if edge != NO_INDEX {
            path.push((edge, at as u32));
        }
    }
    path.reverse();
    path
}

/// The path from the start of the window to its end, without holes or overlaps.
pub(crate) fn path_segments(graph: &Graph) -> Vec<PathSegment> {
    let mut out = Vec::new();
    let path = path_edges(graph);
    let first = path.first().map(|&(e, _)| graph.edges[e as usize].source as usize);
    let Some(mut node) = first.or_else(|| graph.last_node()) else {
        push_segment(
            &mut out,
            graph.window.begin_ns,
            graph.window.end_ns,
            TimeClass::Other,
            SegmentOwner::Unattributed,
            None,
        );
        return out;
    };
    let timelines = &graph.host.timelines;
    let begin_ns = &graph.nodes[node];
    push_segment(
        &mut out,
        graph.window.begin_ns,
        begin_ns.ts_ns,
        begin_ns.rest_class,
        SegmentOwner::Unattributed,
        None,
    );
    let mut after_sync = None;
    for &(edge, target) in &path {
        let edge = &graph.edges[edge as usize];
        let Node { ts_ns: from, subject: from_subject, submits, .. } = graph.nodes[node];
        if submits {
            after_sync = None;
        }
        node = target as usize;
        let to = &graph.nodes[node];
        let held = from + edge.weight;
        match edge.kind {
            EdgeKind::Host => {
                push_host_time(
                    &mut out,
                    timelines,
                    edge.subject,
                    (from, to.ts_ns),
                    edge.class,
                    after_sync,
                );
            }
            EdgeKind::Thread => {
                push_host_time(
                    &mut out,
                    timelines,
                    edge.subject,
                    (from, to.ts_ns),
                    edge.rest,
                    after_sync,
                );
            }
            EdgeKind::Sync => {
                // Only waits that return before the work seems to end have a weight: time of that work.
                let work = SegmentOwner::Activity(from_subject);
                push_segment(&mut out, from, held, edge.class, work, after_sync);
                after_sync = Some(edge.subject);
                let owner = SegmentOwner::HostEvent(edge.subject);
                push_segment(&mut out, held, to.ts_ns, edge.rest, owner, after_sync);
            }
            EdgeKind::QueueFull => {
                push_segment(
                    &mut out,
                    held,
                    to.ts_ns,
                    edge.rest,
                    SegmentOwner::HostEvent(edge.subject),
                    after_sync,
                );
            }
            _ => {
                let owner = SegmentOwner::Activity(edge.subject);
                push_segment(&mut out, from, held, edge.class, owner, after_sync);
                push_segment(&mut out, held, to.ts_ns, edge.rest, owner, after_sync);
                after_sync = None;
            }
        }
    }
    push_segment(
        &mut out,
        graph.nodes[node].ts_ns,
        graph.window.end_ns,
        TimeClass::Other,
        SegmentOwner::Unattributed,
        None,
    );
    out
}

/// Adds an interval of a thread's time, split by innermost event.
fn push_host_time(
    out: &mut Vec<PathSegment>,
    timelines: &[Timeline],
    timeline: u32,
    (mut from, to): (i64, i64),
    class: TimeClass,
    after_sync: Option<u32>,
) {
    let line = &timelines[timeline as usize];
    let mut piece = line.at(from);
    while from < to {
        let (end_ns, event) = match piece {
            Some(at) if at < line.pieces.len() => (line.span(at).1, line.pieces[at].event),
            _ => (to, NO_INDEX),
        };
        let end_ns = end_ns.min(to);
        let owner = if event == NO_INDEX {
            SegmentOwner::Thread(timeline)
        } else {
            SegmentOwner::HostEvent(event)
        };
        push_segment(out, from, end_ns, class, owner, after_sync);
        from = end_ns;
        piece = piece.map(|at| at + 1);
    }
}

fn push_segment(
    out: &mut Vec<PathSegment>,
    from: i64,
    to: i64,
    class: TimeClass,
    owner: SegmentOwner,
    after_sync: Option<u32>,
) {
    if to <= from {
        return;
    }
    if let Some(last) = out.last_mut()
        && (last.class, last.owner, last.after_sync) == (class, owner, after_sync)
    {
        last.dur_ns += to - from;
        return;
    }
    out.push(PathSegment { ts_ns: from, dur_ns: to - from, class, owner, after_sync });
}

/// Splits segments at the borders of steps, and adds the step of each part.
pub(crate) fn split_by_step(
    segments: &[PathSegment],
    steps: &[TrainingStep],
) -> Vec<(PathSegment, Option<i64>)> {
    let mut borders: Vec<i64> = steps.iter().flat_map(|s| [s.ts_ns, s.end_ns]).collect();
    borders.sort_unstable();
    let step_at = |ts_ns: i64| {
        let after = steps.partition_point(|s| s.ts_ns <= ts_ns);
        let step = &steps[after.checked_sub(1)?];
        (ts_ns < step.end_ns).then_some(step.number)
    };
    let mut out = Vec::with_capacity(segments.len() + borders.len());
    let mut next = 0;
    for segment in segments {
        let (mut ts_ns, end_ns) = (segment.ts_ns, segment.ts_ns + segment.dur_ns);
        while ts_ns < end_ns {
            while borders.get(next).is_some_and(|&border| border <= ts_ns) {
                next += 1;
            }
            let until = borders.get(next).map_or(end_ns, |&border| border.min(end_ns));
            out.push((PathSegment { ts_ns, dur_ns: until - ts_ns, ..*segment }, step_at(ts_ns)));
            ts_ns = until;
        }
    }
    out
}
