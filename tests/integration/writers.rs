//! Runs that both of PyTorch's trace writers wrote: Kineto, and Cuspy of torch 2.15. Both lead to the same verdicts and numbers,
//! apart from the data that Cuspy omits (`docs/writers.md`).

use std::path::{Path, PathBuf};

use trace_advisor::{Report, Run};

use crate::support::corpus::corpus;
use crate::support::rows::text_rows;
use crate::two_writers::{Difference, RUNS, Tolerance, is_listed, report, verdicts};

const NO_OCCUPANCY: &str = "Cuspy estimates no occupancy";
const NO_SM_COUNT: &str =
    "Cuspy does not write blocks per SM, and the trace has no device properties";

const NO_RECORDS: &str = "Cuspy does not write which record of an event a wait waits for";

/// Rules that pass with Kineto, and fire with Cuspy because it omits data.
const FOUND: &[Difference] =
    &[Difference { run: "cuda_event_sync", code: "TQ017", why: NO_RECORDS }];

/// Verdicts that are unknown under Cuspy.
const UNKNOWN: &[Difference] = &[
    Difference { run: "cuda_event_sync", code: "GU003", why: NO_OCCUPANCY },
    Difference { run: "diff_test", code: "GU003", why: NO_OCCUPANCY },
    Difference { run: "h100_qwen", code: "GU003", why: NO_OCCUPANCY },
    Difference { run: "two_ranks", code: "GU003", why: NO_OCCUPANCY },
    Difference { run: "two_ranks", code: "GU002", why: NO_SM_COUNT },
    Difference { run: "two_ranks", code: "KN007", why: NO_SM_COUNT },
];

const NO_DEVICE_MARKS: &str = "Kineto of 2022 wrote no marks of steps on the device, Cuspy does: the window of communication ends \
                               with the last mark, as in HTA";
const ROUNDED: &str = "a trace without baseTimeNanoseconds has its times in microseconds since 1970, which Cuspy rounds to 0.25 us";

/// Numbers that differ.
const NUMBERS: &[Difference] = &[
    Difference { run: "diff_test", code: "CM001", why: NO_DEVICE_MARKS },
    Difference { run: "diff_test", code: "CM002", why: NO_DEVICE_MARKS },
    Difference { run: "diff_test", code: "TQ009", why: ROUNDED },
];

/// Times are rounded.
const TOLERANCE: Tolerance = Tolerance { number_ratio: 0.001, gain_pct: 0.02 };

/// Tables whose rows must not depend on the writer.
const QUERIES: &[&str] = &[
    "SELECT rank, name, kind, device, stream, op_name, step, count(*) AS n, sum(bytes) AS bytes FROM memcpys
     GROUP BY rank, name, kind, device, stream, op_name, step
     ORDER BY rank, name, device, stream, op_name, step",
    "SELECT rank, name, device, stream, op_name, step, count(*) AS n, sum(bytes) AS bytes FROM memsets
     GROUP BY rank, name, device, stream, op_name, step
     ORDER BY rank, name, device, stream, op_name, step",
    "SELECT rank, name, kind, device, stream, op_name, step, grid, block, registers, shared_memory_bytes, tensor_cores,
         count(*) AS n
     FROM kernels
     GROUP BY rank, name, kind, device, stream, op_name, step, grid, block, registers, shared_memory_bytes, tensor_cores
     ORDER BY rank, name, device, stream, op_name, step, grid, block, registers",
    "SELECT rank, name, count(*) AS n, count(correlation) AS linked FROM runtime_calls GROUP BY rank, name ORDER BY rank, name",
    "SELECT rank, name, stream, count(*) AS n FROM device_syncs GROUP BY rank, name, stream ORDER BY rank, name, stream",
];

fn kineto(run: &str) -> PathBuf {
    corpus().join("traces").join(run)
}

fn cuspy(run: &str) -> PathBuf {
    corpus().join("inputs/writers_2026/real").join(run).join("cuspy")
}

/// Returns the path of a trace that PyTorch 2.15 wrote of a program with a graph, see `tests/fixtures/writers/README.md`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/writers").join(name)
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn cuspy_leads_to_the_verdicts_of_kineto() {
    let mut differences = Vec::new();
    for run in RUNS {
        let [first, second] = [kineto(run), cuspy(run)].map(|path| report(&path));
        let [expected, found] = [&first, &second].map(verdicts);
        assert!(expected.keys().eq(found.keys()), "{run}: the same rules");
        for (code, verdict) in &expected {
            let (other, is_known) = (&found[code], is_listed(UNKNOWN, run, code));
            let is_expected = match (is_known, is_listed(FOUND, run, code)) {
                (true, _) => other == "unknown",
                (false, true) => verdict == "pass" && other != "unknown" && other != "pass",
                (false, false) => other == verdict,
            };
            if !is_expected || (is_known && verdict == "unknown") {
                differences.push(format!("{run} {code}: {verdict} became {other}"));
            }
        }
        let found = TOLERANCE.differences(&first, &second, |code| is_listed(NUMBERS, run, code));
        differences.extend(found.into_iter().map(|difference| format!("{run} {difference}")));
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn cuspy_holds_the_rows_of_kineto() {
    for run in RUNS {
        let [first, second] = [kineto(run), cuspy(run)].map(|path| Run::open(path).unwrap());
        for query in QUERIES {
            assert_eq!(text_rows(&second, query), text_rows(&first, query), "{run}: {query}");
        }
    }
}

#[test]
fn replays_with_marks_name_the_module_that_takes_most() {
    for name in ["cuspy_lanes.json.gz", "marked_lanes.json.gz"] {
        let report = report(&fixture(name));
        assert!(!report.findings.iter().any(|f| f.code == "TQ009"), "{name}: lanes are no streams");
        let replays = report.findings.iter().find(|f| f.code == "TQ013").unwrap();
        assert!(
            replays.message.contains("`layers.0.feed_forward` takes the most"),
            "{}",
            replays.message
        );
    }
    let plain = report(&fixture("plain.json.gz"));
    let replays = plain.findings.iter().find(|f| f.code == "TQ013").unwrap();
    assert!(!replays.message.contains("takes the most"), "{}", replays.message);
}

#[test]
fn time_is_divided_by_the_modules_that_the_program_marked() {
    let modules = "SELECT module, kernel_count, replay_ns, name FROM gpu_modules ORDER BY sum_ns DESC LIMIT 2";
    for name in ["marked.json.gz", "marked_lanes.json.gz"] {
        let rows = text_rows(&Run::open(fixture(name)).unwrap(), modules);
        assert_eq!(
            rows,
            ["layers.0.feed_forward 4 952000 gemm_c", "layers.0.attention.wq 4 160000 gemm_a"],
            "{name}"
        );
    }
}

#[test]
fn predictions_follow_the_edges_of_a_graph() {
    let kinds = "SELECT kind, count(*) AS n FROM critical_edges WHERE kind LIKE '%_order' GROUP BY kind ORDER BY kind";
    let with_edges = text_rows(&Run::open(fixture("cuspy.json.gz")).unwrap(), kinds);
    // Six edges in each of four replays.
    assert_eq!(with_edges[0], "graph_order 24");
    let without = text_rows(&Run::open(fixture("plain.json.gz")).unwrap(), kinds);
    assert!(!without.iter().any(|row| row.starts_with("graph_order")), "{without:?}");
}

/// The runs have two ranks that communicate; one run has Kineto's names of copies, the other Cuspy's.
#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn copies_fire_the_same_rules_under_both_names() {
    let [kineto, cuspy] = ["pg_kineto", "pg_cuspy"]
        .map(|name| report(&corpus().join("inputs/writers_2026").join(name)));
    let fires = |report: &Report| report.findings.iter().any(|f| f.code == "IN004");
    assert!(fires(&kineto) && fires(&cuspy));
    assert_eq!(verdicts(&cuspy), verdicts(&kineto));
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn lanes_of_graphs_are_not_overlaps() {
    let [lanes, streams] = ["graph_lanes.json.gz", "graph_streams.json.gz"]
        .map(|name| corpus().join("inputs/writers_2026").join(name));
    let [on_lanes, on_streams] = [report(&lanes), report(&streams)];
    assert!(!on_lanes.findings.iter().any(|f| f.code == "TQ009"));
    assert_eq!(verdicts(&on_lanes), verdicts(&on_streams));
    let modules = "SELECT module, count(*) AS n FROM kernels GROUP BY module ORDER BY module";
    let rows = text_rows(&Run::open(lanes).unwrap(), modules);
    assert!(!rows.is_empty() && rows.iter().all(|row| row.starts_with("layers.")), "{rows:?}");
}
