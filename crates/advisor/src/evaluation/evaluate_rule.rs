//! Evaluates one rule on all rows of its table: one finding, or the reason why there is none.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use minijinja::Environment;
use trace_model::time::ns_to_ms;
use trace_model::{Capability, MetricTable, Row, Scope, Value};

use crate::evaluation::held_capabilities::missing;
use crate::evaluation::run_traits::RunTraits;
use crate::evaluation::verdict::{RowVerdict, RuleEvaluator, Violation};
use crate::language::expr::{self, Context};
use crate::language::rule::{Rule, STEP_TIME_VIEW, SeverityLimit};
use crate::language::severity::Severity;
use crate::language::sql;
use crate::report::finding::{
    Affected, AffectedRow, Columns, Evidence, Finding, FindingLimit, GainEstimate, MAX_AFFECTED,
    MAX_EVIDENCE, Queries, fingerprint, round4,
};

/// A finding whose gain is less than this share of step time is an info, whatever its rule says.
const NEGLIGIBLE_PCT: f64 = 0.1;

/// The verdict of a rule on the run.
#[derive(Debug, Clone)]
pub(crate) enum RuleVerdict {
    Passed,
    Fired(Box<Finding>),
    Unknown {
        reason: String,
        /// Kinds of data that the recording lacks and that the verdict needs.
        needs: Vec<Capability>,
    },
}

/// Ranks that are timed again in a run with more of them.
pub const MAX_RETIMED_RANKS: usize = 4;

/// Step time by rank.
#[derive(Debug, Default)]
pub(crate) struct StepTimes {
    by_rank: BTreeMap<i64, f64>,
}

impl StepTimes {
    pub(crate) fn read(tables: &[MetricTable]) -> Self {
        // In a trace without steps the whole recording is one row: that is not a step time.
        let steps = MetricTable::rows_of(tables, STEP_TIME_VIEW)
            .filter(|row| row.text("source") != Some("trace"));
        let of_rank = |row: Row<'_>| row.integer("rank").zip(row.number("mean_ns"));
        Self { by_rank: steps.filter_map(of_rank).collect() }
    }

    /// Step time for a row: its own, else that of its rank, else that of the slowest rank.
    fn of(&self, row: Row<'_>) -> Option<f64> {
        let own = row.number("step_ns").filter(|_| row.integer("step_count") != Some(0));
        let of_rank = || self.by_rank.get(&row.integer("rank")?).copied();
        own.or_else(of_rank).or_else(|| self.slowest())
    }

    /// The slowest ranks of a run with many; none if the run has few.
    pub(crate) fn slowest_ranks(&self) -> Vec<i64> {
        if self.by_rank.len() <= MAX_RETIMED_RANKS {
            return Vec::new();
        }
        let mut ranks: Vec<(&i64, &f64)> = self.by_rank.iter().collect();
        ranks.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let mut slowest: Vec<i64> = ranks.iter().map(|(rank, _)| **rank).collect();
        slowest.truncate(MAX_RETIMED_RANKS);
        slowest.sort_unstable();
        slowest
    }

    pub(crate) fn slowest(&self) -> Option<f64> {
        self.by_rank.values().copied().max_by(f64::total_cmp)
    }

    /// Returns true if the steps of the slowest rank take at least 2 % longer than the steps of the fastest rank.
    pub(crate) fn differ(&self) -> bool {
        let fastest = self.by_rank.values().copied().min_by(f64::total_cmp);
        self.slowest().zip(fastest).is_some_and(|(slowest, fastest)| slowest >= 1.02 * fastest)
    }

    /// The slowest rank; of equals the first.
    pub(crate) fn slowest_rank(&self) -> Option<i64> {
        let slowest = self.by_rank.iter().rev().max_by(|a, b| a.1.total_cmp(b.1));
        slowest.map(|(rank, _)| *rank)
    }
}

/// A row that a rule fires for.
struct FiredRow<'t> {
    row: Row<'t>,
    violation: Violation,
    ceiling: Option<f64>,
    keys: Columns,
}

/// The verdicts on the rows of a table.
#[derive(Default)]
struct RowVerdicts<'t> {
    fired: Vec<FiredRow<'t>>,
    passed: usize,
    unknown: usize,
}

/// Evaluates every row of the rule's table.
pub(crate) fn evaluate_rule<'s>(
    rule: &'s Rule,
    table: Option<&MetricTable>,
    steps: &StepTimes,
    traits: &RunTraits,
    env: &Environment<'s>,
) -> RuleVerdict {
    let Some(table) = table else {
        let reason = format!("`{}` was not computed", rule.table());
        return RuleVerdict::Unknown { reason, needs: Vec::new() };
    };
    let evaluator = RuleEvaluator::new(rule, env);
    let mut verdicts = RowVerdicts::default();
    let mut first_unknown = None;
    for row in table.named_rows() {
        let names = traits.names(row);
        match evaluator.verdict(row, &names, traits.held_by(row.integer("rank"))) {
            RowVerdict::Pass => verdicts.passed += 1,
            RowVerdict::Unknown { reason, needs } => {
                verdicts.unknown += 1;
                first_unknown.get_or_insert((row, reason, needs));
            }
            RowVerdict::Violation(violation) => {
                let (ceiling, keys) = (evaluator.ceiling(&names), keys(rule, row));
                verdicts.fired.push(FiredRow { row, violation, ceiling, keys });
            }
        }
    }
    if !verdicts.fired.is_empty() {
        verdicts.fired.sort_by(worse);
        let context = traits.context(verdicts.fired[0].row);
        RuleVerdict::Fired(Box::new(finding(rule, table, steps, env, &verdicts, &context)))
    } else if let Some((row, reason, needs)) = first_unknown {
        let rows = table.rows.len();
        let reason = reason.render(env, &traits.context(row));
        let reason = if verdicts.unknown < rows {
            format!("{reason} ({} of {rows} {}s)", verdicts.unknown, rule.metric.scope)
        } else {
            reason
        };
        RuleVerdict::Unknown { reason, needs }
    } else if verdicts.passed == 0 {
        let reason = if table.when_empty.is_empty() {
            format!("`{}` has no rows", table.view)
        } else {
            table.when_empty.clone()
        };
        RuleVerdict::Unknown { reason, needs: missing(&rule.metric.requires, traits.held_by(None)) }
    } else {
        RuleVerdict::Passed
    }
}

/// Worst first: severity, then margin, then what could be gained, then name.
fn worse(a: &FiredRow<'_>, b: &FiredRow<'_>) -> Ordering {
    b.violation
        .severity
        .cmp(&a.violation.severity)
        .then_with(|| b.violation.margin.total_cmp(&a.violation.margin))
        .then_with(|| b.ceiling.unwrap_or(0.0).total_cmp(&a.ceiling.unwrap_or(0.0)))
        .then_with(|| key_text(&a.keys).cmp(&key_text(&b.keys)))
}

fn finding<'s>(
    rule: &'s Rule,
    table: &MetricTable,
    steps: &StepTimes,
    env: &Environment<'s>,
    verdicts: &RowVerdicts<'_>,
    row_context: &Context,
) -> Finding {
    let fired = &verdicts.fired;
    let worst = &fired[0];
    let check = &rule.checks[worst.violation.check];
    let largest = largest_gain(fired);
    let gain = gain(rule, steps, largest);
    // Good programs meet popular thresholds too: a finding that is known to cost next to nothing is
    // shown on request only.
    let floor_pct = (rule.gain.floor * 100.0).max(NEGLIGIBLE_PCT);
    let is_cheap = gain.high_pct.is_some_and(|high| high < floor_pct);
    let severity = if is_cheap { Severity::Info } else { worst.violation.severity };

    let mut context = row_context.clone();
    context.insert("value".to_owned(), expr::in_words(worst.violation.value, check.unit).into());
    context.insert("threshold".to_owned(), worst.violation.threshold.text.clone().into());
    context.insert("severity".to_owned(), severity.as_str().into());
    let (confidence, caveats) = confidence(rule, env, row_context);
    let gain_of = rule.gain.of.as_deref().and_then(|of| expr::Formula::new(env, of).ok());
    let mut shown = vec![worst.row];
    shown.extend(
        largest.map(|(_, row)| row).filter(|row| !std::ptr::eq(row.values, worst.row.values)),
    );
    let value_sql = sql::of_rows(
        rule,
        table,
        &check.column,
        gain_of.as_ref().map(expr::Formula::reads).unwrap_or_default(),
        &shown,
    );

    let mut key_texts: Vec<String> = fired.iter().map(|f| key_text(&f.keys)).collect();
    key_texts.sort();
    let parts = std::iter::once(rule.code.as_str()).chain(key_texts.iter().map(String::as_str));

    let affected = affected(rule, table, verdicts);
    let evidence_query = rule.evidence.as_deref();
    let occurrences =
        evidence_query.map(|query| sql::longest_ranges(query, &affected.ranks, MAX_EVIDENCE));

    let fix_titles = rule
        .fix_titles
        .iter()
        .map(|(fix, title)| (fix.clone(), title.render_or_source(env, &context)))
        .filter(|(_, title)| !title.is_empty())
        .collect();
    let advice = rule.advice.iter().map(|part| part.render_or_source(env, &context));
    Finding {
        position: 0,
        code: rule.code.clone(),
        name: rule.name.clone(),
        category: rule.category.clone(),
        severity,
        confidence,
        caveats,
        title: rule.title.render_or_source(env, &context),
        message: rule.message.render_or_source(env, &context),
        metric: format!("{}.{}", rule.metric.view, check.column),
        value: worst.violation.value,
        unit: check.unit.as_str().to_owned(),
        threshold: worst.violation.threshold.text.clone(),
        threshold_at: worst.violation.threshold.at.clone(),
        scope: rule.metric.scope.as_str().to_owned(),
        affected,
        gain,
        fixes: Vec::new(),
        unknown_fixes: Vec::new(),
        is_cause: false,
        own_confidence: confidence,
        severity_limits: severity_limits(rule, env, &context),
        fix_titles,
        unpredicted_pct: 0.0,
        plan_position: None,
        evidence: fired.iter().take(MAX_EVIDENCE).map(|f| evidence(&table.view, f.row)).collect(),
        left_out_fixes: Vec::new(),
        occurrences: None,
        source: Vec::new(),
        advice: advice.filter(|text| !text.is_empty()).collect(),
        links: rule.links.clone(),
        fingerprint: fingerprint(parts),
        baseline_state: None,
        sql: Queries { value: value_sql, occurrences, ..Queries::default() },
        priority_pct: 0.0,
        is_note: rule.is_trace_quality(),
    }
}

/// The row with the largest gain, and that gain: synchronized ranks run at the pace of the slowest.
fn largest_gain<'t>(fired: &[FiredRow<'t>]) -> Option<(f64, Row<'t>)> {
    let gains = fired.iter().filter_map(|f| Some((f.ceiling?, f.row)));
    gains.max_by(|(a, _), (b, _)| a.total_cmp(b))
}

fn gain(rule: &Rule, steps: &StepTimes, largest: Option<(f64, Row<'_>)>) -> GainEstimate {
    let Some((ceiling, row)) = largest else {
        return GainEstimate::default();
    };
    let high = ceiling * rule.gain.high;
    GainEstimate {
        share_pct: Some(round4(ceiling * 100.0)),
        low_pct: Some(round4(ceiling * rule.gain.low * 100.0)),
        high_pct: Some(round4(high * 100.0)),
        ms_per_step: steps.of(row).map(|step_ns| round4(ns_to_ms(high * step_ns))),
        method: rule.gain.method,
        ..GainEstimate::default()
    }
}

fn confidence<'s>(
    rule: &'s Rule,
    env: &Environment<'s>,
    context: &Context,
) -> (crate::Confidence, Vec<String>) {
    let mut confidence = rule.confidence;
    let mut caveats = Vec::new();
    for lower in &rule.lower_confidence {
        let holds =
            expr::Formula::new(env, &lower.when).is_ok_and(|f| f.truth(context) == Ok(true));
        if holds {
            confidence = lower.to.map_or(confidence.lowered(), |to| confidence.min(to));
            let reason = &lower.reason;
            caveats.push(reason.render(env, context).unwrap_or_else(|_| reason.source()));
        }
    }
    (confidence, caveats)
}

/// The limits of the severity that hold for a row.
fn severity_limits<'s>(
    rule: &'s Rule,
    env: &Environment<'s>,
    context: &Context,
) -> Vec<FindingLimit> {
    let holds = |when: &'s str| {
        expr::Formula::new(env, when).is_ok_and(|formula| formula.truth(context) == Ok(true))
    };
    let limits = rule.unpredicted.iter().filter(|limit| holds(&limit.when));
    let rendered = |limit: &'s SeverityLimit| FindingLimit {
        to: limit.to,
        reason: limit.reason.render_or_source(env, context),
        advice: limit.advice.render_or_source(env, context),
    };
    limits.map(rendered).collect()
}

fn affected(rule: &Rule, table: &MetricTable, verdicts: &RowVerdicts<'_>) -> Affected {
    let RowVerdicts { fired, passed, unknown } = verdicts;
    let rows: Vec<Row<'_>> = fired.iter().map(|f| f.row).collect();
    let all: Vec<Row<'_>> = table.named_rows().collect();
    let by_step = rule.metric.scope == Scope::Step;
    let by_rank = rule.metric.scope.keys().contains(&"rank");
    let ranks = |rows| if by_rank { numbers("rank", rows) } else { BTreeSet::new() };
    let steps = |rows: &[Row<'_>]| by_step.then(|| numbers("step", rows).len());
    // A row that spans several steps has their number.
    let over = || {
        let count = fired.first()?.row.number("step_count")?;
        (count >= 1.0).then_some(count as usize)
    };
    let worst: Vec<AffectedRow> = fired
        .iter()
        .take(MAX_AFFECTED)
        .map(|f| AffectedRow {
            label: label(&f.keys),
            keys: f.keys.clone(),
            value: f.violation.value,
            severity: f.violation.severity,
        })
        .collect();
    // Rows of process groups stand for several ranks each.
    let are_groups = table.index("highest_rank").is_some();
    Affected {
        fired: fired.len(),
        passed: *passed,
        unknown: *unknown,
        ranks: ranks(&rows).into_iter().collect(),
        of_ranks: if are_groups { 0 } else { ranks(&all).len() },
        steps: steps(&rows),
        of_steps: steps(&all).or_else(over),
        more: fired.len() - worst.len(),
        worst,
    }
}

/// The integers of a column, each once.
fn numbers(column: &str, rows: &[Row<'_>]) -> BTreeSet<i64> {
    rows.iter().filter_map(|row| row.integer(column)).collect()
}

/// The columns that identify a row of the rule's scope, where the table has them.
fn keys(rule: &Rule, row: Row<'_>) -> Columns {
    let keys = rule.metric.scope.keys().iter();
    Columns::of(keys.filter_map(|key| Some((*key, row.get(key)?))))
}

/// The keys of a row as a stable text: fingerprints of findings contain it.
fn key_text(keys: &Columns) -> String {
    join_keys(keys, |name, value| format!("{name} {value}"))
}

/// The keys of a row for people: `rank 4, device 2`. Names of operators and kernels speak for themselves.
fn label(keys: &Columns) -> String {
    join_keys(keys, |name, value| match name {
        "name" | "op_name" => value.to_owned(),
        _ => format!("{name} {value}"),
    })
}

fn join_keys(keys: &Columns, write: impl Fn(&str, &str) -> String) -> String {
    if keys.0.is_empty() {
        return "run".to_owned();
    }
    // Metrics of a machine have no device.
    let known = keys.0.iter().filter(|(_, value)| *value != Value::Null);
    let parts: Vec<String> =
        known.map(|(name, value)| write(name, &expr::short(&value.to_string()))).collect();
    parts.join(", ")
}

fn evidence(view: &str, row: Row<'_>) -> Evidence {
    let range = row.integer("ts_ns").zip(row.integer("dur_ns"));
    let (ts_ns, dur_ns) = range.unzip();
    Evidence { view: view.to_owned(), columns: Columns::of(row.cells()), ts_ns, dur_ns }
}
