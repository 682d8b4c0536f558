//! Views whose rows are computed before it is known where their rank belongs on the run's clock: when the clock of a rank
//! is shifted, times in their rows shift with it, and nothing else changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use analyses::catalog;
use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use query::{Params, Session};
use trace_model::{TableSet, tables};

use crate::catalog::small_run;

/// What is added to the times of a rank. The ranks change places in time.
fn shift_ns(rank: i64) -> i64 {
    1_000_003 * (7 - rank)
}

fn ranks(batch: &RecordBatch) -> Vec<i64> {
    let column = batch.column_by_name("rank").unwrap();
    match column.as_primitive_opt::<Int32Type>() {
        Some(ranks) => ranks.values().iter().copied().map(i64::from).collect(),
        None => column.as_primitive::<Int64Type>().values().to_vec(),
    }
}

/// The columns, with the shift of its rank added to the times of each row.
fn shifted(batch: &RecordBatch, is_timestamp: impl Fn(usize) -> bool) -> RecordBatch {
    let ranks = ranks(batch);
    let shifted = |(at, column): (usize, &ArrayRef)| -> ArrayRef {
        let times = column.as_primitive_opt::<Int64Type>().filter(|_| is_timestamp(at));
        let Some(times) = times else { return Arc::clone(column) };
        let shift = |(time, &rank): (Option<i64>, &i64)| Some(time? + shift_ns(rank));
        Arc::new(times.iter().zip(&ranks).map(shift).collect::<Int64Array>())
    };
    let columns = batch.columns().iter().enumerate().map(shifted).collect();
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

fn shifted_tables(run: &TableSet) -> TableSet {
    let mut all = TableSet::default();
    for (table, batches) in run.iter() {
        let spec = tables::find(table).unwrap();
        for batch in batches {
            all.push(table, shifted(batch, |at| spec.columns[at].is_timestamp()));
        }
    }
    all
}

/// The rows as text, sorted.
fn text(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let options = FormatOptions::default().with_null("-");
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let row = columns.iter().map(|column| column.value(row).to_string());
            rows.push(row.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}

/// The rows of all views that can be mapped, of tables with shifted clocks, and shifted themselves.
fn compare(run: &TableSet) -> BTreeMap<&'static str, (Vec<String>, Vec<String>)> {
    let all: Vec<&str> = catalog().views().iter().map(|view| view.name.as_str()).collect();
    let views = catalog().mappable_views(&all).unwrap();
    let rows = |tables: TableSet| {
        let session = Session::new(catalog(), tables, &Params::default()).unwrap();
        let rows = session.view_rows(&views).unwrap();
        rows.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let (before, after) = (rows(run.clone()), rows(shifted_tables(run)));
    let mut compared = BTreeMap::new();
    for ((view, before), after) in views.iter().zip(before).zip(after) {
        let schema = before[0].schema();
        let is_timestamp = |at: usize| tables::is_timestamp(schema.field(at).name());
        let expected: Vec<_> = before.iter().map(|batch| shifted(batch, is_timestamp)).collect();
        compared.insert(*view, (text(&after), text(&expected)));
    }
    compared
}

fn check(what: &str, run: &TableSet) {
    let mut wrong = Vec::new();
    for (view, (after, expected)) in compare(run) {
        if let Some((a, b)) = after.iter().zip(&expected).find(|(a, b)| a != b) {
            let columns = catalog().get(view).unwrap().columns.iter().map(|c| c.name.as_str());
            let names: Vec<&str> = columns.collect();
            wrong.push(format!("{view}\n  {}\n  {a}\n  {b}", names.join("|")));
        }
        assert_eq!(after.len(), expected.len(), "{view}");
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn rows_shift_with_the_clock() {
    check("a run that has everything", &small_run().tables());
}

#[test]
fn rows_of_recordings_shift_with_the_clock() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run");
    check("the example", trace_advisor::Run::open(run).unwrap().tables());
}

/// What is left of `check` when ranks are mapped: views that compare ranks, and a few that read the clock.
#[test]
fn most_views_of_rules_are_mapped() {
    let rules = trace_advisor::default_rules();
    let mapped = trace_advisor::mapped_views(&rules, &[]).unwrap();
    let read = rules.views();
    let is_mapped = |view: &&&str| mapped.contains(*view);
    let (count, all) = (read.iter().filter(is_mapped).count(), read.len());
    assert!(count * 10 >= all * 6, "{count} of {all} views of rules");
}
