//! The rule file exactly as written: what serde reads, what the JSON schema for editors is made of.
//!
//! Everything is optional here, because a later file may state only what it changes. What a
//! complete rule needs is checked in `compile`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::grade::{Confidence, Severity};
use crate::policy::FailOn;

/// A rule file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Trace Advisor rules")]
pub(crate) struct RuleFile {
    /// Rules by kebab-case name. A table for a name that an earlier file has already defined
    /// changes only the keys it states.
    #[serde(default)]
    #[allow(dead_code, reason = "tables are read one by one, so that one mistake hides no other")]
    pub(crate) rule: BTreeMap<String, RuleTable>,
    /// Findings to silence, by code, beginning of codes, name or category.
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    pub(crate) ignore: BTreeMap<String, IgnoreTable>,
    /// Which rules judge at all, and what counts.
    #[allow(dead_code, reason = "as above")]
    pub(crate) policy: Option<PolicyTable>,
}

/// Which rules judge at all, and what counts. A later file changes only the keys it states; options of the command
/// line go before.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTable {
    /// Only these rules: codes, beginnings of codes, names, categories, or `ALL`. All, if empty.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) select: Option<Vec<Spanned<String>>>,
    /// Not these, whatever is selected.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) ignore: Option<Vec<Spanned<String>>>,
    /// Findings that could return less of the step time are hidden: `1 %`.
    #[schemars(with = "Option<String>")]
    pub(crate) min_gain: Option<Spanned<String>>,
    /// Least severity that makes a check fail; `never` for none.
    pub(crate) fail_on: Option<FailOn>,
}

/// One rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleTable {
    /// Stable code: two letters for the area, three digits (`IN001`).
    #[schemars(with = "Option<String>", regex(pattern = r"^[A-Z]{2,}[0-9]{3}$"))]
    pub(crate) code: Option<Spanned<String>>,
    /// Area in kebab-case: `input-pipeline`. Findings of `trace-quality` are notes about the trace,
    /// never advice about the program.
    #[schemars(with = "Option<String>")]
    pub(crate) category: Option<Spanned<String>>,
    /// `false` switches the rule off.
    pub(crate) enabled: Option<bool>,

    /// The metric that is judged: `view.column`.
    #[schemars(with = "Option<String>")]
    pub(crate) metric: Option<Spanned<String>>,
    /// A query in place of `metric`; its rows are judged by `column`.
    #[schemars(with = "Option<String>")]
    pub(crate) sql: Option<Spanned<String>>,
    /// With `sql`: the column that is judged.
    #[schemars(with = "Option<String>")]
    pub(crate) column: Option<Spanned<String>>,
    /// With `sql`: the unit of that column (`ns`, `bytes`, `ratio`, `count`, `gb_per_s`, `number`).
    #[schemars(with = "Option<String>")]
    pub(crate) unit: Option<Spanned<String>>,
    /// With `sql`: what one row is about (`run`, `rank`, `device`, `step`, `stream`, `operator`,
    /// `kernel`, `collective`, `line`).
    #[schemars(with = "Option<String>")]
    pub(crate) scope: Option<Spanned<String>>,

    /// Threshold: `>= 15 %`, `< 100 us`, `outside 35..40 %`, `inside 50..85 %`, `never`.
    #[schemars(with = "Option<String>")]
    pub(crate) critical: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) high: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) medium: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) low: Option<Spanned<String>>,
    /// Threshold of this severity; hidden in text output unless asked for.
    #[schemars(with = "Option<String>")]
    pub(crate) info: Option<Spanned<String>>,
    /// More columns of the same row, each with thresholds: the rule fires if any of them is met.
    pub(crate) also: Option<Vec<AlsoTable>>,

    /// What must hold for the value to mean anything; otherwise the verdict is *unknown*.
    pub(crate) requires: Option<Vec<ConditionTable>>,
    /// The rule speaks only of rows where this holds; other rows pass.
    #[schemars(with = "Option<String>")]
    pub(crate) only_if: Option<Spanned<String>>,
    /// Looked at when the rule would fire: where one holds, the verdict is *unknown* instead.
    pub(crate) doubts: Option<Vec<ConditionTable>>,

    /// Step time that a fix could return.
    pub(crate) gain: Option<GainTable>,
    /// For harm that is not time (running out of memory): the percent of step time this ranks as.
    #[schemars(with = "Option<f64>", range(min = 0, max = 100))]
    pub(crate) fixed_rank: Option<Spanned<f64>>,
    /// How sure the finding is at best; `high` if not stated.
    pub(crate) confidence: Option<Confidence>,
    /// What makes it less sure.
    pub(crate) lower_confidence: Option<Vec<LowerTable>>,
    /// The rule (code or name) whose time contains the time of this one: the tree of causes.
    #[schemars(with = "Option<String>")]
    pub(crate) within: Option<Spanned<String>>,
    /// With `within`: this rule looks closer at what that one says, and is no cause of its own. That
    /// one keeps its place in the ranking.
    pub(crate) refines: Option<bool>,
    /// Rules (code or name) whose time may be the same time: the headline counts it once.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) overlaps: Option<Vec<Spanned<String>>>,
    /// Codes or their beginnings (`HB`): findings there are less sure when this rule fires.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) weakens: Option<Vec<Spanned<String>>>,

    /// Metric of scope line: the lines of the program that have most of it are where the finding points,
    /// if the trace has call stacks (`source_lines.sync_ns`).
    #[schemars(with = "Option<String>")]
    pub(crate) source: Option<Spanned<String>>,
    /// A query for the moments that show it: rows with `rank`, `ts_ns` and `dur_ns`, and more columns that
    /// say what happens there. Asked only if the rule fires; the longest are shown.
    #[schemars(with = "Option<String>")]
    pub(crate) evidence: Option<Spanned<String>>,
    /// The conclusion in one line (template).
    #[schemars(with = "Option<String>")]
    pub(crate) title: Option<Spanned<String>>,
    /// One sentence with the numbers (template).
    #[schemars(with = "Option<String>")]
    pub(crate) message: Option<Spanned<String>>,
    /// What to do, one thing an entry (templates; an entry that renders empty is left out).
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) advice: Option<Vec<Spanned<String>>>,
    /// Why it costs time, how it is measured, when it is a false alarm (Markdown).
    #[schemars(with = "Option<String>")]
    pub(crate) why: Option<Spanned<String>>,
    /// Further reading.
    pub(crate) links: Option<Vec<String>>,
    /// Rows with the verdict they must get.
    #[schemars(with = "Option<Vec<TestTable>>")]
    pub(crate) tests: Option<Vec<Spanned<TestTable>>>,
}

impl RuleTable {
    /// The thresholds that are stated, worst severity first.
    pub(crate) fn thresholds(&self) -> [(Severity, Option<&Spanned<String>>); 5] {
        [
            (Severity::Critical, self.critical.as_ref()),
            (Severity::High, self.high.as_ref()),
            (Severity::Medium, self.medium.as_ref()),
            (Severity::Low, self.low.as_ref()),
            (Severity::Info, self.info.as_ref()),
        ]
    }

    /// Whether the table states anything that a verdict depends on.
    pub(crate) fn changes_verdicts(&self) -> bool {
        self.thresholds().iter().any(|(_, t)| t.is_some())
            || self.also.is_some()
            || self.metric.is_some()
            || self.sql.is_some()
            || self.requires.is_some()
            || self.only_if.is_some()
            || self.doubts.is_some()
            || self.gain.is_some()
            || self.confidence.is_some()
            || self.lower_confidence.is_some()
    }
}

/// A further column with thresholds of its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlsoTable {
    /// Column of the view of `metric`.
    #[schemars(with = "String")]
    pub(crate) column: Spanned<String>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) critical: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) high: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) medium: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) low: Option<Spanned<String>>,
    /// Threshold of this severity.
    #[schemars(with = "Option<String>")]
    pub(crate) info: Option<Spanned<String>>,
}

impl AlsoTable {
    /// The thresholds that are stated, worst severity first.
    pub(crate) fn thresholds(&self) -> [(Severity, Option<&Spanned<String>>); 5] {
        [
            (Severity::Critical, self.critical.as_ref()),
            (Severity::High, self.high.as_ref()),
            (Severity::Medium, self.medium.as_ref()),
            (Severity::Low, self.low.as_ref()),
            (Severity::Info, self.info.as_ref()),
        ]
    }
}

/// An expression over the columns of a row, and the sentence shown when it decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionTable {
    /// Expression: `step_count >= 5`.
    #[schemars(with = "String")]
    pub(crate) expr: Spanned<String>,
    /// Shown with the verdict *unknown* (template).
    #[schemars(with = "String")]
    pub(crate) reason: Spanned<String>,
}

/// Something that makes a finding less sure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LowerTable {
    /// Expression over the columns of the worst row.
    #[schemars(with = "String")]
    pub(crate) when: Spanned<String>,
    /// Shown with the finding (template).
    #[schemars(with = "String")]
    pub(crate) reason: Spanned<String>,
    /// The confidence that is left at most; one level down if not stated.
    pub(crate) to: Option<Confidence>,
}

/// Step time that a fix could return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GainTable {
    /// Expression giving the ceiling as a share of step time, 0 to 1; not needed with `none`.
    #[schemars(with = "Option<String>")]
    pub(crate) of: Option<Spanned<String>>,
    /// Part of the ceiling that a fix is sure to reach (default 0.75).
    pub(crate) low: Option<f64>,
    /// Part of the ceiling that a fix may reach (default 1).
    pub(crate) high: Option<f64>,
    /// Where the number comes from.
    pub(crate) method: GainMethod,
    /// Findings whose gain at best is below this share of step time are at most `info`.
    pub(crate) floor: Option<f64>,
    /// Metric of scope rank that estimates the same gain in another way, as a share: what comes back when
    /// the critical path is timed again without the cause (`critical_gains.data_loading_free_ratio`).
    #[schemars(with = "Option<String>")]
    pub(crate) what_if: Option<Spanned<String>>,
}

/// Where an estimate of gain comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum GainMethod {
    /// Lost time was measured; the fix returns it.
    Measured,
    /// From a model of what the hardware can do.
    Roofline,
    /// A rule of thumb.
    Heuristic,
    /// There is no estimate.
    #[default]
    None,
}

/// A row and the verdict it must get. Columns that are not given have no value.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct TestTable {
    /// `critical`, `high`, `medium`, `low`, `info`, `pass` or `unknown`.
    pub(crate) expect: String,
    /// The gain it must estimate, in percent of step time.
    pub(crate) expect_gain_pct: Option<[f64; 2]>,
    /// The confidence it must state.
    pub(crate) expect_confidence: Option<Confidence>,
    /// Columns of the row.
    #[serde(flatten)]
    pub(crate) columns: BTreeMap<String, Cell>,
}

/// A value in a test row.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

/// A rule that is silenced.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IgnoreTable {
    /// Why; shown with the counts of what was ignored.
    #[schemars(with = "String")]
    pub(crate) reason: Spanned<String>,
    /// Last day it holds: `2027-01-01`.
    #[schemars(with = "Option<String>")]
    pub(crate) until: Option<Spanned<String>>,
}
