//! A run opened for queries.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{
    CatalogProvider, MemTable, MemoryCatalogProvider, SchemaProvider, TableProvider,
};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use tokio::runtime::{Builder, Runtime};
use trace_model::tables::TABLES;
use trace_model::{MetricTable, RecordBatch, TableSet, TableSource, TableSpec};

use crate::by_rank::ByRank;
use crate::catalog::{Catalog, catalog};
use crate::error::{Error, Result, line_of};
use crate::metrics;
use crate::module::Module;
use crate::params::Params;
use crate::planning;
use crate::scan::ScannedTable;
use crate::schema::{Rows, Schema, bare, module_of, run};

/// Below this many rows, splitting one query over cores costs more than it gains.
const ROWS_WORTH_SPLITTING: usize = 2_000_000;

/// What queries get at least, whatever the limit: with less, sorts cannot even begin to spill.
const LEAST_POOL_BYTES: usize = 256 << 20;

/// The tables that a session is about.
#[derive(Debug, Clone)]
pub enum Tables {
    /// They are in memory.
    Loaded(TableSet),
    /// They are read while they are asked about.
    Scanned(Arc<dyn TableSource>),
}

/// The tables of a run, with the catalog's views over them. Views are planned when first read, and
/// those that several others read are computed once. All calls block; they may come from several
/// threads at once, but not from inside an async runtime.
pub struct Session {
    /// For what users ask.
    context: SessionContext,
    /// For views; the schema has it from here.
    _views: Arc<SessionState>,
    schema: Arc<Schema>,
    catalog: &'static Catalog,
    runtime: Runtime,
    /// How many views are computed side by side: one where memory is short.
    views_at_once: usize,
    /// What several views read is computed once: not where even one rank is more than fits into memory.
    shares_views: bool,
}

impl Session {
    /// Opens tables for queries. Tables that the set lacks are there, without rows.
    pub fn new(tables: TableSet, params: Params) -> Result<Self> {
        Self::open(Tables::Loaded(tables), None, params)
    }

    /// Opens tables for queries that may use so much memory, tables included. Views over scanned tables are computed a few
    /// ranks at a time, as many as fit, see [`crate::fits_by_rank`]; what else sorts and joins hold beyond the limit goes to files
    /// in the folder for temporary ones, or, if they cannot do with less, fails the query. Where not even one rank fits, the
    /// limit does not hold for what native views read; nor, over tables that are loaded, for rows of views that others read and
    /// for what window functions and sorts of views hold.
    #[expect(clippy::needless_pass_by_value, reason = "the tables are the session's from here on")]
    pub fn open(tables: Tables, memory_bytes: Option<u64>, params: Params) -> Result<Self> {
        let catalog = catalog();
        let params = params.checked(catalog)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime =
            Builder::new_multi_thread().worker_threads(cores).thread_name("query").build()?;
        let rows: usize = TABLES.iter().map(|t| tables.rows(t.name)).sum();
        let partitions = if rows < ROWS_WORTH_SPLITTING { 1 } else { cores };

        let is_loaded = matches!(tables, Tables::Loaded(_));
        let mut providers: BTreeMap<&'static str, Arc<dyn TableProvider>> = BTreeMap::new();
        for &spec in TABLES {
            providers.insert(spec.name, tables.provider(spec, partitions).map_err(Error::Query)?);
        }
        let params = values(catalog, &params);
        let by_rank = match (&tables, memory_bytes) {
            (Tables::Scanned(source), Some(bytes)) => {
                ByRank::new(source, bytes, catalog, params.clone()).map_err(Error::Query)?
            }
            _ => None,
        };
        let shares_views = is_loaded || by_rank.is_some();
        let schema = Schema::new(catalog, providers, params, is_loaded);
        let schema = Arc::new(match by_rank {
            Some(by_rank) => schema.with_ranks(by_rank),
            None => schema,
        });
        let environment = environment(&tables, memory_bytes).map_err(Error::Query)?;
        let context =
            context(partitions, environment, Arc::clone(&schema) as _).map_err(Error::Query)?;
        let full = context.state();
        let views = Arc::new(planning::for_views(&full, is_loaded));
        let users = if is_loaded { planning::in_order(&full) } else { full };
        let context = SessionContext::new_with_state(users);
        schema.set_state(&views);
        let views_at_once = if is_loaded { usize::MAX } else { 1 };
        Ok(Self { context, _views: views, schema, catalog, runtime, views_at_once, shares_views })
    }

    /// All rows of a view, in the order its header declares.
    pub fn analyze(&self, view: &str) -> Result<Vec<RecordBatch>> {
        let module = self.catalog.get(view)?;
        self.block_on(rows(Arc::clone(&self.schema), module))
            .map_err(|e| in_module(self.catalog, &module.name, e))
    }

    /// The rows of a query over tables and views. `$name` stands for the value of a parameter. Queries
    /// that would change anything are refused. There is at least one batch, so that the schema is known.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        let (context, schema) = (self.context.clone(), Arc::clone(&self.schema));
        let query = query.to_owned();
        let error = |e| failed(self.catalog, e);
        let plan = self.block_on(async move {
            let plan = schema.plan(&context.state(), &query).await?;
            Ok((plan, context))
        });
        let (plan, context) = plan.map_err(error)?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&plan).map_err(|e| Error::NotReadOnly(e.strip_backtrace()))?;
        let rows = async move {
            let mut worked = Duration::ZERO;
            run(&context.state(), plan, &mut worked).await.map(with_schema)
        };
        self.block_on(rows).map_err(error)
    }

    /// The rows of views, ready for rules; in the order asked for. Views run side by side.
    pub fn metric_tables(&self, views: &[&str]) -> Result<Vec<MetricTable>> {
        let modules =
            views.iter().map(|view| self.catalog.get(view)).collect::<Result<Vec<_>>>()?;
        if self.shares_views {
            self.schema.share(&modules);
        }
        let (schema, wanted) = (Arc::clone(&self.schema), modules.clone());
        let prepared = self.block_on(async move { schema.prepare(&wanted).await });
        prepared.map_err(|e| failed(self.catalog, e))?;
        let mut tables = Vec::with_capacity(modules.len());
        for modules in modules.chunks(self.views_at_once) {
            let task = |&module| self.runtime.spawn(rows(Arc::clone(&self.schema), module));
            let tasks: Vec<_> = modules.iter().map(task).collect();
            for (module, task) in modules.iter().zip(tasks) {
                let batches = self.runtime.block_on(task).unwrap_or_else(|e| Err(stopped(&e)));
                let batches = batches.map_err(|e| in_module(self.catalog, &module.name, e))?;
                tables.push(metrics::table(module, &batches)?);
            }
        }
        Ok(tables)
    }

    /// How long a core worked for each view so far, without the views that it reads.
    pub fn view_times(&self) -> Vec<(&'static str, Duration)> {
        self.schema.times()
    }

    /// Runs on the worker threads, whose number and stacks are ours, unlike the caller's.
    fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = PlanResult<T>> + Send + 'static,
    ) -> PlanResult<T> {
        let task = self.runtime.spawn(future);
        self.runtime.block_on(task).unwrap_or_else(|e| Err(stopped(&e)))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Tables {
    fn rows(&self, table: &str) -> usize {
        match self {
            Self::Loaded(tables) => tables.rows(table),
            Self::Scanned(source) => source.partitions(table).iter().map(|p| p.rows).sum(),
        }
    }

    /// A table of the run.
    pub(crate) fn provider(
        &self,
        spec: &'static TableSpec,
        streams: usize,
    ) -> PlanResult<Arc<dyn TableProvider>> {
        let schema = bare(spec);
        let tables = match self {
            Self::Loaded(tables) => tables,
            Self::Scanned(source) => {
                let source = Arc::clone(source);
                return Ok(Arc::new(ScannedTable::new(source, spec.name, schema, streams)));
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

/// The values of all parameters of views.
fn values(catalog: &Catalog, given: &Params) -> HashMap<String, ScalarValue> {
    let params = catalog.modules().iter().flat_map(|module| &module.params);
    params.map(|p| (p.name.clone(), p.scalar(given.get(&p.name)))).collect()
}

/// Where queries have their memory from.
fn environment(tables: &Tables, memory_bytes: Option<u64>) -> PlanResult<Arc<RuntimeEnv>> {
    match (tables, memory_bytes) {
        (_, None) => Ok(Arc::new(RuntimeEnv::default())),
        (Tables::Loaded(tables), Some(bytes)) => beside(tables.memory_bytes(), bytes),
        // Operators that can spill get equal shares, so that none of them starves the others.
        (Tables::Scanned(_), Some(bytes)) => pooled(FairSpillPool::new(
            usize::try_from(bytes).unwrap_or(usize::MAX).max(LEAST_POOL_BYTES),
        )),
    }
}

/// What tables that are in memory leave of the limit: it goes to who comes first.
pub(crate) fn beside(table_bytes: usize, memory_bytes: u64) -> PlanResult<Arc<RuntimeEnv>> {
    let bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    pooled(GreedyMemoryPool::new(bytes.saturating_sub(table_bytes).max(LEAST_POOL_BYTES)))
}

fn pooled(pool: impl MemoryPool + 'static) -> PlanResult<Arc<RuntimeEnv>> {
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()
}

pub(crate) fn context(
    partitions: usize,
    environment: Arc<RuntimeEnv>,
    schema: Arc<dyn SchemaProvider>,
) -> PlanResult<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("run", "public")
        .set_bool("datafusion.sql_parser.collect_spans", true)
        .set_bool("datafusion.execution.collect_statistics", false)
        .set_bool("datafusion.optimizer.repartition_sorts", false)
        .set_usize("datafusion.optimizer.max_passes", 2);
    let context = SessionContext::new_with_config_rt(config, environment);
    let catalog = Arc::new(MemoryCatalogProvider::new());
    catalog.register_schema("public", schema)?;
    context.register_catalog("run", catalog);
    Ok(context)
}

/// Rows that flow through a query at once: large enough that the fixed cost of a batch, which windows
/// and sorts pay several times, disappears.
const BATCH_ROWS: usize = 32_768;

async fn rows(schema: Arc<Schema>, module: &'static Module) -> PlanResult<Vec<RecordBatch>> {
    Ok(with_schema(schema.rows(module).await?))
}

/// At least one batch, so that the schema is known.
fn with_schema(rows: Rows) -> Vec<RecordBatch> {
    let Rows { schema, mut batches } = rows;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    batches
}

/// The error of a query, or of the view whose text is wrong.
fn failed(catalog: &Catalog, error: DataFusionError) -> Error {
    match module_of(error) {
        (Some(module), error) => in_module(catalog, &module, error),
        (None, error) => Error::Query(error),
    }
}

fn in_module(catalog: &Catalog, view: &str, error: DataFusionError) -> Error {
    let (inner, source) = module_of(error);
    let name = inner.as_deref().unwrap_or(view);
    if let DataFusionError::Execution(message) = &source
        && catalog.find(name).is_some_and(Module::is_native)
    {
        return Error::Native { view: name.to_owned(), message: message.clone() };
    }
    let path = catalog.find(name).map_or_else(|| name.to_owned(), |m| m.path.clone());
    Error::Module { path, line: line_of(&source), source }
}

fn stopped(error: &tokio::task::JoinError) -> DataFusionError {
    DataFusionError::Execution(format!("the query stopped: {error}"))
}
