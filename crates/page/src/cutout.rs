//! A cut-out of the trace, for a trace viewer: events of one rank around a moment in the format of Chrome.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

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

/// The trace as base64 of compressed JSON.
pub(crate) fn trace(moment: &Moment, events: &[Event], threads: &ThreadNames) -> String {
    let mut chosen = choose(events);
    chosen.sort_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.dur_ns), e.id));
    let mut list: Vec<Json> = Vec::new();
    let mut named: BTreeSet<(i64, i64)> = BTreeSet::new();
    for event in &chosen {
        let lane = lane(event);
        if named.insert(lane) {
            name_lane(event, lane, moment, threads, &mut list);
        }
    }
    let calls: BTreeMap<i64, &Event> =
        chosen.iter().filter(|e| e.kind == Kind::Call).map(|e| (e.id, *e)).collect();
    for event in &chosen {
        let (pid, tid) = lane(event);
        list.push(json!({
            "ph": "X", "name": short(&event.name), "cat": category(event.kind), "pid": pid, "tid": tid,
            "ts": us(event.ts_ns), "dur": us(event.dur_ns),
        }));
        let Some(call) = event.launch.and_then(|launch| calls.get(&launch)) else { continue };
        let (from_pid, from_tid) = lane(call);
        list.push(json!({"ph": "s", "id": event.id, "name": "launch", "cat": "launch", "pid": from_pid, "tid": from_tid, "ts": us(call.ts_ns)}));
        list.push(json!({"ph": "f", "bp": "e", "id": event.id, "name": "launch", "cat": "launch", "pid": pid, "tid": tid, "ts": us(event.ts_ns)}));
    }
    if let Some((from, to)) = moment.mark {
        list.push(json!({"ph": "M", "name": "thread_name", "pid": HOST, "tid": MARK, "args": {"name": "Trace Advisor"}}));
        list.push(json!({"ph": "X", "name": "finding", "cat": "trace_advisor", "pid": HOST, "tid": MARK, "ts": us(from), "dur": us(to - from)}));
    }
    let text = json!({ "displayTimeUnit": "ns", "traceEvents": list }).to_string();
    base64(&gzip(text.as_bytes()))
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

fn name_lane(
    event: &Event,
    lane: (i64, i64),
    moment: &Moment,
    threads: &ThreadNames,
    list: &mut Vec<Json>,
) {
    let (pid, tid) = lane;
    let (process, thread) = if pid == HOST {
        (format!("Host, rank {}", moment.rank), threads.name(moment.rank, event.thread))
    } else {
        (format!("GPU {}, rank {}", event.device, moment.rank), format!("stream {}", event.thread))
    };
    list.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}));
    list.push(
        json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}),
    );
}
