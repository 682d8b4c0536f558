//! The formats of reports, through the program: what each says of a small run, that it is the same twice, and that
//! what has a schema keeps to it.

mod explain;
mod pages;
mod reviews;
mod schema;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::corpus::corpus;
use crate::support::sandbox::Sandbox;

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

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_run();
    sandbox.write("own.toml", RULES);
    sandbox
}

fn check<'a>(runs: &[&'a str], format: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["check"];
    args.extend(runs);
    args.extend(["--rules", "own.toml", "--no-default-rules", "--format", format]);
    args.extend(more);
    args
}

fn said(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn report_in_every_format_matches_its_snapshot() {
    let sandbox = sandbox();
    for format in FORMATS {
        let text = said(&sandbox, &check(&["run"], format, &["--explain"]));
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
fn report_in_every_format_is_deterministic() {
    let sandbox = sandbox();
    // The report itself: JSON has all of it.
    let args = ["check", "run", "run", "--format", "json", "--all", "--explain"];
    assert_eq!(said(&sandbox, &args), said(&sandbox, &args));
    // Its rendering: all formats of the answers in a cache.
    for format in FORMATS {
        let args = ["check", "run", "run", "--format", format, "--all", "--explain"];
        let args = [&args[..], &["--cache-dir", "cache"]].concat();
        assert_eq!(said(&sandbox, &args), said(&sandbox, &args), "{format}");
    }
}

#[test]
fn formats_share_exit_codes_and_write_to_files() {
    let sandbox = sandbox();
    for format in FORMATS {
        let args = check(&["run"], format, &["-o", "out"]);
        assert_eq!(sandbox.run(&args).status.code(), Some(1), "{format}");
        let clean = check(&["run"], format, &["--fail-on", "never"]);
        assert_eq!(sandbox.run(&clean).status.code(), Some(0), "{format}");
        let written = std::fs::read_to_string(sandbox.path("out")).unwrap();
        let printed = said(&sandbox, &check(&["run"], format, &[]));
        assert_eq!(written, printed, "{format}");
        assert_eq!(sandbox.run(&args).status.code(), Some(2), "{format}: it was there");
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
}

#[test]
fn several_runs_are_separate_in_every_format() {
    let sandbox = sandbox();
    let lines = said(&sandbox, &check(&["run", "run"], "jsonl", &[]));
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let codes: Vec<&str> = lines.iter().map(|l| l["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["XX001", "TQ901", "XX001", "TQ901"]);
    let log: Value =
        serde_json::from_str(&said(&sandbox, &check(&["run", "run"], "sarif", &[]))).unwrap();
    assert_eq!(log["runs"].as_array().unwrap().len(), 2);
    let junit = said(&sandbox, &check(&["run", "run"], "junit", &[]));
    assert_eq!(junit.matches("<testsuite ").count(), 2, "{junit}");
}

#[test]
fn sarif_maps_findings_rules_and_suppressions() {
    let sandbox = sandbox();
    let log: Value = serde_json::from_str(&said(&sandbox, &check(&["run"], "sarif", &[]))).unwrap();
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

/// Recorded runs that have findings.
fn recorded_runs() -> Vec<PathBuf> {
    let names = ["resnet50_workers0", "two_ranks", "h100_bert", "composer/workers0", "nccl_rank"];
    names.map(|name| corpus().join("traces").join(name)).into()
}

/// The small run, as the commands name it.
fn small_run() -> Vec<PathBuf> {
    vec![PathBuf::from("run")]
}

/// Reports of all rules on runs, as files.
fn reports(sandbox: &Sandbox, format: &str, runs: &[PathBuf]) -> Vec<PathBuf> {
    let name = |i: usize| format!("{format}{i}.json");
    for (i, run) in runs.iter().enumerate() {
        let path = run.to_str().unwrap();
        let args = ["check", path, "--rules", "own.toml", "--format", format, "-o", &name(i)];
        said(sandbox, &args);
    }
    (0..runs.len()).map(|i| sandbox.path(&name(i))).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The schema of reports, as the program prints it.
fn report_schema(sandbox: &Sandbox) -> String {
    said(sandbox, &["schema", "report"])
}

#[test]
fn committed_report_schema_is_current() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    assert_eq!(std::fs::read_to_string(committed).unwrap(), report_schema(&sandbox()));
}

fn assert_match_the_schema(runs: &[PathBuf]) {
    let sandbox = sandbox();
    let schema: Value = serde_json::from_str(&report_schema(&sandbox)).unwrap();
    let files = reports(&sandbox, "json", runs);
    for file in &files {
        assert_eq!(schema::errors(&schema, &json(file)), [""; 0], "{}", file.display());
    }
    let mut broken = json(&files[0]);
    broken["findings"][0]["severity"] = "awful".into();
    broken["run"].as_object_mut().unwrap().remove("path");
    assert_eq!(schema::errors(&schema, &broken).len(), 2);
}

#[test]
fn report_of_a_demo_matches_the_schema() {
    assert_match_the_schema(&small_run());
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn reports_of_recorded_runs_match_the_schema() {
    assert_match_the_schema(&recorded_runs());
}

#[test]
#[ignore = "needs ADVISOR_SCHEMAS and ADVISOR_CORPUS"]
fn json_reports_pass_the_validator() {
    let validator = Validator::find();
    let sandbox = sandbox();
    sandbox.write("schema.json", report_schema(&sandbox));
    let files = reports(&sandbox, "json", &[small_run(), recorded_runs()].concat());
    validator.holds(&sandbox.path("schema.json"), &files);
}

#[test]
#[ignore = "needs ADVISOR_SCHEMAS and ADVISOR_CORPUS"]
fn sarif_reports_pass_the_validator() {
    let validator = Validator::find();
    let sandbox = sandbox();
    let schema = validator.folder.join("sarif.json");
    let files = reports(&sandbox, "sarif", &[small_run(), recorded_runs()].concat());
    validator.holds(&schema, &files);
    // A file that breaks the schema is refused.
    sandbox
        .write("bad.json", "{\"version\": \"2.1.0\", \"runs\": [{\"tool\": {}, \"results\": 7}]}");
    assert!(!validator.run(&schema, &[sandbox.path("bad.json")]).0);
}

#[test]
fn schema_commands_print_the_same() {
    let sandbox = sandbox();
    let rules = said(&sandbox, &["rules", "--schema"]);
    assert_eq!(rules, said(&sandbox, &["rules", "schema"]));
    assert_eq!(rules, said(&sandbox, &["schema", "rules"]));
    assert!(serde_json::from_str::<Value>(&rules).unwrap()["$schema"].is_string());
    assert_eq!(sandbox.run(&["rules"]).status.code(), Some(2));
}

/// A JSON schema validator that is not ours, which `.ci/schemas` installs.
struct Validator {
    folder: PathBuf,
}

impl Validator {
    /// The validator in the folder `ADVISOR_SCHEMAS`.
    fn find() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place where this test reads it")]
        let set = std::env::var("ADVISOR_SCHEMAS").ok();
        let folder = set.expect("set ADVISOR_SCHEMAS to what .ci/schemas prints");
        Self { folder: folder.into() }
    }

    fn run(&self, schema: &Path, files: &[PathBuf]) -> (bool, String) {
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/integration/formats/validate.py");
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
