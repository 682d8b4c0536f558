//! Tables that are read while they are asked about give the answers that tables in memory give.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rayon::prelude::*;
use trace_advisor::analyses::catalog;
use trace_advisor::arrow::util::display::{ArrayFormatter, FormatOptions};
use trace_advisor::ingest::{self, NoProgress};
use trace_advisor::query::{Params, Selection, fits_rank_by_rank};
use trace_advisor::trace_model::tables::TABLES;
use trace_advisor::trace_model::{RecordBatch, TableSource};
use trace_advisor::{OpenOptions, Run, default_rules};
use trace_demo::Bottleneck;

use crate::support::corpus::corpus;
use crate::support::export::export;
use crate::support::slice;

/// Opens a run that is to take no memory: its tables are read while it is asked.
fn streamed(run: &Path, selection: &Selection) -> Result<Run, trace_advisor::Error> {
    limited(run, selection, 1)
}

fn limited(
    run: &Path,
    selection: &Selection,
    memory_bytes: u64,
) -> Result<Run, trace_advisor::Error> {
    let selection = selection.clone();
    let options =
        OpenOptions { memory_bytes: Some(memory_bytes), selection, ..OpenOptions::default() };
    Run::open_with(run, &options, &NoProgress)
}

/// The memory that the largest rank of an export needs alone: less than any two ranks need.
fn one_rank_bytes(export: &Path) -> u64 {
    let export = ingest::Export::open(export).unwrap();
    let mut of: BTreeMap<Option<i32>, u64> = BTreeMap::new();
    for partition in TABLES.iter().flat_map(|table| export.partitions(table.name)) {
        *of.entry(partition.rank).or_default() += partition.bytes;
    }
    let of_run = of.remove(&None).unwrap_or(0);
    let least = of_run + of.values().copied().max().unwrap();
    let needed =
        (1..100).map(|times| least * times).find(|&b| fits_rank_by_rank(export.as_ref(), b));
    needed.unwrap()
}

fn in_memory(run: &Path, selection: &Selection) -> Result<Run, trace_advisor::Error> {
    let options = OpenOptions { selection: selection.clone(), ..OpenOptions::default() };
    Run::open_with(run, &options, &NoProgress)
}

/// The report as JSON, line by line, without where the run is.
fn report(run: &Run) -> Vec<String> {
    let mut report = run.check(&default_rules()).unwrap();
    // Advice names the run.
    let path = std::mem::take(&mut report.run.path);
    let text = serde_json::to_string_pretty(&report).unwrap().replace(&path, "RUN");
    text.lines().map(rounded).collect()
}

/// A line that ends in a fraction, without the digits in which sums differ that were added up in another order.
fn rounded(line: &str) -> String {
    let (start, value) = line.rsplit_once(' ').unwrap_or(("", line));
    match value.trim_end_matches(',').parse::<f64>() {
        Ok(number) if value.contains('.') => format!("{start} {number:.9e}"),
        _ => line.to_owned(),
    }
}

/// Rows as text, in order of that text: where no order is declared, there is none.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = ordered(batches);
    rows.sort_unstable();
    rows
}

/// Rows as text.
fn ordered(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|c| rounded(&c.value(row).to_string()));
            values.collect::<Vec<_>>().join("|")
        }));
    }
    rows
}

fn demo_run(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    let bottleneck = Bottleneck::Straggler;
    let options =
        trace_demo::Options { bottleneck, ranks: 3, layers: 2, ..trace_demo::Options::default() };
    trace_demo::write_run(&options, &run).unwrap();
    run
}

#[test]
fn reports_are_equal_from_traces_parquet_and_streamed() {
    let folder = tempfile::tempdir().unwrap();
    assert_equal_reports(&[demo_run(folder.path())]);
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn reports_of_recorded_runs_are_equal_from_traces_parquet_and_streamed() {
    let names = ["two_ranks", "resnet50_workers0", "mi300_resnet_ddp", "composer/ranks2"];
    let test =
        "export::streamed::reports_of_recorded_runs_are_equal_from_traces_parquet_and_streamed";
    assert_equal_reports(&slice::take(test, names.map(|name| corpus().join("traces").join(name))));
}

fn assert_equal_reports(runs: &[PathBuf]) {
    let whole = Selection::default();
    runs.par_iter().for_each(|run| {
        let traces = in_memory(run, &whole).unwrap();
        let expected = report(&traces);
        let scratch = tempfile::tempdir().unwrap();
        let to = scratch.path().join("run");
        export(run, &to).unwrap();
        let loaded = in_memory(&to, &whole).unwrap();
        assert!(loaded.is_in_memory());
        assert_eq!(report(&loaded), expected, "{}", run.display());
        let read = streamed(&to, &whole).unwrap();
        assert!(!read.is_in_memory());
        assert!(!read.was_exported());
        assert_eq!(report(&read), expected, "{} streamed", run.display());
        let read = limited(&to, &whole, one_rank_bytes(&to)).unwrap();
        assert!(!read.is_in_memory() || traces.info().ranks.len() == 1);
        assert_eq!(report(&read), expected, "{} rank by rank", run.display());
    });
}

/// If the query is known when the run is opened, only the tables that it needs are read.
#[test]
fn query_reads_only_the_tables_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let run = demo_run(folder.path());
    let to = folder.path().join("export");
    export(&run, &to).unwrap();
    let for_question = |question: &str| {
        let options =
            OpenOptions { query_hint: Some(question.to_owned()), ..OpenOptions::default() };
        Run::open_with(&to, &options, &NoProgress).unwrap()
    };
    let whole = in_memory(&to, &Selection::default()).unwrap();
    catalog().views().par_iter().for_each(|module| {
        let asked = for_question(&module.name).analyze(&module.name).unwrap();
        assert_eq!(
            ordered(&asked),
            ordered(&whole.analyze(&module.name).unwrap()),
            "{}",
            module.name
        );
    });
    let query =
        "SELECT count(*) FROM Kernels k JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op";
    assert_eq!(
        ordered(&for_question(query).sql(query).unwrap()),
        ordered(&whole.sql(query).unwrap())
    );
    let unread = for_question("SELECT count(*) FROM kernels").sql("SELECT count(*) FROM cpu_ops");
    assert_eq!(ordered(&unread.unwrap()), ["0"]);
}

#[test]
fn views_are_equal_from_memory_streamed_and_by_rank() {
    let folder = tempfile::tempdir().unwrap();
    assert_equal_views(&[demo_run(folder.path())]);
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn views_of_recorded_runs_are_equal_from_memory_streamed_and_by_rank() {
    let names = [
        "two_ranks",
        "mi300_resnet_ddp",
        "composer/ranks2",
        "generated/ddp_gloo_4rank_straggler",
        "generated/synth_nccl_mismatch",
    ];
    let test =
        "export::streamed::views_of_recorded_runs_are_equal_from_memory_streamed_and_by_rank";
    assert_equal_views(&slice::take(test, names.map(|name| corpus().join("traces").join(name))));
}

fn assert_equal_views(runs: &[PathBuf]) {
    let whole = Selection::default();
    for run in runs {
        let (memory, streamed) = (in_memory(run, &whole).unwrap(), streamed(run, &whole).unwrap());
        assert!(streamed.was_exported());
        let scratch = tempfile::tempdir().unwrap();
        let to = scratch.path().join("export");
        export(run, &to).unwrap();
        let by_rank = limited(&to, &whole, one_rank_bytes(&to)).unwrap();
        catalog().views().par_iter().for_each(|module| {
            let name = &module.name;
            // All rows, and by which values they are in order: among equals, any may come first.
            let answer = |run: &Run| {
                let batches = run.analyze(name).unwrap();
                let at = |column: &String| batches[0].schema().index_of(column).unwrap();
                let order: Vec<usize> = module.order.iter().map(at).collect();
                let keys: Vec<RecordBatch> =
                    batches.iter().map(|batch| batch.project(&order).unwrap()).collect();
                (rows(&batches), if order.is_empty() { Vec::new() } else { ordered(&keys) })
            };
            let expected = answer(&memory);
            assert_eq!(expected, answer(&streamed), "{name} of {}", run.display());
            assert_eq!(expected, answer(&by_rank), "{name} of {}, rank by rank", run.display());
        });
    }
}

#[test]
fn selections_are_equal_from_memory_and_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let run = demo_run(folder.path());
    let to = folder.path().join("export");
    export(&run, &to).unwrap();
    let range = |text: &str| Some(text.parse().unwrap());
    for selection in [
        Selection { ranks: Some("1-2".parse().unwrap()), ..Selection::default() },
        Selection { steps: range("4-5"), ..Selection::default() },
        Selection { streams: Some("7".parse().unwrap()), ..Selection::default() },
        Selection { name: Some(regex::Regex::new("gemm|aten::").unwrap()), ..Selection::default() },
    ] {
        let (memory, streamed) =
            (in_memory(&run, &selection).unwrap(), streamed(&to, &selection).unwrap());
        assert_eq!(memory.info().ranks, streamed.info().ranks);
        assert_eq!(memory.info().steps, streamed.info().steps);
        assert_eq!(memory.info().selection, streamed.info().selection);
        for table in ["ranks", "kernels", "cpu_ops", "steps"] {
            let query = format!("SELECT * FROM {table}");
            let answer = |run: &Run| rows(&run.sql(&query).unwrap());
            assert_eq!(answer(&memory), answer(&streamed), "{table} of {selection}");
        }
        let count = |run: &Run| rows(&run.sql("SELECT count(*) FROM cpu_ops").unwrap());
        assert_eq!(count(&memory), count(&streamed), "{selection}");
    }
    let none = Selection { ranks: Some("9".parse().unwrap()), ..Selection::default() };
    assert_eq!(
        in_memory(&run, &none).unwrap_err().to_string(),
        streamed(&to, &none).unwrap_err().to_string()
    );
}

#[test]
fn annotation_is_missing_only_if_all_ranks_lack_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = demo_run(folder.path());
    // Only the last rank has it.
    let last = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let mut text = String::new();
    GzDecoder::new(fs::File::open(&last).unwrap()).read_to_string(&mut text).unwrap();
    let marked = text.replace("Optimizer.step#AdamW.step", "Optimizer.step#Own.step");
    assert_ne!(text, marked);
    let mut file = GzEncoder::new(fs::File::create(&last).unwrap(), Compression::fast());
    file.write_all(marked.as_bytes()).unwrap();
    file.finish().unwrap();
    let to = folder.path().join("export");
    export(&run, &to).unwrap();

    let limit = one_rank_bytes(&to);
    let ask = |memory_bytes, annotation: &str, instance: i64| {
        let mut params = Params::default();
        params.set("critical_annotation", annotation);
        params.set("critical_instance", instance);
        let options = OpenOptions { memory_bytes, params, ..OpenOptions::default() };
        let run = Run::open_with(&to, &options, &NoProgress).unwrap();
        let rows = run.analyze("critical_path").map(|batches| rows(&batches));
        rows.map_err(|e| e.to_string())
    };
    for (annotation, instance) in [("#Own.", -1), ("#Own.", 2), ("#Adam", -1)] {
        let answer = ask(None, annotation, instance).unwrap();
        assert!(!answer.is_empty());
        assert_eq!(ask(Some(limit), annotation, instance).unwrap(), answer, "{annotation}");
    }
    assert_eq!(ask(Some(limit), "nowhere", -1), ask(None, "nowhere", -1));
    let message = ask(Some(limit), "#Own.", 1000).unwrap_err();
    assert!(message.contains("critical_instance is 1000, but `#Own.` occurs"), "{message}");
    assert_eq!(Err(message), ask(None, "#Own.", 1000));
    let run = limited(&to, &Selection::default(), limit).unwrap();
    // Asked in the middle of queries, a view is still computed rank by rank.
    let query = "SELECT count(*) FROM op_device_time";
    let first = rows(&run.sql(query).unwrap());
    run.analyze("op_device_time").unwrap();
    assert_eq!(rows(&run.sql(query).unwrap()), first);
}
