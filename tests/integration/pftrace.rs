//! Runs that PyTorch wrote as JSON and in Perfetto's format. Both lead to the same verdicts and numbers, apart from the data that
//! `.pftrace` lacks (`docs/pftrace.md`).

use std::path::{Path, PathBuf};

use trace_advisor::{Report, Run, default_rules};

use crate::support::corpus::corpus;
use crate::support::rows::text_rows;
use crate::two_writers::{Difference, RUNS, Tolerance, is_listed, report, verdicts};

/// Capabilities that PyTorch's `.pftrace` files lack. A verdict that needs one of them is unknown.
const LACKS: [&str; 5] = [
    "copy_directions",
    "device_properties",
    "forward_backward_links",
    "kernel_occupancy",
    "memory_events",
];

/// Overlaps on a stream are cut, and times of traces without `baseTimeNanoseconds` are
/// rounded to a quarter of a microsecond.
const TOLERANCE: Tolerance = Tolerance { number_ratio: 0.01, gain_pct: 0.5 };

/// Verdicts and numbers that differ for a reason other than missing data.
const DIFFERENCES: &[Difference] = &[
    Difference {
        run: "diff_test",
        code: "CM001",
        why: "marks of steps on the device end the window of communication, and Kineto of 2022 wrote none",
    },
    Difference { run: "diff_test", code: "CM002", why: "the same" },
    Difference {
        run: "diff_test",
        code: "TQ009",
        why: "overlaps on a stream are cut, and times are rounded",
    },
    Difference { run: "diff_test", code: "TQ007", why: NO_WORLD_SIZE },
    Difference { run: "two_ranks", code: "TQ007", why: NO_WORLD_SIZE },
    Difference {
        run: "cuda_event_sync",
        code: "TQ017",
        why: "the writer omits which record of an event a wait waits for",
    },
    Difference {
        run: "resnet50_workers0",
        code: "TQ009",
        why: "a trace without baseTimeNanoseconds has times since 1970, which Cuspy rounds to a quarter of a microsecond",
    },
    Difference { run: "resnet50_workers0", code: "KN008", why: "the number of SMs is unknown" },
    Difference { run: "resnet50_workers0", code: "PR003", why: UNKNOWN_GPU },
    Difference { run: "h100_qwen", code: "KN002", why: UNKNOWN_GPU },
    Difference { run: "h100_qwen", code: "HB010", why: UNKNOWN_GPU },
];

const UNKNOWN_GPU: &str =
    "the writer omits what the GPU can do, so predictions have wider bounds or none";
const NO_WORLD_SIZE: &str = "the writer omits the number of ranks, so ranks may be missing";

/// Rules about missing data, whose numbers depend on the format.
const MISSING_DATA_RULES: [&str; 1] = ["TQ006"];

/// Tables whose rows must not depend on the format. `place` stands for the place of a rank among the ranks of the run, because only
/// JSON states the rank of `diff_test`.
const QUERIES: [&str; 5] = [
    "SELECT place, name, kind, device, stream, op_name, step, grid, block, registers, tensor_cores, count(*) AS n
     FROM kernels GROUP BY place, name, kind, device, stream, op_name, step, grid, block, registers, tensor_cores
     ORDER BY place, name, device, stream, op_name, step, grid, block, registers",
    "SELECT place, name, count(*) AS n, count(input_dims) AS shapes, count(sequence) AS sequences
     FROM cpu_ops GROUP BY place, name ORDER BY place, name",
    "SELECT place, device, stream, count(*) AS n, sum(bytes) AS bytes FROM memcpys
     GROUP BY place, device, stream ORDER BY place, device, stream",
    "SELECT place, name, count(*) AS n, min(module_id) AS module FROM python_frames GROUP BY place, name ORDER BY place, name",
    "SELECT place, step, source FROM steps ORDER BY place, step",
];

fn json(run: &str) -> PathBuf {
    corpus().join("traces").join(run)
}

fn pftrace(run: &str) -> PathBuf {
    corpus().join("inputs/writers_2026/real").join(run).join("pftrace")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pftrace").join(name)
}

/// Returns whether a rule is unknown because it needs data that `.pftrace` lacks.
fn lacks_data(report: &Report, code: &str) -> bool {
    let rule = report.unknown.iter().find(|rule| rule.code == code);
    rule.is_some_and(|rule| rule.needs.iter().any(|need| LACKS.contains(&need.as_str())))
}

fn is_expected(run: &str, code: &str) -> bool {
    MISSING_DATA_RULES.contains(&code) || is_listed(DIFFERENCES, run, code)
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn pftrace_leads_to_the_verdicts_of_json() {
    let mut differences = Vec::new();
    for run in RUNS {
        let [first, second] = [json(run), pftrace(run)].map(|path| report(&path));
        let [expected, found] = [&first, &second].map(verdicts);
        assert!(expected.keys().eq(found.keys()), "{run}: the same rules");
        for (code, verdict) in &expected {
            let other = &found[code];
            if other != verdict && !lacks_data(&second, code) && !is_expected(run, code) {
                differences.push(format!("{run} {code}: {verdict} became {other}"));
            }
        }
        let found = TOLERANCE.differences(&first, &second, |code| is_expected(run, code));
        differences.extend(found.into_iter().map(|difference| format!("{run} {difference}")));
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn pftrace_holds_the_rows_of_json() {
    for run in RUNS {
        let [first, second] = [json(run), pftrace(run)].map(|path| Run::open(path).unwrap());
        for query in QUERIES {
            let query = &query.replace("place", "rank - (SELECT min(rank) FROM ranks)");
            assert_eq!(text_rows(&second, query), text_rows(&first, query), "{run}: {query}");
        }
    }
}

/// Rules that need data that `.pftrace` lacks, but pass if other data decides, with the reason.
const PASSES_WITHOUT: [(&str, &str); 4] = [
    ("GU002", "kernels of Kineto from 2021 state their blocks per SM"),
    ("KN007", "the same"),
    ("KN003", "chains in less than 1 % of the window gain nothing, whatever the GPU can do"),
    ("PR001", "a kernel that uses tensor cores shows that the GPU has them"),
];

/// Checks that no rule passes if it needs data that `.pftrace` lacks.
fn assert_that_lacks_never_pass(path: &Path) {
    let run = Run::open(path).unwrap();
    let held = text_rows(&run, "SELECT DISTINCT capability FROM capabilities");
    for lacking in ["device_properties", "memory_events"] {
        assert!(!held.contains(&lacking.to_owned()), "{}: {held:?}", path.display());
    }
    let rules = default_rules();
    let passed = run.check(&rules).unwrap().passed;
    let mut checked = 0;
    for rule in rules.rules() {
        let needs = rule.requires.iter().flat_map(|condition| &condition.needs);
        let lacking: Vec<&str> = needs
            .map(|need| need.as_str())
            .filter(|need| LACKS.contains(need) && !held.iter().any(|held| held == need))
            .collect();
        if lacking.is_empty() || PASSES_WITHOUT.iter().any(|(code, _)| *code == rule.code) {
            continue;
        }
        checked += 1;
        let code = &rule.code;
        assert!(!passed.contains(code), "{}: {code} passes without {lacking:?}", path.display());
    }
    assert!(checked >= 8, "{checked} rules need data that the writer leaves out");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn data_that_pftrace_lacks_is_never_a_pass() {
    for run in RUNS {
        assert_that_lacks_never_pass(&pftrace(run));
    }
}

#[test]
fn data_that_the_fixture_lacks_is_never_a_pass() {
    assert_that_lacks_never_pass(&fixture("torch215.pftrace"));
}

#[test]
fn the_recording_of_the_fixtures_is_the_same_in_both_formats() {
    let [json, pftrace] =
        ["kineto.json.gz", "torch215.pftrace"].map(|name| Run::open(fixture(name)).unwrap());
    assert!(pftrace.warnings().is_empty(), "{:?}", pftrace.warnings());
    assert_eq!(pftrace.info().sources[0].format, "perfetto");
    let queries = [
        "SELECT name, device, stream, op_name, step, grid, block, registers, dur_ns FROM kernels ORDER BY ts_ns",
        "SELECT name, external_id, sequence, fwd_thread FROM cpu_ops ORDER BY ts_ns, dur_ns DESC",
        "SELECT name, correlation FROM runtime_calls ORDER BY ts_ns",
        "SELECT name, stream FROM device_syncs ORDER BY ts_ns",
        "SELECT bytes, stream, op_name FROM memcpys",
        "SELECT step, source FROM steps",
    ];
    for query in queries {
        let found = text_rows(&pftrace, query);
        assert!(!found.is_empty(), "{query}");
        assert_eq!(found, text_rows(&json, query), "{query}");
    }
    // Both formats have the same absolute time.
    let start = "SELECT (min(k.ts_ns) + min(r.base_time_ns)) / 1000 FROM kernels k JOIN ranks r ON r.rank = k.rank";
    assert_eq!(text_rows(&pftrace, start), text_rows(&json, start));
}
