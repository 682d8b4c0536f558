//! Dumps of PyTorch's Flight Recorder that Gloo recorded (`tests/fixtures/flight`), and generated ones as NCCL writes them.

use std::path::{Path, PathBuf};

use trace_advisor::{Report, Run};

use crate::support::preview::rules_with_preview;

use crate::support::rows::text_rows as rows;
use crate::support::sandbox::Sandbox;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/flight").join(name)
}

fn check(folder: &Path) -> Report {
    Run::open(folder).unwrap().check(&rules_with_preview()).unwrap()
}

/// Findings about hangs, and rules about them without a verdict.
fn verdicts(report: &Report) -> Vec<String> {
    let findings = report.findings.iter().filter(|finding| finding.code.starts_with("FR"));
    let findings = findings.map(|f| format!("{} {} {}", f.code, f.severity, f.title));
    let unknown = report.unknown.iter().filter(|rule| rule.code.starts_with("FR"));
    let unknown = unknown.map(|rule| format!("{} unknown: {}", rule.code, rule.reason));
    findings.chain(unknown).collect()
}

fn message<'r>(report: &'r Report, code: &str) -> &'r str {
    &report.findings.iter().find(|finding| finding.code == code).unwrap().message
}

#[test]
fn healthy_run_has_no_finding() {
    let report = check(&fixture("healthy"));
    assert_eq!(verdicts(&report), [""; 0]);
    let run = Run::open(fixture("healthy")).unwrap();
    assert_eq!(
        rows(&run, "SELECT DISTINCT verdict, completed_count FROM flight_collectives"),
        ["complete 4"]
    );
}

/// Rank 2 sleeps in `validate` instead of calling the third `all_reduce`.
#[test]
fn rank_that_skipped_a_collective_is_named_with_its_last_line() {
    for folder in ["skip", "skip_json"] {
        let report = check(&fixture(folder));
        assert_eq!(
            verdicts(&report),
            ["FR001 high Rank 2 never called `all_reduce of [8, 4] Float`"]
        );
    }
    let report = check(&fixture("skip"));
    assert_eq!(
        message(&report, "FR001"),
        "3 ranks wait in it: number 5 of process group 0 (default_pg), called at /job/train.py:24. The last that rank 2 \
         called is `all_gather of [4] Float` (number 4 of group 0), which completed: it left /job/train.py:28 \
         (`gather_losses`) and did not come to the next call."
    );
}

#[test]
fn ranks_that_called_different_collectives_are_named() {
    let report = check(&fixture("operation"));
    assert_eq!(verdicts(&report), ["FR002 high Ranks call different collectives"]);
    assert_eq!(
        message(&report, "FR002"),
        "At number 5 of process group 0 (default_pg): ranks 0, 1, 2: all_reduce of [8, 4] Float (/job/train.py:24); rank \
         3: broadcast of [8, 4] Float (/job/train.py:36). It did not complete on 4 ranks."
    );
    let report = check(&fixture("size"));
    assert_eq!(verdicts(&report), ["FR002 high Ranks call a collective with different sizes"]);
}

/// Gloo ended the process of rank 1: the others cannot tell what it called.
#[test]
fn rank_without_a_dump_leaves_the_verdict_open() {
    let report = check(&fixture("crash"));
    assert_eq!(
        verdicts(&report),
        [
            "FR003 medium Rank 1 left no dump of the Flight Recorder",
            "FR001 unknown: 1 collective did not complete, and the dumps do not tell whether all ranks called it: rank 1 \
             left no dump",
            "FR004 unknown: rank 1 left no dump of the Flight Recorder: whether they called is unknown",
        ]
    );
}

/// Ranks 0 and 1 overwrote three of the four collectives that all ranks called.
#[test]
fn overwritten_records_are_not_missing() {
    assert_eq!(verdicts(&check(&fixture("wraparound"))), [""; 0]);
    let run = Run::open(fixture("wraparound")).unwrap();
    assert_eq!(
        rows(
            &run,
            "SELECT group_name, seq, verdict, unknown_count FROM flight_collectives WHERE group_name = '0'"
        ),
        ["0 1 complete 2", "0 2 complete 2", "0 3 complete 2", "0 4 complete 0"]
    );
}

/// An entry as NCCL writes it.
fn entry(record_id: i64, group: &str, fields: &str) -> String {
    format!(
        r#"{{"record_id": {record_id}, "pg_id": {group}, "process_group": ["{group}", "stage"], "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]], "output_dtypes": ["Float"], "time_created_ns": {}, "op_id": {record_id}, "timeout_ms": 600000, "time_discovered_completed_ns": 0, {fields}}}"#,
        1_700_000_000_000_000_000 + record_id,
    )
}

/// Generated, as no GPUs were at hand: rank 3 waits for a message that rank 2 never sends, so rank 2 timed out in a group of
/// ranks 2 and 3 that PyTorch calls 1.
#[test]
fn messages_of_nccl_without_a_partner_are_found() {
    let sandbox = Sandbox::new();
    let dump = |entries: &[String]| {
        format!(
            r#"{{"version": "2.10", "pg_config": {{"1": {{"name": "1", "desc": "stage", "ranks": "[2, 3]"}}}}, "entries": [{}]}}"#,
            entries.join(",")
        )
    };
    let folder = sandbox.path("run");
    std::fs::create_dir(&folder).unwrap();
    let all_reduce = r#""collective_seq_id": 1, "p2p_seq_id": 0, "is_p2p": false, "profiling_name": "nccl:all_reduce", "state": "completed", "retired": true"#;
    let recv = r#""collective_seq_id": 1, "p2p_seq_id": 1, "is_p2p": true, "profiling_name": "nccl:recv 1<-0", "state": "started", "retired": false"#;
    std::fs::write(folder.join("comm_lib_trace_rank_2"), dump(&[entry(0, "1", all_reduce)]))
        .unwrap();
    std::fs::write(
        folder.join("comm_lib_trace_rank_3"),
        dump(&[entry(0, "1", all_reduce), entry(1, "1", recv)]),
    )
    .unwrap();
    let report = check(&folder);
    assert_eq!(
        verdicts(&report),
        ["FR004 high A receive waits for a send that rank 2 never called"]
    );
    assert_eq!(message(&report, "FR004"), "Rank 3 waits in `recv of [4] Float`.");
}

#[test]
fn program_reads_a_folder_of_dumps_and_sets_the_exit_code() {
    let sandbox = Sandbox::new();
    let code = |folder: &str| {
        let folder = fixture(folder).display().to_string();
        sandbox.run(&["check", &folder]).status.code()
    };
    assert_eq!(code("healthy"), Some(0));
    assert_eq!(code("skip"), Some(1));
}

/// Runs without dumps pass: nothing is said of them.
#[test]
fn rules_about_hangs_are_silent_without_dumps() {
    let compiled =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/compiled/fused");
    assert_eq!(verdicts(&check(&compiled)), [""; 0]);
}
