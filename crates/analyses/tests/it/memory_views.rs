//! Memory views on tiny runs: expectations worked out by hand, and a naive model on random ones.

use std::collections::{BTreeMap, BTreeSet};

use query::{Params, Session};
use trace_model::Value;
use trace_model::column::NULL_I64;

use crate::support::{Run, rows, table};

const CUDA: (i32, i32) = (1, 0);
const HIP: (i32, i32) = (6, 0);
const HOST: (i32, i32) = (0, -1);

#[test]
fn memory_is_named_by_type_and_ordinal() {
    let mut run = Run::default();
    run.rank(0);
    for (i, memory) in [HOST, CUDA, (1, 3), HIP, (12, 0), (77, 1)].into_iter().enumerate() {
        run.memory_event(0, memory, i as i64, 8, 16, Some((16, 32)));
    }
    assert_eq!(
        rows(
            &run.open(),
            "memory_summary",
            &["memory", "device", "peak_allocated_bytes", "peak_reserved_bytes"]
        ),
        [
            "cpu -1 16 -",
            "cuda:0 0 16 32",
            "cuda:3 3 16 32",
            "hip:0 0 16 32",
            "type 77:1 1 16 32",
            "xpu:0 0 16 32"
        ]
    );
}

/// The plugin keys pieces by address alone: it would pair the two.
#[test]
fn memory_addresses_are_matched_per_device() {
    let mut run = Run::default();
    run.rank(0)
        .memory_event(0, CUDA, 1, 8, 100, Some((100, 200)))
        .memory_event(0, (1, 1), 2, 8, 50, Some((50, 200)))
        .memory_event(0, (1, 1), 3, 8, -50, Some((0, 200)));
    assert_eq!(
        rows(&run.open(), "memory_allocations", &["memory", "bytes", "ts_ns", "release_ts_ns"]),
        ["cuda:0 100 1 -", "cuda:1 50 2 3"]
    );
}

#[test]
fn memory_events_without_partner_stand_alone() {
    let mut run = Run::default();
    run.rank(0)
        // A release of what was there before, a piece, its second release, the address used again.
        .memory_event(0, CUDA, 1, 8, -30, Some((70, 200)))
        .memory_event(0, CUDA, 2, 8, 10, Some((80, 200)))
        .memory_event(0, CUDA, 3, 8, -10, Some((70, 200)))
        .memory_event(0, CUDA, 4, 8, -10, Some((70, 200)))
        .memory_event(0, CUDA, 5, 8, 20, Some((90, 200)))
        // Allocated again without a release.
        .memory_event(0, CUDA, 6, 8, 5, Some((75, 200)))
        // Without an address nothing is paired.
        .memory_event(0, CUDA, 7, NULL_I64, 1, Some((76, 200)))
        .memory_event(0, CUDA, 8, NULL_I64, -1, Some((75, 200)));
    let columns = ["position", "bytes", "ts_ns", "release_ts_ns", "dur_ns", "end_position"];
    assert_eq!(
        rows(&run.open(), "memory_allocations", &columns),
        [
            "1 30 - 1 - 1",
            "2 10 2 3 1 3",
            "4 10 - 4 - 4",
            "5 20 5 - - 6",
            "6 5 6 - - -",
            "7 1 7 - - -",
            "8 1 - 8 - 8"
        ]
    );
}

#[test]
fn memory_events_are_ordered_by_time_then_file() {
    let mut run = Run::default();
    run.rank(0)
        .memory_event(0, CUDA, 9, 8, -10, Some((0, 64)))
        .memory_event(0, CUDA, 5, 8, 10, Some((10, 64)))
        .memory_event(0, CUDA, 5, 16, 20, Some((30, 64)))
        .memory_event(0, CUDA, 7, 16, -20, Some((10, 64)));
    let session = run.open();
    assert_eq!(
        rows(&session, "memory_curve", &["ts_ns", "allocated_bytes", "change_bytes"]),
        ["5 10 10", "5 30 30", "7 10 10", "9 0 0"]
    );
    assert_eq!(
        rows(
            &session,
            "memory_summary",
            &["start_bytes", "end_bytes", "peak_ts_ns", "peak_position"]
        ),
        ["0 0 5 2"]
    );
}

/// The allocator of the host does not count files mapped into memory; their events say 0. The
/// plugin's curve falls to 0 at each of them.
#[test]
fn mapped_memory_is_not_part_of_the_heap() {
    let mut run = Run::default();
    run.rank(0)
        .memory_event(0, HOST, 1, 8, -30, Some((0, 0)))
        .memory_event(0, HOST, 2, 16, 100, Some((100, 0)))
        .memory_event(0, HOST, 3, 24, 50, Some((0, 50)))
        .memory_event(0, HOST, 4, 24, -50, Some((0, 0)))
        .memory_event(0, HOST, 5, 32, 10, Some((110, 0)))
        .memory_event(0, HOST, 6, 32, -10, Some((100, 0)))
        // This one is the heap's: it takes all that was left.
        .memory_event(0, HOST, 7, 16, -100, Some((0, 0)));
    assert_eq!(
        rows(&run.open(), "memory_curve", &["memory", "ts_ns", "allocated_bytes", "change_bytes"]),
        [
            "cpu 2 100 100",
            "cpu 5 110 110",
            "cpu 6 100 100",
            "cpu 7 0 0",
            "cpu mapped 1 - -30",
            "cpu mapped 3 - 20",
            "cpu mapped 4 - -30"
        ]
    );
}

/// torch 1.9 and older: neither address nor totals.
#[test]
fn memory_curve_is_absent_without_totals() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 10, true);
    run.memory_event(0, CUDA, 1, NULL_I64, 10, None).memory_in_step(1);
    run.memory_event(0, CUDA, 2, NULL_I64, 20, None).memory_in_step(1);
    run.memory_event(0, CUDA, 3, NULL_I64, -10, None).memory_in_step(1);
    let session = run.open();
    assert_eq!(
        rows(&session, "memory_curve", &["allocated_bytes", "reserved_bytes", "change_bytes"]),
        ["- - 10", "- - 30", "- - 20"]
    );
    let columns =
        ["start_bytes", "peak_allocated_bytes", "peak_change_bytes", "peak_ts_ns", "change_bytes"];
    assert_eq!(rows(&session, "memory_summary", &columns), ["- - 30 2 20"]);
    let columns = ["start_bytes", "end_bytes", "peak_bytes", "net_bytes", "end_change_bytes"];
    assert_eq!(rows(&session, "memory_by_step", &columns), ["- - - 20 20"]);
    for view in ["memory_peak", "memory_peak_holders", "memory_fragmentation"] {
        assert_eq!(rows(&session, view, &["memory"]), [""; 0], "{view}");
    }
}

#[test]
fn memory_by_op_includes_nested_operators() {
    let mut run = Run::default();
    run.rank(0).op(0, "outer", 0, 100);
    let outer = run.last_op();
    run.op(0, "inner", 10, 20).at_depth(1);
    let inner = run.last_op();
    run.op(0, "inner", 60, 20).at_depth(1).op(0, "idle", 200, 10);
    run.memory_event(0, CUDA, 0, 8, 1, None).memory_in_op(outer, "outer");
    run.memory_event(0, CUDA, 10, 16, 10, None).memory_in_op(inner, "inner");
    // At the end of a call, its caller is at work.
    run.memory_event(0, CUDA, 30, 16, -10, None).memory_in_op(outer, "outer");
    run.memory_event(0, CUDA, 99, 16, 100, None).memory_in_op(outer, "outer");
    run.memory_event(0, CUDA, 100, 16, -100, None);
    let columns = [
        "place",
        "name",
        "call_count",
        "memory_call_count",
        "increase_bytes",
        "self_increase_bytes",
        "allocation_count",
        "self_allocation_count",
        "allocated_bytes",
        "self_allocated_bytes",
    ];
    assert_eq!(
        rows(&run.open(), "memory_by_op", &columns),
        ["1 outer 1 1 101 91 3 2 111 101", "2 inner 2 1 10 10 1 1 10 10"]
    );
}

#[test]
fn memory_curve_keeps_peaks_when_thinned() {
    let mut run = Run::default();
    run.rank(0);
    let mut level = 0;
    for i in 0..1_000 {
        // One peak and one low, each a single event among a thousand.
        let bytes = match i {
            500 => 9_000,
            501 => -9_000,
            _ if i % 2 == 0 => 10,
            _ => -10,
        };
        level += bytes;
        run.memory_event(0, CUDA, i, 8 + i, bytes, Some((level, 10_000 + i / 300)));
    }
    let mut params = Params::default();
    params.set("memory_curve_points", 40_i64);
    let session = run.open_with(&params);
    let curve = rows(&session, "memory_curve", &["ts_ns", "allocated_bytes"]);
    assert!((20..=44).contains(&curve.len()), "{} points", curve.len());
    assert!(curve.contains(&"500 9000".to_owned()));
    assert_eq!(curve.last().unwrap(), "999 0");
    assert!(rows(&session, "memory_curve", &["reserved_bytes"]).contains(&"10003".to_owned()));
}

#[test]
fn memory_by_step_starts_at_the_current_level() {
    let mut run = Run::default();
    run.rank(0).step(0, 7, 10, 10, false).step(0, 8, 20, 10, false).step(0, 9, 30, 10, true);
    run.memory_event(0, CUDA, 12, 8, 50, Some((150, 500))).memory_in_step(7);
    run.memory_event(0, CUDA, 14, 8, -50, Some((100, 500))).memory_in_step(7);
    // At the end of step 7: it is the next one's.
    run.memory_event(0, CUDA, 20, 8, 5, Some((105, 500))).memory_in_step(8);
    let columns = [
        "step",
        "start_bytes",
        "end_bytes",
        "peak_bytes",
        "net_bytes",
        "allocation_count",
        "allocation_bytes",
        "release_count",
    ];
    assert_eq!(
        rows(&run.open(), "memory_by_step", &columns),
        ["7 100 100 150 0 1 50 1", "8 100 105 105 5 1 5 0", "9 105 105 105 0 0 0 0"]
    );
}

/// Steps of 100 ns. Each allocates and frees a batch, and keeps something: for ever, or for a step.
fn training(steps: i64, leak: i64) -> Run {
    let mut run = Run::default();
    run.rank(0).device(0, 1_000_000);
    let mut level = 1_000;
    let mut event =
        |run: &mut Run, step: i64, offset: i64, address: i64, bytes: i64, name: &str| {
            level += bytes;
            let ts_ns = step * 100 + offset;
            run.memory_event(0, CUDA, ts_ns, address, bytes, Some((level, 500_000)))
                .memory_in_step(step)
                .memory_in_op(1, name);
        };
    for step in 0..steps {
        run.step(0, step, step * 100, 100, step + 1 == steps);
        event(&mut run, step, 10, 8, 300, "aten::mm");
        // Memory that one step allocates and the next one frees, such as gradients.
        if step > 0 {
            event(&mut run, step, 20, 16 + step - 1, -70, "aten::zero_");
        }
        event(&mut run, step, 30, 16 + step, 70, "aten::mul");
        if leak > 0 {
            event(&mut run, step, 40, 1_000 + step, leak, "aten::stack");
        }
        event(&mut run, step, 50, 8, -300, "aten::mm");
    }
    run
}

#[test]
fn memory_leak_names_its_operator() {
    let columns = [
        "step_count",
        "growth_bytes",
        "growth_per_step_bytes",
        "rise_count",
        "rise_ratio",
        "steps_to_full_count",
        "top_op_name",
        "top_bytes",
    ];
    let session = training(6, 10).open();
    assert_eq!(rows(&session, "memory_growth", &columns), ["6 50 10 5 1 99857 aten::stack 40"]);
    let columns = ["op_name", "step_count", "allocation_count", "bytes", "live_bytes"];
    assert_eq!(rows(&session, "memory_retained", &columns), ["aten::stack 4 4 40 40"]);
}

#[test]
fn memory_growth_of_a_steady_run_is_zero() {
    let session = training(6, 0).open();
    let columns = ["growth_bytes", "rise_ratio", "steps_to_full_count", "top_op_name"];
    assert_eq!(rows(&session, "memory_growth", &columns), ["0 0 - -"]);
    assert_eq!(rows(&session, "memory_retained", &["op_name"]), [""; 0]);
}

#[test]
fn memory_fragmentation_is_reserved_unused_at_the_peak() {
    let mut run = Run::default();
    run.rank(0)
        .device(0, 1_000)
        .memory_event(0, CUDA, 0, 8, 100, Some((100, 200)))
        .memory_event(0, CUDA, 10, 16, 200, Some((300, 400)))
        .memory_event(0, CUDA, 20, 16, -200, Some((100, 400)))
        .memory_event(0, CUDA, 30, 8, -100, Some((0, 300)))
        // The host reserves nothing.
        .memory_event(0, HOST, 1, 8, 100, Some((100, 0)));
    let columns = [
        "memory",
        "unused_at_peak_bytes",
        "fragmentation_ratio",
        "mean_fragmentation_ratio",
        "unused_ratio",
        "reserve_growth_count",
        "reserve_growth_bytes",
        "reserve_return_count",
        "reserve_return_bytes",
    ];
    // Over time: (100 + 100 + 300) * 10 of (200 + 400 + 400) * 10.
    assert_eq!(
        rows(&run.open(), "memory_fragmentation", &columns),
        ["cuda:0 100 0.25 0.5 0.1 1 200 1 100"]
    );
}

/// Random allocations and releases on two devices of many ranks, right and wrong, against a walk
/// through them.
#[test]
fn memory_allocations_and_holders_match_brute_force() {
    let mut random = Random(1);
    let mut run = Run::default();
    let mut events: BTreeMap<(i64, i64), Vec<Event>> = BTreeMap::new();
    for rank in 0..60 {
        run.rank(rank);
        let mut totals = [random.below(500), random.below(500)];
        for ts in 0..random.below(120) {
            let device = random.below(2);
            let total = &mut totals[device as usize];
            let size = 1 + random.below(50);
            let bytes = if random.below(3) == 0 { -size } else { size };
            *total += bytes;
            // Some totals do not follow from the events.
            *total += if random.below(20) == 0 { random.below(7) } else { 0 };
            // Equal moments: the order of the file decides.
            let event = (ts / 2, 8 + random.below(12), bytes, *total);
            let totals = Some((*total, 9_999));
            run.memory_event(rank, (1, device as i32), event.0, event.1, bytes, totals);
            events.entry((i64::from(rank), device)).or_default().push(event);
        }
    }
    let session = run.open();
    let pieces = numbers(&session, "memory_allocations", &["ts_ns", "release_ts_ns", "bytes"]);
    let mut held = table(&session, "memory_peak_holders");
    let [rank, device, origin, bytes] =
        ["rank", "device", "origin", "bytes"].map(|column| held.index(column).unwrap());
    let mut sums: BTreeMap<(i64, i64), BTreeMap<String, i64>> = BTreeMap::new();
    for row in held.rows.drain(..) {
        let [Value::Int(rank), Value::Int(device), Value::Text(origin), Value::Int(bytes)] =
            [&row[rank], &row[device], &row[origin], &row[bytes]]
        else {
            panic!("{row:?}")
        };
        *sums.entry((*rank, *device)).or_default().entry(origin.clone()).or_default() += bytes;
    }
    assert!(events.len() > 100);
    for (of, events) in events {
        let expected = walk(&events);
        assert_eq!(pieces[&of], expected.pieces, "{of:?}");
        let sum =
            |origin: &str| sums.get(&of).and_then(|sums| sums.get(origin)).copied().unwrap_or(0);
        assert_eq!(sum("recorded"), expected.held, "{of:?}");
        assert_eq!(sum("before the recording"), expected.before, "{of:?}");
        let all: i64 = sums.get(&of).map_or(0, |sums| sums.values().sum());
        assert_eq!(all, expected.peak, "{of:?}");
    }
}

/// When, address, bytes, total.
type Event = (i64, i64, i64, i64);

/// Columns of a view by rank and device.
fn numbers(
    session: &Session,
    view: &str,
    columns: &[&str],
) -> BTreeMap<(i64, i64), Vec<Vec<Option<i64>>>> {
    let table = table(session, view);
    let number = |value: &Value| value.as_f64().map(|v| v as i64);
    let of = |row: &[Value], column: &str| number(&row[table.index(column).unwrap()]);
    let mut found: BTreeMap<(i64, i64), Vec<Vec<Option<i64>>>> = BTreeMap::new();
    for row in &table.rows {
        let key = (of(row, "rank").unwrap(), of(row, "device").unwrap());
        found.entry(key).or_default().push(columns.iter().map(|c| of(row, c)).collect());
    }
    found
}

/// The result of a brute-force walk through the events of a memory.
struct Walked {
    /// Allocated at, released at, bytes.
    pieces: Vec<Vec<Option<i64>>>,
    peak: i64,
    /// At the peak: live pieces, and what was there before.
    held: i64,
    before: i64,
}

fn walk(events: &[Event]) -> Walked {
    let peak = events.iter().map(|e| e.3).max().unwrap();
    let peak_at = events.iter().position(|e| e.3 == peak).unwrap();
    let mut walked =
        Walked { pieces: Vec::new(), peak, held: 0, before: events[0].3 - events[0].2 };
    let mut live: BTreeMap<i64, usize> = BTreeMap::new();
    for (i, &(ts, address, bytes, _)) in events.iter().enumerate() {
        if bytes > 0 {
            live.insert(address, walked.pieces.len());
            walked.pieces.push(vec![Some(ts), None, Some(bytes)]);
        } else if let Some(piece) = live.remove(&address) {
            walked.pieces[piece][1] = Some(ts);
        } else {
            walked.pieces.push(vec![None, Some(ts), Some(-bytes)]);
            if i <= peak_at {
                walked.before += bytes;
            }
        }
        if i == peak_at {
            walked.held = live.values().filter_map(|&piece| walked.pieces[piece][2]).sum();
        }
    }
    walked
}

/// Random nests of operators with random events, a rank each, against looking into each operator.
#[test]
fn memory_by_op_matches_brute_force() {
    let mut random = Random(2);
    let mut run = Run::default();
    let mut expected = Vec::new();
    for rank in 0..40 {
        run.rank(rank);
        let mut ops: Vec<(i64, i64, &str)> = Vec::new();
        nest(&mut random, 0, 200, 0, &mut ops);
        let mut ids = Vec::new();
        for &(start, dur, name) in &ops {
            run.op(rank, name, start, dur);
            ids.push(run.last_op());
        }
        let within = |op: &(i64, i64, &str), ts: i64| op.0 <= ts && ts < op.0 + op.1;
        let mut sums: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
        for _ in 0..random.below(60) {
            let (ts, size) = (random.below(220), 1 + random.below(20));
            let bytes = if random.below(2) == 0 { -size } else { size };
            run.memory_event(rank, CUDA, ts, NULL_I64, bytes, None);
            // Outer operators come first; one within another of its name adds nothing.
            let around: Vec<usize> = (0..ops.len()).filter(|&i| within(&ops[i], ts)).collect();
            for name in around.iter().map(|&i| ops[i].2).collect::<BTreeSet<_>>() {
                let sums = sums.entry(name).or_default();
                sums[0] += bytes;
                sums[2] += i64::from(bytes > 0);
            }
            if let Some(&i) = around.last() {
                run.memory_in_op(ids[i], ops[i].2);
                let sums = sums.entry(ops[i].2).or_default();
                sums[1] += bytes;
                sums[3] += bytes.max(0);
            }
        }
        expected.extend(
            sums.iter().map(|(name, [a, b, c, d])| format!("{rank} {name} {a} {b} {c} {d}")),
        );
    }
    let columns = [
        "rank",
        "name",
        "increase_bytes",
        "self_increase_bytes",
        "allocation_count",
        "self_allocated_bytes",
    ];
    let mut found = rows(&run.open(), "memory_by_op", &columns);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Operators between two moments, outer ones first.
fn nest(random: &mut Random, start: i64, end: i64, depth: usize, ops: &mut Vec<(i64, i64, &str)>) {
    let names = ["a", "b", "c", "d"];
    let mut at = start;
    while depth < 4 && at + 2 < end {
        let from = at + random.below(10);
        let to = (from + 1 + random.below(60)).min(end);
        if from < to {
            ops.push((from, to - from, names[random.below(4) as usize]));
            nest(random, from, to, depth + 1, ops);
        }
        at = to;
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }
}
