//! Pipelines: recorded with Gloo (`tests/fixtures/pipeline`), and generated, with a bubble and a slow stage that are
//! known.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use trace_advisor::advisor::Severity;
use trace_advisor::{Run, default_rules};
use trace_demo::{Bottleneck, Options, PipelineSchedule, render_rank, write_run};

use crate::support::rows;

const MS: i64 = 1_000_000;
/// From the end of a pass to the arrival of its message.
const TRANSFER: i64 = 40_000;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipeline").join(name)
}

fn options(schedule: PipelineSchedule, equal_stages: bool) -> Options {
    Options {
        bottleneck: Bottleneck::Pipeline,
        ranks: 4,
        schedule,
        equal_stages,
        ..Options::default()
    }
}

fn number(run: &Run, query: &str) -> i64 {
    rows::number(&run.sql(query).unwrap_or_else(|e| panic!("{query}: {e}"))) as i64
}

/// A generated run, from a step on in which the pipeline is in steady state.
fn generated(options: &Options) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    write_run(options, folder.path()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    (folder, run)
}

fn assert_sums(run: &Run, name: &str) {
    let wrong = "SELECT count(*) FROM pipeline_bubble
        WHERE step_ns <> compute_ns + receive_ns + send_ns + idle_ns + other_ns
            OR bubble_ns <> receive_ns + send_ns + idle_ns OR bubble_ns <> warmup_ns + steady_ns + drain_ns
            OR bubble_ns <> ideal_ns + imbalance_ns + rest_ns";
    assert_eq!(number(run, wrong), 0, "{name}");
    let cut = "SELECT count(*) FROM pipeline_bubble b JOIN device_steps s ON s.rank = b.rank AND s.step = b.step
        WHERE b.step_ns <> s.dur_ns";
    assert_eq!(number(run, cut), 0, "{name}");
}

#[test]
fn recorded_schedules_are_recognized() {
    for (name, schedule, chunks, named_by, stage_from) in [
        ("gpipe", "gpipe", 1, "torch", "messages"),
        ("1f1b", "1f1b", 1, "pattern", "messages"),
        ("interleaved", "interleaved", 2, "torch", "name"),
        ("zbv", "zero bubble", 2, "torch", "name"),
    ] {
        let run = Run::open(fixture(name)).unwrap();
        assert_sums(&run, name);
        let agreeing = format!(
            "SELECT count(*) FROM pipeline_summary
             WHERE is_pipeline AND schedule = '{schedule}' AND microbatch_count = 4 AND chunk_count = {chunks}
                 AND rank_count = 2 AND named_by = '{named_by}' AND stage_from = '{stage_from}' AND step_count = 3"
        );
        assert_eq!(number(&run, &agreeing), 2, "{name}");
        // Each of 3 steps: forward and backward of 4 microbatches, and of their weights.
        let kinds = if schedule == "zero bubble" { 3 } else { 2 };
        let count =
            "SELECT count(*) FROM pipeline_microbatches WHERE rank = 0 AND kind = 'forward'";
        assert_eq!(number(&run, count), 3 * 4 * chunks, "{name}");
        let count = "SELECT count(DISTINCT kind) FROM pipeline_microbatches";
        assert_eq!(number(&run, count), kinds, "{name}");
        let first = "SELECT rank FROM pipeline_stages WHERE stage = 0";
        assert_eq!(number(&run, first), 0, "{name}");
    }
}

/// In both runs the second stage has three times as many layers.
#[test]
fn recorded_slow_stage_is_named() {
    for name in ["gpipe", "1f1b"] {
        let run = Run::open(fixture(name)).unwrap();
        let report = run.check(&default_rules()).unwrap();
        let found = report.findings.iter().find(|f| f.code == "PP002").unwrap();
        assert_eq!(found.severity, Severity::High, "{name}");
        assert!(
            found.title.contains("Stage 1 of the pipeline (rank 1)"),
            "{name}: {}",
            found.title
        );
        assert_eq!(report.headline.first.as_deref(), Some("PP002"), "{name}");
    }
}

#[test]
fn equal_stages_have_the_bubble_of_the_formula() {
    let (_folder, run) = generated(&options(PipelineSchedule::Gpipe, true));
    assert_sums(&run, "gpipe");
    for rank in 0..4 {
        let value = |column: &str| {
            number(
                &run,
                &format!("SELECT {column} FROM pipeline_bubble WHERE rank = {rank} AND step = 6"),
            )
        };
        // Four ranks, eight microbatches of 2 and 4 ms: (p-1)/m of the computing time, and three messages each way.
        assert_eq!(value("compute_ns"), 48 * MS, "{rank}");
        assert_eq!(value("ideal_ns"), 18 * MS, "{rank}");
        assert_eq!(value("imbalance_ns"), 0, "{rank}");
        // The time in which the host launches the first receive counts as other time.
        let beyond = value("bubble_ns") - 18 * MS - 6 * TRANSFER;
        assert!((-10_000..=0).contains(&beyond), "{rank}: {beyond}");
        assert_eq!(value("steady_ns"), 0, "{rank}");
    }
    for schedule in [PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved] {
        let (_folder, run) = generated(&options(schedule, true));
        assert_sums(&run, "equal");
        let ideal = if schedule == PipelineSchedule::Interleaved { 9 } else { 18 } * MS;
        let query = "SELECT min(ideal_ns) FROM pipeline_bubble WHERE step = 6";
        assert_eq!(number(&run, query), ideal, "{schedule:?}");
        // A message on the way of each pass is the most that is lost.
        let lost = number(&run, "SELECT max(rest_ns) FROM pipeline_bubble WHERE step = 6");
        assert!((0..40 * TRANSFER).contains(&lost), "{schedule:?}: {lost}");
    }
}

#[test]
fn slow_stage_costs_what_was_planted() {
    let (_folder, run) = generated(&options(PipelineSchedule::Gpipe, false));
    // Rank 2 takes 72 ms, the others 48, the mean 54. For 7 of 8 microbatches the others wait 18 ms / 8 longer.
    for (rank, compute, imbalance) in
        [(0, 48, 21_750_000), (2, 72, -2_250_000), (3, 48, 21_750_000)]
    {
        let value = |column: &str| {
            number(
                &run,
                &format!("SELECT {column} FROM pipeline_bubble WHERE rank = {rank} AND step = 6"),
            )
        };
        assert_eq!(value("compute_ns"), compute * MS, "{rank}");
        assert_eq!(value("ideal_ns"), 54 * MS * 3 / 8, "{rank}");
        assert_eq!(value("imbalance_ns"), imbalance, "{rank}");
        let beyond = value("rest_ns") - 6 * TRANSFER;
        assert!((-10_000..=0).contains(&beyond), "{rank}: {beyond}");
    }
}

#[test]
fn slow_stage_comes_first() {
    for schedule in [
        PipelineSchedule::Gpipe,
        PipelineSchedule::OneForwardOneBackward,
        PipelineSchedule::Interleaved,
    ] {
        let (_folder, run) = generated(&options(schedule, false));
        let report = run.check(&default_rules()).unwrap();
        assert_eq!(report.headline.first.as_deref(), Some("PP002"), "{schedule:?}");
        let found = report.findings.iter().find(|f| f.code == "PP002").unwrap();
        assert!(found.title.contains("Stage 2 of the pipeline (rank 2)"), "{}", found.title);
        assert!(!report.findings.iter().any(|f| f.code == "CM005"), "{schedule:?}");
    }
}

#[test]
fn equal_stages_fire_only_for_the_schedule() {
    let (_folder, run) = generated(&options(PipelineSchedule::OneForwardOneBackward, true));
    let report = run.check(&default_rules()).unwrap();
    let codes: Vec<&str> =
        report.findings.iter().map(|f| f.code.as_str()).filter(|c| c.starts_with("PP")).collect();
    assert_eq!(codes, ["PP001"]);
}

/// Other frameworks use other names, and some none at all: passes and bubble are the same. Generated from the demo.
#[test]
fn names_of_other_frameworks_give_the_same_bubble() {
    let options = options(PipelineSchedule::OneForwardOneBackward, false);
    let (_folder, known) = generated(&options);
    let sum = "SELECT sum(compute_ns * 3 + bubble_ns * 5 + warmup_ns) FROM pipeline_bubble";
    let expected = number(&known, sum);
    for (forward, backward, named_by) in [
        ("forward-compute", "backward-compute", "megatron"),
        ("_exec_forward_pass", "_exec_backward_pass", "deepspeed"),
        ("ForwardPass(buffer_id=0)", "BackwardPass(buffer_id=0)", "deepspeed"),
        ("work", "work", "pattern"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..4 {
            let text = String::from_utf8(render_rank(&options, rank, Vec::new()).unwrap()).unwrap();
            let text = rename_passes(&text, forward, backward);
            std::fs::File::create(folder.path().join(format!("rank-{rank}.pt.trace.json")))
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        }
        let run = Run::open(folder.path()).unwrap();
        assert_sums(&run, forward);
        assert_eq!(number(&run, sum), expected, "{forward}");
        let agreeing = format!(
            "SELECT count(*) FROM pipeline_summary
             WHERE named_by = '{named_by}' AND stage = rank AND stage_from = 'messages' AND microbatch_count = 8"
        );
        assert_eq!(number(&run, &agreeing), 4, "{forward}");
    }
}

/// Replaces `PP:1F0` and `PP:1B0`.
fn rename_passes(text: &str, forward: &str, backward: &str) -> String {
    let mut parts = text.split("\"PP:");
    let mut renamed = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('"').unwrap();
        let name = if name.contains('F') { forward } else { backward };
        for text in ["\"", name, "\"", rest] {
            renamed.push_str(text);
        }
    }
    renamed
}

#[test]
fn runs_without_a_pipeline_pass() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run");
    let run = Run::open(example).unwrap();
    let report = run.check(&default_rules()).unwrap();
    let unknown: Vec<&str> =
        report.unknown.iter().map(|u| u.code.as_str()).filter(|c| c.starts_with("PP")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(number(&run, "SELECT count(*) FROM pipeline_bubble"), 0);
}

/// One rank alone: its schedule is known, other stages are not.
#[test]
fn one_rank_of_a_pipeline_cannot_be_compared() {
    let (folder, _run) = generated(&options(PipelineSchedule::OneForwardOneBackward, false));
    let first = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("rank-0."))
        .unwrap();
    let run = Run::open(&first).unwrap();
    let report = run.check(&default_rules()).unwrap();
    let unknown: Vec<&str> =
        report.unknown.iter().map(|u| u.code.as_str()).filter(|c| c.starts_with("PP")).collect();
    assert_eq!(unknown, ["PP002", "PP003"]);
    assert_eq!(number(&run, "SELECT rank_count FROM pipeline_summary"), 4);
}

#[test]
fn fixtures_hold_no_paths_of_machines() {
    for name in ["gpipe", "1f1b", "interleaved", "zbv"] {
        for rank in 0..2 {
            let file =
                std::fs::File::open(fixture(name).join(format!("rank{rank}.json.gz"))).unwrap();
            let mut text = String::new();
            flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
            assert!(
                !text.contains("/home") && !text.contains("/root") && !text.contains("/tmp"),
                "{name}"
            );
        }
    }
}
