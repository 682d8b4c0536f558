//! The one place where the parts are wired: ingest, the views that rules need, metrics, rules.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use analyses::{Params, Selection, Session};
use arrow::array::AsArray;
use ingest::{Location, NoProgress, Progress};
use trace_model::{MetricTable, RecordBatch, RunInfo, TableSet, Warning};

use crate::error::Error;

/// How to open a run.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// How files are read.
    pub ingest: ingest::Options,
    /// Values for the parameters of views.
    pub params: Params,
    /// Which part of the run is asked about.
    pub selection: Selection,
}

/// What one stage of the pipeline took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// `read`, `session`, `views`, `rules`, `what-if`, `sources`, `evidence`, `query`.
    pub name: &'static str,
    /// Wall time.
    pub elapsed: Duration,
}

/// What one table that rules judge takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The view, or the rule that brings the query.
    pub table: String,
    /// Wall time, if it is asked for alone: with all that it is built on, nothing of which is at hand.
    pub elapsed: Duration,
}

/// A run in memory, ready for questions.
#[derive(Debug)]
pub struct Run {
    location: Location,
    info: RunInfo,
    warnings: Vec<Warning>,
    tables: TableSet,
    params: Params,
    session: Session,
    stages: Mutex<Vec<Stage>>,
}

impl Run {
    /// Reads a run: a trace file or a folder of them; a path or an address, see [`Location`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &OpenOptions::default(), &NoProgress)
    }

    /// Reads a run with options, telling `progress` how it goes.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let location = Location::parse(path)?;
        let mut dataset = ingest::read_location(&location, &options.ingest, progress)?;
        if !options.selection.is_everything() {
            dataset.tables = options.selection.apply(&dataset.tables)?;
            options.selection.describe(&dataset.tables, &mut dataset.run);
        }
        let read = Stage { name: "read", elapsed: start.elapsed() };
        let start = Instant::now();
        // Batches are shared: the copy costs a few pointers.
        let session = Session::new(dataset.tables.clone(), options.params.clone())?;
        let params = options.params.clone();
        let ready = Stage { name: "session", elapsed: start.elapsed() };
        Ok(Self {
            location,
            info: dataset.run,
            warnings: dataset.warnings,
            tables: dataset.tables,
            params,
            session,
            stages: Mutex::new(vec![read, ready]),
        })
    }

    /// Writes the timelines of all ranks into one file, see [`ingest::merge`]; it is compressed if its name ends
    /// in `.gz`.
    ///
    /// # Errors
    /// If there is no timeline, a trace has changed since it was read, or the file cannot be written.
    pub fn merge(&self, to: &Path, overwrite: bool) -> Result<ingest::Merged, Error> {
        let (run, info, tables) = (&self.location, &self.info, &self.tables);
        let merge = ingest::Merge { run, info, tables, to, overwrite };
        self.timed("merge", || Ok(ingest::merge(&merge)?))
    }

    /// Judges the run.
    pub fn check(&self, rules: &RuleSet) -> Result<Report, Error> {
        let mut tables = self.timed("views", || {
            let mut tables = self.session.metric_tables(&rules.views())?;
            for query in rules.queries() {
                tables.push(rule_query(&self.session, &query)?);
            }
            Ok::<_, Error>(tables)
        })?;
        tables.sort_by(|a, b| a.view.cmp(&b.view));
        let judge = |tables: &[MetricTable]| {
            self.timed("rules", || advisor::advise(rules, tables, &self.info, &self.warnings))
        };
        let report = judge(&tables);
        let what_if = rules.what_if_views(&report);
        let sources = if self.has_stacks() { rules.source_views(&report) } else { Vec::new() };
        let evidence = rules.evidence_queries(&report);
        if what_if.is_empty() && sources.is_empty() && evidence.is_empty() {
            return Ok(report);
        }
        if !what_if.is_empty() {
            tables.extend(self.timed("what-if", || self.session.metric_tables(&what_if))?);
        }
        if !sources.is_empty() {
            tables.extend(self.timed("sources", || self.session.metric_tables(&sources))?);
        }
        if !evidence.is_empty() {
            let rows = || {
                evidence.iter().map(|q| moments(&self.session, q)).collect::<Result<Vec<_>, _>>()
            };
            tables.extend(self.timed("evidence", rows)?);
        }
        Ok(judge(&tables))
    }

    /// What each table that the rules judge takes, one after the other. Their sum is more than what [`Run::check`]
    /// takes, where what several are built on is computed once.
    pub fn costs(&self, rules: &RuleSet) -> Result<Vec<Cost>, Error> {
        let timed = |table: &str, ask: &dyn Fn(&Session) -> Result<(), Error>| {
            let session = Session::new(self.tables.clone(), self.params.clone())?;
            let start = Instant::now();
            ask(&session)?;
            Ok::<_, Error>(Cost { table: table.to_owned(), elapsed: start.elapsed() })
        };
        let views = rules.views();
        let views = views
            .iter()
            .map(|&view| timed(view, &|session| Ok(session.metric_tables(&[view]).map(drop)?)));
        let queries = rules.queries();
        let queries = queries
            .iter()
            .map(|query| timed(&query.name, &|session| rule_query(session, query).map(drop)));
        views.chain(queries).collect()
    }

    /// The rows of a view, in its own order.
    pub fn analyze(&self, view: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.analyze(view))?)
    }

    /// The rows of a query; only queries are allowed, nothing that changes anything.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.sql(query))?)
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// What was read.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// What could not be read, or only in part.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The tables as read.
    pub fn tables(&self) -> &TableSet {
        &self.tables
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// What each stage took so far, in order.
    pub fn stages(&self) -> Vec<Stage> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether any rank's trace says where in the program something was called.
    fn has_stacks(&self) -> bool {
        self.tables.get("ranks").iter().any(|ranks| {
            let has_stacks = ranks.column_by_name("has_stacks");
            has_stacks.and_then(|c| c.as_boolean_opt()).is_some_and(|c| c.true_count() > 0)
        })
    }

    fn timed<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let stage = Stage { name, elapsed: start.elapsed() };
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
        result
    }
}

fn rule_query(session: &Session, query: &RuleQuery) -> Result<MetricTable, Error> {
    let batches = sql_of(session, &query.name, &query.sql)?;
    let table = crate::rules::metric_table(query, &batches);
    table.map_err(|message| Error::RuleColumns { rule: query.name.clone(), message })
}

fn moments(session: &Session, query: &EvidenceQuery) -> Result<MetricTable, Error> {
    let batches = sql_of(session, &query.rule, &query.sql)?;
    let table = crate::rules::evidence_table(query, &batches);
    table.map_err(|message| Error::RuleColumns { rule: query.rule.clone(), message })
}

fn sql_of(session: &Session, rule: &str, sql: &str) -> Result<Vec<RecordBatch>, Error> {
    let error = |source| Error::RuleQuery { rule: rule.to_owned(), source };
    session.sql(sql).map_err(error)
}
