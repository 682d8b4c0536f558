//! Properties that hold for any events: the path tiles the window, and other weights give consistent times.

use proptest::prelude::*;

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use trace_model::RecordBatch;
use trace_model::retiming::{Edit, EditTarget, FittedEffect, FixEdits};

use super::edits::{EdgeIndex, EffectLevel, RankClaims};
use super::graph::{EdgeKind, Graph};
use super::model::{
    Activity, AnalysisWindow, Blocker, BlockerKind, CountedSteps, EventTable, HostEvent, HostRole,
    NodeEdge, RankEvents, TimeClass, TrainingStep,
};
use super::path::{self, PathSegment};
use super::replay::{Weights, replay};
use super::what_if::{BUILT_IN_SCENARIOS, Scenario, StepClock, predict, replay_times};

fn host(
    id: i64,
    lane: i32,
    ts_ns: i64,
    dur_ns: i64,
    table: EventTable,
    role: HostRole,
) -> HostEvent {
    HostEvent { ts_ns, end_ns: ts_ns + dur_ns, id, row: id as u32, lane, table, role }
}

fn op(id: i64, lane: i32, ts_ns: i64, dur_ns: i64) -> HostEvent {
    host(id, lane, ts_ns, dur_ns, EventTable::CpuOps, HostRole::Plain)
}

fn call(id: i64, lane: i32, ts_ns: i64, dur_ns: i64, role: HostRole) -> HostEvent {
    host(id, lane, ts_ns, dur_ns, EventTable::RuntimeCalls, role)
}

fn kernel(id: i64, stream: i32, ts_ns: i64, dur_ns: i64, launch: Option<i64>) -> Activity {
    Activity {
        ts_ns,
        end_ns: ts_ns + dur_ns,
        id,
        row: id as u32,
        lane: 100 + stream,
        device: 0,
        stream,
        table: EventTable::Kernels,
        class: TimeClass::Kernel,
        launch,
        step: None,
        may_block: false,
    }
}

fn rank_events(host: Vec<HostEvent>, activities: Vec<Activity>) -> RankEvents {
    RankEvents { host, activities, ..RankEvents::default() }
}

fn graph(events: &RankEvents) -> Graph {
    Graph::new(events, events.full_window().unwrap())
}

/// Class and duration of each segment.
fn summary(events: &RankEvents) -> Vec<(TimeClass, i64)> {
    path::path_segments(&graph(events)).iter().map(|s| (s.class, s.dur_ns)).collect()
}

fn gain(events: &RankEvents, factors: &str) -> i64 {
    let graph = graph(events);
    graph.window.end_ns - replay_times(&graph, &Scenario::parse(factors).unwrap()).1
}

fn roles() -> impl Strategy<Value = HostRole> {
    prop::sample::select(vec![
        HostRole::Plain,
        HostRole::Plain,
        HostRole::Loader,
        HostRole::Backward,
        HostRole::Communication,
        HostRole::DeviceSync,
        HostRole::StreamSync,
        HostRole::EventSync,
        HostRole::BlockingCopy,
        HostRole::Free,
    ])
}

fn host_tables() -> impl Strategy<Value = EventTable> {
    prop::sample::select(vec![
        EventTable::CpuOps,
        EventTable::RuntimeCalls,
        EventTable::RuntimeCalls,
        EventTable::Annotations,
        EventTable::PythonFrames,
    ])
}

/// Events that no profiler would write: few distinct times, zero lengths, overlapping siblings, launches after their
/// kernels, waits without a target, overlapping steps.
fn arbitrary_events() -> impl Strategy<Value = RankEvents> {
    // In units of 5 us, so that the thresholds of inference lie in between.
    let time = || (0..40_i64).prop_map(|t| t * 5_000);
    let length = || prop_oneof![Just(0_i64), (0..12_i64).prop_map(|t| t * 5_000), 0..3_i64];
    let hosts = prop::collection::vec((0..3_i32, time(), length(), host_tables(), roles()), 0..40);
    let device_tables =
        prop::sample::select(vec![EventTable::Kernels, EventTable::Memcpys, EventTable::Memsets]);
    let classes =
        prop::sample::select(vec![TimeClass::Kernel, TimeClass::Communication, TimeClass::Copy]);
    let activity = (
        (0..2_i32, 0..3_i32),
        time(),
        length(),
        device_tables,
        classes,
        prop::option::of(0..44_i64),
        any::<bool>(),
        prop::option::of(0..3_i64),
    );
    let activities = prop::collection::vec(activity, 0..40);
    let kinds = prop::sample::select(vec![
        BlockerKind::Stream,
        BlockerKind::Context,
        BlockerKind::Event,
        BlockerKind::StreamOnEvent,
    ]);
    let waits = prop::collection::vec(
        (kinds, 0..40_i64, 0..3_i32, 0..3_i32, prop::option::of(0..40_i64)),
        0..6,
    );
    let steps = prop::collection::vec((time(), length(), prop::option::of(0..3_i32)), 0..3);
    (hosts, activities, waits, steps).prop_map(|(hosts, activities, waits, steps)| {
        let mut events = RankEvents::default();
        for ((lane, ts_ns, dur_ns, table, role), id) in hosts.into_iter().zip(0..) {
            events.host.push(host(id, lane, ts_ns, dur_ns, table, role));
        }
        for (activity, id) in activities.into_iter().zip(1_000..) {
            let ((device, stream), ts_ns, dur_ns, table, class, launch, may_block, step) = activity;
            let of = kernel(id, stream, ts_ns, dur_ns, launch);
            events.activities.push(Activity { device, table, class, step, may_block, ..of });
        }
        for (kind, call, stream, source_stream, record) in waits {
            events.waits.push(Blocker { kind, call, device: 0, stream, source_stream, record });
        }
        for ((ts_ns, dur_ns, lane), number) in steps.into_iter().zip(0..) {
            let (end_ns, counted_ns) = (ts_ns + dur_ns, (number > 0).then_some(dur_ns));
            events.steps.push(TrainingStep { number, ts_ns, end_ns, lane, counted_ns });
        }
        events.steps.sort_by_key(|s| s.ts_ns);
        events.counted = CountedSteps::of(&events.steps);
        events
    })
}

fn assert_tiles(segments: &[PathSegment], window: AnalysisWindow) {
    let mut at = window.begin_ns;
    for segment in segments {
        assert_eq!(segment.ts_ns, at, "a hole or an overlap");
        assert!(segment.dur_ns > 0);
        at += segment.dur_ns;
    }
    assert_eq!(at, window.end_ns);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn path_tiles_the_window(events in arbitrary_events()) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let segments = path::path_segments(&graph);
        assert_tiles(&segments, window);
        let parts = path::split_by_step(&segments, &events.steps);
        assert_tiles(&parts.iter().map(|&(s, _)| s).collect::<Vec<_>>(), window);
        for (part, step) in parts {
            let inside = |s: &&TrainingStep| s.ts_ns <= part.ts_ns && part.ts_ns + part.dur_ns <= s.end_ns;
            let overlaps = |s: &&TrainingStep| s.ts_ns < part.ts_ns + part.dur_ns && part.ts_ns < s.end_ns;
            match step {
                Some(step) => prop_assert!(events.steps.iter().filter(inside).any(|s| s.number == step)),
                // Overlapping steps are distinguished only by their start.
                None => prop_assert!(
                    events.steps.windows(2).any(|p| p[1].ts_ns < p[0].end_ns)
                        || !events.steps.iter().any(|s| overlaps(&s))
                ),
            }
        }
    }

    #[test]
    fn path_tiles_a_clipped_window(events in arbitrary_events(), begin_ns in 0..200_000_i64, length in 0..100_000_i64) {
        let mut events = events;
        let window = events.clip(begin_ns, begin_ns + length);
        prop_assert!(window.begin_ns == begin_ns && window.end_ns >= begin_ns + length);
        assert_tiles(&path::path_segments(&Graph::new(&events, window)), window);
    }

    #[test]
    fn graph_edges_go_forward_and_explain_node_times(events in arbitrary_events()) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        for (i, node) in graph.nodes.iter().enumerate() {
            prop_assert!((window.begin_ns..=window.end_ns).contains(&node.ts_ns));
            let arrivals = graph.edge_range(i).map(|at| &graph.edges[at]).map(|e| {
                prop_assert!((e.source as usize) < i && e.weight >= 0);
                Ok(graph.nodes[e.source as usize].ts_ns + e.weight)
            });
            let arrivals = arrivals.collect::<Result<Vec<i64>, TestCaseError>>()?;
            let last = arrivals.into_iter().max().unwrap_or(window.begin_ns);
            prop_assert_eq!(last + node.rest, node.ts_ns);
            prop_assert!(node.rest >= 0);
        }
    }

    #[test]
    fn replay_times_are_exact_without_changes(events in arbitrary_events()) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        for factors in [Scenario::UNCHANGED, Scenario::parse("host=1, kernel=1.0").unwrap()] {
            let (times, end_ns) = replay_times(&graph, &factors);
            prop_assert!(graph.nodes.iter().zip(times).all(|(node, time)| node.ts_ns == time));
            prop_assert_eq!(end_ns, window.end_ns);
        }
    }

    #[test]
    fn gaps_between_kernels_leave_recorded_times_as_they_are(events in arbitrary_events(), gap_ns in 0..5_000_i64) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let mut weights = Weights::recorded(&graph);
        weights.keep_stream_gaps(&graph, gap_ns);
        let replay = replay(&graph, &weights);
        prop_assert!(graph.nodes.iter().zip(replay.times).all(|(node, time)| node.ts_ns == time));
        prop_assert_eq!(replay.end_ns, window.end_ns);
    }

    /// Fixes only shorten; two that claim the same time save no more than the better one does; and no prediction is
    /// below the time of the activities that are left on a stream.
    #[test]
    fn claims_never_add_up(events in arbitrary_events(), shares in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 40)) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let index = EdgeIndex::new(&graph, &events);
        let of = |get: fn(&(f64, f64)) -> f64| {
            let left: Vec<f64> = events.activities.iter().zip(shares.iter().cycle())
                .map(|(a, share)| (a.end_ns - a.ts_ns) as f64 * get(share)).collect();
            index.claims(&events, &device_fix(), &[Some(device_rows(&events, &left))]).unwrap()
        };
        let (one, other) = (of(|share| share.0), of(|share| share.1));
        let best = of(|share| share.0.min(share.1));
        let base = Weights::recorded(&graph);
        let end_ns = |claims: &[&RankClaims]| {
            let mut weights = base.clone();
            for claims in claims {
                claims.apply(&base, &mut weights, EffectLevel::Expected);
            }
            replay(&graph, &weights).end_ns
        };
        let both_ns = end_ns(&[&one, &other]);
        prop_assert!(both_ns <= end_ns(&[&one]).min(end_ns(&[&other])));
        prop_assert_eq!(both_ns, end_ns(&[&best]));
        prop_assert_eq!(both_ns, end_ns(&[&other, &one]));
        prop_assert!(end_ns(&[&one]) <= window.end_ns);
        for at in 0..events.activities.len() {
            let mut left_ns = 0;
            let mut next = Some(at);
            while let Some(i) = next {
                let a = &events.activities[i];
                let share = shares[i % shares.len()];
                left_ns += ((a.end_ns - a.ts_ns) as f64 * share.0.min(share.1)).round() as i64;
                next = usize::try_from(graph.device.previous[i]).ok().filter(|&i| i < events.activities.len());
            }
            prop_assert!(both_ns - window.begin_ns >= left_ns, "{} {}", both_ns - window.begin_ns, left_ns);
        }
    }

    #[test]
    fn replay_times_never_grow_with_smaller_factors(events in arbitrary_events(), share in 0.0..1.0_f64) {
        let Some(window) = events.full_window() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let of = |text: &str| replay_times(&graph, &Scenario::parse(text).unwrap()).1;
        for (name, factors) in BUILT_IN_SCENARIOS {
            let end_ns = of(factors);
            prop_assert!((window.begin_ns..=window.end_ns).contains(&end_ns), "{} {}", name, end_ns);
        }
        for class in ["host", "communication", "sync", "other", "kernel"] {
            let (none, some) = (of(&format!("{class}=0")), of(&format!("{class}={share}")));
            prop_assert!(none <= some && some <= window.end_ns, "{class}");
        }
        let all: Vec<String> = TimeClass::ALL.iter().map(|c| format!("{}=0", c.bound_by())).collect();
        prop_assert_eq!(of(&all.join(",")), window.begin_ns);
        let clock = StepClock::new(&graph, &events);
        let recorded = clock.mean(|node| graph.nodes[node as usize].ts_ns);
        prop_assert!(recorded.is_none_or(|length| length >= 0.0));
        for (name, factors) in BUILT_IN_SCENARIOS {
            let scenario = Scenario::parse(factors).unwrap();
            let found = predict(&graph, &clock, name, factors, &scenario);
            prop_assert!(found.predicted_step_ns <= found.step_ns, "{:?}", found);
        }
    }
}

const US: i64 = 1_000;

#[test]
fn path_gives_a_wait_for_the_device_to_the_device() {
    let events = rank_events(
        vec![
            op(1, 0, 0, 30 * US),
            call(2, 0, 10 * US, 5 * US, HostRole::Plain),
            call(3, 0, 40 * US, 80 * US, HostRole::StreamSync),
        ],
        vec![kernel(4, 7, 20 * US, 90 * US, Some(2))],
    );
    assert_eq!(
        summary(&events),
        [
            (TimeClass::Operator, 10 * US),
            // Ten microseconds from call to start are the only evidence of the launch delay here.
            (TimeClass::LaunchDelay, 10 * US),
            (TimeClass::Kernel, 90 * US),
            (TimeClass::Sync, 10 * US),
        ]
    );
    // The kernel takes half the time, the host waits half as long.
    assert_eq!(gain(&events, "kernel=0.5"), 45 * US);
    // Without the wait the host finishes sooner, but the device does not.
    assert_eq!(gain(&events, "sync=0"), 10 * US);
    assert_eq!(gain(&events, "host=0"), 10 * US);
}

#[test]
fn path_counts_a_late_launch_as_host_time() {
    let events = rank_events(
        vec![
            call(1, 0, 0, 5 * US, HostRole::Plain),
            op(2, 0, 5 * US, 95 * US),
            call(3, 0, 100 * US, 5 * US, HostRole::Plain),
        ],
        vec![kernel(4, 7, 8 * US, 12 * US, Some(1)), kernel(5, 7, 108 * US, 12 * US, Some(3))],
    );
    assert_eq!(
        summary(&events),
        [
            (TimeClass::RuntimeCall, 5 * US),
            (TimeClass::Operator, 95 * US),
            (TimeClass::LaunchDelay, 8 * US),
            (TimeClass::Kernel, 12 * US),
        ]
    );
    assert_eq!(gain(&events, "kernel=0"), 12 * US);
    // With a free host the two kernels follow each other.
    assert_eq!(gain(&events, "host=0"), 120 * US - (8 + 12 + 12) * US);
}

#[test]
fn streams_wait_for_each_other_if_recorded_or_inferred() {
    let host = || {
        vec![
            call(1, 0, 0, US, HostRole::Plain),
            call(2, 0, 2 * US, US, HostRole::Plain),
            call(3, 0, 4 * US, US, HostRole::Plain),
            call(4, 0, 6 * US, US, HostRole::Plain),
        ]
    };
    // Launched early on stream 9, started 4 us (300 us) after the kernel on stream 7 ended.
    let device = |gap: i64| {
        vec![
            kernel(5, 7, 5 * US, 195 * US, Some(1)),
            kernel(6, 9, 200 * US + gap, 50 * US, Some(4)),
        ]
    };
    let classes = |events: &RankEvents| -> Vec<TimeClass> {
        summary(events).into_iter().map(|(class, _)| class).collect()
    };
    let waited =
        [TimeClass::LaunchDelay, TimeClass::Kernel, TimeClass::DeviceGap, TimeClass::Kernel];
    assert_eq!(classes(&rank_events(host(), device(4 * US))), waited);
    let not_near = rank_events(host(), device(300 * US));
    let alone = [TimeClass::RuntimeCall, TimeClass::Gap];
    assert_eq!(classes(&not_near)[..2], alone);
    assert_eq!(
        classes(&not_near)[classes(&not_near).len() - 2..],
        [TimeClass::LaunchDelay, TimeClass::Kernel]
    );
    let wait = Blocker {
        kind: BlockerKind::StreamOnEvent,
        call: 3,
        device: 0,
        stream: 9,
        source_stream: 7,
        record: Some(2),
    };
    assert_eq!(classes(&RankEvents { waits: vec![wait], ..not_near }), waited);
}

#[test]
fn full_queue_blocks_the_host() {
    // 300 launches of 1 us fill the queue; each further launch waits until a kernel of 10 us completes.
    let mut host = Vec::new();
    let mut device = Vec::new();
    let mut now = 0;
    for i in 0..900_i64 {
        let ts_ns = 10 * US + i * 10 * US;
        let begin_ns = now;
        now = if i < 300 { begin_ns + US } else { (ts_ns - 299 * 10 * US).max(begin_ns) + US };
        host.push(call(i, 0, begin_ns, now - begin_ns, HostRole::Plain));
        device.push(kernel(1_000 + i, 7, ts_ns, 10 * US, Some(i)));
    }
    let events = rank_events(host, device);
    let graph = graph(&events);
    assert!(graph.edges.iter().any(|e| e.kind == EdgeKind::QueueFull));
    assert!(graph.device.waiting_call_count > 500, "{}", graph.device.waiting_call_count);
    // The launches get faster with the kernels, because they only waited.
    assert!(gain(&events, "kernel=0.5") > 4_000 * US);
    let host_times = replay_times(&graph, &Scenario::parse("kernel=0.5").unwrap()).0;
    let last_call = graph.host_node(0, now).unwrap() as usize;
    assert!(host_times[last_call] < now * 6 / 10, "{} of {now}", host_times[last_call]);
}

#[test]
fn main_thread_waits_for_the_autograd_thread() {
    let step = host(1, 0, 0, 100 * US, EventTable::Annotations, HostRole::Plain);
    let backward = host(3, 1, 31 * US, 20 * US, EventTable::CpuOps, HostRole::Backward);
    let backward_too = host(4, 1, 53 * US, 15 * US, EventTable::CpuOps, HostRole::Backward);
    let events = rank_events(
        vec![step, op(2, 0, 0, 30 * US), backward, backward_too, op(5, 0, 70 * US, 20 * US)],
        vec![],
    );
    assert_eq!(
        summary(&events),
        [
            (TimeClass::Operator, 30 * US),
            (TimeClass::Annotation, US),
            (TimeClass::Operator, 20 * US),
            (TimeClass::Gap, 2 * US),
            (TimeClass::Operator, 15 * US),
            (TimeClass::Annotation, 2 * US),
            (TimeClass::Operator, 20 * US),
            (TimeClass::Annotation, 10 * US),
        ]
    );
    assert_eq!(gain(&events, "operator=0"), 85 * US);
}

#[test]
fn main_thread_does_not_wait_for_a_polling_thread() {
    let step = host(1, 0, 0, 100 * US, EventTable::Annotations, HostRole::Plain);
    let poll = |id, ts_ns| call(id, 1, ts_ns, US, HostRole::Plain);
    let events =
        rank_events(vec![step, poll(2, 10 * US), poll(3, 50 * US), poll(4, 90 * US)], vec![]);
    assert_eq!(summary(&events), [(TimeClass::Annotation, 100 * US)]);
}

#[test]
fn cuda_graph_is_launched_once() {
    let mut events = rank_events(vec![call(1, 0, 0, 50 * US, HostRole::Plain)], Vec::new());
    for i in 0..5 {
        events.activities.push(kernel(10 + i, 7, (20 + 10 * i) * US, 9 * US, Some(1)));
    }
    let classes = summary(&events);
    assert_eq!(classes[0].0, TimeClass::LaunchDelay);
    assert_eq!(classes.iter().filter(|(class, _)| *class == TimeClass::Kernel).count(), 5);
}

#[test]
fn unlinked_work_moves_with_the_device() {
    let events = rank_events(
        vec![],
        vec![kernel(1, 7, 0, 100 * US, None), kernel(2, 9, 400 * US, 100 * US, None)],
    );
    let expected = [
        (TimeClass::Kernel, 100 * US),
        (TimeClass::Other, 300 * US),
        (TimeClass::Kernel, 100 * US),
    ];
    assert_eq!(summary(&events), expected);
    assert_eq!(gain(&events, "kernel=0.5"), 100 * US);
}

#[test]
fn scenario_parse_reports_invalid_factors() {
    for (text, words) in [
        ("hots=0.5", "there is no class `hots`; classes are data_loading, host, operator"),
        ("host", "not of the form class=factor"),
        ("host=-1", "from 0 to 1000"),
        ("host=nan", "from 0 to 1000"),
        ("host=fast", "not `fast`"),
    ] {
        let error = Scenario::parse(text).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(Scenario::parse(" , ").unwrap(), Scenario::UNCHANGED);
    // The later factor wins.
    let (both, one) =
        (Scenario::parse("host=0,operator=1").unwrap(), Scenario::parse("host=0").unwrap());
    assert_ne!(both, one);
    for (_, factors) in BUILT_IN_SCENARIOS {
        assert!(Scenario::parse(factors).is_ok());
    }
}

/// A fix that changes durations of device activities.
fn device_fix() -> FixEdits {
    let edit = Edit {
        target: EditTarget::Device(String::new()),
        left: [0.0, 0.0],
        least: None,
        launched: None,
        workers: None,
        slowdown: [1.0, 1.0],
    };
    FixEdits {
        name: "fix".to_owned(),
        edits: vec![edit],
        weight: 1.0,
        is_certain: true,
        instead_of: Vec::new(),
        effect: FittedEffect::default(),
    }
}

/// Rows that leave these times of the activities.
fn device_rows(events: &RankEvents, left_ns: &[f64]) -> RecordBatch {
    let ids = events.activities.iter().map(|a| a.id);
    let columns: [(&str, ArrayRef); 4] = [
        ("rank", Arc::new(ids.clone().map(|_| events.rank).collect::<Int32Array>())),
        ("event_id", Arc::new(ids.collect::<Int64Array>())),
        ("left_low_ns", Arc::new(Float64Array::from(left_ns.to_vec()))),
        ("left_high_ns", Arc::new(Float64Array::from(left_ns.to_vec()))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// NULL means that the time that is left is unknown, not that it is 0.
#[test]
fn unknown_activities_are_left_alone_and_counted() {
    let events = rank_events(
        vec![],
        vec![kernel(1, 7, 0, 100 * US, None), kernel(2, 7, 100 * US, 300 * US, None)],
    );
    let graph = graph(&events);
    let index = EdgeIndex::new(&graph, &events);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", Arc::new(Int32Array::from(vec![events.rank; 2]))),
        ("event_id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("left_low_ns", Arc::new(Float64Array::from(vec![Some(50e3), None]))),
        ("left_high_ns", Arc::new(Float64Array::from(vec![Some(50e3), None]))),
        ("least_ns", Arc::new(Float64Array::from(vec![Some(40e3), None]))),
        ("unknown", Arc::new(StringArray::from(vec![None, Some("no shapes")]))),
    ];
    let rows = |columns: &[(&str, ArrayRef)]| {
        let columns = columns.iter().map(|(name, array)| (*name, array.clone(), true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let claims = index.claims(&events, &device_fix(), &[Some(rows(&columns))]).unwrap();
    assert_eq!(claims.targeted_ns, 400 * US);
    assert_eq!(
        claims.unknown_ns.iter().collect::<Vec<_>>(),
        [(&"no shapes".to_owned(), &(300 * US))]
    );
    let base = Weights::recorded(&graph);
    let mut weights = base.clone();
    claims.apply(&base, &mut weights, EffectLevel::Most);
    assert_eq!(replay(&graph, &weights).end_ns, 350 * US);
    // The hardware needs 40 us for the first kernel; the second one is unknown.
    let least = RankClaims::least(&[&claims], &base).unwrap();
    assert_eq!(replay(&graph, &least).end_ns, 40 * US);
    // Another edit may know what is left of an activity that the first edit does not know.
    let mut fix = device_fix();
    fix.edits.push(Edit { left: [0.5, 0.5], ..fix.edits[0].clone() });
    let both = rows(&columns);
    columns.truncate(2);
    let claims = index.claims(&events, &fix, &[Some(both), Some(rows(&columns))]).unwrap();
    assert_eq!((claims.targeted_ns, claims.unknown_ns.len()), (400 * US, 0));
}

#[test]
fn copy_that_seems_to_end_after_its_call_was_waited_for() {
    let copied = |late_ns: i64| {
        let mut copy = kernel(3, 7, 20 * US, 180 * US + late_ns, Some(2));
        copy.table = EventTable::Memcpys;
        copy.class = TimeClass::Copy;
        let host = vec![
            op(1, 0, 0, 10 * US),
            call(2, 0, 10 * US, 190 * US, HostRole::BlockingCopy),
            op(4, 0, 200 * US, 300 * US),
        ];
        rank_events(host, vec![copy])
    };
    // The clocks differ by 4 us: the host still waits for the copy.
    for events in [copied(0), copied(4 * US)] {
        let classes = summary(&events);
        let of = |class| classes.iter().find(|(c, _)| *c == class).map_or(0, |&(_, ns)| ns);
        assert_eq!(of(TimeClass::Copy), 180 * US, "{classes:?}");
        assert_eq!(gain(&events, "copy=0"), 180 * US);
    }
    // At 100 us it does not.
    let classes = summary(&copied(100 * US));
    assert!(classes.iter().any(|&(class, _)| class == TimeClass::RuntimeCall), "{classes:?}");
}

/// A kernel that is launched at the start and computes for 100 us, and gloo on another thread, which sends its result.
fn sent_result(gloo_ts_ns: i64) -> RankEvents {
    let host = vec![
        op(1, 0, 0, 90 * US),
        call(2, 0, 10 * US, 5 * US, HostRole::Plain),
        host(3, 1, gloo_ts_ns, 50 * US, EventTable::Annotations, HostRole::Communication),
        op(4, 0, 190 * US, 10 * US),
    ];
    rank_events(host, vec![kernel(5, 7, 20 * US, 100 * US, Some(2))])
}

#[test]
fn communication_on_the_host_waits_for_what_it_sends() {
    // Even if launching takes no time, the kernel runs before gloo does: only the launch and the gap after gloo are saved.
    let events = sent_result(125 * US);
    let graph = graph(&events);
    assert!(graph.edges.iter().any(|edge| edge.kind == EdgeKind::Data));
    assert!(gain(&events, "host=0,gap=0") <= 35 * US, "{}", gain(&events, "host=0,gap=0"));
    // Begun before the kernel has ended, it sends something else.
    let early = sent_result(100 * US);
    assert!(
        Graph::new(&early, early.full_window().unwrap())
            .edges
            .iter()
            .all(|e| e.kind != EdgeKind::Data)
    );
}

#[test]
fn a_node_of_a_graph_follows_the_nodes_that_it_depends_on_in_place_of_its_stream() {
    let host = vec![call(0, 1, 0, 5_000, HostRole::Plain)];
    // The executor of the graph put independent branches on one stream, and one branch on two.
    let long = kernel(10, 1, 10_000, 90_000, Some(0));
    let short = kernel(11, 2, 10_000, 20_000, Some(0));
    let after_short = kernel(12, 1, 100_000, 50_000, Some(0));
    let mut events = rank_events(host, vec![long, short, after_short]);
    let order = |events: &RankEvents| {
        let graph = graph(events);
        let mut order = Vec::new();
        for target in 0..graph.nodes.len() {
            for at in graph.edge_range(target) {
                let edge = &graph.edges[at];
                if matches!(edge.kind, EdgeKind::StreamOrder | EdgeKind::GraphOrder) {
                    let of = |node: usize| graph.nodes[node].subject;
                    order.push((edge.kind, of(edge.source as usize), of(target)));
                }
            }
        }
        order
    };
    assert_eq!(order(&events), [(EdgeKind::StreamOrder, 0, 2)]);
    let edge = |source, target| NodeEdge { source, target, is_complete: true };
    events.graph_edges = vec![edge(11, 12)];
    assert_eq!(order(&events), [(EdgeKind::GraphOrder, 1, 2)]);
    // An edge that contradicts the recorded times, or whose source is not in the window, is ignored.
    events.graph_edges = vec![edge(12, 11), edge(99, 12)];
    assert_eq!(order(&events), [(EdgeKind::StreamOrder, 0, 2)]);
    // If some edges are unknown, the order of the stream applies in addition to the known edge.
    let mut both = [(EdgeKind::StreamOrder, 0, 2), (EdgeKind::GraphOrder, 1, 2)];
    both.sort_unstable();
    let orders = |edges: Vec<NodeEdge>| {
        let mut orders = order(&RankEvents { graph_edges: edges, ..events.clone() });
        orders.sort_unstable();
        orders
    };
    assert_eq!(orders(vec![edge(11, 12), edge(99, 12)]), both);
    assert_eq!(orders(vec![NodeEdge { is_complete: false, ..edge(11, 12) }]), both);
}
