//! From tables to the work and the gaps of each device, and to what host threads did in these gaps.

use std::collections::{BTreeMap, HashMap};

use arrow::array::Array;
use query::rust_view::Result;

use super::cause::Cause;
use super::thread::{Event, Kind, NONE, Thread};
use query::columns::{Names, get, ints, names};
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[
    ("windows", "SELECT rank, device, start_ns, end_ns FROM device_windows ORDER BY rank, device"),
    (
        "work",
        "SELECT rank, device, stream, category, kind, name, ts_ns, end_ns, event_id, launch, launch_name,
            launch_ts_ns, launch_end_ns, launch_thread, step
        FROM device_work ORDER BY rank, device, ts_ns, event_id",
    ),
    ("loops", "SELECT rank, max(thread) AS thread FROM steps WHERE thread IS NOT NULL GROUP BY rank"),
    ("waits", "SELECT rank, thread, cause, name, ts_ns, end_ns FROM host_waits"),
    // A matter of the name alone, whoever called it.
    ("allocations", "SELECT name FROM memory_driver_calls"),
    (
        "calls",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns, device_events FROM runtime_calls",
    ),
    ("ops", "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops"),
    (
        "ranges",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM annotations
        WHERE NOT on_device AND name NOT LIKE 'ProfilerStep#%'",
    ),
    (
        "frames",
        "SELECT rank, thread, name, source, ts_ns, ts_ns + dur_ns AS end_ns FROM python_frames",
    ),
];

/// A kernel, copy or fill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) ts: i64,
    pub(super) end: i64,
    /// Row of the batch that was read.
    pub(super) row: usize,
    pub(super) stream: i64,
    pub(super) is_collective: bool,
    pub(super) launch: Option<Launch>,
}

/// The call that launched it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    pub(super) id: i64,
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) thread: i64,
    pub(super) is_graph: bool,
}

/// Time in which a device runs nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) ts: i64,
    pub(super) end: i64,
    /// Positions among the device's work.
    pub(super) next: Option<usize>,
    pub(super) previous: Option<usize>,
}

/// One device of one rank.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) rank: i64,
    pub(super) ordinal: i64,
    pub(super) work: Vec<Work>,
    pub(super) gaps: Vec<Gap>,
}

/// Each text once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: Vec<String>,
    known: HashMap<String, u32>,
}

impl Texts {
    /// Numbers of the texts of a column, by the column's own.
    fn add(&mut self, column: &Names) -> Vec<u32> {
        column
            .texts
            .iter()
            .map(|text| {
                *self.known.entry(text.clone()).or_insert_with(|| {
                    self.texts.push(text.clone());
                    (self.texts.len() - 1) as u32
                })
            })
            .collect()
    }

    pub(super) fn get(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str)
    }
}

/// What one rank says besides its devices.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The thread that runs the training loop.
    pub(super) loop_thread: Option<i64>,
    /// Whether any call into the runtime was recorded.
    pub(super) has_calls: bool,
    /// Whether any operator was: without, Python and dispatch cannot be told apart.
    pub(super) has_ops: bool,
    /// Whether a captured graph is replayed.
    pub(super) has_graphs: bool,
    /// Starts of replays of which no activity was recorded, ascending.
    pub(super) silent_replays: Vec<i64>,
}

/// Everything that the attribution reads.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) devices: Vec<Device>,
    pub(super) hosts: BTreeMap<i64, Host>,
    pub(super) threads: HashMap<(i64, i64), Thread>,
    pub(super) texts: Texts,
}

impl Loaded {
    pub(super) fn new(inputs: &ViewInputs<'_>) -> Result<Self> {
        let devices = devices(inputs)?;
        let mut hosts = hosts(inputs)?;
        let asked = asked(&devices, &hosts);
        let mut texts = Texts::default();
        let mut events: HashMap<(i64, i64), Vec<Event>> = HashMap::new();
        for (table, kind) in [
            ("ops", Of::One(Kind::Cause(Cause::OpDispatch))),
            ("ranges", Of::One(Kind::Range)),
            ("frames", Of::One(Kind::Frame)),
            ("calls", Of::Call),
            ("waits", Of::Wait),
        ] {
            gather(inputs, table, kind, &asked, &mut texts, &mut events)?;
        }
        for host in hosts.values_mut() {
            host.silent_replays.sort_unstable();
        }
        let threads = events.into_iter().map(|(lane, events)| (lane, Thread::new(events)));
        Ok(Self { devices, hosts, threads: threads.collect(), texts })
    }
}

/// What the rows of a table are.
#[derive(Debug, Clone, Copy)]
enum Of {
    One(Kind),
    /// By name.
    Call,
    /// By cause.
    Wait,
}

/// Where events that come mostly in order of time are among the stretches of their thread.
struct Cursor<'a> {
    lane: Option<(i64, i64)>,
    spans: &'a [(i64, i64)],
    /// The first stretch that ends after the event starts: a wait that ends where a gap begins belongs to it.
    first: usize,
}

impl<'a> Cursor<'a> {
    fn go_to(
        &mut self,
        lane: (i64, i64),
        ts: i64,
        asked: &'a HashMap<(i64, i64), Vec<(i64, i64)>>,
    ) {
        let is_behind = self.first > 0 && self.spans[self.first - 1].1 > ts;
        if self.lane != Some(lane) || is_behind {
            self.lane = Some(lane);
            self.spans = asked.get(&lane).map_or(&[], Vec::as_slice);
            self.first = self.spans.partition_point(|span| span.1 <= ts);
        }
        while self.spans.get(self.first).is_some_and(|span| span.1 <= ts) {
            self.first += 1;
        }
    }
}

/// Adds the events of a table that lie in a gap on a thread that is asked about it.
fn gather(
    inputs: &ViewInputs<'_>,
    table: &str,
    of: Of,
    asked: &HashMap<(i64, i64), Vec<(i64, i64)>>,
    texts: &mut Texts,
    events: &mut HashMap<(i64, i64), Vec<Event>>,
) -> Result<()> {
    let batch = inputs.batch(table)?;
    let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
    let (ts, end) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let name = names(batch, "name")?;
    let ids = texts.add(&name);
    let source = if matches!(of, Of::Wait) { None } else { Some(names(batch, "source")?) };
    let sources = source.as_ref().map(|source| texts.add(source)).unwrap_or_default();
    let causes: Vec<Kind> = match of {
        Of::One(kind) => vec![kind; name.texts.len()],
        Of::Call => {
            let allocations = names(inputs.batch("allocations")?, "name")?.texts;
            let of_call = |name: &String| {
                let allocates = allocations.contains(name);
                if allocates { Cause::Allocation } else { Cause::of_call(name) }
            };
            name.texts.iter().map(|name| Kind::Cause(of_call(name))).collect()
        }
        Of::Wait => Vec::new(),
    };
    let cause = if matches!(of, Of::Wait) { Some(names(batch, "cause")?) } else { None };
    let mut at = Cursor { lane: None, spans: &[], first: 0 };
    for row in 0..batch.num_rows() {
        if thread.is_null(row) {
            continue;
        }
        let lane = (rank.value(row), thread.value(row));
        let (ts, end) = (ts.value(row), end.value(row));
        at.go_to(lane, ts, asked);
        if at.spans.get(at.first).is_none_or(|span| span.0 > end) {
            continue;
        }
        let id = name.ids[row] as usize;
        let kind = match &cause {
            Some(cause) if cause.get(row) == Some("sync") => Kind::Cause(Cause::Synchronisation),
            Some(_) => Kind::Cause(Cause::DataLoading),
            None => causes.get(id).copied().unwrap_or(Kind::Range),
        };
        let source = source.as_ref().and_then(|s| sources.get(s.ids[row] as usize).copied());
        events.entry(lane).or_default().push(Event {
            ts,
            end,
            kind,
            name: ids.get(id).copied().unwrap_or(NONE),
            source: source.unwrap_or(NONE),
        });
    }
    Ok(())
}

/// The stretches of each thread that some gap asks about: sorted, joined where they touch.
fn asked(devices: &[Device], hosts: &BTreeMap<i64, Host>) -> HashMap<(i64, i64), Vec<(i64, i64)>> {
    let mut spans: HashMap<(i64, i64), Vec<(i64, i64)>> = HashMap::new();
    for device in devices {
        let main = hosts.get(&device.rank).and_then(|host| host.loop_thread);
        for gap in &device.gaps {
            let launcher = |work: Option<usize>| Some(device.work[work?].launch?.thread);
            let mut threads = [launcher(gap.next), launcher(gap.previous), main];
            threads.sort_unstable();
            for (i, thread) in threads.iter().enumerate() {
                if let Some(thread) = thread.filter(|_| i == 0 || threads[i - 1] != threads[i]) {
                    spans.entry((device.rank, thread)).or_default().push((gap.ts, gap.end));
                }
            }
        }
    }
    #[allow(clippy::iter_over_hash_type, reason = "each is put in order by itself")]
    for spans in spans.values_mut() {
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
    }
    spans
}

fn hosts(inputs: &ViewInputs<'_>) -> Result<BTreeMap<i64, Host>> {
    let mut hosts: BTreeMap<i64, Host> = BTreeMap::new();
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
            hosts.entry(rank).or_default().has_ops = true;
        }
    }
    let calls = inputs.batch("calls")?;
    let (rank, ts) = (ints(calls, "rank")?, ints(calls, "ts_ns")?);
    let (name, caused) = (names(calls, "name")?, ints(calls, "device_events")?);
    let graphs: Vec<bool> = name.texts.iter().map(|n| super::cause::is_graph_launch(n)).collect();
    for row in 0..calls.num_rows() {
        let host = hosts.entry(rank.value(row)).or_default();
        host.has_calls = true;
        if graphs.get(name.ids[row] as usize) == Some(&true) {
            host.has_graphs = true;
            if caused.value(row) == 0 {
                host.silent_replays.push(ts.value(row));
            }
        }
    }
    Ok(hosts)
}

/// The work of each device, and the gaps in it that lie in its window.
fn devices(inputs: &ViewInputs<'_>) -> Result<Vec<Device>> {
    let windows = inputs.batch("windows")?;
    let (rank, device) = (ints(windows, "rank")?, ints(windows, "device")?);
    let (start, end) = (ints(windows, "start_ns")?, ints(windows, "end_ns")?);
    let mut places: HashMap<(i64, i64), usize> = HashMap::new();
    let mut devices = Vec::with_capacity(windows.num_rows());
    for row in 0..windows.num_rows() {
        let (rank, device) = (rank.value(row), device.value(row));
        places.insert((rank, device), devices.len());
        devices.push(Device { rank, ordinal: device, work: Vec::new(), gaps: Vec::new() });
    }
    let batch = inputs.batch("work")?;
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let (stream, kind) = (ints(batch, "stream")?, names(batch, "kind")?);
    let (ts, ends) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let (launch, launch_name) = (ints(batch, "launch")?, names(batch, "launch_name")?);
    let (launch_ts, launch_end) = (ints(batch, "launch_ts_ns")?, ints(batch, "launch_end_ns")?);
    let thread = ints(batch, "launch_thread")?;
    for row in 0..batch.num_rows() {
        let Some(&place) = places.get(&(rank.value(row), device.value(row))) else { continue };
        let launch = get(&launch, row).map(|id| Launch {
            id,
            ts: launch_ts.value(row),
            end: launch_end.value(row),
            thread: get(&thread, row).unwrap_or(-1),
            is_graph: launch_name.get(row).is_some_and(super::cause::is_graph_launch),
        });
        devices[place].work.push(Work {
            ts: ts.value(row),
            end: ends.value(row),
            row,
            stream: stream.value(row),
            is_collective: kind.get(row) == Some("communication"),
            launch,
        });
    }
    for (row, device) in devices.iter_mut().enumerate() {
        device.gaps = gaps(&device.work, start.value(row), end.value(row));
    }
    Ok(devices)
}

/// Where nothing of `work`, which is in order of time, runs between `start` and `end`.
fn gaps(work: &[Work], start: i64, end: i64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut busy_until = start;
    let mut previous = None;
    for (i, next) in work.iter().enumerate() {
        if busy_until >= end {
            return gaps;
        }
        if next.ts.min(end) > busy_until {
            gaps.push(Gap { ts: busy_until, end: next.ts.min(end), next: Some(i), previous });
        }
        if next.end >= busy_until {
            busy_until = next.end;
            previous = Some(i);
        }
    }
    if busy_until < end && !work.is_empty() {
        gaps.push(Gap { ts: busy_until, end, next: None, previous });
    }
    gaps
}
