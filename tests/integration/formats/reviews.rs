//! Formats for reviews, Markdown, GitHub and JUnit, against a baseline: what is new or worse comes first, what is gone
//! is named, the rest is folded.

use std::fs;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Value, json};

use super::said;
use crate::support::sandbox::Sandbox;

/// A rule for the share of a step that a phase takes.
fn phase_rule(code: &str, phase: &str, severity: &str, limit: &str) -> String {
    format!(
        "[rule.long-{phase}]\ncode = \"{code}\"\ncategory = \"loop\"\nmetric = \"step_phases.{phase}_ratio\"\n\
         {severity} = \"{limit}\"\ntitle = \"Long {phase}\"\nmessage = \"{{{{ {phase}_ratio|pct }}}} of a step\"\n\
         advice = [\"Shorten `{phase}()`.\"]\nwhy = \"It takes time.\"\n"
    )
}

/// Rules of which four fire, one passes, and one has no verdict.
fn rules() -> String {
    let idle = "[rule.idle-machine]\ncode = \"XX006\"\ncategory = \"machines\"\n\
                metric = \"system_gpus.gpu_util_ratio\"\nhigh = \"< 10 %\"\ntitle = \"The machine is idle\"\n\
                message = \"{{ gpu_util_ratio|pct }}\"\nadvice = [\"Use it.\"]\nwhy = \"It costs.\"\n";
    [
        phase_rule("XX001", "dataloader", "high", "> 1 %"),
        phase_rule("XX002", "forward", "medium", "> 1 %"),
        phase_rule("XX003", "backward", "high", "> 1 %"),
        phase_rule("XX004", "other", "low", "> 1 %"),
        phase_rule("XX005", "optimizer", "high", "> 99 %"),
        idle.to_owned(),
    ]
    .join("\n")
}

fn check<'a>(format: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["check", "run", "--rules", "own.toml", "--no-default-rules", "--format", format];
    [&args[..], more].concat()
}

/// A run, and a baseline in which XX001 was as it is, XX002 was better, XX003 was worse, XX004 was not there, XX005 was
/// found and XX006 too.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_run();
    sandbox.write("own.toml", rules());
    let mut report: Value = serde_json::from_str(&said(&sandbox, &check("json", &[]))).unwrap();
    let findings = report["findings"].as_array_mut().unwrap();
    assert_eq!(findings.len(), 4, "{findings:?}");
    let by_code =
        |findings: &[Value], code: &str| findings.iter().position(|f| f["code"] == code).unwrap();
    for (code, factor) in [("XX002", 0.5), ("XX003", 1.5)] {
        let at = by_code(findings, code);
        findings[at]["value"] = json!(findings[at]["value"].as_f64().unwrap() * factor);
    }
    let mut removed = findings.remove(by_code(findings, "XX004"));
    for (code, name) in [("XX005", "long-optimizer"), ("XX006", "idle-machine")] {
        removed["code"] = json!(code);
        removed["name"] = json!(name);
        removed["title"] = json!(format!("It was {name}"));
        removed["fingerprint"] = json!(code);
        findings.push(removed.clone());
    }
    report["passed"] = json!(["XX004"]);
    report["unknown"] = json!([]);
    sandbox.write("old.json", report.to_string());
    sandbox
}

#[test]
fn reviews_put_what_changed_first() {
    let sandbox = sandbox();
    for format in ["markdown", "github", "junit"] {
        let text = said(&sandbox, &check(format, &["--baseline", "old.json"]));
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
            prepend_module_to_snapshot => false,
            filters => vec![(r"\d+\.\d+", "[n]"), (r"\b\d{4,}\b", "[n]"), (r"\d,\d{3}", "[n]")],
        }, { insta::assert_snapshot!(format!("baseline_{format}"), text) });
    }
}

#[test]
fn markdown_shows_five_findings_and_folds_the_rest() {
    let sandbox = Sandbox::with_run();
    let rules: Vec<String> = (0..8)
        .map(|i| {
            phase_rule(&format!("XX00{i}"), "dataloader", "high", "> 1 %")
                .replace("[rule.long-dataloader]", &format!("[rule.long-{i}]"))
        })
        .collect();
    sandbox.write("own.toml", rules.join("\n"));
    let text = said(&sandbox, &check("markdown", &[]));
    assert_eq!(text.matches("<details open>").count(), 5, "{text}");
    let (open, rest) = text.split_once("<details><summary>3 more findings</summary>").unwrap();
    assert_eq!(open.matches("\n| 🔴 high |").count(), 5, "{open}");
    assert_eq!(rest.matches("\n| 🔴 high |").count(), 3, "{rest}");
    assert!(
        text.ends_with("Reproduce with `advisor check run --rules own.toml --no-default-rules`\n"),
        "{text}"
    );
}

#[test]
fn reviews_show_no_paths_of_the_machine() {
    let sandbox = sandbox();
    let folder = fs::canonicalize(sandbox.path("")).unwrap();
    let folder = folder.to_str().unwrap();
    let run = format!("{folder}/run");
    let rules = format!("{folder}/own.toml");
    for format in ["markdown", "github", "junit", "sarif"] {
        let args = ["check", &run, "--rules", &rules, "--format", format];
        let text = said(&sandbox, &args);
        assert!(!text.contains(folder), "{format}: {text}");
        assert!(text.contains("run"), "{format}");
    }
    let diff = said(&sandbox, &["diff", &run, &run, "--format", "markdown"]);
    assert!(!diff.contains(folder) && diff.contains("`run` → `run`"), "{diff}");
}

#[test]
fn junit_documents_are_complete() {
    let sandbox = sandbox();
    let args = ["check", "run", "run", "--rules", "own.toml", "--no-default-rules", "-f", "junit"];
    let plain = read_junit(&said(&sandbox, &args));
    assert_eq!((plain.suites, plain.cases, plain.failures, plain.skipped), (2, 12, 6, 2));
    // Of the new and worse findings, one is below the severity that fails.
    let held = read_junit(&said(&sandbox, &check("junit", &["--baseline", "old.json"])));
    assert_eq!((held.suites, held.cases, held.failures, held.skipped), (1, 6, 1, 1));
    let diff = read_junit(&said(&sandbox, &["diff", "run", "run", "-f", "junit"]));
    assert_eq!((diff.suites, diff.cases, diff.failures), (1, 12, 0));
}

#[derive(Default)]
struct Junit {
    suites: usize,
    cases: usize,
    failures: usize,
    skipped: usize,
}

/// Counts the elements of a document. Each may stand only where the schemas of JUnit have it, and the counts in
/// attributes are those of the elements.
fn read_junit(text: &str) -> Junit {
    let allowed = [
        ("", "testsuites"),
        ("testsuites", "testsuite"),
        ("testsuite", "testcase"),
        ("testsuite", "system-out"),
        ("testcase", "failure"),
        ("testcase", "skipped"),
        ("testcase", "system-out"),
    ];
    let number = |tag: &BytesStart<'_>, name: &str| -> usize {
        let value = tag.try_get_attribute(name).unwrap().unwrap().value;
        std::str::from_utf8(&value).unwrap().parse().unwrap()
    };
    let (mut found, mut stated) = (Junit::default(), Junit::default());
    let mut open: Vec<String> = Vec::new();
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
                let parent = open.last().map_or("", String::as_str);
                assert!(allowed.contains(&(parent, name.as_str())), "{name} in {parent}");
                match name.as_str() {
                    "testsuite" => {
                        found.suites += 1;
                        stated.cases += number(&tag, "tests");
                        stated.failures += number(&tag, "failures");
                        stated.skipped += number(&tag, "skipped");
                    }
                    "testcase" => {
                        found.cases += 1;
                        assert!(tag.try_get_attribute("classname").unwrap().is_some());
                        assert!(tag.try_get_attribute("name").unwrap().is_some());
                    }
                    "failure" => found.failures += 1,
                    "skipped" => found.skipped += 1,
                    _ => {}
                }
                open.push(name);
            }
            Event::End(_) => assert!(open.pop().is_some()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty());
    assert_eq!(
        (found.cases, found.failures, found.skipped),
        (stated.cases, stated.failures, stated.skipped)
    );
    found
}
