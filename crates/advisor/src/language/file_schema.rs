//! The tables of a rule file exactly as written, for serde and for the JSON schema for editors.
//!
//! All keys are optional here, because a later file may state only what it changes. `compile` checks that a
//! rule is complete.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use trace_model::Value;

use crate::language::one_or_more::{CapabilityName, OneOrMore};
use crate::language::rule::RuleStatus;
use crate::language::severity::{Confidence, Effort, FailOn, GainMethod, Severity};
use crate::language::subject::Subject;
use crate::language::text_schema::{TextPartValue, TextValue};

/// A rule file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Trace Advisor rules")]
pub(crate) struct RuleFile {
    /// Rule files that are read before this one, as paths from its folder.
    #[serde(default)]
    #[allow(dead_code, reason = "declares the key for the JSON schema; `ParsedFiles` decodes it")]
    pub(crate) include: Vec<String>,
    /// Rules by kebab-case name. A table for a name that an earlier file has already defined
    /// changes only the keys it states.
    #[serde(default)]
    #[allow(dead_code, reason = "tables are read one by one, so that one mistake hides no other")]
    pub(crate) rule: BTreeMap<String, RuleTable>,
    /// Findings to ignore, by code, prefix of codes, name or category.
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    pub(crate) ignore: BTreeMap<String, IgnoreTable>,
    /// Fixes by kebab-case name: what people do about findings, as edits of the recording.
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    pub(crate) fix: BTreeMap<String, FixTable>,
    /// Selects rules and the findings that count.
    #[allow(dead_code, reason = "as above")]
    pub(crate) policy: Option<PolicyTable>,
    /// The errors of predictions, from measured pairs.
    #[allow(dead_code, reason = "as above")]
    pub(crate) prediction: Option<PredictionTable>,
}

/// Selects rules and the findings that count. A later file changes only the keys it states; options of the command
/// line override them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTable {
    /// Only these rules: codes, prefixes of codes, names, categories, or `ALL`. All, if empty.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) select: Option<Vec<Spanned<String>>>,
    /// Not these, even if they are selected.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) ignore: Option<Vec<Spanned<String>>>,
    /// Whether rules in preview are evaluated, too.
    pub(crate) preview: Option<bool>,
    /// Findings with a smaller gain, as a share of step time, are hidden: `1 %`.
    #[schemars(with = "Option<String>")]
    pub(crate) min_gain: Option<Spanned<String>>,
    /// Lowest severity that fails a check; `never` for none.
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
    /// What the rule is about, one or more of `gpu`, `cpu`, `memory_snapshot`, `ranks` and `run` (default `run`). A rule
    /// without a verdict does not apply to a run that has no such subject: a rule about `gpu` to a program on the CPU, a
    /// rule that is not about `memory_snapshot` to a run that holds memory snapshots alone.
    pub(crate) subject: Option<OneOrMore<Subject>>,
    /// `false` switches the rule off.
    pub(crate) enabled: Option<bool>,

    /// The metric that the thresholds apply to: `view.column`.
    #[schemars(with = "Option<String>")]
    pub(crate) metric: Option<Spanned<String>>,
    /// A query in place of `metric`; the thresholds apply to its `column`.
    #[schemars(with = "Option<String>")]
    pub(crate) sql: Option<Spanned<String>>,
    /// With `sql`: the column that the thresholds apply to.
    #[schemars(with = "Option<String>")]
    pub(crate) column: Option<Spanned<String>>,
    /// With `sql`: the unit of that column (`ns`, `bytes`, `ratio`, `count`, `gb_per_s`, `number`).
    #[schemars(with = "Option<String>")]
    pub(crate) unit: Option<Spanned<String>>,
    /// With `sql`: the scope of one row (`run`, `rank`, `device`, `step`, `stream`, `operator`,
    /// `kernel`, `collective`, `line`).
    #[schemars(with = "Option<String>")]
    pub(crate) scope: Option<Spanned<String>>,

    /// Maturity: `stable` if not stated. A rule in `preview` is evaluated only with `--preview`, or if it is selected by its code
    /// or name.
    pub(crate) status: Option<RuleStatus>,

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
    /// Threshold of this severity; hidden in text output by default.
    #[schemars(with = "Option<String>")]
    pub(crate) info: Option<Spanned<String>>,
    /// More columns of the same row, each with thresholds: the rule fires if any of them is met.
    pub(crate) also: Option<Vec<AlsoTable>>,

    /// Conditions under which the value is meaningful; otherwise the verdict is *unknown*.
    #[schemars(with = "Option<Vec<RequirementTable>>")]
    pub(crate) requires: Option<Vec<Spanned<RequirementTable>>>,
    /// The rule applies only to rows where this holds; other rows pass.
    #[schemars(with = "Option<String>")]
    pub(crate) only_if: Option<Spanned<String>>,
    /// Checked when the rule would fire: if one holds, the verdict is *unknown* instead.
    pub(crate) doubts: Option<Vec<DoubtTable>>,

    /// Step time that a fix could save.
    pub(crate) gain: Option<GainTable>,
    /// For harm that is not time (running out of memory): the percent of step time that it is prioritized as.
    #[schemars(with = "Option<f64>", range(min = 0, max = 100))]
    pub(crate) fixed_priority_pct: Option<Spanned<f64>>,
    /// Confidence at best; `high` if not stated.
    pub(crate) confidence: Option<Confidence>,
    /// Conditions that lower the confidence.
    pub(crate) lower_confidence: Option<Vec<CaveatTable>>,
    /// Limits of the severity where no fix is predicted to save time.
    pub(crate) unpredicted: Option<Vec<SeverityLimitTable>>,
    /// The rule (code or name) whose time contains the time of this one: the tree of causes.
    #[schemars(with = "Option<String>")]
    pub(crate) within: Option<Spanned<String>>,
    /// With `within`: this rule details that one, and is not a cause of its own. That one keeps its
    /// priority.
    pub(crate) refines: Option<bool>,
    /// Codes or prefixes of codes (`HB`) whose findings have less confidence when this rule fires.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) weakens: Option<Vec<Spanned<String>>>,

    /// Names of the fixes of the problem. The recording is timed again with their edits if the rule fires.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) fixes: Option<Vec<Spanned<String>>>,
    /// Titles of some of these fixes where the finding knows more than the fix does, by the name of the fix: a template, or a
    /// list of parts. If a title renders empty, the title of the fix applies.
    #[schemars(with = "Option<BTreeMap<String, TextValue>>")]
    pub(crate) fix_titles: Option<BTreeMap<String, Spanned<TextValue>>>,

    /// Metric of scope line (`source_lines.sync_ns`): the finding points to the source lines with the largest
    /// values, if the trace has call stacks.
    #[schemars(with = "Option<String>")]
    pub(crate) source: Option<Spanned<String>>,
    /// A query for the time ranges in which the finding occurs: rows with `rank`, `ts_ns`, `dur_ns` and more
    /// columns that describe them. Runs only if the rule fires; the longest ranges are shown.
    #[schemars(with = "Option<String>")]
    pub(crate) evidence: Option<Spanned<String>>,
    /// The conclusion in one line: a template, or a list of parts.
    #[schemars(with = "Option<TextValue>")]
    pub(crate) title: Option<Spanned<TextValue>>,
    /// The facts with their numbers: a template, or a list of sentences.
    #[schemars(with = "Option<TextValue>")]
    pub(crate) message: Option<Spanned<TextValue>>,
    /// Recommended actions, one per entry. An entry that does not apply or renders empty is left out.
    #[schemars(with = "Option<Vec<TextPartValue>>")]
    pub(crate) advice: Option<Vec<Spanned<TextPartValue>>>,
    /// Why it matters, in Markdown.
    #[schemars(with = "Option<String>")]
    pub(crate) why: Option<Spanned<String>>,
    /// How the metric is computed, and the origin of the thresholds; in Markdown.
    #[schemars(with = "Option<String>")]
    pub(crate) how: Option<Spanned<String>>,
    /// What the metric excludes on purpose, in Markdown.
    #[schemars(with = "Option<String>")]
    pub(crate) not_counted: Option<Spanned<String>>,
    /// Cases in which the rule fires although nothing is wrong, in Markdown.
    #[schemars(with = "Option<String>")]
    pub(crate) false_alarms: Option<Spanned<String>>,
    /// Further reading.
    pub(crate) links: Option<Vec<String>>,
    /// Rows with their expected verdict.
    #[schemars(with = "Option<Vec<TestTable>>")]
    pub(crate) tests: Option<Vec<Spanned<TestTable>>>,
}

impl RuleTable {
    /// The thresholds of the table, worst severity first.
    pub(crate) fn thresholds(&self) -> [(Severity, Option<&Spanned<String>>); 5] {
        [
            (Severity::Critical, self.critical.as_ref()),
            (Severity::High, self.high.as_ref()),
            (Severity::Medium, self.medium.as_ref()),
            (Severity::Low, self.low.as_ref()),
            (Severity::Info, self.info.as_ref()),
        ]
    }

    /// Whether the table has a key that a verdict depends on.
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
            || self.unpredicted.is_some()
    }
}

// The thresholds stand in both tables: `#[serde(flatten)]` buffers values, which loses their spans.
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
    /// The thresholds of the table, worst severity first.
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

/// A condition under which the value is meaningful: an expression over the columns of a row, the kinds of data that it
/// needs, or both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequirementTable {
    /// Expression: `step_count >= 5`. Without it, the condition is that the recording holds all that `needs` lists.
    #[schemars(with = "Option<String>")]
    pub(crate) expr: Option<Spanned<String>>,
    /// Kinds of data whose absence makes the condition false, a name or a list (`advisor tables --capabilities`).
    pub(crate) needs: Option<OneOrMore<CapabilityName>>,
    /// Shown with the verdict *unknown*: a template, or a list of parts. With `needs` it may be left out: the reason is
    /// then that the data was not recorded.
    #[schemars(with = "Option<TextValue>")]
    pub(crate) reason: Option<Spanned<TextValue>>,
}

/// An expression over the columns of a row that casts doubt on the value, and the sentence shown when it decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoubtTable {
    /// Expression: `step_count < 5`.
    #[schemars(with = "String")]
    pub(crate) expr: Spanned<String>,
    /// Kinds of data that would remove the doubt, a name or a list (`advisor tables --capabilities`).
    pub(crate) needs: Option<OneOrMore<CapabilityName>>,
    /// Shown with the verdict *unknown*: a template, or a list of parts.
    #[schemars(with = "TextValue")]
    pub(crate) reason: Spanned<TextValue>,
}

/// A condition that lowers the confidence of a finding.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaveatTable {
    /// Expression over the columns of the worst row.
    #[schemars(with = "String")]
    pub(crate) when: Spanned<String>,
    /// Shown with the finding: a template, or a list of parts.
    #[schemars(with = "TextValue")]
    pub(crate) reason: Spanned<TextValue>,
    /// Upper limit of the confidence; one level down if not stated.
    pub(crate) to: Option<Confidence>,
}

/// A limit of the severity of a finding for which no fix is predicted to save time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeverityLimitTable {
    /// Expression over the columns of the worst row.
    #[schemars(with = "String")]
    pub(crate) when: Spanned<String>,
    /// Upper limit of the severity.
    pub(crate) to: Severity,
    /// Shown at the end of the message: a template, or a list of parts.
    #[schemars(with = "TextValue")]
    pub(crate) reason: Spanned<TextValue>,
    /// Replaces the first advice of the rule.
    #[schemars(with = "Option<TextValue>")]
    pub(crate) advice: Option<Spanned<TextValue>>,
}

/// Step time that a fix could save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GainTable {
    /// Expression giving the ceiling as a share of step time, 0 to 1; not needed with `none`.
    #[schemars(with = "Option<String>")]
    pub(crate) of: Option<Spanned<String>>,
    /// Part of the ceiling that a fix saves for certain (default 0.75).
    pub(crate) low: Option<f64>,
    /// Part of the ceiling that a fix may save (default 1).
    pub(crate) high: Option<f64>,
    /// Source of the number.
    pub(crate) method: GainMethod,
    /// Findings whose high gain is below this share of step time are at most `info`.
    pub(crate) floor: Option<f64>,
}

/// A row and its expected verdict. Columns that are not given have no value.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TestTable {
    /// `critical`, `high`, `medium`, `low`, `info`, `pass` or `unknown`.
    pub(crate) expect: String,
    /// Expected gain, in percent of step time.
    pub(crate) expect_gain_pct: Option<[f64; 2]>,
    /// Expected confidence.
    pub(crate) expect_confidence: Option<Confidence>,
    /// Traits of the run, the columns of the view `run_traits`; those that are not given are unknown.
    #[serde(default)]
    pub(crate) run: BTreeMap<String, Cell>,
    /// Kinds of data that the recording lacks, a name or a list; it holds all others.
    pub(crate) lacks: Option<OneOrMore<CapabilityName>>,
    /// Columns of the row.
    #[serde(flatten)]
    pub(crate) columns: BTreeMap<String, Cell>,
}

/// A value in a test row.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

/// What people do about findings. The recording is timed again with its edits. A later file changes only the keys it
/// states.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FixTable {
    /// The conditions for offering the fix: the hardware supports it, and the run does not use it yet.
    pub(crate) requires: Option<Vec<FixRequirementTable>>,
    /// Instead of `requires`: why the fix is right wherever one of its rules fires.
    pub(crate) unconditional: Option<String>,
    /// What to do, in a few words: `Load batches in worker processes`. A template over the traits of the run.
    #[schemars(with = "Option<String>")]
    pub(crate) title: Option<Spanned<String>>,
    /// Effort; `medium` if not stated.
    pub(crate) effort: Option<Effort>,
    /// `false` if it may have no effect, such as where the program needs what it waits for: the interval then begins at
    /// nothing.
    pub(crate) certain: Option<bool>,
    /// Of the rules that name the fix, those whose findings stand for it before others, by code: the most specific first.
    pub(crate) leading_rules: Option<Vec<String>>,
    /// Names of fixes that it is an alternative to: the plan has one of them at most.
    pub(crate) instead_of: Option<Vec<String>>,
    /// Why a step gets slower where the time that the fix adds is longer than what it saves, as a clause.
    pub(crate) slower_because: Option<String>,
    /// What it changes in the recording.
    #[schemars(with = "Option<Vec<EditTable>>")]
    pub(crate) edits: Option<Vec<Spanned<EditTable>>>,
    /// Where in the ranges of its edits the effect is expected, from measured pairs: 0 is the lower end of `left`, where the fix
    /// saves most, and 1 the upper end. 0.5 if not stated.
    pub(crate) position: Option<f64>,
    /// The errors between which four of five measured savings lie, see `[prediction]`; those of `[prediction]` if not stated.
    pub(crate) scores: Option<[f64; 2]>,
    /// Predictions for programs that the fit of `position` and `scores` left out, by generation of the devices.
    pub(crate) held: Option<Vec<HeldTable>>,
}

/// Predictions for programs that were left out of the fit, on one generation of devices.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldTable {
    /// Generation of the devices: `Hopper`; `CPU` without a device.
    pub(crate) family: String,
    /// Predictions whose interval contains the measured saving.
    pub(crate) held: usize,
    /// All predictions.
    pub(crate) of: usize,
}

/// The errors of predictions, from measured pairs. An error of `ln(left)`, the logarithm of the share that is left of a step, is
/// measured in multiples of the scale `sqrt(base^2 + (of_saving * ln(left))^2 + (of_range * h)^2)`, where `h` is half of what the
/// range of the effect makes a difference. A later file changes only the keys it states.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PredictionTable {
    /// Error of any prediction.
    pub(crate) base: Option<f64>,
    /// Error in proportion to what is saved.
    pub(crate) of_saving: Option<f64>,
    /// Error in proportion to the ranges of the edits.
    pub(crate) of_range: Option<f64>,
    /// The errors between which four of five measured savings lie, for fixes that state none.
    pub(crate) scores: Option<[f64; 2]>,
    /// Generations of devices on which pairs were measured. On others, ranges are not called intervals.
    pub(crate) families: Option<Vec<String>>,
}

/// A condition of a fix.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FixRequirementTable {
    /// Expression over the traits of the run: `not run.is_compiled`. The fix is left out if the expression is false. An
    /// expression that reads an unknown trait holds.
    #[schemars(with = "String")]
    pub(crate) expr: Spanned<String>,
    /// Why the fix is left out: a template over the traits of the run, to follow "because".
    #[schemars(with = "String")]
    pub(crate) reason: Spanned<String>,
}

/// One change of the recording: exactly one of `device`, `host`, `host_time`, `waits`, `stream_waits`,
/// `stream_gaps` and `ranks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditTable {
    /// A query for the device activities whose duration changes: `rank`, `event_id`, and, unless `left` is stated,
    /// `left_low_ns` and `left_high_ns`. Where these are NULL, the effect on the activity is unknown, and the column
    /// `unknown` says why. The column `least_ns` overrides `least`.
    pub(crate) device: Option<String>,
    /// A query for time of host threads that changes: `rank`, `thread`, `ts_ns`, `dur_ns`, and, unless `left` is stated,
    /// `left_low` and `left_high`. Where nothing may be left, calls no longer wait for the device. The column `least` overrides
    /// `least`.
    pub(crate) host: Option<String>,
    /// Classes of host time that change: `operator`, `runtime_call`, `python`, `annotation`, `gap`.
    pub(crate) host_time: Option<Vec<String>>,
    /// A query for calls that no longer wait for the device: `rank`, `event_id`.
    pub(crate) waits: Option<String>,
    /// A query for device activities that other streams no longer wait for: `rank`, `event_id`.
    pub(crate) stream_waits: Option<String>,
    /// A query for device activities that start sooner after the one before them on their stream: `rank`, `event_id`.
    pub(crate) stream_gaps: Option<String>,
    /// A query for ranks that will take as long as the others: `rank`.
    pub(crate) ranks: Option<String>,
    /// Share of the time that is left: lower and upper end of an 80 % interval; `[0, 0]` if not stated. More than 1, up to
    /// 4, where a fix adds time.
    pub(crate) left: Option<[f64; 2]>,
    /// With `device`, `host` or `host_time`: least share of the time that the hardware allows, even if the fix saves more than
    /// it claims.
    pub(crate) least: Option<f64>,
    /// With `host`: share that is left of the device activities launched in that time.
    pub(crate) launched: Option<[f64; 2]>,
    /// The time moves to this many threads or processes that work at the same time.
    pub(crate) workers: Option<u32>,
    /// With `workers`: factor of the time that the work takes there, lower and upper end of an 80 % interval; `[1, 1]` if not
    /// stated.
    pub(crate) slowdown: Option<[f64; 2]>,
}

impl Cell {
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(v) => Value::Bool(*v),
            Self::Int(v) => Value::Int(*v),
            Self::Float(v) => Value::Float(*v),
            Self::Text(v) => Value::Text(v.clone()),
        }
    }
}

/// Rules to ignore.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IgnoreTable {
    /// Reason; shown with the ignored findings.
    #[schemars(with = "String")]
    pub(crate) reason: Spanned<String>,
    /// Last day on which it holds: `2027-01-01`.
    #[schemars(with = "Option<String>")]
    pub(crate) until: Option<Spanned<String>>,
}
