//! A cut-out of the trace, for a trace viewer: events of one rank around a moment in the format of Chrome.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::clean::short;
use crate::encode::{base64, gzip};
use crate::events::{Event, Kind, ThreadNames};
use crate::moments::Moment;

/// Most events of a cut-out, longest first.
const MAX_EVENTS: usize = 1500;

/// Process number of the host; devices follow.
const HOST: i64 = 1;
/// Number of the first host thread: below it, viewers see the main thread of a process.
const FIRST_THREAD: i64 = 100;
/// Number of the thread that marks the finding.
const MARK: i64 = 99;

/// A trace in the format of Chrome.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChromeTrace {
    display_time_unit: &'static str,
    trace_events: Vec<ChromeEvent>,
}

/// An event of it; times in microseconds.
#[derive(Default, Serialize)]
struct ChromeEvent {
    /// `X`, an event with a duration; `M`, a name; `s` and `f`, the start and the end of an arrow.
    ph: &'static str,
    name: Cow<'static, str>,
    pid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// Number of an arrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    /// `e`: an arrow ends at the event that covers its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<NameArgs>,
}

/// The name of a process or thread.
#[derive(Serialize)]
struct NameArgs {
    name: String,
}

impl ChromeEvent {
    fn complete(
        (pid, tid): (i64, i64),
        cat: &'static str,
        name: impl Into<Cow<'static, str>>,
        (from_ns, dur_ns): (i64, i64),
    ) -> Self {
        let (ts, dur) = (Some(us(from_ns)), Some(us(dur_ns)));
        Self {
            ph: "X",
            name: name.into(),
            pid,
            tid: Some(tid),
            cat: Some(cat),
            ts,
            dur,
            ..Self::default()
        }
    }

    /// The start, or the end, of the arrow from a call to the event that it launched.
    fn arrow(ph: &'static str, id: i64, event: &Event) -> Self {
        let ((pid, tid), launch) = (lane(event), "launch");
        let bp = (ph == "f").then_some("e");
        let (name, cat, ts) = (launch.into(), Some(launch), Some(us(event.ts_ns)));
        Self { ph, name, pid, tid: Some(tid), cat, ts, id: Some(id), bp, ..Self::default() }
    }

    fn process_name(pid: i64, name: String) -> Self {
        let args = Some(NameArgs { name });
        Self { ph: "M", name: "process_name".into(), pid, args, ..Self::default() }
    }

    fn thread_name((pid, tid): (i64, i64), name: String) -> Self {
        let args = Some(NameArgs { name });
        Self { ph: "M", name: "thread_name".into(), pid, tid: Some(tid), args, ..Self::default() }
    }
}

/// The trace as base64 of compressed JSON.
pub(crate) fn trace(moment: &Moment, events: &[Event], threads: &ThreadNames) -> String {
    let mut chosen = choose(events);
    chosen.sort_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.dur_ns), e.id));
    let mut list: Vec<ChromeEvent> = Vec::with_capacity(2 * chosen.len());
    let mut named: BTreeSet<(i64, i64)> = BTreeSet::new();
    for event in &chosen {
        let lane = lane(event);
        if named.insert(lane) {
            list.extend(lane_names(event, lane, moment, threads));
        }
    }
    let calls: BTreeMap<i64, &Event> =
        chosen.iter().filter(|e| e.kind == Kind::Call).map(|e| (e.id, *e)).collect();
    for event in &chosen {
        let (name, time) = (short(&event.name), (event.ts_ns, event.dur_ns));
        list.push(ChromeEvent::complete(lane(event), category(event.kind), name, time));
        let Some(call) = event.launch.and_then(|launch| calls.get(&launch)) else { continue };
        list.push(ChromeEvent::arrow("s", event.id, call));
        list.push(ChromeEvent::arrow("f", event.id, event));
    }
    if let Some((from, to)) = moment.mark {
        let lane = (HOST, MARK);
        list.push(ChromeEvent::thread_name(lane, "Trace Advisor".to_owned()));
        list.push(ChromeEvent::complete(lane, "trace_advisor", "finding", (from, to - from)));
    }
    let trace = ChromeTrace { display_time_unit: "ns", trace_events: list };
    // Numbers and text can be written as JSON.
    base64(&gzip(&serde_json::to_vec(&trace).unwrap_or_default()))
}

/// The longest device events with the calls that launched them, then the longest others.
fn choose(events: &[Event]) -> Vec<&Event> {
    let longest_first = |is_wanted: &dyn Fn(&Event) -> bool| -> Vec<&Event> {
        let mut list: Vec<&Event> = events.iter().filter(|e| is_wanted(e)).collect();
        list.sort_by_key(|e| (std::cmp::Reverse(e.dur_ns), e.ts_ns, e.id));
        list
    };
    let mut device = longest_first(&|e| e.kind.is_device());
    device.truncate(MAX_EVENTS / 3);
    let launches: BTreeSet<i64> = device.iter().filter_map(|e| e.launch).collect();
    let is_launch = |e: &Event| e.kind == Kind::Call && launches.contains(&e.id);
    let mut chosen = device;
    chosen.extend(longest_first(&|e| is_launch(e)));
    let left = MAX_EVENTS.saturating_sub(chosen.len());
    let others = longest_first(&|e| !e.kind.is_device() && !is_launch(e));
    chosen.extend(others.into_iter().take(left));
    chosen
}

/// Microseconds, the unit of the format.
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

/// Process and thread of an event.
fn lane(event: &Event) -> (i64, i64) {
    match event.kind {
        Kind::Operator | Kind::Annotation | Kind::Python | Kind::Call => {
            (HOST, FIRST_THREAD + event.thread)
        }
        Kind::Computation | Kind::Communication | Kind::Copy => {
            (HOST + 1 + event.device.max(0), FIRST_THREAD + event.thread)
        }
    }
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Operator => "cpu_op",
        Kind::Annotation => "user_annotation",
        Kind::Python => "python_function",
        Kind::Call => "cuda_runtime",
        Kind::Computation | Kind::Communication => "kernel",
        Kind::Copy => "gpu_memcpy",
    }
}

/// The names of the process and the thread of an event.
fn lane_names(
    event: &Event,
    lane: (i64, i64),
    moment: &Moment,
    threads: &ThreadNames,
) -> [ChromeEvent; 2] {
    let (process, thread) = if lane.0 == HOST {
        (format!("Host, rank {}", moment.rank), threads.name(moment.rank, event.thread))
    } else {
        (format!("GPU {}, rank {}", event.device, moment.rank), format!("stream {}", event.thread))
    };
    [ChromeEvent::process_name(lane.0, process), ChromeEvent::thread_name(lane, thread)]
}
