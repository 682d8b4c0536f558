//! Interval algebra in SQL against the most naive model there is: an array with one cell a nanosecond.

use proptest::prelude::*;
use query::Params;
use trace_model::{MetricTable, Value};

use crate::support::{Run, table};

/// All that is generated lies in here.
const END: usize = 120;

#[derive(Debug, Clone)]
struct Activity {
    kind: &'static str,
    ts: i64,
    dur: i64,
    launch: Option<(i64, i64)>,
}

#[derive(Debug, Clone)]
struct Wait {
    loading: bool,
    ts: i64,
    dur: i64,
}

/// Short and often equal, so that zero-length, touching and identical intervals are common.
fn span() -> impl Strategy<Value = (i64, i64)> {
    (0..100_i64, prop_oneof![Just(0), 1..4_i64, 1..20_i64])
}

fn activity() -> impl Strategy<Value = Activity> {
    let kind = prop_oneof![Just("computation"), Just("communication"), Just("memory")];
    (kind, span(), proptest::option::of((0..30_i64, 0..10_i64))).prop_map(
        |(kind, (ts, dur), launch)| {
            let launch = launch.map(|(before, length)| (ts - before, length.min(before)));
            Activity { kind, ts, dur, launch }
        },
    )
}

fn wait() -> impl Strategy<Value = Wait> {
    (any::<bool>(), span()).prop_map(|(loading, (ts, dur))| Wait { loading, ts, dur })
}

/// The number of activities that `counts` selects in each nanosecond.
fn running(activities: &[Activity], counts: impl Fn(&Activity) -> bool) -> Vec<usize> {
    let mut cells = vec![0; END];
    for a in activities.iter().filter(|a| counts(a)) {
        for cell in &mut cells[a.ts as usize..(a.ts + a.dur) as usize] {
            *cell += 1;
        }
    }
    cells
}

fn count(cells: &[usize], keep: impl Fn(usize) -> bool) -> i64 {
    cells.iter().filter(|&&c| keep(c)).count() as i64
}

fn build(activities: &[Activity], waits: &[Wait]) -> Run {
    let mut run = Run::default();
    // An operator, so that time in none is Python's.
    run.rank(0).op(0, "aten::add", 0, 0);
    for a in activities {
        run.kernel(0, a.kind, a.ts, a.dur, a.launch);
    }
    for w in waits {
        if w.loading {
            run.annotation(
                0,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                w.ts,
                w.dur,
            );
        } else {
            run.call(0, "cudaDeviceSynchronize", w.ts, w.dur);
        }
    }
    run
}

fn int(table: &MetricTable, column: &str) -> i64 {
    match table.rows.first().map(|row| &row[table.index(column).expect("a column")]) {
        Some(Value::Int(v)) => *v,
        None => 0,
        other => panic!("{column} is {other:?}"),
    }
}

/// Idle nanoseconds of one device by cause, one by one.
#[derive(Debug, Default, PartialEq)]
struct Causes {
    dataloader: i64,
    sync: i64,
    host: i64,
    device_wait: i64,
    cannot_tell: i64,
}

fn causes(activities: &[Activity], waits: &[Wait], (from, to): (i64, i64)) -> Causes {
    let mut sums = Causes::default();
    let mut busy_until = from;
    // The thread is known from its first event to its last one, and in the step if that overlaps.
    let launches = activities.iter().filter_map(|a| a.launch);
    let events = || launches.clone().chain(waits.iter().map(|w| (w.ts, w.dur)));
    let first = events().map(|(ts, _)| ts).min();
    let last = events().map(|(ts, dur)| ts + dur).max();
    let is_known = first.is_some_and(|ts| ts <= to) && last.is_some_and(|end| end >= from);
    let loading = |t: i64| waits.iter().any(|w| w.loading && w.ts <= t && t < w.ts + w.dur);
    let waiting = |t: i64| waits.iter().any(|w| !w.loading && w.ts <= t && t <= w.ts + w.dur);
    let in_wait = |t: i64| waits.iter().any(|w| !w.loading && w.ts <= t && t < w.ts + w.dur);
    let gaps: Vec<(i64, i64)> = {
        let mut until = from;
        let mut gaps: Vec<(i64, i64)> = Vec::new();
        for a in activities {
            gaps.push((until, a.ts.min(to)));
            until = until.max(a.ts + a.dur);
        }
        gaps.push((until, to));
        gaps.into_iter().filter(|(start, end)| start < end).collect()
    };
    // Without its waits, the host would be ahead by their length, less the idle time since. At this scale, waits follow each
    // other without a pause, so all that reach into gaps count once the first of them begins a gap.
    let reaches_into_gap =
        |w: &&Wait| gaps.iter().any(|&(start, end)| start <= w.ts + w.dur && end > w.ts);
    let counted: Vec<&Wait> =
        waits.iter().filter(|w| !w.loading).filter(reaches_into_gap).collect();
    let is_counted = |t: &i64| counted.iter().any(|w| w.ts <= *t && *t < w.ts + w.dur);
    let waited = (0..END as i64).filter(is_counted).count() as i64;
    let (mut lead, mut has_waited) = (0, false);
    for a in activities {
        let start = busy_until;
        busy_until = busy_until.max(a.ts + a.dur);
        let is_late = a.launch.is_some_and(|(ts, dur)| ts + dur > start) && start < a.ts.min(to);
        if is_late && waiting(start) && !has_waited {
            has_waited = true;
            lead += waited;
        }
        let mut left = if is_late && waiting(start) { lead } else { 0 };
        if is_late {
            lead = (lead - (a.ts.min(to) - start)).max(0);
        }
        for t in start..a.ts.min(to) {
            *match a.launch {
                Some((ts, dur)) if ts + dur <= start => &mut sums.device_wait,
                // Until the launch has returned, the thread may be loading.
                Some((ts, dur)) if t < ts + dur && loading(t) => &mut sums.dataloader,
                Some(_) if left > 0 => {
                    left -= 1;
                    &mut sums.sync
                }
                Some((ts, dur)) if t < ts + dur && in_wait(t) => &mut sums.sync,
                Some(_) if is_known => &mut sums.host,
                _ => &mut sums.cannot_tell,
            } += 1;
        }
    }
    // Nothing follows that the device could wait for.
    let has_calls =
        activities.iter().any(|a| a.launch.is_some()) || waits.iter().any(|w| !w.loading);
    for t in busy_until..to {
        *match () {
            () if has_calls && loading(t) => &mut sums.dataloader,
            () => &mut sums.cannot_tell,
        } += 1;
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn interval_unions_and_overlaps_match_cells(activities in prop::collection::vec(activity(), 1..30)) {
        let all = running(&activities, |_| true);
        let computing = running(&activities, |a| a.kind == "computation");
        let communicating = running(&activities, |a| a.kind == "communication");
        let first = activities.iter().map(|a| a.ts).min().unwrap();
        let last = activities.iter().map(|a| a.ts + a.dur).max().unwrap();
        let both = (0..END).filter(|&t| computing[t] > 0 && communicating[t] > 0).count() as i64;
        let busy = count(&all, |c| c > 0);

        let mut run = build(&activities, &[]);
        run.step_from("trace", 0, 0, first, last - first, true);
        let session = run.open();
        let temporal = table(&session, "gpu_temporal_breakdown");
        prop_assert_eq!(int(&temporal, "kernel_time_ns"), last - first);
        prop_assert_eq!(int(&temporal, "idle_ns"), last - first - busy);
        prop_assert_eq!(int(&temporal, "compute_ns"), count(&computing, |c| c > 0));
        let overlap = table(&session, "comm_overlap");
        prop_assert_eq!(int(&overlap, "comm_ns"), count(&communicating, |c| c > 0));
        prop_assert_eq!(int(&overlap, "overlap_ns"), both);
        // The union by running maximum, against the one by running sums.
        prop_assert_eq!(int(&table(&session, "gpu_idle_causes"), "idle_ns"), last - first - busy);
        let types = table(&session, "gpu_kernel_breakdown");
        let total: f64 = types.rows.iter().filter_map(|row| row[1].as_f64()).sum();
        prop_assert_eq!(total as i64, busy);
    }

    #[test]
    fn utilization_within_steps_matches_cells(
        activities in prop::collection::vec(activity(), 1..20),
        start in 0..50_i64,
        lengths in (1..30_i64, 1..30_i64),
    ) {
        let mut run = build(&activities, &[]);
        run.step(0, 0, start, lengths.0, false).step(0, 1, start + lengths.0, lengths.1, true);
        let all = running(&activities, |_| true);
        let (from, to) = (start as usize, (start + lengths.0 + lengths.1) as usize);
        let session = run.open();
        let utilization = table(&session, "gpu_utilization");
        prop_assert_eq!(int(&utilization, "window_ns"), (to - from) as i64);
        prop_assert_eq!(int(&utilization, "busy_ns"), count(&all[from..to], |c| c > 0));
        let steps = table(&session, "gpu_utilization_by_step");
        let middle = from + lengths.0 as usize;
        prop_assert_eq!(int(&steps, "busy_ns"), count(&all[from..middle], |c| c > 0));
    }

    #[test]
    fn utilization_series_match_cells(
        activities in prop::collection::vec(activity(), 1..20),
        bucket_ns in 1..50_i64,
        is_automatic: bool,
    ) {
        let mut run = build(&activities, &[]);
        let first = activities.iter().map(|a| a.ts).min().unwrap();
        let last = activities.iter().map(|a| a.ts + a.dur).max().unwrap();
        run.step_from("trace", 0, 0, first, last - first, true);
        let mut params = Params::default();
        if !is_automatic {
            params.set("utilization_bucket_us", bucket_ns as f64 / 1000.0);
        }
        let series = table(&run.open_with(&params), "gpu_utilization_series");
        let all = running(&activities, |_| true);
        let cell = |row: &[Value], name: &str| row[series.index(name).unwrap()].as_f64().unwrap();
        let mut at = first;
        for row in &series.rows {
            let [ts, dur, busy] = ["ts_ns", "dur_ns", "busy_ns"].map(|name| cell(row, name) as i64);
            prop_assert_eq!(ts, at, "stretches follow each other");
            at += dur;
            let wanted = if is_automatic { 1 } else { bucket_ns };
            prop_assert!(ts % wanted == 0 || ts == first);
            prop_assert_eq!(ts / wanted, (at - 1) / wanted, "no stretch is longer than wanted");
            prop_assert_eq!(busy, count(&all[ts as usize..at as usize], |c| c > 0));
            prop_assert!((cell(row, "busy_ratio") - busy as f64 / dur as f64).abs() < 1e-12);
        }
        prop_assert_eq!(at, if last > first { last } else { first });
    }

    #[test]
    fn idle_causes_match_cells(
        activities in prop::collection::vec(activity(), 1..20),
        waits in prop::collection::vec(wait(), 0..10),
        from in 0..60_i64,
        length in 1..60_i64,
    ) {
        // If two activities start together, the model does not say which one ended the gap.
        let mut activities = activities;
        activities.sort_by_key(|a| a.ts);
        activities.dedup_by_key(|a| a.ts);
        let mut run = build(&activities, &waits);
        run.step(0, 0, from, length, true);
        let session = run.open();
        let found = table(&session, "gpu_idle_causes");
        let found = Causes {
            dataloader: int(&found, "dataloader_ns"),
            sync: int(&found, "sync_ns"),
            host: int(&found, "host_ns"),
            device_wait: int(&found, "device_wait_ns"),
            cannot_tell: int(&found, "unattributed_ns"),
        };
        prop_assert_eq!(found, causes(&activities, &waits, (from, from + length)));
    }

    /// Whatever a gap is made of, its parts have its length, at a scale at which all causes occur.
    #[test]
    fn idle_parts_tile_gaps(
        activities in prop::collection::vec(activity(), 1..20),
        waits in prop::collection::vec(wait(), 0..5),
        others in prop::collection::vec((0..6_usize, 0..3_i32, span()), 0..15),
        scale in prop_oneof![Just(1_i64), Just(100_000), Just(50_000_000)],
        has_step: bool,
    ) {
        let scaled = |(ts, dur): (i64, i64)| (ts * scale, dur * scale);
        let activities: Vec<Activity> = activities
            .into_iter()
            .map(|a| {
                let ((ts, dur), launch) = (scaled((a.ts, a.dur)), a.launch.map(scaled));
                Activity { ts, dur, launch, ..a }
            })
            .collect();
        let waits: Vec<Wait> = waits
            .into_iter()
            .map(|w| {
                let (ts, dur) = scaled((w.ts, w.dur));
                Wait { ts, dur, ..w }
            })
            .collect();
        let mut run = build(&activities, &waits);
        for (kind, thread, span) in others {
            let (ts, dur) = scaled(span);
            match kind {
                0 => { run.op_on(0, thread, "aten::copy_", ts, dur); }
                1 => { run.op_on(0, thread, "aten::empty", ts, dur); }
                2 => { run.annotation(0, "range", ts, dur); }
                3 => { run.call(0, "cudaStreamBeginCapture", ts, dur); }
                4 => { run.call(0, "cudaStreamEndCapture", ts, dur); }
                _ => { run.call(0, "cudaStreamCreate", ts, dur); }
            }
        }
        let source = if has_step { "profiler_step" } else { "trace" };
        run.step_from(source, 0, 0, 0, END as i64 * scale, true);
        let session = run.open();
        let parts = table(&session, "idle_gap_causes");
        let cell = |row: &[Value], name: &str| row[parts.index(name).unwrap()].as_f64().unwrap() as i64;
        let mut gaps = std::collections::BTreeMap::new();
        for row in &parts.rows {
            prop_assert!(cell(row, "dur_ns") > 0);
            *gaps.entry((cell(row, "gap_ts_ns"), cell(row, "gap_end_ns"))).or_insert(0) += cell(row, "dur_ns");
        }
        for ((ts, end), sum) in &gaps {
            prop_assert_eq!(end - ts, *sum);
        }
        let causes = table(&session, "gpu_idle_causes");
        prop_assert_eq!(gaps.values().sum::<i64>(), int(&causes, "idle_ns"));
        let groups = ["dataloader_ns", "sync_ns", "host_ns", "device_wait_ns", "unattributed_ns"];
        prop_assert_eq!(groups.iter().map(|name| int(&causes, name)).sum::<i64>(), int(&causes, "idle_ns"));
    }

    #[test]
    fn step_phases_match_cells(
        marks in prop::collection::vec((0..3_usize, span()), 0..20),
        activities in prop::collection::vec(activity(), 0..10),
        start in 0..50_i64,
        length in 1..60_i64,
    ) {
        let mut run = build(&activities, &[]);
        run.step(0, 4, start, length, true);
        let mut loading = [false; END];
        for (kind, (ts, dur)) in marks {
            match kind {
                0 => {
                    run.annotation(0, "enumerate(DataPipe)#x", ts, dur);
                    loading[ts as usize..(ts + dur) as usize].fill(true);
                }
                1 => { run.annotation(0, "Optimizer.step#Adam.step", ts, dur); }
                _ => { run.op(0, "autograd::engine::evaluate_function: x", ts, dur); }
            }
        }
        let session = run.open();
        let phases = table(&session, "host_phases");
        let at = phases.index("dur_ns").unwrap();
        let total: f64 = phases.rows.iter().filter_map(|row| row[at].as_f64()).sum();
        prop_assert_eq!(total as i64, length);
        let works = running(&activities, |_| true);
        let step = start as usize..(start + length) as usize;
        let loads = step.clone().filter(|&t| loading[t]).count() as i64;
        let idles = step.filter(|&t| loading[t] && works[t] == 0).count() as i64;
        let step = table(&session, "step_phases_by_step");
        prop_assert_eq!(int(&step, "dataloader_ns"), loads);
        prop_assert_eq!(int(&step, "dataloader_idle_ns"), idles);
    }

    #[test]
    fn step_breakdown_by_priority_matches_cells(
        activities in prop::collection::vec(activity(), 0..12),
        copies in prop::collection::vec(span(), 0..4),
        fills in prop::collection::vec(span(), 0..4),
        ranges in prop::collection::vec((0..4_usize, span()), 0..12),
        start in 0..40_i64,
        lengths in (1..30_i64, 1..30_i64),
    ) {
        const PARTS: [&str; 8] = [
            "kernel_ns", "memcpy_ns", "memset_ns", "communication_ns", "runtime_ns", "dataloader_ns",
            "cpu_exec_ns", "other_ns",
        ];
        let mut part = [PARTS.len() - 1; END];
        let mut mark = |of: usize, ts: i64, dur: i64| {
            for cell in &mut part[ts as usize..(ts + dur) as usize] {
                *cell = of.min(*cell);
            }
        };
        // Launches outside the steps, so that they do not extend them.
        let activities: Vec<Activity> =
            activities.into_iter().map(|a| Activity { launch: None, ..a }).collect();
        let mut run = build(&activities, &[]);
        for a in &activities {
            let of = ["computation", "memory", "", "communication"].iter().position(|k| *k == a.kind);
            mark(of.unwrap(), a.ts, a.dur);
        }
        for (ts, dur) in copies {
            run.memcpy(0, ts, dur, 1, None);
            mark(1, ts, dur);
        }
        for (ts, dur) in fills {
            run.memset(0, ts, dur);
            mark(2, ts, dur);
        }
        for (kind, (ts, dur)) in ranges {
            match kind {
                0 => { run.op(0, "gloo:all_reduce", ts, dur); mark(3, ts, dur); }
                1 => { run.call(0, "cudaDeviceSynchronize", ts, dur); mark(4, ts, dur); }
                2 => { run.annotation(0, "enumerate(DataPipe)#x", ts, dur); mark(5, ts, dur); }
                _ => { run.op(0, "aten::mm", ts, dur); mark(6, ts, dur); }
            }
        }
        run.annotation(0, "ProfilerStep#0", start, lengths.0);
        run.step(0, 0, start, lengths.0, false).step(0, 1, start + lengths.0, lengths.1, true);
        let session = run.open();
        let found = table(&session, "step_breakdown_by_step");
        let middle = (start + lengths.0) as usize;
        let windows = [start as usize..middle, middle..middle + lengths.1 as usize];
        prop_assert_eq!(found.rows.len(), 2);
        for (row, window) in found.rows.iter().zip(windows) {
            let value = |name: &str| row[found.index(name).unwrap()].as_f64().unwrap() as i64;
            prop_assert_eq!(value("step_ns"), window.len() as i64);
            prop_assert_eq!(PARTS.iter().map(|p| value(p)).sum::<i64>(), value("step_ns"));
            for (i, name) in PARTS.iter().enumerate() {
                let expected = part[window.clone()].iter().filter(|&&p| p == i).count();
                prop_assert_eq!(value(name), expected as i64, "{}", name);
            }
        }
        let mean = table(&session, "step_breakdown");
        let at = mean.index("step_ns").unwrap();
        prop_assert_eq!(mean.rows[0][at].as_f64(), Some((lengths.0 + lengths.1) as f64 / 2.0));
    }
}
