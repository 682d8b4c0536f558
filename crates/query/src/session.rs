//! A run opened for queries.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::compute::concat_batches;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use futures::future::{Either, select};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use trace_model::tables::{TABLES, find};
use trace_model::{MetricTable, RecordBatch, TableSet, TableSource, TableSpec};

use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::context::{pool_for_remaining_memory, session_context, spilling_pool};
use crate::error::{Error, Result, UnknownRelation, ViewFailure, line_of};
use crate::execution::collect_rows;
use crate::metric_table;
use crate::params::{ParamValue, Params};
use crate::plan::optimizer;
use crate::plan::references::References;
use crate::progress::ViewProgress;
use crate::provider::{ViewSchemaProvider, parse, schema_without_metadata};
use crate::query_error::{self, KnownNames};
use crate::rank_groups::RankGroups;
use crate::rust_view::{self, InputQueries, ViewError, ViewInputs};
use crate::scan::ScannedTable;
use crate::storage::TableStorage;
use crate::stored_rows::Rows;
use crate::view::ViewDef;

/// Below this number of rows, splitting one query over cores costs more than it gains.
const MIN_ROWS_FOR_PARALLEL_SCAN: usize = 2_000_000;

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
    run: Arc<ViewSchemaProvider>,
    groups: RankGroups,
    /// Views that later queries read, until the first query is prepared.
    expected: Mutex<Vec<&'static ViewDef>>,
    /// Plans views. Owned here because the provider only has a weak reference.
    _view_state: Arc<SessionState>,
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
        let params = catalog.resolve_params(params)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime =
            Builder::new_multi_thread().worker_threads(cores).thread_name("query").build()?;
        let engine = Engine::open(catalog, tables, memory_bytes, params, cores);
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
        })
    }

    /// Reports the views that are computed from now on. The first call counts.
    pub fn report_to(&self, progress: Arc<dyn ViewProgress>) {
        self.engine.run.report_to(progress);
    }

    /// Announces queries that come after the next one, each view as often as it is listed. What they share with it is
    /// computed once; of a run that is not in memory, all of it is computed in one pass over the groups of ranks.
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

    /// The rows of a query over tables and views. `$name` stands for the value of a parameter. Queries
    /// that would change anything are refused. There is at least one batch, so that the schema is known.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        self.sql_unless(&Cancellation::new(), query)
    }

    /// As [`Session::sql`], but returns [`Error::Canceled`] as soon as the query is canceled. What it computes ends at
    /// the next batch of rows; a view in Rust is computed to the end.
    pub fn sql_unless(&self, cancellation: &Cancellation, query: &str) -> Result<Vec<RecordBatch>> {
        let (engine, sql) = (Arc::clone(&self.engine), query.to_owned());
        let catalog = self.catalog;
        let plan = self.block_on_unless(cancellation, async move {
            let state = engine.user_context.state();
            let statement = parse(&state, &sql)?;
            let references = References::of(&statement);
            let views: Vec<&'static ViewDef> = references
                .relations()
                .filter_map(|(name, count)| Some(std::iter::repeat_n(catalog.find(name)?, count)))
                .flatten()
                .collect();
            let exists = |name: &str| catalog.find(name).is_some() || find(name).is_some();
            if let Some((name, span)) = references.find_unknown(exists) {
                let unknown = UnknownRelation { name: name.to_owned(), span };
                return Err(DataFusionError::External(Box::new(unknown)));
            }
            engine.prepare(&views, false).await?;
            engine.run.plan(&state, statement, &sql).await
        });
        let plan = plan?.map_err(|e| self.query_error(query, e))?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&plan).map_err(|e| Error::NotReadOnly(e.strip_backtrace()))?;
        let engine = Arc::clone(&self.engine);
        let rows = self.block_on_unless(cancellation, async move {
            let state = engine.user_context.state();
            let mut cpu_time = Duration::ZERO;
            collect_rows(&state, &plan, &mut cpu_time).await.map(non_empty)
        });
        rows?.map_err(|e| self.query_error(query, e))
    }

    /// The names of the functions that queries may call, sorted.
    pub fn functions(&self) -> Vec<String> {
        let state = self.engine.user_context.state();
        query_error::functions(&state).into_iter().map(str::to_owned).collect()
    }

    /// The rows of views as values that rules compare, in the order given. Views are computed concurrently.
    pub fn metric_tables(&self, views: &[&str]) -> Result<Vec<MetricTable>> {
        let views = views.iter().map(|view| self.catalog.get(view)).collect::<Result<Vec<_>>>()?;
        let (engine, wanted) = (Arc::clone(&self.engine), views.clone());
        let prepared = self.block_on(async move { engine.prepare(&wanted, true).await });
        prepared?.map_err(|e| self.error(e))?;
        let mut tables = Vec::with_capacity(views.len());
        for views in views.chunks(self.concurrent_views) {
            let task = |&view: &&'static ViewDef| {
                let engine = Arc::clone(&self.engine);
                self.threads.spawn(async move { engine.rows(view).await })
            };
            let tasks: Vec<_> = views.iter().map(task).map(AbortOnDrop).collect();
            for (view, mut task) in views.iter().zip(tasks) {
                let batches = self.join(&mut task.0, &Cancellation::new())?;
                let batches = batches.map_err(|e| self.error(e))?;
                tables.push(metric_table::from_batches(view, &batches)?);
            }
        }
        Ok(tables)
    }

    /// Computes something in Rust over the rows of queries, by name, as a [`crate::RustView`] does. The queries are
    /// limited to some ranks; to none if `ranks` is empty.
    pub fn compute<T>(
        &self,
        queries: InputQueries,
        ranks: &[i64],
        compute: impl FnOnce(&ViewInputs<'_>) -> rust_view::Result<T>,
    ) -> Result<T> {
        let mut batches = BTreeMap::new();
        for (name, sql) in queries {
            batches.insert(*name, self.rows_of_ranks(sql, ranks)?);
        }
        let inputs = ViewInputs { batches, params: self.engine.run.params() };
        compute(&inputs).map_err(|e| self.error(e.into()))
    }

    /// The rows of a query that returns `rank`, limited to some ranks; to none if `ranks` is empty. In one batch.
    pub fn rows_of_ranks(&self, sql: &str, ranks: &[i64]) -> Result<RecordBatch> {
        let limited: String;
        let sql = if ranks.is_empty() {
            sql
        } else {
            let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
            let inner = sql.trim().trim_end_matches(';');
            limited = format!("SELECT * FROM (\n{inner}\n) WHERE rank IN ({})", ranks.join(", "));
            &limited
        };
        let batches = self.sql(sql)?;
        let schema = batches[0].schema();
        concat_batches(&schema, &batches).map_err(|e| self.error(e.into()))
    }

    /// CPU time of each view computed so far, without the views that it reads.
    pub fn view_times(&self) -> Vec<(&'static str, Duration)> {
        self.engine.run.cpu_times()
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

    /// The error of a query of the user, or of the view that failed.
    fn query_error(&self, sql: &str, error: DataFusionError) -> Error {
        match self.error(error) {
            Error::Engine(error) => {
                let state = self.engine.user_context.state();
                let names = KnownNames { catalog: self.catalog, state: &state };
                Error::Query(Box::new(query_error::explain(&error, sql, &names)))
            }
            error => error,
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
        let source = match source {
            DataFusionError::External(inner) => match inner.downcast::<ViewError>() {
                Ok(source) => return Error::RustView { view, source: *source },
                Err(inner) => DataFusionError::External(inner),
            },
            source => source,
        };
        let path = self.catalog.find(&view).map_or(view, |view| view.path.clone());
        Error::View { path, line: line_of(&source), source }
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
        cores: usize,
    ) -> PlanResult<Self> {
        let rows: usize = TABLES.iter().map(|t| tables.rows(t.name)).sum();
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
        let run = Arc::new(ViewSchemaProvider::new(catalog, storage, providers, params));
        let environment = match (tables, memory_bytes) {
            (_, None) => Arc::new(RuntimeEnv::default()),
            (Tables::Loaded(tables), Some(bytes)) => {
                pool_for_remaining_memory(tables.memory_bytes(), bytes)?
            }
            (Tables::Scanned(_), Some(bytes)) => spilling_pool(bytes)?,
        };
        let full = session_context(partitions, environment, Arc::clone(&run) as _)?.state();
        let view_state = Arc::new(optimizer::view_session_state(&full, storage));
        run.set_state(&view_state);
        let user_state = optimizer::user_session_state(full, storage);
        let user_context = SessionContext::new_with_state(user_state);
        let expected = Mutex::default();
        Ok(Self { user_context, run, groups, expected, _view_state: view_state })
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
