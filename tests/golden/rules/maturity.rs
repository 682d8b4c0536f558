//! A rule is stable if a recording of a real program makes it fire, and in preview otherwise.
//!
//! `evidence.txt` names one such recording per rule. What counts: the recorded traces of the corpus, recordings of
//! strangers, and the fixtures of this repository with their pairs; nothing that a generator wrote. Rules about the quality of a
//! trace are always stable: other findings would lose their caveats without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use rayon::prelude::*;
use trace_advisor::advisor::{RuleSet, RuleStatus, TRACE_QUALITY};
use trace_advisor::compare::DiffOptions;
use trace_advisor::{Run, diff, evaluate_diff};

use super::is_update;
use crate::harness::{Case, functions};
use crate::recordings;
use crate::support::preview::rules_with_preview;

pub(super) fn cases() -> Vec<Case> {
    functions![status_of_each_rule_is_that_of_its_evidence, stable_rules_fire_on_their_evidence]
}

const EVIDENCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/rules/evidence.txt");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
/// Traces whose machine, second rank or device records were generated.
const GENERATED: [&str; 4] =
    ["_synthetic_gpu", "/derived/", "fixtures/counters/", "fixtures/writers/"];
/// Separates the two runs of a comparison.
const ARROW: &str = " -> ";
/// Runs before and after a change that makes the step longer, or its memory grow.
const COMPARISONS: [&str; 3] = [
    "fixtures/h100/gpt.json.gz -> fixtures/h100/gpt_attention_written_out.json.gz",
    "traces/resnet50_workers4 -> traces/resnet50_workers0",
    "traces/diff_control -> traces/diff_test",
];
/// Recordings of the corpus that nobody judged.
const NOT_JUDGED: [&str; 1] = ["graph_capture/vllm_decode_full"];
/// Stands for the recording of a rule that no recording makes fire.
const NONE: &str = "-";

/// All recordings by name: those that were judged, then other fixtures, then comparisons.
fn recordings() -> Vec<String> {
    let mut names = recordings::names();
    let judged: BTreeSet<_> = names.iter().cloned().collect();
    let mut others = Vec::new();
    add_fixtures(Path::new("fixtures"), &judged, &mut others);
    others.sort();
    names.append(&mut others);
    names.retain(|name| !GENERATED.iter().any(|generated| name.contains(generated)));
    names.extend(NOT_JUDGED.iter().chain(&COMPARISONS).map(|name| (*name).to_owned()));
    names
}

/// Adds the recordings in a folder of fixtures, by name, except those that were judged.
fn add_fixtures(folder: &Path, judged: &BTreeSet<String>, names: &mut Vec<String>) {
    for entry in Path::new(FIXTURES).join("..").join(folder).read_dir().unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        let name = path.to_string_lossy().into_owned();
        if judged.contains(&name) {
            continue;
        }
        if !entry.file_type().unwrap().is_dir() {
            let is_recording = [".json.gz", ".pickle", ".pickle.gz"];
            names.extend(is_recording.iter().any(|end| name.ends_with(end)).then_some(name));
        } else if entry.path().join("rank0.json.gz").is_file() {
            names.push(name);
        } else {
            add_fixtures(&path, judged, names);
        }
    }
}

/// The codes of the rules that fire on a recording; none if it cannot be read.
fn fired(recording: &str, rules: &RuleSet) -> BTreeSet<String> {
    let open = |name: &str| Run::open(recordings::path(name));
    let findings = if let Some((before, after)) = recording.split_once(ARROW) {
        let (before, after) = (open(before).unwrap(), open(after).unwrap());
        let diff = diff(&before, &after, &DiffOptions::default()).unwrap();
        evaluate_diff(&diff, &before, &after, rules).findings
    } else {
        let report = open(recording).and_then(|run| run.check(rules));
        report.map(|report| report.findings).unwrap_or_default()
    };
    findings.into_iter().map(|finding| finding.code).collect()
}

/// The recording of each rule of the committed file, by code.
fn evidence() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(EVIDENCE).unwrap();
    let line = |line: &str| {
        let (code, recording) = line.split_once(' ').unwrap();
        (code.to_owned(), recording.to_owned())
    };
    text.lines().map(line).collect()
}

/// `UPDATE=1` looks for the evidence in all recordings.
fn status_of_each_rule_is_that_of_its_evidence() {
    let rules = rules_with_preview();
    if is_update() {
        let names = recordings();
        let fired: Vec<_> = names.par_iter().map(|name| fired(name, &rules)).collect();
        let mut text = String::new();
        for rule in rules.all() {
            let first = fired.iter().position(|codes| codes.contains(&rule.code));
            writeln!(text, "{} {}", rule.code, first.map_or(NONE, |i| &*names[i])).unwrap();
        }
        std::fs::write(EVIDENCE, text).unwrap();
    }
    let evidence = evidence();
    let codes: Vec<_> = rules.all().iter().map(|rule| &rule.code).collect();
    assert_eq!(evidence.keys().collect::<Vec<_>>(), codes, "UPDATE=1 rewrites evidence.txt");
    let other = rules.all().iter().filter(|rule| {
        let is_preview = evidence[&rule.code] == NONE && rule.category != TRACE_QUALITY;
        let expected = if is_preview { RuleStatus::Preview } else { RuleStatus::Stable };
        rule.status != expected
    });
    let other: Vec<_> = other.map(|rule| (&rule.code, rule.status)).collect();
    assert!(other.is_empty(), "rules of another status than their evidence: {other:?}");
}

/// And no recording makes a rule in preview fire. `UPDATE=1` writes the evidence meanwhile, and reads each recording for that.
fn stable_rules_fire_on_their_evidence() {
    if is_update() {
        return;
    }
    let rules = rules_with_preview();
    let evidence = evidence();
    let wrong = recordings().into_par_iter().filter_map(|name: String| {
        let fired = fired(&name, &rules);
        let is_wrong = |code: &&String| {
            let recording = &evidence[*code];
            if recording == NONE {
                fired.contains(*code)
            } else {
                *recording == name && !fired.contains(*code)
            }
        };
        let codes: Vec<_> = evidence.keys().filter(is_wrong).collect();
        (!codes.is_empty()).then(|| format!("{name}: {codes:?}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "UPDATE=1 rewrites evidence.txt: {wrong:#?}");
}
