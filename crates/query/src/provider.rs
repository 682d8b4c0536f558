//! Tables and views as DataFusion sees them. A view is planned or computed when the first query reads it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{ParamValues, exec_datafusion_err, plan_datafusion_err};
use datafusion::datasource::{TableType, ViewTable};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use tokio::sync::OnceCell;
use trace_model::tables::TABLES;
use trace_model::{ColumnSpec, RecordBatch, TableSpec};

use crate::catalog::Catalog;
use crate::error::{ViewFailure, is_out_of_memory};
use crate::execution::{run_prepared_plan, store_rows, within_limit};
use crate::params::ParamValue;
use crate::plan::references::References;
use crate::plan::{empty_queries, shared_ctes};
use crate::prepared::{self, InlinedView, NamedTable, PreparedQuery, Recording, RelationReader};
use crate::progress::ViewProgress;
use crate::row_order::{sort_batch, sort_plan};
use crate::rust_view::{Computation, ComputeFn, SharedComputation, ViewInputs, ViewOutputs};
use crate::storage::TableStorage;
use crate::stored_rows::{Rows, StoredRows, nullable};
use crate::view::{ViewDef, failure_of, in_view};

/// CPU time per view, without the views that it reads.
pub(crate) type CpuTimes = Vec<(&'static str, Duration)>;

/// Rows by view, or by input of a view.
type SharedRows = BTreeMap<&'static str, StoredRows>;

/// The tables of some ranks, with the views of a catalog over them.
pub(crate) struct ViewSchemaProvider {
    catalog: &'static Catalog,
    storage: TableStorage,
    tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
    /// Tables that have rows.
    filled_tables: BTreeSet<&'static str>,
    plan_source: PlanSource,
    cells: BTreeMap<&'static str, ViewCell>,
    /// Rows of views that were computed together with others, by computation, until they are read.
    shared_rows: BTreeMap<&'static str, tokio::sync::Mutex<SharedRows>>,
    params: HashMap<String, ParamValue>,
    /// `$name` of each parameter whose value is not the default: prepared plans contain the defaults.
    changed_placeholders: Vec<String>,
    /// Shared common table expressions of queries that run at the moment.
    temp_tables: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// Makes names of temporary tables unique.
    query_counter: AtomicUsize,
    /// Plans views. The state owns this provider.
    state: OnceLock<Weak<SessionState>>,
    /// The task context of prepared plans, made once: it copies the lists of all functions.
    context: OnceLock<Arc<TaskContext>>,
    cpu_times: Mutex<CpuTimes>,
    /// Names of the queries that had no prepared plan.
    planned_queries: Mutex<BTreeSet<String>>,
    progress: OnceLock<Arc<dyn ViewProgress>>,
}

/// The source of the plans of views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanSource {
    /// The prepared plans of the catalog; the planner for queries without one.
    Prepared,
    /// The planner.
    Planner,
    /// The planner, with the names of tables in the plans, so that they can be recorded.
    Recorded,
}

/// A query that a view consists of: its own, or the input of that name of a view in Rust.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewQuery {
    view: &'static ViewDef,
    input: Option<&'static (&'static str, &'static str)>,
}

impl ViewQuery {
    /// All queries of a view.
    pub(crate) fn of(view: &'static ViewDef) -> Vec<Self> {
        match view.rust {
            Some(_) => Self::inputs(view).map(|(_, query)| query).collect(),
            None => vec![Self::of_sql(view)],
        }
    }

    /// The inputs of a view in Rust by name.
    fn inputs(view: &'static ViewDef) -> impl Iterator<Item = (&'static str, Self)> {
        let inputs = view.rust.map_or(&[][..], |rust| rust.inputs);
        inputs.iter().map(move |input| (input.0, Self { view, input: Some(input) }))
    }

    /// The query of a view in SQL.
    fn of_sql(view: &'static ViewDef) -> Self {
        Self { view, input: None }
    }

    /// Its name among the schemas and prepared plans of the catalog.
    fn name(self) -> Cow<'static, str> {
        match self.input {
            Some((name, _)) => Cow::Owned(format!("{}/{name}", self.view.name)),
            None => Cow::Borrowed(&self.view.name),
        }
    }

    fn sql(self) -> Cow<'static, str> {
        match self.input {
            Some((_, sql)) => Cow::Borrowed(sql),
            None => Cow::Owned(self.view.sql_text()),
        }
    }

    /// Its text; that of a view in SQL has a header.
    fn text(self) -> &'static str {
        self.input.map_or(self.view.text.as_str(), |&(_, sql)| sql)
    }

    /// The columns by which its rows are sorted.
    fn order(self) -> &'static [String] {
        match self.input {
            Some(_) => &[],
            None => &self.view.order,
        }
    }

    fn digest(self) -> Bytes {
        // The number of lines of the header does not matter.
        prepared::digest(self.sql().trim_start(), self.order())
    }
}

/// A view, once a query has read it.
#[derive(Default)]
struct ViewCell {
    /// Its syntax tree, until it is planned.
    query: Mutex<Option<Arc<Statement>>>,
    /// Whether it has no rows because tables have none.
    lacks_tables: OnceLock<bool>,
    /// Its plan, which becomes part of the plan of its reader, or a table without rows; `None` if only its rows can be
    /// read.
    inlined: OnceCell<Option<Arc<dyn TableProvider>>>,
    /// Its rows, or why there are none: what is built on it does not try again.
    stored: OnceCell<Result<StoredRows, ViewFailure>>,
    /// How many queries have read it, or are about to.
    readers: AtomicUsize,
    /// How many of them were expected, and have not read it yet.
    expected: AtomicUsize,
    /// It was announced to be computed, and is not yet.
    is_planned: AtomicBool,
}

impl ViewSchemaProvider {
    pub(crate) fn new(
        catalog: &'static Catalog,
        storage: TableStorage,
        tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
        filled_tables: BTreeSet<&'static str>,
        plan_source: PlanSource,
        params: HashMap<String, ParamValue>,
    ) -> Self {
        let cells = catalog.views().iter().map(|v| (v.name.as_str(), ViewCell::default()));
        let shared = catalog.views().iter().filter_map(ViewDef::shared_computation);
        Self {
            catalog,
            storage,
            tables,
            filled_tables,
            plan_source,
            cells: cells.collect(),
            shared_rows: shared
                .map(|shared| (shared.name, tokio::sync::Mutex::default()))
                .collect(),
            changed_placeholders: catalog
                .changed_params(&params)
                .map(|name| format!("${name}"))
                .collect(),
            params,
            temp_tables: Mutex::default(),
            query_counter: AtomicUsize::new(0),
            state: OnceLock::new(),
            context: OnceLock::new(),
            cpu_times: Mutex::default(),
            planned_queries: Mutex::default(),
            progress: OnceLock::new(),
        }
    }

    /// Must be called once, before the first query.
    pub(crate) fn set_state(&self, state: &Arc<SessionState>) {
        let _ = self.state.set(Arc::downgrade(state));
    }

    /// Plans a query; placeholders become the values of parameters. `sql` is the text of all of it.
    pub(crate) async fn plan(
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
        let scalars: HashMap<String, ScalarValue> =
            self.params.iter().map(|(name, value)| (name.clone(), value.scalar())).collect();
        plan.with_param_values(ParamValues::from(scalars))
    }

    /// Announces queries that read these views, each as often as it is listed. A view that is read more than
    /// once, directly or through other views, is computed once.
    pub(crate) fn announce_reads(&self, views: &[&'static ViewDef]) {
        let is_new = |view: &&&'static ViewDef| {
            let one_less = |count: usize| count.checked_sub(1);
            self.cell(view).expected.fetch_update(Relaxed, Relaxed, one_less).is_err()
        };
        self.count_reads(views.iter().filter(is_new).copied().collect());
    }

    /// Announces queries that come after others and read these views: their rows are kept.
    pub(crate) fn expect_reads(&self, views: &[&'static ViewDef]) {
        // What is read twice is kept.
        let reads = views.repeat(2);
        for view in &reads {
            self.cell(view).expected.fetch_add(1, Relaxed);
        }
        self.count_reads(reads);
    }

    fn count_reads(&self, mut stack: Vec<&'static ViewDef>) {
        let mut seen: HashSet<&str> = HashSet::new();
        while let Some(view) = stack.pop() {
            let cell = self.cell(view);
            cell.readers.fetch_add(1, Relaxed);
            if seen.insert(&view.name) && !cell.stored.initialized() {
                stack.extend(view.needs.iter().filter_map(|need| self.catalog.find(need)));
            }
        }
    }

    /// Reports the views that are computed from now on. The first call counts.
    pub(crate) fn report_to(&self, progress: Arc<dyn ViewProgress>) {
        let _ = self.progress.set(progress);
    }

    /// The receiver of progress, if there is one.
    pub(crate) fn progress(&self) -> Option<&dyn ViewProgress> {
        self.progress.get().map(AsRef::as_ref)
    }

    /// Counts the views that a query of `views` computes: those that are stored, and `views` themselves if their rows
    /// are asked for. To be called after [`Self::announce_reads`].
    pub(crate) fn plan_progress(&self, views: &[&'static ViewDef], are_rows_wanted: bool) {
        let Some(progress) = self.progress() else { return };
        let is_wanted =
            |view: &ViewDef| are_rows_wanted && views.iter().any(|v| v.name == view.name);
        let planned = self.views_below(views).into_iter().filter(|view| {
            (is_wanted(view) || self.is_stored(view))
                && !self.is_computed(view)
                && !self.cell(view).is_planned.swap(true, Relaxed)
        });
        progress.planned(planned.count());
    }

    /// `views` and the views that they are built on, down to those that are computed already.
    fn views_below(&self, views: &[&'static ViewDef]) -> Vec<&'static ViewDef> {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut below = Vec::new();
        let mut stack: Vec<&'static ViewDef> = views.to_vec();
        while let Some(view) = stack.pop() {
            if seen.insert(&view.name) {
                below.push(view);
                if !self.is_computed(view) {
                    stack.extend(view.needs.iter().filter_map(|need| self.catalog.find(need)));
                }
            }
        }
        below
    }

    /// Whether the rows of a view are known, or why there are none.
    pub(crate) fn is_computed(&self, view: &ViewDef) -> bool {
        self.cell(view).stored.initialized()
    }

    /// Sets the rows of a view that were computed elsewhere, or why there are none.
    pub(crate) fn set_rows(&self, view: &ViewDef, rows: Result<StoredRows, ViewFailure>) {
        let _ = self.cell(view).stored.set(rows);
    }

    /// Values of the parameters.
    pub(crate) fn params(&self) -> &HashMap<String, ParamValue> {
        &self.params
    }

    fn cell(&self, view: &ViewDef) -> &ViewCell {
        &self.cells[view.name.as_str()]
    }

    /// The rows of a view in their order.
    pub(crate) async fn rows(&self, view: &'static ViewDef) -> Result<Rows> {
        if self.is_stored(view) {
            return self.stored(view).await?.collect();
        }
        self.compute(view, TableStorage::Memory).await.map_err(|e| in_view(view, e))?.collect()
    }

    /// Whether a view is computed once, rather than as a part of each query that reads it.
    fn is_stored(&self, view: &ViewDef) -> bool {
        let cell = self.cell(view);
        view.rust.is_some() || cell.readers.load(Relaxed) > 1 || cell.stored.initialized()
    }

    async fn stored(&self, view: &'static ViewDef) -> Result<&StoredRows> {
        let store = || async {
            match self.compute(view, self.storage).await {
                Ok(rows) => Ok(Ok(rows)),
                // Alone it may have enough.
                Err(error) if is_out_of_memory(&error) => Err(in_view(view, error)),
                Err(error) => Ok(Err(failure_of(view, error))),
            }
        };
        let stored = self.cell(view).stored.get_or_try_init(store).await?;
        stored.as_ref().map_err(|failure| failure.clone().into())
    }

    /// Plans or computes a view, so that a query of it can be planned.
    pub(crate) async fn make_ready(&self, view: &'static ViewDef) -> Result<()> {
        self.table_of(view).await.map(drop)
    }

    /// What stands for a view in queries.
    async fn table_of(&self, view: &'static ViewDef) -> Result<Arc<dyn TableProvider>> {
        if !self.is_stored(view) {
            let inline = || async { self.inline(view).await.map_err(|e| in_view(view, e)) };
            if let Some(plan) = self.cell(view).inlined.get_or_try_init(inline).await? {
                return Ok(Arc::clone(plan) as _);
            }
        }
        self.stored(view).await?.table(&view.order)
    }

    async fn inline(&self, view: &'static ViewDef) -> Result<Option<Arc<dyn TableProvider>>> {
        let state = self.state()?;
        let query = self.query(&state, view)?;
        if let Some(schema) = self.schema_if_empty(&state, view, &view.name, &query).await? {
            return Ok(Some(Arc::new(MemTable::try_new(schema, vec![Vec::new()])?)));
        }
        if shared_ctes::has_repeated_ctes(&query) {
            return Ok(None);
        }
        let plan = self.plan(&state, self.take_query(view, query), &view.text).await?;
        Ok(Some(Arc::new(ViewTable::new(plan, Some(view.text.clone())))))
    }

    /// The syntax tree of a SQL view.
    fn query(&self, state: &SessionState, view: &ViewDef) -> Result<Arc<Statement>> {
        let mut kept = self.kept_query(view);
        if let Some(query) = kept.as_ref() {
            return Ok(Arc::clone(query));
        }
        let query = Arc::new(parse(state, &view.sql_text())?);
        *kept = Some(Arc::clone(&query));
        Ok(query)
    }

    /// The syntax tree of a view that is about to be planned: trees are large, and nothing else needs it.
    fn take_query(&self, view: &ViewDef, query: Arc<Statement>) -> Statement {
        self.kept_query(view).take();
        Arc::unwrap_or_clone(query)
    }

    fn kept_query(&self, view: &ViewDef) -> MutexGuard<'_, Option<Arc<Statement>>> {
        self.cell(view).query.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schema of a query of a view, if it has no rows because what it reads has none. `None` also if the schema is
    /// not known without a plan; `name` is its name among the schemas of the catalog.
    async fn schema_if_empty(
        &self,
        state: &SessionState,
        view: &'static ViewDef,
        name: &str,
        query: &Statement,
    ) -> Result<Option<SchemaRef>> {
        let Some(schema) = self.catalog.known_schema(name) else { return Ok(None) };
        let names = EmptyRelations { provider: self, state };
        let is_empty = empty_queries::has_no_rows(query, &EmptyTables(names)) || {
            // Planning would compute these, too.
            self.compute_stored_needs(view).await?;
            empty_queries::has_no_rows(query, &names)
        };
        Ok(is_empty.then_some(schema))
    }

    /// Computes the rows that a view reads, also through views that become part of its plan.
    async fn compute_stored_needs(&self, view: &'static ViewDef) -> Result<()> {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut stack = vec![view];
        while let Some(view) = stack.pop() {
            for need in view.needs.iter().filter_map(|need| self.catalog.find(need)) {
                if self.is_stored(need) {
                    Box::pin(self.stored(need)).await?;
                } else if seen.insert(&need.name) {
                    stack.push(need);
                }
            }
        }
        Ok(())
    }

    async fn compute(&self, view: &'static ViewDef, storage: TableStorage) -> Result<StoredRows> {
        let mut cpu_time = Duration::ZERO;
        let rows = match view.rust.map(|rust| rust.computation) {
            Some(Computation::Own(compute)) => self
                .compute_rust(view, compute, &mut cpu_time)
                .await?
                .store(storage, &view.order)?,
            Some(Computation::Shared(shared)) => {
                self.compute_shared(view, shared, storage, &mut cpu_time).await?
            }
            None => self.run_query(ViewQuery::of_sql(view), storage, &mut cpu_time).await?,
        };
        self.add_cpu_times([(view.name.as_str(), cpu_time)]);
        if self.cell(view).is_planned.swap(false, Relaxed)
            && let Some(progress) = self.progress()
        {
            progress.computed(&view.name);
        }
        Ok(rows)
    }

    async fn compute_rust(
        &self,
        view: &'static ViewDef,
        compute: ComputeFn,
        cpu_time: &mut Duration,
    ) -> Result<Rows> {
        let mut batches = BTreeMap::new();
        for (name, query) in ViewQuery::inputs(view) {
            let rows = self.run_query(query, TableStorage::Memory, cpu_time).await?.collect()?;
            batches.insert(name, concat_batches(&rows.schema, &rows.batches)?);
        }
        let start = Instant::now();
        let batch = compute(&ViewInputs::new(batches, &self.params))?;
        let batch = with_nullable_columns(sort_batch(batch, &view.order)?)?;
        *cpu_time += start.elapsed();
        Ok(Rows { schema: batch.schema(), batches: vec![batch] })
    }

    /// The rows of a view, computed together with those of other views that queries are about to read.
    async fn compute_shared(
        &self,
        view: &'static ViewDef,
        shared: &SharedComputation,
        storage: TableStorage,
        cpu_time: &mut Duration,
    ) -> Result<StoredRows> {
        let mut computed = self.shared_rows[shared.name].lock().await;
        if let Some(rows) = computed.remove(view.name.as_str()) {
            return Ok(rows);
        }
        let is_wanted = |other: &&'static ViewDef| {
            let is_read = || self.cell(other).readers.load(Relaxed) > 0 && !self.is_computed(other);
            view.is_computed_with(other) && !computed.contains_key(other.name.as_str()) && is_read()
        };
        let others = self.catalog.views().iter().filter(is_wanted);
        let (mut views, mut inputs) = (Vec::new(), SharedRows::new());
        for of_view in std::iter::once(view).chain(others) {
            match self.run_inputs(of_view, storage, &mut inputs, cpu_time).await {
                Ok(()) => views.push(of_view),
                Err(error) if of_view.name == view.name => return Err(error),
                // Another view fails when it is read.
                Err(_) => {}
            }
        }
        let start = Instant::now();
        let inputs = ViewInputs::stored(inputs, &self.params);
        let compute = |views: &[&'static ViewDef]| {
            let orders = views.iter().map(|view| (view.name.as_str(), view.order.as_slice()));
            let mut outputs = ViewOutputs::new(orders, storage);
            (shared.compute)(&inputs, &mut outputs)?;
            outputs.finish()
        };
        let mut rows = match compute(&views) {
            Err(_) if views.len() > 1 => compute(&[view])?,
            rows => rows?,
        };
        let of_view = rows.remove(view.name.as_str());
        computed.extend(rows);
        *cpu_time += start.elapsed();
        of_view.ok_or_else(|| exec_datafusion_err!("`{}` was not computed", view.name))
    }

    /// Adds the rows of the inputs of a view in Rust.
    async fn run_inputs(
        &self,
        view: &'static ViewDef,
        storage: TableStorage,
        inputs: &mut SharedRows,
        cpu_time: &mut Duration,
    ) -> Result<()> {
        for (name, query) in ViewQuery::inputs(view) {
            if !inputs.contains_key(name) {
                inputs.insert(name, self.run_query(query, storage, cpu_time).await?);
            }
        }
        Ok(())
    }

    /// The rows of a query of a view.
    async fn run_query(
        &self,
        query: ViewQuery,
        storage: TableStorage,
        cpu_time: &mut Duration,
    ) -> Result<StoredRows> {
        if let Some(rows) = self.run_prepared(query, cpu_time).await? {
            return rows.store(storage, query.order());
        }
        let state = self.state()?;
        let sql = query.sql();
        let statement = match query.input {
            Some(_) => Arc::new(parse(&state, &sql)?),
            None => self.query(&state, query.view)?,
        };
        if let Some(schema) =
            self.schema_if_empty(&state, query.view, &query.name(), &statement).await?
        {
            return Rows { schema, batches: Vec::new() }.store(storage, query.order());
        }
        self.add_planned_query(query.name().into_owned());
        let statement = match query.input {
            Some(_) => Arc::unwrap_or_clone(statement),
            None => self.take_query(query.view, statement),
        };
        let (plan, _temp_tables) =
            self.materialize_ctes(&state, statement, &sql, cpu_time, None).await?;
        let plan = sort_plan(plan, query.order())?;
        store_rows(&state, &plan, query.order(), storage, cpu_time).await
    }

    /// Runs the prepared plans of a query. Returns `None` if the catalog has no plans that fit this run.
    async fn run_prepared(
        &self,
        query: ViewQuery,
        cpu_time: &mut Duration,
    ) -> Result<Option<Rows>> {
        let candidates = self.find_prepared(&query.name(), query.text(), || query.digest());
        let Some(&prepared) = candidates.first() else { return Ok(None) };
        if self.lacks_rows(prepared).await?
            && let Some(schema) = self.catalog.known_schema(&query.name())
        {
            return Ok(Some(Rows { schema, batches: Vec::new() }));
        }
        let Some(prepared) = self.first_fitting(&candidates).await? else { return Ok(None) };
        let state = self.state()?;
        let context = self.context.get_or_init(|| state.task_ctx());
        let rows = self.run_plans(prepared, context, cpu_time).await?;
        // A plan that leaves out relations may return columns that are not nullable; the known schema holds for all runs.
        let schema =
            self.catalog.known_schema(&query.name()).filter(|_| !prepared.empty.is_empty());
        Ok(match (rows, schema) {
            (Some(rows), Some(schema)) => rows.with_schema(schema).ok(),
            (rows, _) => rows,
        })
    }

    /// Runs the plans of a query. Returns `None` if only the planner knows what to do.
    async fn run_plans(
        &self,
        prepared: &PreparedQuery,
        context: &Arc<TaskContext>,
        cpu_time: &mut Duration,
    ) -> Result<Option<Rows>> {
        let mut reader = RelationReader::new(self.state()?, Arc::clone(context));
        for name in &prepared.relations {
            reader.tables.insert(name.clone(), self.relation(name).await?);
        }
        let mut rows = None;
        for (step, plan) in prepared.plans.iter().enumerate() {
            let start = Instant::now();
            let plan = reader.read_executable(plan);
            *cpu_time += start.elapsed();
            // Columns have other types.
            let Ok(plan) = plan else { return Ok(None) };
            match run_prepared_plan(context, plan, cpu_time).await {
                // The planner knows joins that take less memory.
                Err(error) if is_out_of_memory(&error) => return Ok(None),
                outcome => {
                    let outcome = StoredRows::Memory(outcome?);
                    reader.tables.insert(prepared::step_name(step), outcome.table(&[])?);
                    rows = Some(outcome.collect()?);
                }
            }
        }
        Ok(rows)
    }

    /// The prepared plans of a query of this program or of its rules, if this run can use them.
    pub(crate) fn find_prepared_text(&self, sql: &str) -> Option<&'static PreparedQuery> {
        self.find_prepared(&prepared::text_name(sql), sql, || text_digest(sql)).first().copied()
    }

    /// Runs the plans that [`Self::find_prepared_text`] returned, within the memory of a context. Returns `None` if only the
    /// planner knows what to do.
    pub(crate) async fn run_prepared_text(
        &self,
        prepared: &PreparedQuery,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Rows>> {
        let mut cpu_time = Duration::ZERO;
        let rows = self.run_plans(prepared, context, &mut cpu_time).await?;
        rows.map(|rows| within_limit(context, rows)).transpose()
    }

    /// Computes the rows of views that a prepared query reads.
    pub(crate) async fn store_relations(&self, prepared: &PreparedQuery) -> Result<()> {
        for name in &prepared.relations {
            self.relation(name).await?;
        }
        Ok(())
    }

    /// The first of the plans of a query for which the relations that they leave out have no rows.
    async fn first_fitting(
        &self,
        candidates: &[&'static PreparedQuery],
    ) -> Result<Option<&'static PreparedQuery>> {
        let may_be_empty =
            |name: &String| self.catalog.find(name).is_some() || self.is_empty_table(name);
        for prepared in candidates {
            // Tables come first: views may have to be computed.
            let mut fits = prepared.empty.iter().all(may_be_empty);
            for name in &prepared.empty {
                fits = fits && self.is_empty_relation(name).await?;
            }
            if fits {
                return Ok(Some(prepared));
            }
        }
        Ok(None)
    }

    /// Returns whether a view that becomes part of a plan has no rows because of what it reads.
    async fn is_empty_inlined(&self, state: &SessionState, view: &'static ViewDef) -> Result<bool> {
        let query = self.query(state, view)?;
        Ok(self.schema_if_empty(state, view, &view.name, &query).await?.is_some())
    }

    /// Returns whether a table or the rows of a view are empty.
    async fn is_empty_relation(&self, name: &str) -> Result<bool> {
        match self.catalog.find(name) {
            Some(view) => Ok(Box::pin(self.stored(view)).await?.is_empty()),
            None => Ok(self.is_empty_table(name)),
        }
    }

    /// Returns whether a query mentions a parameter whose value is not the default.
    fn mentions_changed_param(&self, text: &str) -> bool {
        self.changed_placeholders.iter().any(|placeholder| text.contains(placeholder.as_str()))
    }

    /// Finds the prepared plans of a query that inline only views that this session inlines, too.
    fn find_prepared(
        &self,
        name: &str,
        text: &str,
        digest: impl FnOnce() -> Bytes,
    ) -> Vec<&'static PreparedQuery> {
        if self.plan_source != PlanSource::Prepared || self.mentions_changed_param(text) {
            return Vec::new();
        }
        let candidates = self.catalog.prepared_plans(name);
        if candidates.is_empty() {
            return Vec::new();
        }
        let digest = digest();
        let is_inlined = |inlined: &InlinedView| {
            self.catalog.find(&inlined.name).is_some_and(|view| {
                !self.is_stored(view)
                    && !self.mentions_changed_param(&view.text)
                    && ViewQuery::of_sql(view).digest() == inlined.digest
            })
        };
        let fits = |prepared: &&PreparedQuery| {
            prepared.digest == digest && prepared.inlined.iter().all(is_inlined)
        };
        candidates.iter().filter(fits).collect()
    }

    /// Returns whether a relation that the query needs is empty, so that the query returns no rows.
    async fn lacks_rows(&self, prepared: &PreparedQuery) -> Result<bool> {
        if prepared.indispensable.iter().any(|name| self.is_empty_table(name)) {
            return Ok(true);
        }
        for name in &prepared.indispensable {
            if self.is_empty_relation(name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_empty_table(&self, name: &str) -> bool {
        self.tables.contains_key(name) && !self.filled_tables.contains(name)
    }

    /// Returns whether the query of a view in SQL has no rows because of relations that are empty.
    fn is_empty_view(
        &self,
        state: &SessionState,
        view: &ViewDef,
        names: &dyn empty_queries::Names,
    ) -> bool {
        view.rust.is_none()
            && self.query(state, view).is_ok_and(|query| empty_queries::has_no_rows(&query, names))
    }

    /// A table, or the rows of a view.
    async fn relation(&self, name: &str) -> Result<Arc<dyn TableProvider>> {
        if let Some(table) = self.tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let view = self.catalog.find(name);
        let view = view.ok_or_else(|| plan_datafusion_err!("there is no relation `{name}`"))?;
        Box::pin(self.stored(view)).await?.table(&view.order)
    }

    /// Makes the plans of a query of a view. The views that it reads should be computed if they are to be, and have rows.
    /// With `leave_out_empty`, the plans leave out relations without rows; returns `None` if the query then has no rows, or
    /// reads no such relation.
    pub(crate) async fn record(
        &self,
        query: ViewQuery,
        leave_out_empty: bool,
    ) -> Result<Option<PreparedQuery>> {
        self.compute_stored_needs(query.view).await?;
        let name = query.name().into_owned();
        self.record_sql((name, query.digest()), &query.sql(), query.order(), leave_out_empty).await
    }

    /// Makes the plans of a query of this program or of its rules, which reads the rows of views: they are computed.
    pub(crate) async fn record_text(&self, sql: &str) -> Result<Option<PreparedQuery>> {
        let statement = parse(&*self.state()?, sql)?;
        let names: Vec<String> =
            References::of(&statement).unqualified_relations().map(str::to_owned).collect();
        for view in names.iter().filter_map(|name| self.catalog.find(name)) {
            self.stored(view).await?;
        }
        self.record_sql((prepared::text_name(sql), text_digest(sql)), sql, &[], false).await
    }

    async fn record_sql(
        &self,
        (name, digest): (String, Bytes),
        sql: &str,
        order: &[String],
        leave_out_empty: bool,
    ) -> Result<Option<PreparedQuery>> {
        let state = self.state()?;
        let statement = parse(&state, sql)?;
        let (mut relations, mut inlined) = (BTreeSet::new(), BTreeMap::new());
        let mut names: Vec<String> =
            References::of(&statement).unqualified_relations().map(str::to_owned).collect();
        // Views that the planner takes for empty because of what they read, see `inline`.
        let mut empty_views = Vec::new();
        while let Some(name) = names.pop() {
            match self.catalog.find(&name) {
                Some(view) if !self.is_stored(view) => {
                    if leave_out_empty && self.is_empty_inlined(&state, view).await? {
                        empty_views.push(name.clone());
                    }
                    let digest = ViewQuery::of_sql(view).digest();
                    inlined.insert(name, InlinedView { name: view.name.clone(), digest });
                    names.extend(view.needs.iter().cloned());
                }
                _ => {
                    relations.insert(name);
                }
            }
        }
        let is_indispensable = |name: &&String| {
            let only = OneEmpty { name: name.as_str(), provider: self, state: &state };
            empty_queries::has_no_rows(&statement, &only)
        };
        let indispensable: Vec<String> =
            relations.iter().filter(is_indispensable).cloned().collect();
        let mut empty = Vec::new();
        if leave_out_empty {
            for name in &relations {
                if self.is_empty_relation(name).await? {
                    empty.push(name.clone());
                }
            }
            if empty.is_empty() || indispensable.iter().any(|name| empty.contains(name)) {
                return Ok(None);
            }
        }
        let mut recording =
            Recording::new(Arc::clone(&state), &[&empty[..], &empty_views].concat());
        for name in &relations {
            recording.add_table(name, self.relation(name).await?);
        }
        let mut cpu_time = Duration::ZERO;
        let (plan, _temp_tables) = self
            .materialize_ctes(&state, statement, sql, &mut cpu_time, Some(&mut recording))
            .await?;
        recording.add_plan(&sort_plan(plan, order)?).await?;
        relations.retain(|name| !empty.contains(name));
        Ok(Some(PreparedQuery {
            name,
            digest,
            relations: relations.into_iter().collect(),
            indispensable,
            inlined: inlined.into_values().collect(),
            plans: recording.into_plans(),
            empty,
        }))
    }

    /// Plans a query after computing the common table expressions that it reads more than once. Their rows live as long as
    /// what is returned; a recording gets their plans.
    pub(crate) async fn materialize_ctes(
        &self,
        state: &SessionState,
        query: Statement,
        sql: &str,
        cpu_time: &mut Duration,
        mut recording: Option<&mut Recording>,
    ) -> Result<(LogicalPlan, Vec<TempTable<'_>>)> {
        let prefix = format!("#{}", self.query_counter.fetch_add(1, Relaxed));
        let shared = shared_ctes::split(query, &prefix);
        let mut temp_tables = Vec::with_capacity(shared.tables.len());
        for (name, query) in shared.tables {
            let own = recording.as_deref_mut();
            let (plan, _own_tables) =
                Box::pin(self.materialize_ctes(state, query, sql, cpu_time, own)).await?;
            read_only().verify_plan(&plan)?;
            let table = store_rows(state, &plan, &[], self.storage, cpu_time).await?.table(&[])?;
            if let Some(recording) = &mut recording {
                recording.add_plan(&plan).await?;
                recording.add_step(&name, Arc::clone(&table));
            }
            temp_tables.push(TempTable::new(self, name, table));
        }
        Ok((self.plan(state, shared.query, sql).await?, temp_tables))
    }

    pub(crate) fn add_cpu_times(&self, times: impl IntoIterator<Item = (&'static str, Duration)>) {
        self.cpu_times.lock().unwrap_or_else(PoisonError::into_inner).extend(times);
    }

    /// CPU time of each view computed so far, without the views that it reads. Views that only became part of
    /// other queries are not listed.
    pub(crate) fn cpu_times(&self) -> CpuTimes {
        self.cpu_times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_planned_query(&self, name: String) {
        self.planned_queries.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    /// The queries that were planned because there was no prepared plan: views, inputs of views in Rust as `view/input`, and
    /// texts of queries of the program and its rules.
    pub(crate) fn planned_queries(&self) -> Vec<String> {
        let planned = self.planned_queries.lock().unwrap_or_else(PoisonError::into_inner);
        planned.iter().cloned().collect()
    }

    fn temp_tables(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn TableProvider>>> {
        self.temp_tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Result<Arc<SessionState>> {
        let state = self.state.get().and_then(Weak::upgrade);
        state.ok_or_else(|| plan_datafusion_err!("the session is closed"))
    }
}

/// The schema of a table without the metadata of its columns: DataFusion cannot plan a union of tables whose
/// metadata differ, and the documentation is in [`TableSpec`].
pub(crate) fn schema_without_metadata(spec: &TableSpec) -> SchemaRef {
    let field = |c: &ColumnSpec| Field::new(c.name, c.column_type.arrow(), c.nullable);
    Arc::new(Schema::new(spec.columns.iter().map(field).collect::<Vec<_>>()))
}

/// A schema that does not depend on the rows: code derives nullability from them, and plans are made for a schema.
fn with_nullable_columns(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = nullable(&batch.schema());
    Ok(batch.with_schema(schema)?)
}

/// Distinguishes queries that are not those of a view.
fn text_digest(sql: &str) -> Bytes {
    prepared::digest(sql, &[])
}

/// Parses a query.
pub(crate) fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)
}

/// The relations that are known to be empty before views are computed: tables, and views that read them.
struct EmptyTables<'a>(EmptyRelations<'a>);

impl empty_queries::Names for EmptyTables<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let EmptyRelations { provider, state } = self.0;
        let Some(view) = provider.catalog.find(name) else { return provider.is_empty_table(name) };
        let lacks_tables = &provider.cell(view).lacks_tables;
        *lacks_tables.get_or_init(|| provider.is_empty_view(state, view, self))
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.0.is_aggregate(name)
    }
}

/// The relations that are known to be empty once the views are computed that a query reads.
#[derive(Clone, Copy)]
struct EmptyRelations<'a> {
    provider: &'a ViewSchemaProvider,
    state: &'a SessionState,
}

impl empty_queries::Names for EmptyRelations<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let Self { provider, state } = *self;
        let Some(view) = provider.catalog.find(name) else {
            return EmptyTables(*self).is_empty_relation(name);
        };
        match provider.cell(view).stored.get() {
            Some(stored) => stored.as_ref().is_ok_and(StoredRows::is_empty),
            None => provider.is_empty_view(state, view, self),
        }
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }
}

/// Relations of which one is empty, with the views that are part of plans.
struct OneEmpty<'a> {
    name: &'a str,
    provider: &'a ViewSchemaProvider,
    state: &'a SessionState,
}

impl empty_queries::Names for OneEmpty<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let Self { provider, state, .. } = *self;
        name == self.name
            || provider.catalog.find(name).is_some_and(|view| {
                !provider.is_stored(view) && provider.is_empty_view(state, view, self)
            })
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }
}

/// Refuses plans that change anything.
pub(crate) fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// A table that exists until this value is dropped.
pub(crate) struct TempTable<'a> {
    provider: &'a ViewSchemaProvider,
    name: String,
}

impl<'a> TempTable<'a> {
    fn new(provider: &'a ViewSchemaProvider, name: String, table: Arc<dyn TableProvider>) -> Self {
        provider.temp_tables().insert(name.clone(), table);
        Self { provider, name }
    }
}

impl Drop for TempTable<'_> {
    fn drop(&mut self) {
        self.provider.temp_tables().remove(&self.name);
    }
}

impl std::fmt::Debug for ViewSchemaProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewSchemaProvider")
            .field("tables", &self.tables.keys())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for ViewSchemaProvider {
    fn table_names(&self) -> Vec<String> {
        let tables = TABLES.iter().map(|t| t.name);
        tables.chain(self.cells.keys().copied()).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = match (self.tables.get(name), self.catalog.find(name)) {
            (Some(table), _) => Some(Arc::clone(table)),
            (None, Some(view)) => Some(self.table_of(view).await?),
            (None, None) => self.temp_tables().get(name).cloned(),
        };
        Ok(match table {
            // A view that is part of the plan has a plan, not rows.
            Some(table)
                if self.plan_source == PlanSource::Recorded
                    && table.get_logical_plan().is_none() =>
            {
                Some(Arc::new(NamedTable::new(name, table)))
            }
            table => table,
        })
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.tables.contains_key(name) {
            return Ok(Some(TableType::Base));
        }
        Ok(self.cells.contains_key(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.cells.contains_key(name)
            || self.temp_tables().contains_key(name)
    }
}
