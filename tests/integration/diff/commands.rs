//! `advisor diff`: transcripts, formats, exit codes.

use serde_json::{Value as Json, json};
use trace_demo::{Bottleneck, Options, write_run};

use super::{event, images, looped, one_step, write_trace};
use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 4, layers: 1, ..Options::default() };
    write_run(&options, &sandbox.path("after")).unwrap();
    sandbox
}

#[test]
fn diff_prints_what_changed() {
    let sandbox = sandbox();
    let mut all = sandbox.transcript(&["diff", "run", "after", "--limit", "3"]);
    all.push_str(
        &sandbox.transcript(&["diff", "run", "after", "--level", "copy", "--level", "module"]),
    );
    all.push_str(&sandbox.transcript(&[
        "diff",
        "run",
        "after",
        "--hta=gpu",
        "--short-names",
        "--limit",
        "2",
    ]));
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
        prepend_module_to_snapshot => false,
    }, { insta::assert_snapshot!("diff", all) });
}

#[test]
fn diff_writes_every_format() {
    let sandbox = sandbox();
    let output = sandbox.run(&["diff", "run", "after", "-f", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    for key in [
        "tool",
        "before_path",
        "after_path",
        "headline",
        "before",
        "after",
        "explained",
        "steps",
        "notes",
    ] {
        assert!(!json[key].is_null(), "{key}");
    }
    assert_eq!(json["unit"], "step");
    assert_eq!(json["verdict"]["outcome"], "improvement");
    assert!(json["verdict"]["high_ratio"].as_f64().unwrap() < 0.0);
    let measures: Vec<&str> = json["before_after"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["name"].as_str().unwrap())
        .collect();
    assert_eq!(measures[..4], ["throughput", "step_median", "step_p95", "gpu_utilization"]);
    assert_eq!(json["findings"], json!([]));
    assert_eq!(json["passed"], json!(["RG001", "RG002", "RG003"]));
    assert!(json["rows"][0]["before"]["step_ns"].as_f64().unwrap() > 0.0);
    assert!(json["categories"][0]["group"].is_string());

    let csv =
        sandbox.run(&["diff", "run", "after", "-f", "csv", "--level", "kernel", "--limit", "2"]);
    let csv = text(&csv.stdout);
    assert!(csv.starts_with("level,name,renamed_from,matched,change,before_count,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    for (format, magic) in [("parquet", b"PAR1".as_slice()), ("arrow", b"ARROW1")] {
        let args = ["diff", "run", "after", "-f", format, "-o", "rows"];
        assert_eq!(sandbox.run(&args).status.code(), Some(0));
        assert!(std::fs::read(sandbox.path("rows")).unwrap().starts_with(magic));
        assert_eq!(sandbox.run(&args).status.code(), Some(2), "nothing is overwritten");
        std::fs::remove_file(sandbox.path("rows")).unwrap();
    }
}

#[test]
fn diff_in_formats_for_reviews_puts_the_verdict_first() {
    let sandbox = sandbox();
    for format in ["markdown", "github", "junit"] {
        let mut args = vec!["diff", "after", "run", "-f", format, "--limit", "3"];
        args.extend(["--fail-on", "regression"]);
        let text = sandbox.transcript(&args);
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
            prepend_module_to_snapshot => false,
        }, { insta::assert_snapshot!(format!("diff_{format}"), text) });
    }
    // Without `--fail-on`, nothing fails.
    let junit = sandbox.run(&["diff", "after", "run", "-f", "junit"]);
    assert_eq!(junit.status.code(), Some(0));
    assert!(text(&junit.stdout).contains("failures=\"0\""), "{}", text(&junit.stdout));
    let refused = sandbox.run(&["diff", "after", "run", "-f", "github", "--hta"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn diff_exit_code_reports_regressions() {
    let sandbox = sandbox();
    let code = |args: &[&str]| sandbox.run(args).status.code();
    assert_eq!(code(&["diff", "after", "run"]), Some(0));
    assert_eq!(code(&["diff", "after", "run", "--fail-on", "regression"]), Some(1));
    assert_eq!(code(&["diff", "after", "run", "--fail-on", "inconclusive"]), Some(1));
    assert_eq!(code(&["diff", "after", "run", "--fail-on", "never"]), Some(0));
    assert_eq!(code(&["diff", "run", "after", "--fail-on", "regression"]), Some(0));
    assert_eq!(code(&["diff", "run", "run", "--fail-on", "inconclusive"]), Some(0));
    let few = ["--before-steps", "first", "--after-steps", "first"];
    let few =
        |fail_on| code(&[&["diff", "after", "run", "--fail-on", fail_on][..], &few[..]].concat());
    assert_eq!((few("regression"), few("inconclusive")), (Some(0), Some(1)));
    assert_eq!(code(&["diff", "after", "run", "--fail-on-regression", "5"]), Some(1));
    assert_eq!(code(&["diff", "after", "run", "--fail-on-regression", "1000%"]), Some(0));
    assert_eq!(code(&["diff", "run", "after", "--fail-on-regression", "0"]), Some(0));
    for wrong in [
        ["--before-steps", "x"],
        ["--before-steps", "77"],
        ["--after-ranks", "9"],
        ["--fail-on-regression", "-1"],
        ["--fail-on", "improvement"],
        ["--tolerance", "inf"],
    ] {
        let output = sandbox.run(&["diff", "run", "after", wrong[0], wrong[1]]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{wrong:?}");
    }
}

#[test]
fn diff_escapes_names() {
    let sandbox = Sandbox::new();
    let evil = event("cpu_op", "a\u{1b}[2J\u{9b}31m\u{202e}b", 1, 1_090, 5);
    write_trace(&sandbox.path("before.json"), &one_step(&[]));
    write_trace(&sandbox.path("after.json"), &one_step(&[evil]));
    for args in [
        &["diff", "before.json", "after.json"][..],
        &["diff", "before.json", "after.json", "--hta"],
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let text = text(&output.stdout);
        assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    }
    for format in ["markdown", "github", "junit"] {
        let output = sandbox.run(&["diff", "before.json", "after.json", "-f", format]);
        let text = text(&output.stdout);
        let is_bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_bad), "{format}: {text}");
    }
}

/// Names of the table of HTA are cut in pipes, and whole if asked for.
#[test]
fn diff_cuts_long_names_of_hta() {
    let sandbox = Sandbox::new();
    let long = event("cpu_op", &"kernel_".repeat(90), 1, 1_090, 5);
    write_trace(&sandbox.path("before.json"), &one_step(&[]));
    write_trace(&sandbox.path("after.json"), &one_step(&[long]));
    let longest = |more: &[&str]| {
        let output = sandbox.run(&[&["diff", "before.json", "after.json", "--hta"], more].concat());
        text(&output.stdout).lines().map(str::len).max().unwrap()
    };
    assert!(longest(&[]) < 250, "{}", longest(&[]));
    assert!(longest(&["--wide"]) > 630, "{}", longest(&["--wide"]));
}

#[test]
fn diff_says_what_differs_about_the_runs_first() {
    let sandbox = Sandbox::new();
    let convolution = looped("aten::conv2d", &images(8), 500, &[]);
    write_trace(&sandbox.path("before.json"), &convolution);
    write_trace(&sandbox.path("larger.json"), &looped("aten::conv2d", &images(16), 900, &[]));
    write_trace(&sandbox.path("other.json"), &looped("aten::bmm", &Json::Null, 900, &[]));
    let said = |after: &str, more: &[&str]| {
        let output = sandbox.run(&[&["diff", "before.json", after][..], more].concat());
        (text(&output.stdout).to_owned(), output.status.code())
    };
    let (larger, _) = said("larger.json", &[]);
    let lines: Vec<&str> = larger.lines().collect();
    assert_eq!(lines[2], "differs batch shape: [8, 3, 8, 8] -> [16, 3, 8, 8]");
    assert!(lines[3].starts_with("regression: "), "{larger}");

    let (other, _) = said("other.json", &[]);
    let lines: Vec<&str> = other.lines().collect();
    let differs = "differs longest operator: aten::conv2d -> aten::bmm; record_shapes: on -> off";
    assert_eq!(lines[2], differs);
    assert!(lines[3].starts_with("not comparable: the runs do different work"), "{other}");
    assert!(other.contains("aten::bmm (added)"), "the tables are there: {other}");
    for (limit, code) in [("regression", 0), ("inconclusive", 1), ("never", 0)] {
        assert_eq!(said("other.json", &["--fail-on", limit]).1, Some(code), "{limit}");
    }
    let (json, _) = said("other.json", &["-f", "json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(json["verdict"]["outcome"], "not_comparable");
    let first = &json["differences"][0];
    assert_eq!(
        (&first["what"], &first["after"]),
        (&json!("longest operator"), &json!("aten::bmm"))
    );
    assert_eq!(first["not_comparable"], json["verdict"]["reason"]);
    assert!(json["differences"][1]["not_comparable"].is_null());
    for (format, verdict, differs) in [
        ("markdown", "**not comparable**", "longest operator: aten::conv2d"),
        ("github", "::warning title=Trace Advisor%3A not comparable", "differs: longest operator"),
        ("junit", "<skipped message=\"not comparable: ", "differs: longest operator"),
        ("html", "o-not_comparable", "Differs: longest operator"),
    ] {
        let (text, code) = said("other.json", &["-f", format]);
        assert!(text.contains(verdict) && text.contains(differs), "{format}: {text}");
        assert_eq!(code, Some(0));
    }
}

/// A pipe gets lines of 100 characters, too: names of 2,000 characters hide the numbers.
#[test]
fn diff_cuts_names_unless_they_are_asked_for() {
    let sandbox = Sandbox::new();
    let name = format!("library::{}operator", "part_of_a_name_".repeat(40));
    write_trace(&sandbox.path("before.json"), &one_step(&[]));
    write_trace(&sandbox.path("after.json"), &one_step(&[event("cpu_op", &name, 1, 1_090, 5)]));
    let said = |more: &[&str]| {
        let output = sandbox.run(&[&["diff", "before.json", "after.json"][..], more].concat());
        text(&output.stdout).to_owned()
    };
    let cut = said(&["--level", "operator"]);
    assert!(cut.contains("library::part") && cut.contains("..."), "{cut}");
    assert!(cut.lines().all(|line| line.chars().count() <= 100), "{cut}");
    let wide = said(&["--level", "operator", "--wide"]);
    assert!(wide.contains(&name), "{wide}");
}
