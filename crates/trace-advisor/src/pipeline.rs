//! The one place where the parts are wired: ingest, the views that rules need, metrics, rules.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use analyses::{Params, Selection, Session, Tables};
use arrow::array::AsArray;
use ingest::{Location, NoProgress, Progress};
use tempfile::TempDir;
use trace_model::{Dataset, MetricTable, RecordBatch, RunInfo, TableSet, TableSource, Warning};

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
    /// Bytes of memory that tables and queries may take, see [`Session::open`]; no limit by default. The tables of a
    /// larger run are read from an export while they are asked about; if it is not one, it is exported first, to a
    /// folder for temporary files that goes with the [`Run`].
    pub memory_bytes: Option<u64>,
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

/// A run, ready for questions.
#[derive(Debug)]
pub struct Run {
    location: Location,
    info: RunInfo,
    warnings: Vec<Warning>,
    /// Of a run that is not in memory, only the table `ranks` and what is about the run as a whole.
    tables: TableSet,
    source: Option<Arc<dyn TableSource>>,
    is_export: bool,
    params: Params,
    memory_bytes: Option<u64>,
    session: Session,
    stages: Mutex<Vec<Stage>>,
    /// What was exported on the way; removed after everything that reads it is gone.
    scratch: Option<TempDir>,
}

/// The tables of a run, or where they come from.
struct Contents {
    dataset: Dataset,
    source: Option<Arc<dyn TableSource>>,
    is_export: bool,
    scratch: Option<TempDir>,
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
        let contents = Contents::read(&location, options, progress)?;
        let Contents { dataset, source, is_export, scratch } = contents;
        let read = Stage { name: "read", elapsed: start.elapsed() };
        let start = Instant::now();
        let mut run = Self {
            location,
            info: dataset.run,
            warnings: dataset.warnings,
            tables: dataset.tables,
            source,
            is_export,
            params: options.params.clone(),
            memory_bytes: options.memory_bytes,
            session: Session::new(TableSet::default(), options.params.clone())?,
            stages: Mutex::default(),
            scratch,
        };
        run.session = run.new_session()?;
        let ready = Stage { name: "session", elapsed: start.elapsed() };
        run.stages = Mutex::new(vec![read, ready]);
        Ok(run)
    }

    /// Writes the timelines of all ranks into one file, see [`ingest::merge`]; it is compressed if its name ends
    /// in `.gz`.
    ///
    /// # Errors
    /// If there is no timeline, a trace has changed since it was read, or the file cannot be written.
    pub fn merge(&self, to: &Path, overwrite: bool) -> Result<ingest::Merged, Error> {
        self.needs_traces()?;
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
            let session = self.new_session()?;
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

    /// The tables as read; those of a run that is not in memory are read when they are asked about, and have no rows
    /// here.
    pub fn tables(&self) -> &TableSet {
        &self.tables
    }

    /// Rows of a table; at most so many, if it is part of a run that is not in memory.
    pub fn rows(&self, table: &str) -> usize {
        self.source
            .as_ref()
            .map_or_else(|| self.tables.rows(table), |source| source.partitions(table).iter().sum())
    }

    /// Whether the tables are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.source.is_none()
    }

    /// Whether the run had to be exported to be read, because it is larger than the limit.
    pub fn was_exported(&self) -> bool {
        self.scratch.is_some()
    }

    /// That there are traces, and not only their tables.
    pub(crate) fn needs_traces(&self) -> Result<(), Error> {
        if self.is_export {
            return Err(ingest::Error::only_tables(self.location.to_string()).into());
        }
        Ok(())
    }

    fn new_session(&self) -> Result<Session, Error> {
        // Batches are shared: the copy costs a few pointers.
        let tables = match &self.source {
            Some(source) => Tables::Scanned(Arc::clone(source)),
            None => Tables::Loaded(self.tables.clone()),
        };
        Ok(Session::open(tables, self.memory_bytes, self.params.clone())?)
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

impl Contents {
    fn read(
        location: &Location,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let opened = ingest::open(location, &options.ingest)?;
        let is_export = opened.export().is_some();
        let selection = &options.selection;
        if options.memory_bytes.is_none_or(|limit| opened.table_bytes() <= limit) {
            let mut dataset = opened.read(&options.ingest, progress)?;
            if !selection.is_everything() {
                dataset.tables = selection.apply(&dataset.tables)?;
                selection.describe(&dataset.tables, &mut dataset.run);
            }
            return Ok(Self { dataset, source: None, is_export, scratch: None });
        }
        let mut scratch = None;
        let export = if let Some(export) = opened.export() {
            Arc::clone(export)
        } else {
            let folder = TempDir::new()
                .map_err(|source| ingest::Error::Write { path: std::env::temp_dir(), source })?;
            let to = folder.path().join("run");
            ingest::export(location, &options.ingest, &to, false, progress)?;
            scratch = Some(folder);
            ingest::Export::open(&to)?
        };
        let mut dataset = export.read_head()?;
        dataset.run.path = location.to_string();
        let mut source: Arc<dyn TableSource> = export;
        if !selection.is_everything() {
            (source, dataset.tables) = selection.over(source, &dataset.tables)?;
            selection.describe(&dataset.tables, &mut dataset.run);
            dataset.tables.take("steps");
        }
        Ok(Self { dataset, source: Some(source), is_export, scratch })
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
