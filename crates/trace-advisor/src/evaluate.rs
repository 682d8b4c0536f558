//! Evaluates rules on a run: computes the metrics, then the rows that only findings need.

use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, Report, ReportWarning, RuleQuery, RuleSet};
use serde::{Deserialize, Serialize};
use trace_model::retiming::{Retiming, RetimingRequest};
use trace_model::{FailedTable, MetricTable, RunInfo, Warning};

use crate::error::Error;

/// Wall time of one stage of the pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// `cache`, `read`, `session`, `views`, `rules`, `re-timing`, `sources`, `evidence`, `query`.
    pub name: &'static str,
    /// Wall time.
    pub elapsed: Duration,
}

/// A source of the tables that rules need: a run, or its cached answers.
pub(crate) trait MetricProvider {
    fn metadata(&mut self) -> Result<&RunMetadata, Error>;
    /// Says that [`MetricProvider::retime`] probably follows, so that its preparation may run beside views.
    fn expect_retiming(&mut self) -> Result<(), Error>;
    /// Returns the table of each view, or the reason why the view failed.
    fn views(&mut self, views: &[&str]) -> Result<Vec<Computed>, Error>;
    fn rule_query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error>;
    /// Returns the answers in the order of the queries.
    fn evidence_queries(&mut self, queries: &[EvidenceQuery]) -> Result<Vec<Answer>, Error>;
    /// Also returns the reasons why fixes were left out.
    fn retime(&mut self, request: &RetimingRequest) -> Result<(Retiming, Vec<String>), Error>;
}

/// The table of a view, or the reason why the view failed.
pub(crate) type Computed = Result<MetricTable, FailedTable>;

/// The rows of a query of a rule.
pub(crate) type Answer = Result<MetricTable, Error>;

/// The properties of a run that are not in its tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunMetadata {
    pub(crate) info: RunInfo,
    pub(crate) warnings: Vec<Warning>,
    /// Whether the trace of any rank has call stacks.
    pub(crate) has_stacks: bool,
}

/// Evaluates the rules on the tables of `provider`; `on_stage` gets the time of each stage. `step_time_ns`: what a step
/// takes without the profiler, if that is known.
pub(crate) fn evaluate(
    rules: &RuleSet,
    provider: &mut impl MetricProvider,
    step_time_ns: Option<i64>,
    mut on_stage: impl FnMut(Stage),
) -> Result<Report, Error> {
    let mut finish = |name, start: Instant| on_stage(Stage { name, elapsed: start.elapsed() });
    let start = Instant::now();
    let metadata = provider.metadata()?.clone();
    let (mut tables, mut failed) = (Vec::new(), Vec::new());
    if !rules.fixes().is_empty() {
        provider.expect_retiming()?;
    }
    for table in provider.views(&rules.views())? {
        table.map_or_else(|table| failed.push(table), |table| tables.push(table));
    }
    for query in rules.queries() {
        match or_reason(provider.rule_query(&query))? {
            Ok(table) => tables.push(table),
            Err(reason) => failed.push(FailedTable { view: query.name, reason }),
        }
    }
    tables.sort_by(|a, b| a.view.cmp(&b.view));
    finish("views", start);

    let start = Instant::now();
    let RunMetadata { info, warnings, .. } = &metadata;
    let mut report = advisor::evaluate_without(rules, &tables, &failed, info, warnings);
    finish("rules", start);

    let mut follow_ups = report.follow_ups(rules);
    if !metadata.has_stacks {
        follow_ups.source_views.clear();
    }
    let mut retiming = None;
    if let Some(request) = &mut follow_ups.retiming {
        let start = Instant::now();
        request.step_time_ns = step_time_ns.or(request.step_time_ns);
        match or_reason(provider.retime(request))? {
            Ok((timed, left_out)) => {
                retiming = Some(timed);
                report.warnings.extend(left_out.iter().map(|reason| missing(reason)));
            }
            Err(reason) => report.warnings.push(missing(&reason)),
        }
        finish("re-timing", start);
    }
    if !follow_ups.source_views.is_empty() {
        let start = Instant::now();
        let views: Vec<&str> = follow_ups.source_views.iter().map(String::as_str).collect();
        for table in provider.views(&views)? {
            match table {
                Ok(table) => tables.push(table),
                Err(table) => report.warnings.push(missing(&table.reason)),
            }
        }
        finish("sources", start);
    }
    if !follow_ups.evidence_queries.is_empty() {
        let start = Instant::now();
        for answer in provider.evidence_queries(&follow_ups.evidence_queries)? {
            match or_reason(answer)? {
                Ok(table) => tables.push(table),
                Err(reason) => report.warnings.push(missing(&reason)),
            }
        }
        finish("evidence", start);
    }
    report.attach(rules, &tables, retiming.as_ref());
    Ok(report)
}

/// Returns the answer, or the reason why a view or query failed. Other errors abort the evaluation.
pub(crate) fn or_reason<T>(answer: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => error.failed_query().map(Err).ok_or(error),
    }
}

/// Returns the warning about a missing part of the report.
fn missing(reason: &str) -> ReportWarning {
    let message = format!("{reason}; the report omits its results");
    ReportWarning { code: "view-failed".to_owned(), file: String::new(), message, count: 1 }
}
