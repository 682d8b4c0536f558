//! What only findings need: the effects of fixes, source lines, time ranges.
//!
//! They cost more than the metrics that rules are evaluated on, so they are fetched after the
//! evaluation, for the rules that fired.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::retiming::{FixEdits, Retiming, RetimingRequest};
use trace_model::{MetricSpec, MetricTable, Row, Value};

use crate::evaluation::evaluate::drop_below_min_gain;
use crate::language::fix::Fix;
use crate::language::rule::{EvidenceQuery, Rule};
use crate::language::ruleset::RuleSet;
use crate::language::severity::{GainMethod, Severity};
use crate::language::sql;
use crate::report::finding::{Columns, Finding, MAX_EVIDENCE, Occurrences, TimeRange, round4};
use crate::report::plan::{self, MeasuredPredictions};
use crate::report::recording::RecordingKind;
use crate::report::report::Report;

/// The views and queries that the findings of a report need. See [`Report::follow_ups`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FollowUps {
    /// Fixes under which the run is to be timed again; `None` if no finding has one.
    pub retiming: Option<RetimingRequest>,
    /// Views that say where in the program a finding comes from, sorted. Only traces with call
    /// stacks have rows there.
    pub source_views: Vec<String>,
    /// Queries for the time ranges in which findings occur.
    pub evidence_queries: Vec<EvidenceQuery>,
}

impl FollowUps {
    /// Whether the report is complete without them.
    pub fn is_empty(&self) -> bool {
        self.retiming.is_none() && self.source_views.is_empty() && self.evidence_queries.is_empty()
    }
}

impl Report {
    /// The views and queries to compute for the findings; [`Report::attach`] takes their rows.
    /// `rules` are those of the report.
    pub fn follow_ups(&self, rules: &RuleSet) -> FollowUps {
        let fired = || {
            let has_finding = |rule: &&Rule| self.findings.iter().any(|f| f.code == rule.code);
            rules.rules().iter().filter(has_finding)
        };
        let queries = fired().filter_map(|rule| {
            let finding = self.findings.iter().find(|f| f.code == rule.code)?;
            let query = rule.evidence.as_deref()?;
            Some(EvidenceQuery {
                name: evidence_table(&finding.code),
                rule: finding.name.clone(),
                sql: sql::longest_ranges(query, &finding.affected.ranks, MAX_TIMELINE_RANGES),
            })
        });
        FollowUps {
            retiming: self.retiming_request(rules),
            source_views: views_of(fired().filter_map(|r| r.source.as_ref())),
            evidence_queries: queries.collect(),
        }
    }

    /// Removes gains that neither the time of the recording shows nor a recording that was timed again: those from rules
    /// of thumb and from limits of the hardware, and all of a recording that hardly shows the program at work.
    fn drop_unproven_gains(&mut self) {
        let shows_little = self.severe_limit().is_some();
        let is_on_cpu = self.recording.as_ref().is_some_and(|recording| recording.is_on_cpu);
        let shows_nothing = self.severe_limit() == Some(RecordingKind::AlmostEmpty) && !is_on_cpu;
        for finding in &mut self.findings {
            // A handful of kernels and calls supports no advice but to record again.
            if shows_nothing && !finding.is_note() {
                finding.severity = finding.severity.min(Severity::Info);
            }
            let is_estimate =
                matches!(finding.gain.method, GainMethod::Heuristic | GainMethod::Roofline);
            if is_estimate || shows_little {
                finding.gain.promise_nothing();
            }
        }
    }

    /// The fixes of the findings, with what they are to be weighed by.
    fn retiming_request(&self, rules: &RuleSet) -> Option<RetimingRequest> {
        if self.severe_limit().is_some() {
            return None;
        }
        let of_fix = |fix: &Fix| {
            Some(FixEdits {
                name: fix.name.clone(),
                edits: fix.edits.clone(),
                weight: plan::weight(fix, &self.findings)?,
                is_certain: fix.is_certain,
                instead_of: fix.instead_of.clone(),
                effect: fix.effect,
            })
        };
        let fixes: Vec<FixEdits> = self.totals.fixes.iter().filter_map(of_fix).collect();
        let ranks = self.totals.ranks.clone();
        (!fixes.is_empty()).then_some(RetimingRequest {
            fixes,
            ranks,
            error: rules.prediction().error,
            step_time_ns: self.totals.unprofiled_step_ns,
            ..RetimingRequest::default()
        })
    }

    /// Adds the answers to [`Report::follow_ups`] to the findings, makes the plan, and sorts the findings anew.
    /// `rules` are those of the report. Call it once; what is missing leaves findings as they are.
    pub fn attach(&mut self, rules: &RuleSet, tables: &[MetricTable], retiming: Option<&Retiming>) {
        if let Some(retiming) = retiming.filter(|retiming| retiming.recorded_ns > 0.0) {
            self.plan = Some({
                let is_detail =
                    |code: &str| rules.rules().iter().any(|r| r.code == code && r.refines);
                let measured =
                    MeasuredPredictions::new(rules, self.totals.device_family.as_deref());
                plan::apply(&mut self.findings, &self.totals.fixes, retiming, measured, is_detail)
            });
            let min_pct = rules.policy().min_gain_pct;
            self.below_min_gain.extend(drop_below_min_gain(&mut self.findings, min_pct));
        }
        self.drop_unproven_gains();
        for finding in &mut self.findings {
            finding.limit_severity();
        }
        for finding in &mut self.findings {
            let Some(rule) = rules.rules().iter().find(|r| r.code == finding.code) else {
                continue;
            };
            attach_source(finding, rule, tables);
            attach_occurrences(finding, tables, self.run.wall_ns);
        }
        self.prioritize(rules);
    }
}

fn views_of<'r>(metrics: impl Iterator<Item = &'r MetricSpec>) -> Vec<String> {
    metrics.map(|m| m.view.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Name of the metric table with the time ranges of a finding.
fn evidence_table(code: &str) -> String {
    format!("evidence of {code}")
}

/// Adds the source lines with most of the rule's `source` metric, on the ranks it fired for.
fn attach_source(finding: &mut Finding, rule: &Rule, tables: &[MetricTable]) {
    let Some(metric) = &rule.source else { return };
    let Some(table) = tables.iter().find(|t| t.view == metric.view) else { return };
    let ranks = &finding.affected.ranks;
    finding.source = top_lines(table, &metric.column, ranks);
    finding.sql.source = Some(sql::lines(&metric.view, &metric.column, ranks, MAX_LINES));
}

/// Adds the time ranges in which the finding occurs. Where no metric gives its source lines, those of
/// the time ranges stand in.
fn attach_occurrences(finding: &mut Finding, tables: &[MetricTable], wall_ns: i64) {
    let name = evidence_table(&finding.code);
    let Some(table) = tables.iter().find(|t| t.view == name) else { return };
    finding.occurrences = occurrences(table, wall_ns);
    if finding.source.is_empty() {
        finding.source = distinct_sources(table);
    }
}

/// Reads the rows of [`sql::longest_ranges`].
fn occurrences(table: &MetricTable, wall_ns: i64) -> Option<Occurrences> {
    let first = table.first_row()?;
    let count = usize::try_from(first.integer(sql::RANGE_COUNT)?).ok()?;
    let sum_ns = first.integer(sql::RANGES_NS)?;
    let own = ["ts_ns", "dur_ns", sql::RANGE_COUNT, sql::RANGES_NS];
    let time_range = |row: Row<'_>| {
        let columns =
            row.cells().filter(|(name, value)| !own.contains(name) && **value != Value::Null);
        Some(TimeRange {
            ts_ns: row.integer("ts_ns")?,
            dur_ns: row.integer("dur_ns")?,
            columns: Columns::of(columns),
        })
    };
    let mut longest: Vec<TimeRange> = table.named_rows().filter_map(time_range).collect();
    let timeline = timeline(&longest, wall_ns);
    longest.truncate(MAX_EVIDENCE);
    Some(Occurrences { count, sum_ns, longest, timeline })
}

/// Time ranges that the timeline of a finding is drawn from.
const MAX_TIMELINE_RANGES: usize = 256;

/// Parts of a timeline.
const TIMELINE_PARTS: i64 = 32;

/// The share of each part of the recording that the ranges of the first rank cover.
fn timeline(ranges: &[TimeRange], wall_ns: i64) -> Vec<f64> {
    let rank = |range: &TimeRange| range.columns.0.iter().find(|(name, _)| name == "rank").cloned();
    let Some(first) = ranges.first().filter(|_| wall_ns >= TIMELINE_PARTS) else {
        return Vec::new();
    };
    let first_rank = rank(first);
    let mut own: Vec<(i64, i64)> = ranges
        .iter()
        .filter(|range| rank(range) == first_rank)
        .map(|range| (range.ts_ns, range.ts_ns.saturating_add(range.dur_ns)))
        .collect();
    own.sort_unstable();
    let edge =
        |part: i64| (i128::from(wall_ns) * i128::from(part) / i128::from(TIMELINE_PARTS)) as i64;
    let covered_ratio = |part: i64| {
        let (start, end) = (edge(part), edge(part + 1));
        let (mut covered_ns, mut until) = (0, start);
        for &(from, to) in &own {
            let (from, to) = (from.max(until), to.min(end));
            if to > from {
                covered_ns += to - from;
                until = to;
            }
        }
        round4(covered_ns as f64 / (end - start) as f64)
    };
    (0..TIMELINE_PARTS).map(covered_ratio).collect()
}

/// The source lines of the rows, each once.
fn distinct_sources(table: &MetricTable) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in table.named_rows().filter_map(|row| row.text("source")) {
        if !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Source lines listed in a finding.
const MAX_LINES: usize = 3;

/// Share of the total below which a source line is not listed.
const MIN_LINE_SHARE: f64 = 0.05;

/// The source lines with the largest values of a column, over some ranks; over all if `ranks` is empty.
fn top_lines(table: &MetricTable, column: &str, ranks: &[i64]) -> Vec<String> {
    let mut by_line: BTreeMap<&str, f64> = BTreeMap::new();
    for row in table.named_rows().filter(|row| is_of_ranks(*row, ranks)) {
        if let (Some(line), Some(value)) = (row.text("source"), row.number(column)) {
            *by_line.entry(line).or_default() += value;
        }
    }
    let min_value = by_line.values().sum::<f64>() * MIN_LINE_SHARE;
    let mut lines: Vec<(&str, f64)> =
        by_line.into_iter().filter(|(_, value)| *value > 0.0 && *value >= min_value).collect();
    lines.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    lines.into_iter().take(MAX_LINES).map(|(line, _)| line.to_owned()).collect()
}

fn is_of_ranks(row: Row<'_>, ranks: &[i64]) -> bool {
    ranks.is_empty() || row.integer("rank").is_some_and(|rank| ranks.contains(&rank))
}
