//! Checks forests against the definition of their totals, on small trees by hand and on random ones.

use super::forest::{Activity, CallForest, EventKind, ForestEvent, NodeTotals};

fn event(id: i64, parent: Option<i64>, kind: EventKind, ts_ns: i64, end_ns: i64) -> ForestEvent {
    ForestEvent { id, parent, ts_ns, end_ns, kind, row: id as u32 }
}

fn launched(launch: i64, dur_ns: i64) -> Activity {
    Activity { launch: Some(launch), op: None, dur_ns }
}

fn totals_of(forest: &CallForest, id: i64) -> NodeTotals {
    forest.totals[forest.events.iter().position(|e| e.id == id).unwrap()]
}

#[test]
fn host_self_excludes_launches_and_looks_through_frames() {
    let forest = CallForest::new(
        vec![
            event(1, None, EventKind::Operator, 0, 100),
            event(2, Some(1), EventKind::Frame, 10, 60),
            event(3, Some(2), EventKind::Operator, 20, 50),
            event(4, Some(3), EventKind::Launch, 25, 30),
            // Part of the launch around it.
            event(5, Some(4), EventKind::Launch, 26, 28),
            event(6, Some(1), EventKind::Launch, 70, 80),
        ],
        &[launched(4, 7), launched(5, 2), launched(6, 11), launched(99, 1000)],
    );
    let outer =
        NodeTotals { host_self_ns: 60, launch_count: 1, device_self_ns: 11, device_total_ns: 20 };
    let inner =
        NodeTotals { host_self_ns: 25, launch_count: 2, device_self_ns: 9, device_total_ns: 9 };
    assert_eq!(totals_of(&forest, 1), outer);
    assert_eq!(totals_of(&forest, 3), inner);
}

#[test]
fn activities_outside_operators_count_for_the_operator_they_name() {
    let events = vec![
        event(1, None, EventKind::Operator, 0, 10),
        event(2, None, EventKind::Module, 20, 90),
        event(3, Some(2), EventKind::Launch, 30, 40),
        event(4, Some(2), EventKind::Launch, 50, 60),
    ];
    let work = [
        Activity { launch: Some(3), op: Some(1), dur_ns: 5 },
        Activity { launch: Some(4), op: None, dur_ns: 3 },
        Activity { launch: None, op: Some(1), dur_ns: 2 },
        Activity { launch: None, op: None, dur_ns: 100 },
    ];
    let forest = CallForest::new(events, &work);
    assert_eq!(totals_of(&forest, 1).device_total_ns, 7);
    assert_eq!(totals_of(&forest, 2).device_total_ns, 3);
    assert_eq!(totals_of(&forest, 2).host_self_ns, 50);
}

#[test]
fn merge_dispatch_chains_merges_only_single_children_of_one_name() {
    let forest = CallForest::new(
        vec![
            event(1, None, EventKind::Operator, 0, 100),
            event(2, Some(1), EventKind::Operator, 1, 90),
            event(3, Some(2), EventKind::Operator, 2, 80),
            event(4, None, EventKind::Operator, 200, 300),
            event(5, Some(4), EventKind::Operator, 201, 210),
            event(6, Some(4), EventKind::Operator, 211, 220),
        ],
        &[],
    );
    assert_eq!(forest.merge_dispatch_chains(|_, _| true), [0, 0, 0, 3, 4, 5]);
    assert_eq!(forest.merge_dispatch_chains(|_, _| false), [0, 1, 2, 3, 4, 5]);
    assert_eq!(forest.merge_dispatch_chains(|a, b| (a, b) == (1, 2)), [0, 1, 1, 3, 4, 5]);
}

const KINDS: [EventKind; 6] = [
    EventKind::Operator,
    EventKind::Operator,
    EventKind::Module,
    EventKind::Range,
    EventKind::Launch,
    EventKind::Frame,
];

#[test]
fn totals_agree_with_brute_force_on_random_forests() {
    let mut seed = 11_u64;
    let mut random = |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as i64) % below
    };
    for _ in 0..300 {
        let mut events = vec![event(0, None, EventKind::Other, 0, 10_000)];
        for _ in 0..random(40) {
            // Somewhere inside any earlier event.
            let id = events.len() as i64;
            let around = events[random(id) as usize];
            let length = around.end_ns - around.ts_ns;
            if length < 4 {
                continue;
            }
            let ts_ns = around.ts_ns + 1 + random(length / 2);
            let end_ns = ts_ns + 1 + random(around.end_ns - ts_ns);
            events.push(event(id, Some(around.id), KINDS[random(6) as usize], ts_ns, end_ns));
        }
        let work: Vec<Activity> = (0..random(20))
            .map(|_| launched(random(events.len() as i64), 1 + random(50)))
            .collect();
        let forest = CallForest::new(events.clone(), &work);
        let is_node = |e: &ForestEvent| {
            matches!(e.kind, EventKind::Operator | EventKind::Module | EventKind::Range)
        };
        let parent = |e: &ForestEvent| e.parent.map(|id| events[id as usize]);
        let node_around = |e: &ForestEvent| {
            let mut next = parent(e);
            while let Some(around) = next.filter(|around| !is_node(around)) {
                next = parent(&around);
            }
            next.map(|around| around.id)
        };
        let in_launch = |e: &ForestEvent| {
            let mut next = parent(e);
            while let Some(around) = next.filter(|around| !is_node(around)) {
                if around.kind == EventKind::Launch {
                    return true;
                }
                next = parent(&around);
            }
            false
        };
        let node_of = |work: &Activity| {
            let by = events[work.launch.unwrap() as usize];
            if is_node(&by) { Some(by.id) } else { node_around(&by) }
        };
        let is_inside = |mut id: i64, of: i64| loop {
            if id == of {
                return true;
            }
            match events[id as usize].parent {
                Some(parent) => id = parent,
                None => return false,
            }
        };
        for node in events.iter().filter(|e| is_node(e)) {
            let taken: i64 = events
                .iter()
                .filter(|e| node_around(e) == Some(node.id))
                .filter(|e| is_node(e) || (e.kind == EventKind::Launch && !in_launch(e)))
                .map(|e| e.end_ns.min(node.end_ns) - e.ts_ns)
                .sum();
            let own: Vec<i64> = work
                .iter()
                .filter(|work| node_of(work) == Some(node.id))
                .map(|work| work.dur_ns)
                .collect();
            let total: i64 = work
                .iter()
                .filter(|work| node_of(work).is_some_and(|by| is_inside(by, node.id)))
                .map(|work| work.dur_ns)
                .sum();
            let expected = NodeTotals {
                host_self_ns: node.end_ns - node.ts_ns - taken,
                launch_count: own.len() as i64,
                device_self_ns: own.iter().sum(),
                device_total_ns: total,
            };
            assert_eq!(totals_of(&forest, node.id), expected);
        }
    }
}
