//! The tables and views of a session as the engine sees them. A view comes into being when the first
//! query reads it.

use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::UInt64Array;
use datafusion::arrow::compute::{
    LexicographicalComparator, SortColumn, SortOptions, concat_batches, take_record_batch,
};
use datafusion::arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{ParamValues, plan_datafusion_err};
use datafusion::datasource::{TableType, ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SortExpr, ident};
use datafusion::physical_plan::collect;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use trace_model::tables::TABLES;
use trace_model::{ColumnSpec, RecordBatch, TableSpec};

use crate::by_rank::{ByRank, Kept};
use crate::catalog::Catalog;
use crate::ctes;
use crate::module::Module;
use crate::native::Inputs;
use crate::planning;
use crate::scan::ScannedTable;

/// The one schema of a session.
pub(crate) struct Schema {
    catalog: &'static Catalog,
    tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
    views: BTreeMap<&'static str, Slot>,
    params: HashMap<String, ScalarValue>,
    /// Computes views of ranks one after the other, where not all ranks fit into memory.
    by_rank: Option<ByRank>,
    /// The tables are those of some ranks only.
    is_part: bool,
    /// What queries of views read more than once is held in memory.
    holds_parts: bool,
    /// What queries hold at the moment.
    parts: Mutex<HashMap<String, Arc<MemTable>>>,
    /// How many queries were looked at for that.
    splits: AtomicUsize,
    /// What views are planned with. It holds this schema.
    state: OnceLock<Weak<SessionState>>,
    /// How long a core worked for each view, without what it reads.
    times: Mutex<Vec<(&'static str, Duration)>>,
}

/// A view, once a query has read it.
#[derive(Default)]
struct Slot {
    view: OnceCell<View>,
    /// Its rows in a file, if they were computed rank by rank; they go before `view`.
    kept: OnceCell<Arc<Kept>>,
    /// Several queries are going to read it: the rows are kept.
    is_shared: AtomicBool,
}

/// What stands for a view in queries.
enum View {
    /// Its query.
    Query(Arc<ViewTable>),
    /// Its rows.
    Rows(Rows),
}

/// The rows of a view in their order.
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Schema {
    pub(crate) fn new(
        catalog: &'static Catalog,
        tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
        params: HashMap<String, ScalarValue>,
        holds_parts: bool,
    ) -> Self {
        let views = catalog.modules().iter().map(|m| (m.name.as_str(), Slot::default())).collect();
        Self {
            catalog,
            tables,
            views,
            params,
            by_rank: None,
            is_part: false,
            holds_parts,
            parts: Mutex::default(),
            splits: AtomicUsize::new(0),
            state: OnceLock::new(),
            times: Mutex::default(),
        }
    }

    /// With views computed rank by rank.
    pub(crate) fn with_ranks(self, by_rank: ByRank) -> Self {
        Self { by_rank: Some(by_rank), ..self }
    }

    /// Over the tables of some ranks only.
    pub(crate) fn of_some_ranks(self) -> Self {
        Self { is_part: true, ..self }
    }

    /// Must be called once, before the first query.
    pub(crate) fn set_state(&self, state: &Arc<SessionState>) {
        let _ = self.state.set(Arc::downgrade(state));
    }

    /// Plans a query; placeholders become the values of parameters.
    pub(crate) async fn plan(&self, state: &SessionState, sql: &str) -> Result<LogicalPlan> {
        self.plan_parsed(state, parse(state, sql)?, sql).await
    }

    /// Plans a query, or a part of it; `sql` is all of its text.
    async fn plan_parsed(
        &self,
        state: &SessionState,
        query: Statement,
        sql: &str,
    ) -> Result<LogicalPlan> {
        let plan = state.statement_to_plan(query).await?;
        // Looking for placeholders takes as long as parsing, and few views have any.
        if !sql.contains('$') {
            return Ok(plan);
        }
        plan.with_param_values(ParamValues::from(self.params.clone()))
    }

    /// Says that the rows of these views are asked for. What two or more of them are built on is computed once.
    pub(crate) fn share(&self, wanted: &[&'static Module]) {
        let mut readers: HashMap<&str, usize> = HashMap::new();
        let mut stack = Vec::new();
        let mut read = |module: &'static Module, stack: &mut Vec<&'static Module>| {
            let count = readers.entry(&module.name).or_default();
            *count += 1;
            match *count {
                1 => stack.push(module),
                2 => self.views[module.name.as_str()].is_shared.store(true, Relaxed),
                _ => {}
            }
        };
        for module in wanted {
            read(module, &mut stack);
            while let Some(module) = stack.pop() {
                for need in module.needs.iter().filter_map(|need| self.catalog.find(need)) {
                    read(need, &mut stack);
                }
            }
        }
    }

    /// Computes what these views need of each rank, if that is done rank by rank: all of it in one go.
    pub(crate) fn prepare<'a>(
        &'a self,
        wanted: &'a [&'static Module],
    ) -> BoxFuture<'a, Result<()>> {
        let is_new = |module: &&'static Module| !self.slot(module).kept.initialized();
        let Some(by_rank) = self.by_rank.as_ref().filter(|_| wanted.iter().any(is_new)) else {
            return Box::pin(ready(Ok(())));
        };
        Box::pin(async move {
            // One after the other: each takes as much memory as there may be.
            let _turn = by_rank.turn().await;
            let mut needed = by_rank.needed(wanted).await?;
            needed.retain(is_new);
            if needed.is_empty() {
                return Ok(());
            }
            let (kept, times) = by_rank.compute(&needed).await?;
            for (module, kept) in needed.iter().zip(kept) {
                let _ = self.slot(module).kept.set(Arc::new(kept));
            }
            self.times.lock().unwrap_or_else(PoisonError::into_inner).extend(times);
            Ok(())
        })
    }

    fn slot(&self, module: &Module) -> &Slot {
        &self.views[module.name.as_str()]
    }

    /// The rows of a view, from where they are kept if they are.
    pub(crate) async fn rows(&self, module: &'static Module) -> Result<Rows> {
        self.prepare(&[module]).await?;
        if let Some(kept) = self.slot(module).kept.get() {
            return self.read(module, kept).await;
        }
        if self.is_kept(module)
            && let View::Rows(rows) = self.view(module).await?
        {
            return Ok(rows.clone());
        }
        self.execute(module).await.map_err(|e| in_module(module, e))
    }

    /// All rows of a view that is in a file, in their order.
    async fn read(&self, module: &Module, kept: &Arc<Kept>) -> Result<Rows> {
        let table = provider_as_source(kept_table(kept));
        let plan = LogicalPlanBuilder::scan(&module.name, table, None)?.build()?;
        let mut worked = Duration::ZERO;
        run(&*self.state()?, in_order(plan, &module.order)?, &mut worked).await
    }

    fn is_kept(&self, module: &Module) -> bool {
        let slot = self.slot(module);
        module.materialize || module.is_native() || slot.is_shared.load(Relaxed)
    }

    async fn view(&self, module: &'static Module) -> Result<&View> {
        let slot = self.slot(module);
        let create = || async {
            if self.is_kept(module) {
                return Ok(View::Rows(self.execute(module).await?));
            }
            let state = self.state()?;
            let query = parse(&state, &module.text)?;
            if self.holds_parts && ctes::repeats(&query) {
                return Ok(View::Rows(self.execute(module).await?));
            }
            let plan = self.plan_parsed(&state, query, &module.text).await?;
            Ok(View::Query(Arc::new(ViewTable::new(plan, Some(module.text.clone())))))
        };
        slot.view.get_or_try_init(create).await.map_err(|e| in_module(module, e))
    }

    async fn execute(&self, module: &'static Module) -> Result<Rows> {
        let state = self.state()?;
        let mut worked = Duration::ZERO;
        if let Some(native) = module.native {
            let mut batches = BTreeMap::new();
            for &(name, sql) in native.reads {
                let Rows { schema, batches: rows } =
                    self.compute(&state, sql, &[], &mut worked).await?;
                batches.insert(name, concat_batches(&schema, &rows)?);
            }
            let start = Instant::now();
            let is_part = self.is_part;
            let batch = (native.compute)(&Inputs { batches, params: &self.params, is_part })?;
            let batch = sorted(batch, &module.order)?;
            self.worked(module, worked + start.elapsed());
            return Ok(Rows { schema: batch.schema(), batches: vec![batch] });
        }
        let rows = self.compute(&state, &module.text, &module.order, &mut worked).await?;
        self.worked(module, worked);
        Ok(rows)
    }

    /// The rows of a query of ours, by these columns. What it reads more than once is computed once, where memory
    /// allows that.
    async fn compute(
        &self,
        state: &SessionState,
        sql: &str,
        order: &[String],
        worked: &mut Duration,
    ) -> Result<Rows> {
        let mut query = parse(state, sql)?;
        let mut held = Vec::new();
        if self.holds_parts {
            let prefix = format!("#{}", self.splits.fetch_add(1, Relaxed));
            let split = ctes::split(query, &prefix);
            query = split.rest;
            for (name, part) in split.parts {
                let plan = self.plan_parsed(state, part, sql).await?;
                let table = run(state, plan, worked).await?.into_table()?;
                held.push(Held::new(self, name, table));
            }
        }
        let plan = self.plan_parsed(state, query, sql).await?;
        run(state, in_order(plan, order)?, worked).await
    }

    fn worked(&self, module: &'static Module, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((&module.name, time));
    }

    /// How long a core worked for each view so far, without the views that it reads; those that are only part of other
    /// queries are not in here.
    pub(crate) fn times(&self) -> Vec<(&'static str, Duration)> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Arc<MemTable>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Result<Arc<SessionState>> {
        let state = self.state.get().and_then(Weak::upgrade);
        state.ok_or_else(|| plan_datafusion_err!("the session is closed"))
    }
}

/// The schema of a table as the engine sees it: the engine cannot plan a union of tables whose metadata differ, and
/// the documentation is in [`TableSpec`] anyway.
pub(crate) fn bare(spec: &TableSpec) -> SchemaRef {
    let field = |c: &ColumnSpec| Field::new(c.name, c.column_type.arrow(), c.nullable);
    Arc::new(ArrowSchema::new(spec.columns.iter().map(field).collect::<Vec<_>>()))
}

fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)
}

/// The rows of `plan`, and their schema. What a core works for that is added to `worked`, without the time in which it
/// does something else.
pub(crate) async fn run(
    state: &SessionState,
    plan: LogicalPlan,
    worked: &mut Duration,
) -> Result<Rows> {
    match run_with(state, &plan, worked).await {
        Err(e) if matches!(e.find_root(), DataFusionError::ResourcesExhausted(_)) => {
            run_with(&planning::with_sorted_joins(state), &plan, worked).await
        }
        done => done,
    }
}

/// What a column may hold is known better to the physical plan than to the logical one.
async fn run_with(state: &SessionState, plan: &LogicalPlan, worked: &mut Duration) -> Result<Rows> {
    let context = state.task_ctx();
    let rows = async {
        let plan = state.create_physical_plan(plan).await?;
        let schema = plan.schema();
        Ok(Rows { schema, batches: collect(plan, context).await? })
    };
    let mut rows = pin!(rows);
    poll_fn(|context| {
        let start = Instant::now();
        let polled = rows.as_mut().poll(context);
        *worked += start.elapsed();
        polled
    })
    .await
}

/// Rows by these columns, as [`in_order`] has them.
fn sorted(batch: RecordBatch, order: &[String]) -> Result<RecordBatch> {
    let columns: Vec<SortColumn> = order
        .iter()
        .filter_map(|name| batch.column_by_name(name))
        .map(|values| SortColumn {
            values: Arc::clone(values),
            options: Some(SortOptions { descending: false, nulls_first: false }),
        })
        .collect();
    if columns.is_empty() || batch.num_rows() < 2 {
        return Ok(batch);
    }
    let by = LexicographicalComparator::try_new(&columns)?;
    let mut rows: Vec<usize> = (0..batch.num_rows()).collect();
    if rows.is_sorted_by(|&a, &b| by.compare(a, b).is_le()) {
        return Ok(batch);
    }
    rows.sort_by(|&a, &b| by.compare(a, b));
    let rows: UInt64Array = rows.into_iter().map(|row| Some(row as u64)).collect();
    Ok(take_record_batch(&batch, &rows)?)
}

/// `plan` with its rows by these columns.
fn in_order(plan: LogicalPlan, order: &[String]) -> Result<LogicalPlan> {
    if order.is_empty() {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).sort(sorts(order))?.build()
}

fn sorts(order: &[String]) -> Vec<SortExpr> {
    order.iter().map(|column| ident(column).sort(true, false)).collect()
}

impl Rows {
    fn into_table(self) -> Result<MemTable> {
        MemTable::try_new(self.schema, vec![self.batches])
    }
}

/// One stream: views that compare ranks have few rows of each.
fn kept_table(kept: &Arc<Kept>) -> Arc<dyn TableProvider> {
    Arc::new(ScannedTable::new(Arc::clone(kept) as _, "", kept.schema(), 1))
}

/// A table that a query holds until it ends.
struct Held<'a> {
    schema: &'a Schema,
    name: String,
}

impl<'a> Held<'a> {
    fn new(schema: &'a Schema, name: String, table: MemTable) -> Self {
        schema.held().insert(name.clone(), Arc::new(table));
        Self { schema, name }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.schema.held().remove(&self.name);
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("tables", &self.tables.keys()).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        let tables = TABLES.iter().map(|t| t.name);
        tables.chain(self.views.keys().copied()).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.tables.get(name) {
            return Ok(Some(Arc::clone(table)));
        }
        let Some(module) = self.catalog.find(name) else {
            return Ok(self.held().get(name).map(|table| Arc::clone(table) as _));
        };
        if self.is_kept(module) {
            self.prepare(&[module]).await?;
        }
        if let Some(kept) = self.slot(module).kept.get() {
            return Ok(Some(kept_table(kept)));
        }
        Ok(Some(match self.view(module).await? {
            View::Query(query) => Arc::clone(query) as _,
            View::Rows(rows) => {
                let table = rows.clone().into_table()?;
                Arc::new(if module.order.is_empty() {
                    table
                } else {
                    table.with_sort_order(vec![sorts(&module.order)])
                })
            }
        }))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.tables.contains_key(name) {
            return Ok(Some(TableType::Base));
        }
        Ok(self.views.contains_key(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.views.contains_key(name)
            || self.held().contains_key(name)
    }
}

/// Prefix of the context that an error in a module's SQL carries.
const IN_MODULE: &str = "view ";

/// The error names the innermost module: the one whose text is wrong.
pub(crate) fn in_module(module: &Module, error: DataFusionError) -> DataFusionError {
    match &error {
        DataFusionError::Context(context, _) if context.starts_with(IN_MODULE) => error,
        _ => error.context(format!("{IN_MODULE}{}", module.name)),
    }
}

/// The module whose SQL an error comes from, and the error itself.
pub(crate) fn module_of(error: DataFusionError) -> (Option<String>, DataFusionError) {
    match error {
        DataFusionError::Context(context, inner) if context.starts_with(IN_MODULE) => {
            (Some(context[IN_MODULE.len()..].to_owned()), *inner)
        }
        other => (None, other),
    }
}
