//! The critical path: what bounds the run, by step and by name.

use std::collections::BTreeMap;

use trace_advisor::Error;
use trace_advisor::advisor::phrases::limit;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{BarRow, Bars, Block, Pane, rounded};

/// Steps with a bar of their own.
const MAX_STEPS: usize = 40;

const NAMES: &[(&str, &str)] = &[
    ("name", "Name"),
    ("bound_by", "Bound by"),
    ("stored_in", "Kind"),
    ("segment_count", "Stretches"),
    ("dur_ns", "On the path"),
    ("ratio", "Share"),
];

pub(super) fn critical_path(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let sql = format!(
        "SELECT bound_by, dur_ns FROM critical_path_summary WHERE rank = {} AND dur_ns > 0 ORDER BY dur_ns DESC, bound_by",
        source.rank
    );
    let table = source.query(&sql)?;
    let parts: Vec<(String, f64)> = table
        .named_rows()
        .filter_map(|row| {
            Some((bound(row.text_or_empty("bound_by")), rounded(row.number("dur_ns")?)))
        })
        .collect();
    if !parts.is_empty() {
        let bars = |title: &str, rows: Vec<BarRow>| {
            Block::Bars(Bars::new(title.to_owned(), "ns", rows, true))
        };
        let all = vec![BarRow { label: "whole path".to_owned(), parts }];
        blocks.add(
            "critical_path_summary",
            [bars("The critical path, by what the run waits for", all)],
        );
        let steps = by_step(source)?;
        if !steps.is_empty() {
            blocks.add("critical_path_by_step", [bars("In each step", steps)]);
        }
        let table = source.table(
            "What is on the path",
            "critical_path_names",
            NAMES,
            "dur_ns DESC, position",
        )?;
        blocks.add("critical_path_names", table.map(Block::Table));
    }
    Ok(source.pane(
        "path",
        "Critical path",
        "Which sequence of work decides how long the run takes?",
        blocks,
        "critical_path_summary",
    ))
}

/// The class in the words of the bar of a step, where that has the same.
fn bound(bound_by: &str) -> String {
    limit(bound_by).to_owned()
}

fn by_step(source: &Source<'_>) -> Result<Vec<BarRow>, Error> {
    let sql = format!(
        "SELECT step, bound_by, dur_ns FROM critical_path_by_step WHERE rank = {} AND dur_ns > 0 ORDER BY step, dur_ns DESC, bound_by",
        source.rank
    );
    let table = source.query(&sql)?;
    let mut steps: BTreeMap<i64, Vec<(String, f64)>> = BTreeMap::new();
    for row in table.named_rows() {
        let (Some(step), Some(ns)) = (row.integer("step"), row.number("dur_ns")) else { continue };
        steps.entry(step).or_default().push((bound(row.text_or_empty("bound_by")), rounded(ns)));
    }
    let rows = steps.into_iter().take(MAX_STEPS);
    Ok(rows.map(|(step, parts)| BarRow { label: format!("step {step}"), parts }).collect())
}
