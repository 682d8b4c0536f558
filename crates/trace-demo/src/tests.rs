//! The traces are deterministic, well-formed, physically possible, and slow for the stated reason.

use std::collections::BTreeMap;

use serde_json::Value;

use super::sim::DEVICE_BYTES;
use super::{Bottleneck, Options, Run, render_rank, write_run};

fn options(bottleneck: Bottleneck) -> Options {
    Options { bottleneck, ..Options::default() }
}

/// One complete event, in nanoseconds.
#[derive(Debug, Clone)]
struct Span {
    name: String,
    category: String,
    lane: (String, String),
    ts: i64,
    end: i64,
    args: Value,
}

struct Trace {
    spans: Vec<Span>,
    events: Vec<Value>,
    root: Value,
}

fn ns(text: &str) -> i64 {
    let (us, fraction) = text.split_once('.').expect("decimal microseconds");
    assert_eq!(fraction.len(), 3, "{text}");
    us.parse::<i64>().unwrap() * 1000 + fraction.parse::<i64>().unwrap()
}

fn trace(options: &Options, rank: u32) -> Trace {
    let bytes = render_rank(options, rank, Vec::new()).unwrap();
    // `serde_json` keeps floats as f64, so exact times are taken from the text.
    let text = String::from_utf8(bytes).unwrap();
    let exact: Vec<(i64, Option<i64>)> = text
        .split("\"ts\": ")
        .skip(1)
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
            let dur = rest[end..].strip_prefix(", \"dur\": ").map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
                ns(&rest[..end])
            });
            (ns(&rest[..end]), dur)
        })
        .collect();
    let root: Value = serde_json::from_str(&text).unwrap();
    let events = root["traceEvents"].as_array().unwrap().clone();
    assert_eq!(events.len(), exact.len());
    let spans = events
        .iter()
        .zip(exact)
        .filter(|(e, _)| e["ph"] == "X" && e["cat"] != "Trace")
        .map(|(e, (ts, dur))| Span {
            name: e["name"].as_str().unwrap().to_owned(),
            category: e["cat"].as_str().unwrap().to_owned(),
            lane: (e["pid"].to_string(), e["tid"].to_string()),
            ts,
            end: ts + dur.unwrap(),
            args: e["args"].clone(),
        })
        .collect();
    Trace { spans, events, root }
}

impl Trace {
    fn of<'a>(&'a self, category: &'a str) -> impl Iterator<Item = &'a Span> {
        self.spans.iter().filter(move |s| s.category == category)
    }

    fn steps(&self) -> Vec<&Span> {
        self.of("user_annotation").filter(|s| s.name.starts_with("ProfilerStep#")).collect()
    }

    /// The steady state: from the start of the second step to the start of the last one.
    fn window(&self) -> (i64, i64) {
        let steps = self.steps();
        (steps[1].ts, steps[steps.len() - 1].ts)
    }

    fn busy(&self) -> Vec<(i64, i64)> {
        union(self.spans.iter().filter(|s| matches!(&*s.category, "kernel" | "gpu_memcpy")))
    }

    /// Share of the window covered by these intervals.
    fn share(&self, intervals: &[(i64, i64)]) -> f64 {
        let (from, to) = self.window();
        let covered: i64 = intervals.iter().map(|&(a, b)| (b.min(to) - a.max(from)).max(0)).sum();
        covered as f64 / (to - from) as f64
    }

    fn share_of(&self, category: &str, name: &str) -> f64 {
        self.share(&union(self.of(category).filter(|s| s.name.starts_with(name))))
    }

    /// Forward and backward pass on the host: from the first to the last operator of each.
    fn forward_backward(&self) -> (f64, f64) {
        let main = self.steps()[0].lane.clone();
        let autograd = |s: &&Span| s.category == "cpu_op" && s.lane != main;
        let mut forward = vec![];
        let mut backward = vec![];
        for step in self.steps() {
            let within = |s: &&Span| s.ts >= step.ts && s.end <= step.end;
            let first =
                self.of("cpu_op").filter(within).find(|s| s.name == "aten::embedding").unwrap();
            let inside: Vec<_> = self.spans.iter().filter(within).filter(autograd).collect();
            let start = inside.iter().map(|s| s.ts).min().unwrap();
            forward.push((first.ts, start));
            backward.push((start, inside.iter().map(|s| s.end).max().unwrap()));
        }
        (self.share(&forward), self.share(&backward))
    }

    fn peak_ratio(&self) -> f64 {
        let peak = self
            .events
            .iter()
            .filter(|e| e["name"] == "[memory]")
            .map(|e| e["args"]["Total Allocated"].as_i64().unwrap())
            .max();
        peak.unwrap() as f64 / DEVICE_BYTES as f64
    }
}

fn union<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = spans.map(|s| (s.ts, s.end)).collect();
    all.sort_unstable();
    let mut merged: Vec<(i64, i64)> = vec![];
    for (ts, end) in all {
        match merged.last_mut() {
            Some(last) if ts <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((ts, end)),
        }
    }
    merged
}

fn between(value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{value:.4} is not within {low}..{high}");
}

const ALL: [Bottleneck; 7] = [
    Bottleneck::DataLoading,
    Bottleneck::SmallKernels,
    Bottleneck::Straggler,
    Bottleneck::Sync,
    Bottleneck::Memory,
    Bottleneck::MemoryLeak,
    Bottleneck::None,
];

#[test]
fn render_is_deterministic_for_a_seed() {
    for bottleneck in ALL {
        let one = render_rank(&options(bottleneck), 1, Vec::new()).unwrap();
        assert_eq!(one, render_rank(&options(bottleneck), 1, Vec::new()).unwrap());
        let other = Options { seed: 7, ..options(bottleneck) };
        assert_ne!(one, render_rank(&other, 1, Vec::new()).unwrap());
    }
}

#[test]
fn write_run_is_independent_of_threads() {
    let first = tempfile::tempdir().unwrap();
    let second = tempfile::tempdir().unwrap();
    let options = Options { ranks: 3, steps: 2, layers: 1, ..Options::default() };
    let a = write_run(&options, first.path()).unwrap();
    let b = write_run(&options, second.path()).unwrap();
    assert_eq!(a.bytes, b.bytes);
    assert_eq!(a.files.len(), 3);
    for (a, b) in a.files.iter().zip(&b.files) {
        assert_eq!(a.file_name(), b.file_name());
        assert_eq!(std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    }
}

#[test]
fn host_events_nest_and_device_work_follows_its_launch() {
    for bottleneck in ALL {
        let options = Options { stacks: true, ..options(bottleneck) };
        let trace = trace(&options, 0);
        let mut lanes: BTreeMap<_, Vec<&Span>> = BTreeMap::new();
        for span in &trace.spans {
            let device = matches!(&*span.category, "kernel" | "gpu_memcpy");
            if !device && span.category != "gpu_user_annotation" {
                lanes.entry(&span.lane).or_default().push(span);
            }
        }
        assert_eq!(lanes.len(), 2, "training loop and autograd");
        for spans in lanes.values_mut() {
            spans.sort_by_key(|s| (s.ts, -s.end));
            let mut open: Vec<&Span> = vec![];
            for span in spans {
                while open.last().is_some_and(|o| o.end <= span.ts) {
                    open.pop();
                }
                if let Some(parent) = open.last() {
                    assert!(span.end <= parent.end, "{span:?} in {parent:?}");
                }
                open.push(span);
            }
        }

        let calls: BTreeMap<i64, &Span> = trace
            .of("cuda_runtime")
            .map(|s| (s.args["correlation"].as_i64().unwrap(), s))
            .collect();
        let mut streams: BTreeMap<_, Vec<&Span>> = BTreeMap::new();
        for span in trace.of("kernel").chain(trace.of("gpu_memcpy")) {
            let call = calls[&span.args["correlation"].as_i64().unwrap()];
            assert!(span.ts >= call.end, "{span:?} before {call:?}");
            assert_eq!(span.args["External id"], call.args["External id"]);
            streams.entry(&span.lane).or_default().push(span);
        }
        assert_eq!(streams.len(), 2, "compute and communication");
        for spans in streams.values_mut() {
            spans.sort_by_key(|s| s.ts);
            for pair in spans.windows(2) {
                assert!(pair[0].end <= pair[1].ts, "{pair:?}");
            }
        }
    }
}

#[test]
fn flows_have_two_ends() {
    let trace = trace(&options(Bottleneck::None), 0);
    let mut ends: BTreeMap<(String, i64), Vec<String>> = BTreeMap::new();
    for event in trace.events.iter().filter(|e| matches!(e["ph"].as_str(), Some("s" | "f"))) {
        let key = (event["cat"].to_string(), event["id"].as_i64().unwrap());
        ends.entry(key).or_default().push(event["ph"].to_string());
    }
    assert!(ends.len() > 100);
    for (key, mut phases) in ends {
        phases.sort();
        assert_eq!(phases, ["\"f\"", "\"s\""], "{key:?}");
    }
}

#[test]
fn collectives_end_at_the_same_time_on_all_ranks() {
    let options = Options { ranks: 3, ..options(Bottleneck::Straggler) };
    let run = Run::new(&options).unwrap();
    let ends = |rank| {
        let bytes = run.render(rank, Vec::new()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        let events = root["traceEvents"].as_array().unwrap().clone();
        let mut ends: Vec<i64> = events
            .iter()
            .filter(|e| e["cat"] == "kernel" && e["args"]["Collective name"] == "allreduce")
            .map(|e| {
                ((e["ts"].as_f64().unwrap() + e["dur"].as_f64().unwrap()) * 10.0).round() as i64
            })
            .collect();
        ends.sort_unstable();
        ends
    };
    let first = ends(0);
    assert_eq!(first.len(), 6 * (4 + 2), "a bucket for each block, one for each end, each step");
    for rank in 1..3 {
        for (a, b) in first.iter().zip(ends(rank)) {
            assert!((a - b).abs() <= 1, "{a} {b}");
        }
    }
}

#[test]
fn metadata_matches_kineto() {
    let options = options(Bottleneck::None);
    let trace = trace(&options, 1);
    assert_eq!(trace.root["schemaVersion"], 1);
    assert_eq!(trace.root["distributedInfo"]["rank"], 1);
    assert_eq!(trace.root["distributedInfo"]["world_size"], 2);
    assert_eq!(trace.root["deviceProperties"][1]["numSms"], 132);
    assert_eq!(trace.steps().len(), 6);
    assert!(trace.of("kernel").all(|s| s.args["device"] == 1));
    assert_eq!(trace.of("python_function").count(), 0);
}

#[test]
fn healthy_run_has_the_documented_shares() {
    let trace = trace(&options(Bottleneck::None), 0);
    between(trace.share(&trace.busy()), 0.93, 1.0);
    let (forward, backward) = trace.forward_backward();
    between(forward, 0.35, 0.40);
    between(backward, 0.40, 0.45);
    between(trace.share_of("user_annotation", "Optimizer.step#"), 0.04, 0.10);
    between(trace.share_of("user_annotation", "enumerate(DataLoader)#"), 0.02, 0.04);
    between(trace.peak_ratio(), 0.878, 0.881);
}

#[test]
fn data_loading_leaves_the_device_idle() {
    let trace = trace(&options(Bottleneck::DataLoading), 0);
    let loader: Vec<_> = union(
        trace.of("user_annotation").filter(|s| s.name.contains("_SingleProcessDataLoaderIter")),
    );
    between(trace.share(&loader), 0.33, 0.39);
    let busy = trace.share(&trace.busy());
    between(busy, 0.60, 0.70);
    // Nearly all idle time is within loading.
    let both: Vec<_> = union(trace.spans.iter().filter(|s| {
        matches!(&*s.category, "kernel" | "gpu_memcpy") || s.name.contains("DataLoader")
    }));
    between(trace.share(&both), 0.96, 1.0);
}

#[test]
fn small_kernels_leave_the_device_idle() {
    let trace = trace(&options(Bottleneck::SmallKernels), 0);
    between(trace.share(&trace.busy()), 0.10, 0.35);
    let compute: Vec<i64> =
        trace.of("kernel").filter(|s| !s.name.contains("nccl")).map(|s| s.end - s.ts).collect();
    between(compute.iter().sum::<i64>() as f64 / compute.len() as f64, 2_000.0, 10_000.0);
    between(trace.share_of("user_annotation", "enumerate(DataLoader)#"), 0.02, 0.04);
}

#[test]
fn straggler_makes_other_ranks_wait() {
    let options = Options { ranks: 4, ..options(Bottleneck::Straggler) };
    let nccl: Vec<f64> =
        (0..4).map(|r| trace(&options, r).share_of("kernel", "ncclDevKernel_AllReduce")).collect();
    for waiting in &nccl[..3] {
        assert!(waiting - nccl[3] > 0.10, "{nccl:?}");
    }
    let forward = |r| trace(&options, r).forward_backward().0;
    between(forward(3) / forward(0), 1.5, 1.7);
}

#[test]
fn sync_leaves_the_device_idle_after_each_read() {
    let trace = trace(&options(Bottleneck::Sync), 0);
    between(1.0 - trace.share(&trace.busy()), 0.12, 0.30);
    let items = trace.of("cpu_op").filter(|s| s.name == "aten::item").count();
    assert_eq!(items, 6 * ((2 + 4 * 10 + 3) / 2));
    assert_eq!(
        trace.of("cuda_runtime").filter(|s| s.name == "cudaStreamSynchronize").count(),
        items
    );
}

#[test]
fn memory_bottleneck_fills_the_device() {
    let trace = trace(&options(Bottleneck::Memory), 0);
    between(trace.peak_ratio(), 0.984, 0.9865);
    between(trace.share(&trace.busy()), 0.93, 1.0);
}

#[test]
fn single_rank_has_no_collectives() {
    let one = Options { ranks: 1, ..options(Bottleneck::None) };
    let trace = trace(&one, 0);
    assert!(trace.root["distributedInfo"].is_null());
    assert!(
        trace.spans.iter().all(|s| !s.name.contains("nccl") && !s.name.contains("Distributed"))
    );
    assert!(
        render_rank(&Options { bottleneck: Bottleneck::Straggler, ..one }, 0, Vec::new()).is_err()
    );
}
