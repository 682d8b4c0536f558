//! Comparisons of runs whose difference is known: made by the demo, written by hand, or recorded.

mod commands;
mod memory;
mod recorded;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use serde_json::{Value as Json, json};
use trace_advisor::advisor::Comparison;
use trace_advisor::compare::{
    Change, Diff, DiffOptions, Difference, Group, Level, Matched, Measure, Outcome, Row,
    SideOptions, Unit,
};
use trace_advisor::{Run, default_rules, diff, evaluate_diff};
use trace_demo::{Bottleneck, Options, write_run};

fn demo(bottleneck: Bottleneck, stacks: bool) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bottleneck, steps: 5, layers: 2, stacks, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    Run::open(folder.path()).unwrap()
}

/// A run with these events, times in microseconds.
fn run(events: &[Json]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    write_trace(&folder.path().join("rank-0.json"), events);
    Run::open(folder.path()).unwrap()
}

fn write_trace(path: &Path, events: &[Json]) {
    let trace = json!({"schemaVersion": 1, "traceEvents": events});
    std::fs::write(path, trace.to_string()).unwrap();
}

fn event(category: &str, name: &str, thread: i32, ts: i64, dur: i64) -> Json {
    json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": dur, "args": {}})
}

fn launch(name: &str, ts: i64, dur: i64, correlation: i64) -> Json {
    let mut event = event("cuda_runtime", name, 1, ts, dur);
    event["args"] = json!({"correlation": correlation});
    event
}

fn kernel(name: &str, ts: i64, dur: i64, correlation: i64) -> Json {
    let mut event = event("kernel", name, 7, ts, dur);
    event["args"] = json!({"correlation": correlation, "stream": 7, "device": 0});
    event
}

fn compare(before: &Run, after: &Run) -> Diff {
    diff(before, after, &DiffOptions::default()).unwrap()
}

fn row<'a>(diff: &'a Diff, level: Level, name: &str) -> &'a Row {
    let mut rows = diff.rows.iter().filter(|r| r.level == level && r.name == name);
    let row = rows.next().unwrap_or_else(|| panic!("no {level} {name}"));
    assert!(rows.next().is_none(), "{level} {name} twice");
    row
}

/// `(rank, step)` with the sum of `dur_ns`.
fn sums(run: &Run, query: &str) -> BTreeMap<(i64, i64), i64> {
    let mut sums = BTreeMap::new();
    for batch in run.sql(query).unwrap() {
        let ints = |i: usize| {
            let array = cast(batch.column(i), &DataType::Int64).unwrap();
            array.as_primitive::<Int64Type>().clone()
        };
        let (rank, step, dur) = (ints(0), ints(1), ints(2));
        for i in 0..batch.num_rows() {
            *sums.entry((rank.value(i), step.value(i))).or_default() += dur.value(i);
        }
    }
    sums
}

/// The sums of the categories of a group, before and after.
fn total(diff: &Diff, group: Group) -> (f64, f64) {
    let parts = diff.categories.iter().filter(|c| c.group == group);
    parts.fold((0.0, 0.0), |sum, c| (sum.0 + c.before, sum.1 + c.after))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// Checks that the parts of a comparison add up, which holds for any two runs.
fn check_sums(diff: &Diff, what: &str) {
    let summary = &diff.summary;
    let Some(explained) = summary.explained else { return };
    for (group, ..) in diff.categories.iter().map(|c| (c.group, ())) {
        if matches!(group, Group::Host | Group::Device) {
            let (before, after) = total(diff, group);
            assert!(near(before, summary.before.mean_ns), "{what}: {group:?} adds up before");
            assert!(near(after, summary.after.mean_ns), "{what}: {group:?} adds up after");
        }
    }
    let host = |of: fn(&Row) -> f64| diff.rows.iter().map(of).sum::<f64>();
    let (before, after) = (host(|r| r.before.step_ns), host(|r| r.after.step_ns));
    assert!(near(before, summary.before.host_ns), "{what}: {before} {}", summary.before.host_ns);
    assert!(near(after, summary.after.host_ns), "{what}: {after} {}", summary.after.host_ns);
    assert!(near(explained.named_ns + explained.unrecorded_ns, explained.change_ns), "{what}");
}

#[test]
fn removed_data_loading_is_named_first() {
    let (slow, healthy) = (demo(Bottleneck::DataLoading, false), demo(Bottleneck::None, false));
    let cured = compare(&slow, &healthy);
    check_sums(&cured, "demo");
    let headline = &cured.summary.headline;
    assert!(headline.contains("): loading data -"), "{headline}");
    let change = cured.summary.change_ns();
    let loading = cured.categories.iter().find(|c| c.name == "dataloader").unwrap();
    assert!(loading.diff() / change > 0.7, "{headline}");
    let loader = &cured.rows[0];
    assert!(loader.name.starts_with("enumerate(DataLoader)#_MultiProcessing"), "{}", loader.name);
    let old = loader.renamed_from.as_deref().unwrap();
    assert!(old.starts_with("enumerate(DataLoader)#_SingleProcess"), "{old}");
    // Kernels are those of before: nothing came or went on the device.
    let kernels = cured.rows.iter().filter(|r| r.level == Level::Kernel);
    assert!(kernels.clone().count() > 5);
    assert!(kernels.clone().all(|r| r.matched == Matched::Exact));

    let back = compare(&healthy, &slow);
    assert!(back.summary.headline.contains("): loading data +"), "{}", back.summary.headline);
    assert!(near(back.summary.change_ns(), -change));
    for r in &back.rows {
        // A renamed row has its other name there.
        let there = row(&cured, r.level, r.renamed_from.as_deref().unwrap_or(&r.name));
        assert_eq!((r.before, r.after), (there.after, there.before), "{}", r.name);
    }
}

#[test]
fn wait_for_the_device_is_named() {
    let (healthy, waiting) = (demo(Bottleneck::None, false), demo(Bottleneck::Sync, false));
    let diff = compare(&healthy, &waiting);
    check_sums(&diff, "sync");
    assert!(diff.summary.change_ns() > 0.0);
    let idle = diff.categories.iter().find(|c| (c.group, c.name) == (Group::Idle, "sync")).unwrap();
    let others = diff.categories.iter().filter(|c| c.group == Group::Idle);
    assert!(others.into_iter().all(|c| c.diff() <= idle.diff()), "{:?}", diff.categories);
    let added = diff.rows.iter().find(|r| r.change == Change::Added && r.before.count == 0.0);
    assert!(added.is_some(), "the read of the device is new");
}

#[test]
fn run_against_itself_is_unchanged() {
    let run = demo(Bottleneck::SmallKernels, true);
    let diff = compare(&run, &run);
    check_sums(&diff, "itself");
    assert!(diff.summary.headline.ends_with(", about the same"), "{}", diff.summary.headline);
    assert!(diff.rows.iter().any(|r| r.level == Level::Module));
    for row in &diff.rows {
        assert_eq!(
            (row.matched, row.change, row.step_change_ratio),
            (Matched::Exact, Change::Unchanged, None),
            "{}",
            row.name
        );
    }
}

/// A step of 100 us: an annotation with two operators, the second of which seems to outlast it; then a
/// thread of autograd works while the first one waits.
fn one_step(extra: &[Json]) -> Vec<Json> {
    let mut events = vec![
        event("user_annotation", "ProfilerStep#3", 1, 1_000, 100),
        event("user_annotation", "forward", 1, 1_010, 40),
        event("cpu_op", "aten::mm", 1, 1_020, 10),
        event("cpu_op", "aten::add", 1, 1_040, 11),
        event("cpu_op", "aten::empty", 1, 1_040, 0),
        event("user_annotation", "backward", 1, 1_060, 30),
        event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 2, 1_065, 20),
        event("cpu_op", "aten::mm", 2, 1_070, 5),
    ];
    events.extend_from_slice(extra);
    events
}

#[test]
fn host_time_has_one_name_at_each_moment() {
    let run = run(&one_step(&[]));
    let query = "SELECT name, sum(dur_ns) AS ns FROM diff_host_time GROUP BY name ORDER BY name";
    let mut found = BTreeMap::new();
    for batch in run.sql(query).unwrap() {
        let name = cast(batch.column(0), &DataType::Utf8).unwrap();
        let ns = batch.column(1).as_primitive::<Int64Type>();
        for i in 0..batch.num_rows() {
            found.insert(name.as_string::<i32>().value(i).to_owned(), ns.value(i) / 1_000);
        }
    }
    let expected = [
        ("ProfilerStep#3", 10 + 10 + 10),
        ("forward", 10 + 10),
        ("aten::mm", 10 + 5),
        ("aten::add", 10),
        ("backward", 5 + 5),
        ("autograd::engine::evaluate_function: MmBackward0", 5 + 10),
    ];
    let expected: BTreeMap<String, i64> =
        expected.into_iter().map(|(name, us)| (name.to_owned(), us)).collect();
    assert_eq!(found, expected);
}

#[test]
fn renamed_rows_are_matched_and_marked() {
    let before = run(&one_step(&[
        launch("cudaLaunchKernel", 1_022, 2, 1),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 1_030, 20, 1),
    ]));
    // Other number of the step, newer NCCL, other vendor, a category of old.
    let mut events = one_step(&[
        launch("hipLaunchKernel", 1_022, 4, 1),
        kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            1_030,
            30,
            1,
        ),
        event("cpu_op", "aten::new", 1, 1_055, 2),
    ]);
    events[0]["name"] = json!("ProfilerStep#900");
    events[2]["cat"] = json!("Operator");
    events[6]["name"] = json!("autograd::engine::evaluate_function: MmBackward");
    let diff = compare(&before, &run(&events));
    check_sums(&diff, "renamed");
    let launch = row(&diff, Level::Runtime, "hipLaunchKernel");
    assert_eq!(launch.renamed_from.as_deref(), Some("cudaLaunchKernel"));
    assert_eq!((launch.matched, launch.change), (Matched::Normalized, Change::Slower));
    let reduce = diff.rows.iter().find(|r| r.level == Level::Kernel).unwrap();
    assert_eq!((reduce.matched, reduce.change), (Matched::Normalized, Change::Slower));
    assert!(near(reduce.impact_ns(), 10_000.0));
    let step = row(&diff, Level::Annotation, "ProfilerStep*");
    assert_eq!((step.matched, &step.renamed_from), (Matched::Exact, &None));
    assert_eq!(row(&diff, Level::Operator, "aten::mm").matched, Matched::Exact);
    assert_eq!(row(&diff, Level::Operator, "aten::new").change, Change::Added);
    assert!(diff.rows.iter().all(|r| r.change != Change::Removed));
}

#[test]
fn steps_are_averaged_regardless_of_their_numbers() {
    let step = |number: i64, ts: i64, dur: i64| {
        event("user_annotation", &format!("ProfilerStep#{number}"), 1, ts, dur)
    };
    let before = run(&[step(1, 0, 10), step(2, 10, 20), event("cpu_op", "a", 1, 12, 6)]);
    let after =
        run(&[step(7, 0, 10), step(8, 10, 10), step(9, 20, 40), event("cpu_op", "a", 1, 1, 9)]);
    let all = compare(&before, &after);
    assert!(
        near(all.summary.before.mean_ns, 15_000.0) && near(all.summary.after.mean_ns, 20_000.0)
    );
    assert!(
        near(all.summary.before.median_ns, 15_000.0) && near(all.summary.after.median_ns, 10_000.0)
    );
    let a = row(&all, Level::Operator, "a");
    assert!(near(a.before.dur_ns, 3_000.0) && near(a.after.dur_ns, 3_000.0));
    assert_eq!(
        (a.change, a.before.total_count, a.before.total_dur_ns),
        (Change::FewerCalls, 1, 6_000)
    );
    let pairs: Vec<_> = all.summary.steps.iter().map(|p| (p.before_step, p.after_step)).collect();
    assert_eq!(pairs, [(1, 7), (2, 8)]);

    let select = |before: &str, after: &str| DiffOptions {
        before: SideOptions { ranks: None, steps: before.parse().unwrap() },
        after: SideOptions { ranks: None, steps: after.parse().unwrap() },
        ..DiffOptions::default()
    };
    let some = diff(&before, &after, &select("2", "8..")).unwrap();
    assert!(
        near(some.summary.before.mean_ns, 20_000.0) && near(some.summary.after.mean_ns, 25_000.0)
    );
    assert_eq!(row(&some, Level::Operator, "a").change, Change::Removed);
    let missing = diff(&before, &after, &select("3", "8..")).unwrap_err().to_string();
    assert_eq!(missing, "the run before has no complete step 3; it has 1, 2");
    let mut options = select("all", "all");
    options.after.ranks = Some(vec![4]);
    let missing = diff(&before, &after, &options).unwrap_err().to_string();
    assert_eq!(missing, "the run after has no rank 4; it has 0");
}

#[test]
fn recordings_without_steps_are_compared_whole() {
    let stepless = run(&[event("cpu_op", "a", 1, 0, 10), event("cpu_op", "b", 1, 10, 5)]);
    let longer = run(&[event("cpu_op", "a", 1, 0, 30)]);
    let both = compare(&stepless, &longer);
    check_sums(&both, "no steps");
    assert_eq!((both.summary.unit, both.summary.before.steps), (Unit::Recording, 0));
    assert!(near(both.summary.change_ns(), 15_000.0));
    assert!(near(row(&both, Level::Operator, "a").impact_ns(), 20_000.0));
    assert_eq!(both.summary.notes.len(), 1, "{:?}", both.summary.notes);

    // Events outside of steps count too, as nothing says which are steps of the other run.
    let mut events = one_step(&[]);
    events.push(event("cpu_op", "a", 1, 2_000, 7));
    let one = compare(&stepless, &run(&events));
    assert_eq!((one.summary.unit, one.summary.explained), (Unit::Recording, None));
    assert!(near(row(&one, Level::Operator, "a").after.dur_ns, 7_000.0));
    assert!(one.categories.is_empty());
    assert!(one.rows.iter().all(|r| r.step_change_ratio.is_none()));
}

fn measure<'a>(diff: &'a Diff, name: &str) -> &'a Measure {
    diff.before_after.iter().find(|m| m.name == name).unwrap()
}

#[test]
fn reasons_for_missing_measures_come_from_the_recording() {
    let memory = |device_type: i64, total: Option<i64>| {
        let mut event = json!({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1,
            "ts": 1_030, "args": {"Device Type": device_type, "Device Id": 0, "Addr": 16, "Bytes": 512}});
        if let Some(total) = total {
            event["args"]["Total Allocated"] = json!(total);
            event["args"]["Total Reserved"] = json!(total);
        }
        run(&one_step(&[event]))
    };
    let nothing = run(&one_step(&[]));
    let (no_totals, cpu_only) = (memory(1, None), memory(0, Some(512)));
    let whole = memory(1, Some(512));
    let reason = |before: &Run, after: &Run| {
        measure(&compare(before, after), "memory_peak").reason.clone().unwrap_or_default()
    };
    assert_eq!(reason(&whole, &whole), "");
    let old = "the memory events have no totals (torch 1.9 and older)";
    assert_eq!(reason(&no_totals, &no_totals), format!("both runs: {old}"));
    assert_eq!(reason(&whole, &cpu_only), "after: the memory events are of the CPU only");
    let none = "no memory events were recorded (`profile_memory=True`)";
    assert_eq!(reason(&nothing, &no_totals), format!("before: {none}; after: {old}"));

    // One run marks steps, the other does not: memory does not need them.
    let stepless = run(&[event("cpu_op", "aten::mm", 1, 0, 10)]);
    let diff = compare(&nothing, &stepless);
    let of = |name: &str| measure(&diff, name).reason.clone().unwrap();
    let steps = "before: the other run marks no steps; after: no steps are marked";
    assert_eq!((of("step_median").as_str(), of("gpu_utilization").as_str()), (steps, steps));
    assert_eq!(of("memory_peak"), format!("both runs: {none}"));
}

/// What the rules find in a comparison.
fn judge(diff: &Diff, before: &Run, after: &Run) -> Comparison {
    evaluate_diff(diff, before, after, &default_rules())
}

/// The codes of findings.
fn codes(judged: &Comparison) -> Vec<&str> {
    judged.findings.iter().map(|f| f.code.as_str()).collect()
}

#[test]
fn regression_is_judged_and_named() {
    let (healthy, slow) = (demo(Bottleneck::None, false), demo(Bottleneck::DataLoading, false));
    let worse = compare(&healthy, &slow);
    assert_eq!(worse.verdict.outcome, Outcome::Regression, "{}", worse.verdict.reason);
    let judged = judge(&worse, &healthy, &slow);
    assert_eq!(codes(&judged), ["RG001", "RG002"]);
    let op = &judged.findings[1];
    assert!(op.title.contains("enumerate(DataLoader)"), "{}", op.title);
    assert_eq!(op.gain.within, ["RG001"]);
    let better = compare(&slow, &healthy);
    assert_eq!(better.verdict.outcome, Outcome::Improvement, "{}", better.verdict.reason);
    assert_eq!(codes(&judge(&better, &slow, &healthy)), [""; 0]);
    let same = compare(&slow, &slow);
    assert_eq!(same.verdict.outcome, Outcome::Unchanged);
    let judged = judge(&same, &slow, &slow);
    assert_eq!(codes(&judged), [""; 0]);
    assert_eq!(judged.passed, ["RG001", "RG002", "RG003"]);
}

#[test]
fn verdict_is_inconclusive_with_few_steps() {
    let run = |dur: i64| {
        let steps = (0..2)
            .map(|i| event("user_annotation", &format!("ProfilerStep#{i}"), 1, 1_000 * i, dur));
        run(&steps.collect::<Vec<_>>())
    };
    let (before, after) = (run(500), run(900));
    let diff = compare(&before, &after);
    assert_eq!(diff.verdict.outcome, Outcome::Inconclusive);
    let judged = judge(&diff, &before, &after);
    let unknown: Vec<&str> = judged.unknown.iter().map(|u| u.code.as_str()).collect();
    assert_eq!(unknown, ["RG001", "RG002", "RG003"]);
    assert!(
        judged.unknown[0].reason.contains("record at least 3 in each run"),
        "{:?}",
        judged.unknown
    );
}

#[test]
fn verdict_reads_the_slowest_rank_without_warm_up() {
    // Ten steps a rank, the first three times as long; rank 1 always 20 us slower.
    let run = |slower: i64| {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..2_i64 {
            let steps = (0..10_i64).map(|i| {
                let dur = if i == 0 { 300 } else { 100 + i % 2 } + 20 * rank + slower;
                event("user_annotation", &format!("ProfilerStep#{i}"), 1, 1_000 * i, dur)
            });
            let steps: Vec<Json> = steps.collect();
            let trace = json!({"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": steps});
            std::fs::write(folder.path().join(format!("rank-{rank}.json")), trace.to_string())
                .unwrap();
        }
        Run::open(folder.path()).unwrap()
    };
    let diff = compare(&run(0), &run(30));
    let sample = diff.verdict.before.as_ref().unwrap();
    assert_eq!(sample.steps, 9);
    assert!((120_000.0..=121_000.0).contains(&sample.median_ns), "{sample:?}");
    assert_eq!(diff.verdict.outcome, Outcome::Regression, "{}", diff.verdict.reason);
    assert!(diff.summary.notes.iter().any(|n| n.contains("warm-up")), "{:?}", diff.summary.notes);
}

/// A run of four steps of `2 * call_us` each, in which one operator with these shapes of its inputs runs for `call_us`.
fn looped(operator: &str, input_dims: &Json, call_us: i64, more: &[Json]) -> Vec<Json> {
    let mut events = more.to_vec();
    for i in 0..4_i64 {
        let start = 10_000 * i;
        events.push(event("user_annotation", &format!("ProfilerStep#{i}"), 1, start, 2 * call_us));
        let mut call = event("cpu_op", operator, 1, start + 10, call_us);
        if !input_dims.is_null() {
            call["args"] = json!({"Input Dims": input_dims});
        }
        events.push(call);
    }
    events
}

/// Inputs of a convolution of a batch of this size.
fn images(batch: i64) -> Json {
    json!([[batch, 3, 8, 8], [4, 3, 3, 3]])
}

fn phrases(diff: &Diff) -> Vec<String> {
    diff.differences.iter().map(Difference::phrase).collect()
}

#[test]
fn runs_that_did_different_work_are_not_comparable() {
    let vision = run(&looped("aten::conv2d", &images(8), 500, &[]));
    let recommender = looped("aten::embedding_bag", &json!([[1000, 16], [64]]), 900, &[]);
    let backward = event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 2, 600, 9);
    let trained = looped("aten::conv2d", &images(8), 900, &[backward]);
    for (after, reason, difference) in [
        (
            recommender,
            "the runs do different work: 0 % of the time of operators is in operators of both runs",
            "longest operator: aten::conv2d -> aten::embedding_bag",
        ),
        (trained, "the run after trains, the run before does not", "training: no -> yes"),
    ] {
        let after = run(&after);
        let diff = compare(&vision, &after);
        check_sums(&diff, reason);
        let verdict = &diff.verdict;
        assert_eq!((verdict.outcome, verdict.reason.as_str()), (Outcome::NotComparable, reason));
        assert!(phrases(&diff).iter().any(|phrase| phrase == difference), "{:?}", phrases(&diff));
        // The numbers are there, what they mean is not judged.
        assert!(near(verdict.change_ratio.unwrap(), 0.8) && !diff.rows.is_empty(), "{verdict:?}");
        let judged = judge(&diff, &vision, &after);
        assert_eq!((codes(&judged).len(), judged.passed.len(), judged.unknown.len()), (0, 0, 3));
        for unknown in &judged.unknown {
            assert_eq!(unknown.reason, format!("the runs are not comparable: {reason}"));
        }
    }
}

#[test]
fn differences_of_the_runs_do_not_change_the_verdict() {
    let small = run(&looped("aten::conv2d", &images(8), 500, &[]));
    let large = run(&looped("aten::conv2d", &images(16), 900, &[]));
    let diff = compare(&small, &large);
    assert_eq!(diff.verdict.outcome, Outcome::Regression, "{}", diff.verdict.reason);
    assert_eq!(phrases(&diff), ["batch shape: [8, 3, 8, 8] -> [16, 3, 8, 8]"]);
    let unshaped = run(&looped("aten::conv2d", &Json::Null, 500, &[]));
    let diff = compare(&small, &unshaped);
    assert_eq!(diff.verdict.outcome, Outcome::Unchanged, "{}", diff.verdict.reason);
    assert_eq!(phrases(&diff), ["record_shapes: on -> off"]);
    assert_eq!(phrases(&compare(&small, &small)), [""; 0]);
}

#[test]
fn ranks_that_one_run_lacks_are_noted() {
    let run = |ranks: i64| {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..ranks {
            let events = looped("aten::conv2d", &images(8), 500, &[]);
            let trace = json!({"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": events});
            std::fs::write(folder.path().join(format!("rank-{rank}.json")), trace.to_string())
                .unwrap();
        }
        Run::open(folder.path()).unwrap()
    };
    let (all, one) = (run(3), run(1));
    let diff = compare(&all, &one);
    assert_eq!(phrases(&diff), ["ranks: 3 -> 1 of 3"]);
    let note = "before: ranks 1, 2 are left out: the run after has no rank of that number";
    assert_eq!(diff.summary.notes, [note]);
    // Who names ranks knows which are left out.
    let before = SideOptions { ranks: Some(vec![0]), ..SideOptions::default() };
    let options = DiffOptions { before, ..DiffOptions::default() };
    let chosen = trace_advisor::diff(&all, &one, &options).unwrap();
    assert_eq!(chosen.summary.notes, [""; 0]);
}
