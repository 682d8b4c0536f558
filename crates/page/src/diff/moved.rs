//! What moved: operators, kernels and ranges of a comparison.

use serde_json::Value as Json;
use trace_advisor::compare::{Diff, Row};
use trace_advisor::trace_model::Unit;

use crate::blocks::{Block, Pane, Table, TableColumn, number};
use crate::clean::short;

/// Rows that the page carries.
const MAX_ROWS: usize = 400;

/// The rows of the comparison; `None` if there is nothing with a time.
pub(super) fn pane(diff: &Diff) -> Option<Pane> {
    if diff.rows.is_empty() {
        return None;
    }
    let cells = |row: &Row| -> Vec<Json> {
        // What counts for the step is the time of its own, which can shrink where the total grows.
        let counts = row.level.is_device_work() || !row.level.is_device();
        let impact = if counts { number(row.impact_ns()) } else { Json::Null };
        vec![
            Json::from(short(&row.name)),
            Json::from(format!("{:?}", row.level).to_lowercase()),
            Json::from(row.change.as_str().replace('_', " ")),
            number(row.before.dur_ns),
            number(row.after.dur_ns),
            number(row.after.dur_ns - row.before.dur_ns),
            number(row.before.count),
            number(row.after.count),
            impact,
            Json::from(row.renamed_from.as_deref().map(short).unwrap_or_default()),
        ]
    };
    let table = Table {
        title: "Operators, kernels and ranges, a mean step".to_owned(),
        columns: vec![
            TableColumn::new("Name", Unit::None, "its name in the run after, if both have it"),
            TableColumn::new("Level", Unit::None, "kind of event"),
            TableColumn::new("Change", Unit::None, "what changed"),
            TableColumn::new("Total before", Unit::Ns, "duration a step, with what it calls"),
            TableColumn::new("Total after", Unit::Ns, "duration a step, with what it calls"),
            TableColumn::change("Total changes by", Unit::Ns, "total after less total before"),
            TableColumn::new("Calls before", Unit::Number, "calls a step"),
            TableColumn::new("Calls after", Unit::Number, "calls a step"),
            TableColumn::change(
                "Step changes by",
                Unit::Ns,
                "on the host: after less before of its own time, without what it calls; these add up to the change of the step on the host. On the GPU: after less before of its duration",
            ),
            TableColumn::new(
                "Renamed from",
                Unit::None,
                "its name in the run before, if that is different",
            ),
        ],
        rows: diff.rows.iter().take(MAX_ROWS).map(cells).collect(),
        total: diff.rows.len(),
        is_cut: false,
        sql: String::new(),
    };
    Some(Pane {
        id: "rows",
        title: "What moved",
        question: "Which operators, kernels and ranges got slower or faster, were added or removed?",
        scope: String::new(),
        empty: None,
        blocks: vec![Block::Table(table)],
    })
}
