//! Edges to, between and from device activities.

use rustc_hash::FxHashMap;

use super::endpoints::Endpoints;
use super::frame::{Event, EventKind, Frame};
use super::graph::EdgeKind;
use super::names::Role;
use query::id_index::IdIndex;

/// The recorded event that a `cuda_sync` event waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncWait {
    /// The waiting event.
    pub(super) id: i64,
    /// Stream of the recorded event, -1 if not recorded.
    pub(super) stream: i64,
    /// Correlation of the call that recorded it, -1 if not recorded.
    pub(super) record: i64,
}

/// Adds the edges of the device. `waits` are in order of id; `processes` is the process of each lane.
pub(super) fn connect(
    endpoints: &mut Endpoints<'_>,
    inside: &[bool],
    waits: &[SyncWait],
    processes: &[u32],
) {
    let frame = endpoints.frame;
    let lengths = queue_lengths(frame);
    let launches = Launches::new(frame, waits, processes);
    let mut rows: Vec<usize> = (0..frame.events.len())
        .filter(|&row| inside[row] && frame.linked[row] >= 0 && is_relevant(&frame.events[row]))
        .collect();
    // A sync is ordered by its end: the activity it waits for may begin after its start.
    rows.sort_unstable_by_key(|&row| {
        let event = &frame.events[row];
        let ts_ns = if event.kind == EventKind::Sync { event.end_ns() } else { event.ts_ns };
        (ts_ns, event.id)
    });

    let mut streams = StreamEnds::default();
    let mut awaited: FxHashMap<usize, usize> = FxHashMap::default();
    for row in rows {
        if frame.events[row].kind == EventKind::Sync {
            add_sync(endpoints, row, &streams, &launches, &mut awaited);
        } else {
            let source = awaited.remove(&row);
            add_activity(endpoints, row, source, &mut streams, &lengths);
        }
    }
}

fn is_relevant(event: &Event) -> bool {
    event.on_stream() || matches!(event.role, Role::EventSync | Role::ContextSync)
}

/// Adds an activity: its duration, and an edge from the event that delayed its start. `source` is the activity of another
/// stream that its stream waited for.
fn add_activity(
    endpoints: &mut Endpoints<'_>,
    row: usize,
    source: Option<usize>,
    streams: &mut StreamEnds,
    lengths: &[Option<i64>],
) {
    let frame = endpoints.frame;
    let (Some(start), Some(end)) = (endpoints.start_of(row), endpoints.end_of(row)) else { return };
    endpoints.add_operator(start, end, None, false);
    let source = source.and_then(|source| endpoints.end_of(source));
    if let Some(source) = source {
        endpoints.add_dependency(source, start, EdgeKind::Sync);
    }
    let before = streams.last(frame.events[row].stream);
    let earlier = |node: Option<u32>, ts_ns: i64| node.is_none_or(|n| endpoints.ts_ns(n) < ts_ns);
    let launch = frame.row(frame.linked[row]);
    let undelayed_launch = launch.filter(|&launch| {
        let launch_ns = frame.events[launch].ts_ns;
        lengths[launch] == Some(1)
            && lengths[row] == Some(0)
            && earlier(before, launch_ns)
            && earlier(source, launch_ns)
    });
    if let Some(launch) = undelayed_launch {
        if let Some(launch) = endpoints.start_of(launch) {
            endpoints.add_launch_delay(launch, start);
        }
    } else if let Some(before) = before
        && earlier(source, endpoints.ts_ns(before))
    {
        endpoints.add_kernel_delay(before, start);
    }
    streams.set(frame.events[row].stream, end);
}

/// Adds a wait of the host for the device, or of a stream for another stream.
fn add_sync(
    endpoints: &mut Endpoints<'_>,
    row: usize,
    streams: &StreamEnds,
    launches: &Launches<'_>,
    awaited: &mut FxHashMap<usize, usize>,
) {
    let frame = endpoints.frame;
    let event = &frame.events[row];
    let call = frame.row(frame.linked[row]);
    let waiting = call.and_then(|call| endpoints.end_of(call));
    match event.role {
        Role::EventSync => {
            let source = launches.recorded(event.id).and_then(|source| endpoints.end_of(source));
            if let (Some(source), Some(waiting)) = (source, waiting) {
                endpoints.add_dependency(source, waiting, EdgeKind::Sync);
            }
        }
        Role::StreamWait => {
            let Some(source) = launches.recorded(event.id) else { return };
            let call = call.filter(|&call| frame.events[call].role == Role::StreamWaitCall);
            if let Some(next) = call.and_then(|call| launches.next(call)) {
                awaited.insert(next, source);
            }
        }
        Role::StreamSync => {
            if let (Some(last), Some(waiting)) = (streams.last(event.stream), waiting) {
                endpoints.add_dependency(last, waiting, EdgeKind::Sync);
            }
        }
        Role::ContextSync => {
            let Some(waiting) = waiting else { return };
            for &(_, last) in &streams.ends {
                endpoints.add_dependency(last, waiting, EdgeKind::Sync);
            }
        }
        _ => {}
    }
}

/// End of the last activity of each stream, in order of first use.
#[derive(Debug, Default)]
struct StreamEnds {
    ends: Vec<(i64, u32)>,
    known: FxHashMap<i64, usize>,
}

impl StreamEnds {
    fn last(&self, stream: i64) -> Option<u32> {
        self.known.get(&stream).map(|&at| self.ends[at].1)
    }

    fn set(&mut self, stream: i64, end: u32) {
        let next = self.ends.len();
        let at = *self.known.entry(stream).or_insert(next);
        if at == next {
            self.ends.push((stream, end));
        } else {
            self.ends[at].1 = end;
        }
    }
}

/// For each launch and each activity, the number of activities queued on the stream from that time on. A launch counts
/// before activities that start at the same time.
fn queue_lengths(frame: &Frame) -> Vec<Option<i64>> {
    let launches = frame.events.iter().zip(0..);
    let launches = launches.filter(|&(e, row)| e.role.launches() && frame.linked[row as usize] > 0);
    let launches = IdIndex::of(launches.map(|(event, row)| (event.correlation, row)));
    let mut points = Vec::new();
    for (row, event) in frame.events.iter().enumerate().filter(|(_, e)| e.on_stream()) {
        if let Some(launch) = launches.get(event.correlation).map(|launch| launch as usize) {
            points.push((frame.events[launch].ts_ns, false, launch, event.stream));
            points.push((event.ts_ns, true, row, event.stream));
        }
    }
    points.sort_unstable();
    let mut waiting: FxHashMap<i64, i64> = FxHashMap::default();
    let mut lengths = vec![None; frame.events.len()];
    for (_, starts, row, stream) in points {
        let waiting = waiting.entry(stream).or_default();
        *waiting += if starts { -1 } else { 1 };
        lengths[row] = Some(*waiting);
    }
    lengths
}

/// Activities by launch: the activity that a recorded event stands for, and the activity that waits for the event.
struct Launches<'a> {
    frame: &'a Frame,
    /// Row of the last activity launched before the record that a sync event waits for, by id of the sync event.
    recorded: FxHashMap<i64, usize>,
    /// Launches by thread and stream, in order of time: start, row of the activity.
    by_thread: FxHashMap<(u32, i64), Vec<(i64, usize)>>,
}

impl<'a> Launches<'a> {
    fn new(frame: &'a Frame, waits: &[SyncWait], processes: &[u32]) -> Self {
        let mut launches: Vec<(i64, usize, usize)> = (0..frame.events.len())
            .filter(|&row| frame.events[row].role.launches())
            .filter_map(|row| Some((frame.events[row].ts_ns, row, activity(frame, row)?)))
            .collect();
        launches.sort_unstable();
        let process = |row: usize| processes.get(frame.events[row].lane as usize).copied();
        let mut by_thread: FxHashMap<_, Vec<_>> = FxHashMap::default();
        let mut by_stream: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for (ts_ns, row, activity) in launches {
            let stream = frame.events[activity].stream;
            by_thread.entry((frame.events[row].lane, stream)).or_default().push((ts_ns, activity));
            by_stream.entry((process(activity), stream)).or_default().push((ts_ns, activity));
        }

        // The stream on which an event was recorded is known from the events that wait for it.
        let mut recorded_on = FxHashMap::default();
        for wait in waits.iter().filter(|wait| wait.stream >= 0) {
            if let Some(row) = frame.row(wait.id) {
                recorded_on.insert(wait.record, (process(row), wait.stream));
            }
        }
        let mut before: FxHashMap<i64, usize> = FxHashMap::default();
        for event in frame.events.iter().filter(|e| e.role == Role::EventRecord) {
            let on = recorded_on.get(&event.correlation).and_then(|on| by_stream.get(on));
            let Some(on) = on else { continue };
            let launched = on.partition_point(|&(ts_ns, _)| ts_ns <= event.ts_ns);
            if let Some(last) = launched.checked_sub(1) {
                before.insert(event.correlation, on[last].1);
            }
        }
        let recorded =
            waits.iter().filter_map(|wait| Some((wait.id, *before.get(&wait.record)?))).collect();
        Self { frame, recorded, by_thread }
    }

    fn recorded(&self, wait: i64) -> Option<usize> {
        self.recorded.get(&wait).copied()
    }

    /// The next activity that the thread of `cudaStreamWaitEvent` launches on the stream of that call.
    fn next(&self, call: usize) -> Option<usize> {
        let event = &self.frame.events[call];
        let stream = self.frame.events[activity(self.frame, call)?].stream;
        let launches = self.by_thread.get(&(event.lane, stream))?;
        let after = launches.partition_point(|&(ts_ns, _)| ts_ns < event.ts_ns);
        launches.get(after).map(|&(_, activity)| activity)
    }
}

/// The row of the activity or wait that a call put on a stream.
fn activity(frame: &Frame, call: usize) -> Option<usize> {
    frame.partner(call).filter(|&row| frame.events[row].on_stream() && frame.linked[row] > 0)
}
