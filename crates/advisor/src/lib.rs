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

mod evaluation;
mod language;
mod report;

#[cfg(test)]
mod tests;

pub use evaluation::baseline::{Baseline, BaselineReport};
pub use evaluation::baseline_comparison::{
    BaselineComparison, GoneFinding, StillUnknown, UnknownReason,
};
pub use evaluation::comparison::{Comparison, evaluate_comparison};
pub use evaluation::effects;
pub use evaluation::evaluate::{evaluate, evaluate_without};
pub use evaluation::evaluate_rule::MAX_RETIMED_RANKS;
pub use evaluation::firing_rates::{FiringRates, RuleRate};
pub use evaluation::follow_up::FollowUps;
pub use evaluation::selftest::{TestFailure, TestRun};
pub use language::explain::{ViewNotes, explain, index, page_name};
pub use language::fix::{Fix, FixRequirement, HeldPredictions, Prediction};
pub use language::ignore::{Date, Ignore};
pub use language::policy::{Policy, UnknownSelector};
pub use language::problem::{Problem, RuleSource};
pub use language::query::{RuleQuery, StatedQuery};
pub use language::rule::{
    Caveat, Check, Condition, EvidenceQuery, Gain, Rule, RuleStatus, SeverityLimit, TRACE_QUALITY,
};
pub use language::rule_files::RuleFiles;
pub use language::ruleset::{Inactive, RuleSet};
pub use language::schema::rule_schema_json;
pub use language::severity::{Confidence, Effort, FailOn, GainMethod, Severity};
pub use language::subject::Subject;
pub use language::text::{Text, TextBody, TextPart};
pub use language::threshold::Threshold;
pub use report::breakdown::{Breakdown, BreakdownPart};
pub use report::finding::{
    Affected, AffectedRow, BaselineState, Columns, Evidence, Finding, FindingFix,
    FindingLeftOutFix, FollowingTimePct, GainEstimate, MAX_AFFECTED, MAX_EVIDENCE, Occurrences,
    Queries, Range, TimeRange, UnknownFix,
};
pub use report::headline::Headline;
pub use report::phrases;
pub use report::plan::{MeasuredPredictions, Plan, PlannedFix, TimedSpan};
pub use report::recording::{Recording, RecordingInstructions, RecordingKind, RecordingLimit};
pub use report::report::{
    DamagedFile, HiddenFinding, IgnoredFinding, MissingOption, REPORT_SCHEMA_VERSION, Report,
    ReportWarning, Run, RunSource, Tool, UnknownRule, report_schema_json,
};

/// The shipped rule files: name in findings and problems, and text.
macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        [$((concat!("rules/", $name, ".toml"), include_str!(concat!("../rules/", $name, ".toml")))),+]
    };
}

/// The files that `default.toml` includes, in its order, and `default.toml` itself.
const SHIPPED: [(&str, &str); 27] = shipped![
    "GU",
    "GU-counters",
    "IN",
    "HB",
    "SY",
    "CP",
    "KN",
    "KN-layers",
    "PR",
    "IF",
    "OP",
    "OP-cpu",
    "VA",
    "CF",
    "CM",
    "CM-ranks",
    "PP",
    "MM",
    "MM-snapshot",
    "CG",
    "FR",
    "TQ",
    "TQ-device",
    "RG",
    "fixes",
    "effects",
    "default",
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
