//! The table of `docs/evidence/recordings.md`: what an expert and `check` say first about each recording, and who is right.
//!
//! `recordings/expert.jsonl` has the words of experts, who saw the raw files alone. `recordings/verdicts.jsonl` has the
//! verdicts of a reader who saw both answers without knowing which one is whose; each belongs to the text that was judged.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Deserialize;
use trace_advisor::advisor::{Finding, Range, Severity};
use trace_advisor::compare::DiffOptions;
use trace_advisor::{Report, Run, default_rules, diff};

use crate::harness::{Case, functions};
use crate::runs::traces;
use crate::support::{rows::numbers, slice};

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");
const DOCUMENT: &str = "../../docs/evidence/recordings.md";
const MARKS: [&str; 2] = ["<!-- recordings -->\n", "<!-- /recordings -->\n"];
const EXPERT: &str = include_str!("recordings/expert.jsonl");
const VERDICTS: &str = include_str!("recordings/verdicts.jsonl");

pub(crate) fn cases() -> Vec<Case> {
    functions![table_in_the_document_is_current, healthy_recordings_are_quiet]
}

/// What an expert says first about a recording.
#[derive(Debug, Deserialize)]
struct ExpertWords {
    /// `traces/...`, `wild/...`, `strangers/...` of the corpus, or `fixtures/...` of this repository.
    recording: String,
    cause: String,
    advice: String,
    /// The expert finds nothing to fix.
    #[serde(default)]
    healthy: bool,
}

/// Findings above low in recordings that experts call healthy, and why they stay.
const ARGUED: [(&str, &[&str], &str); 2] = [
    (
        "fixtures/h100/decode_graph.json.gz",
        &["KN007"],
        "a decode of one sequence: its kernels fill few multiprocessors",
    ),
    (
        "fixtures/h100/resnet.json.gz",
        &["KN002"],
        "the first convolution has 3 input channels and takes 7 % of the time at 9 % of what the GPU achieves",
    ),
];

/// A verdict on what `check` says first.
#[derive(Debug, Deserialize)]
struct Verdict {
    recording: String,
    /// The text that was judged.
    said: String,
    /// `right`, `half`, `wrong` or `silent`.
    #[serde(rename = "verdict")]
    word: String,
}

fn lines<T: for<'d> Deserialize<'d>>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of all recordings of the table.
pub(crate) fn names() -> Vec<String> {
    lines(EXPERT).into_iter().map(|words: ExpertWords| words.recording).collect()
}

/// Where a recording of the table is.
pub(crate) fn path(recording: &str) -> PathBuf {
    let (kind, name) = recording.split_once('/').unwrap();
    match kind {
        "traces" => traces().join(name),
        "fixtures" => Path::new(MANIFEST).join("../../tests/fixtures").join(name),
        _ => traces().join("../inputs").join(recording),
    }
}

/// What the program says first: the kind of recording, its first finding and what to do about that finding (or, without
/// a finding, what takes the time), and the last line.
fn first_words(report: &Report) -> String {
    let code = report.headline.first.as_deref();
    let first = report.findings.iter().find(|finding| Some(finding.code.as_str()) == code);
    let summary = report.recording.as_ref().map(|recording| recording.summary.clone());
    let middle = first.map(finding_words).or_else(|| report.time_summary().map(str::to_owned));
    let parts = summary.into_iter().chain(middle).chain([report.headline.text.clone()]);
    let text = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn finding_words(finding: &Finding) -> String {
    // A fix that takes longer here is no advice.
    let fix = finding.fixes.first().filter(|fix| fix.alone_pct.mid >= 0.0);
    let action = match (fix, finding.advice.first()) {
        (Some(fix), _) => fix.title.clone(),
        (None, Some(advice)) => advice.clone(),
        (None, None) => String::new(),
    };
    let saves = match (finding.gain.low_pct, finding.gain.high_pct) {
        (Some(low), Some(high)) if high > 0.0 => format!(" (saves {low:.0} to {high:.0} %)"),
        _ => String::new(),
    };
    format!("**{}: {}.** {} *{action}*{saves}.", finding.code, finding.title, finding.message)
}

/// No finding above low on a recording that an expert calls healthy, but for those in [`ARGUED`], which are few.
fn healthy_recordings_are_quiet() {
    let healthy: Vec<ExpertWords> =
        lines(EXPERT).into_iter().filter(|words: &ExpertWords| words.healthy).collect();
    assert!(healthy.len() >= 30 && ARGUED.len() * 10 <= healthy.len(), "{}", healthy.len());
    let rules = default_rules();
    let loud = |words: &ExpertWords| {
        let report = Run::open(path(&words.recording)).and_then(|run| run.check(&rules)).unwrap();
        let is_loud = |finding: &&Finding| finding.severity > Severity::Low && !finding.is_note();
        let loud = report.findings.iter().filter(is_loud);
        let mut codes: Vec<String> = loud.map(|finding| finding.code.clone()).collect();
        codes.sort();
        (words.recording.clone(), codes)
    };
    let loud: BTreeMap<String, Vec<String>> =
        healthy.par_iter().map(loud).filter(|(_, codes)| !codes.is_empty()).collect();
    let argued: BTreeMap<String, Vec<String>> = ARGUED
        .iter()
        .map(|(recording, codes, _)| {
            ((*recording).to_owned(), codes.iter().map(|&code| code.to_owned()).collect())
        })
        .collect();
    assert_eq!(loud, argued);
}

/// Ranges are in order, a plan only gets shorter, and the same number stands everywhere.
fn assert_consistent(recording: &str, report: &Report) {
    let is_ordered = |range: &Range| range.low <= range.mid && range.mid <= range.high;
    for finding in &report.findings {
        let code = &finding.code;
        for fix in &finding.fixes {
            for range in [&fix.alone_pct, &fix.next_pct] {
                let told = format!("{recording} {code} {}: {range:?}", fix.fix);
                assert!(is_ordered(range) && range.high <= 100.0, "{told}");
            }
        }
        if let Some(fix) = finding.fixes.first().filter(|fix| fix.alone_pct.mid >= 0.0) {
            assert_eq!(
                finding.gain.high_pct,
                Some(fix.alone_pct.high.max(0.0)),
                "{recording} {code}"
            );
        }
    }
    let Some(plan) = &report.plan else { return };
    let mut before = plan.unprofiled_ms;
    for fix in &plan.fixes {
        let after = fix.after_ms;
        let told = format!("{recording} {}: {before:?} -> {after:?}", fix.fix);
        assert!(is_ordered(&after) && after.low > 0.0, "{told}");
        let is_shorter = |after: f64, before: f64| after <= before * 1.000_001;
        assert!(is_shorter(after.low, before.low) && is_shorter(after.high, before.high), "{told}");
        before = after;
    }
    if let Some(predicted) = report.headline.predicted_step_ms {
        assert_eq!(Some(predicted), plan.stated().map(|fix| fix.after_ms), "{recording}");
    }
}

/// Every command states the same mean step of the same number of steps.
fn assert_one_step(recording: &str, run: &Run, report: &Report) {
    let steps = |sql: &str| -> BTreeMap<i64, (i64, f64)> {
        let rows = numbers(&run.sql(sql).unwrap()).into_iter();
        let of_rank = |row: Vec<f64>| (row[0] as i64, (row[1] as i64, row[2]));
        rows.map(of_rank).filter(|(_, (count, _))| *count > 0).collect()
    };
    let summary = steps("SELECT rank, step_count, mean_ns FROM step_time_summary");
    let breakdown = steps("SELECT rank, step_count, step_ns FROM step_breakdown");
    let what_if = steps(
        "SELECT rank, step_count, step_ns FROM critical_what_if
         WHERE scenario = 'sync_free' AND step_ns IS NOT NULL",
    );
    let is_same = |a: f64, b: f64| (a - b).abs() <= 1.0 + 1e-9 * b;
    for (rank, (count, mean_ns)) in &summary {
        let own = breakdown[rank];
        assert!(own.0 == *count && is_same(own.1, *mean_ns), "{recording}: {own:?}, {mean_ns}");
        if let Some(own) = what_if.get(rank) {
            assert!(own.0 == *count && is_same(own.1, *mean_ns), "{recording}: {own:?}, {mean_ns}");
        }
    }
    let slowest_ns = summary.values().map(|(_, mean_ns)| *mean_ns).fold(0.0, f64::max);
    if let Some(step_ms) = report.headline.step_ms {
        assert!((step_ms - slowest_ns / 1e6).abs() < 1e-4, "{recording}: {step_ms}, {slowest_ns}");
    }
    if let Some(breakdown) = report.breakdown.as_ref().filter(|breakdown| breakdown.steps > 0) {
        assert_eq!(breakdown.steps, summary[&breakdown.rank].0, "{recording}");
    }
    if let (1, Some((count, mean_ns))) = (report.run.ranks.len(), summary.values().next()) {
        let diff = diff(run, run, &DiffOptions::default()).unwrap();
        let before = &diff.summary.before;
        assert!(is_same(before.mean_ns, *mean_ns), "{recording}: {before:?}, {mean_ns}");
        let sample = diff.verdict.before.as_ref().unwrap();
        assert_eq!(sample.steps as i64, *count, "{recording}");
    }
}

/// The words without the numbers of findings and of rules: a new rule changes them, but no advice.
fn without_counts(said: &str) -> String {
    let words: Vec<&str> = said.split(' ').collect();
    let is_noun = |i: usize| {
        words.get(i).is_some_and(|word| word.starts_with("rule") || word.starts_with("finding"))
    };
    let is_number =
        |i: usize| words.get(i).is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()));
    let is_counted =
        |i: usize| (is_number(i) && is_noun(i + 1)) || (i > 0 && is_number(i - 1) && is_noun(i));
    let kept = (0..words.len()).filter(|&i| !is_counted(i)).map(|i| words[i]);
    kept.collect::<Vec<_>>().join(" ")
}

/// `UPDATE=1` rewrites the table. Without it, a slice of the recordings is compared.
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn table_in_the_document_is_current() {
    let updates = std::env::var("UPDATE").is_ok_and(|v| v == "1");
    let document = Path::new(MANIFEST).join(DOCUMENT);
    let page = std::fs::read_to_string(&document).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (table, after) = rest.split_once(MARKS[1]).unwrap();
    let verdicts: Vec<Verdict> = lines(VERDICTS);
    let verdicts: BTreeMap<(&str, String), &str> = verdicts
        .iter()
        .map(|v| ((v.recording.as_str(), without_counts(&v.said)), v.word.as_str()))
        .collect();
    let experts: Vec<ExpertWords> = lines(EXPERT);
    let taken = if updates {
        experts
    } else {
        slice::take("recordings::table_in_the_document_is_current", experts)
    };
    let rules = default_rules();
    let row = |words: &ExpertWords| {
        let checked = Run::open(path(&words.recording)).and_then(|run| {
            let report = run.check(&rules)?;
            Ok((run, report))
        });
        let said = match checked {
            Ok((run, report)) => {
                assert_consistent(&words.recording, &report);
                assert_one_step(&words.recording, &run, &report);
                first_words(&report)
            }
            Err(error) => error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let judged = (words.recording.as_str(), without_counts(&said));
        let verdict = verdicts.get(&judged).unwrap_or(&"-");
        let ExpertWords { recording, cause, advice, .. } = words;
        format!("| {recording} | {cause} {advice} | {said} | {verdict} |\n")
    };
    let fresh: Vec<String> = taken.par_iter().map(row).collect();
    if updates {
        let mut table =
            String::from("| recording | an expert | `check` | verdict |\n|---|---|---|---|\n");
        for row in &fresh {
            table.push_str(row);
        }
        let mut page = String::new();
        write!(page, "{before}{}{table}{}{after}", MARKS[0], MARKS[1]).unwrap();
        return std::fs::write(document, page).unwrap();
    }
    let stale: Vec<&String> = fresh.iter().filter(|row| !table.contains(row.as_str())).collect();
    assert!(
        stale.is_empty(),
        "docs/evidence/recordings.md is stale: run this test with UPDATE=1: {stale:#?}"
    );
}
