//! The tables and views of a session as the engine sees them. A view comes into being when the first
//! query reads it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{ParamValues, plan_datafusion_err};
use datafusion::datasource::{TableType, ViewTable};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SortExpr, ident};
use datafusion::physical_plan::collect;
use datafusion::scalar::ScalarValue;
use tokio::sync::OnceCell;
use trace_model::RecordBatch;
use trace_model::tables::TABLES;

use crate::catalog::Catalog;
use crate::module::Module;
use crate::native::{Inputs, Native};
use crate::params::Params;

/// The one schema of a session.
pub(crate) struct Schema {
    catalog: &'static Catalog,
    tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
    views: BTreeMap<&'static str, Slot>,
    params: HashMap<String, ScalarValue>,
    /// What views are planned with. It holds this schema.
    state: OnceLock<Weak<SessionState>>,
    /// What the queries of views took, or their Rust, without what they read.
    times: Mutex<Vec<(&'static str, Duration)>>,
}

/// A view, once a query has read it.
#[derive(Default)]
struct Slot {
    view: OnceCell<View>,
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
        params: &Params,
    ) -> Self {
        let views = catalog.modules().iter().map(|m| (m.name.as_str(), Slot::default())).collect();
        let params = catalog
            .modules()
            .iter()
            .flat_map(|m| &m.params)
            .map(|p| (p.name.clone(), p.scalar(params.get(&p.name))))
            .collect();
        Self { catalog, tables, views, params, state: OnceLock::new(), times: Mutex::default() }
    }

    /// Must be called once, before the first query.
    pub(crate) fn set_state(&self, state: &Arc<SessionState>) {
        let _ = self.state.set(Arc::downgrade(state));
    }

    /// Plans a query; placeholders become the values of parameters.
    pub(crate) async fn plan(&self, state: &SessionState, sql: &str) -> Result<LogicalPlan> {
        let plan = state.create_logical_plan(sql).await?;
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

    /// The rows of a view, from where they are kept if they are.
    pub(crate) async fn rows(&self, module: &'static Module) -> Result<Rows> {
        if self.is_kept(module)
            && let View::Rows(rows) = self.view(module).await?
        {
            return Ok(rows.clone());
        }
        self.execute(module).await.map_err(|e| in_module(module, e))
    }

    fn is_kept(&self, module: &Module) -> bool {
        let slot = &self.views[module.name.as_str()];
        module.materialize || module.is_native() || slot.is_shared.load(Relaxed)
    }

    async fn view(&self, module: &'static Module) -> Result<&View> {
        let slot = &self.views[module.name.as_str()];
        let create = || async {
            if self.is_kept(module) {
                return Ok(View::Rows(self.execute(module).await?));
            }
            let state = self.state()?;
            let plan = self.plan(&state, &module.text).await?;
            Ok(View::Query(Arc::new(ViewTable::new(plan, Some(module.text.clone())))))
        };
        slot.view.get_or_try_init(create).await.map_err(|e| in_module(module, e))
    }

    async fn execute(&self, module: &'static Module) -> Result<Rows> {
        let state = self.state()?;
        if let Some(native) = module.native {
            let inputs = self.inputs(&state, native).await?;
            let start = Instant::now();
            let batch = (native.compute)(&inputs)?;
            self.took(module, start);
            return Ok(Rows { schema: batch.schema(), batches: vec![batch] });
        }
        let plan = self.plan(&state, &module.text).await?;
        let start = Instant::now();
        let rows = run(&state, in_order(plan, module)?).await?;
        self.took(module, start);
        Ok(rows)
    }

    fn took(&self, module: &'static Module, start: Instant) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((&module.name, start.elapsed()));
    }

    /// What the query of each view took so far, or its Rust, without the rows of other views that it reads; views that
    /// are only part of other queries are not in here.
    pub(crate) fn times(&self) -> Vec<(&'static str, Duration)> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn state(&self) -> Result<Arc<SessionState>> {
        let state = self.state.get().and_then(Weak::upgrade);
        state.ok_or_else(|| plan_datafusion_err!("the session is closed"))
    }

    async fn inputs(&self, state: &SessionState, native: &'static Native) -> Result<Inputs<'_>> {
        let mut batches = BTreeMap::new();
        for &(name, sql) in native.reads {
            let plan = self.plan(state, sql).await?;
            batches.insert(name, read(state, plan).await?);
        }
        Ok(Inputs { batches, params: &self.params })
    }
}

/// All rows of `plan` as one batch.
async fn read(state: &SessionState, plan: LogicalPlan) -> Result<RecordBatch> {
    let Rows { schema, batches } = run(state, plan).await?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The rows of `plan`, and their schema. What a column may hold is known better to the physical plan
/// than to the logical one.
pub(crate) async fn run(state: &SessionState, plan: LogicalPlan) -> Result<Rows> {
    let context = state.task_ctx();
    let plan = state.create_physical_plan(&plan).await?;
    let schema = plan.schema();
    Ok(Rows { schema, batches: collect(plan, context).await? })
}

/// `plan` with its rows in the order that the module declares.
fn in_order(plan: LogicalPlan, module: &Module) -> Result<LogicalPlan> {
    if module.order.is_empty() {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).sort(order(module))?.build()
}

fn order(module: &Module) -> Vec<SortExpr> {
    module.order.iter().map(|column| ident(column).sort(true, false)).collect()
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
        let Some(module) = self.catalog.find(name) else { return Ok(None) };
        Ok(Some(match self.view(module).await? {
            View::Query(query) => Arc::clone(query) as _,
            View::Rows(Rows { schema, batches }) => {
                let table = MemTable::try_new(Arc::clone(schema), vec![batches.clone()])?;
                Arc::new(if module.order.is_empty() {
                    table
                } else {
                    table.with_sort_order(vec![order(module)])
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
        self.tables.contains_key(name) || self.views.contains_key(name)
    }
}

/// Prefix of the context that an error in a module's SQL carries.
const IN_MODULE: &str = "view ";

/// The error names the innermost module: the one whose text is wrong.
fn in_module(module: &Module, error: DataFusionError) -> DataFusionError {
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
