//! A run held against an earlier report of it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use advisor_cli::demo::{Bottleneck, Options, write_run};
use serde_json::Value;
use support::Place;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The starved run, its report, and a healthy one of the same program.
fn place() -> Place {
    let place = Place::with_run();
    let healthy =
        Options { bottleneck: Bottleneck::None, steps: 4, layers: 1, ..Options::default() };
    write_run(&healthy, &place.path("healthy")).unwrap();
    let saved = place.run(&["check", "run", "-f", "json", "-o", "slow.json"]);
    assert_eq!(saved.status.code(), Some(1), "{}", text(&saved.stderr));
    place.run(&["check", "healthy", "-f", "json", "-o", "good.json"]);
    place
}

fn report(place: &Place, args: &[&str]) -> (Option<i32>, Value) {
    let mut all = vec!["check", "-f", "json"];
    all.extend(args);
    let output = place.run(&all);
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

#[test]
fn the_same_run_has_nothing_new() {
    let place = place();
    let (code, same) = report(&place, &["run", "--baseline", "slow.json"]);
    assert_eq!(code, Some(0), "what was there does not fail");
    for finding in same["findings"].as_array().unwrap() {
        assert_eq!(finding["baseline_state"], "unchanged", "{finding}");
    }
    assert_eq!(same["baseline"]["path"], "slow.json");
    assert_eq!(same["baseline"]["run_path"], "run");
    assert_eq!(same["baseline"]["new"], 0);
    let shown = place.run(&["check", "run", "--baseline", "slow.json"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("IN001 dataloader-wait] unchanged: Steps wait"), "{shown}");
    assert!(shown.lines().last().unwrap().starts_with("against slow.json: "), "{shown}");
}

#[test]
fn what_got_slow_is_new_and_fails() {
    let place = place();
    let (code, worse) = report(&place, &["run", "--baseline", "good.json"]);
    assert_eq!(code, Some(1));
    let findings = worse["findings"].as_array().unwrap();
    let loader = findings.iter().find(|f| f["code"] == "IN001").unwrap();
    assert_eq!(loader["baseline_state"], "new");
    assert_eq!(
        report(&place, &["run", "--baseline", "good.json", "--fail-on", "never"]).0,
        Some(0)
    );
}

#[test]
fn what_was_cured_is_gone() {
    let place = place();
    let (code, cured) = report(&place, &["healthy", "--baseline", "slow.json"]);
    assert_eq!(code, Some(0));
    let gone = cured["baseline"]["gone"].as_array().unwrap();
    let loader = gone.iter().find(|g| g["code"] == "IN001").unwrap();
    assert!(loader["title"].as_str().unwrap().starts_with("Steps wait"), "{loader}");
    assert!(loader["gain_high_pct"].as_f64().unwrap() > 10.0, "{loader}");
    // A rule that was not asked is no cure.
    let (_, other) = report(&place, &["healthy", "--baseline", "slow.json", "--select", "GU"]);
    let told = other["baseline"]["still_unknown"].as_array().unwrap();
    assert!(
        told.iter().any(|u| u["code"] == "IN001" && u["reason"] == "the rule was not evaluated")
    );
    let shown = place.run(&["check", "healthy", "--baseline", "slow.json"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("  gone: IN001 dataloader-wait (high, "), "{shown}");
}

#[test]
fn several_runs_have_their_own_reports() {
    let place = place();
    place.run(&["check", "run", "healthy", "-f", "json", "-o", "both.json"]);
    let (code, both) = report(&place, &["healthy", "run", "--baseline", "both.json"]);
    assert_eq!(code, Some(0));
    let paths: Vec<&Value> =
        both.as_array().unwrap().iter().map(|r| &r["baseline"]["run_path"]).collect();
    assert_eq!(paths, ["healthy", "run"], "found by path, not by place");
    std::fs::rename(place.path("run"), place.path("moved")).unwrap();
    let output = place.run(&["check", "moved", "--baseline", "both.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("both.json holds no report of moved"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn other_files_are_refused() {
    let place = place();
    place.write("text.txt", "hello").write("diff.json", r#"{"schema_version":1,"rows":[]}"#);
    let mut newer: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("slow.json")).unwrap()).unwrap();
    newer["schema_version"] = 3.into();
    place.write("newer.json", newer.to_string());
    for (file, message) in [
        ("text.txt", "text.txt is no baseline: it is not JSON"),
        ("diff.json", "it does not contain reports"),
        ("newer.json", "it has schema_version 3, and this program reads versions 1 to 2"),
        ("nowhere.json", "cannot read the baseline nowhere.json"),
    ] {
        let output = place.run(&["check", "run", "--baseline", file]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}
