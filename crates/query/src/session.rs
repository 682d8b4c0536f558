//! A run opened for queries.

mod prepare;
mod queries;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use futures::future::{Either, select};
pub use prepare::{ViewUse, prepare_plans};
pub use queries::FirstRows;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use trace_model::tables::TABLES;
use trace_model::{MetricTable, RecordBatch, TableSet, TableSource, TableSpec};

use crate::bounded_functions::{self, FunctionLimits};
use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::context::{
    pool_for_remaining_memory, rule_environment, rule_time_limit, session_context, spilling_pool,
    unlimited_environment,
};
use crate::error::{Error, Result, ViewFailure, line_of};
use crate::metric_table;
use crate::parallel::per_item_on;
use crate::params::{ParamValue, Params};
use crate::plan::optimizer;
use crate::plan::query_limits::QueryOrigin;
use crate::progress::ViewProgress;
use crate::provider::{PlanSource, ViewSchemaProvider, schema_without_metadata};
use crate::query_error;
use crate::rank_groups::RankGroups;
use crate::rust_view::{self, InputQueries, ViewError, ViewInputs};
use crate::scan::ScannedTable;
use crate::storage::TableStorage;
use crate::stored_rows::Rows;
use crate::view::{ViewDef, failure_of};

/// Below this number of rows, splitting one query over cores costs more than it gains.
const MIN_ROWS_FOR_PARALLEL_SCAN: usize = 2_000_000;

/// Stack of the threads that plan and run queries. It must suffice for queries as deep as they may be, in builds without
/// optimization, too.
const STACK_BYTES: usize = 16 << 20;

/// Queries of rules that may take too long, after which those of other rules are not tried any more.
const MAX_SLOW_RULES: usize = 4;

/// The tables of a session.
#[derive(Debug, Clone)]
pub enum Tables {
    /// Tables in memory.
    Loaded(TableSet),
    /// Tables that are read while queries run.
    Scanned(Arc<dyn TableSource>),
}

/// The tables of a run with the views of a catalog over them. Views are planned when first read, and views that
/// several queries read are computed once. All calls block; they may come from several threads at once, but not
/// from inside an async runtime.
pub struct Session {
    engine: Arc<Engine>,
    catalog: &'static Catalog,
    threads: Handle,
    /// Owns the threads.
    runtime: Option<Runtime>,
    /// Number of views computed at the same time.
    concurrent_views: usize,
    /// Cancels the calls that wait.
    calls: Mutex<Cancellation>,
    /// The time of one query of a rule or of a page.
    rule_time_limit: Duration,
    /// Queries of rules that may still take too long: many rules may.
    slow_rules_left: AtomicUsize,
}

/// A task that does not outlive the call that waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The part of a session that queries hold while they run.
struct Engine {
    /// Plans queries of users.
    user_context: SessionContext,
    /// Plans queries of rules and of pages, with their limit of memory.
    rule_state: Arc<SessionState>,
    /// Plans views, and queries of this program. The provider has a weak reference to it.
    view_state: Arc<SessionState>,
    run: Arc<ViewSchemaProvider>,
    groups: RankGroups,
    /// Views that later queries read, until the first query is prepared.
    expected: Mutex<Vec<&'static ViewDef>>,
}

impl Session {
    /// Opens tables in memory for queries. Tables that the set lacks are empty.
    ///
    /// # Errors
    /// If no view has one of the parameters, or its value has the wrong type.
    pub fn new(catalog: &'static Catalog, tables: TableSet, params: &Params) -> Result<Self> {
        Self::open(catalog, &Tables::Loaded(tables), None, params)
    }

    /// Opens tables for queries within a memory limit that includes the tables.
    ///
    /// * Tables in memory: the limit does not cover the rows of views that other views read, nor what window functions
    ///   and sorts of views hold.
    /// * Scanned tables: views of single ranks are computed in groups of as many ranks as fit, see
    ///   [`crate::fits_rank_by_rank`]. Beyond the limit, sorts and joins spill to the temporary directory, or, if they
    ///   cannot, the query fails. If not even one rank fits, the limit does not cover the inputs of views in Rust.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn open(
        catalog: &'static Catalog,
        tables: &Tables,
        memory_bytes: Option<u64>,
        params: &Params,
    ) -> Result<Self> {
        let plan_source = match tables {
            Tables::Loaded(_) => PlanSource::Prepared,
            // Plans depend on the number of streams of a table.
            Tables::Scanned(_) => PlanSource::Planner,
        };
        Self::open_with(catalog, tables, memory_bytes, params, plan_source)
    }

    fn open_with(
        catalog: &'static Catalog,
        tables: &Tables,
        memory_bytes: Option<u64>,
        params: &Params,
        plan_source: PlanSource,
    ) -> Result<Self> {
        let params = catalog.resolve_params(params)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let engine = Engine::open(catalog, tables, memory_bytes, params, plan_source, cores);
        let engine = Arc::new(engine.map_err(Error::Engine)?);
        let concurrent_views = match tables.storage() {
            TableStorage::Memory => usize::MAX,
            // Each may use all memory.
            TableStorage::Streamed => 1,
        };
        let threads = runtime.handle().clone();
        Ok(Self {
            engine,
            catalog,
            threads,
            runtime: Some(runtime),
            concurrent_views,
            calls: Mutex::default(),
            rule_time_limit: rule_time_limit(tables.storage()),
            slow_rules_left: AtomicUsize::new(MAX_SLOW_RULES),
        })
    }

    /// Changes the time that one query of a rule or of a page may take: 30 s for tables in memory, else 5 min.
    pub fn limit_rule_queries(&mut self, time: Duration) {
        self.rule_time_limit = time;
    }

    /// Reports the views that are computed from now on. The first call counts.
    pub fn report_to(&self, progress: Arc<dyn ViewProgress>) {
        self.engine.run.report_to(progress);
    }

    /// Announces queries that come after the next one and read these views. Their rows are computed once and kept; of a
    /// run that is not in memory, all of it is computed in one pass over the groups of ranks.
    ///
    /// # Errors
    /// If there is no such view.
    pub fn expect(&self, views: &[&str]) -> Result<()> {
        let views = views.iter().map(|view| self.catalog.get(view)).collect::<Result<Vec<_>>>()?;
        self.engine.expected.lock().unwrap_or_else(PoisonError::into_inner).extend(views);
        Ok(())
    }

    /// The views that queries may read.
    pub fn catalog(&self) -> &'static Catalog {
        self.catalog
    }

    /// All rows of a view, in the order that its header declares. There is at least one batch, so that the schema is
    /// known.
    pub fn analyze(&self, view: &str) -> Result<Vec<RecordBatch>> {
        let view = self.catalog.get(view)?;
        let engine = Arc::clone(&self.engine);
        let rows = self.block_on(async move {
            engine.prepare(&[view], true).await?;
            engine.rows(view).await
        });
        rows?.map_err(|e| self.error(e))
    }

    /// The names of the functions that queries may call, sorted.
    pub fn functions(&self) -> Vec<String> {
        let state = self.engine.user_context.state();
        query_error::functions(&state).into_iter().map(str::to_owned).collect()
    }

    /// The rows of views as values that rules compare, in the order given, or why a view has none: it may fail on one
    /// strange event, and the others say what they can. Views are computed concurrently.
    ///
    /// # Errors
    /// If there is no such view, the tables cannot be read, or the call is canceled.
    pub fn metric_tables(&self, views: &[&str]) -> Result<Vec<Result<MetricTable>>> {
        let views = self.prepare_rows(views)?;
        let mut tables = Vec::with_capacity(views.len());
        for views in views.chunks(self.concurrent_views) {
            tables.extend(self.concurrent_tables(views)?);
        }
        // What did not fit beside others may fit alone.
        for (view, table) in views.iter().zip(&mut tables) {
            if views.len() > 1 && table.as_ref().is_err_and(Error::is_out_of_memory) {
                *table = self.concurrent_tables(&[view])?.remove(0);
            }
        }
        Ok(tables)
    }

    /// The rows of views, in the order given, or why a view has none. Views are computed concurrently, and each has at least
    /// one batch.
    ///
    /// # Errors
    /// As [`Session::metric_tables`].
    pub fn view_rows(&self, views: &[&str]) -> Result<Vec<Result<Vec<RecordBatch>>>> {
        let views = self.prepare_rows(views)?;
        let mut rows = Vec::with_capacity(views.len());
        for views in views.chunks(self.concurrent_views) {
            rows.extend(self.concurrent_rows(views)?);
        }
        Ok(rows)
    }

    /// Makes views ready whose rows are read next.
    fn prepare_rows(&self, views: &[&str]) -> Result<Vec<&'static ViewDef>> {
        let views = views.iter().map(|view| self.catalog.get(view)).collect::<Result<Vec<_>>>()?;
        let (engine, wanted) = (Arc::clone(&self.engine), views.clone());
        let prepared = self.block_on(async move { engine.prepare(&wanted, true).await });
        prepared?.map_err(|e| self.error(e))?;
        Ok(views)
    }

    fn concurrent_tables(&self, views: &[&'static ViewDef]) -> Result<Vec<Result<MetricTable>>> {
        let rows = self.concurrent_rows(views)?.into_iter().zip(views);
        let table = |(batches, view): (Result<Vec<RecordBatch>>, &&'static ViewDef)| {
            batches.and_then(|batches| metric_table::from_batches(view, &batches))
        };
        Ok(rows.map(table).collect())
    }

    fn concurrent_rows(&self, views: &[&'static ViewDef]) -> Result<Vec<Result<Vec<RecordBatch>>>> {
        let task = |&view: &&'static ViewDef| {
            let engine = Arc::clone(&self.engine);
            self.threads.spawn(async move { engine.rows(view).await })
        };
        let tasks: Vec<_> = views.iter().map(task).map(AbortOnDrop).collect();
        let mut rows = Vec::with_capacity(views.len());
        for (view, mut task) in views.iter().zip(tasks) {
            let batches = self.join(&mut task.0, &Cancellation::new())?;
            rows.push(batches.map_err(|e| self.error(failure_of(view, e).into())));
        }
        Ok(rows)
    }

    /// Computes something in Rust over the rows of queries, by name, as a [`crate::RustView`] does. The queries run at the
    /// same time, and are limited to some ranks; to none if `ranks` is empty.
    pub fn compute<T>(
        &self,
        queries: InputQueries,
        ranks: &[i64],
        compute: impl FnOnce(&ViewInputs<'_>) -> rust_view::Result<T>,
    ) -> Result<T> {
        let rows = |&(name, sql): &_| Ok((name, self.rows_of_ranks(sql, ranks)?));
        // A thread per query: they wait for the workers of the session.
        let batches = per_item_on(queries.len(), queries.iter().collect(), rows);
        let batches = batches.into_iter().collect::<Result<_>>()?;
        let inputs = ViewInputs::new(batches, self.engine.run.params());
        compute(&inputs).map_err(|e| self.error(e.into()))
    }

    /// CPU time of each view computed so far, without the views that it reads. Views that are computed together count as the
    /// first of them that was read.
    pub fn view_times(&self) -> Vec<(&'static str, Duration)> {
        self.engine.run.cpu_times()
    }

    /// The queries of this program and of rules that were planned so far because no prepared plan fits, sorted: names of views,
    /// inputs of views in Rust as `view/input`, and texts. Views that became part of other queries are not listed.
    pub fn planned_queries(&self) -> Vec<String> {
        self.engine.run.planned_queries()
    }

    /// Cancels the calls that wait for rows at this moment: they return [`Error::Canceled`]. What they compute ends as
    /// with [`Session::sql_unless`].
    pub fn cancel_calls(&self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *calls).cancel();
    }

    /// Runs on the worker threads, whose number and stack size are ours, unlike the caller's.
    fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = PlanResult<T>> + Send + 'static,
    ) -> Result<PlanResult<T>> {
        self.block_on_unless(&Cancellation::new(), future)
    }

    /// As `block_on`, but stops waiting once it is canceled.
    fn block_on_unless<T: Send + 'static>(
        &self,
        cancellation: &Cancellation,
        future: impl Future<Output = PlanResult<T>> + Send + 'static,
    ) -> Result<PlanResult<T>> {
        self.join(&mut self.threads.spawn(future), cancellation)
    }

    /// Waits for a task unless it, or all calls, are canceled; the task is then aborted.
    fn join<T: Send + 'static>(
        &self,
        task: &mut JoinHandle<PlanResult<T>>,
        cancellation: &Cancellation,
    ) -> Result<PlanResult<T>> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (this, all) = (pin!(cancellation.requested()), pin!(calls.requested()));
        let canceled = select(this, all);
        match self.threads.block_on(select(&mut *task, canceled)) {
            Either::Left((joined, _)) => Ok(joined.unwrap_or_else(|e| Err(stopped(&e)))),
            Either::Right(_) => {
                task.abort();
                Err(Error::Canceled)
            }
        }
    }

    /// The error of the engine, or of the view that failed.
    fn error(&self, error: DataFusionError) -> Error {
        let failure = match error {
            DataFusionError::External(inner) => match inner.downcast::<ViewFailure>() {
                Ok(failure) => *failure,
                Err(inner) => return Error::Engine(DataFusionError::External(inner)),
            },
            error => return Error::Engine(error),
        };
        let ViewFailure { view, source } = failure;
        if let DataFusionError::External(inner) = source.as_ref()
            && let Some(source) = inner.downcast_ref::<ViewError>()
        {
            return Error::RustView { view, source: source.duplicate() };
        }
        let path = self.catalog.find(&view).map_or_else(|| view.clone(), |view| view.path.clone());
        Error::View { view, path, line: line_of(&source), source }
    }
}

impl Drop for Session {
    /// Does not wait for what a canceled query still computes.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("run", &self.engine.run).finish_non_exhaustive()
    }
}

impl Engine {
    fn open(
        catalog: &'static Catalog,
        tables: &Tables,
        memory_bytes: Option<u64>,
        params: HashMap<String, ParamValue>,
        plan_source: PlanSource,
        cores: usize,
    ) -> PlanResult<Self> {
        let filled: BTreeMap<&'static str, usize> =
            TABLES.iter().map(|t| (t.name, tables.rows(t.name))).filter(|t| t.1 > 0).collect();
        let rows: usize = filled.values().sum();
        let partitions = if rows < MIN_ROWS_FOR_PARALLEL_SCAN { 1 } else { cores };
        let mut providers: BTreeMap<&'static str, Arc<dyn TableProvider>> = BTreeMap::new();
        for &spec in TABLES {
            providers.insert(spec.name, tables.provider(spec, partitions)?);
        }
        let groups = match (tables, memory_bytes) {
            (Tables::Scanned(source), Some(bytes)) => {
                RankGroups::within(bytes, source, catalog, params.clone())
            }
            _ => RankGroups::single(catalog),
        };
        let storage = tables.storage();
        let run = Arc::new(ViewSchemaProvider::new(
            catalog,
            storage,
            providers,
            filled.into_keys().collect(),
            plan_source,
            params,
        ));
        let environment = match (tables, memory_bytes) {
            (_, None) => unlimited_environment()?,
            (Tables::Loaded(tables), Some(bytes)) => {
                pool_for_remaining_memory(tables.memory_bytes(), bytes)?
            }
            (Tables::Scanned(_), Some(bytes)) => spilling_pool(bytes)?,
        };
        let rule_environment = rule_environment(storage, memory_bytes)?;
        let full = session_context(partitions, environment, Arc::clone(&run) as _)?.state();
        let view_state = Arc::new(optimizer::view_session_state(&full, storage));
        run.set_state(&view_state);
        let mut user_state = optimizer::user_session_state(full, storage);
        let mut rule_state = optimizer::stranger_session_state(&user_state, rule_environment);
        bounded_functions::register(&mut user_state, FunctionLimits::OF_USERS)?;
        bounded_functions::register(&mut rule_state, FunctionLimits::OF_STRANGERS)?;
        let rule_state = Arc::new(rule_state);
        let user_context = SessionContext::new_with_state(user_state);
        let expected = Mutex::default();
        Ok(Self { user_context, rule_state, view_state, run, groups, expected })
    }

    fn state_for(&self, origin: QueryOrigin) -> Arc<SessionState> {
        match origin {
            QueryOrigin::User => Arc::new(self.user_context.state()),
            QueryOrigin::Rule | QueryOrigin::Page => Arc::clone(&self.rule_state),
            QueryOrigin::Program => Arc::clone(&self.view_state),
        }
    }

    /// Makes views ready to be read, each as often as it is listed: as part of a query, or all their rows.
    async fn prepare(&self, views: &[&'static ViewDef], are_rows_wanted: bool) -> PlanResult<()> {
        self.run.announce_reads(views);
        let later =
            std::mem::take(&mut *self.expected.lock().unwrap_or_else(PoisonError::into_inner));
        self.run.expect_reads(&later);
        let read = [views, &later].concat();
        self.groups.compute_missing(&read, &self.run).await?;
        self.run.plan_progress(views, are_rows_wanted);
        Ok(())
    }

    async fn rows(&self, view: &'static ViewDef) -> PlanResult<Vec<RecordBatch>> {
        Ok(non_empty(self.run.rows(view).await?))
    }
}

impl Tables {
    fn storage(&self) -> TableStorage {
        match self {
            Self::Loaded(_) => TableStorage::Memory,
            Self::Scanned(_) => TableStorage::Streamed,
        }
    }

    fn rows(&self, table: &str) -> usize {
        match self {
            Self::Loaded(tables) => tables.rows(table),
            Self::Scanned(source) => source.partitions(table).iter().map(|p| p.rows).sum(),
        }
    }

    fn provider(
        &self,
        spec: &'static TableSpec,
        partitions: usize,
    ) -> PlanResult<Arc<dyn TableProvider>> {
        let schema = schema_without_metadata(spec);
        let tables = match self {
            Self::Loaded(tables) => tables,
            Self::Scanned(source) => {
                let source = Arc::clone(source);
                return Ok(Arc::new(ScannedTable::new(source, spec.name, schema, partitions)));
            }
        };
        let batches: Result<Vec<_>, _> = tables
            .get(spec.name)
            .iter()
            .map(|batch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()))
            .collect();
        Ok(Arc::new(MemTable::try_new(schema, vec![batches?])?))
    }
}

/// At least one batch, so that the schema is known.
fn non_empty(rows: Rows) -> Vec<RecordBatch> {
    let Rows { schema, mut batches } = rows;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    batches
}

fn stopped(error: &tokio::task::JoinError) -> DataFusionError {
    DataFusionError::Execution(format!("the query stopped: {error}"))
}
