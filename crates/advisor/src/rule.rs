//! A rule, checked: what evaluation, explanation and listing read.

use trace_model::{COMPARISON_VIEWS, MetricSpec};

use crate::grade::{Confidence, Severity};
use crate::table::{GainMethod, TestTable};
use crate::threshold::Threshold;

/// Category of rules about the trace itself: notes, never advice.
pub const TRACE_QUALITY: &str = "trace-quality";

/// A rule without mistakes, all files merged.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Stable code: `IN001`.
    pub code: String,
    /// Kebab-case name: `dataloader-wait`.
    pub name: String,
    /// Area: `input-pipeline`.
    pub category: String,
    /// `file:line` of the table that defines it.
    pub at: String,
    /// The metric it judges. With `sql`: named after the rule, its columns unknown.
    pub metric: MetricSpec,
    /// Its own query, if it brings one.
    pub sql: Option<String>,
    /// Columns and their thresholds; the first is the metric's. At least one.
    pub checks: Vec<Check>,
    /// What must hold for the value to mean anything.
    pub requires: Vec<Condition>,
    /// Rows of which it speaks; others pass.
    pub only_if: Option<String>,
    /// What makes a verdict *unknown* that would be *fire*.
    pub doubts: Vec<Condition>,
    /// Step time that a fix could return.
    pub gain: Gain,
    /// For harm that is not time: the percent of step time this ranks as.
    pub fixed_rank: Option<f64>,
    /// How sure it is at best.
    pub confidence: Confidence,
    /// What makes it less sure.
    pub lower_confidence: Vec<Lower>,
    /// Code of the rule whose time contains the time of this one.
    pub within: Option<String>,
    /// Whether it only looks closer at that rule and takes nothing from its rank.
    pub refines: bool,
    /// Codes of rules whose time may be the same time.
    pub overlaps: Vec<String>,
    /// Beginnings of codes whose findings are less sure when this rule fires.
    pub weakens: Vec<String>,
    /// The metric that says which lines of the program a finding points to.
    pub source: Option<MetricSpec>,
    /// A query for the moments that show it, with `rank`, `ts_ns` and `dur_ns`.
    pub evidence: Option<String>,
    /// Conclusion in one line (template).
    pub title: String,
    /// One sentence with the numbers (template).
    pub message: String,
    /// What to do (templates).
    pub advice: Vec<String>,
    /// Markdown.
    pub why: String,
    /// Further reading.
    pub links: Vec<String>,
    pub(crate) tests: Vec<Test>,
}

impl Rule {
    /// Whether it is about the trace and not about the program.
    pub fn is_trace_quality(&self) -> bool {
        self.category == TRACE_QUALITY
    }

    /// Whether it judges a comparison of two runs, not a run.
    pub fn is_comparison(&self) -> bool {
        COMPARISON_VIEWS.contains(&self.table())
    }

    /// Name of the metric table it judges: the view, or the rule's name if it brings a query.
    pub fn table(&self) -> &str {
        &self.metric.view
    }
}

/// A column and its thresholds.
#[derive(Debug, Clone)]
pub struct Check {
    /// Column of the metric's view.
    pub column: String,
    /// Its unit.
    pub unit: trace_model::Unit,
    /// Thresholds, worst severity first.
    pub thresholds: Vec<(Severity, Threshold)>,
}

/// An expression and the sentence shown when it decides.
#[derive(Debug, Clone)]
pub struct Condition {
    /// Expression over the columns of a row.
    pub expr: String,
    /// Template.
    pub reason: String,
}

/// Something that makes a finding less sure.
#[derive(Debug, Clone)]
pub struct Lower {
    /// Expression over the columns of a row.
    pub when: String,
    /// Template.
    pub reason: String,
    /// The confidence left at most; one level down if `None`.
    pub to: Option<Confidence>,
}

/// Step time that a fix could return.
#[derive(Debug, Clone, Default)]
pub struct Gain {
    /// Expression giving the ceiling as a share of step time; `None` without estimate.
    pub of: Option<String>,
    /// Part of the ceiling that a fix is sure to reach.
    pub low: f64,
    /// Part of the ceiling that a fix may reach.
    pub high: f64,
    /// Where the number comes from.
    pub method: GainMethod,
    /// Findings whose gain at best is below this share are at most `info`; 0 for none.
    pub floor: f64,
    /// Metric that estimates the same gain in another way.
    pub what_if: Option<MetricSpec>,
}

/// A row with the verdict it must get, and where it is written.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    pub(crate) at: String,
    pub(crate) row: TestTable,
}

/// A query for the moments that show a finding. Run it, make a `MetricTable` whose `view` is `name`, and
/// hand that in with the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceQuery {
    /// Name of the metric table to make.
    pub name: String,
    /// Name of the rule.
    pub rule: String,
    /// The query: it returns `rank`, `ts_ns` and `dur_ns`.
    pub sql: String,
}
