//! The report: what `--format json` prints, and all that renderers read.

use std::collections::BTreeMap;

use minijinja::Environment;
use schemars::JsonSchema;
use serde::Serialize;
use trace_model::{MetricTable, RunInfo, Value, Warning};

use crate::baseline::{AgainstBaseline, BaselineState};
use crate::evaluate::{Outcome, StepTimes, evaluate};
use crate::expr;
use crate::finding::{Columns, Finding, MAX_EVIDENCE, Moment, Seen, tidy};
use crate::grade::{Confidence, Severity};
use crate::headline::{Headline, headline};
use crate::rank::rank;
use crate::rule::Rule;
use crate::ruleset::{RuleSet, evidence_table};
use crate::sql;
use crate::suppress::{Date, Ignore};

/// Version of the report's JSON. It grows when a field changes meaning or goes; not when one is
/// added.
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// What the rules found in a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// [`REPORT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Who wrote the report.
    pub tool: Tool,
    /// The run.
    pub run: Run,
    /// The report in a sentence.
    pub headline: Headline,
    /// Findings, most useful first; notes about the trace and infos at the end.
    pub findings: Vec<Finding>,
    /// Codes of rules that had something to judge and nothing to say.
    pub passed: Vec<String>,
    /// Rules that could not judge, with the reason.
    pub unknown: Vec<UnknownRule>,
    /// Findings that the rule files silence.
    pub ignored: Vec<IgnoredFinding>,
    /// Findings that could return too little to be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below_min_gain: Vec<HiddenFinding>,
    /// What became of the findings of an earlier report; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<AgainstBaseline>,
    /// What could not be read, and entries of rule files that no longer do anything.
    pub warnings: Vec<ReportWarning>,
}

impl Report {
    /// The worst severity of a finding that is advice; notes about the trace do not count. Against a
    /// baseline, only what is new or worse does.
    pub fn worst(&self) -> Option<Severity> {
        let counts = |f: &&Finding| f.baseline_state.is_none_or(BaselineState::is_regression);
        self.advice().filter(counts).map(|f| f.severity).max()
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
    /// Path as given.
    pub path: String,
    /// Ranks present, ascending.
    pub ranks: Vec<i32>,
    /// Steps of the rank that has most.
    pub steps: usize,
    /// From the first event to the end of the last.
    pub wall_ns: i64,
    /// Which part of the run was asked for; absent for all of it.
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
    /// Format it was read as.
    pub format: String,
    /// Rank its events were given.
    pub rank: i32,
    /// Where the rank came from.
    pub rank_from: String,
    /// Bytes of JSON, after decompression.
    pub json_bytes: u64,
    /// Events read.
    pub events: u64,
}

/// A rule that could not judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnknownRule {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A finding that is silenced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IgnoredFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Severity it would have had.
    pub severity: Severity,
    /// Its title.
    pub title: String,
    /// One sentence with the numbers.
    pub message: String,
    /// As that of a finding.
    pub fingerprint: String,
    /// The reason given for silencing it.
    pub reason: String,
    /// Last day it is silenced, `2027-01-01`; null for good.
    pub until: Option<String>,
    /// `file:line` of the entry.
    pub at: String,
}

/// A finding that could return less than the policy asks for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HiddenFinding {
    /// Code.
    pub code: String,
    /// Name.
    pub name: String,
    /// Percent of step time that a fix may return.
    pub gain_high_pct: f64,
}

/// A partial failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportWarning {
    /// Stable kind: `truncated-json`, `ignore-expired`.
    pub code: String,
    /// File concerned; empty for the run.
    pub file: String,
    /// One sentence.
    pub message: String,
    /// How often it happened.
    pub count: u64,
}

/// Judges a run.
///
/// `tables` are the rows of [`RuleSet::views`] and the results of [`RuleSet::queries`]; a rule whose
/// table is not among them is *unknown*.
pub fn advise(
    rules: &RuleSet,
    tables: &[MetricTable],
    run: &RunInfo,
    warnings: &[Warning],
) -> Report {
    let env = expr::environment();
    let steps = StepTimes::read(tables);
    let judged = judge(rules.of_runs(), rules, tables, &steps, &env);
    let Judged { mut findings, passed, unknown, ignored, ceilings, .. } = judged;
    let mut warnings: Vec<ReportWarning> = warnings.iter().map(ReportWarning::from).collect();
    warnings.extend(judged.warnings);

    let watched = judge(rules.watched().iter(), rules, tables, &steps, &env).findings;
    weaken(&mut findings, rules.rules().iter().chain(rules.watched()), &watched);
    second_opinions(&mut findings, rules.rules(), tables);
    sources(&mut findings, rules.rules(), tables);
    moments(&mut findings, rules.rules(), tables);
    let below_min_gain = take_small(&mut findings, rules.policy().min_gain_pct);
    rank(&mut findings, rules.rules());
    let headline = headline(&findings, rules.rules(), &ceilings, steps.slowest(), unknown.len());
    Report {
        schema_version: REPORT_SCHEMA_VERSION,
        tool: Tool {
            name: "trace-advisor".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        run: Run::from(run),
        headline,
        findings,
        passed,
        unknown,
        ignored,
        below_min_gain,
        baseline: None,
        warnings,
    }
}

/// What some rules say, each on its own.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) findings: Vec<Finding>,
    pub(crate) passed: Vec<String>,
    pub(crate) unknown: Vec<UnknownRule>,
    pub(crate) ignored: Vec<IgnoredFinding>,
    pub(crate) warnings: Vec<ReportWarning>,
    /// Largest loss by rule, percent of step time.
    ceilings: BTreeMap<String, f64>,
}

/// Judges with each of `judging`, rules of the set, and silences what the set ignores.
pub(crate) fn judge<'r>(
    judging: impl Iterator<Item = &'r Rule>,
    rules: &'r RuleSet,
    tables: &[MetricTable],
    steps: &StepTimes,
    env: &Environment<'r>,
) -> Judged {
    let mut all = Judged::default();
    // Entries that mean any of these rules, with whether they silence one.
    let mut entries: BTreeMap<usize, bool> = BTreeMap::new();
    for rule in judging {
        let table = tables.iter().find(|t| t.view == rule.table());
        let judged = evaluate(rule, table, steps, env);
        if let Some(ceiling) = judged.ceiling {
            all.ceilings.insert(rule.code.clone(), ceiling * 100.0);
        }
        let meant = rules.ignores().iter().enumerate().filter(|(_, i)| i.means(&rule.code));
        let meant: Vec<_> = meant.collect();
        for (at, _) in &meant {
            entries.entry(*at).or_default();
        }
        let holds = meant.into_iter().rev().find(|(_, i)| !i.is_expired(rules.today()));
        match judged.outcome {
            Outcome::Fired(finding) => match holds {
                Some((at, ignore)) => {
                    entries.insert(at, true);
                    all.ignored.push(IgnoredFinding {
                        code: finding.code,
                        name: finding.name,
                        severity: finding.severity,
                        title: finding.title,
                        message: finding.message,
                        fingerprint: finding.fingerprint,
                        reason: ignore.reason.clone(),
                        until: ignore.until.map(|d| d.to_string()),
                        at: ignore.at.clone(),
                    });
                }
                None => all.findings.push(*finding),
            },
            Outcome::Unknown(reason) => all.unknown.push(UnknownRule {
                code: rule.code.clone(),
                name: rule.name.clone(),
                reason,
            }),
            Outcome::Passed => all.passed.push(rule.code.clone()),
        }
    }
    for (at, silences) in entries {
        let ignore = &rules.ignores()[at];
        if ignore.is_expired(rules.today()) {
            all.warnings.push(about_ignore("ignore-expired", ignore, "is over", ignore.until));
        } else if !silences {
            let what = "silences nothing in this run";
            all.warnings.push(about_ignore("ignore-unused", ignore, what, None));
        }
    }
    all
}

/// Takes out what could return less than `min_pct` of step time. What has no estimate stays: nobody knows.
fn take_small(findings: &mut Vec<Finding>, min_pct: Option<f64>) -> Vec<HiddenFinding> {
    let Some(min_pct) = min_pct else { return Vec::new() };
    let small = findings
        .extract_if(.., |f| !f.is_note() && f.gain.high_pct.is_some_and(|high| high < min_pct));
    small
        .filter_map(|f| {
            let gain_high_pct = f.gain.high_pct?;
            Some(HiddenFinding { code: f.code, name: f.name, gain_high_pct })
        })
        .collect()
}

/// Adds the second estimates of gains. One that says much less than the first makes the finding less
/// sure: what is lost there may not be what holds the run up.
fn second_opinions(findings: &mut [Finding], rules: &[Rule], tables: &[MetricTable]) {
    for finding in findings {
        let metric = rules.iter().find(|r| r.code == finding.code);
        let Some(metric) = metric.and_then(|r| r.gain.what_if.as_ref()) else { continue };
        let Some(table) = tables.iter().find(|t| t.view == metric.view) else { continue };
        let Some(pct) = most_of(table, &metric.column, &finding.affected.ranks) else { continue };
        finding.gain.what_if_pct = Some(tidy(pct));
        let ranks = &finding.affected.ranks;
        finding.sql.what_if = Some(sql::largest(&metric.view, &metric.column, ranks));
        if finding.gain.low_pct.is_some_and(|low| pct < low * DISAGREES && low - pct >= 1.0) {
            finding.confidence = Confidence::lowered(finding.confidence);
            finding.caveats.push(format!(
                "the critical path, timed again without it, gets only {pct:.1} % shorter"
            ));
        }
    }
}

/// Adds the lines of the program that have most of what the rule names, on the ranks it fired for.
fn sources(findings: &mut [Finding], rules: &[Rule], tables: &[MetricTable]) {
    for finding in findings {
        let rule = rules.iter().find(|r| r.code == finding.code);
        let Some(metric) = rule.and_then(|r| r.source.as_ref()) else { continue };
        let Some(table) = tables.iter().find(|t| t.view == metric.view) else { continue };
        let ranks = &finding.affected.ranks;
        finding.source = lines(table, &metric.column, ranks);
        finding.sql.source = Some(sql::lines(&metric.view, &metric.column, ranks, MAX_LINES));
    }
}

/// Adds the moments that show a finding, if the rule says how to find them and they were looked for; what to
/// ask for them in any case. Where nothing else says which lines of the program it comes from, they do.
fn moments(findings: &mut [Finding], rules: &[Rule], tables: &[MetricTable]) {
    for finding in findings {
        let rule = rules.iter().find(|r| r.code == finding.code);
        let Some(query) = rule.and_then(|r| r.evidence.as_ref()) else { continue };
        finding.sql.seen = Some(sql::moments(query, &finding.affected.ranks, MAX_EVIDENCE));
        let name = evidence_table(&finding.code);
        let Some(table) = tables.iter().find(|t| t.view == name) else { continue };
        finding.seen = seen(table);
        if finding.source.is_empty() {
            finding.source = sources_of(table);
        }
    }
}

/// The moments in the rows that [`sql::moments`] asks for.
fn seen(table: &MetricTable) -> Option<Seen> {
    let integer = |row: &[Value], name: &str| match row.get(table.index(name)?)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let first = table.rows.first()?;
    let count = usize::try_from(integer(first, sql::MOMENT_COUNT)?).ok()?;
    let sum_ns = integer(first, sql::MOMENTS_NS)?;
    let own = ["ts_ns", "dur_ns", sql::MOMENT_COUNT, sql::MOMENTS_NS];
    let moment = |row: &Vec<Value>| {
        let columns =
            table.columns.iter().zip(row).filter(|((name, _), value)| {
                !own.contains(&name.as_str()) && **value != Value::Null
            });
        Some(Moment {
            ts_ns: integer(row, "ts_ns")?,
            dur_ns: integer(row, "dur_ns")?,
            columns: Columns(columns.map(|((name, _), v)| (name.clone(), v.clone())).collect()),
        })
    };
    Some(Seen { count, sum_ns, longest: table.rows.iter().filter_map(moment).collect() })
}

/// The lines of the program that rows name, each once.
fn sources_of(table: &MetricTable) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &table.rows {
        if let Some(Value::Text(line)) = table.index("source").and_then(|i| row.get(i))
            && !lines.contains(line)
        {
            lines.push(line.clone());
        }
    }
    lines
}

/// Lines named in a finding, and the least share of the whole that one must have.
const MAX_LINES: usize = 3;
const MIN_LINE_SHARE: f64 = 0.05;

/// The lines with the largest values of a column, over some ranks; over all if none is named.
fn lines(table: &MetricTable, column: &str, ranks: &[i64]) -> Vec<String> {
    let (Some(rank), Some(source), Some(column)) =
        (table.index("rank"), table.index("source"), table.index(column))
    else {
        return Vec::new();
    };
    let mut by_line: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &table.rows {
        let meant = ranks.is_empty() || matches!(row[rank], Value::Int(r) if ranks.contains(&r));
        if let (true, Value::Text(line), Some(value)) = (meant, &row[source], row[column].as_f64())
        {
            *by_line.entry(line).or_default() += value;
        }
    }
    let least = by_line.values().sum::<f64>() * MIN_LINE_SHARE;
    let mut lines: Vec<(&str, f64)> =
        by_line.into_iter().filter(|(_, value)| *value > 0.0 && *value >= least).collect();
    lines.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    lines.into_iter().take(MAX_LINES).map(|(line, _)| line.to_owned()).collect()
}

/// Below this share of the first estimate's lower end, the second disagrees.
const DISAGREES: f64 = 0.5;

/// The largest value of a column, in percent, over some ranks; over all if none is named.
fn most_of(table: &MetricTable, column: &str, ranks: &[i64]) -> Option<f64> {
    let (rank, column) = (table.index("rank")?, table.index(column)?);
    let values = table.rows.iter().filter_map(|row| {
        let meant = ranks.is_empty() || matches!(row[rank], Value::Int(r) if ranks.contains(&r));
        row[column].as_f64().filter(|_| meant)
    });
    values.max_by(f64::total_cmp).map(|share| share * 100.0)
}

/// Lowers the confidence of findings whose numbers a note about the trace puts in doubt: those of
/// the areas it names, if they are about a rank it is about. `watched`: notes that are not shown.
fn weaken<'r>(
    findings: &mut [Finding],
    rules: impl Iterator<Item = &'r Rule>,
    watched: &[Finding],
) {
    let notes: Vec<(&Rule, String, Vec<i64>)> = rules
        .filter(|r| !r.weakens.is_empty())
        .filter_map(|r| {
            let note = findings.iter().chain(watched).find(|f| f.code == r.code)?;
            Some((r, note.title.clone(), note.affected.ranks.clone()))
        })
        .collect();
    for finding in findings {
        for (rule, title, ranks) in &notes {
            let is_meant = finding.code != rule.code
                && rule.weakens.iter().any(|prefix| finding.code.starts_with(prefix.as_str()));
            let own = &finding.affected.ranks;
            let meets = own.is_empty() || ranks.is_empty() || own.iter().any(|r| ranks.contains(r));
            if is_meant && meets {
                finding.confidence = Confidence::lowered(finding.confidence);
                finding.caveats.push(format!("{}: {title}", rule.code));
            }
        }
    }
}

fn about_ignore(kind: &str, ignore: &Ignore, what: &str, until: Option<Date>) -> ReportWarning {
    let day = until.map(|d| format!(" ({d})")).unwrap_or_default();
    ReportWarning {
        code: kind.to_owned(),
        file: ignore.at.clone(),
        message: format!("the entry that ignores {} {what}{day}: remove it", ignore.what()),
        count: 1,
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
