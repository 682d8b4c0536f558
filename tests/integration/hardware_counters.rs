//! Rules on hardware counters and clocks, on a recording that PyTorch's own writer wrote (`tests/fixtures/counters`).

use std::path::PathBuf;

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
            "The GPU is throttled: 57.1 % of the time it works below its base clock",
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
    let mut codes = texts(&report["unknown"], "code");
    codes.sort_unstable();
    assert_eq!(codes, ["GU008", "GU009", "GU010", "GU011"]);
    for reason in texts(&report["unknown"], "reason") {
        assert!(reason.contains("docs/recording.md") || reason.contains("counters"), "{reason}");
    }
}
