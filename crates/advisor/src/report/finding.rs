//! Findings: the data of a report. Fields may be added; none changes its meaning within a schema version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use trace_model::retiming::Interval;
use trace_model::{Unit, Value};

use crate::evaluation::effects::HeldCount;
use crate::language::fix::{Fix, LeftOutFix};
use crate::language::severity::{Confidence, Effort, GainMethod, Severity};

/// The finding of one rule in the run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Position in the report, from 1.
    pub position: usize,
    /// Code of the rule: `IN001`.
    pub code: String,
    /// Name of the rule: `dataloader-wait`.
    pub name: String,
    /// Area: `input-pipeline`; findings of `trace-quality` are notes about the trace.
    pub category: String,
    /// Severity.
    pub severity: Severity,
    /// Confidence.
    pub confidence: Confidence,
    /// Reasons that lower the confidence.
    pub caveats: Vec<String>,
    /// The conclusion in one line.
    pub title: String,
    /// One sentence with the numbers.
    pub message: String,
    /// Name of the deciding metric: `view.column`.
    pub metric: String,
    /// Its value in the worst row, in `unit`.
    pub value: f64,
    /// Unit of the value: `ratio` (0 to 1), `ns`, `bytes`, `count`, `number`.
    pub unit: String,
    /// The threshold that was met, as written.
    pub threshold: String,
    /// `file:line` of the threshold.
    pub threshold_at: String,
    /// Scope of one row: `rank`, `device`, ...
    pub scope: String,
    /// Affected ranks, devices, steps.
    pub affected: Affected,
    /// Step time that a fix could save.
    pub gain: GainEstimate,
    /// Fixes, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<FindingFix>,
    /// Fixes of the rule that are not offered, because this run rules them out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out_fixes: Vec<FindingLeftOutFix>,
    /// Fixes that apply, but whose saving is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_fixes: Vec<UnknownFix>,
    /// The rows that it is based on, worst first.
    pub evidence: Vec<Evidence>,
    /// The time ranges in which it occurs, if the rule has a query for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrences: Option<Occurrences>,
    /// Lines of the user's program; empty if the trace has no stacks.
    pub source: Vec<String>,
    /// Recommended actions, one per entry.
    pub advice: Vec<String>,
    /// Further reading.
    pub links: Vec<String>,
    /// 16 hexadecimal digits that stay the same as long as the same rule fires for the same ranks, devices,
    /// ...: for baselines.
    pub fingerprint: String,
    /// Change since the baseline; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_state: Option<BaselineState>,
    /// The queries that give the numbers; `advisor sql RUN "..."` answers them.
    pub sql: Queries,
    /// Whether it names a cause: it neither contains nor details other findings.
    pub is_cause: bool,
    /// The confidence before notes about the trace lowered it.
    #[serde(skip)]
    pub(crate) own_confidence: Confidence,
    /// Limits of the severity if no fix is predicted to save time, with the reason and the advice for that case.
    #[serde(skip)]
    pub(crate) severity_limits: Vec<FindingLimit>,
    /// Titles of this finding for its fixes, by the name of the fix.
    #[serde(skip)]
    pub(crate) fix_titles: BTreeMap<String, String>,
    /// Percent of the time that it takes, if its rule knows why no fix of it can be predicted: 0 otherwise.
    #[serde(skip)]
    pub(crate) unpredicted_pct: f64,
    /// Position in the plan of the fix that it stands for.
    #[serde(skip)]
    pub(crate) plan_position: Option<usize>,
    /// Percent of step time that it is prioritized as, times the weight of its confidence.
    #[serde(skip)]
    pub(crate) priority_pct: f64,
    /// Whether it is a note about the trace.
    #[serde(skip)]
    pub(crate) is_note: bool,
}

/// A limit of the severity of a finding for which no fix is predicted to save time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FindingLimit {
    /// Upper limit of the severity.
    pub(crate) to: Severity,
    /// Shown at the end of the message.
    pub(crate) reason: String,
    /// Replaces the first advice; empty to keep it.
    pub(crate) advice: String,
}

impl Finding {
    /// The title of a fix for this finding: the title in `fix_titles`, otherwise the title of the fix itself.
    pub(crate) fn title_of(&self, fix: &Fix) -> String {
        self.fix_titles.get(&fix.name).unwrap_or(&fix.title).clone()
    }

    /// Whether it is a note about the trace, not advice about the program.
    pub fn is_note(&self) -> bool {
        self.is_note
    }

    /// Whether the finding has a predicted saving: by timing the recording again under a fix, alone or after the earlier fixes
    /// of the plan, or as measured time.
    pub fn is_predicted(&self) -> bool {
        let has_evidence = matches!(self.gain.method, GainMethod::Retimed | GainMethod::Measured);
        let saves = |pct: Option<f64>| pct.is_some_and(|pct| pct > 0.0);
        let is_planned = || self.fixes.iter().any(|fix| fix.plan_position.is_some());
        has_evidence
            && (saves(self.gain.high_pct) || is_planned() && saves(self.gain.next_high_pct))
    }

    /// Whether every fix of this finding that was timed probably makes the run slower.
    pub(crate) fn has_harmful_fixes(&self) -> bool {
        !self.fixes.is_empty() && self.fixes.iter().all(|fix| fix.alone_pct.mid < 0.0)
    }

    /// If no fix saves time by itself, lowers the severity to the limits of its rule, says why, and gives other advice where the
    /// rule has some.
    pub(crate) fn limit_severity(&mut self) {
        if self.is_predicted() && self.gain.high_pct.is_some_and(|pct| pct > 0.0) {
            return;
        }
        if self.fixes.is_empty() && !self.severity_limits.is_empty() {
            self.unpredicted_pct = self.gain.share_pct.unwrap_or(0.0);
        }
        for FindingLimit { to, reason, advice } in std::mem::take(&mut self.severity_limits) {
            self.severity = self.severity.min(to);
            for row in &mut self.affected.worst {
                row.severity = row.severity.min(to);
            }
            if !advice.is_empty() {
                self.advice.splice(..self.advice.len().min(1), [advice]);
            }
            if !reason.is_empty() {
                self.message = format!("{} {reason}", self.message.trim_end());
            }
        }
    }

    /// The quantity that its metric measures, in words: `busy` for `gpu_utilization.busy_ratio`.
    pub fn measure(&self) -> String {
        let column = self.metric.rsplit('.').next().unwrap_or_default();
        let suffix = Unit::parse(&self.unit).and_then(Unit::suffix).unwrap_or_default();
        let words = column.strip_suffix(suffix).unwrap_or(column).trim_end_matches('_');
        if words.is_empty() { column } else { words }.replace('_', " ")
    }
}

/// The rows that a rule fired for, in counts and examples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Affected {
    /// Rows that the rule fired for.
    pub fired: usize,
    /// Rows that passed.
    pub passed: usize,
    /// Rows without a verdict.
    pub unknown: usize,
    /// Ranks that the rule fired for, ascending; of process groups, the lowest.
    pub ranks: Vec<i64>,
    /// Number of ranks that the rule was evaluated on; 0 if its rows are process groups.
    pub of_ranks: usize,
    /// Number of steps that the rule fired for; null if its rows are not steps.
    pub steps: Option<usize>,
    /// Number of steps that the rule was evaluated on; if its rows are not steps, the number of steps that the
    /// worst row spans, or null.
    pub of_steps: Option<usize>,
    /// The worst rows, worst first; at most [`MAX_AFFECTED`].
    pub worst: Vec<AffectedRow>,
    /// Number of further rows that are not listed.
    pub more: usize,
}

/// Rows listed by name in a finding.
pub const MAX_AFFECTED: usize = 10;

/// Rows shown as evidence in a finding.
pub const MAX_EVIDENCE: usize = 3;

/// One rank, device, step, ... that a rule fired for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AffectedRow {
    /// As text: `rank 3, device 0`; `run` for the run as a whole.
    pub label: String,
    /// Identifying columns: `{"rank": 3, "device": 0}`.
    pub keys: Columns,
    /// The value.
    pub value: f64,
    /// Severity of this row.
    pub severity: Severity,
}

/// Step time that a fix could save: an 80 % interval where the recording was timed again, else an estimate from shares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct GainEstimate {
    /// Percent of step time that the loss amounts to, whatever a fix brings; null if the rule has no formula for it.
    pub share_pct: Option<f64>,
    /// Percent of step time that the fix saves alone, lower end; null without an estimate.
    pub low_pct: Option<f64>,
    /// The upper end.
    pub high_pct: Option<f64>,
    /// Percent of step time that the fix saves after those before it in the plan, lower end; null without a plan.
    pub next_low_pct: Option<f64>,
    /// The upper end.
    pub next_high_pct: Option<f64>,
    /// Milliseconds per step that the fix saves alone, if the step time is known.
    pub ms_per_step: Option<f64>,
    /// Source of the numbers.
    pub method: GainMethod,
    /// Codes of the findings whose time is part of this one's.
    pub contains: Vec<String>,
    /// Codes of the findings that this one's time is part of, nearest first.
    pub within: Vec<String>,
    /// The fact that is missing for a prediction of what a fix saves; absent with a prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

impl GainEstimate {
    /// Keeps the share, which says nothing about what a fix saves.
    pub(crate) fn promise_nothing(&mut self) {
        if self.method != GainMethod::None {
            let share_pct = self.share_pct;
            *self = Self { share_pct, ..Self::default() };
        }
    }
}

/// A fix of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FindingFix {
    /// Name of the fix.
    pub fix: String,
    /// The action, in a few words.
    pub title: String,
    /// Effort.
    pub effort: Effort,
    /// Percent of the unprofiled time that it saves alone.
    pub alone_pct: Range,
    /// Percent that it saves after the fixes before it in the plan.
    pub next_pct: Range,
    /// Position in the plan; null if it saves nothing after the fixes of the plan.
    pub plan_position: Option<usize>,
    /// Time of another kind that passes beside other work with the fix, and is part of what it saves: `data_loading`, `copy`, ...;
    /// null if there is none to speak of.
    pub following: Option<FollowingTimePct>,
    /// Percent of the recorded time in all that the fix shortens; null unless it saves clearly more than the finding measures.
    pub shortens_pct: Option<f64>,
    /// Predictions of this fix for measured programs on devices of this generation, each by effects that were fitted without the
    /// program; null if there are none.
    pub measured: Option<HeldCount>,
    /// Why it probably makes the run slower, as a clause; null if it does not, or if the rules do not say.
    pub slower_because: Option<String>,
}

/// Time that a fix takes from the critical path without shortening it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FollowingTimePct {
    /// Its kind: `data_loading`, `copy`, `communication`, `kernel`, ...
    pub kind: String,
    /// Percent of the unprofiled time.
    pub pct: f64,
}

/// A fix that is not offered for a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingLeftOutFix {
    /// Name of the fix.
    pub fix: String,
    /// The action, in a few words.
    pub title: String,
    /// Why it is left out, to follow "because": `the GPU has no bfloat16`.
    pub reason: String,
}

impl From<&LeftOutFix> for FindingLeftOutFix {
    fn from(fix: &LeftOutFix) -> Self {
        let LeftOutFix { name, title, reason, .. } = fix.clone();
        Self { fix: name, title, reason }
    }
}

/// A fix of a finding whose saving is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UnknownFix {
    /// Name of the fix.
    pub fix: String,
    /// The action, in a few words.
    pub title: String,
    /// Effort.
    pub effort: Effort,
    /// The fact that is missing.
    pub reason: String,
    /// Percent of the recorded time for which the fact is missing: device activities that the fix would change.
    pub time_pct: f64,
}

/// An 80 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Estimate.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    /// Returns true if a fix with these savings probably makes the step slower.
    pub fn is_slower(&self) -> bool {
        self.mid < -0.05
    }
}

impl From<Interval> for Range {
    fn from(interval: Interval) -> Self {
        Self { low: round4(interval.low), mid: round4(interval.mid), high: round4(interval.high) }
    }
}

/// A row of a metric table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The view it is from: `advisor analyze <view>` shows all rows.
    pub view: String,
    /// Column names and values; units are in the names.
    pub columns: Columns,
    /// Start of the time range to open in a trace viewer, in ns of trace time; absent if the row has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts_ns: Option<i64>,
    /// Length of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur_ns: Option<i64>,
}

/// The time ranges in which a finding occurs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Occurrences {
    /// Number of time ranges, on the ranks that the rule fired for.
    pub count: usize,
    /// Sum of their durations; they may overlap.
    pub sum_ns: i64,
    /// The longest time ranges, longest first.
    pub longest: Vec<TimeRange>,
    /// When it occurs on the rank with the longest time range: of each of 32 equal parts of the recording, the share that
    /// its time ranges cover, of the longest ones if they are many.
    pub timeline: Vec<f64>,
}

/// A time range in which a finding occurs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeRange {
    /// Start, in ns of trace time.
    pub ts_ns: i64,
    /// Duration.
    pub dur_ns: i64,
    /// The rank, and the other columns of the rule's query.
    pub columns: Columns,
}

/// The SQL behind the numbers of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Queries {
    /// Returns `value`, the inputs of `gain`, and the numbers of the texts.
    pub value: String,
    /// Returns `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Returns `occurrences`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrences: Option<String>,
}

/// Change of a finding since the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaselineState {
    /// Not in the baseline.
    New,
    /// The same, or not clearly different.
    Unchanged,
    /// Its value improved by more than 10 %, and its gain by more than one percentage point of step time.
    Better,
    /// Its value got worse by more than 10 %, and its gain by more than one percentage point of step time.
    Worse,
}

impl BaselineState {
    /// As written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Better => "better",
            Self::Worse => "worse",
        }
    }

    /// Whether it is new or worse.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::New | Self::Worse)
    }
}

/// Columns of a row in order; an object in JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Columns(pub Vec<(String, Value)>);

impl Columns {
    pub(crate) fn of<'a>(cells: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        Self(cells.map(|(name, value)| (name.to_owned(), value.clone())).collect())
    }
}

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

/// Rounds to four decimals: removes the noise of binary fractions from percentages and milliseconds.
pub(crate) fn round4(value: f64) -> f64 {
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
    fn fingerprint_separates_parts() {
        assert_eq!(fingerprint([]), "cbf29ce484222325", "the offset basis of FNV-1a");
        assert_eq!(fingerprint(["IN001", "rank 0"]), fingerprint(["IN001", "rank 0"]));
        assert_ne!(fingerprint(["ab", "c"]), fingerprint(["a", "bc"]));
    }
}
