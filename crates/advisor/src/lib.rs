//! Threshold rules over metrics: verdicts, findings, ranking. The arrow `metrics -> findings`.
//!
//! Rule files (TOML, handed in as text) become a [`RuleSet`] or a list of [`Problem`]s; a rule set
//! and the rows of the views it asks for become a [`Report`]. No I/O, nothing printed.
//!
//! ```
//! use advisor::{RuleSet, RuleSource, advise};
//! use trace_model::{MetricSpec, MetricTable, RunInfo, Scope, Unit, Value};
//!
//! let columns = vec![("rank".to_owned(), Unit::None), ("idle_ratio".to_owned(), Unit::Ratio)];
//! let metric = MetricSpec {
//!     view: "gpu".to_owned(),
//!     column: "idle_ratio".to_owned(),
//!     unit: Unit::Ratio,
//!     scope: Scope::Rank,
//!     doc: "Idle time over step time.".to_owned(),
//!     columns: columns.clone(),
//! };
//! let rules = r#"
//!     [rule.gpu-idle]
//!     code = "XX001"
//!     category = "gpu-util"
//!     metric = "gpu.idle_ratio"
//!     high = "> 30 %"
//!     gain = { of = "idle_ratio", method = "measured" }
//!     title = "The GPU waits"
//!     message = "{{ idle_ratio|pct }} of a step is idle."
//!     advice = ["Give it work."]
//!     why = "An idle device computes nothing."
//! "#;
//! let source = RuleSource { name: "my.toml".to_owned(), text: rules.to_owned() };
//! let rules = RuleSet::load(&[source], &[metric]).expect("no mistakes");
//! let rows = MetricTable {
//!     view: "gpu".to_owned(),
//!     columns,
//!     rows: vec![vec![Value::Int(0), Value::Float(0.4)]],
//!     when_empty: "the trace has no device activity".to_owned(),
//! };
//! let report = advise(&rules, &[rows], &RunInfo::default(), &[]);
//! assert_eq!(report.findings[0].message, "40 % of a step is idle.");
//! assert_eq!(report.findings[0].threshold_at, "my.toml:6");
//! ```

mod baseline;
mod checker;
mod comparison;
mod compile;
mod evaluate;
mod explain;
mod expr;
mod finding;
mod grade;
mod headline;
mod layers;
mod policy;
mod problem;
mod query;
mod rank;
mod rates;
mod report;
mod rule;
mod ruleset;
mod schema;
mod selftest;
mod shape;
mod sql;
mod suppress;
mod table;
mod threshold;
mod verdict;

#[cfg(test)]
mod tests;

pub use baseline::{
    AgainstBaseline, Baseline, BaselineReport, BaselineState, GoneFinding, Undecided,
};
pub use comparison::{Comparison, judge_comparison};
pub use explain::{ViewNotes, explain, index, page_name};
pub use finding::{
    Affected, AffectedRow, Columns, Evidence, Finding, GainEstimate, MAX_AFFECTED, MAX_EVIDENCE,
    Moment, Queries, Seen,
};
pub use grade::{Confidence, Severity};
pub use headline::{Headline, Predicted};
pub use policy::{FailOn, Policy, UnknownSelector};
pub use problem::{Problem, RuleSource};
pub use query::{RuleQuery, StatedQuery};
pub use rates::{Rates, RuleRate};
pub use report::{
    HiddenFinding, IgnoredFinding, REPORT_SCHEMA_VERSION, Report, ReportWarning, Run, RunSource,
    Tool, UnknownRule, advise,
};
pub use rule::{Check, Condition, EvidenceQuery, Gain, Lower, Rule, TRACE_QUALITY};
pub use ruleset::{Off, RuleFiles, RuleSet};
pub use schema::{report_schema_json, rule_schema_json};
pub use selftest::{TestFailure, TestRun};
pub use suppress::{Date, Ignore};
pub use table::GainMethod;
pub use threshold::Threshold;

/// The shipped rule files: name in findings and problems, and text. `default.toml` explains the fields and
/// stands alone; the others go with it, by area.
const SHIPPED: [(&str, &str); 8] = [
    ("rules/default.toml", include_str!("../rules/default.toml")),
    ("rules/kernels.toml", include_str!("../rules/kernels.toml")),
    ("rules/memory.toml", include_str!("../rules/memory.toml")),
    ("rules/comm.toml", include_str!("../rules/comm.toml")),
    ("rules/loop.toml", include_str!("../rules/loop.toml")),
    ("rules/machines.toml", include_str!("../rules/machines.toml")),
    ("rules/trace-quality.toml", include_str!("../rules/trace-quality.toml")),
    ("rules/regression.toml", include_str!("../rules/regression.toml")),
];

/// The rules that are shipped, in the order in which they are read. A file of yours comes after them.
pub fn shipped_rules() -> Vec<RuleSource> {
    let source = |(name, text): (&str, &str)| RuleSource { name: name.into(), text: text.into() };
    SHIPPED.map(source).into()
}
