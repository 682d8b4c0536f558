//! Rows that only findings need: second estimates of gains, source lines, time ranges.
//!
//! They cost more than the metrics that rules are evaluated on, so they are fetched after the
//! evaluation, for the rules that fired.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{MetricSpec, MetricTable, Value};

use crate::finding::{Columns, Finding, Occurrences, TimeRange, round4};
use crate::report::Report;
use crate::rule::{EvidenceQuery, Rule};
use crate::ruleset::RuleSet;
use crate::severity::Confidence;
use crate::sql;

/// The views and queries that the findings of a report need. See [`Report::follow_ups`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowUps {
    /// Views with second estimates of gains, sorted.
    pub what_if_views: Vec<String>,
    /// Views that say where in the program a finding comes from, sorted. Only traces with call
    /// stacks have rows there.
    pub source_views: Vec<String>,
    /// Queries for the time ranges in which findings occur.
    pub evidence_queries: Vec<EvidenceQuery>,
}

impl FollowUps {
    /// Whether the report is complete without them.
    pub fn is_empty(&self) -> bool {
        self.what_if_views.is_empty()
            && self.source_views.is_empty()
            && self.evidence_queries.is_empty()
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
        let queries = self.findings.iter().filter_map(|finding| {
            Some(EvidenceQuery {
                name: evidence_table(&finding.code),
                rule: finding.name.clone(),
                sql: finding.sql.occurrences.clone()?,
            })
        });
        FollowUps {
            what_if_views: views_of(fired().filter_map(|r| r.gain.what_if.as_ref())),
            source_views: views_of(fired().filter_map(|r| r.source.as_ref())),
            evidence_queries: queries.collect(),
        }
    }

    /// Adds the rows of [`Report::follow_ups`] to the findings and sorts these anew: a second
    /// estimate may lower a finding's confidence. `rules` are those of the report. Call it once;
    /// tables that are missing leave findings as they are.
    pub fn attach(&mut self, rules: &RuleSet, tables: &[MetricTable]) {
        for finding in &mut self.findings {
            let Some(rule) = rules.rules().iter().find(|r| r.code == finding.code) else {
                continue;
            };
            attach_what_if(finding, rule, tables);
            attach_source(finding, rule, tables);
            attach_occurrences(finding, tables);
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

/// Below this share of the low end of the first estimate, the second one disagrees.
const DISAGREEMENT_RATIO: f64 = 0.5;

/// Adds the second estimate of the gain. If it is much smaller than the first, the finding gets less
/// confidence: the lost time may not be on the critical path.
fn attach_what_if(finding: &mut Finding, rule: &Rule, tables: &[MetricTable]) {
    let Some(metric) = &rule.gain.what_if else { return };
    let Some(table) = tables.iter().find(|t| t.view == metric.view) else { return };
    let Some(pct) = largest_pct(table, &metric.column, &finding.affected.ranks) else { return };
    finding.gain.what_if_pct = Some(round4(pct));
    let ranks = &finding.affected.ranks;
    finding.sql.what_if = Some(sql::largest(&metric.view, &metric.column, ranks));
    if finding.gain.low_pct.is_some_and(|low| pct < low * DISAGREEMENT_RATIO && low - pct >= 1.0) {
        finding.confidence = Confidence::lowered(finding.confidence);
        finding.caveats.push(format!(
            "the critical path, timed again without it, gets only {pct:.1} % shorter"
        ));
    }
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
fn attach_occurrences(finding: &mut Finding, tables: &[MetricTable]) {
    let name = evidence_table(&finding.code);
    let Some(table) = tables.iter().find(|t| t.view == name) else { return };
    finding.occurrences = occurrences(table);
    if finding.source.is_empty() {
        finding.source = distinct_sources(table);
    }
}

/// Reads the rows of [`sql::longest_ranges`].
fn occurrences(table: &MetricTable) -> Option<Occurrences> {
    let integer = |row: &[Value], name: &str| match row.get(table.index(name)?)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let first = table.rows.first()?;
    let count = usize::try_from(integer(first, sql::RANGE_COUNT)?).ok()?;
    let sum_ns = integer(first, sql::RANGES_NS)?;
    let own = ["ts_ns", "dur_ns", sql::RANGE_COUNT, sql::RANGES_NS];
    let time_range = |row: &Vec<Value>| {
        let columns =
            table.columns.iter().zip(row).filter(|((name, _), value)| {
                !own.contains(&name.as_str()) && **value != Value::Null
            });
        Some(TimeRange {
            ts_ns: integer(row, "ts_ns")?,
            dur_ns: integer(row, "dur_ns")?,
            columns: Columns(columns.map(|((name, _), v)| (name.clone(), v.clone())).collect()),
        })
    };
    Some(Occurrences { count, sum_ns, longest: table.rows.iter().filter_map(time_range).collect() })
}

/// The source lines of the rows, each once.
fn distinct_sources(table: &MetricTable) -> Vec<String> {
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

/// Source lines listed in a finding.
const MAX_LINES: usize = 3;

/// Share of the total below which a source line is not listed.
const MIN_LINE_SHARE: f64 = 0.05;

/// The source lines with the largest values of a column, over some ranks; over all if `ranks` is empty.
fn top_lines(table: &MetricTable, column: &str, ranks: &[i64]) -> Vec<String> {
    let (Some(rank), Some(source), Some(column)) =
        (table.index("rank"), table.index("source"), table.index(column))
    else {
        return Vec::new();
    };
    let mut by_line: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &table.rows {
        let is_selected = is_of_ranks(&row[rank], ranks);
        if let (true, Value::Text(line), Some(value)) =
            (is_selected, &row[source], row[column].as_f64())
        {
            *by_line.entry(line).or_default() += value;
        }
    }
    let min_value = by_line.values().sum::<f64>() * MIN_LINE_SHARE;
    let mut lines: Vec<(&str, f64)> =
        by_line.into_iter().filter(|(_, value)| *value > 0.0 && *value >= min_value).collect();
    lines.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    lines.into_iter().take(MAX_LINES).map(|(line, _)| line.to_owned()).collect()
}

/// The largest value of a ratio column, in percent, over some ranks; over all if `ranks` is empty.
fn largest_pct(table: &MetricTable, column: &str, ranks: &[i64]) -> Option<f64> {
    let (rank, column) = (table.index("rank")?, table.index(column)?);
    let values = table.rows.iter().filter_map(|row| {
        let is_selected = is_of_ranks(&row[rank], ranks);
        row[column].as_f64().filter(|_| is_selected)
    });
    values.max_by(f64::total_cmp).map(|share| share * 100.0)
}

fn is_of_ranks(rank: &Value, ranks: &[i64]) -> bool {
    ranks.is_empty() || matches!(rank, Value::Int(rank) if ranks.contains(rank))
}
