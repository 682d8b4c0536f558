//! A cut-out of the trace, for a trace viewer: events of one rank around a moment in the format of Chrome.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::clean::short;
use crate::encode::{base64, gzip};
use crate::moments::Moment;
use crate::timeline::{Event, Kind, ThreadNames};

/// Most events of a cut-out, longest first.
const MAX_EVENTS: usize = 1500;

/// Process number of the host; devices follow.
const HOST: i64 = 1;

/// The trace as base64 of compressed JSON.
pub(crate) fn trace(moment: &Moment, events: &[Event], threads: &ThreadNames) -> String {
    let mut chosen: Vec<&Event> = events.iter().collect();
    chosen.sort_by_key(|e| (std::cmp::Reverse(e.dur_ns), e.ts_ns, e.event_id));
    chosen.truncate(MAX_EVENTS);
    chosen.sort_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.dur_ns), e.event_id));
    let mut list: Vec<Json> = Vec::new();
    let mut named: BTreeMap<(i64, i64), ()> = BTreeMap::new();
    for event in &chosen {
        let lane = lane(event);
        if named.insert(lane, ()).is_none() {
            name_lane(event, lane, moment, threads, &mut list);
        }
    }
    let calls: BTreeMap<i64, &Event> =
        chosen.iter().filter(|e| e.kind == Kind::Call).map(|e| (e.event_id, *e)).collect();
    for event in &chosen {
        let (pid, tid) = lane(event);
        list.push(json!({
            "ph": "X", "name": short(&event.name), "cat": category(event.kind), "pid": pid, "tid": tid,
            "ts": us(event.ts_ns), "dur": us(event.dur_ns),
        }));
        let Some(call) = event.launch.and_then(|launch| calls.get(&launch)) else { continue };
        let (from_pid, from_tid) = lane(call);
        list.push(json!({"ph": "s", "id": event.event_id, "name": "launch", "cat": "launch", "pid": from_pid, "tid": from_tid, "ts": us(call.ts_ns)}));
        list.push(json!({"ph": "f", "bp": "e", "id": event.event_id, "name": "launch", "cat": "launch", "pid": pid, "tid": tid, "ts": us(event.ts_ns)}));
    }
    if let Some((from, to)) = moment.mark {
        list.push(json!({"ph": "M", "name": "thread_name", "pid": HOST, "tid": -1, "args": {"name": "Trace Advisor"}}));
        list.push(json!({"ph": "X", "name": "finding", "cat": "trace_advisor", "pid": HOST, "tid": -1, "ts": us(from), "dur": us(to - from)}));
    }
    let text = json!({ "displayTimeUnit": "ns", "traceEvents": list }).to_string();
    base64(&gzip(text.as_bytes()))
}

/// Microseconds, the unit of the format.
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

/// Process and thread of an event.
fn lane(event: &Event) -> (i64, i64) {
    match event.kind {
        Kind::Operator | Kind::Annotation | Kind::Python | Kind::Call => (HOST, event.thread),
        Kind::Computation | Kind::Communication | Kind::Copy => {
            (HOST + 1 + event.device.max(0), event.thread)
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
        (format!("Host, rank {}", moment.rank), threads.name(moment.rank, tid))
    } else {
        (format!("GPU {}, rank {}", event.device, moment.rank), format!("stream {tid}"))
    };
    list.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}));
    list.push(
        json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}),
    );
}
