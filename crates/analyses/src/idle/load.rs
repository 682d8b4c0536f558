//! Reads the work and the gaps of each device, and the host events during the gaps.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::Array;
use query::rust_view::Result;

use super::cause::{CaptureCall, IdleCause, is_graph_launch};
use super::thread::{HostEvent, HostEventKind, NO_TEXT, ThreadTimeline};
use crate::interval_set::{Interval, union};
use query::columns::{Names, get, ints, names};
use query::rust_view::ViewInputs;

pub(super) const INPUTS: &[(&str, &str)] = &[
    ("windows", "SELECT rank, device, start_ns, end_ns FROM device_windows ORDER BY rank, device"),
    (
        "work",
        "SELECT rank, device, stream, category, kind, name, ts_ns, end_ns, event_id, launch, launch_name,
            launch_ts_ns, launch_end_ns, launch_thread, step
        FROM device_work ORDER BY rank, device, ts_ns, event_id",
    ),
    ("loops", "SELECT rank, max(thread) AS thread FROM steps WHERE thread IS NOT NULL GROUP BY rank"),
    ("waits", "SELECT rank, thread, cause, name, ts_ns, end_ns FROM host_waits"),
    // Depends only on the name of the call.
    ("allocations", "SELECT name FROM memory_driver_calls"),
    (
        "calls",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns, device_events FROM runtime_calls",
    ),
    (
        "ops",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops",
    ),
    ("computations", "SELECT rank, thread, name, ts_ns, end_ns FROM cpu_computations"),
    (
        "ranges",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM annotations
        WHERE NOT on_device AND name NOT LIKE 'ProfilerStep#%' AND name NOT LIKE 'step[%'
            AND name NOT LIKE 'execute_%context_%generation_%'",
    ),
    (
        "frames",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM python_frames",
    ),
    ("warmups", "SELECT rank, thread, kind, name, ts_ns, end_ns FROM host_warmups"),
    (
        "first_steps",
        "SELECT rank, min(end_ns) AS end_ns FROM complete_steps WHERE source <> 'trace' GROUP BY rank HAVING count(*) >= 2",
    ),
    ("sampled", "SELECT rank FROM trace_sampling WHERE is_sampled"),
    ("lost", "SELECT rank, ts_ns FROM lost_launches ORDER BY rank, ts_ns"),
    ("traced", "SELECT rank, device, launch FROM traced_replays"),
    (
        "marks",
        "SELECT rank, thread, ts_ns, ts_ns + dur_ns AS end_ns FROM steps
        WHERE thread IS NOT NULL AND source <> 'trace' ORDER BY rank, thread, ts_ns",
    ),
];

/// A kernel, copy or fill.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceActivity {
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    /// Row in the input `work`.
    pub(super) row: usize,
    pub(super) stream: i64,
    pub(super) is_collective: bool,
    pub(super) launch: Option<LaunchCall>,
}

/// The launching call.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchCall {
    pub(super) id: i64,
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) thread: i64,
    pub(super) is_graph: bool,
}

/// An interval in which a device runs nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleGap {
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    /// Indices into the device's work.
    pub(super) next: Option<usize>,
    pub(super) previous: Option<usize>,
}

/// One device of one rank.
#[derive(Debug)]
pub(super) struct DeviceWork {
    pub(super) rank: i64,
    pub(super) ordinal: i64,
    pub(super) window_ns: i64,
    pub(super) work: Vec<DeviceActivity>,
    pub(super) gaps: Vec<IdleGap>,
    /// Graph launches whose replays have gaps that the profiler adds.
    pub(super) traced_replays: HashSet<i64>,
}

/// Distinct texts.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    texts: Vec<String>,
    known: HashMap<String, u32>,
}

impl TextTable {
    /// Indices of the texts of a column, by the column's own indices.
    fn add(&mut self, column: &Names) -> Vec<u32> {
        column.texts.iter().map(|text| self.id(text)).collect()
    }

    fn id(&mut self, text: &str) -> u32 {
        *self.known.entry(text.to_owned()).or_insert_with(|| {
            self.texts.push(text.to_owned());
            (self.texts.len() - 1) as u32
        })
    }

    pub(super) fn get(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str)
    }
}

/// Which operators of a rank were recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RecordedOperators {
    /// No operator was recorded: Python cannot be distinguished from dispatch.
    #[default]
    None,
    /// Most events are missing: whether the device was idle, and why, cannot be told.
    Sample,
    All,
}

/// Host facts about one rank.
#[derive(Debug, Default)]
pub(super) struct HostInfo {
    /// The thread that runs the training loop.
    pub(super) loop_thread: Option<i64>,
    /// At least one runtime call was recorded.
    pub(super) has_calls: bool,
    pub(super) operators: RecordedOperators,
    /// At least one captured graph is replayed.
    pub(super) has_graphs: bool,
    /// Starts of replays without a recorded activity, ascending.
    pub(super) silent_replays: Vec<i64>,
    /// Starts of kernel launches whose work was not recorded, ascending.
    pub(super) lost_launches: Vec<i64>,
    /// End of the first of two or more steps.
    pub(super) first_step_end_ns: Option<i64>,
}

/// All inputs of the attribution.
#[derive(Debug)]
pub(super) struct IdleInputs {
    pub(super) devices: Vec<DeviceWork>,
    pub(super) hosts: BTreeMap<i64, HostInfo>,
    pub(super) threads: HashMap<Lane, ThreadTimeline>,
    pub(super) activity: HashMap<Lane, ThreadActivity>,
    pub(super) texts: TextTable,
}

/// A thread: its rank and number.
pub(super) type Lane = (i64, i64);

/// When a thread takes part in the recording.
#[derive(Debug, Default)]
pub(super) struct ThreadActivity {
    /// From the first event to the last one, extended by the marks of steps around these.
    pub(super) extent: Interval,
    /// The marks of steps, ascending.
    pub(super) steps: Vec<Interval>,
}

impl ThreadActivity {
    /// Returns whether a step of the thread covers all of the time.
    pub(super) fn is_in_step(&self, from: i64, to: i64) -> bool {
        let before = self.steps.partition_point(|&(ts_ns, _)| ts_ns <= from);
        self.steps[..before].last().is_some_and(|&(_, end_ns)| end_ns >= to)
    }
}

impl IdleInputs {
    pub(super) fn new(inputs: &ViewInputs<'_>) -> Result<Self> {
        let devices = devices(inputs)?;
        let mut hosts = hosts(inputs)?;
        let queried_spans = queried_spans(&devices, &hosts);
        let mut texts = TextTable::default();
        let mut gathered = GatheredEvents::default();
        for (table, kind) in [
            ("ops", EventSource::One(HostEventKind::Cause(IdleCause::OpDispatch))),
            ("computations", EventSource::One(HostEventKind::Cause(IdleCause::CpuCompute))),
            ("ranges", EventSource::One(HostEventKind::Range)),
            ("frames", EventSource::One(HostEventKind::Frame)),
            ("calls", EventSource::Call),
            ("waits", EventSource::Wait),
            ("warmups", EventSource::Warmup),
        ] {
            gather_events(inputs, table, &kind, &queried_spans, &mut texts, &mut gathered)?;
        }
        let GatheredEvents { mut events, extents } = gathered;
        let activity = thread_activity(inputs, &extents)?;
        for (lane, ts_ns, end_ns, name) in captures(inputs, &activity)? {
            let kind = HostEventKind::Cause(IdleCause::StreamCapture);
            let name = texts.id(&name);
            let event = HostEvent { ts_ns, end_ns, kind, name, source: NO_TEXT };
            events.entry(lane).or_default().push(event);
        }
        for host in hosts.values_mut() {
            host.silent_replays.sort_unstable();
        }
        let threads = events.into_iter().map(|(lane, events)| (lane, ThreadTimeline::new(events)));
        Ok(Self { devices, hosts, threads: threads.collect(), activity, texts })
    }
}

/// Events during gaps by thread, and from when to when each thread has any event.
#[derive(Debug, Default)]
struct GatheredEvents {
    events: HashMap<Lane, Vec<HostEvent>>,
    extents: HashMap<Lane, Interval>,
}

impl GatheredEvents {
    /// A thread has events in this time.
    fn extend(&mut self, extent: Option<(Lane, Interval)>) {
        if let Some((lane, (ts_ns, end_ns))) = extent {
            let known = self.extents.entry(lane).or_insert((ts_ns, end_ns));
            *known = (known.0.min(ts_ns), known.1.max(end_ns));
        }
    }
}

/// When each thread takes part in the recording. A thread with marks of steps and nothing else does not.
fn thread_activity(
    inputs: &ViewInputs<'_>,
    extents: &HashMap<Lane, Interval>,
) -> Result<HashMap<Lane, ThreadActivity>> {
    let mut threads: HashMap<Lane, ThreadActivity> = extents
        .iter()
        .map(|(&lane, &extent)| (lane, ThreadActivity { extent, steps: Vec::new() }))
        .collect();
    let marks = inputs.batch("marks")?;
    let (rank, thread) = (ints(marks, "rank")?, ints(marks, "thread")?);
    let (ts_ns, end_ns) = (ints(marks, "ts_ns")?, ints(marks, "end_ns")?);
    for row in 0..marks.num_rows() {
        let lane = (rank.value(row), thread.value(row));
        let Some(thread) = threads.get_mut(&lane) else { continue };
        let (ts_ns, end_ns) = (ts_ns.value(row), end_ns.value(row));
        let (first, last) = extents[&lane];
        if ts_ns <= last && end_ns >= first {
            thread.extent = (thread.extent.0.min(ts_ns), thread.extent.1.max(end_ns));
            thread.steps.push((ts_ns, end_ns));
        }
    }
    Ok(threads)
}

/// Intervals in which a thread captures a stream, or builds an executable graph: thread, start, end, name of the call.
fn captures(
    inputs: &ViewInputs<'_>,
    activity: &HashMap<Lane, ThreadActivity>,
) -> Result<Vec<(Lane, i64, i64, String)>> {
    let batch = inputs.batch("calls")?;
    let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
    let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let name = names(batch, "name")?;
    let kinds: Vec<Option<CaptureCall>> =
        name.texts.iter().map(|n| CaptureCall::of_runtime_call(n)).collect();
    if kinds.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let mut calls: Vec<(Lane, i64, i64, CaptureCall, u32)> = (0..batch.num_rows())
        .filter_map(|row| {
            let id = name.ids[row];
            let kind = (*kinds.get(id as usize)?)?;
            let lane = (rank.value(row), get(&thread, row)?);
            Some((lane, ts_ns.value(row), end_ns.value(row), kind, id))
        })
        .collect();
    calls.sort_unstable_by_key(|&(lane, ts_ns, ..)| (lane, ts_ns));
    let mut captures = Vec::new();
    for calls in calls.chunk_by(|a, b| a.0 == b.0) {
        let lane = calls[0].0;
        let (first_ns, last_ns) =
            activity.get(&lane).map_or((calls[0].1, calls[0].2), |a| a.extent);
        let mut begun: Option<(i64, u32)> = None;
        for (i, &(_, ts_ns, end_ns, kind, name)) in calls.iter().enumerate() {
            match kind {
                CaptureCall::Begin => begun = begun.or(Some((ts_ns, name))),
                CaptureCall::Instantiate => captures.push((lane, ts_ns, end_ns, name)),
                // A recording may start inside a capture.
                CaptureCall::End if begun.is_some() || i == 0 => {
                    let (from, name) = begun.take().unwrap_or((first_ns, name));
                    captures.push((lane, from, end_ns, name));
                }
                CaptureCall::End => {}
            }
        }
        // Or end inside one.
        if let Some((from, name)) = begun {
            captures.push((lane, from, last_ns, name));
        }
    }
    let text = |id: u32| name.texts[id as usize].clone();
    Ok(captures.into_iter().map(|(lane, from, to, id)| (lane, from, to, text(id))).collect())
}

/// How the rows of an input map to event kinds.
#[derive(Debug)]
enum EventSource {
    One(HostEventKind),
    /// By name.
    Call,
    /// By cause.
    Wait,
    /// By kind.
    Warmup,
}

/// Position of events, mostly in chronological order, among the queried intervals of their thread.
struct SpanCursor<'a> {
    lane: Option<(i64, i64)>,
    spans: &'a [Interval],
    /// The first interval that ends after the event starts. A wait that ends where a gap begins belongs to the gap.
    first: usize,
}

impl<'a> SpanCursor<'a> {
    fn go_to(
        &mut self,
        lane: (i64, i64),
        ts_ns: i64,
        queried_spans: &'a HashMap<(i64, i64), Vec<Interval>>,
    ) {
        let is_behind = self.first > 0 && self.spans[self.first - 1].1 > ts_ns;
        if self.lane != Some(lane) || is_behind {
            self.lane = Some(lane);
            self.spans = queried_spans.get(&lane).map_or(&[], Vec::as_slice);
            self.first = self.spans.partition_point(|span| span.1 <= ts_ns);
        }
        while self.spans.get(self.first).is_some_and(|span| span.1 <= ts_ns) {
            self.first += 1;
        }
    }
}

/// Adds the events of an input that overlap a gap on a thread relevant to the gap.
fn gather_events(
    inputs: &ViewInputs<'_>,
    table: &str,
    of: &EventSource,
    queried_spans: &HashMap<(i64, i64), Vec<Interval>>,
    texts: &mut TextTable,
    gathered: &mut GatheredEvents,
) -> Result<()> {
    let batch = inputs.batch(table)?;
    let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
    let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let name = names(batch, "name")?;
    let ids = texts.add(&name);
    let has_source = batch.schema().index_of("source").is_ok();
    let source = if has_source { Some(names(batch, "source")?) } else { None };
    let sources = source.as_ref().map(|source| texts.add(source)).unwrap_or_default();
    let causes: Vec<HostEventKind> = match of {
        EventSource::One(kind) => vec![*kind; name.texts.len()],
        EventSource::Call => {
            let allocations = names(inputs.batch("allocations")?, "name")?.texts;
            let of_runtime_call = |name: &String| {
                let allocates = allocations.contains(name);
                if allocates { IdleCause::Allocation } else { IdleCause::of_runtime_call(name) }
            };
            name.texts.iter().map(|name| HostEventKind::Cause(of_runtime_call(name))).collect()
        }
        EventSource::Wait | EventSource::Warmup => Vec::new(),
    };
    let cause = if matches!(of, EventSource::Wait) { Some(names(batch, "cause")?) } else { None };
    let warmup = if matches!(of, EventSource::Warmup) { Some(names(batch, "kind")?) } else { None };
    let mut at = SpanCursor { lane: None, spans: &[], first: 0 };
    let mut extent: Option<(Lane, Interval)> = None;
    for row in 0..batch.num_rows() {
        if thread.is_null(row) {
            continue;
        }
        let lane = (rank.value(row), thread.value(row));
        let (ts_ns, end_ns) = (ts_ns.value(row), end_ns.value(row));
        match &mut extent {
            Some((of, (first, last))) if *of == lane => {
                *first = ts_ns.min(*first);
                *last = end_ns.max(*last);
            }
            _ => {
                gathered.extend(extent);
                extent = Some((lane, (ts_ns, end_ns)));
            }
        }
        at.go_to(lane, ts_ns, queried_spans);
        if at.spans.get(at.first).is_none_or(|span| span.0 > end_ns) {
            continue;
        }
        let id = name.ids[row] as usize;
        let passing = warmup.as_ref().and_then(|kind| IdleCause::of_warmup(kind.get(row)?));
        let kind = match &cause {
            _ if passing.is_some() => passing.map_or(HostEventKind::Range, HostEventKind::Cause),
            Some(cause) if cause.get(row) == Some("sync") => {
                HostEventKind::Cause(IdleCause::Synchronization)
            }
            Some(_) => HostEventKind::Cause(IdleCause::DataLoading),
            None => causes.get(id).copied().unwrap_or(HostEventKind::Range),
        };
        let source = source.as_ref().and_then(|s| sources.get(s.ids[row] as usize).copied());
        gathered.events.entry(lane).or_default().push(HostEvent {
            ts_ns,
            end_ns,
            kind,
            name: ids.get(id).copied().unwrap_or(NO_TEXT),
            source: source.unwrap_or(NO_TEXT),
        });
    }
    gathered.extend(extent);
    Ok(())
}

/// The union of the gaps that each thread is relevant to.
fn queried_spans(
    devices: &[DeviceWork],
    hosts: &BTreeMap<i64, HostInfo>,
) -> HashMap<(i64, i64), Vec<Interval>> {
    let mut spans: HashMap<(i64, i64), Vec<Interval>> = HashMap::new();
    for device in devices {
        let main = hosts.get(&device.rank).and_then(|host| host.loop_thread);
        for gap in &device.gaps {
            let launcher = |work: Option<usize>| Some(device.work[work?].launch?.thread);
            let mut threads = [launcher(gap.next), launcher(gap.previous), main];
            threads.sort_unstable();
            for (i, thread) in threads.iter().enumerate() {
                if let Some(thread) = thread.filter(|_| i == 0 || threads[i - 1] != threads[i]) {
                    spans.entry((device.rank, thread)).or_default().push((gap.ts_ns, gap.end_ns));
                }
            }
        }
    }
    spans.into_iter().map(|(thread, gaps)| (thread, union(gaps))).collect()
}

fn hosts(inputs: &ViewInputs<'_>) -> Result<BTreeMap<i64, HostInfo>> {
    let mut hosts: BTreeMap<i64, HostInfo> = BTreeMap::new();
    let loops = inputs.batch("loops")?;
    let (rank, thread) = (ints(loops, "rank")?, ints(loops, "thread")?);
    for row in 0..loops.num_rows() {
        hosts.entry(rank.value(row)).or_default().loop_thread = get(&thread, row);
    }
    let ops = ints(inputs.batch("ops")?, "rank")?;
    let mut last = None;
    for &rank in ops.values() {
        // Rows come rank by rank.
        if last.replace(rank) != Some(rank) {
            hosts.entry(rank).or_default().operators = RecordedOperators::All;
        }
    }
    for &rank in ints(inputs.batch("sampled")?, "rank")?.values() {
        hosts.entry(rank).or_default().operators = RecordedOperators::Sample;
    }
    let lost = inputs.batch("lost")?;
    let (rank, ts_ns) = (ints(lost, "rank")?, ints(lost, "ts_ns")?);
    for row in 0..lost.num_rows() {
        hosts.entry(rank.value(row)).or_default().lost_launches.push(ts_ns.value(row));
    }
    let first_steps = inputs.batch("first_steps")?;
    let (rank, end_ns) = (ints(first_steps, "rank")?, ints(first_steps, "end_ns")?);
    for row in 0..first_steps.num_rows() {
        hosts.entry(rank.value(row)).or_default().first_step_end_ns = get(&end_ns, row);
    }
    let calls = inputs.batch("calls")?;
    let (rank, ts_ns) = (ints(calls, "rank")?, ints(calls, "ts_ns")?);
    let (name, caused) = (names(calls, "name")?, ints(calls, "device_events")?);
    let graphs: Vec<bool> = name.texts.iter().map(|n| is_graph_launch(n)).collect();
    for row in 0..calls.num_rows() {
        let host = hosts.entry(rank.value(row)).or_default();
        host.has_calls = true;
        if graphs.get(name.ids[row] as usize) == Some(&true) {
            host.has_graphs = true;
            if caused.value(row) == 0 {
                host.silent_replays.push(ts_ns.value(row));
            }
        }
    }
    Ok(hosts)
}

/// The work of each device, and its gaps within the device's window.
fn devices(inputs: &ViewInputs<'_>) -> Result<Vec<DeviceWork>> {
    let windows = inputs.batch("windows")?;
    let (rank, device) = (ints(windows, "rank")?, ints(windows, "device")?);
    let (start, end_ns) = (ints(windows, "start_ns")?, ints(windows, "end_ns")?);
    let mut places: HashMap<(i64, i64), usize> = HashMap::new();
    let mut devices = Vec::with_capacity(windows.num_rows());
    for row in 0..windows.num_rows() {
        let (rank, device) = (rank.value(row), device.value(row));
        places.insert((rank, device), devices.len());
        let window_ns = end_ns.value(row) - start.value(row);
        devices.push(DeviceWork {
            rank,
            ordinal: device,
            window_ns,
            work: Vec::new(),
            gaps: Vec::new(),
            traced_replays: HashSet::new(),
        });
    }
    let traced = inputs.batch("traced")?;
    let (rank, device) = (ints(traced, "rank")?, ints(traced, "device")?);
    let launch = ints(traced, "launch")?;
    for row in 0..traced.num_rows() {
        if let Some(&place) = places.get(&(rank.value(row), device.value(row))) {
            devices[place].traced_replays.insert(launch.value(row));
        }
    }
    let batch = inputs.batch("work")?;
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let (stream, kind) = (ints(batch, "stream")?, names(batch, "kind")?);
    let (ts_ns, ends) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let (launch, launch_name) = (ints(batch, "launch")?, names(batch, "launch_name")?);
    let (launch_ts, launch_end) = (ints(batch, "launch_ts_ns")?, ints(batch, "launch_end_ns")?);
    let thread = ints(batch, "launch_thread")?;
    for row in 0..batch.num_rows() {
        let Some(&place) = places.get(&(rank.value(row), device.value(row))) else { continue };
        let launch = get(&launch, row).map(|id| LaunchCall {
            id,
            ts_ns: launch_ts.value(row),
            end_ns: launch_end.value(row),
            thread: get(&thread, row).unwrap_or(-1),
            is_graph: launch_name.get(row).is_some_and(is_graph_launch),
        });
        devices[place].work.push(DeviceActivity {
            ts_ns: ts_ns.value(row),
            end_ns: ends.value(row),
            row,
            stream: stream.value(row),
            is_collective: kind.get(row) == Some("communication"),
            launch,
        });
    }
    for (row, device) in devices.iter_mut().enumerate() {
        device.gaps = gaps(&device.work, start.value(row), end_ns.value(row));
    }
    Ok(devices)
}

/// The gaps in `work`, which is in chronological order, between `start` and `end`.
fn gaps(work: &[DeviceActivity], start: i64, end_ns: i64) -> Vec<IdleGap> {
    let mut gaps = Vec::new();
    let mut busy_until = start;
    let mut previous = None;
    for (i, next) in work.iter().enumerate() {
        if busy_until >= end_ns {
            return gaps;
        }
        if next.ts_ns.min(end_ns) > busy_until {
            gaps.push(IdleGap {
                ts_ns: busy_until,
                end_ns: next.ts_ns.min(end_ns),
                next: Some(i),
                previous,
            });
        }
        if next.end_ns >= busy_until {
            busy_until = next.end_ns;
            previous = Some(i);
        }
    }
    if busy_until < end_ns && !work.is_empty() {
        gaps.push(IdleGap { ts_ns: busy_until, end_ns, next: None, previous });
    }
    gaps
}
