//! A checked rule, as evaluation, explanation and listing read it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace_model::{COMPARISON_VIEWS, Capabilities, Capability, MetricSpec, Value};

use crate::language::severity::{Confidence, GainMethod, Severity};
use crate::language::subject::Subject;
use crate::language::text::{Text, TextPart};
use crate::language::threshold::Threshold;

/// The view with the step times. It is read even if no rule is evaluated on it: gains are also given in
/// milliseconds per step.
pub(crate) const STEP_TIME_VIEW: &str = "step_time_summary";

/// Category of rules about the trace itself: notes, never advice.
pub const TRACE_QUALITY: &str = "trace-quality";

/// Category of rules about memory, which a run without any recorded time may break.
pub(crate) const MEMORY: &str = "memory";

/// A valid rule, merged from all files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// Stable code: `IN001`.
    pub code: String,
    /// Kebab-case name: `dataloader-wait`.
    pub name: String,
    /// Area: `input-pipeline`.
    pub category: String,
    /// What it is about, at least one.
    pub subject: Vec<Subject>,
    /// `file:line` of the table that defines it.
    pub at: String,
    /// Maturity.
    pub status: RuleStatus,
    /// The metric that the thresholds apply to. With `sql`: named after the rule, without known columns.
    pub metric: MetricSpec,
    /// The rule's query, if it has one.
    pub sql: Option<String>,
    /// Columns and their thresholds, at least one; the first is that of the metric.
    pub checks: Vec<Check>,
    /// Conditions under which the value is meaningful.
    pub requires: Vec<Condition>,
    /// Condition for the rows that the rule applies to; others pass.
    pub only_if: Option<String>,
    /// Conditions that turn *fire* into *unknown*.
    pub doubts: Vec<Condition>,
    /// Step time that a fix could save.
    pub gain: Gain,
    /// For harm that is not time: the percent of step time that it is prioritized as.
    pub fixed_priority_pct: Option<f64>,
    /// Confidence at best.
    pub confidence: Confidence,
    /// Conditions that lower the confidence.
    pub lower_confidence: Vec<Caveat>,
    /// Limits of the severity where no fix is predicted to save time.
    pub unpredicted: Vec<SeverityLimit>,
    /// Code of the rule whose time contains the time of this one.
    pub within: Option<String>,
    /// Whether it only details that rule and takes nothing from its priority.
    pub refines: bool,
    /// Prefixes of codes whose findings have less confidence when this rule fires.
    pub weakens: Vec<String>,
    /// Names of the fixes of the problem.
    pub fixes: Vec<String>,
    /// Titles that replace those of fixes, by the name of the fix.
    pub fix_titles: BTreeMap<String, Text>,
    /// The metric of the source lines that a finding points to.
    pub source: Option<MetricSpec>,
    /// A query for the time ranges in which the finding occurs, with `rank`, `ts_ns` and `dur_ns`.
    pub evidence: Option<String>,
    /// Conclusion in one line.
    pub title: Text,
    /// The facts with their numbers.
    pub message: Text,
    /// Recommended actions.
    pub advice: Vec<TextPart>,
    /// Why it matters, in Markdown.
    pub why: String,
    /// How the metric is computed, and the origin of the thresholds; Markdown, may be empty.
    pub how: String,
    /// What the metric excludes on purpose; Markdown, may be empty.
    pub not_counted: String,
    /// Cases in which it fires although nothing is wrong; Markdown, may be empty.
    pub false_alarms: String,
    /// Further reading.
    pub links: Vec<String>,
    /// Whether a text or an expression reads a trait of the run.
    pub(crate) reads_traits: bool,
    pub(crate) tests: Vec<Test>,
}

impl Rule {
    /// Whether it is about the trace, not about the program.
    pub fn is_trace_quality(&self) -> bool {
        self.category == TRACE_QUALITY
    }

    /// Whether it is about a comparison of two runs, not about a run.
    pub fn is_comparison(&self) -> bool {
        COMPARISON_VIEWS.contains(&self.table())
    }

    /// The severity of its highest threshold.
    pub fn worst_severity(&self) -> Severity {
        let severities = self.checks.iter().flat_map(|check| &check.thresholds).map(|(s, _)| *s);
        severities.max().unwrap_or(Severity::Info)
    }

    /// The kinds of data whose absence leaves the rule without a verdict, each once.
    pub fn needs(&self) -> impl Iterator<Item = Capability> {
        let of_conditions = self.requires.iter().chain(&self.doubts).flat_map(|c| &c.needs);
        let all: Capabilities = of_conditions.chain(&self.metric.requires).copied().collect();
        all.iter()
    }

    /// Returns whether the rule has no verdict where some kind of data is missing.
    pub(crate) fn has_needs(&self) -> bool {
        self.needs().next().is_some()
    }

    /// Name of the metric table that it is evaluated on: the view, or the rule's name if it has a query.
    pub fn table(&self) -> &str {
        &self.metric.view
    }
}

/// Maturity of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleStatus {
    /// It has fired on a recording of a real program.
    #[default]
    Stable,
    /// It has fired on no recording yet, and is evaluated only if asked for.
    Preview,
}

/// A column and its thresholds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// Column of the metric's view.
    pub column: String,
    /// Its unit.
    pub unit: trace_model::Unit,
    /// Thresholds, worst severity first.
    pub thresholds: Vec<(Severity, Threshold)>,
}

/// A requirement or a doubt: a condition, and the sentence shown when it decides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Condition {
    /// Expression over the columns of a row; `None`: the recording holds all of `needs`.
    pub expr: Option<String>,
    /// Kinds of data whose absence decides.
    pub needs: Vec<Capability>,
    /// Shown when the condition decides; `None`: [`Capability::reason`] of the first need that is missing.
    pub reason: Option<Text>,
}

/// A condition that lowers the confidence of a finding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Caveat {
    /// Expression over the columns of a row.
    pub when: String,
    /// Shown when the expression decides.
    pub reason: Text,
    /// Upper limit of the confidence; one level down if `None`.
    pub to: Option<Confidence>,
}

/// A limit of the severity of a finding for which no fix is predicted to save time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeverityLimit {
    /// Expression over the columns of a row.
    pub when: String,
    /// Upper limit of the severity.
    pub to: Severity,
    /// Shown at the end of the message.
    pub reason: Text,
    /// Replaces the first advice; empty to keep it.
    pub advice: Text,
}

/// Step time that a fix could save.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Gain {
    /// Expression giving the ceiling as a share of step time; `None` without estimate.
    pub of: Option<String>,
    /// Part of the ceiling that a fix saves for certain.
    pub low: f64,
    /// Part of the ceiling that a fix may save.
    pub high: f64,
    /// Source of the number.
    pub method: GainMethod,
    /// Findings whose high gain is below this share are at most `info`; 0 for none.
    pub floor: f64,
}

/// A row with its expected verdict, and its place in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Test {
    pub(crate) at: String,
    /// A severity, `pass` or `unknown`.
    pub(crate) expect: String,
    /// Expected gain, in percent of step time.
    pub(crate) expect_gain_pct: Option<[f64; 2]>,
    pub(crate) expect_confidence: Option<Confidence>,
    /// Traits of the run that the test states.
    pub(crate) run: BTreeMap<String, Value>,
    /// Kinds of data that the recording lacks.
    pub(crate) lacks: Vec<Capability>,
    /// Columns of the row that the test states.
    pub(crate) columns: BTreeMap<String, Value>,
}

/// A query for the time ranges in which a finding occurs. Run it, make a `MetricTable` whose `view` is
/// `name`, and pass that to [`Report::attach`](crate::Report::attach).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceQuery {
    /// Name of the resulting metric table.
    pub name: String,
    /// Name of the rule.
    pub rule: String,
    /// The query: it returns `rank`, `ts_ns` and `dur_ns`.
    pub sql: String,
}
