//! What holds for any events: the path tiles the window, and other weights give sane times.

use proptest::prelude::*;

use super::graph::{Graph, Kind};
use super::model::{
    Activity, Class, HostEvent, RankEvents, Role, Step, Table, Wait, WaitKind, Window,
};
use super::path::{self, Segment};
use super::what_if::{Factors, SCENARIOS, StepClock, times};

fn host(id: i64, lane: i32, ts: i64, dur: i64, table: Table, role: Role) -> HostEvent {
    HostEvent { ts, end: ts + dur, id, row: id as u32, lane, table, role }
}

fn op(id: i64, lane: i32, ts: i64, dur: i64) -> HostEvent {
    host(id, lane, ts, dur, Table::CpuOps, Role::Plain)
}

fn call(id: i64, lane: i32, ts: i64, dur: i64, role: Role) -> HostEvent {
    host(id, lane, ts, dur, Table::RuntimeCalls, role)
}

fn kernel(id: i64, stream: i32, ts: i64, dur: i64, launch: Option<i64>) -> Activity {
    Activity {
        ts,
        end: ts + dur,
        id,
        row: id as u32,
        lane: 100 + stream,
        device: 0,
        stream,
        table: Table::Kernels,
        class: Class::Kernel,
        launch,
        step: None,
        may_block: false,
    }
}

fn run(host: Vec<HostEvent>, activities: Vec<Activity>) -> RankEvents {
    RankEvents { host, activities, ..RankEvents::default() }
}

fn graph(events: &RankEvents) -> Graph {
    Graph::new(events, events.whole().unwrap())
}

/// Class and duration of each segment.
fn summary(events: &RankEvents) -> Vec<(Class, i64)> {
    path::segments(&graph(events)).iter().map(|s| (s.class, s.dur)).collect()
}

fn gain(events: &RankEvents, factors: &str) -> i64 {
    let graph = graph(events);
    graph.window.end - times(&graph, &Factors::parse(factors).unwrap()).1
}

fn roles() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![
        Role::Plain,
        Role::Plain,
        Role::Loader,
        Role::Backward,
        Role::Communication,
        Role::DeviceSync,
        Role::StreamSync,
        Role::EventSync,
        Role::BlockingCopy,
        Role::Free,
    ])
}

fn host_tables() -> impl Strategy<Value = Table> {
    prop::sample::select(vec![
        Table::CpuOps,
        Table::RuntimeCalls,
        Table::RuntimeCalls,
        Table::Annotations,
        Table::PythonFrames,
    ])
}

/// Events that no profiler would write: few distinct times, lengths of zero, siblings that overlap,
/// launches after their kernels, waits for nothing, steps that overlap.
fn nasty() -> impl Strategy<Value = RankEvents> {
    // In units of 5 us, so that the thresholds of inference lie in between.
    let time = || (0..40_i64).prop_map(|t| t * 5_000);
    let length = || prop_oneof![Just(0_i64), (0..12_i64).prop_map(|t| t * 5_000), 0..3_i64];
    let hosts = prop::collection::vec((0..3_i32, time(), length(), host_tables(), roles()), 0..40);
    let device_tables = prop::sample::select(vec![Table::Kernels, Table::Memcpys, Table::Memsets]);
    let classes = prop::sample::select(vec![Class::Kernel, Class::Communication, Class::Copy]);
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
        WaitKind::Stream,
        WaitKind::Context,
        WaitKind::Event,
        WaitKind::StreamOnEvent,
    ]);
    let waits = prop::collection::vec(
        (kinds, 0..40_i64, 0..3_i32, 0..3_i32, prop::option::of(0..40_i64)),
        0..6,
    );
    let steps = prop::collection::vec((time(), length(), prop::option::of(0..3_i32)), 0..3);
    (hosts, activities, waits, steps).prop_map(|(hosts, activities, waits, steps)| {
        let mut events = RankEvents::default();
        for ((lane, ts, dur, table, role), id) in hosts.into_iter().zip(0..) {
            events.host.push(host(id, lane, ts, dur, table, role));
        }
        for (activity, id) in activities.into_iter().zip(1_000..) {
            let ((device, stream), ts, dur, table, class, launch, may_block, step) = activity;
            let of = kernel(id, stream, ts, dur, launch);
            events.activities.push(Activity { device, table, class, step, may_block, ..of });
        }
        for (kind, call, stream, source_stream, record) in waits {
            events.waits.push(Wait { kind, call, device: 0, stream, source_stream, record });
        }
        for ((ts, dur, lane), number) in steps.into_iter().zip(0..) {
            events.steps.push(Step { number, ts, end: ts + dur, lane });
        }
        events.steps.sort_by_key(|s| s.ts);
        events
    })
}

fn tiles(segments: &[Segment], window: Window) {
    let mut at = window.begin;
    for segment in segments {
        assert_eq!(segment.ts, at, "a hole or an overlap");
        assert!(segment.dur > 0);
        at += segment.dur;
    }
    assert_eq!(at, window.end);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_path_tiles_the_window(events in nasty()) {
        let Some(window) = events.whole() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let segments = path::segments(&graph);
        tiles(&segments, window);
        let parts = path::by_step(&segments, &events.steps);
        tiles(&parts.iter().map(|&(s, _)| s).collect::<Vec<_>>(), window);
        for (part, step) in parts {
            let inside = |s: &&Step| s.ts <= part.ts && part.ts + part.dur <= s.end;
            let overlaps = |s: &&Step| s.ts < part.ts + part.dur && part.ts < s.end;
            match step {
                Some(step) => prop_assert!(events.steps.iter().filter(inside).any(|s| s.number == step)),
                // Steps that overlap one another are told apart by their start alone.
                None => prop_assert!(
                    events.steps.windows(2).any(|p| p[1].ts < p[0].end)
                        || !events.steps.iter().any(|s| overlaps(&s))
                ),
            }
        }
    }

    #[test]
    fn a_part_of_the_events_is_a_window_too(events in nasty(), begin in 0..200_000_i64, length in 0..100_000_i64) {
        let mut events = events;
        let window = events.clip(begin, begin + length);
        prop_assert!(window.begin == begin && window.end >= begin + length);
        tiles(&path::segments(&Graph::new(&events, window)), window);
    }

    #[test]
    fn edges_go_forward_and_explain_the_times(events in nasty()) {
        let Some(window) = events.whole() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        for (i, node) in graph.nodes.iter().enumerate() {
            prop_assert!((window.begin..=window.end).contains(&node.ts));
            let arrivals = graph.edges_into(i).iter().map(|e| {
                prop_assert!((e.source as usize) < i && e.weight >= 0);
                Ok(graph.nodes[e.source as usize].ts + e.weight)
            });
            let arrivals = arrivals.collect::<Result<Vec<i64>, TestCaseError>>()?;
            let last = arrivals.into_iter().max().unwrap_or(window.begin);
            prop_assert_eq!(last + node.rest, node.ts);
            prop_assert!(node.rest >= 0);
        }
    }

    #[test]
    fn nothing_changes_where_nothing_is_scaled(events in nasty()) {
        let Some(window) = events.whole() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        for factors in [Factors::ONE, Factors::parse("host=1, kernel=1.0").unwrap()] {
            let (times, end) = times(&graph, &factors);
            prop_assert!(graph.nodes.iter().zip(times).all(|(node, time)| node.ts == time));
            prop_assert_eq!(end, window.end);
        }
    }

    #[test]
    fn less_is_never_longer(events in nasty(), share in 0.0..1.0_f64) {
        let Some(window) = events.whole() else { return Ok(()) };
        let graph = Graph::new(&events, window);
        let of = |text: &str| times(&graph, &Factors::parse(text).unwrap()).1;
        for (name, factors) in SCENARIOS {
            let end = of(factors);
            prop_assert!((window.begin..=window.end).contains(&end), "{} {}", name, end);
        }
        for class in ["host", "communication", "sync", "other", "kernel"] {
            let (none, some) = (of(&format!("{class}=0")), of(&format!("{class}={share}")));
            prop_assert!(none <= some && some <= window.end, "{class}");
        }
        let all: Vec<String> = Class::ALL.iter().map(|c| format!("{}=0", c.bound_by())).collect();
        prop_assert_eq!(of(&all.join(",")), window.begin);
        let clock = StepClock::new(&graph, &events);
        let recorded = clock.median(|node| graph.nodes[node as usize].ts);
        prop_assert!(recorded.is_none_or(|length| length >= 0));
    }
}

const US: i64 = 1_000;

#[test]
fn a_wait_for_the_device_is_the_devices_time() {
    let events = run(
        vec![
            op(1, 0, 0, 30 * US),
            call(2, 0, 10 * US, 5 * US, Role::Plain),
            call(3, 0, 40 * US, 80 * US, Role::StreamSync),
        ],
        vec![kernel(4, 7, 20 * US, 90 * US, Some(2))],
    );
    assert_eq!(
        summary(&events),
        [
            (Class::Operator, 10 * US),
            // Ten microseconds from call to start: all that is known of a launch here.
            (Class::LaunchDelay, 10 * US),
            (Class::Kernel, 90 * US),
            (Class::Sync, 10 * US),
        ]
    );
    // The kernel takes half the time, the host waits half as long.
    assert_eq!(gain(&events, "kernel=0.5"), 45 * US);
    // Without the wait the host is done sooner, but not the device.
    assert_eq!(gain(&events, "sync=0"), 10 * US);
    assert_eq!(gain(&events, "host=0"), 10 * US);
}

#[test]
fn a_late_launch_is_host_time() {
    let events = run(
        vec![
            call(1, 0, 0, 5 * US, Role::Plain),
            op(2, 0, 5 * US, 95 * US),
            call(3, 0, 100 * US, 5 * US, Role::Plain),
        ],
        vec![kernel(4, 7, 8 * US, 12 * US, Some(1)), kernel(5, 7, 108 * US, 12 * US, Some(3))],
    );
    assert_eq!(
        summary(&events),
        [
            (Class::RuntimeCall, 5 * US),
            (Class::Operator, 95 * US),
            (Class::LaunchDelay, 8 * US),
            (Class::Kernel, 12 * US),
        ]
    );
    assert_eq!(gain(&events, "kernel=0"), 12 * US);
    // With a free host the two kernels follow each other.
    assert_eq!(gain(&events, "host=0"), 120 * US - (8 + 12 + 12) * US);
}

#[test]
fn streams_wait_for_each_other_recorded_or_not() {
    let host = || {
        vec![
            call(1, 0, 0, US, Role::Plain),
            call(2, 0, 2 * US, US, Role::Plain),
            call(3, 0, 4 * US, US, Role::Plain),
            call(4, 0, 6 * US, US, Role::Plain),
        ]
    };
    // Launched early on stream 9, started 4 us (300 us) after the kernel on stream 7 ended.
    let device = |gap: i64| {
        vec![
            kernel(5, 7, 5 * US, 195 * US, Some(1)),
            kernel(6, 9, 200 * US + gap, 50 * US, Some(4)),
        ]
    };
    let classes = |events: &RankEvents| -> Vec<Class> {
        summary(events).into_iter().map(|(class, _)| class).collect()
    };
    let waited = [Class::LaunchDelay, Class::Kernel, Class::DeviceGap, Class::Kernel];
    assert_eq!(classes(&run(host(), device(4 * US))), waited);
    let not_near = run(host(), device(300 * US));
    let alone = [Class::RuntimeCall, Class::Gap];
    assert_eq!(classes(&not_near)[..2], alone);
    assert_eq!(
        classes(&not_near)[classes(&not_near).len() - 2..],
        [Class::LaunchDelay, Class::Kernel]
    );
    let wait = Wait {
        kind: WaitKind::StreamOnEvent,
        call: 3,
        device: 0,
        stream: 9,
        source_stream: 7,
        record: Some(2),
    };
    assert_eq!(classes(&RankEvents { waits: vec![wait], ..not_near }), waited);
}

#[test]
fn a_full_queue_holds_the_host() {
    // 300 launches of 1 us fill the queue; each one more waits until a kernel of 10 us is done.
    let mut host = Vec::new();
    let mut device = Vec::new();
    let mut now = 0;
    for i in 0..900_i64 {
        let ts = 10 * US + i * 10 * US;
        let begin = now;
        now = if i < 300 { begin + US } else { (ts - 299 * 10 * US).max(begin) + US };
        host.push(call(i, 0, begin, now - begin, Role::Plain));
        device.push(kernel(1_000 + i, 7, ts, 10 * US, Some(i)));
    }
    let events = run(host, device);
    let graph = graph(&events);
    assert!(graph.edges.iter().any(|e| e.kind == Kind::QueueFull));
    assert!(graph.device.waiting_calls > 500, "{}", graph.device.waiting_calls);
    // The launches get faster with the kernels: they only waited.
    assert!(gain(&events, "kernel=0.5") > 4_000 * US);
    let host_times = times(&graph, &Factors::parse("kernel=0.5").unwrap()).0;
    let last_call = graph.host_node(0, now).unwrap() as usize;
    assert!(host_times[last_call] < now * 6 / 10, "{} of {now}", host_times[last_call]);
}

#[test]
fn the_main_thread_waits_for_the_autograd_thread() {
    let step = host(1, 0, 0, 100 * US, Table::Annotations, Role::Plain);
    let backward = host(3, 1, 31 * US, 20 * US, Table::CpuOps, Role::Backward);
    let backward_too = host(4, 1, 53 * US, 15 * US, Table::CpuOps, Role::Backward);
    let events = run(
        vec![step, op(2, 0, 0, 30 * US), backward, backward_too, op(5, 0, 70 * US, 20 * US)],
        vec![],
    );
    assert_eq!(
        summary(&events),
        [
            (Class::Operator, 30 * US),
            (Class::Annotation, US),
            (Class::Operator, 20 * US),
            (Class::Gap, 2 * US),
            (Class::Operator, 15 * US),
            (Class::Annotation, 2 * US),
            (Class::Operator, 20 * US),
            (Class::Annotation, 10 * US),
        ]
    );
    assert_eq!(gain(&events, "operator=0"), 85 * US);
}

#[test]
fn a_thread_with_little_to_do_is_not_waited_for() {
    let step = host(1, 0, 0, 100 * US, Table::Annotations, Role::Plain);
    let poll = |id, ts| call(id, 1, ts, US, Role::Plain);
    let events = run(vec![step, poll(2, 10 * US), poll(3, 50 * US), poll(4, 90 * US)], vec![]);
    assert_eq!(summary(&events), [(Class::Annotation, 100 * US)]);
}

#[test]
fn a_graph_is_launched_once() {
    let mut events = run(vec![call(1, 0, 0, 50 * US, Role::Plain)], Vec::new());
    for i in 0..5 {
        events.activities.push(kernel(10 + i, 7, (20 + 10 * i) * US, 9 * US, Some(1)));
    }
    let classes = summary(&events);
    assert_eq!(classes[0].0, Class::LaunchDelay);
    assert_eq!(classes.iter().filter(|(class, _)| *class == Class::Kernel).count(), 5);
}

#[test]
fn unlinked_work_floats_with_the_device() {
    let events =
        run(vec![], vec![kernel(1, 7, 0, 100 * US, None), kernel(2, 9, 400 * US, 100 * US, None)]);
    let expected = [(Class::Kernel, 100 * US), (Class::Other, 300 * US), (Class::Kernel, 100 * US)];
    assert_eq!(summary(&events), expected);
    assert_eq!(gain(&events, "kernel=0.5"), 100 * US);
}

#[test]
fn factors_are_checked() {
    for (text, words) in [
        ("hots=0.5", "there is no class `hots`; classes are data_loading, host, operator"),
        ("host", "not of the form class=factor"),
        ("host=-1", "from 0 to 1000"),
        ("host=nan", "from 0 to 1000"),
        ("host=fast", "not `fast`"),
    ] {
        let error = Factors::parse(text).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(Factors::parse(" , ").unwrap(), Factors::ONE);
    // The later one wins.
    let (both, one) =
        (Factors::parse("host=0,operator=1").unwrap(), Factors::parse("host=0").unwrap());
    assert_ne!(both, one);
    for (_, factors) in SCENARIOS {
        assert!(Factors::parse(factors).is_ok());
    }
}
