//! The formats of reports, through the program: what each says of a small run, that it is the same twice, and that
//! what has a schema keeps to it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/corpus.rs"]
mod corpus;
mod explain;
mod pages;
mod schema;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::Place;

const FORMATS: [&str; 8] = ["text", "json", "jsonl", "markdown", "sarif", "github", "junit", "csv"];

/// Rules of our own, so that a new shipped rule changes nothing here: one that fires, one that passes, one that
/// cannot judge, one that is silenced, and a note about the trace.
const RULES: &str = r#"
[rule.slow-loader]
code = "XX001"
category = "input-pipeline"
metric = "step_phases.dataloader_ratio"
high = "> 30 %"
gain = { of = "dataloader_idle_ratio", low = 0.5, high = 1.0, method = "measured" }
evidence = "SELECT rank, ts_ns, end_ns - ts_ns AS dur_ns, name FROM host_waits WHERE cause = 'dataloader'"
title = "Steps wait for data"
message = "{{ dataloader_ratio|pct }} of a step is spent loading."
advice = ["Load in the background: `DataLoader(..., num_workers=4)`."]
why = "Nothing runs without data."

[rule.long-backward]
code = "XX002"
category = "loop"
metric = "step_phases.backward_ratio"
medium = "> 99 %"
title = "Backward is all"
message = "{{ backward_ratio|pct }}"
advice = ["Look."]
why = "It is."

[rule.idle-machine]
code = "XX003"
category = "machines"
metric = "system_gpus.gpu_util_ratio"
high = "< 10 %"
title = "The machine is idle"
message = "{{ gpu_util_ratio|pct }}"
advice = ["Use it."]
why = "It costs."

[rule.idle-device]
code = "XX004"
category = "gpu-util"
metric = "gpu_utilization.idle_ratio"
high = "> 1 %"
title = "The device is idle"
message = "{{ idle_ratio|pct }}"
advice = ["Give it work."]
why = "It waits."

[rule.short-recording]
code = "TQ901"
category = "trace-quality"
metric = "trace_quality.step_count"
medium = "< 20"
title = "Few steps"
message = "{{ step_count }} steps"
advice = ["Record more."]
why = "Few say little."

[ignore.idle-device]
reason = "known | <b>"
"#;

fn place() -> Place {
    let place = Place::with_run();
    place.write("own.toml", RULES);
    place
}

fn check<'a>(runs: &[&'a str], format: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["check"];
    args.extend(runs);
    args.extend(["--rules", "own.toml", "--no-default-rules", "--format", format]);
    args.extend(more);
    args
}

fn said(place: &Place, args: &[&str]) -> String {
    let output = place.run(args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_format_says_the_same() {
    let place = place();
    for format in FORMATS {
        let text = said(&place, &check(&["run"], format, &["--explain"]));
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
            prepend_module_to_snapshot => false,
            // Numbers are the business of the analyses' own tests.
            filters => vec![
                (r"\d+\.\d+", "[n]"),
                (r"\b\d{4,}\b", "[n]"),
                (r"\b[0-9a-f]{16}\b", "[fingerprint]"),
                (r" {20,}saves", "  saves"),
                (r#""(json_bytes|events|wall_ns|sum_ns|ts_ns|dur_ns|[a-z_]+_ns)": \d+"#, "\"$1\": [n]"),
            ],
        }, { insta::assert_snapshot!(format!("report_{format}"), text) });
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let place = place();
    for format in FORMATS {
        let args = ["check", "run", "run", "--format", format, "--all", "--explain"];
        assert_eq!(said(&place, &args), said(&place, &args), "{format}");
    }
}

#[test]
fn formats_fail_as_text_does_and_go_to_files() {
    let place = place();
    for format in FORMATS {
        let args = check(&["run"], format, &["-o", "out"]);
        assert_eq!(place.run(&args).status.code(), Some(1), "{format}");
        let clean = check(&["run"], format, &["--fail-on", "never"]);
        assert_eq!(place.run(&clean).status.code(), Some(0), "{format}");
        let written = std::fs::read_to_string(place.path("out")).unwrap();
        let printed = said(&place, &check(&["run"], format, &[]));
        assert_eq!(written, printed, "{format}");
        assert_eq!(place.run(&args).status.code(), Some(2), "{format}: it was there");
        std::fs::remove_file(place.path("out")).unwrap();
    }
}

#[test]
fn several_runs_stay_apart() {
    let place = place();
    let lines = said(&place, &check(&["run", "run"], "jsonl", &[]));
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let codes: Vec<&str> = lines.iter().map(|l| l["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["XX001", "TQ901", "XX001", "TQ901"]);
    let log: Value =
        serde_json::from_str(&said(&place, &check(&["run", "run"], "sarif", &[]))).unwrap();
    assert_eq!(log["runs"].as_array().unwrap().len(), 2);
    let junit = said(&place, &check(&["run", "run"], "junit", &[]));
    assert_eq!(junit.matches("<testsuite ").count(), 2, "{junit}");
}

#[test]
fn sarif_maps_findings_as_promised() {
    let place = place();
    let log: Value = serde_json::from_str(&said(&place, &check(&["run"], "sarif", &[]))).unwrap();
    let run = &log["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "a finding and a silenced one");
    let (found, silenced) = (&results[0], &results[1]);
    assert_eq!((&found["ruleId"], &found["level"]), (&"XX001".into(), &"error".into()));
    let rank = found["rank"].as_f64().unwrap();
    assert_eq!(found["properties"]["gain"]["high_pct"].as_f64(), Some(rank));
    assert!(found["suppressions"].is_null());
    assert_eq!(silenced["suppressions"][0]["kind"], "external");
    assert_eq!(silenced["suppressions"][0]["justification"], "known | <b>");
    for result in results {
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        for key in ["shortDescription", "fullDescription", "help", "defaultConfiguration"] {
            assert!(rule[key].is_object(), "{key}");
        }
    }
    let told: Vec<&str> = run["invocations"][0]["toolExecutionNotifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["descriptor"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["TQ901", "XX003"]);
}

/// Real traces with something to say, where they are.
fn real() -> Vec<PathBuf> {
    let names = ["resnet50_workers0", "two_ranks", "h100_bert", "composer/workers0", "nccl_rank"];
    let root = corpus::corpus();
    root.iter().flat_map(|root| names.map(|n| root.join("traces").join(n))).collect()
}

/// Reports of all rules, on the small run and on real ones, as files.
fn reports(place: &Place, format: &str) -> Vec<PathBuf> {
    let mut runs = vec![PathBuf::from("run")];
    runs.extend(real());
    let name = |i: usize| format!("{format}{i}.json");
    for (i, run) in runs.iter().enumerate() {
        let path = run.to_str().unwrap();
        let args = ["check", path, "--rules", "own.toml", "--format", format, "-o", &name(i)];
        said(place, &args);
    }
    (0..runs.len()).map(|i| place.path(&name(i))).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn reports_keep_to_their_schema() {
    let place = place();
    let text = said(&place, &["schema", "report"]);
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    assert_eq!(std::fs::read_to_string(committed).unwrap(), text);
    let report_schema: Value = serde_json::from_str(&text).unwrap();
    let files = reports(&place, "json");
    for file in &files {
        assert_eq!(schema::errors(&report_schema, &json(file)), [""; 0], "{}", file.display());
    }
    let mut broken = json(&files[0]);
    broken["findings"][0]["severity"] = "awful".into();
    broken["run"].as_object_mut().unwrap().remove("path");
    assert_eq!(schema::errors(&report_schema, &broken).len(), 2);
    if let Some(validator) = Validator::find() {
        place.write("schema.json", &text);
        validator.holds(&place.path("schema.json"), &files);
    }
}

#[test]
fn sarif_keeps_to_the_official_schema() {
    let Some(validator) = Validator::find() else { return };
    let place = place();
    let schema = validator.folder.join("sarif.json");
    validator.holds(&schema, &reports(&place, "sarif"));
    // It would say so if they did not.
    place.write("bad.json", "{\"version\": \"2.1.0\", \"runs\": [{\"tool\": {}, \"results\": 7}]}");
    assert!(!validator.run(&schema, &[place.path("bad.json")]).0);
}

#[test]
fn schemas_are_printed_in_both_ways() {
    let place = place();
    let rules = said(&place, &["rules", "--schema"]);
    assert_eq!(rules, said(&place, &["rules", "schema"]));
    assert_eq!(rules, said(&place, &["schema", "rules"]));
    assert!(serde_json::from_str::<Value>(&rules).unwrap()["$schema"].is_string());
    assert_eq!(place.run(&["rules"]).status.code(), Some(2));
}

/// A validator of others, which `.ci/schemas` installs.
struct Validator {
    folder: PathBuf,
}

impl Validator {
    /// The validator, or `None` with the reason printed.
    #[expect(clippy::print_stdout, reason = "why tests are skipped is part of their result")]
    #[expect(clippy::disallowed_methods, reason = "where it is comes from outside")]
    fn find() -> Option<Self> {
        let set = std::env::var("ADVISOR_SCHEMAS").ok();
        if set.is_none() {
            println!("skipped: no validator (set ADVISOR_SCHEMAS to what .ci/schemas prints)");
        }
        set.map(|folder| Self { folder: folder.into() })
    }

    fn run(&self, schema: &Path, files: &[PathBuf]) -> (bool, String) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/formats/validate.py");
        let python = self.folder.join("bin/python");
        let output = Command::new(python).arg(script).arg(schema).args(files).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    fn holds(&self, schema: &Path, files: &[PathBuf]) {
        let (holds, said) = self.run(schema, files);
        assert!(holds, "{said}");
    }
}
