//! The report: the data that `--format json` prints and every renderer reads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use trace_model::{Capability, Provider, RunInfo, Warning, damage};

use crate::evaluation::baseline_comparison::BaselineComparison;
use crate::evaluation::prioritize::prioritize;
use crate::language::fix::Fix;
use crate::language::ignore::Ignore;
use crate::language::one_or_more::CapabilityName;
use crate::language::rule::{MEMORY, Rule, TRACE_QUALITY};
use crate::language::ruleset::RuleSet;
use crate::language::schema;
use crate::language::severity::Severity;
use crate::language::subject::{RunKind, Subject};
use crate::report::breakdown::Breakdown;
use crate::report::finding::{BaselineState, Finding};
use crate::report::headline::{Headline, HeadlineInput, headline};
use crate::report::plan::Plan;
use crate::report::recording::{Recording, RecordingKind};

/// Version of the report's JSON. It increases when a field changes its meaning or goes away, not when
/// a field is added.
///
/// 2: `findings[].rank` is `position`, `seen` and `sql.seen` are `occurrences`; in `baseline`,
/// `cannot_tell` is `still_unknown` and `unjudged_before` is `unknown_before`.
///
/// 3: `gain.low_pct` and `high_pct` are the ends of an 80 % interval of what the fix saves alone;
/// `gain.unattributed_pct` and `what_if_pct` are gone. The headline's `predicted_step_ms` has an estimate
/// between its ends, `ms_per_step` is gone. `plan` and `findings[].fixes` are new.
pub const REPORT_SCHEMA_VERSION: u32 = 3;

/// The findings of the rules in one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// [`REPORT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The run.
    pub run: Run,
    /// The rule files that were read beside the built-in rules, in order.
    pub rule_files: Vec<String>,
    /// The report in one sentence.
    pub headline: Headline,
    /// What the recording is, what it cannot show, and how to record the rest.
    pub recording: Option<Recording>,
    /// What to fix in which order, and what a step then takes; null where nothing could be timed again.
    pub plan: Option<Plan>,
    /// Where the time of a step goes; null without a device, or if the selected rules do not need it.
    pub breakdown: Option<Breakdown>,
    /// Findings, most useful first; notes about the trace and infos at the end.
    pub findings: Vec<Finding>,
    /// Codes of rules that passed.
    pub passed: Vec<String>,
    /// Rules without a verdict, with the reason.
    pub unknown: Vec<UnknownRule>,
    /// Findings that the rule files ignore.
    pub ignored: Vec<IgnoredFinding>,
    /// Findings whose gain is too small to be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below_min_gain: Vec<HiddenFinding>,
    /// Changes against an earlier report; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineComparison>,
    /// Input that could not be read, and ignore entries that no longer have an effect.
    pub warnings: Vec<ReportWarning>,
    /// Trace files that end in the middle, or of whose events more than 1 % are invalid: the report is about the rest. Absent
    /// if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged_files: Vec<DamagedFile>,
    #[serde(skip)]
    pub(crate) totals: RunTotals,
}

/// The numbers of the evaluation that findings are prioritized with.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunTotals {
    /// Step time of the slowest rank.
    pub(crate) slowest_step_ns: Option<f64>,
    /// The ranks to time again: the slowest ones of a run with many.
    pub(crate) ranks: Vec<i64>,
    /// The fixes that apply to the run.
    pub(crate) fixes: Vec<Fix>,
    /// The peak of a memory snapshot, who holds most of it and what would shrink it, as a headline says it.
    pub(crate) memory_headline: Option<String>,
    /// Generation of the devices, such as `Hopper`; `CPU` without a device.
    pub(crate) device_family: Option<String>,
    /// Mean step before the profiler started, in ns; `None` if it was not timed.
    pub(crate) unprofiled_step_ns: Option<i64>,
}

impl Report {
    /// A report without findings.
    pub(crate) fn new(run: &RunInfo, totals: RunTotals) -> Self {
        Self {
            schema_version: REPORT_SCHEMA_VERSION,
            tool: Tool {
                name: "trace-advisor".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            run: Run::from(run),
            rule_files: Vec::new(),
            headline: Headline::default(),
            recording: None,
            plan: None,
            breakdown: None,
            findings: Vec::new(),
            passed: Vec::new(),
            unknown: Vec::new(),
            ignored: Vec::new(),
            below_min_gain: Vec::new(),
            baseline: None,
            warnings: Vec::new(),
            damaged_files: Vec::new(),
            totals,
        }
    }

    /// Sorts the findings, numbers them, and writes the headline.
    pub(crate) fn prioritize(&mut self, rules: &RuleSet) {
        prioritize(&mut self.findings, rules.rules());
        self.headline = headline(&HeadlineInput {
            findings: &self.findings,
            plan: self.plan.as_ref(),
            breakdown: self.breakdown.as_ref(),
            severe_limit: self.severe_limit(),
            step_ns: self.totals.slowest_step_ns,
            passed: self.passed.len(),
            unknown: self.unknown_rules().0.len(),
            is_judged: self.is_judged(rules),
            shows_memory_only: self.shows_memory_only(),
            memory_headline: self.totals.memory_headline.as_deref(),
            time_summary: self.recording.as_ref().and_then(|r| r.time_summary.as_deref()),
        });
    }

    /// The worst severity of the findings about the program; notes about the trace do not count. With a
    /// baseline, only new and worse findings count.
    pub fn worst(&self) -> Option<Severity> {
        let counts = |f: &&Finding| f.baseline_state.is_none_or(BaselineState::is_regression);
        self.advice().filter(counts).map(|f| f.severity).max()
    }

    /// Returns true if at least one rule about time has a verdict; if no such rule is selected, any rule.
    pub fn is_judged(&self, rules: &RuleSet) -> bool {
        let is_about_time = |code: &str| {
            let rule = rules.rules().iter().find(|rule| rule.code == code);
            rule.is_some_and(|rule| rule.category != TRACE_QUALITY && rule.category != MEMORY)
        };
        let has_time_rules =
            self.codes_with_verdict().chain(self.unknown.iter().map(|u| u.code.as_str()));
        let needs_time_rule = has_time_rules.into_iter().any(is_about_time);
        let is_enough = |code: &str| {
            let is_about_memory =
                || rules.rules().iter().any(|rule| rule.code == code && rule.category == MEMORY);
            is_about_time(code) || self.shows_memory_only() && is_about_memory()
        };
        self.codes_with_verdict().any(|code| !needs_time_rule || is_enough(code))
    }

    /// Returns true if the run holds marks of a trainer, metrics or other files, but no trace of the profiler.
    pub fn lacks_profiler_trace(&self) -> bool {
        let kind = self.recording.as_ref().map(|recording| recording.kind);
        kind == Some(RecordingKind::NoProfilerTrace)
    }

    /// The most serious limit of the recording, if too little of the program was recorded to predict gains.
    pub fn severe_limit(&self) -> Option<RecordingKind> {
        self.recording.as_ref().map(|recording| recording.kind).filter(|kind| kind.is_severe())
    }

    /// The sentence about what takes the time, unless a finding above info or the headline contains it.
    pub fn time_summary(&self) -> Option<&str> {
        let recording = self.recording.as_ref()?;
        let is_severe = recording.kind.is_severe();
        let is_silent = !self.advice().any(|finding| finding.severity > Severity::Info);
        let summary = recording.time_summary.as_deref().filter(|_| is_severe || is_silent);
        summary.filter(|text| !self.headline.text.contains(text))
    }

    /// The finding to start with.
    pub fn first_finding(&self) -> Option<&Finding> {
        let first = self.headline.first.as_ref()?;
        self.findings.iter().find(|finding| finding.code == *first)
    }

    /// Returns true if the run holds memory snapshots only.
    pub fn shows_memory_only(&self) -> bool {
        self.recording.as_ref().is_some_and(|r| r.kind == RecordingKind::MemoryOnly)
    }

    /// The reason that most rules without a verdict give.
    pub fn main_unknown_reason(&self) -> Option<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let (missing, others) = self.unknown_rules();
        for unknown in if missing.is_empty() { others } else { missing } {
            *counts.entry(&unknown.reason).or_default() += 1;
        }
        counts.into_iter().rev().max_by_key(|&(_, count)| count).map(|(reason, _)| reason)
    }

    /// The rules without a verdict: those that data is missing for, and those that do not apply because the run does not
    /// have their [`Subject`].
    pub fn unknown_rules(&self) -> (Vec<&UnknownRule>, Vec<&UnknownRule>) {
        let run = RunKind {
            is_on_cpu: self.recording.as_ref().is_some_and(|recording| recording.is_on_cpu),
            is_memory_only: self.shows_memory_only(),
        };
        self.unknown.iter().partition(|rule| run.has_any(&rule.subject))
    }

    /// The profiler options that would give rules above info a verdict, most rules first. Of several values of one
    /// argument, the one that most rules need. Rules that compare ranks need other ranks first, and no option of the
    /// profiler is enough for rules that also need something else.
    pub fn missing_options(&self) -> Vec<MissingOption> {
        let mut rules_by_option: BTreeMap<&'static str, usize> = BTreeMap::new();
        let has_subject = |rule: &&UnknownRule| {
            self.run.ranks.len() > 1
                || rule.subject.iter().any(|subject| *subject != Subject::Ranks)
        };
        let can_warn = |rule: &&UnknownRule| rule.worst_severity > Severity::Info;
        let rules = self.unknown_rules().0.into_iter().filter(has_subject).filter(can_warn);
        for rule in rules {
            let options = rule.needs.iter().map(|need| match need.provider() {
                Provider::ProfilerOption(option) => Some(option),
                _ => None,
            });
            // Several needs of a rule may have the same option.
            for option in options.collect::<Option<BTreeSet<_>>>().unwrap_or_default() {
                *rules_by_option.entry(option).or_default() += 1;
            }
        }
        let mut options: Vec<MissingOption> = rules_by_option
            .into_iter()
            .map(|(option, rules)| MissingOption { option, rules })
            .collect();
        options.sort_by_key(|missing| (Reverse(missing.rules), missing.option));
        let mut arguments = BTreeSet::new();
        options.retain(|missing| arguments.insert(missing.argument()));
        options
    }

    fn codes_with_verdict(&self) -> impl Iterator<Item = &str> {
        let fired = self.findings.iter().map(|f| &f.code);
        let ignored = self.ignored.iter().map(|f| &f.code);
        let hidden = self.below_min_gain.iter().map(|f| &f.code);
        fired.chain(&self.passed).chain(ignored).chain(hidden).map(String::as_str)
    }

    /// Findings about the program.
    pub fn advice(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| !f.is_note())
    }

    /// Findings about the trace.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.is_note())
    }
}

/// The program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tool {
    /// `trace-advisor`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The run as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Run {
    /// Path, as given on the command line.
    pub path: String,
    /// Ranks present, ascending.
    pub ranks: Vec<i32>,
    /// Steps of the rank with the most steps.
    pub steps: usize,
    /// Time from the first event to the end of the last.
    pub wall_ns: i64,
    /// The selected part of the run; absent if all of it is selected.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selection: String,
    /// Input files.
    pub sources: Vec<RunSource>,
}

/// One input file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunSource {
    /// Path.
    pub file: String,
    /// Format of the file: `kineto`, ...
    pub format: String,
    /// Rank of its events.
    pub rank: i32,
    /// Source of the rank: `distributedInfo`, the file name, or the order of the files.
    pub rank_from: String,
    /// Bytes of JSON, after decompression.
    pub json_bytes: u64,
    /// Events read.
    pub events: u64,
}

/// A rule without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnknownRule {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Reason.
    pub reason: String,
    /// Kinds of data that the recording lacks and that a verdict needs, as `advisor tables --capabilities` lists them;
    /// absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<CapabilityName>")]
    pub needs: Vec<Capability>,
    /// What records this data: arguments of `torch.profiler.profile`, calls and settings, each once. Absent if nothing does,
    /// or nothing is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record_with: Vec<&'static str>,
    /// What the rule is about. A rule about something that the run does not have does not apply.
    pub subject: Vec<Subject>,
    /// The severity of its highest threshold.
    #[serde(skip)]
    pub worst_severity: Severity,
}

impl UnknownRule {
    /// A rule without a verdict for lack of `needs`.
    pub(crate) fn new(rule: &Rule, reason: String, needs: Vec<Capability>) -> Self {
        let mut record_with = Vec::new();
        for option in needs.iter().filter_map(|need| need.provider().option()) {
            if !record_with.contains(&option) {
                record_with.push(option);
            }
        }
        Self {
            code: rule.code.clone(),
            name: rule.name.clone(),
            reason,
            needs,
            record_with,
            subject: rule.subject.clone(),
            worst_severity: rule.worst_severity(),
        }
    }

    /// The verdict failed for a reason that recording more does not change.
    pub(crate) fn failed(&mut self, reason: &str) {
        reason.clone_into(&mut self.reason);
        self.needs.clear();
        self.record_with.clear();
    }
}

/// A profiler option that was not set, and whose data rules lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingOption {
    /// The option as an argument of `torch.profiler.profile`: `record_shapes=True`.
    pub option: &'static str,
    /// Number of rules that have no verdict for lack of its data.
    pub rules: usize,
}

impl MissingOption {
    /// Name of the argument.
    fn argument(&self) -> &'static str {
        self.option.split('=').next().unwrap_or(self.option)
    }
}

/// A finding that a rule file ignores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IgnoredFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Severity that the finding would have.
    pub severity: Severity,
    /// Its title.
    pub title: String,
    /// One sentence with the numbers.
    pub message: String,
    /// Fingerprint of the finding.
    pub fingerprint: String,
    /// The reason in the rule file.
    pub reason: String,
    /// Last day on which it is ignored, `2027-01-01`; null if there is no end.
    pub until: Option<String>,
    /// `file:line` of the entry.
    pub at: String,
}

/// A finding whose gain is below the minimum of the policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HiddenFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Percent of step time that a fix may save.
    pub gain_high_pct: f64,
}

/// A problem that did not stop the evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportWarning {
    /// Stable kind: `truncated-json`, `ignore-expired`.
    pub code: String,
    /// File; empty if the warning is about the run.
    pub file: String,
    /// One sentence.
    pub message: String,
    /// Number of occurrences.
    pub count: u64,
}

/// A trace file of which a part is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DamagedFile {
    /// Path relative to the run.
    pub file: String,
    /// Describes the damage.
    pub description: String,
    /// The file ends in the middle.
    pub is_truncated: bool,
    /// Events whose content was dropped.
    pub invalid_event_count: u64,
    /// Events of the file.
    pub event_count: u64,
}

impl From<&damage::DamagedFile> for DamagedFile {
    fn from(file: &damage::DamagedFile) -> Self {
        Self {
            file: file.file.clone(),
            description: file.description(),
            is_truncated: file.is_truncated,
            invalid_event_count: file.invalid_event_count,
            event_count: file.event_count,
        }
    }
}

impl IgnoredFinding {
    pub(crate) fn new(finding: Finding, ignore: &Ignore) -> Self {
        Self {
            code: finding.code,
            name: finding.name,
            severity: finding.severity,
            title: finding.title,
            message: finding.message,
            fingerprint: finding.fingerprint,
            reason: ignore.reason.clone(),
            until: ignore.until.map(|d| d.to_string()),
            at: ignore.at.clone(),
        }
    }
}

impl From<&Warning> for ReportWarning {
    fn from(warning: &Warning) -> Self {
        Self {
            code: warning.code.to_string(),
            file: warning.file.clone(),
            message: warning.message.clone(),
            count: warning.count,
        }
    }
}

impl From<&RunInfo> for Run {
    fn from(run: &RunInfo) -> Self {
        let sources = run.sources.iter().map(|s| RunSource {
            file: s.file.clone(),
            format: s.format.to_string(),
            rank: s.rank,
            rank_from: s.rank_from.to_string(),
            json_bytes: s.json_bytes,
            events: s.events,
        });
        Self {
            path: run.path.clone(),
            ranks: run.ranks.clone(),
            steps: run.steps,
            wall_ns: run.wall_ns,
            selection: run.selection.clone(),
            sources: sources.collect(),
        }
    }
}

/// The JSON schema of a [`Report`] as JSON: pretty-printed, with a newline at the end. Fields may be added
/// within a version; the fields that it names keep their meaning.
pub fn report_schema_json() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    schema::pretty(settings.into_generator().into_root_schema_for::<Report>())
}
