//! Findings: the data of a report. Fields may be added; none changes meaning within a version.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use trace_model::Value;

use crate::baseline::BaselineState;
use crate::grade::{Confidence, Severity};
use crate::table::GainMethod;

/// What one rule found in the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Position in the report, from 1.
    pub rank: usize,
    /// Code of the rule: `IN001`.
    pub code: String,
    /// Name of the rule: `dataloader-wait`.
    pub name: String,
    /// Area: `input-pipeline`; findings of `trace-quality` are notes about the trace.
    pub category: String,
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// What makes it less sure than it could be.
    pub caveats: Vec<String>,
    /// The conclusion in one line.
    pub title: String,
    /// One sentence with the numbers.
    pub message: String,
    /// Name of the metric that decided: `view.column`.
    pub metric: String,
    /// Its value in the worst row, in `unit`.
    pub value: f64,
    /// Unit of the value: `ratio` (0 to 1), `ns`, `bytes`, `count`, `number`.
    pub unit: String,
    /// The threshold that was met, as written.
    pub threshold: String,
    /// `file:line` where it is written.
    pub threshold_at: String,
    /// What one row is about: `rank`, `device`, ...
    pub scope: String,
    /// Which ranks, devices, steps.
    pub affected: Affected,
    /// Step time that a fix could return.
    pub gain: GainEstimate,
    /// The rows that show it, worst first.
    pub evidence: Vec<Evidence>,
    /// When it shows, if the rule says where to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Lines of the user's program; empty if the trace has no stacks.
    pub source: Vec<String>,
    /// What to do, one thing an entry.
    pub advice: Vec<String>,
    /// Further reading.
    pub links: Vec<String>,
    /// Stable across runs as long as the same rule fires for the same ranks, devices, ...: for
    /// baselines. 16 hexadecimal digits.
    pub fingerprint: String,
    /// What became of it since the baseline; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_state: Option<BaselineState>,
    /// The queries that give the numbers; `advisor sql RUN "..."` answers them.
    pub sql: Queries,
    /// Percent of step time that this ranks as, before confidence.
    #[serde(skip)]
    pub(crate) rank_pct: f64,
    /// Whether it is a note about the trace.
    #[serde(skip)]
    pub(crate) is_note: bool,
}

impl Finding {
    /// Whether it is a note about the trace, not advice about the program.
    pub fn is_note(&self) -> bool {
        self.is_note
    }
}

/// Who is affected by a finding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Affected {
    /// Rows of which the rule fired.
    pub fired: usize,
    /// Rows that passed.
    pub passed: usize,
    /// Rows of which nothing can be said.
    pub unknown: usize,
    /// Ranks of which the rule fired, ascending.
    pub ranks: Vec<i64>,
    /// How many ranks the rule looked at.
    pub of_ranks: usize,
    /// Steps of which the rule fired; null if it does not judge steps one by one.
    pub steps: Option<usize>,
    /// How many steps the rule looked at; null as above, or the steps that its worst row is over.
    pub of_steps: Option<usize>,
    /// The worst rows, worst first; at most [`MAX_AFFECTED`].
    pub worst: Vec<AffectedRow>,
    /// How many more rows fired than are listed.
    pub more: usize,
}

/// Rows listed by name in a finding.
pub const MAX_AFFECTED: usize = 10;

/// Rows shown as evidence in a finding.
pub const MAX_EVIDENCE: usize = 3;

/// One rank, device, step, ... that a rule fired for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AffectedRow {
    /// In words: `rank 3, device 0`; `run` for the run as a whole.
    pub label: String,
    /// What identifies it: `{"rank": 3, "device": 0}`.
    pub keys: Columns,
    /// The value.
    pub value: f64,
    /// How bad, here.
    pub severity: Severity,
}

/// Step time that a fix could return. Ceilings, not promises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct GainEstimate {
    /// Percent of step time that a fix is sure to return; null without estimate.
    pub low_pct: Option<f64>,
    /// Percent of step time that a fix may return.
    pub high_pct: Option<f64>,
    /// `high_pct` in milliseconds a step, if the length of a step is known.
    pub ms_per_step: Option<f64>,
    /// The part of `high_pct` that no finding in `contains` explains.
    pub unattributed_pct: Option<f64>,
    /// Where the numbers come from.
    pub method: GainMethod,
    /// A second, independent estimate: percent of the window that comes back when the critical path
    /// is timed again without the cause. Null if the rule has none.
    pub what_if_pct: Option<f64>,
    /// Codes of the findings whose time is part of this one's.
    pub contains: Vec<String>,
    /// Codes of the findings that this one's time is part of, nearest first.
    pub within: Vec<String>,
}

/// A row of a metric table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The view it is from: `advisor analyze <view>` shows all rows.
    pub view: String,
    /// Column names and values; units are in the names.
    pub columns: Columns,
    /// Time range to open in a trace viewer, if the row is about one: start, in ns of trace time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts_ns: Option<i64>,
    /// Length of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur_ns: Option<i64>,
}

/// The moments in which a finding shows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Seen {
    /// How many there are, on the ranks of which the rule fired.
    pub count: usize,
    /// How long they are together; they may overlap.
    pub sum_ns: i64,
    /// The longest, longest first.
    pub longest: Vec<Moment>,
}

/// A stretch of time that shows a finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Its start, in ns of trace time.
    pub ts_ns: i64,
    /// Its length.
    pub dur_ns: i64,
    /// What is known of it: the rank, and what the rule's query says.
    pub columns: Columns,
}

/// The SQL behind the numbers of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Queries {
    /// Gives `value`, what `gain` is computed from, and the numbers of the texts.
    pub value: String,
    /// Gives `gain.what_if_pct`, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<String>,
    /// Gives `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Gives `seen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// Columns of a row in order; an object in JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns(pub Vec<(String, Value)>);

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            match value {
                Value::Null => map.serialize_entry(name, &())?,
                Value::Bool(v) => map.serialize_entry(name, v)?,
                Value::Int(v) => map.serialize_entry(name, v)?,
                Value::Float(v) => map.serialize_entry(name, v)?,
                Value::Text(v) => map.serialize_entry(name, v)?,
            }
        }
        map.end()
    }
}

impl JsonSchema for Columns {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Columns".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "type": ["null", "boolean", "integer", "number", "string"] },
        })
    }
}

/// Rounded to four decimals: percents and milliseconds without the dust of binary fractions.
pub(crate) fn tidy(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// FNV-1a over the parts, each ended by a byte that no UTF-8 text contains.
pub(crate) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn fingerprints_keep_parts_apart() {
        assert_eq!(fingerprint([]), "cbf29ce484222325", "the offset basis of FNV-1a");
        assert_eq!(fingerprint(["IN001", "rank 0"]), fingerprint(["IN001", "rank 0"]));
        assert_ne!(fingerprint(["ab", "c"]), fingerprint(["a", "bc"]));
    }
}
