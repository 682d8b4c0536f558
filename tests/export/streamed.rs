//! Tables that are read while they are asked about give the answers that tables in memory give.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use advisor_cli::demo::{self, Bottleneck};
use rayon::prelude::*;
use trace_advisor::analyses::{Selection, catalog, fits_by_rank};
use trace_advisor::arrow::util::display::{ArrayFormatter, FormatOptions};
use trace_advisor::ingest::{self, NoProgress};
use trace_advisor::trace_model::tables::TABLES;
use trace_advisor::trace_model::{RecordBatch, TableSource};
use trace_advisor::{OpenOptions, Run, default_rules};

use crate::export;
use crate::support::corpus;

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

/// What has to be there for the largest rank of an export alone: less than for any two.
fn one_rank_bytes(export: &Path) -> u64 {
    let export = ingest::Export::open(export).unwrap();
    let mut of: BTreeMap<Option<i32>, u64> = BTreeMap::new();
    for partition in TABLES.iter().flat_map(|table| export.partitions(table.name)) {
        *of.entry(partition.rank).or_default() += partition.bytes;
    }
    let of_run = of.remove(&None).unwrap_or(0);
    let least = of_run + of.values().copied().max().unwrap();
    let needed = (1..100).map(|times| least * times).find(|&b| fits_by_rank(export.as_ref(), b));
    needed.unwrap()
}

fn in_memory(run: &Path, selection: &Selection) -> Result<Run, trace_advisor::Error> {
    let options = OpenOptions { selection: selection.clone(), ..OpenOptions::default() };
    Run::open_with(run, &options, &NoProgress)
}

/// The report as JSON, line by line, without where the run is.
fn report(run: &Run) -> Vec<String> {
    let mut report = run.check(&default_rules()).unwrap();
    report.run.path = String::new();
    let text = serde_json::to_string_pretty(&report).unwrap();
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

/// Rows as text, in order of that text: where a view declares no order, it has none.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
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
    rows.sort_unstable();
    rows
}

fn demo_run(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    let bottleneck = Bottleneck::Straggler;
    let options = demo::Options { bottleneck, ranks: 3, layers: 2, ..demo::Options::default() };
    demo::write_run(&options, &run).unwrap();
    run
}

#[test]
fn reports_are_the_same_from_traces_from_parquet_and_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let mut of = vec![demo_run(folder.path())];
    if let Some(corpus) = corpus() {
        let names = ["two_ranks", "resnet50_workers0", "mi300_resnet_ddp", "composer/ranks2"];
        of.extend(names.map(|name| corpus.join("traces").join(name)));
    }
    let whole = Selection::default();
    of.par_iter().for_each(|run| {
        let Ok(traces) = in_memory(run, &whole) else { return };
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

#[test]
fn every_view_answers_the_same_while_its_tables_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut of = vec![demo_run(folder.path())];
    if let Some(corpus) = corpus() {
        let names = [
            "two_ranks",
            "mi300_resnet_ddp",
            "composer/ranks2",
            "generated/ddp_gloo_4rank_straggler",
            "generated/synth_nccl_mismatch",
        ];
        of.extend(names.map(|name| corpus.join("traces").join(name)));
    }
    let whole = Selection::default();
    for run in &of {
        let (memory, streamed) = (in_memory(run, &whole).unwrap(), streamed(run, &whole).unwrap());
        assert!(streamed.was_exported());
        let scratch = tempfile::tempdir().unwrap();
        let to = scratch.path().join("export");
        export(run, &to).unwrap();
        let by_rank = limited(&to, &whole, one_rank_bytes(&to)).unwrap();
        catalog().modules().par_iter().for_each(|module| {
            let name = &module.name;
            let answer = |run: &Run| rows(&run.analyze(name).unwrap());
            let expected = answer(&memory);
            assert_eq!(expected, answer(&streamed), "{name} of {}", run.display());
            assert_eq!(expected, answer(&by_rank), "{name} of {}, rank by rank", run.display());
        });
    }
}

#[test]
fn parts_of_a_run_are_the_same_while_its_tables_are_read() {
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
