//! Estimated against measured gains: runs on an H100 with one thing wrong, and the same runs with it
//! mended (`tests/fixtures/h100`); and one program that follows the report from stage to stage (`tests/fixtures/gpt2`).
//! The traces, the times without the profiler and the scripts that recorded them are there; `docs/measured-gains.md`
//! has the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use trace_advisor::advisor::{Finding, Severity};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Int64Type};
use trace_advisor::{Report, Run, default_rules};

use crate::harness::{Case, functions};

/// All tests.
pub(crate) fn cases() -> Vec<Case> {
    functions![
        slow_runs_have_the_expected_findings,
        measured_savings_are_within_estimates,
        first_report_predicts_the_final_step_time,
        mended_runs_have_smaller_findings,
        memory_peaks_match_the_allocator,
        snapshot_totals_match_the_allocator,
        tables_in_the_document_are_current,
    ]
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measured-gains.md");

#[derive(Deserialize)]
struct Recorded {
    device: String,
    torch: String,
    pairs: Vec<Pair>,
    runs: BTreeMap<String, PeakMemory>,
    snapshot: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Pair {
    slow: String,
    mended: String,
    /// Rules that should name what is wrong; first the one whose gain mending brings.
    codes: Vec<String>,
    slow_step_ns: i64,
    mended_step_ns: i64,
}

/// A program on its way.
#[derive(Deserialize)]
struct Stage {
    run: String,
    step_ns: i64,
    /// The rule whose advice is followed next, and what is done.
    code: Option<String>,
    done: Option<String>,
}

/// Part of a step's time that is saved, in percent.
fn saved_pct(before_ns: i64, after_ns: i64) -> f64 {
    100.0 * (1.0 - after_ns as f64 / before_ns as f64)
}

/// Peaks that PyTorch's allocator counted itself.
#[derive(Deserialize)]
struct PeakMemory {
    allocated_bytes: i64,
    reserved_bytes: i64,
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path)
}

fn recorded() -> Recorded {
    serde_json::from_slice(&std::fs::read(fixture("h100/pairs.json")).unwrap()).unwrap()
}

fn stages() -> Vec<Stage> {
    serde_json::from_slice(&std::fs::read(fixture("gpt2/stages.json")).unwrap()).unwrap()
}

fn open(name: &str) -> Run {
    let at = |folder| fixture(&format!("{folder}/{name}.json.gz"));
    let path = Some(at("h100")).filter(|path| path.exists()).unwrap_or_else(|| at("gpt2"));
    Run::open(path).unwrap()
}

/// Reports of all runs, by name.
fn reports() -> &'static BTreeMap<String, Report> {
    static REPORTS: OnceLock<BTreeMap<String, Report>> = OnceLock::new();
    REPORTS.get_or_init(|| {
        let names = recorded().runs.into_keys().chain(stages().into_iter().map(|stage| stage.run));
        names.map(|name| (name.clone(), open(&name).check(&default_rules()).unwrap())).collect()
    })
}

fn finding<'r>(run: &str, code: &str) -> Option<&'r Finding> {
    reports()[run].findings.iter().find(|finding| finding.code == code)
}

/// The finding of a rule in a run, and its gain in percent.
fn promised(run: &str, code: &str) -> (&'static Finding, f64, f64) {
    let found = finding(run, code).unwrap_or_else(|| panic!("{run}: no {code}"));
    (found, found.gain.low_pct.unwrap(), found.gain.high_pct.unwrap())
}

fn slow_runs_have_the_expected_findings() {
    for pair in recorded().pairs {
        for code in &pair.codes {
            assert!(finding(&pair.slow, code).is_some(), "{}: {code} says nothing", pair.slow);
        }
    }
}

/// The lower number is a promise: mending brings it. The higher one is no more than an estimate, since what is mended
/// may take other time with it (a faster type also moves fewer bytes); it is never off by more than this.
fn measured_savings_are_within_estimates() {
    let keeps = |run: &str, code: &str, saved: f64| {
        let (_, low, high) = promised(run, code);
        let what = format!("{run}: {code} says {low} to {high} %, measured {saved:.1} %");
        assert!(saved >= low - 1.0, "{what}");
        assert!(saved <= 2.5 * high + 1.0, "{what}");
    };
    for pair in recorded().pairs {
        let saved = saved_pct(pair.slow_step_ns, pair.mended_step_ns);
        keeps(&pair.slow, &pair.codes[0], saved);
    }
    for two in stages().windows(2) {
        let saved = saved_pct(two[0].step_ns, two[1].step_ns);
        keeps(&two[0].run, two[0].code.as_deref().unwrap(), saved);
    }
}

/// What the first report says that a step could take is what it takes once its advice was followed, but for what a
/// compiler adds.
fn first_report_predicts_the_final_step_time() {
    let stages = stages();
    let headline = &reports()[&stages[0].run].headline;
    let predicted = headline.predicted_step_ms.as_ref().unwrap();
    let reached = &stages[stages.len() - 2];
    let reached_ms = reached.step_ns as f64 / 1e6;
    assert!((0.8..1.2).contains(&(predicted.low / reached_ms)), "{predicted:?}, {reached_ms} ms");
}

/// A rule that still fires on the mended run asks for less there.
fn mended_runs_have_smaller_findings() {
    // Fusing by hand, half of the precision, or a compiler leave some of it.
    let still = |pair: &Pair, code: &str| {
        let before = finding(&pair.slow, code).unwrap();
        finding(&pair.mended, code).is_some_and(|after| {
            let ms = |finding: &Finding| finding.gain.ms_per_step.unwrap_or(0.0);
            after.severity > Severity::Info && ms(after) > 0.9 * ms(before)
        })
    };
    let left: Vec<String> = recorded()
        .pairs
        .iter()
        .flat_map(|pair| {
            pair.codes
                .iter()
                .filter(|code| still(pair, code))
                .map(|code| format!("{} {code}", pair.slow))
        })
        .collect();
    assert_eq!(left, [""; 0]);
}

fn ints(run: &Run, query: &str) -> Vec<i64> {
    let batches = run.sql(query).unwrap();
    let columns = batches[0].columns().iter();
    let whole = columns.map(|column| cast(column, &DataType::Int64).unwrap());
    whole.filter_map(|column| column.as_primitive::<Int64Type>().iter().next().flatten()).collect()
}

/// Peaks of memory are those that the allocator itself counted while the trace was recorded, to the byte.
fn memory_peaks_match_the_allocator() {
    for (name, held) in recorded().runs {
        let query = "SELECT peak_allocated_bytes, peak_reserved_bytes FROM memory_peak";
        let peaks = ints(&open(&name), query);
        // A replayed graph asks the allocator for nothing.
        let held = [held.allocated_bytes, held.reserved_bytes];
        assert_eq!(peaks, if name.ends_with("_graph") { &[][..] } else { &held }, "{name}");
    }
}

/// The same for the allocator's snapshot.
fn snapshot_totals_match_the_allocator() {
    let said = recorded().snapshot;
    let run = Run::open(fixture("h100/snapshot.pickle.gz")).unwrap();
    let query = "SELECT sum(segment_count), sum(reserved_bytes), sum(allocated_bytes) FROM snapshot_fragmentation";
    let of = |key: &str| said[key];
    assert_eq!(
        ints(&run, query),
        [
            of("segment.all.current"),
            of("reserved_bytes.all.current"),
            of("allocated_bytes.all.current")
        ]
    );
    // The history has the requested sizes; the allocator rounds each up to 512 bytes.
    let query = "SELECT max(peak_allocated_bytes), sum(allocation_count) FROM snapshot_peak";
    let [peak, count] = ints(&run, query)[..] else { panic!("two columns") };
    let rounded = of("allocated_bytes.all.peak");
    assert!((peak..peak + 512 * count).contains(&rounded), "{peak} asked for, {rounded} taken");
}

fn table() -> String {
    let recorded = recorded();
    let mut text = format!(
        "{}, PyTorch {}. Times without the profiler.\n\n\
         | run | mended | a step takes | mended | saves | rule | says |\n|---|---|--:|--:|--:|---|--:|\n",
        recorded.device, recorded.torch
    );
    for pair in &recorded.pairs {
        let (found, low, high) = promised(&pair.slow, &pair.codes[0]);
        writeln!(
            text,
            "| {} | {} | {:.2} ms | {:.2} ms | {:.1} % | {} {} | {low:.1} to {high:.1} % |",
            pair.slow,
            pair.mended,
            pair.slow_step_ns as f64 / 1e6,
            pair.mended_step_ns as f64 / 1e6,
            saved_pct(pair.slow_step_ns, pair.mended_step_ns),
            found.code,
            found.name
        )
        .unwrap();
    }
    text
}

/// From stage to stage, with what each report says: how long a step could take, and what the advice followed next brings.
fn journey() -> String {
    let mut text =
        "| a step takes | it could take | done next | saves | rule | says |\n".to_owned();
    text.push_str("|--:|--:|---|--:|---|--:|\n");
    let stages = stages();
    for (place, stage) in stages.iter().enumerate() {
        let could = reports()[&stage.run].headline.predicted_step_ms.as_ref().unwrap();
        write!(text, "| {:.1} ms | {:.1} ms |", stage.step_ns as f64 / 1e6, could.low).unwrap();
        match stage.code.as_deref().zip(stage.done.as_deref()).zip(stages.get(place + 1)) {
            Some(((code, done), after)) => {
                let (found, low, high) = promised(&stage.run, code);
                let saved = saved_pct(stage.step_ns, after.step_ns);
                let rule = format!("{code} {}", found.name);
                writeln!(text, " {done} | {saved:.1} % | {rule} | {low:.1} to {high:.1} % |")
            }
            None => writeln!(text, " | | | |"),
        }
        .unwrap();
    }
    text
}

/// `page` with this text between the marks of that name.
fn with(page: &str, name: &str, text: &str) -> String {
    let marks = [format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n")];
    let (before, rest) = page.split_once(&marks[0]).unwrap();
    let (_, after) = rest.split_once(&marks[1]).unwrap();
    format!("{before}{}{text}{}{after}", marks[0], marks[1])
}

/// `UPDATE=1` rewrites the tables.
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn tables_in_the_document_are_current() {
    let page = std::fs::read_to_string(DOCUMENT).unwrap();
    let fresh = with(&with(&page, "measured", &table()), "journey", &journey());
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(DOCUMENT, fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/measured-gains.md is stale: run this test with UPDATE=1");
}
