//! Forests against the definition, on trees small enough to check by eye and on random ones.

use super::forest::{Event, Forest, Kind, Sums, Work};
use super::modules::{Backward, OpFacts, find};
use super::stacks::{Frame, Stacks};

fn event(id: i64, parent: Option<i64>, kind: Kind, ts_ns: i64, end_ns: i64) -> Event {
    Event { id, parent, ts_ns, end_ns, kind, row: id as u32 }
}

fn launched(launch: i64, dur_ns: i64) -> Work {
    Work { launch: Some(launch), op: None, dur_ns }
}

fn sums_of(forest: &Forest, id: i64) -> Sums {
    forest.sums[forest.events.iter().position(|e| e.id == id).unwrap()]
}

#[test]
fn frames_are_seen_through_and_launches_are_taken_off() {
    let forest = Forest::new(
        vec![
            event(1, None, Kind::Operator, 0, 100),
            event(2, Some(1), Kind::Frame, 10, 60),
            event(3, Some(2), Kind::Operator, 20, 50),
            event(4, Some(3), Kind::Launch, 25, 30),
            // part of the launch around it
            event(5, Some(4), Kind::Launch, 26, 28),
            event(6, Some(1), Kind::Launch, 70, 80),
        ],
        &[launched(4, 7), launched(5, 2), launched(6, 11), launched(99, 1000)],
    );
    let outer = Sums { host_self_ns: 60, launch_count: 1, device_self_ns: 11, device_total_ns: 20 };
    let inner = Sums { host_self_ns: 25, launch_count: 2, device_self_ns: 9, device_total_ns: 9 };
    assert_eq!(sums_of(&forest, 1), outer);
    assert_eq!(sums_of(&forest, 3), inner);
}

#[test]
fn a_launch_outside_operators_counts_for_the_one_it_names() {
    let events = vec![
        event(1, None, Kind::Operator, 0, 10),
        event(2, None, Kind::Module, 20, 90),
        event(3, Some(2), Kind::Launch, 30, 40),
        event(4, Some(2), Kind::Launch, 50, 60),
    ];
    let work = [
        Work { launch: Some(3), op: Some(1), dur_ns: 5 },
        Work { launch: Some(4), op: None, dur_ns: 3 },
        Work { launch: None, op: Some(1), dur_ns: 2 },
        Work { launch: None, op: None, dur_ns: 100 },
    ];
    let forest = Forest::new(events, &work);
    assert_eq!(sums_of(&forest, 1).device_total_ns, 7);
    assert_eq!(sums_of(&forest, 2).device_total_ns, 3);
    assert_eq!(sums_of(&forest, 2).host_self_ns, 50);
}

#[test]
fn only_chains_of_one_name_merge() {
    let forest = Forest::new(
        vec![
            event(1, None, Kind::Operator, 0, 100),
            event(2, Some(1), Kind::Operator, 1, 90),
            event(3, Some(2), Kind::Operator, 2, 80),
            event(4, None, Kind::Operator, 200, 300),
            event(5, Some(4), Kind::Operator, 201, 210),
            event(6, Some(4), Kind::Operator, 211, 220),
        ],
        &[],
    );
    assert_eq!(forest.merged(|_, _| true), [0, 0, 0, 3, 4, 5]);
    assert_eq!(forest.merged(|_, _| false), [0, 1, 2, 3, 4, 5]);
    assert_eq!(forest.merged(|a, b| (a, b) == (1, 2)), [0, 1, 1, 3, 4, 5]);
}

#[test]
fn backward_operators_count_for_the_module_of_their_forward_operator() {
    let forest = Forest::new(
        vec![
            event(1, None, Kind::Module, 0, 100),
            event(2, Some(1), Kind::Module, 10, 50),
            event(3, Some(2), Kind::Operator, 20, 30),
            event(4, Some(1), Kind::Operator, 60, 70),
            // backward, on another thread: each holds an operator that is linked too
            event(10, None, Kind::Operator, 200, 220),
            event(11, Some(10), Kind::Operator, 205, 215),
            event(12, Some(11), Kind::Launch, 206, 208),
            event(13, None, Kind::Operator, 230, 260),
            event(14, None, Kind::Operator, 270, 275),
            event(15, None, Kind::Operator, 280, 300),
        ],
        &[launched(12, 40)],
    );
    let facts = |event: &Event| OpFacts {
        thread: i64::from(event.id >= 10),
        forward_op: match event.id {
            10 | 11 => Some(4),
            13 => Some(3),
            _ => None,
        },
        accumulates: event.id == 14,
    };
    let calls = find(&forest, facts);
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[1].parent, calls[1].depth), (Some(0), 1));
    assert_eq!(calls.iter().map(|c| c.operator_count).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(calls[0].backward, Some(Backward { host_ns: 55, device_ns: 40 }));
    assert_eq!(calls[1].backward, Some(Backward { host_ns: 35, device_ns: 0 }));

    let unlinked = |_: &Event| OpFacts { thread: 0, forward_op: None, accumulates: true };
    assert!(find(&forest, unlinked).iter().all(|call| call.backward.is_none()));
}

#[test]
fn a_stack_reads_from_the_inside_out() {
    let mut stacks = Stacks::default();
    let main = stacks.enter(None, Frame::Call(0));
    let inner = stacks.enter(Some(main), Frame::Call(1));
    assert_eq!(stacks.enter(Some(main), Frame::Call(1)), inner);
    assert_ne!(stacks.enter(None, Frame::Call(1)), inner);
    let names = ["main", "step"];
    let text = |frame| match frame {
        Frame::Call(name) | Frame::Stack(name) => names[name as usize],
    };
    assert_eq!(stacks.text(inner, text), "step;main");
}

const KINDS: [Kind; 6] =
    [Kind::Operator, Kind::Operator, Kind::Module, Kind::Range, Kind::Launch, Kind::Frame];

/// Against the definitions, on forests of any shape.
#[test]
fn sums_are_what_the_definitions_say() {
    let mut seed = 11_u64;
    let mut random = |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as i64) % below
    };
    for _ in 0..300 {
        let mut events = vec![event(0, None, Kind::Other, 0, 10_000)];
        for _ in 0..random(40) {
            // Inside any event before, somewhere.
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
        let work: Vec<Work> = (0..random(20))
            .map(|_| launched(random(events.len() as i64), 1 + random(50)))
            .collect();
        let forest = Forest::new(events.clone(), &work);
        let is_node = |e: &Event| matches!(e.kind, Kind::Operator | Kind::Module | Kind::Range);
        let parent = |e: &Event| e.parent.map(|id| events[id as usize]);
        let node_around = |e: &Event| {
            let mut next = parent(e);
            while let Some(around) = next.filter(|around| !is_node(around)) {
                next = parent(&around);
            }
            next.map(|around| around.id)
        };
        let in_launch = |e: &Event| {
            let mut next = parent(e);
            while let Some(around) = next.filter(|around| !is_node(around)) {
                if around.kind == Kind::Launch {
                    return true;
                }
                next = parent(&around);
            }
            false
        };
        let node_of = |work: &Work| {
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
                .filter(|e| is_node(e) || (e.kind == Kind::Launch && !in_launch(e)))
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
            let expected = Sums {
                host_self_ns: node.end_ns - node.ts_ns - taken,
                launch_count: own.len() as i64,
                device_self_ns: own.iter().sum(),
                device_total_ns: total,
            };
            assert_eq!(sums_of(&forest, node.id), expected);
        }
    }
}
