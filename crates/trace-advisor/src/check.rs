//! Checks a run, with cached answers where there are any.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use std::{fmt, io};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use ingest::{CacheEntry, Location, Progress};
use serde::{Deserialize, Serialize};
use trace_model::retiming::{Retiming, RetimingRequest};
use trace_model::{MetricTable, RunInfo};

use crate::error::Error;
use crate::evaluate::{Answer, Computed, MetricProvider, RunMetadata, Stage, evaluate};
use crate::options::OpenOptions;
use crate::pipeline::Run;

/// A checked run.
#[derive(Debug)]
pub struct Checked {
    /// The findings.
    pub report: Report,
    /// Wall time of each stage, in order.
    pub stages: Vec<Stage>,
    /// The run, if it had to be opened.
    pub run: Option<Run>,
    /// The reason why nothing could be cached.
    pub cache_error: Option<io::Error>,
}

/// A run that is open and about to be checked: its description is known, and no rule has been evaluated.
pub struct PendingCheck<'a> {
    info: RunInfo,
    input: CheckInput<'a>,
    stages: Vec<Stage>,
}

/// The source of the metrics that rules read.
enum CheckInput<'a> {
    Opened(Box<Run>),
    Cached(Box<CachedRun<'a>>),
}

/// Opens the run at `path` to check it. With a cache, answers from earlier checks are reused, and a run is read only
/// when an answer is missing: `progress` then reports during [`PendingCheck::evaluate`].
///
/// # Errors
/// If the run cannot be read.
pub fn open_check<'a>(
    path: impl AsRef<Path>,
    options: &'a OpenOptions,
    progress: &'a dyn Progress,
) -> Result<PendingCheck<'a>, Error> {
    let start = Instant::now();
    let location = Location::parse(path)?;
    let cache = options.cache.as_ref().filter(|_| options.mapped.is_none());
    let entry = cache.and_then(|cache| cache.entry(&location, &options.ingest));
    let Some(entry) = entry else {
        let run = Run::open_at(location, None, options, progress)?;
        let info = run.info().clone();
        let input = CheckInput::Opened(Box::new(run));
        return Ok(PendingCheck { info, input, stages: Vec::new() });
    };
    let answers = AnswerCache::load(&entry, options, &location);
    let stages = vec![Stage { name: "cache", elapsed: start.elapsed() }];
    let (run, is_dirty) = (None, false);
    let mut cached = CachedRun { location, entry, options, progress, answers, run, is_dirty };
    let info = cached.metadata()?.info.clone();
    Ok(PendingCheck { info, input: CheckInput::Cached(Box::new(cached)), stages })
}

impl PendingCheck<'_> {
    /// The description of the run.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Evaluates the rules.
    ///
    /// # Errors
    /// If the query of a rule fails, or the run has to be read now and cannot.
    pub fn evaluate(self, rules: &RuleSet) -> Result<Checked, Error> {
        let Self { input, mut stages, .. } = self;
        let mut cached = match input {
            CheckInput::Opened(run) => {
                let report = run.check(rules)?;
                let stages = run.stages();
                return Ok(Checked { report, stages, run: Some(*run), cache_error: None });
            }
            CheckInput::Cached(cached) => *cached,
        };
        let cached_options = cached.options;
        let report =
            evaluate(rules, &mut cached, cached_options.step_time_ns, |stage| stages.push(stage))?;
        let cache_error = if cached.is_dirty { cached.store().err() } else { None };
        let run = cached.run;
        if let Some(run) = &run {
            stages.splice(1..1, run.stages());
        }
        Ok(Checked { report, stages, run, cache_error })
    }
}

impl fmt::Debug for PendingCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCheck").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Checks the run at `path`: [`open_check`] and [`PendingCheck::evaluate`] in one call.
///
/// # Errors
/// If the run cannot be read, or the query of a rule fails.
pub fn check(
    path: impl AsRef<Path>,
    options: &OpenOptions,
    rules: &RuleSet,
    progress: &dyn Progress,
) -> Result<Checked, Error> {
    open_check(path, options, progress)?.evaluate(rules)
}

/// Cached answers about a run, by question.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AnswerCache {
    metadata: Option<RunMetadata>,
    tables: BTreeMap<String, MetricTable>,
    retimings: BTreeMap<String, Retiming>,
}

impl AnswerCache {
    /// Limit on the number of answers: a rule under development asks a new question after each edit.
    const MAX_ANSWERS: usize = 2_000;

    fn load(entry: &CacheEntry, options: &OpenOptions, location: &Location) -> Self {
        let bytes = entry.load(ANSWERS, &options_key(options)).unwrap_or_default();
        let mut answers: Self = postcard::from_bytes(&bytes).unwrap_or_default();
        if answers.tables.len() > Self::MAX_ANSWERS {
            answers.tables.clear();
            answers.retimings.clear();
        }
        if let Some(metadata) = &mut answers.metadata {
            metadata.info.path = location.to_string();
            metadata.info.command_options = options.command_options.clone();
        }
        answers
    }
}

/// Name of the answers in a cache entry.
const ANSWERS: &str = "answers";

/// Key of the options that all answers depend on: the selected part of the run, and the parameters that are not the
/// defaults.
fn options_key(options: &OpenOptions) -> String {
    let params = analyses::catalog().without_defaults(&options.params);
    format!("{params:?} {:?}", options.selection)
}

/// A run that is read only for answers that are not cached.
struct CachedRun<'a> {
    location: Location,
    entry: CacheEntry,
    options: &'a OpenOptions,
    progress: &'a dyn Progress,
    answers: AnswerCache,
    run: Option<Run>,
    /// Whether there are answers that are not stored yet.
    is_dirty: bool,
}

impl CachedRun<'_> {
    fn run(&mut self) -> Result<&Run, Error> {
        if self.run.is_none() {
            let (location, entry) = (self.location.clone(), self.entry.clone());
            self.run = Some(Run::open_at(location, Some(entry), self.options, self.progress)?);
        }
        Ok(self.run.as_ref().expect("it was just opened"))
    }

    /// Stores the answers in the cache.
    fn store(&self) -> io::Result<()> {
        let bytes = postcard::to_stdvec(&self.answers).map_err(io::Error::other)?;
        self.entry.store(ANSWERS, &options_key(self.options), &bytes)
    }

    fn insert(&mut self, question: String, answer: MetricTable) {
        self.answers.tables.insert(question, answer);
        self.is_dirty = true;
    }

    /// The cached answer, else that of the run.
    fn get_or_compute(
        &mut self,
        question: String,
        compute: impl FnOnce(&mut &Run) -> Result<MetricTable, Error>,
    ) -> Result<MetricTable, Error> {
        if let Some(answer) = self.answers.tables.get(&question) {
            return Ok(answer.clone());
        }
        let answer = compute(&mut self.run()?)?;
        self.insert(question, answer.clone());
        Ok(answer)
    }

    /// As `get_or_compute`, for several queries, of which the run answers those that are not cached in one call. Failures are
    /// not cached: the next check tries again.
    fn get_or_compute_each<Q: Clone, E>(
        &mut self,
        queries: &[Q],
        question: impl Fn(&Q) -> String,
        compute: impl FnOnce(&mut &Run, &[Q]) -> Result<Vec<Result<MetricTable, E>>, Error>,
    ) -> Result<Vec<Result<MetricTable, E>>, Error> {
        let cached = |query: &Q| self.answers.tables.get(&question(query)).cloned().map(Ok);
        let mut answers: Vec<Option<_>> = queries.iter().map(cached).collect();
        let missing = queries.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let missing: Vec<Q> = missing.map(|(query, _)| query.clone()).collect();
        if !missing.is_empty() {
            let computed = compute(&mut self.run()?, &missing)?;
            let open = answers.iter_mut().filter(|answer| answer.is_none());
            for ((query, computed), answer) in missing.iter().zip(computed).zip(open) {
                if let Ok(table) = &computed {
                    self.insert(question(query), table.clone());
                }
                *answer = Some(computed);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

impl MetricProvider for CachedRun<'_> {
    fn metadata(&mut self) -> Result<&RunMetadata, Error> {
        if self.answers.metadata.is_none() {
            self.answers.metadata = Some((&mut self.run()?).metadata()?.clone());
            self.is_dirty = true;
        }
        Ok(self.answers.metadata.as_ref().expect("it was just inserted"))
    }

    fn views(&mut self, views: &[&str]) -> Result<Vec<Computed>, Error> {
        self.get_or_compute_each(
            views,
            |view| format!("view {view}"),
            |run, views| run.views(views),
        )
    }

    fn expect_retiming(&mut self) -> Result<(), Error> {
        // With an answer at hand, others probably are, too.
        if self.answers.tables.is_empty() {
            (&mut self.run()?).expect_retiming()?;
        }
        Ok(())
    }

    fn rule_query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error> {
        self.get_or_compute(format!("{query:?}"), |run| run.rule_query(query))
    }

    fn evidence_queries(&mut self, queries: &[EvidenceQuery]) -> Result<Vec<Answer>, Error> {
        let question = |query: &EvidenceQuery| format!("{query:?}");
        self.get_or_compute_each(queries, question, |run, queries| run.evidence_queries(queries))
    }

    fn retime(&mut self, request: &RetimingRequest) -> Result<(Retiming, Vec<String>), Error> {
        let question = format!("{request:?}");
        if let Some(answer) = self.answers.retimings.get(&question) {
            return Ok((answer.clone(), Vec::new()));
        }
        let (answer, left_out) = (&mut self.run()?).retime(request)?;
        if left_out.is_empty() {
            self.answers.retimings.insert(question, answer.clone());
            self.is_dirty = true;
        }
        Ok((answer, left_out))
    }
}
