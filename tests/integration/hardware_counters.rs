//! Rules on hardware counters and clocks, tested on a recording of PyTorch's own writer (`tests/fixtures/counters`).

use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::sandbox::Sandbox;

const RULES: &str = "GU008,GU009,GU010,GU011";

fn recording() -> Vec<u8> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/counters/counters.json.gz");
    std::fs::read(PathBuf::from(path)).unwrap()
}

fn check(sandbox: &Sandbox) -> Value {
    let output = sandbox.run(&["check", "run", "--select", RULES, "--format", "json"]);
    assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn texts<'a>(items: &'a Value, key: &str) -> Vec<&'a str> {
    items.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
}

#[test]
fn counters_of_pytorch_make_their_rules_fire() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("run")).unwrap();
    sandbox.write("run/rank0.json.gz", recording());
    let report = check(&sandbox);
    let findings = &report["findings"];
    let mut titles = texts(findings, "title");
    titles.sort_unstable();
    assert_eq!(
        titles,
        [
            "DRAM-bound at 92 % of peak for 30.8 % of the time",
            "Matmuls run with tensor cores idle: 2 % of their peak",
            "The GPU is throttled: its clock is below the base clock for 57.1 % of the busy time",
            "While the GPU is busy, 40 % of its SMs have work",
        ]
    );
    for finding in findings.as_array().unwrap() {
        assert!(finding["gain"].is_null() || finding["gain"]["share_pct"].is_null(), "{finding}");
    }
}

#[test]
fn rules_are_unknown_without_counters() {
    let sandbox = Sandbox::with_run();
    let report = check(&sandbox);
    assert_eq!(report["findings"].as_array().unwrap().len(), 0);
    let unknown = &report["unknown"];
    let mut reasons: Vec<_> =
        texts(unknown, "code").into_iter().zip(texts(unknown, "reason")).collect();
    reasons.sort_unstable();
    let no_counters = "the steps contain no samples of tensor core, DRAM or SM counters in percent of their peak: record with \
                       PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)";
    let no_clocks = "the trace contains no samples of the SM clock: record with CuspyConfig(enable_environment_counters=True) \
                     (PyTorch 2.15, see docs/recording.md)";
    let expected = [
        ("GU008", no_counters),
        ("GU009", no_counters),
        ("GU010", no_counters),
        ("GU011", no_clocks),
    ];
    assert_eq!(reasons, expected);
}

/// The reason names the missing counter.
#[test]
fn rules_are_unknown_without_their_counter() {
    let recording = recording();
    let recorded = GzDecoder::new(&recording[..]);
    let trace: Value = serde_json::from_reader(recorded).unwrap();
    for (lost, code, reason) in [
        ("sm__pipe_tensor", "GU008", "the tensor cores were not sampled"),
        ("HBM BW", "GU009", "DRAM was not sampled"),
        ("SM Active", "GU010", "the SMs were not sampled"),
        ("SM Clock", "GU011", "no samples of the SM clock"),
    ] {
        let mut trace = trace.clone();
        let is_kept = |event: &Value| event["ph"] != "C" || !event.to_string().contains(lost);
        let events = trace["traceEvents"].as_array_mut().unwrap();
        let count = events.len();
        events.retain(is_kept);
        assert!(events.len() < count, "{lost}");
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("run")).unwrap();
        sandbox.write("run/rank0.json", trace.to_string());
        let report = check(&sandbox);
        let unknown = report["unknown"].as_array().unwrap();
        let verdict = unknown.iter().find(|verdict| verdict["code"] == code);
        let verdict = verdict.unwrap_or_else(|| panic!("{code}: {report}"));
        let found = verdict["reason"].as_str().unwrap();
        assert!(found.contains(reason), "{code}: {found}");
    }
}
