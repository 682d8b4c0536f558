//! The one place where the parts are wired: ingest, the views that rules need, metrics, rules.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, Report, RuleQuery, RuleSet};
use analyses::catalog;
use arrow::array::AsArray;
use ingest::{CacheEntry, Export, Location, NoProgress, Progress};
use query::{Params, Selection, Session, Tables};
use tempfile::TempDir;
use trace_model::{Dataset, MetricTable, RecordBatch, RunInfo, TableSet, TableSource, Warning};

use crate::check::{Answers, Facts, judge};
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
    /// All that is going to be asked, if that is known: a query, or the name of a view. Of a run that is kept as tables (an
    /// export, or one in the cache) only what it may read is read then, and the other tables have no rows. Has no effect on a
    /// part of a run.
    pub question: Option<String>,
    /// Bytes of memory that tables and queries may take, see [`Session::open`]; no limit by default. A run that may take
    /// more is computed a few ranks at a time, from an export; if it is not one, it is exported first, to the cache or a
    /// folder for temporary files that goes with the [`Run`].
    pub memory_bytes: Option<u64>,
    /// Where what is found out about the run is kept for the next time; nowhere by default.
    pub cache: Option<ingest::Cache>,
}

/// What one stage of the pipeline took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// `cache`, `read`, `session`, `views`, `rules`, `what-if`, `sources`, `evidence`, `query`.
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
    facts: Facts,
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
    /// Where the tables may be kept for the next time.
    to_keep: Option<CacheEntry>,
}

/// The tables of a run, or where they come from.
struct Contents {
    dataset: Dataset,
    source: Option<Arc<dyn TableSource>>,
    is_export: bool,
    scratch: Option<TempDir>,
    /// Where the tables may be kept.
    to_keep: Option<CacheEntry>,
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
        let location = Location::parse(path)?;
        let entry = options.cache.as_ref().and_then(|c| c.entry(&location, &options.ingest));
        Self::open_at(location, entry, options, progress)
    }

    /// Opens the run at a location, whose place in the cache is known.
    pub(crate) fn open_at(
        location: Location,
        entry: Option<CacheEntry>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let contents = Contents::read(&location, entry, options, progress)?;
        let Contents { dataset, source, is_export, scratch, to_keep } = contents;
        let read = Stage { name: "read", elapsed: start.elapsed() };
        let start = Instant::now();
        let (params, memory_bytes) = (options.params.clone(), options.memory_bytes);
        let session = new_session(&dataset.tables, source.as_ref(), memory_bytes, &params)?;
        let ready = Stage { name: "session", elapsed: start.elapsed() };
        Ok(Self {
            location,
            facts: Facts {
                info: dataset.run,
                warnings: dataset.warnings,
                has_stacks: has_stacks(&dataset.tables),
            },
            tables: dataset.tables,
            source,
            is_export,
            params,
            memory_bytes,
            session,
            stages: Mutex::new(vec![read, ready]),
            scratch,
            to_keep,
        })
    }

    /// Keeps the tables for the next time the run is opened, if there is a cache, reading them was work, and they are
    /// all of the run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep(&self) -> Result<(), Error> {
        let Some(entry) = &self.to_keep else { return Ok(()) };
        let Facts { info, warnings, .. } = &self.facts;
        let dataset =
            Dataset { tables: self.tables.clone(), run: info.clone(), warnings: warnings.clone() };
        Ok(entry.store_tables(&dataset)?)
    }

    /// Writes the timelines of all ranks into one file, see [`ingest::merge`]; it is compressed if its name ends
    /// in `.gz`.
    ///
    /// # Errors
    /// If there is no timeline, a trace has changed since it was read, or the file cannot be written.
    pub fn merge(&self, to: &Path, overwrite: bool) -> Result<ingest::Merged, Error> {
        self.needs_traces()?;
        let (run, info, tables) = (&self.location, &self.facts.info, &self.tables);
        let merge = ingest::Merge { run, info, tables, to, overwrite };
        self.timed("merge", || Ok(ingest::merge(&merge)?))
    }

    /// Judges the run.
    pub fn check(&self, rules: &RuleSet) -> Result<Report, Error> {
        judge(rules, &mut &*self, |stage| self.push(stage))
    }

    /// What each table that the rules judge takes, one after the other. Their sum is more than what [`Run::check`]
    /// takes, where what several are built on is computed once.
    pub fn costs(&self, rules: &RuleSet) -> Result<Vec<Cost>, Error> {
        let timed = |table: &str, ask: &dyn Fn(&Session) -> Result<(), Error>| {
            let session =
                new_session(&self.tables, self.source.as_ref(), self.memory_bytes, &self.params)?;
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
        &self.facts.info
    }

    /// What could not be read, or only in part.
    pub fn warnings(&self) -> &[Warning] {
        &self.facts.warnings
    }

    /// The tables as read; those of a run that is not in memory are read when they are asked about, and have no rows
    /// here.
    pub fn tables(&self) -> &TableSet {
        &self.tables
    }

    /// Rows of a table; at most so many, if it is part of a run that is not in memory.
    pub fn rows(&self, table: &str) -> usize {
        match &self.source {
            Some(source) => source.partitions(table).iter().map(|partition| partition.rows).sum(),
            None => self.tables.rows(table),
        }
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

    /// What the rows of each view took so far, see [`Session::view_times`].
    pub fn view_times(&self) -> Vec<(&'static str, Duration)> {
        self.session.view_times()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// What each stage took so far, in order.
    pub fn stages(&self) -> Vec<Stage> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, stage: Stage) {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
    }

    fn timed<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.push(Stage { name, elapsed: start.elapsed() });
        result
    }
}

/// Runs with less text than this are read as fast as their tables would be.
const WORTH_KEEPING: u64 = 32 << 20;

impl Contents {
    fn read(
        location: &Location,
        entry: Option<CacheEntry>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let kept = entry.as_ref().and_then(CacheEntry::tables);
        // Kept tables that cannot be read are as good as none.
        if let Some(export) = kept
            && let Ok(contents) = Self::of_export(export, location, options)
        {
            return Ok(contents);
        }
        let opened = ingest::open(location, &options.ingest)?;
        if let Some(export) = opened.export() {
            let contents = Self::of_export(Arc::clone(export), location, options)?;
            return Ok(Self { is_export: true, ..contents });
        }
        // One rank is not computed in pieces: it is better off in memory as long as there is any room beside its tables.
        let fits = |limit| {
            let bytes = opened.table_bytes();
            query::fits_in_memory(bytes, limit) || (bytes <= limit && opened.is_one_trace())
        };
        if options.memory_bytes.is_none_or(fits) {
            let dataset = opened.read(&options.ingest, progress)?;
            let json_bytes: u64 = dataset.run.sources.iter().map(|s| s.json_bytes).sum();
            let is_worth_it = options.selection.is_everything() && json_bytes >= WORTH_KEEPING;
            let to_keep = entry.filter(|_| is_worth_it);
            return Ok(Self { to_keep, ..Self::in_memory(dataset, &options.selection)? });
        }
        // What has to be converted anyhow is converted where it stays.
        if let Some(entry) = entry
            && let Ok(export) = entry.export_tables(location, &options.ingest, progress)
        {
            return Self::of_export(export, location, options);
        }
        let folder = TempDir::new()
            .map_err(|source| ingest::Error::Write { path: std::env::temp_dir(), source })?;
        let to = folder.path().join("run");
        ingest::export(location, &options.ingest, &to, false, progress)?;
        let contents = Self::of_export(ingest::Export::open(&to)?, location, options)?;
        Ok(Self { scratch: Some(folder), ..contents })
    }

    /// The tables of an export: in memory if they fit, else where they are.
    fn of_export(
        export: Arc<Export>,
        location: &Location,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let selection = &options.selection;
        let fits = |limit| {
            let bytes = export.table_bytes();
            let is_divisible = || query::fits_rank_by_rank(export.as_ref(), limit);
            query::fits_in_memory(bytes, limit) || (bytes <= limit && !is_divisible())
        };
        if options.memory_bytes.is_none_or(fits) {
            let question = options.question.as_ref().filter(|_| selection.is_everything());
            let needed = question.and_then(|text| catalog().tables_read_by(text));
            let mut dataset = match needed {
                Some(tables) => export.read_tables(&tables)?,
                None => export.read()?,
            };
            dataset.run.path = location.to_string();
            return Self::in_memory(dataset, selection);
        }
        let mut dataset = export.read_head()?;
        dataset.run.path = location.to_string();
        let mut source: Arc<dyn TableSource> = export;
        if !selection.is_everything() {
            (source, dataset.tables) = selection.over(source, &dataset.tables)?;
            selection.describe(&dataset.tables, &mut dataset.run);
            dataset.tables.take("steps");
        }
        Ok(Self { dataset, source: Some(source), is_export: false, scratch: None, to_keep: None })
    }

    fn in_memory(mut dataset: Dataset, selection: &Selection) -> Result<Self, Error> {
        if !selection.is_everything() {
            dataset.tables = selection.apply(&dataset.tables)?;
            selection.describe(&dataset.tables, &mut dataset.run);
        }
        Ok(Self { dataset, source: None, is_export: false, scratch: None, to_keep: None })
    }
}

fn new_session(
    tables: &TableSet,
    source: Option<&Arc<dyn TableSource>>,
    memory_bytes: Option<u64>,
    params: &Params,
) -> Result<Session, Error> {
    // Batches are shared: the copy costs a few pointers.
    let tables = match source {
        Some(source) => Tables::Scanned(Arc::clone(source)),
        None => Tables::Loaded(tables.clone()),
    };
    Ok(Session::open(catalog(), tables, memory_bytes, params)?)
}

impl Answers for &Run {
    fn facts(&mut self) -> Result<&Facts, Error> {
        Ok(&self.facts)
    }

    fn views(&mut self, views: &[&str]) -> Result<Vec<MetricTable>, Error> {
        Ok(self.session.metric_tables(views)?)
    }

    fn query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error> {
        rule_query(&self.session, query)
    }

    fn moments(&mut self, query: &EvidenceQuery) -> Result<MetricTable, Error> {
        moments(&self.session, query)
    }
}

/// Whether any rank's trace says where in the program something was called.
fn has_stacks(tables: &TableSet) -> bool {
    tables.get("ranks").iter().any(|ranks| {
        let has_stacks = ranks.column_by_name("has_stacks");
        has_stacks.and_then(|c| c.as_boolean_opt()).is_some_and(|c| c.true_count() > 0)
    })
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
