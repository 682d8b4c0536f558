//! What is one run: folders with traces of several, and files of one that are given one by one.

use std::path::Path;

use serde_json::Value;

use crate::support::sandbox::Sandbox;

fn copy(from: &str, sandbox: &Sandbox, to: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(from);
    let to = sandbox.path(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Paths of the runs in JSON reports.
fn paths(output: &std::process::Output) -> Vec<String> {
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = reports.as_array().cloned().unwrap_or_else(|| vec![reports.clone()]);
    reports.iter().map(|r| r["run"]["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn traces_of_several_programs_are_not_one_run() {
    let sandbox = Sandbox::new();
    copy("h100/gpt.json.gz", &sandbox, "all/gpt.json.gz");
    copy("h100/decode.json.gz", &sandbox, "all/decode.json.gz");
    copy("cpu/layers_python.json.gz", &sandbox, "all/layers.json.gz");
    for command in
        ["sql all query", "analyze gpu_utilization all", "tables all", "export all --to x"]
    {
        let args: Vec<&str> = command.split(' ').collect();
        let output = sandbox.run(&args);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(output.stdout.is_empty(), "{command}");
        let error = stderr(&output);
        assert!(error.contains("error: all holds 3 runs, not one"), "{error}");
        for file in ["all/gpt.json.gz", "all/decode.json.gz", "all/layers.json.gz"] {
            assert!(error.contains(file), "{error}");
        }
        assert!(error.contains("H100") && error.contains("pass one of these paths"), "{error}");
    }
    let output = sandbox.run(&["check", "all", "-f", "json"]);
    assert_eq!(paths(&output), ["all/decode.json.gz", "all/gpt.json.gz", "all/layers.json.gz"]);
    assert!(stderr(&output).contains("note: all holds 3 runs"), "{}", stderr(&output));
    // What is known of the folder is cached, and still true after that.
    let cache = sandbox.path("cache");
    for _ in 0..2 {
        let mut command = sandbox.command(&["check", "all", "-f", "json"]);
        let cached = command.env("ADVISOR_CACHE_DIR", &cache).output().unwrap();
        assert_eq!(cached.stdout, output.stdout);
    }
}

#[test]
fn ranks_that_are_given_one_by_one_are_one_run() {
    let sandbox = Sandbox::with_run();
    let mut files: Vec<String> = sandbox
        .path("run")
        .read_dir()
        .unwrap()
        .map(|entry| format!("run/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    files.sort();
    let mut args = vec!["check", "-f", "json"];
    args.extend(files.iter().map(String::as_str));
    let joined = sandbox.run(&args);
    assert!(stderr(&joined).contains("2 files are one run"), "{}", stderr(&joined));
    let report: Value = serde_json::from_slice(&joined.stdout).unwrap();
    assert_eq!(report["run"]["ranks"], serde_json::json!([0, 1]));
    // The path that stands for them opens the same run.
    let path = report["run"]["path"].as_str().unwrap();
    let again = sandbox.run(&["check", "-f", "json", path]);
    assert_eq!(again.stdout, joined.stdout);
    // A rank and another program are two runs.
    copy("h100/gpt.json.gz", &sandbox, "gpt.json.gz");
    let output = sandbox.run(&["check", "-f", "json", &files[0], "gpt.json.gz"]);
    assert_eq!(paths(&output), [files[0].as_str(), "gpt.json.gz"]);
}

#[test]
fn each_checks_the_runs_below_a_folder() {
    let sandbox = Sandbox::with_run();
    copy("h100/gpt.json.gz", &sandbox, "more/a/gpt.json.gz");
    copy("h100/decode.json.gz", &sandbox, "more/b/decode.json.gz");
    copy("cpu/layers_python.json.gz", &sandbox, "more/b/layers.json.gz");
    let output = sandbox.run(&["check", "--each", "more", "run", "-f", "json"]);
    assert_eq!(paths(&output), ["more/a", "more/b/decode.json.gz", "more/b/layers.json.gz", "run"]);
}

#[test]
fn each_reads_the_runs_below_a_folder() {
    let sandbox = Sandbox::new();
    copy("h100/gpt.json.gz", &sandbox, "more/a/gpt.json.gz");
    copy("h100/decode.json.gz", &sandbox, "more/b/decode.json.gz");
    copy("cpu/layers_python.json.gz", &sandbox, "more/b/layers.json.gz");
    std::fs::create_dir(sandbox.path("more/c")).unwrap();
    sandbox.write("more/c/broken.json", "not JSON");
    let runs = ["more/a", "more/b/decode.json.gz", "more/b/layers.json.gz"];
    let read = |args: &[&str]| {
        let output = sandbox.run(&[&["--no-progress"], args, &["--each"]].concat());
        // The run that cannot be read is an error after the rows of the others.
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains("error: ") && stderr(&output).contains("broken.json"),
            "{args:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    };

    let counts = "SELECT count(*) AS kernels FROM kernels";
    let rows: Value = serde_json::from_str(&read(&["sql", "more", counts, "-f", "json"])).unwrap();
    for (row, run) in rows.as_array().unwrap().iter().zip(runs) {
        assert_eq!(row["run"], run);
        let alone = sandbox.run(&["sql", run, counts, "-f", "json"]);
        let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
        assert_eq!(row["kernels"], alone[0]["kernels"], "{run}");
    }
    assert_eq!(rows.as_array().unwrap().len(), runs.len());

    let rows = read(&["analyze", "step_time_summary", "more", "-f", "csv", "--columns", "mean_ns"]);
    assert!(rows.starts_with("run,mean_ns\n"), "{rows}");
    assert!(runs[..2].iter().all(|run| rows.contains(&format!("\n{run},"))), "{rows}");
    for overview in [read(&["analyze", "more"]), read(&["tables", "more"])] {
        let headings: Vec<&str> = overview.lines().filter(|line| runs.contains(line)).collect();
        assert_eq!(headings, runs, "{overview}");
    }

    read(&["export", "more", "-o", "parquet"]);
    for run in ["a", "b/decode", "b/layers"] {
        let tables = sandbox.run(&["tables", &format!("parquet/{run}")]);
        assert_eq!(tables.status.code(), Some(0), "{run}: {}", stderr(&tables));
    }
    let written = read(&["augment", "more", "-o", "augmented", "--only", "counters"]);
    let written: Vec<&str> = written.lines().collect();
    let files = ["a/gpt.json.gz", "b/decode/decode.json.gz", "b/layers/layers.json.gz"];
    assert_eq!(written, files.map(|file| format!("augmented/{file}")));
}

#[test]
fn runs_below_a_run_are_read_or_named() {
    let sandbox = Sandbox::new();
    copy("h100/gpt.json.gz", &sandbox, "multi/gpt.json.gz");
    copy("h100/decode.json.gz", &sandbox, "multi/sub/run1/decode.json.gz");
    copy("cpu/layers_python.json.gz", &sandbox, "multi/sub/run2/layers.json.gz");
    let note = "note: skipped: 2 runs below multi, which holds traces itself: multi/sub/run1, multi/sub/run2; --each";
    let commands = [
        &["check", "multi"][..],
        &["sql", "multi", "SELECT 1 AS one"],
        &["analyze", "gpu_utilization", "multi"],
        &["analyze", "multi"],
        &["tables", "multi"],
        &["export", "multi", "-o", "alone"],
        &["augment", "multi", "-o", "augmented"],
    ];
    for args in commands {
        let output = sandbox.run(args);
        assert_eq!(stderr(&output).matches(note).count(), 1, "{args:?}: {}", stderr(&output));
    }
    let output = sandbox.run(&["check", "multi", "-f", "json"]);
    assert_eq!(paths(&output), ["multi"]);
    let output = sandbox.run(&["check", "--each", "multi", "-f", "json"]);
    assert_eq!(paths(&output), ["multi", "multi/sub/run1", "multi/sub/run2"]);
    assert!(!stderr(&output).contains("skipped: "), "{}", stderr(&output));
    sandbox.run(&["export", "multi", "--each", "-o", "parquet"]);
    let output = sandbox.run(&["check", "parquet", "--each", "-f", "json"]);
    assert_eq!(paths(&output), ["parquet/multi", "parquet/sub/run1", "parquet/sub/run2"]);
}

#[test]
fn each_stops_at_a_mistake_in_the_query() {
    let sandbox = Sandbox::with_run();
    let output = sandbox.run(&["sql", "run", "--each", "SELECT nam FROM kernels"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(stderr(&output).matches("no column").count(), 1, "{}", stderr(&output));
    let output = sandbox.run(&["sql", "run", "--each", "SELECT 1 AS run"]);
    assert!(stderr(&output).contains("`run` names the run"), "{}", stderr(&output));
}

#[test]
fn cycle_that_a_rank_does_not_have_is_an_error() {
    let sandbox = Sandbox::with_run();
    for cycle in ["0", "2"] {
        let output = sandbox.run(&["check", "run", "--cycle", cycle]);
        assert_eq!(output.status.code(), Some(2));
        let error = stderr(&output);
        let expected = format!("there is no profile cycle {cycle}: rank 0 has 1");
        assert!(error.contains(&expected), "{error}");
    }
    assert_ne!(sandbox.run(&["check", "run", "--cycle", "1"]).status.code(), Some(2));
}

#[test]
fn run_that_cannot_be_judged_fails() {
    let sandbox = Sandbox::with_run();
    sandbox.write("empty.json", "{\"traceEvents\": []}");
    sandbox.write(
        "other.json",
        "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"cat\": \"x\", \"ts\": 1, \"dur\": 2, \"pid\": 1, \"tid\": 1}]}",
    );
    for run in ["empty.json", "other.json"] {
        let output = sandbox.run(&["check", run, "--exit-zero"]);
        assert_eq!(output.status.code(), Some(2), "{run}");
        assert!(stderr(&output).contains(&format!("{run} could not be judged: ")), "{run}");
    }
    for selection in [["--between", "100s..200s"], ["--name", "nomatch"]] {
        let output = sandbox.run(&["check", "run", selection[0], selection[1]]);
        assert_eq!(output.status.code(), Some(2), "{selection:?}");
        assert!(stderr(&output).contains("no event is selected"), "{}", stderr(&output));
    }
}
