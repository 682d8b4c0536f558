//! The views on trainers, loaders and machines against the golden figures.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_advisor::{Report, Run};

use super::{close, number, rows};
use crate::harness::{Case, functions};
use crate::runs;
use crate::support::preview::rules_with_preview;

/// Tests of single runs.
pub(super) fn cases() -> Vec<Case> {
    functions![loader_is_the_first_finding, samples_of_determined_are_judged]
}

pub(super) fn step_phases(what: &str, run: &Run, golden: &Json) {
    for (rank, theirs) in golden["per_rank"].as_object().unwrap() {
        let steps = format!("SELECT * FROM trainer_steps WHERE rank = {rank} ORDER BY ts_ns");
        let ours = rows(run, &steps);
        let theirs = theirs["steps"].as_array().unwrap();
        assert_eq!(ours.len(), theirs.len(), "{what}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (column, key) in [
                ("loader_ns", "loader_us"),
                ("loader_marker_ns", "loader_marker_us"),
                ("batch_ns", "batch_us"),
                ("forward_ns", "forward_us"),
                ("loss_ns", "loss_us"),
                ("backward_ns", "backward_us"),
                ("train_batch_ns", "train_batch_us"),
                ("outside_train_batch_ns", "outside_train_batch_us"),
            ] {
                let what = format!("{what}, batch {}: {column}", theirs["batch"]);
                close(number(&ours[column]), number(&theirs[key]) * 1000.0, &what);
            }
            assert_eq!(ours["batch"], number(&theirs["batch"]), "{what}");
            assert_eq!(ours["epoch"], number(&theirs["epoch"]), "{what}");
            assert_eq!(ours["microbatch_count"], number(&theirs["microbatches"]), "{what}");
        }
    }
}

pub(super) fn step_shares(what: &str, run: &Run, golden: &Json) {
    let is_alone = rows(run, "SELECT 1 AS n FROM steps WHERE source <> 'composer'").is_empty();
    for (rank, theirs) in golden["per_rank"].as_object().unwrap() {
        let theirs = &theirs["share"];
        let sums = rows(
            run,
            &format!(
                "SELECT count(*) AS steps, CAST(sum(loader_ns) AS DOUBLE) AS loader, \
                     CAST(sum(batch_ns) AS DOUBLE) AS batch, CAST(sum(forward_ns) AS DOUBLE) AS forward, \
                     CAST(sum(backward_ns) AS DOUBLE) AS backward \
                 FROM trainer_steps WHERE rank = {rank}"
            ),
        );
        let sum = |name: &str| number(&sums[0][name]);
        let all = sum("loader") + sum("batch");
        close(sum("steps"), number(&theirs["steps"]), what);
        close(sum("loader") / all, number(&theirs["loader_share"]), what);
        close(sum("loader") / sum("batch"), number(&theirs["loader_over_batch"]), what);
        close(sum("forward") / all, number(&theirs["forward_share"]), what);
        close(sum("backward") / all, number(&theirs["backward_share"]), what);
        if !is_alone {
            continue;
        }
        // The values that rules read, if Composer alone marks the steps.
        let phases = rows(run, &format!("SELECT * FROM step_phases WHERE rank = {rank}"));
        for (column, key) in [
            ("dataloader_ratio", "loader_share"),
            ("forward_ratio", "forward_share"),
            ("backward_ratio", "backward_share"),
        ] {
            close(number(&phases[0][column]), number(&theirs[key]), &format!("{what}: {column}"));
        }
        let fetches = rows(run, &format!("SELECT * FROM loader_fetches WHERE rank = {rank}"));
        let without = number(&fetches[0]["wait_without_largest_ratio"]);
        close(without, number(&theirs["loader_share_without_largest"]), what);
    }
}

pub(super) fn rebuilt_steps(what: &str, run: &Run, golden: &Json) {
    for (rank, theirs) in golden["per_rank"].as_object().unwrap() {
        let theirs = &theirs["reconstructed"];
        let ours = rows(
            run,
            &format!(
                "SELECT count(*) AS steps, sum(loader_ns) / 1000.0 AS loader, sum(batch_ns) / 1000.0 AS batch \
                 FROM trainer_steps_reconstructed WHERE rank = {rank}"
            ),
        );
        if theirs.is_null() {
            close(number(&ours[0]["steps"]), 0.0, &format!("{what}: not possible before 0.9"));
            continue;
        }
        close(number(&ours[0]["steps"]), number(&theirs["steps"]), &format!("{what}: rebuilt"));
        close(number(&ours[0]["loader"]), number(&theirs["loader_us"]), what);
        close(number(&ours[0]["batch"]), number(&theirs["batch_us"]), what);
    }
}

pub(super) fn callbacks(what: &str, run: &Run, golden: &Json) {
    let ours = rows(
        run,
        "SELECT class, sum(total_ns) / 1000.0 AS us FROM trainer_callbacks \
         WHERE kind = 'callback' GROUP BY class",
    );
    let ours: BTreeMap<&str, f64> =
        ours.iter().map(|row| (row["class"].as_str().unwrap(), number(&row["us"]))).collect();
    // Between the cycles of other ranks, a live merge and the files differ by the clocks' difference.
    let tolerance = if what.starts_with("ranks2") { 500.0 } else { 0.0 };
    for (class, theirs) in golden["callback_total_us"].as_object().unwrap() {
        let distance = (ours[class.as_str()] - number(theirs)).abs();
        assert!(distance <= tolerance, "{what}: {class} {} {theirs}", ours[class.as_str()]);
    }
    let ours = rows(
        run,
        "SELECT batch_count, pause_ns / 1000.0 AS us FROM trainer_profile_pauses ORDER BY batch_count, us",
    );
    let usual = number(&golden["save_pause"]["median_us"]);
    let saves = golden["save_pause"]["saves"].as_array().unwrap();
    // The golden list has every pause over a limit of its own; those of saves are far longer.
    for theirs in saves.iter().filter(|save| number(&save["us"]) > 100.0 * usual) {
        let found = ours.iter().any(|row| {
            number(&row["batch_count"]).total_cmp(&number(&theirs["batch_count"])).is_eq()
                && (number(&row["us"]) - number(&theirs["us"])).abs() <= tolerance
        });
        assert!(found, "{what}: {theirs} not among {ours:?}");
    }
}

pub(super) fn machine_metrics(what: &str, run: &Run, golden: &Json) {
    let cpu = golden["cpu_percent"].as_object().unwrap();
    let summary = rows(run, "SELECT * FROM system_metrics_summary");
    let of = |metric: &str, device: &str| {
        let is_it = |row: &&BTreeMap<String, Json>| {
            row["metric"] == metric && row["device"].as_str().unwrap_or_default() == device
        };
        summary.iter().find(is_it).unwrap_or_else(|| panic!("{what}: no {metric} {device}"))
    };
    let ours = of("cpu_util", "");
    close(number(&ours["raw_mean_value"]), number(&cpu["mean"]), &format!("{what}: cpu"));
    close(number(&ours["max_value"]), number(&cpu["max"]), &format!("{what}: cpu max"));
    for (key, theirs) in golden["counter_series"].as_object().unwrap() {
        let Some(delta) = theirs["delta"].as_f64() else { continue };
        let mut parts = key.split('|').next().unwrap().rsplitn(2, '/');
        let (field, device) = (parts.next().unwrap(), parts.next().unwrap());
        let metric = match field {
            "read_bytes" => "disk_read",
            "write_bytes" => "disk_write",
            _ => continue,
        };
        let ours = of(metric, device.strip_prefix("disk/").unwrap());
        close(number(&ours["total"]), delta, &format!("{what}: {key}"));
    }
}

pub(super) fn optimizer(what: &str, run: &Run, golden: &Json) {
    let theirs = &golden["torch"]["optimizer_self_us"];
    let ours = rows(
        run,
        "SELECT count(optimizer_ns) AS n, sum(optimizer_ns) / 1000.0 AS sum FROM trainer_steps",
    );
    close(number(&ours[0]["n"]), number(&theirs["n"]), &format!("{what}: optimizer steps"));
    let distance = (number(&ours[0]["sum"]) - number(&theirs["sum"])).abs();
    assert!(distance < 0.01, "{what}: {ours:?} {theirs}");
}

fn judged(name: &str) -> Report {
    runs::report(&runs::traces().join(name)).as_ref().clone().unwrap()
}

fn loader_is_the_first_finding() {
    let report = judged("composer/workers0/plain");
    let first = &report.findings[0];
    assert_eq!(first.code, "IN001");
    assert!(first.message.contains("69.6 %"), "{}", first.message);
    // The gain, put to the test: the same run with two workers.
    let fast = &runs::open("composer/workers2/plain").run;
    let slow = &runs::open("composer/workers0/plain").run;
    let median = number(&rows(fast, "SELECT median(step_ns) AS ns FROM trainer_steps")[0]["ns"]);
    let mean = number(&rows(slow, "SELECT avg(step_ns) AS ns FROM trainer_steps")[0]["ns"]);
    let predicted = mean * (1.0 - first.fixes[0].alone_pct.mid / 100.0);
    assert!((predicted / median - 1.0).abs() < 0.10, "predicted {predicted}, measured {median}");

    let report = judged("composer/workers2/plain");
    let first = &report.findings[0];
    assert_eq!(first.code, "IN001");
    for part in ["12.8 %", "4.6 %", "Every 2nd fetch", "2 workers"] {
        assert!(first.message.contains(part), "{part}: {}", first.message);
    }
    assert!(first.advice.iter().any(|advice| advice.contains("2 more workers")), "{first:?}");
    let fetches = &rows(fast, "SELECT * FROM loader_fetches")[0];
    assert_eq!(fetches["fetch_period"], 2.0);
    assert_eq!(fetches["workers_more_count"], 2.0);
    assert!((number(&fetches["worker_batch_ns"]) / 82e6 - 1.0).abs() < 0.03, "{fetches:?}");
    assert!((number(&fetches["compute_ns"]) / 35e6 - 1.0).abs() < 0.05, "{fetches:?}");
}

fn samples_of_determined_are_judged() {
    for (trial, share) in [(101, "81.2 %"), (102, "53.5 %")] {
        let report = judged(&format!("determined/old_generation/wire_trial{trial}.jsonl"));
        let first = &report.findings[0];
        assert_eq!(first.code, "IN001", "trial {trial}");
        assert!(first.message.contains(share), "trial {trial}: {}", first.message);
    }
    for run in
        ["old_generation_synthetic_gpu/wire_trial103", "new_generation_synthetic_gpu/wire_trial203"]
    {
        // The rule is in preview: no recording of real GPUs has fired it.
        let run_path = runs::traces().join(format!("determined/{run}.jsonl"));
        let report = Run::open(&run_path).unwrap().check(&rules_with_preview()).unwrap();
        let gpus = report.findings.iter().find(|finding| finding.code == "GU006").unwrap();
        let places = gpus.affected.fired;
        assert_eq!(places, if run.contains("103") { 2 } else { 4 }, "{run}");
    }
}
