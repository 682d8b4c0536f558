//! What panes consist of: tables and charts as data, which the script draws.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use trace_advisor::trace_model::{MetricTable, Unit, Value};

use crate::clean::short;
use crate::queries::{column_doc, column_unit};
use crate::words::value_in_words;

/// A pane: a topic of the run.
#[derive(Debug, Serialize)]
pub(crate) struct Pane {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What it answers, in one sentence.
    pub(crate) question: &'static str,
    /// Which part of the run it shows.
    pub(crate) scope: String,
    /// Without data: why, and what to record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) empty: Option<String>,
    pub(crate) blocks: Vec<Block>,
}

impl Pane {
    /// A pane whose views failed.
    pub(crate) fn missing(id: &'static str, title: &'static str, reason: &str) -> Self {
        let empty = Some(format!("{reason}."));
        Self { id, title, question: "", scope: String::new(), empty, blocks: Vec::new() }
    }
}

/// A part of a pane.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Block {
    Facts {
        items: Vec<(String, String)>,
    },
    Table(Table),
    Bars(Bars),
    Area(Area),
    Scatter(Scatter),
    Boxes(Boxes),
    Note {
        text: String,
    },
    /// Says something of the block before it.
    Caption {
        text: String,
    },
}

impl Block {
    /// The noun for the block in a sentence: `table`, `chart`.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::Bars(_) | Self::Area(_) | Self::Scatter(_) | Self::Boxes(_) => "chart",
            Self::Facts { .. } => "list",
            Self::Note { .. } | Self::Caption { .. } => "note",
        }
    }
}

/// A table that sorts, filters and copies.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) rows: Vec<Vec<Json>>,
    /// Rows of the view; the table may hold the first ones only.
    pub(crate) total: usize,
    /// There are more, and nobody has counted them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_cut: bool,
    /// The query that returns them.
    pub(crate) sql: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct TableColumn {
    pub(crate) label: String,
    pub(crate) unit: &'static str,
    pub(crate) doc: String,
    /// Values are changes: positive ones have a sign.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_change: bool,
}

impl TableColumn {
    /// A column of what changed.
    pub(crate) fn change(label: &str, unit: Unit, doc: &str) -> Self {
        Self { is_change: true, ..Self::new(label, unit, doc) }
    }

    pub(crate) fn new(label: &str, unit: Unit, doc: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.as_str(), doc: doc.to_owned(), is_change: false }
    }
}

/// Horizontal bars of parts.
#[derive(Debug, Serialize)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// What tables say for a part, where that is not its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) table_names: BTreeMap<String, Vec<String>>,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<BarRow>,
    /// Whether parts add up, so that their names belong into a legend.
    pub(crate) is_stacked: bool,
}

impl Bars {
    /// Bars whose parts have the names that tables have.
    pub(crate) fn new(
        title: String,
        unit: &'static str,
        rows: Vec<BarRow>,
        is_stacked: bool,
    ) -> Self {
        Self { title, table_names: BTreeMap::new(), unit, rows, is_stacked }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct BarRow {
    pub(crate) label: String,
    pub(crate) parts: Vec<(String, f64)>,
}

/// Series over time: stacked areas or lines.
#[derive(Debug, Serialize)]
pub(crate) struct Area {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) x_unit: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) is_stacked: bool,
    /// If true, the chart is small and shares a row with similar charts.
    pub(crate) is_small: bool,
    pub(crate) x: Vec<f64>,
    pub(crate) series: Vec<Series>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) y: Vec<Option<f64>>,
}

/// Points on logarithmic axes, with lines of what is possible.
#[derive(Debug, Serialize)]
pub(crate) struct Scatter {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) x_unit: &'static str,
    pub(crate) y_label: String,
    pub(crate) y_unit: &'static str,
    pub(crate) size_label: String,
    pub(crate) size_unit: &'static str,
    pub(crate) points: Vec<Point>,
    pub(crate) lines: Vec<Line>,
}

/// A point: x, y, size, group, label.
#[derive(Debug, Serialize)]
pub(crate) struct Point(
    pub(crate) f64,
    pub(crate) f64,
    pub(crate) f64,
    pub(crate) String,
    pub(crate) String,
);

#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Boxes in rows, as wide as what they hold.
#[derive(Debug, Serialize)]
pub(crate) struct Boxes {
    pub(crate) title: String,
    pub(crate) note: String,
    /// Label of each row.
    pub(crate) labels: Vec<String>,
    pub(crate) placed: Vec<PlacedBox>,
}

/// A box: position and width in 4000 parts of the row, row, group, label, and bytes.
#[derive(Debug, Serialize)]
pub(crate) struct PlacedBox(
    pub(crate) i64,
    pub(crate) i64,
    pub(crate) usize,
    pub(crate) String,
    pub(crate) String,
    pub(crate) f64,
);

/// Columns of lines of the program, which tables show without their folders.
const PLACES: [&str; 2] = ["source", "user_frame"];
/// Stands for the unit of these columns.
const PLACE: &str = "place";

/// A column of a table: its name in the query, and what people read.
pub(crate) type NamedColumn = (&'static str, &'static str);

impl Table {
    /// The rows of a query. `view`: where the columns are described.
    pub(crate) fn of(
        title: &str,
        view: &str,
        columns: &[NamedColumn],
        table: &MetricTable,
        sql: &str,
    ) -> Self {
        let named = columns.iter().map(|(name, label)| TableColumn {
            label: (*label).to_owned(),
            unit: unit_shown(name, column_unit(view, name)),
            doc: column_doc(view, name),
            is_change: false,
        });
        let cells = table.named_rows().map(|row| {
            let cell = |(name, _): &NamedColumn| match row.get(name) {
                Some(Value::Text(text)) if let Some(words) = value_in_words(name, text) => {
                    Json::from(short(&words))
                }
                Some(value) => cell(value),
                None => Json::Null,
            };
            columns.iter().map(cell).collect()
        });
        Self {
            title: title.to_owned(),
            columns: named.collect(),
            rows: cells.collect(),
            total: table.rows.len(),
            is_cut: false,
            sql: sql.to_owned(),
        }
    }
}

/// The unit that a page shows the values of a column in.
pub(crate) fn unit_shown(column: &str, unit: &'static str) -> &'static str {
    if PLACES.contains(&column) { PLACE } else { unit }
}

/// A value of a table. Numbers keep seven digits, as many as anyone reads.
pub(crate) fn cell(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(if *value { "yes" } else { "no" }),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => number(*value),
        Value::Text(text) => Json::from(short(text)),
    }
}

/// A number with seven digits.
pub(crate) fn number(value: f64) -> Json {
    Json::from(rounded(value))
}

/// Rounded to seven significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(6 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn rounded_keeps_seven_digits() {
        for (value, kept) in
            [(0.123_456_789, 0.123_456_8), (-1_234_567_890.0, -1_234_568_000.0), (0.0, 0.0)]
        {
            assert!((rounded(value) - kept).abs() <= 1e-12 * f64::abs(kept), "{value}");
        }
    }
}
