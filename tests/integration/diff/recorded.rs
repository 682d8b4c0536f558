//! Comparisons of recorded runs.

use std::collections::BTreeMap;

use trace_advisor::compare::{DiffOptions, Group, Outcome, SideOptions};
use trace_advisor::{Run, diff};

use super::{check_sums, codes, compare, judge, measure, sums};
use crate::support::corpus::corpus;
use crate::support::slice;

fn open(name: &str) -> Run {
    Run::open(corpus().join("traces").join(name)).unwrap()
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn loader_workers_are_named_and_explained() {
    let (before, after) = (open("resnet50_workers0"), open("resnet50_workers4"));
    let diff = compare(&before, &after);
    check_sums(&diff, "resnet50");
    let headline = &diff.summary.headline;
    assert!(headline.contains("(-24.3 %): loading data -68.6 ms"), "{headline}");
    // The rest of the host got slower meanwhile; all but a little of that has a name.
    let explained = diff.summary.explained.unwrap();
    let ratio = explained.ratio.unwrap();
    assert!((0.8..1.2).contains(&ratio), "{explained:?}");
    let idle =
        diff.categories.iter().find(|c| (c.group, c.name) == (Group::Device, "idle")).unwrap();
    assert!((0.9..1.2).contains(&idle.step_change_ratio.unwrap()), "{idle:?}");
    let loader = &diff.rows[0];
    assert_eq!(
        (loader.renamed_from.as_deref(), loader.name.as_str()),
        (
            Some("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        )
    );
}

/// Opens a run, and checks that it is unchanged against itself.
fn open_unchanged(name: &str) -> Run {
    let run = open(name);
    let itself = compare(&run, &run);
    let verdict = &itself.verdict;
    assert_eq!(verdict.outcome, Outcome::Unchanged, "{name}: {}", verdict.reason);
    assert_eq!(codes(&judge(&itself, &run, &run)), [""; 0], "{name}");
    run
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn verdicts_of_recorded_pairs() {
    let determined = "determined/old_generation/wire_trial";
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for (before, after, expected) in [
        ("resnet50_workers0", "resnet50_workers4", Outcome::Improvement),
        ("resnet50_workers4", "resnet50_workers0", Outcome::Regression),
        ("diff_control", "diff_test", Outcome::Regression),
        ("composer/workers0/plain", "composer/workers2/plain", Outcome::Improvement),
        ("composer/workers2/plain", "composer/workers0/plain", Outcome::Regression),
        (
            &format!("{determined}101.jsonl"),
            &format!("{determined}102.jsonl"),
            Outcome::Improvement,
        ),
        ("generated/cpu_resnet_nw0", "generated/cpu_resnet_nw2", Outcome::Inconclusive),
        // Only the second runs a backward pass.
        ("compare_base", "compare_test", Outcome::NotComparable),
        // A convolutional network, and a recommender on 2 of 128 ranks.
        ("resnet50_workers4", "two_ranks", Outcome::NotComparable),
        ("resnet50_workers4", "h100_bert", Outcome::NotComparable),
        ("h100_bert", "mi300_bert", Outcome::Inconclusive),
    ] {
        for name in [before, after] {
            runs.entry(name.to_owned()).or_insert_with(|| open_unchanged(name));
        }
        let diff = compare(&runs[before], &runs[after]);
        assert_eq!(diff.verdict.outcome, expected, "{}", diff.verdict.reason);
        let judged = judge(&diff, &runs[before], &runs[after]);
        assert_eq!(codes(&judged).contains(&"RG001"), expected == Outcome::Regression);
    }
}

/// One half of a run against the other: the same program, so there is nothing to report.
#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn halves_of_a_run_are_not_a_regression() {
    for (name, first, second) in [
        ("diff_control", "1009-1011", "1012-1014"),
        ("resnet50_workers0", "8-10", "5-7"),
        ("resnet50_workers4", "5-7", "8-10"),
        ("composer/workers2/plain", "0-9", "12-30"),
        ("determined/old_generation/wire_trial101.jsonl", "0-100", "101-235"),
    ] {
        let run = open(name);
        let side = |steps: &str| SideOptions { ranks: None, steps: steps.parse().unwrap() };
        let (before, after) = (side(first), side(second));
        let halves =
            diff(&run, &run, &DiffOptions { before, after, ..DiffOptions::default() }).unwrap();
        let outcome = halves.verdict.outcome;
        assert!(
            matches!(outcome, Outcome::Unchanged | Outcome::Inconclusive),
            "{name}: {}",
            halves.verdict.reason
        );
        assert_eq!(codes(&judge(&halves, &run, &run)), [""; 0], "{name}");
    }
}

/// The table of a known fix: the share of the loader and the utilization are those of `step_phases` and the device states.
#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn before_after_table_of_loader_workers() {
    let diff = compare(&open("resnet50_workers0"), &open("resnet50_workers4"));
    let near = |name: &str, before: f64, after: f64| {
        let m = measure(&diff, name);
        let (b, a) = (m.before.unwrap(), m.after.unwrap());
        assert!(
            (b - before).abs() < 0.01 * before && (a - after).abs() < 0.01 * after,
            "{name}: {b} {a}"
        );
    };
    // Without the first: 187.948 175.153 179.733 174.564 182.172 165.983, and 182.306 126.183 127.181 123.079 163.461 124.198 ms.
    near("step_median", 175.153e6, 126.183e6);
    near("step_p95", 182.172e6, 163.461e6);
    near("throughput", 1e3 / 175.521, 1e3 / 132.820);
    near("gpu_utilization", 0.573, 0.769);
    let memory = measure(&diff, "memory_peak");
    assert!(
        memory.before.is_none()
            && memory.reason.as_deref().unwrap().contains("memory events have no totals")
    );
    assert!(measure(&diff, "data_loading").before.unwrap() > 0.35);
    let paths = ["wire_trial101.jsonl", "wire_trial102.jsonl"];
    let paths = paths.map(|p| format!("determined/old_generation/{p}"));
    let samples = compare(&open(&paths[0]), &open(&paths[1]));
    assert_eq!(measure(&samples, "throughput").unit, "samples/s");
}

/// Across vendors, versions, with and without steps, ranks and devices: the numbers add up.
#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn any_two_traces_can_be_compared() {
    let pairs = [
        ("h100_qwen", "mi300_qwen"),
        ("h100_bert", "mi300_bert"),
        ("diff_control", "diff_test"),
        ("vllm_decode_graph", "sglang_decode"),
        ("cpu_only", "h100_bert"),
        ("mi210_gpu_only", "mi300_bert"),
        ("mi300_resnet_ddp", "two_ranks"),
        ("generated/cpu_resnet_nw0", "generated/cpu_resnet_nw2"),
        ("generated/ddp_gloo_2rank", "generated/ddp_gloo_4rank_straggler"),
        ("generated/cpu_nosteps", "generated/synth_zero_length_step"),
    ];
    for (a, b) in slice::take("diff::recorded::any_two_traces_can_be_compared", pairs) {
        let (before, after) = (open(a), open(b));
        for run in [&before, &after] {
            let steps = sums(run, "SELECT rank, step, dur_ns FROM steps WHERE dur_ns > 0");
            let parts =
                sums(run, "SELECT rank, step, sum(dur_ns) FROM diff_host_time GROUP BY rank, step");
            if !parts.is_empty() {
                assert_eq!(parts, steps, "{a}, {b}: the host's time adds up");
            }
            let steps = sums(
                run,
                "SELECT rank, step, dur_ns FROM device_steps WHERE dur_ns > 0 AND rank IN (SELECT rank FROM device_work)",
            );
            let parts = sums(
                run,
                "SELECT rank, step, sum(dur_ns) FROM diff_device_time GROUP BY rank, step",
            );
            assert_eq!(parts, steps, "{a}, {b}: the device's time adds up");
        }
        for (before, after) in [(&before, &after), (&after, &before)] {
            let diff = compare(before, after);
            check_sums(&diff, a);
            assert!(!diff.rows.is_empty());
            diff.batch().unwrap();
        }
    }
}
