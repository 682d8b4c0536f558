//! A run held against an earlier report of it.

use std::sync::OnceLock;

use serde_json::Value;
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The starved run, its report, and a healthy one of the same program.
fn sandbox() -> Sandbox {
    static REPORTS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let sandbox = Sandbox::with_run();
    let healthy =
        Options { bottleneck: Bottleneck::None, steps: 4, layers: 1, ..Options::default() };
    write_run(&healthy, &sandbox.path("healthy")).unwrap();
    let [slow, good] = REPORTS.get_or_init(|| {
        let slow = sandbox.run(&["check", "run", "-f", "json"]);
        assert_eq!(slow.status.code(), Some(1), "{}", text(&slow.stderr));
        [slow.stdout, sandbox.run(&["check", "healthy", "-f", "json"]).stdout]
    });
    sandbox.write("slow.json", slow).write("good.json", good);
    sandbox
}

fn report(sandbox: &Sandbox, args: &[&str]) -> (Option<i32>, Value) {
    let mut all = vec!["check", "-f", "json"];
    all.extend(args);
    let output = sandbox.run(&all);
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

#[test]
fn baseline_of_the_same_run_has_nothing_new() {
    let sandbox = sandbox();
    let (code, same) = report(&sandbox, &["run", "--baseline", "slow.json"]);
    assert_eq!(code, Some(0), "what was there does not fail");
    for finding in same["findings"].as_array().unwrap() {
        assert_eq!(finding["baseline_state"], "unchanged", "{finding}");
    }
    assert_eq!(same["baseline"]["path"], "slow.json");
    assert_eq!(same["baseline"]["run_path"], "run");
    assert_eq!(same["baseline"]["new"], 0);
    let shown = sandbox.run(&["check", "run", "--baseline", "slow.json"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("IN001 unchanged: Steps wait"), "{shown}");
    assert!(shown.contains("\ncompared with slow.json: "), "{shown}");
}

#[test]
fn baseline_marks_new_findings_and_fails() {
    let sandbox = sandbox();
    let (code, worse) = report(&sandbox, &["run", "--baseline", "good.json"]);
    assert_eq!(code, Some(1));
    let findings = worse["findings"].as_array().unwrap();
    let loader = findings.iter().find(|f| f["code"] == "IN001").unwrap();
    assert_eq!(loader["baseline_state"], "new");
    assert_eq!(
        report(&sandbox, &["run", "--baseline", "good.json", "--fail-on", "never"]).0,
        Some(0)
    );
}

#[test]
fn baseline_lists_findings_that_are_gone() {
    let sandbox = sandbox();
    let (code, cured) = report(&sandbox, &["healthy", "--baseline", "slow.json"]);
    assert_eq!(code, Some(0));
    let gone = cured["baseline"]["gone"].as_array().unwrap();
    let loader = gone.iter().find(|g| g["code"] == "IN001").unwrap();
    assert!(loader["title"].as_str().unwrap().starts_with("Steps wait"), "{loader}");
    assert!(loader["gain_high_pct"].as_f64().unwrap() > 10.0, "{loader}");
    // A finding whose rule was not selected is not gone.
    let (_, other) = report(&sandbox, &["healthy", "--baseline", "slow.json", "--select", "GU"]);
    let told = other["baseline"]["still_unknown"].as_array().unwrap();
    assert!(
        told.iter().any(|u| u["code"] == "IN001" && u["reason"] == "the rule was not evaluated")
    );
    let shown = sandbox.run(&["check", "healthy", "--baseline", "slow.json"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("\ngone: IN001 dataloader-wait (high, "), "{shown}");
}

#[test]
fn baseline_matches_several_runs_by_path() {
    let sandbox = sandbox();
    sandbox.run(&["check", "run", "healthy", "-f", "json", "-o", "both.json"]);
    let (code, both) = report(&sandbox, &["healthy", "run", "--baseline", "both.json"]);
    assert_eq!(code, Some(0));
    let paths: Vec<&Value> =
        both.as_array().unwrap().iter().map(|r| &r["baseline"]["run_path"]).collect();
    assert_eq!(paths, ["healthy", "run"], "found by path, not by position");
    std::fs::rename(sandbox.path("run"), sandbox.path("moved")).unwrap();
    let output = sandbox.run(&["check", "moved", "--baseline", "both.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("both.json has no report of moved"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn baseline_refuses_other_files() {
    let sandbox = sandbox();
    sandbox.write("text.txt", "hello").write("diff.json", r#"{"schema_version":1,"rows":[]}"#);
    let mut newer: Value =
        serde_json::from_str(&std::fs::read_to_string(sandbox.path("slow.json")).unwrap()).unwrap();
    newer["schema_version"] = 4.into();
    sandbox.write("newer.json", newer.to_string());
    for (file, message) in [
        ("text.txt", "text.txt is not a baseline: it is not JSON"),
        ("diff.json", "it does not contain reports"),
        ("newer.json", "it has schema_version 4, and this program reads versions 1 to 3"),
        ("nowhere.json", "cannot read the baseline nowhere.json"),
    ] {
        let output = sandbox.run(&["check", "run", "--baseline", file]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}
