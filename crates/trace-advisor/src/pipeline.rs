//! An open run: wires reading, views, metrics and rules together.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use advisor::{EvidenceQuery, MAX_RETIMED_RANKS, Report, RuleQuery, RuleSet};
use arrow::array::AsArray;
use ingest::{CacheEntry, Location, NoProgress, Progress, TemporaryFolder};
use query::{Cancellation, FirstRows, Params, Session, Tables};
use trace_model::retiming::{FixEffect, Retiming, RetimingRequest};
use trace_model::{
    Dataset, FailedTable, MetricTable, RecordBatch, RunInfo, TableSet, TableSource, Warning,
};
use what_if::{Retimed, RetimingRanks};

use crate::error::Error;
use crate::evaluate::{Answer, Computed, MetricProvider, RunMetadata, Stage, evaluate, or_reason};
use crate::loaded_tables::LoadedTables;
use crate::options::OpenOptions;

/// Memory limit for a mapped run, unless there is one.
const MAPPED_MEMORY_BYTES: u64 = 8 << 30;

/// Cost of one table that rules are evaluated on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The view, or the rule with the query.
    pub table: String,
    /// Wall time of the table alone, including all views that it is built on.
    pub elapsed: Duration,
}

/// An open run.
#[derive(Debug)]
pub struct Run {
    location: Location,
    metadata: RunMetadata,
    /// For a run that is not in memory, only the table `ranks` and the tables about the run as a whole.
    tables: TableSet,
    source: Option<Arc<dyn TableSource>>,
    is_export: bool,
    params: Params,
    memory_bytes: Option<u64>,
    step_time_ns: Option<i64>,
    session: Arc<Session>,
    /// Ranks that get ready to be timed again while views are computed.
    retiming_ranks: Mutex<Option<JoinHandle<query::Result<RetimingRanks>>>>,
    stages: Mutex<Vec<Stage>>,
    /// Temporary export. Fields are dropped in order: it must stay below `source` and `session`, which read it.
    scratch: Option<TemporaryFolder>,
    /// Where to cache the tables, if that is worth it.
    cache_entry: Option<CacheEntry>,
}

impl Run {
    /// Reads a run: a trace file or a folder of them; a path or an address, see [`Location`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &OpenOptions::default(), &NoProgress)
    }

    /// Reads a run with options, reporting to `progress`.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let location = Location::parse(path)?;
        let entry = options.cache.as_ref().and_then(|c| c.entry(&location, &options.ingest));
        Self::open_at(location, entry, options, progress)
    }

    /// Opens the run at a location; `entry` is its place in the cache.
    pub(crate) fn open_at(
        location: Location,
        entry: Option<CacheEntry>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let loaded = LoadedTables::load(&location, entry, options, progress)?;
        let LoadedTables { mut dataset, source, is_export, scratch, cache_entry } = loaded;
        dataset.run.command_options = options.command_options.clone();
        let read = Stage { name: "read", elapsed: start.elapsed() };
        let start = Instant::now();
        let params = options.params.clone();
        // The ranks of a mapped run are in groups in any case.
        let mapped_bytes = options.mapped.as_ref().map(|_| MAPPED_MEMORY_BYTES);
        let memory_bytes = options.memory_bytes.or(mapped_bytes);
        let session = new_session(&dataset.tables, source.as_ref(), memory_bytes, &params)?;
        session.expect(options.later_views)?;
        if let Some(progress) = &options.view_progress {
            session.report_to(Arc::clone(progress));
        }
        let ready = Stage { name: "session", elapsed: start.elapsed() };
        Ok(Self {
            location,
            metadata: RunMetadata {
                info: dataset.run,
                warnings: dataset.warnings,
                has_stacks: has_stacks(&dataset.tables),
            },
            tables: dataset.tables,
            source,
            is_export,
            params,
            memory_bytes,
            step_time_ns: options.step_time_ns,
            session: Arc::new(session),
            retiming_ranks: Mutex::default(),
            stages: Mutex::new(vec![read, ready]),
            scratch,
            cache_entry,
        })
    }

    /// Stores the tables in the cache, if there is one, reading them took long enough, and they are the whole
    /// run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn store_in_cache(&self) -> Result<(), Error> {
        let Some(entry) = &self.cache_entry else { return Ok(()) };
        let RunMetadata { info, warnings, .. } = &self.metadata;
        let dataset =
            Dataset { tables: self.tables.clone(), run: info.clone(), warnings: warnings.clone() };
        Ok(entry.store_tables(&dataset)?)
    }

    /// Writes the timelines of all ranks into one file, see [`ingest::merge`]; it is compressed if its name ends
    /// in `.gz`.
    ///
    /// # Errors
    /// If there is no timeline, a trace has changed since it was read, or the file cannot be written.
    pub fn merge(
        &self,
        to: &Path,
        overwrite: bool,
        progress: &dyn Progress,
    ) -> Result<ingest::Merged, Error> {
        self.needs_traces()?;
        let (run, info, tables) = (&self.location, &self.metadata.info, &self.tables);
        let merge = ingest::Merge { run, info, tables, to, overwrite };
        self.timed("merge", || Ok(ingest::merge(&merge, progress)?))
    }

    /// Evaluates the rules on the run.
    pub fn check(&self, rules: &RuleSet) -> Result<Report, Error> {
        evaluate(rules, &mut &*self, self.step_time_ns, |stage| self.push(stage))
    }

    /// The effects of the fixes of a report, with what they save at each of `positions` in the ranges of their edits
    /// ([`FixEffect::curve_pct`]). `rules` must be the rules of the report.
    ///
    /// # Errors
    /// If the run cannot be timed again.
    pub fn effect_curves(
        &self,
        rules: &RuleSet,
        report: &Report,
        positions: &[f64],
    ) -> Result<Vec<FixEffect>, Error> {
        let Some(mut request) = report.follow_ups(rules).retiming else { return Ok(Vec::new()) };
        request.step_time_ns = self.step_time_ns.or(request.step_time_ns);
        request.curve_positions = positions.to_vec();
        let (retiming, _) = (&mut &*self).retime(&request)?;
        Ok(retiming.fixes)
    }

    /// The cost of each table that the rules are evaluated on, one after the other. The sum is more than the time of
    /// [`Run::check`], which computes shared views once.
    pub fn costs(&self, rules: &RuleSet) -> Result<Vec<Cost>, Error> {
        let timed = |table: &str, compute: &dyn Fn(&Session) -> Result<(), Error>| {
            let session =
                new_session(&self.tables, self.source.as_ref(), self.memory_bytes, &self.params)?;
            let start = Instant::now();
            compute(&session)?;
            Ok::<_, Error>(Cost { table: table.to_owned(), elapsed: start.elapsed() })
        };
        let views = rules.views();
        let views = views
            .iter()
            .map(|&view| timed(view, &|session| Ok(session.analyze(view).map(drop)?)));
        let queries = rules.queries();
        let queries = queries
            .iter()
            .map(|query| timed(&query.name, &|session| rule_query(session, query).map(drop)));
        views.chain(queries).collect()
    }

    /// Runs queries of rules within the limits that they have in [`Run::check`]. Returns those that fail, by the names of
    /// their rules, with the reasons.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn failed_rule_queries(&self, queries: &[RuleQuery]) -> Result<Vec<FailedTable>, Error> {
        let mut failed = Vec::new();
        for query in queries {
            if let Err(reason) = or_reason(rule_query(&self.session, query))? {
                failed.push(FailedTable { view: query.name.clone(), reason });
            }
        }
        Ok(failed)
    }

    /// The rows of a view, in its own order.
    pub fn analyze(&self, view: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.analyze(view))?)
    }

    /// As [`Run::analyze`], with other values of the parameters than the run was opened with.
    pub fn analyze_with(&self, view: &str, params: &Params) -> Result<Vec<RecordBatch>, Error> {
        let catalog = analyses::catalog();
        if catalog.without_defaults(params) == catalog.without_defaults(&self.params) {
            return self.analyze(view);
        }
        let source = self.source.as_ref();
        let session = new_session(&self.tables, source, self.memory_bytes, params)?;
        Ok(self.timed("query", || session.analyze(view))?)
    }

    /// The values of parameters that the run was opened with.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Cancels the queries and checks that other threads wait for, see [`Session::cancel_calls`].
    pub fn cancel_calls(&self) {
        self.session.cancel_calls();
    }

    /// The rows of a query. Only read-only statements are allowed.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.sql(query))?)
    }

    /// As [`Run::sql`], for queries that come with the program, see [`Session::program_sql`].
    pub fn program_sql(&self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.program_sql(query))?)
    }

    /// As [`Run::sql`], but returns an error as soon as the query is canceled, see [`Session::sql_unless`].
    pub fn sql_unless(
        &self,
        cancellation: &Cancellation,
        query: &str,
    ) -> Result<Vec<RecordBatch>, Error> {
        Ok(self.timed("query", || self.session.sql_unless(cancellation, query))?)
    }

    /// The first rows of a query that a page sends, with the limits of queries of rules, see [`Session::first_rows`].
    pub fn first_rows(
        &self,
        cancellation: &Cancellation,
        query: &str,
        max_rows: usize,
    ) -> Result<FirstRows, Error> {
        Ok(self.session.first_rows(cancellation, query, max_rows)?)
    }

    /// The names of the functions that queries may call, sorted.
    pub fn sql_functions(&self) -> Vec<String> {
        self.session.functions()
    }

    /// Location of the run.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Description of the run.
    pub fn info(&self) -> &RunInfo {
        &self.metadata.info
    }

    /// Input that could not be read, or only in part.
    pub fn warnings(&self) -> &[Warning] {
        &self.metadata.warnings
    }

    /// The tables as read. Tables of a run that is not in memory are read by each query, and have no rows here.
    pub fn tables(&self) -> &TableSet {
        &self.tables
    }

    /// Number of rows of a table; an upper bound if a selection of a run is not in memory.
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

    /// Whether the run was exported to a temporary directory because it is larger than the memory limit.
    pub fn was_exported(&self) -> bool {
        self.scratch.is_some()
    }

    /// Returns an error if the run is an export, without its traces.
    pub(crate) fn needs_traces(&self) -> Result<(), Error> {
        if self.is_export {
            return Err(ingest::Error::only_tables(self.location.to_string()).into());
        }
        Ok(())
    }

    /// Time of each view so far, see [`Session::view_times`].
    pub fn view_times(&self) -> Vec<(&'static str, Duration)> {
        self.session.view_times()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Wall time of each stage so far, in order.
    pub fn stages(&self) -> Vec<Stage> {
        lock(&self.stages).clone()
    }

    fn push(&self, stage: Stage) {
        lock(&self.stages).push(stage);
    }

    fn timed<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.push(Stage { name, elapsed: start.elapsed() });
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    Ok(Session::open(analyses::catalog(), &tables, memory_bytes, params)?)
}

impl MetricProvider for &Run {
    fn metadata(&mut self) -> Result<&RunMetadata, Error> {
        Ok(&self.metadata)
    }

    fn expect_retiming(&mut self) -> Result<(), Error> {
        // Of more ranks, the slowest ones are timed again, which views find.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if self.is_in_memory() && self.info().ranks.len() <= MAX_RETIMED_RANKS && cores > 1 {
            let session = Arc::clone(&self.session);
            let load = move || RetimingRanks::load(&session, &[]);
            *lock(&self.retiming_ranks) = Some(thread::spawn(load));
        }
        Ok(())
    }

    fn views(&mut self, views: &[&str]) -> Result<Vec<Computed>, Error> {
        let tables = views.iter().zip(self.session.metric_tables(views)?);
        let computed = |(view, table): (&&str, query::Result<MetricTable>)| {
            table.map_err(|e| FailedTable { view: (*view).to_owned(), reason: e.reason() })
        };
        Ok(tables.map(computed).collect())
    }

    fn rule_query(&mut self, query: &RuleQuery) -> Result<MetricTable, Error> {
        rule_query(&self.session, query)
    }

    fn evidence_queries(&mut self, queries: &[EvidenceQuery]) -> Result<Vec<Answer>, Error> {
        let texts: Vec<&str> = queries.iter().map(|query| query.sql.as_str()).collect();
        let rows = self.session.rule_sql_of_each(&texts).into_iter();
        Ok(rows.zip(queries).map(|(rows, query)| evidence_table(query, rows)).collect())
    }

    fn retime(&mut self, request: &RetimingRequest) -> Result<(Retiming, Vec<String>), Error> {
        let ready = lock(&self.retiming_ranks).take().filter(|_| request.ranks.is_empty());
        let ranks = || match ready {
            Some(ranks) => ranks.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => RetimingRanks::load(&self.session, &request.ranks),
        };
        let Retimed { retiming, left_out } = what_if::retime(&self.session, request, ranks)?;
        let reason = |(fix, error): (String, query::Error)| {
            format!("the fix `{fix}` was left out: {}", error.reason())
        };
        Ok((retiming, left_out.into_iter().map(reason).collect()))
    }
}

/// Whether the trace of any rank has call stacks.
fn has_stacks(tables: &TableSet) -> bool {
    tables.get("ranks").iter().any(|ranks| {
        let has_stacks = ranks.column_by_name("has_stacks");
        has_stacks.and_then(|c| c.as_boolean_opt()).is_some_and(|c| c.true_count() > 0)
    })
}

fn rule_query(session: &Session, query: &RuleQuery) -> Result<MetricTable, Error> {
    let error = |source| Error::RuleQuery { rule: query.name.clone(), source };
    let batches = session.rule_sql(&query.sql).map_err(error)?;
    let table = crate::rules::metric_table(query, &batches);
    table.map_err(|message| Error::RuleColumns { rule: query.name.clone(), message })
}

fn evidence_table(query: &EvidenceQuery, rows: query::Result<Vec<RecordBatch>>) -> Answer {
    let error = |source| Error::RuleQuery { rule: query.rule.clone(), source };
    let table = crate::rules::evidence_table(query, &rows.map_err(error)?);
    table.map_err(|message| Error::RuleColumns { rule: query.rule.clone(), message })
}
