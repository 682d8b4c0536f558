//! Judging a run: what the rules ask, and who answers: the run, or what is remembered of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use std::{fmt, io};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use ingest::{CacheEntry, Location, Progress};
use serde::{Deserialize, Serialize};
use trace_model::{MetricTable, RunInfo, Warning};

use crate::error::Error;
use crate::pipeline::{OpenOptions, Run, Stage};

/// A run, judged.
#[derive(Debug)]
pub struct Checked {
    /// The findings.
    pub report: Report,
    /// What each stage took, in order.
    pub stages: Vec<Stage>,
    /// The run, if it had to be opened.
    pub run: Option<Run>,
    /// Why nothing could be kept for the next time.
    pub not_kept: Option<io::Error>,
}

/// A run that is open and about to be checked: what it holds is known, no rule has been evaluated.
pub struct PendingCheck<'a> {
    info: RunInfo,
    input: CheckInput<'a>,
    stages: Vec<Stage>,
}

/// What answers the questions of the rules.
enum CheckInput<'a> {
    Opened(Box<Run>),
    Cached(Box<Memory<'a>>),
}

/// Opens the run at `path` to check it. With a cache, a run of which enough is remembered is not read at all, or only
/// when a rule asks something new: `progress` then reports during [`PendingCheck::evaluate`].
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
    let entry = options.cache.as_ref().and_then(|cache| cache.entry(&location, &options.ingest));
    let Some(entry) = entry else {
        let run = Run::open_at(location, None, options, progress)?;
        let info = run.info().clone();
        return Ok(PendingCheck {
            info,
            input: CheckInput::Opened(Box::new(run)),
            stages: Vec::new(),
        });
    };
    let known = Known::load(&entry, options, &location);
    let stages = vec![Stage { name: "cache", elapsed: start.elapsed() }];
    let (run, has_news) = (None, false);
    let mut memory = Memory { location, entry, options, progress, known, run, has_news };
    let info = memory.facts()?.info.clone();
    Ok(PendingCheck { info, input: CheckInput::Cached(Box::new(memory)), stages })
}

impl PendingCheck<'_> {
    /// What the run holds.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Evaluates the rules.
    ///
    /// # Errors
    /// If the query of a rule fails, or the run has to be read now and cannot.
    pub fn evaluate(self, rules: &RuleSet) -> Result<Checked, Error> {
        let Self { input, mut stages, .. } = self;
        let mut memory = match input {
            CheckInput::Opened(run) => {
                let report = run.check(rules)?;
                let stages = run.stages();
                return Ok(Checked { report, stages, run: Some(*run), not_kept: None });
            }
            CheckInput::Cached(memory) => *memory,
        };
        let report = judge(rules, &mut memory, |stage| stages.push(stage))?;
        let not_kept = if memory.has_news { memory.keep().err() } else { None };
        let run = memory.run;
        if let Some(run) = &run {
            stages.splice(1..1, run.stages());
        }
        Ok(Checked { report, stages, run, not_kept })
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

/// Whoever can say what rules want to know of a run.
pub(crate) trait Answers {
    fn facts(&mut self) -> Result<&Facts, Error>;
    fn views(&mut self, views: &[&str]) -> Result<Vec<MetricTable>, Error>;
    fn query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error>;
    fn moments(&mut self, query: &EvidenceQuery) -> Result<MetricTable, Error>;
}

/// What is known of a run beside its tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) info: RunInfo,
    pub(crate) warnings: Vec<Warning>,
    /// Any rank's trace says where in the program something was called.
    pub(crate) has_stacks: bool,
}

/// Judges what `run` answers; `timed` is told what each stage took.
pub(crate) fn judge(
    rules: &RuleSet,
    run: &mut impl Answers,
    mut timed: impl FnMut(Stage),
) -> Result<Report, Error> {
    let mut stage = |name, start: Instant| timed(Stage { name, elapsed: start.elapsed() });
    let start = Instant::now();
    let facts = run.facts()?.clone();
    let mut tables = run.views(&rules.views())?;
    for query in rules.queries() {
        tables.push(run.query(&query)?);
    }
    tables.sort_by(|a, b| a.view.cmp(&b.view));
    stage("views", start);
    let start = Instant::now();
    let report = advisor::advise(rules, &tables, &facts.info, &facts.warnings);
    stage("rules", start);
    let what_if = rules.what_if_views(&report);
    let sources = if facts.has_stacks { rules.source_views(&report) } else { Vec::new() };
    let evidence = rules.evidence_queries(&report);
    if what_if.is_empty() && sources.is_empty() && evidence.is_empty() {
        return Ok(report);
    }
    for (name, views) in [("what-if", what_if), ("sources", sources)] {
        if !views.is_empty() {
            let start = Instant::now();
            tables.extend(run.views(&views)?);
            stage(name, start);
        }
    }
    if !evidence.is_empty() {
        let start = Instant::now();
        for query in &evidence {
            tables.push(run.moments(query)?);
        }
        stage("evidence", start);
    }
    let start = Instant::now();
    let report = advisor::advise(rules, &tables, &facts.info, &facts.warnings);
    stage("rules", start);
    Ok(report)
}

/// What is remembered of a run: answers by question.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    facts: Option<Facts>,
    answers: BTreeMap<String, MetricTable>,
}

impl Known {
    /// Questions that are remembered at most: rules that are being written ask ever new ones.
    const MOST: usize = 2_000;

    fn load(entry: &CacheEntry, options: &OpenOptions, location: &Location) -> Self {
        let bytes = entry.load(ANSWERS, &part(options)).unwrap_or_default();
        let mut known: Self = postcard::from_bytes(&bytes).unwrap_or_default();
        if known.answers.len() > Self::MOST {
            known.answers.clear();
        }
        if let Some(facts) = &mut known.facts {
            facts.info.path = location.to_string();
        }
        known
    }
}

/// What is kept in the cache here.
const ANSWERS: &str = "answers";

/// What all answers depend on: the part of the run, and the parameters.
fn part(options: &OpenOptions) -> String {
    format!("{:?} {:?}", options.params, options.selection)
}

/// A run that is read when it is asked something new.
struct Memory<'a> {
    location: Location,
    entry: CacheEntry,
    options: &'a OpenOptions,
    progress: &'a dyn Progress,
    known: Known,
    run: Option<Run>,
    has_news: bool,
}

impl Memory<'_> {
    fn run(&mut self) -> Result<&Run, Error> {
        if self.run.is_none() {
            let (location, entry) = (self.location.clone(), self.entry.clone());
            self.run = Some(Run::open_at(location, Some(entry), self.options, self.progress)?);
        }
        Ok(self.run.as_ref().expect("it was just opened"))
    }

    /// Keeps what is known for the next time.
    fn keep(&self) -> io::Result<()> {
        let bytes = postcard::to_stdvec(&self.known).map_err(io::Error::other)?;
        self.entry.store(ANSWERS, &part(self.options), &bytes)
    }

    fn learn(&mut self, question: String, answer: MetricTable) {
        self.known.answers.insert(question, answer);
        self.has_news = true;
    }

    /// What is remembered, or what the run says.
    fn ask(
        &mut self,
        question: String,
        ask: impl FnOnce(&mut &Run) -> Result<MetricTable, Error>,
    ) -> Result<MetricTable, Error> {
        if let Some(answer) = self.known.answers.get(&question) {
            return Ok(answer.clone());
        }
        let answer = ask(&mut self.run()?)?;
        self.learn(question, answer.clone());
        Ok(answer)
    }
}

impl Answers for Memory<'_> {
    fn facts(&mut self) -> Result<&Facts, Error> {
        if self.known.facts.is_none() {
            self.known.facts = Some((&mut self.run()?).facts()?.clone());
            self.has_news = true;
        }
        Ok(self.known.facts.as_ref().expect("they were just found out"))
    }

    fn views(&mut self, views: &[&str]) -> Result<Vec<MetricTable>, Error> {
        let question = |view: &str| format!("view {view}");
        let is_new = |view: &&&str| !self.known.answers.contains_key(&question(view));
        let new: Vec<&str> = views.iter().filter(is_new).copied().collect();
        if !new.is_empty() {
            let answers = (&mut self.run()?).views(&new)?;
            for (view, answer) in new.into_iter().zip(answers) {
                self.learn(question(view), answer);
            }
        }
        Ok(views
            .iter()
            .filter_map(|view| self.known.answers.get(&question(view)).cloned())
            .collect())
    }

    fn query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error> {
        self.ask(format!("{query:?}"), |run| run.query(query))
    }

    fn moments(&mut self, query: &EvidenceQuery) -> Result<MetricTable, Error> {
        self.ask(format!("{query:?}"), |run| run.moments(query))
    }
}
