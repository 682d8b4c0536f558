//! Evaluates rules on a run: computes the metrics, then the rows that only findings need.

use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use serde::{Deserialize, Serialize};
use trace_model::retiming::{Retiming, RetimingRequest};
use trace_model::{MetricTable, RunInfo, Warning};

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
    fn views(&mut self, views: &[&str]) -> Result<Vec<MetricTable>, Error>;
    fn rule_query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error>;
    fn evidence_query(&mut self, query: &EvidenceQuery) -> Result<MetricTable, Error>;
    fn retime(&mut self, request: &RetimingRequest) -> Result<Retiming, Error>;
}

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
    let mut tables = provider.views(&rules.views())?;
    for query in rules.queries() {
        tables.push(provider.rule_query(&query)?);
    }
    tables.sort_by(|a, b| a.view.cmp(&b.view));
    finish("views", start);

    let start = Instant::now();
    let mut report = advisor::evaluate(rules, &tables, &metadata.info, &metadata.warnings);
    finish("rules", start);

    let mut follow_ups = report.follow_ups(rules);
    if !metadata.has_stacks {
        follow_ups.source_views.clear();
    }
    let mut retiming = None;
    if let Some(request) = &mut follow_ups.retiming {
        let start = Instant::now();
        request.step_time_ns = step_time_ns;
        retiming = Some(provider.retime(request)?);
        finish("re-timing", start);
    }
    if !follow_ups.source_views.is_empty() {
        let start = Instant::now();
        let views: Vec<&str> = follow_ups.source_views.iter().map(String::as_str).collect();
        tables.extend(provider.views(&views)?);
        finish("sources", start);
    }
    if !follow_ups.evidence_queries.is_empty() {
        let start = Instant::now();
        for query in &follow_ups.evidence_queries {
            tables.push(provider.evidence_query(query)?);
        }
        finish("evidence", start);
    }
    report.attach(rules, &tables, retiming.as_ref());
    Ok(report)
}
