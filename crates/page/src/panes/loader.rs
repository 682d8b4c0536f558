//! The input pipeline: how long the loop waits for each batch.

use trace_advisor::Error;
use trace_advisor::trace_model::time::human;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Area, Block, Pane, Series, rounded};
use crate::words::percent;

/// Fetches that the chart shows.
const MAX_FETCHES: usize = 400;

const FETCHES: &[(&str, &str)] = &[
    ("rank", "Rank"),
    ("fetch_count", "Fetches"),
    ("wait_ns", "Waiting"),
    ("wait_ratio", "Share"),
    ("wait_median_ns", "Median"),
    ("wait_p95_ns", "p95"),
    ("wait_max_ns", "Longest"),
    ("late_count", "Late"),
    ("pattern", "Pattern"),
    ("worker_count", "Workers"),
    ("workers_needed_count", "Workers needed"),
];

pub(super) fn loader(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let table = source.table_where(
        "Fetches by rank",
        "loader_fetches",
        FETCHES,
        "fetch_count > 0",
        "wait_ns DESC, rank",
    )?;
    if let Some(table) = table {
        blocks.add("loader_fetches", facts(source)?);
        blocks.add("loader_fetches_by_step", by_fetch(source)?.map(Block::Area));
        blocks.add("loader_fetches", [Block::Table(table)]);
    }
    Ok(source.pane(
        "loader",
        "Input pipeline",
        "Does the loop wait for data?",
        blocks,
        "loader_fetches",
    ))
}

fn facts(source: &Source<'_>) -> Result<Option<Block>, Error> {
    let sql = format!(
        "SELECT wait_ratio, pattern, worker_count, workers_needed_count, worker_batch_ns, compute_ns FROM loader_fetches WHERE rank = {}",
        source.rank
    );
    let table = source.query(&sql)?;
    let Some(row) = table.first_row() else { return Ok(None) };
    let mut items = Vec::new();
    let mut add =
        |name: &str, text: Option<String>| items.extend(text.map(|text| (name.to_owned(), text)));
    add("Waiting for batches", row.number("wait_ratio").map(percent));
    add("Pattern", row.text("pattern").map(str::to_owned));
    add("A worker needs per batch", row.number("worker_batch_ns").map(human));
    add("A step without waiting", row.number("compute_ns").map(human));
    add("Workers", row.integer("worker_count").map(|count| count.to_string()));
    add("Workers needed", row.integer("workers_needed_count").map(|count| count.to_string()));
    Ok((!items.is_empty()).then_some(Block::Facts { items }))
}

fn by_fetch(source: &Source<'_>) -> Result<Option<Area>, Error> {
    let sql = format!(
        "SELECT wait_ns, batch_ns FROM loader_fetches_by_step WHERE rank = {} ORDER BY ts_ns LIMIT {MAX_FETCHES}",
        source.rank
    );
    let table = source.query(&sql)?;
    if table.rows.is_empty() {
        return Ok(None);
    }
    let column = |name: &str| table.named_rows().map(|row| row.number(name).map(rounded)).collect();
    Ok(Some(Area {
        title: "Each fetch: waiting for the batch, then working on it".to_owned(),
        x_label: "fetch".to_owned(),
        x_unit: "count",
        unit: "ns",
        is_stacked: true,
        is_small: false,
        x: (0..=table.rows.len()).map(|i| i as f64).collect(),
        series: vec![
            Series { name: "data loading".to_owned(), y: column("wait_ns") },
            Series { name: "the batch".to_owned(), y: column("batch_ns") },
        ],
    }))
}
