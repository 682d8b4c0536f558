//! Checks the graph of small traces edge by edge, and properties that hold for all traces.

use proptest::prelude::*;

use super::device::{self, SyncWait};
use super::endpoints::Endpoints;
use super::frame::{Event, EventKind, Frame, NONE};
use super::graph::EdgeKind;
use super::host;
use super::names::Role;

/// A trace. The id of an event is its position plus one, as HTA takes the id 0 for a missing event.
#[derive(Debug, Default)]
struct Trace {
    events: Vec<Event>,
    names: Vec<String>,
    waits: Vec<SyncWait>,
    cut_ns: Option<i64>,
}

/// Lane of the first stream.
const DEVICE: u32 = 9;

impl Trace {
    fn add(
        &mut self,
        kind: EventKind,
        name: &str,
        lane: u32,
        (ts_ns, dur_ns): (i64, i64),
    ) -> &mut Event {
        self.names.push(name.to_owned());
        self.events.push(Event {
            id: self.events.len() as i64 + 1,
            ts_ns,
            dur_ns,
            correlation: NONE,
            stream: NONE,
            name: self.events.len() as u32,
            lane,
            kind,
            role: Role::of(name),
        });
        self.events.last_mut().unwrap()
    }

    fn op(&mut self, lane: u32, name: &str, at: (i64, i64)) -> &mut Self {
        self.add(EventKind::Call, name, lane, at);
        self
    }

    fn range(&mut self, lane: u32, name: &str, at: (i64, i64)) -> &mut Self {
        self.add(EventKind::Range, name, lane, at);
        self
    }

    fn call(&mut self, lane: u32, name: &str, at: (i64, i64), correlation: i64) -> &mut Self {
        self.add(EventKind::Call, name, lane, at).correlation = correlation;
        self
    }

    fn kernel(&mut self, stream: i64, name: &str, at: (i64, i64), correlation: i64) -> &mut Self {
        let event = self.add(EventKind::Activity, name, DEVICE + stream as u32, at);
        (event.stream, event.correlation) = (stream, correlation);
        self
    }

    /// Adds a wait for the event recorded on stream `on.0` by the call with correlation `on.1`.
    fn sync(
        &mut self,
        stream: i64,
        name: &str,
        at: (i64, i64),
        correlation: i64,
        on: Option<(i64, i64)>,
    ) -> &mut Self {
        let event = self.add(EventKind::Sync, name, DEVICE + stream.max(0) as u32, at);
        (event.stream, event.correlation) = (stream, correlation);
        let id = event.id;
        let (stream, record) = on.unwrap_or((NONE, NONE));
        self.waits.push(SyncWait { id, stream, record });
        self
    }

    fn solve(&self) -> Solved {
        self.solve_in((i64::MIN, i64::MAX))
    }

    fn solve_in(&self, region: (i64, i64)) -> Solved {
        let frame = Frame::new(self.events.clone(), self.cut_ns);
        let inside = frame.clip(region);
        let mut endpoints = Endpoints::new(&frame, &inside);
        host::connect(&mut endpoints, &inside);
        device::connect(&mut endpoints, &inside, &self.waits, &[0; 32]);
        let name = |row: u32| self.names[frame.events[row as usize].name as usize].as_str();
        let node = |node| {
            let name = name(endpoints.row(node));
            if Endpoints::is_end(node) { format!("{name})") } else { format!("({name}") }
        };
        let edges = endpoints.graph.edges.iter().map(|edge| {
            let kind = match edge.kind {
                EdgeKind::Operator => edge.event.map_or("", name),
                EdgeKind::Dependency => "then",
                EdgeKind::LaunchDelay => "launch",
                EdgeKind::KernelDelay => "delay",
                EdgeKind::Sync => "sync",
            };
            format!("{} {} {} {}", node(edge.from), node(edge.to), kind, edge.weight_ns)
        });
        let path = endpoints.graph.longest_path();
        let weight =
            |path: &Vec<usize>| path.iter().map(|&e| endpoints.graph.edges[e].weight_ns).sum();
        Solved {
            edges: edges.collect(),
            path_ns: path.as_ref().map(weight),
            path: path.map(|path| {
                let edges = &endpoints.graph.edges;
                let first = path.first().map(|&edge| edges[edge].from);
                let nodes = first.into_iter().chain(path.iter().map(|&edge| edges[edge].to));
                nodes.map(node).collect::<Vec<_>>().join(" ")
            }),
        }
    }
}

#[derive(Debug)]
struct Solved {
    /// `(from to) kind weight`.
    edges: Vec<String>,
    path: Option<String>,
    path_ns: Option<i64>,
}

#[test]
fn host_edges_follow_nesting_and_top_level_gaps_have_no_weight() {
    let mut trace = Trace::default();
    trace.op(0, "a", (0, 100)).op(0, "b", (10, 20)).op(0, "c", (50, 20)).op(0, "d", (500, 5));
    let solved = trace.solve();
    assert_eq!(
        solved.edges,
        [
            "(a (b a 10",
            "(b b) b 20",
            "b) (c a 20",
            "(c c) c 20",
            "c) a) a 30",
            "a) (d then 0",
            "(d d) d 5",
        ]
    );
    assert_eq!(solved.path_ns, Some(105));
    assert_eq!(solved.path.as_deref(), Some("(a (b b) (c c) a) (d d)"));
}

#[test]
fn ranges_without_nodes_still_nest() {
    let mut trace = Trace::default();
    // The time between b and c is the annotation's, as it is around b.
    trace.op(0, "a", (0, 100)).range(0, "step", (5, 90)).op(0, "b", (10, 10)).op(0, "c", (30, 10));
    assert_eq!(trace.solve().edges[2], "b) (c step 10");
}

#[test]
fn ties_are_decided_by_length_and_then_by_position() {
    let mut trace = Trace::default();
    // b and c share both ends: b, written first, is the outer one. d starts when they end.
    trace.op(0, "b", (10, 10)).op(0, "c", (10, 10)).op(0, "a", (10, 30)).op(0, "d", (20, 5));
    assert_eq!(
        trace.solve().edges,
        [
            "(a (b a 0",
            "(b (c b 0",
            "(c c) c 10",
            "c) b) b 0",
            "b) (d a 0",
            "(d d) d 5",
            "d) a) a 15",
        ]
    );
}

#[test]
fn events_without_length_are_left_out() {
    let mut trace = Trace::default();
    trace.op(0, "a", (0, 10)).op(0, "b", (5, 0));
    assert_eq!(trace.solve().edges, ["(a a) a 10"]);
}

#[test]
fn the_one_that_opened_last_closes_whatever_ends() {
    let mut trace = Trace::default();
    trace.op(0, "a", (0, 10)).op(0, "b", (5, 10));
    // As in HTA: the first end closes b, ten later than the path is then.
    assert_eq!(trace.solve().edges, ["(a (b a 5", "(b b) b 10", "b) a) a -5"]);
}

#[test]
fn blocking_calls_weigh_nothing_and_wait_for_the_stream() {
    let mut trace = Trace::default();
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .kernel(7, "k", (8, 100), 1)
        .call(0, "cudaStreamSynchronize", (10, 100), 2)
        .sync(7, "Stream Sync", (10, 99), 2, None);
    let solved = trace.solve();
    assert_eq!(
        solved.edges,
        [
            "(cudaLaunchKernel cudaLaunchKernel) cudaLaunchKernel 5",
            "cudaLaunchKernel) (cudaStreamSynchronize then 0",
            "(cudaStreamSynchronize cudaStreamSynchronize) cudaStreamSynchronize 0",
            "(k k) k 100",
            "(cudaLaunchKernel (k launch 8",
            "k) cudaStreamSynchronize) sync 0",
        ]
    );
    assert_eq!(solved.path_ns, Some(108));
}

#[test]
fn kernel_waits_for_its_launch_or_the_previous_kernel() {
    let mut trace = Trace::default();
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .call(0, "cudaLaunchKernel", (20, 5), 2)
        .call(0, "cudaLaunchKernel", (200, 5), 3)
        .kernel(7, "a", (10, 90), 1)
        .kernel(7, "b", (110, 10), 2)
        .kernel(7, "c", (210, 10), 3);
    let edges = trace.solve().edges;
    assert!(edges.contains(&"(cudaLaunchKernel (a launch 10".to_owned()), "nothing before it");
    assert!(edges.contains(&"a) (b delay 10".to_owned()), "launched while a ran");
    assert!(edges.contains(&"(cudaLaunchKernel (c launch 10".to_owned()), "launched after b");
}

#[test]
fn queue_length_counts_a_launch_before_activities_of_the_same_time() {
    let mut trace = Trace::default();
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .call(0, "cudaLaunchKernel", (10, 5), 2)
        .kernel(7, "a", (10, 5), 1)
        .kernel(7, "b", (30, 5), 2);
    // Two activities are queued at 10, so b is not delayed by its launch; a ends after that launch.
    assert!(trace.solve().edges.contains(&"a) (b delay 15".to_owned()));
}

#[test]
fn kernel_of_an_unknown_launch_follows_the_previous_kernel() {
    let mut trace = Trace::default();
    trace
        .call(0, "cuLaunchKernelEx", (0, 5), 1)
        .call(0, "cuLaunchKernelEx", (50, 5), 2)
        .kernel(7, "a", (10, 5), 1)
        .kernel(7, "b", (60, 5), 2);
    let edges = trace.solve().edges;
    assert!(!edges.iter().any(|edge| edge.contains("launch")), "{edges:?}");
    assert!(edges.contains(&"a) (b delay 45".to_owned()));
}

#[test]
fn cuda_graph_keeps_only_its_last_kernel() {
    let mut trace = Trace::default();
    trace.call(0, "cudaGraphLaunch", (0, 5), 1).kernel(7, "a", (10, 5), 1).kernel(
        7,
        "b",
        (20, 5),
        1,
    );
    let edges = trace.solve().edges;
    assert!(edges.contains(&"(b b) b 5".to_owned()));
    assert!(!edges.iter().any(|edge| edge.contains("(a")));
}

#[test]
fn recorded_events_delay_streams_and_the_host() {
    let mut trace = Trace::default();
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .call(0, "cudaEventRecord", (6, 1), 2)
        .call(0, "cudaStreamWaitEvent", (8, 1), 3)
        .call(0, "cudaLaunchKernel", (10, 5), 4)
        .call(0, "cudaEventSynchronize", (20, 190), 5)
        .kernel(7, "a", (10, 100), 1)
        .sync(8, "Stream Wait Event", (9, 1), 3, Some((7, 2)))
        .kernel(8, "b", (120, 50), 4)
        .sync(NONE, "Event Sync", (20, 180), 5, Some((7, 2)));
    let edges = trace.solve().edges;
    assert!(edges.contains(&"a) (b sync 0".to_owned()), "{edges:?}");
    assert!(edges.contains(&"a) cudaEventSynchronize) sync 0".to_owned()), "{edges:?}");
    assert!(
        !edges.iter().any(|edge| edge.contains("(b launch")),
        "delayed by a, not by its launch"
    );
}

#[test]
fn context_sync_waits_for_all_streams() {
    let mut trace = Trace::default();
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .call(0, "cudaLaunchKernel", (6, 5), 2)
        .call(0, "cudaDeviceSynchronize", (20, 100), 3)
        .kernel(7, "a", (10, 50), 1)
        .kernel(8, "b", (12, 60), 2)
        .sync(NONE, "Context Sync", (20, 90), 3, None);
    let edges = trace.solve().edges;
    let waits = |edge: &&String| edge.ends_with("cudaDeviceSynchronize) sync 0");
    assert_eq!(edges.iter().filter(waits).count(), 2, "{edges:?}");
}

#[test]
fn cut_drops_later_calls_and_their_activities() {
    let mut trace = Trace { cut_ns: Some(100), ..Trace::default() };
    trace
        .call(0, "cudaLaunchKernel", (0, 5), 1)
        .call(0, "cudaLaunchKernel", (100, 5), 2)
        .kernel(7, "a", (110, 5), 1)
        .kernel(7, "b", (120, 5), 2);
    let edges = trace.solve().edges;
    assert!(edges.contains(&"(a a) a 5".to_owned()), "launched before the cut");
    assert!(!edges.iter().any(|edge| edge.contains("(b")));
}

#[test]
fn extent_follows_the_order_of_the_frame() {
    let mut trace = Trace::default();
    trace.range(0, "step", (0, 10)).kernel(7, "step kernel", (5, 1), 1).range(0, "step", (20, 10));
    let is_selected = [true; 3];
    let frame = Frame::new(trace.events.clone(), None);
    assert_eq!(frame.extent(&is_selected, &(1..=1)), Some((5, 6)));
    assert_eq!(frame.extent(&is_selected, &(2..=2)), Some((20, 30)));
    assert_eq!(frame.extent(&is_selected, &(0..=1)), Some((0, 10)));
    assert_eq!(frame.extent(&is_selected, &(1..=9)), Some((5, 30)));
    assert_eq!(frame.extent(&is_selected, &(3..=3)), None);
    // With a cut, HTA lists device rows first.
    trace.call(0, "cudaLaunchKernel", (1, 1), 1);
    let frame = Frame::new(trace.events.clone(), Some(50));
    assert_eq!(frame.extent(&is_selected, &(0..=0)), Some((5, 6)));
}

#[test]
fn clip_keeps_events_that_start_in_the_region_and_their_activities() {
    let mut trace = Trace::default();
    trace
        .op(0, "before", (0, 15))
        .call(0, "cudaLaunchKernel", (20, 5), 1)
        .op(0, "at the end", (30, 15))
        .kernel(7, "k", (40, 5), 1);
    let edges = trace.solve_in((10, 30)).edges;
    assert!(!edges.iter().any(|edge| edge.contains("before")));
    assert!(edges.contains(&"(at the end at the end) at the end 15".to_owned()));
    assert!(edges.contains(&"(k k) k 5".to_owned()));
}

/// Adds calls that nest properly, with the drawn gaps, lengths and depths. Returns their total duration.
fn nested(trace: &mut Trace, lane: u32, drawn: &[(u8, u8, bool)]) -> i64 {
    let mut now = 0;
    let mut total = 0;
    for (i, &(gap, length, inner)) in drawn.iter().enumerate() {
        now += i64::from(gap);
        let length = i64::from(length) + 3;
        trace.op(lane, &format!("{lane}.{i}"), (now, length));
        if inner {
            trace.op(lane, &format!("{lane}.{i} inner"), (now + 1, length - 2));
        }
        now += length;
        total += length;
    }
    total
}

proptest! {
    #[test]
    fn path_is_at_least_as_long_as_any_thread_or_kernel(
        threads in prop::collection::vec(
            prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 0..20), 1..4),
        kernels in prop::collection::vec((0_i64..3, 0_i64..2_000, 1_i64..500), 0..20),
    ) {
        let mut trace = Trace::default();
        let mut longest = 0;
        for (lane, drawn) in threads.iter().enumerate() {
            longest = longest.max(nested(&mut trace, lane as u32, drawn));
        }
        for (i, &(stream, ts_ns, dur_ns)) in kernels.iter().enumerate() {
            let correlation = i as i64 + 1;
            trace.call(5, "cudaLaunchKernel", (ts_ns, 1), correlation);
            trace.kernel(stream, "k", (ts_ns + 10, dur_ns), correlation);
            longest = longest.max(dur_ns);
        }
        let solved = trace.solve();
        prop_assert!(solved.path_ns.unwrap() >= longest, "{solved:?}");
    }

    /// Every trace gives a path, or none because of a cycle.
    #[test]
    fn solve_handles_arbitrary_traces(
        events in prop::collection::vec(
            (0_usize..12, 0_u32..3, 0_i64..50, 0_i64..20, -1_i64..6, -1_i64..3), 0..60),
        cut in prop::option::of(0_i64..50),
    ) {
        const NAMES: [&str; 12] = [
            "op", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent",
            "cudaStreamSynchronize", "kernel", "kernel", "Event Sync", "Context Sync", "Stream Sync",
            "Stream Wait Event",
        ];
        let mut trace = Trace { cut_ns: cut, ..Trace::default() };
        for (what, lane, ts_ns, dur_ns, correlation, stream) in events {
            let (name, at) = (NAMES[what], (ts_ns, dur_ns));
            match what {
                0..6 => trace.call(lane, name, at, correlation),
                6..8 => trace.kernel(stream.max(0), name, at, correlation),
                _ => trace.sync(stream, name, at, correlation, Some((stream, correlation - 1))),
            };
        }
        let solved = trace.solve();
        prop_assert_eq!(solved.path.is_some(), solved.path_ns.is_some());
    }
}
