//! Tables and views as DataFusion sees them. A view is planned or computed when the first query reads it, so that a run
//! that lacks some tables computes only the views that have rows.

mod compute;
mod emptiness;
mod prepared_plans;
mod recording;
mod view_query;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{ParamValues, plan_datafusion_err};
use datafusion::datasource::{TableType, ViewTable};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use tokio::sync::OnceCell;
use trace_model::tables::TABLES;
use trace_model::{ColumnSpec, TableSpec};

pub(crate) use self::view_query::ViewQuery;
use crate::catalog::Catalog;
use crate::error::ViewFailure;
use crate::params::ParamValue;
use crate::plan::shared_ctes;
use crate::prepared::{self, NamedTable};
use crate::progress::ViewProgress;
use crate::storage::TableStorage;
use crate::stored_rows::StoredRows;
use crate::view::{ViewDef, in_view};

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
    /// Number of queries that read it: of the user, and of other views.
    readers: AtomicUsize,
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

    /// Announces queries that read these views, each as often as it is listed. A view with several readers is stored: its
    /// query runs once. A view with one reader becomes part of the reader's query.
    pub(crate) fn announce_reads(&self, views: &[&'static ViewDef]) {
        self.count_readers(views, 1);
    }

    /// Announces queries that come after others and read these views: the views are stored.
    pub(crate) fn expect_reads(&self, views: &[&'static ViewDef]) {
        self.count_readers(views, 2);
    }

    /// Adds `count` readers to each of `views`, and one reader to each view that a view with its first readers needs.
    fn count_readers(&self, views: &[&'static ViewDef], count: usize) {
        let mut added: BTreeMap<usize, usize> = BTreeMap::new();
        for view in views.iter().filter_map(|view| self.catalog.position(&view.name)) {
            *added.entry(view).or_default() += count;
        }
        // Views come after those that they need: all readers of the last view are known.
        while let Some((view, count)) = added.pop_last() {
            let view = &self.catalog.views()[view];
            let earlier = self.cell(view).readers.fetch_add(count, Relaxed);
            if earlier == 0 && !self.is_computed(view) {
                for need in view.needs.iter().filter_map(|need| self.catalog.position(need)) {
                    *added.entry(need).or_default() += 1;
                }
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

    /// Whether a view is computed once, rather than as a part of each query that reads it.
    fn is_stored(&self, view: &ViewDef) -> bool {
        let cell = self.cell(view);
        view.rust.is_some() || cell.readers.load(Relaxed) > 1 || cell.stored.initialized()
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

    /// A table, or the rows of a view.
    async fn relation(&self, name: &str) -> Result<Arc<dyn TableProvider>> {
        if let Some(table) = self.tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let view = self.catalog.find(name);
        let view = view.ok_or_else(|| plan_datafusion_err!("there is no relation `{name}`"))?;
        Box::pin(self.stored(view)).await?.table(&view.order)
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

/// Distinguishes queries that are not those of a view.
fn text_digest(sql: &str) -> Bytes {
    prepared::digest(sql, &[])
}

/// Parses a query.
pub(crate) fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)
}

/// Refuses plans that change anything.
pub(crate) fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
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
