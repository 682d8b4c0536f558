//! Owners of memory and predicted peaks: programs with one known cause, recorded without a GPU
//! (`tests/fixtures/memory/planted`), and snapshots of a GPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use trace_advisor::arrow::array::{ArrayRef, AsArray};
use trace_advisor::arrow::compute::{cast, concat_batches};
use trace_advisor::arrow::datatypes::{DataType, Int64Type};
use trace_advisor::{Run, default_rules};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path)
}

fn planted(program: &str) -> Run {
    Run::open(fixture(&format!("memory/planted/{program}.pickle.gz"))).unwrap()
}

fn sql(run: &Run, query: &str) -> Vec<ArrayRef> {
    let batches = run.sql(query).unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap().columns().to_vec()
}

fn ints(column: &ArrayRef) -> Vec<i64> {
    let column = cast(column, &DataType::Int64).unwrap();
    column.as_primitive::<Int64Type>().iter().map(Option::unwrap).collect()
}

fn texts(column: &ArrayRef) -> Vec<String> {
    let column = cast(column, &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()).collect()
}

#[derive(Deserialize)]
struct Planted {
    pairs: Vec<Pair>,
    /// The peak of each program, as the allocator counted it.
    peaks_bytes: BTreeMap<String, i64>,
}

/// A program, and the same one with its cause mended.
#[derive(Deserialize)]
struct Pair {
    program: String,
    mended: String,
    /// The scenario that stands for mending it.
    scenario: Option<String>,
}

fn programs() -> Planted {
    let text = std::fs::read(fixture("memory/planted/planted.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn pairs() -> Vec<Pair> {
    programs().pairs
}

/// The finding about memory that comes first, and its title.
fn first_finding(program: &str) -> (String, String) {
    let report = planted(program).check(&default_rules()).unwrap();
    let mut findings = report.findings.iter().filter(|f| f.code.starts_with("MM"));
    findings.next().map_or_else(Default::default, |f| (f.code.clone(), f.title.clone()))
}

#[test]
fn planted_causes_come_first() {
    let expected = [
        ("activations", "MM023", "Activations take 85.7 %"),
        ("optimizer_state", "MM024", "Optimizer state takes 47 %"),
        ("evaluation", "MM023", "The forward pass keeps its results"),
        ("kept_graph", "MM021", "Memory is kept from iteration to iteration"),
        ("kept_outputs", "MM021", "Memory is kept from iteration to iteration"),
        ("logits", "MM022", "One short peak"),
        ("copies", "MM026", "Parameters seem to be held twice"),
        ("autocast", "MM026", "Forward passes hold a copy of the weights in 16 bits"),
    ];
    for (program, code, title) in expected {
        let (found, text) = first_finding(program);
        assert_eq!(found, code, "{program}: {text}");
        assert!(text.starts_with(title), "{program}: {text}");
    }
}

/// Gradients wait to be cleared, and the optimizer has made its state: one step does not show that memory is kept.
#[test]
fn a_single_step_keeps_nothing() {
    let report = planted("one_step").check(&default_rules()).unwrap();
    assert!(report.findings.iter().all(|finding| finding.code != "MM021"));
    let kept = report.unknown.iter().find(|rule| rule.code == "MM021").unwrap();
    assert!(
        kept.reason.contains("what is kept from iteration to iteration; the snapshot has 1"),
        "{}",
        kept.reason
    );
}

/// Who holds the peak, where it is allocated, and what would shrink it: also where no rule fires.
#[test]
fn every_snapshot_says_who_holds_the_peak() {
    for (program, expected) in [
        (
            "attention",
            &[
                "temporaries of the backward pass",
                "allocated in `planted.py:",
                "F.scaled_dot_product_attention",
            ][..],
        ),
        (
            "one_step",
            &["optimizer state", "allocated in `planted.py:", "optimizer state in 8 bits"],
        ),
        ("activations", &["activations", "allocated in `planted.py:", "computed again"]),
        ("evaluation", &["activations", "`torch.inference_mode()`"]),
        ("autocast", &["16-bit copies of weights 3", "parameters"]),
    ] {
        let report = planted(program).check(&default_rules()).unwrap();
        let summary = report.recording.unwrap().summary;
        for part in expected {
            assert!(summary.contains(part), "{program}: no {part} in {summary}");
        }
    }
    let programs = programs().peaks_bytes;
    for program in programs.keys() {
        let report = planted(program).check(&default_rules()).unwrap();
        let summary = report.recording.unwrap().summary;
        assert!(summary.contains("Most at the peak: "), "{program}: {summary}");
        assert!(!summary.contains("None") && !summary.contains("unwind"), "{program}: {summary}");
    }
}

#[test]
fn mended_programs_do_not_have_the_cause() {
    for pair in pairs() {
        let [(before, title), (after, mended)] =
            [&pair.program, &pair.mended].map(|p| first_finding(p));
        let is_less_severe = pair.mended.ends_with("half_batch");
        assert!(before != after || title != mended || is_less_severe, "{}: {title}", pair.mended);
    }
}

#[test]
fn allocated_owners_add_up_to_what_the_allocator_counts() {
    let mut runs: Vec<(String, Run)> = programs()
        .peaks_bytes
        .into_keys()
        .map(|program| (program.clone(), planted(&program)))
        .collect();
    for file in
        ["h100/snapshot.pickle.gz", "memory/torch20_rank3.pickle", "memory/segments_only.pickle"]
    {
        runs.push((file.to_owned(), Run::open(fixture(file)).unwrap()));
    }
    for (name, run) in &runs {
        let query = "SELECT o.moment, sum(CASE WHEN is_allocated THEN bytes ELSE 0 END), sum(bytes), \
             max(CASE WHEN moment = 'peak' THEN peak_allocated_bytes ELSE end_allocated_bytes END), \
             max(coalesce(CASE WHEN moment = 'end' THEN end_reserved_bytes END, -1)) \
             FROM memory_owners o JOIN snapshot_devices d ON d.rank = o.rank AND d.snapshot = o.snapshot AND d.device = o.device \
             WHERE moment IN ('peak', 'end') GROUP BY o.rank, o.snapshot, o.device, o.moment";
        let columns = sql(run, query);
        let (allocated, all) = (ints(&columns[1]), ints(&columns[2]));
        let (counted, reserved) = (ints(&columns[3]), ints(&columns[4]));
        assert_eq!(allocated, counted, "{name}");
        for (all, reserved) in all.into_iter().zip(reserved).filter(|(_, reserved)| *reserved > 0) {
            assert_eq!(all, reserved, "{name}");
        }
        let query = "SELECT CAST(count(*) AS BIGINT) FROM memory_owners \
             WHERE owner = 'unexplained' AND abs(bytes) > 0 AND snapshot IS NOT NULL";
        assert_eq!(ints(&sql(run, query)[0]), [0], "{name} has bytes that nothing explains");
    }
}

/// Segments and rounding follow from addresses and the allocator's rules; the snapshot of a GPU says what they were in
/// the end, and the allocator how much it held at the peak.
#[test]
fn segment_map_agrees_with_the_blocks_of_the_snapshot() {
    let run = Run::open(fixture("h100/snapshot.pickle.gz")).unwrap();
    let mapped = "SELECT sum(rounding_bytes), sum(CASE WHEN owner LIKE 'free%' THEN bytes ELSE 0 END), sum(bytes) \
         FROM memory_segment_map WHERE moment = 'end'";
    let blocks = "SELECT sum(CASE WHEN state = 'inactive' THEN 0 ELSE size_bytes - requested_bytes END), \
         sum(CASE WHEN state = 'inactive' THEN size_bytes ELSE 0 END), sum(size_bytes) FROM snapshot_blocks";
    let values = |query: &str| sql(&run, query).iter().map(|c| ints(c)[0]).collect::<Vec<_>>();
    assert_eq!(values(mapped), values(blocks));
    let mapped = "SELECT sum(bytes) FROM memory_segment_map WHERE moment = 'peak'";
    let reserved = "SELECT e.reserved_bytes FROM snapshot_events e \
         JOIN snapshot_devices d ON d.device = e.device AND d.peak_position = e.position";
    assert_eq!(values(mapped), values(reserved));
    // Of what lies in segments, nothing is left without a reason.
    let unexplained = "SELECT CAST(count(*) AS BIGINT) FROM memory_owners WHERE owner IN ('unused', 'unexplained')";
    assert_eq!(values(unexplained), [0]);
}

/// Parameters of the model of `tests/fixtures/h100`, whose snapshot began when it had been built: told by sizes.
#[test]
fn parameters_and_optimizer_state_are_told_from_older_memory() {
    let run = Run::open(fixture("h100/snapshot.pickle.gz")).unwrap();
    let query = "SELECT owner, sum(bytes) FROM memory_owners \
         WHERE moment = 'peak' AND owner IN ('parameter', 'optimizer_state') GROUP BY owner ORDER BY owner";
    let columns = sql(&run, query);
    let of: BTreeMap<String, i64> = texts(&columns[0]).into_iter().zip(ints(&columns[1])).collect();
    assert_eq!(2 * of["parameter"], of["optimizer_state"]);
}

#[derive(Debug)]
struct Prediction {
    program: String,
    mended: String,
    scenario: String,
    now_bytes: i64,
    predicted_bytes: i64,
    measured_bytes: i64,
}

impl Prediction {
    fn error(&self) -> f64 {
        (self.predicted_bytes as f64 / self.measured_bytes as f64 - 1.0).abs()
    }
}

fn predictions() -> Vec<Prediction> {
    let peaks = programs().peaks_bytes;
    let of_pair = |pair: Pair| {
        let scenario = pair.scenario?;
        let (name, samples) = match scenario.split_once(' ') {
            Some((name, samples)) => (name, format!(" AND batch_factor = {samples}")),
            None => (scenario.as_str(), String::new()),
        };
        let query = format!(
            "SELECT now_bytes, peak_bytes FROM memory_what_if WHERE scenario = '{name}'{samples} ORDER BY peak_bytes LIMIT 1"
        );
        let columns = sql(&planted(&pair.program), &query);
        Some(Prediction {
            now_bytes: ints(&columns[0])[0],
            predicted_bytes: ints(&columns[1])[0],
            measured_bytes: peaks[&pair.mended],
            program: pair.program,
            mended: pair.mended,
            scenario,
        })
    };
    pairs().into_iter().filter_map(of_pair).collect()
}

#[test]
fn predicted_peaks_hold() {
    let peaks = programs().peaks_bytes;
    let predictions = predictions();
    assert_eq!(predictions.len(), 4);
    for prediction in predictions {
        assert_eq!(prediction.now_bytes, peaks[&prediction.program]);
        assert!(prediction.error() < 0.05, "{prediction:?}");
    }
}

/// `UPDATE=1` rewrites the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn table_in_the_document_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let mut table =
        "| program | change | peak | predicted | measured | error |\n|---|---|--:|--:|--:|--:|\n"
            .to_owned();
    for p in predictions() {
        let mb = |bytes: i64| format!("{:.1} MB", bytes as f64 / 1e6);
        writeln!(
            table,
            "| {} | {} (`{}`) | {} | {} | {} | {:.1} % |",
            p.program,
            p.mended,
            p.scenario,
            mb(p.now_bytes),
            mb(p.predicted_bytes),
            mb(p.measured_bytes),
            100.0 * p.error()
        )
        .unwrap();
    }
    let (before, rest) = page.split_once("<!-- predicted -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /predicted -->\n").unwrap();
    let fresh = format!("{before}<!-- predicted -->\n{table}<!-- /predicted -->\n{after}");
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(file, fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/memory.md is stale: run this test with UPDATE=1");
}
