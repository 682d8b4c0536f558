//! Threshold rules over metrics: verdicts, findings, priorities. The stage `metrics -> findings`.
//!
//! Rule files (TOML text) become a [`RuleSet`] or a list of [`Problem`]s. [`evaluate`] turns a rule set
//! and the rows of its views into a [`Report`]; [`Report::follow_ups`] names the rows that the findings
//! need besides, and [`Report::attach`] adds them. The crate does no I/O and prints nothing.
//!
//! ```
//! use advisor::{RuleSet, RuleSource, evaluate};
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
//!     requires: Vec::new(),
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
//!     when_empty: "the trace has no GPU activity".to_owned(),
//! };
//! let report = evaluate(&rules, &[rows], &RunInfo::default(), &[]);
//! assert_eq!(report.findings[0].message, "40 % of a step is idle.");
//! assert_eq!(report.findings[0].threshold_at, "my.toml:6");
//! ```

mod baseline;
mod baseline_comparison;
mod breakdown;
mod comparison;
mod compile;
pub mod effects;
mod evaluate;
mod evaluate_rule;
mod explain;
mod expr;
mod file_schema;
mod finding;
mod firing_rates;
mod fix;
mod follow_up;
mod general_title;
mod headline;
mod held_capabilities;
mod ignore;
mod link;
mod merge;
mod one_or_more;
pub mod phrases;
mod plan;
mod policy;
mod prioritize;
mod problem;
mod query;
mod recording;
mod report;
mod rule;
mod rule_check;
mod rule_files;
mod rules_needing;
mod ruleset;
mod run_traits;
mod schema;
mod schema_check;
mod selftest;
mod severity;
mod sql;
mod subject;
mod template_syntax;
mod text;
mod text_schema;
mod threshold;
mod verdict;

#[cfg(test)]
mod tests;

pub use baseline::{Baseline, BaselineReport};
pub use baseline_comparison::{BaselineComparison, GoneFinding, StillUnknown, UnknownReason};
pub use breakdown::{Breakdown, BreakdownPart};
pub use comparison::{Comparison, evaluate_comparison};
pub use evaluate::{evaluate, evaluate_without};
pub use evaluate_rule::MAX_RETIMED_RANKS;
pub use explain::{ViewNotes, explain, index, page_name};
pub use finding::{
    Affected, AffectedRow, BaselineState, Columns, Evidence, Finding, FindingFix,
    FindingLeftOutFix, FollowingTimePct, GainEstimate, MAX_AFFECTED, MAX_EVIDENCE, Occurrences,
    Queries, Range, TimeRange, UnknownFix,
};
pub use firing_rates::{FiringRates, RuleRate};
pub use fix::{Fix, FixRequirement, HeldPredictions, Prediction};
pub use follow_up::FollowUps;
pub use headline::Headline;
pub use ignore::{Date, Ignore};
pub use plan::{MeasuredPredictions, Plan, PlannedFix, TimedSpan};
pub use policy::{Policy, UnknownSelector};
pub use problem::{Problem, RuleSource};
pub use query::{RuleQuery, StatedQuery};
pub use recording::{Recording, RecordingInstructions, RecordingKind, RecordingLimit};
pub use report::{
    DamagedFile, HiddenFinding, IgnoredFinding, MissingOption, REPORT_SCHEMA_VERSION, Report,
    ReportWarning, Run, RunSource, Tool, UnknownRule, report_schema_json,
};
pub use rule::{Caveat, Check, Condition, EvidenceQuery, Gain, Rule, SeverityLimit, TRACE_QUALITY};
pub use rule_files::RuleFiles;
pub use ruleset::{Inactive, RuleSet};
pub use schema::rule_schema_json;
pub use selftest::{TestFailure, TestRun};
pub use severity::{Confidence, Effort, FailOn, GainMethod, Severity};
pub use subject::Subject;
pub use text::{Text, TextBody, TextPart};
pub use threshold::Threshold;

/// The shipped rule files: name in findings and problems, and text. `default.toml` explains the fields and
/// is complete on its own; the other files hold one area each.
const SHIPPED: [(&str, &str); 14] = [
    ("rules/default.toml", include_str!("../rules/default.toml")),
    ("rules/kernels.toml", include_str!("../rules/kernels.toml")),
    ("rules/memory.toml", include_str!("../rules/memory.toml")),
    ("rules/comm.toml", include_str!("../rules/comm.toml")),
    ("rules/pipeline.toml", include_str!("../rules/pipeline.toml")),
    ("rules/loop.toml", include_str!("../rules/loop.toml")),
    ("rules/machines.toml", include_str!("../rules/machines.toml")),
    ("rules/cpu.toml", include_str!("../rules/cpu.toml")),
    ("rules/compile.toml", include_str!("../rules/compile.toml")),
    ("rules/hangs.toml", include_str!("../rules/hangs.toml")),
    ("rules/trace-quality.toml", include_str!("../rules/trace-quality.toml")),
    ("rules/regression.toml", include_str!("../rules/regression.toml")),
    ("rules/fixes.toml", include_str!("../rules/fixes.toml")),
    ("rules/effects.toml", include_str!("../rules/effects.toml")),
];

/// The shipped rule files, in loading order. Your own files come after them.
pub fn shipped_rules() -> Vec<RuleSource> {
    let source = |(name, text): (&str, &str)| RuleSource { name: name.into(), text: text.into() };
    SHIPPED.map(source).into()
}

/// Whether these are the shipped rule files, and after them only copies of such files, which change nothing.
pub fn are_shipped_rules(sources: &[RuleSource]) -> bool {
    let is_shipped = |(source, (name, text)): (&RuleSource, (&str, &str))| {
        source.name == name && source.text == text
    };
    let is_copy = |source: &RuleSource| SHIPPED.iter().any(|(_, text)| source.text == *text);
    sources.split_at_checked(SHIPPED.len()).is_some_and(|(first, rest)| {
        first.iter().zip(SHIPPED).all(is_shipped) && rest.iter().all(is_copy)
    })
}
