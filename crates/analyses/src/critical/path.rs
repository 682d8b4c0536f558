//! The critical path: back from the end of the window, always to what held the node.

use super::graph::{Graph, Kind, Node};
use super::model::{Class, NONE, Step};
use super::timeline::Timeline;

/// What a segment's time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Nothing,
    /// A host thread between events.
    Thread(u32),
    Host(u32),
    Activity(u32),
}

/// A stretch of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) ts: i64,
    pub(super) dur: i64,
    pub(super) class: Class,
    pub(super) owner: Owner,
    /// The waiting call that the host has come from, until it gives the device new work.
    pub(super) after_sync: Option<u32>,
}

/// The path, first to last: edges with their targets.
pub(super) fn edges(graph: &Graph) -> Vec<(u32, u32)> {
    let mut path = Vec::new();
    let mut node = graph.last();
    while let Some(at) = node {
        let edge = graph.nodes[at].held_by;
        node = graph.edges.get(edge as usize).map(|e| e.source as usize);
        if edge != NONE {
            path.push((edge, at as u32));
        }
    }
    path.reverse();
    path
}

/// The path from the start of the window to its end, without holes or overlaps.
pub(super) fn segments(graph: &Graph) -> Vec<Segment> {
    let mut out = Vec::new();
    let path = edges(graph);
    let first = path.first().map(|&(e, _)| graph.edges[e as usize].source as usize);
    let Some(mut node) = first.or_else(|| graph.last()) else {
        push(&mut out, graph.window.begin, graph.window.end, Class::Other, Owner::Nothing, None);
        return out;
    };
    let timelines = &graph.host.timelines;
    let begin = &graph.nodes[node];
    push(&mut out, graph.window.begin, begin.ts, begin.rest_class, Owner::Nothing, None);
    let mut after_sync = None;
    for &(edge, target) in &path {
        let edge = &graph.edges[edge as usize];
        let Node { ts: from, submits, .. } = graph.nodes[node];
        if submits {
            after_sync = None;
        }
        node = target as usize;
        let to = &graph.nodes[node];
        let held = from + edge.weight;
        match edge.kind {
            Kind::Host => {
                expand(&mut out, timelines, edge.subject, (from, to.ts), edge.class, after_sync);
            }
            Kind::Thread => {
                expand(&mut out, timelines, edge.subject, (from, to.ts), edge.rest, after_sync);
            }
            Kind::Sync => {
                after_sync = Some(edge.subject);
                let owner = Owner::Host(edge.subject);
                push(&mut out, held, to.ts, edge.rest, owner, after_sync);
            }
            Kind::QueueFull => {
                push(&mut out, held, to.ts, edge.rest, Owner::Host(edge.subject), after_sync);
            }
            _ => {
                let owner = Owner::Activity(edge.subject);
                push(&mut out, from, held, edge.class, owner, after_sync);
                push(&mut out, held, to.ts, edge.rest, owner, after_sync);
                after_sync = None;
            }
        }
    }
    push(&mut out, graph.nodes[node].ts, graph.window.end, Class::Other, Owner::Nothing, None);
    out
}

/// A stretch of a thread's time, by innermost event.
fn expand(
    out: &mut Vec<Segment>,
    timelines: &[Timeline],
    timeline: u32,
    (mut from, to): (i64, i64),
    class: Class,
    after_sync: Option<u32>,
) {
    let line = &timelines[timeline as usize];
    let mut piece = line.at(from);
    while from < to {
        let (end, event) = match piece {
            Some(at) if at < line.pieces.len() => (line.span(at).1, line.pieces[at].event),
            _ => (to, NONE),
        };
        let end = end.min(to);
        let owner = if event == NONE { Owner::Thread(timeline) } else { Owner::Host(event) };
        push(out, from, end, class, owner, after_sync);
        from = end;
        piece = piece.map(|at| at + 1);
    }
}

fn push(
    out: &mut Vec<Segment>,
    from: i64,
    to: i64,
    class: Class,
    owner: Owner,
    after_sync: Option<u32>,
) {
    if to <= from {
        return;
    }
    if let Some(last) = out.last_mut()
        && (last.class, last.owner, last.after_sync) == (class, owner, after_sync)
    {
        last.dur += to - from;
        return;
    }
    out.push(Segment { ts: from, dur: to - from, class, owner, after_sync });
}

/// Each segment cut at the borders of steps, with its step.
pub(super) fn by_step(segments: &[Segment], steps: &[Step]) -> Vec<(Segment, Option<i64>)> {
    let mut borders: Vec<i64> = steps.iter().flat_map(|s| [s.ts, s.end]).collect();
    borders.sort_unstable();
    let step_at = |ts: i64| {
        let after = steps.partition_point(|s| s.ts <= ts);
        let step = &steps[after.checked_sub(1)?];
        (ts < step.end).then_some(step.number)
    };
    let mut out = Vec::with_capacity(segments.len() + borders.len());
    let mut next = 0;
    for segment in segments {
        let (mut ts, end) = (segment.ts, segment.ts + segment.dur);
        while ts < end {
            while borders.get(next).is_some_and(|&border| border <= ts) {
                next += 1;
            }
            let until = borders.get(next).map_or(end, |&border| border.min(end));
            out.push((Segment { ts, dur: until - ts, ..*segment }, step_at(ts)));
            ts = until;
        }
    }
    out
}
