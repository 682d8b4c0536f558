//! The same report from one process and from shards.

use std::fs;
use std::path::Path;

use super::{check, fails, groups, map, succeeds, with_ranks};
use crate::support::corpus;
use crate::support::export::{assert_same, read};
use crate::support::sandbox::Sandbox;
use crate::support::slice;

#[test]
fn report_is_that_of_one_process() {
    let sandbox = with_ranks(6);
    let expected = check(&sandbox, &[]);
    assert!(expected.0.contains("straggler"), "{}", expected.0);
    for shard in ["3/3", "1/3", "2/3"] {
        map(&sandbox, shard);
    }
    assert_eq!(groups(&sandbox).len(), 3);
    assert_eq!(check(&sandbox, &["--from", "mapped"]), expected);
    // The ranks start at different times: those of later ones were shifted.
    let query = "SELECT count(*) AS n FROM ranks WHERE start_ns > 0";
    let rows = succeeds(&sandbox, &["sql", "run", query, "--from", "mapped", "--format", "csv"]);
    assert_eq!(String::from_utf8(rows.stdout).unwrap(), "n\n5\n");
}

#[test]
fn page_and_queries_are_those_of_one_process() {
    let sandbox = with_ranks(3);
    map(&sandbox, "1/2");
    map(&sandbox, "2/2");
    for args in [
        &["check", "run", "--exit-zero", "--format", "html"][..],
        &["check", "run", "--exit-zero", "--ranks", "1-2", "--format", "json"],
        &["check", "run", "--exit-zero", "--steps", "4", "--format", "json"],
        &["check", "run", "--exit-zero", "--set", "short_kernel_us=3", "--format", "json"],
        &["analyze", "idle_gap_causes", "run", "--format", "csv"],
        &["analyze", "comm_stragglers", "run", "--format", "csv"],
        &["sql", "run", "SELECT rank, step, ts_ns, dur_ns FROM steps", "--format", "csv"],
    ] {
        let one = succeeds(&sandbox, args).stdout;
        let mapped = succeeds(&sandbox, &[args, &["--from", "mapped"]].concat()).stdout;
        assert!(one == mapped, "{args:?}");
    }
}

#[test]
fn export_of_a_mapped_run_is_that_of_the_run() {
    let sandbox = with_ranks(5);
    // Rows from other files than timelines.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let snapshot = fixtures.join("memory/cpu_profile.pickle.gz");
    fs::copy(snapshot, sandbox.path("run/snapshot.pickle.gz")).unwrap();
    for shard in ["2/2", "1/2"] {
        map(&sandbox, shard);
    }
    let traces = succeeds(&sandbox, &["export", "run", "-o", "from-traces"]);
    let mapped = succeeds(&sandbox, &["export", "run", "-o", "from-mapped", "--from", "mapped"]);
    assert_eq!(traces.stderr, mapped.stderr);
    let exports = ["from-traces", "from-mapped"].map(|folder| read(&sandbox.path(folder)).unwrap());
    assert!(exports[0].tables.rows("snapshots") > 0 && exports[0].tables.rows("kernels") > 0);
    assert_same(&exports[0], &exports[1], "from the traces and from mapped ranks");

    // An export is complete or absent.
    let last = groups(&sandbox).pop().unwrap().join("tables/kernels.parquet");
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let text = fails(&sandbox, &["export", "run", "-o", "damaged", "--from", "mapped"]);
    assert!(text.contains("tables/kernels.parquet"), "{text}");
    assert!(!sandbox.path("damaged").exists());
}

#[test]
fn ranks_that_are_mapped_are_skipped() {
    let sandbox = with_ranks(4);
    let last = sandbox.path("run").read_dir().unwrap().map(|e| e.unwrap().path()).max().unwrap();
    let aside = sandbox.path("aside.json.gz");
    fs::rename(&last, &aside).unwrap();
    assert!(map(&sandbox, "1/1").starts_with("shard 1/1: 3 traces; "));
    let before = groups(&sandbox);
    assert!(
        map(&sandbox, "1/1")
            .starts_with("shard 1/1: 3 traces, 3 of which were mapped before; 0.0 MB")
    );
    assert_eq!(groups(&sandbox), before);

    // A rank is added. Its file has the time of its creation.
    fs::rename(&aside, &last).unwrap();
    let text = fails(&sandbox, &["check", "run", "--from", "mapped"]);
    let name = last.file_name().unwrap().to_string_lossy();
    assert!(text.contains(&format!("mapped lacks 1 of the 4 traces of run: {name}")), "{text}");
    assert!(text.contains("`advisor map`"), "{text}");
    let text = map(&sandbox, "1/1");
    assert!(text.starts_with("shard 1/1: 4 traces, 3 of which were mapped before; "), "{text}");
    assert_eq!(groups(&sandbox).len(), 2);
    assert_eq!(check(&sandbox, &["--from", "mapped"]), check(&sandbox, &[]));
}

#[test]
fn changed_trace_is_mapped_again() {
    let sandbox = with_ranks(2);
    map(&sandbox, "1/1");
    let first = sandbox.path("run").read_dir().unwrap().map(|e| e.unwrap().path()).min().unwrap();
    let file = fs::File::open(&first).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(9)).unwrap();
    fails(&sandbox, &["check", "run", "--from", "mapped"]);
    map(&sandbox, "1/1");
    assert_eq!(check(&sandbox, &["--from", "mapped"]), check(&sandbox, &[]));
}

#[test]
fn more_shards_than_traces_leave_some_empty() {
    let sandbox = with_ranks(2);
    for number in 1..=5 {
        map(&sandbox, &format!("{number}/5"));
    }
    assert_eq!(groups(&sandbox).len(), 2);
    assert_eq!(check(&sandbox, &["--from", "mapped"]), check(&sandbox, &[]));
}

/// Files besides the traces are read when the run is put together: they are small, or of one rank.
#[test]
fn other_files_of_the_run_are_read() {
    let sandbox = with_ranks(3);
    let dumps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/flight/skip");
    for dump in dumps.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&dump, sandbox.path("run").join(dump.file_name().unwrap())).unwrap();
    }
    let text = map(&sandbox, "1/1");
    assert!(text.starts_with("shard 1/1: 3 traces; "), "{text}");
    let (report, errors) = check(&sandbox, &[]);
    assert!(report.contains("FR001") && report.contains("straggler"), "{report}");
    assert_eq!(check(&sandbox, &["--from", "mapped"]), (report, errors));
}

/// Of traces that do not state their rank, nothing says which one it is until all are known.
#[test]
fn traces_of_unknown_rank_are_read() {
    let sandbox = with_ranks(2);
    let folder = sandbox.path("run");
    let event = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":5}"#;
    for entry in folder.read_dir().unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for name in ["run/a.json", "run/b.json"] {
        sandbox.write(name, format!("[{event}]"));
    }
    sandbox.write("run/broken.json", "[");
    let text = map(&sandbox, "1/1");
    assert!(text.contains("2 traces cannot be mapped"), "{text}");
    assert_eq!(check(&sandbox, &["--from", "mapped"]), check(&sandbox, &[]));
}

#[test]
fn files_that_need_each_other_are_refused() {
    let sandbox = with_ranks(1);
    let composer = "../../tests/fixtures/composer/storage/ep0-ba20-rank0.json.gz";
    let to = sandbox.path("run/ep0-ba20-rank0.json.gz");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(composer), &to).unwrap();
    let text = fails(&sandbox, &["map", "run", "--to", "mapped"]);
    assert!(text.contains("run cannot be mapped: it has traces of Composer's profiler"), "{text}");
    fs::remove_file(to).unwrap();
    succeeds(&sandbox, &["export", "run", "-o", "tables"]);
    let text = fails(&sandbox, &["map", "tables", "--to", "mapped"]);
    assert!(text.contains("tables cannot be mapped: it is an export"), "{text}");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn reports_of_real_runs_are_those_of_one_process() {
    let traces = corpus::corpus().join("traces");
    let name = "mapped::shards::reports_of_real_runs_are_those_of_one_process";
    let runs = slice::take(name, corpus::runs(&traces));
    let (all, mut mapped) = (runs.len(), 0);
    for run in runs {
        let sandbox = Sandbox::new();
        let run = run.to_str().unwrap();
        let one = sandbox.run(&["check", run, "--format", "json"]);
        if !sandbox.run(&["map", run, "--to", "mapped"]).status.success() {
            continue;
        }
        let from = sandbox.run(&["check", run, "--from", "mapped", "--format", "json"]);
        assert_eq!(from.status, one.status, "{run}");
        assert!(from.stdout == one.stdout, "{run}: the reports differ");
        sandbox.run(&["export", run, "-o", "from-traces"]);
        sandbox.run(&["export", run, "-o", "from-mapped", "--from", "mapped"]);
        let exports =
            ["from-traces", "from-mapped"].map(|folder| read(&sandbox.path(folder)).unwrap());
        assert_same(&exports[0], &exports[1], run);
        mapped += 1;
    }
    assert!(mapped > all / 2, "{mapped} of {all} runs");
}
