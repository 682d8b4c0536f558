//! The tables and views of a session as the engine sees them. A view comes into being when the first
//! query reads it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

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

/// Gives the state that views are planned with. It holds the session weakly: the session holds this.
pub(crate) type StateSource = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// The one schema of a session.
pub(crate) struct Schema {
    catalog: &'static Catalog,
    tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
    views: BTreeMap<&'static str, OnceCell<Arc<dyn TableProvider>>>,
    params: HashMap<String, ScalarValue>,
    state: OnceLock<StateSource>,
}

impl Schema {
    pub(crate) fn new(
        catalog: &'static Catalog,
        tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
        params: &Params,
    ) -> Self {
        let views = catalog.modules().iter().map(|m| (m.name.as_str(), OnceCell::new())).collect();
        let params = catalog
            .modules()
            .iter()
            .flat_map(|m| &m.params)
            .map(|p| (p.name.clone(), p.scalar(params.get(&p.name))))
            .collect();
        Self { catalog, tables, views, params, state: OnceLock::new() }
    }

    /// Must be called once, before the first query.
    pub(crate) fn set_state(&self, source: StateSource) {
        let _ = self.state.set(source);
    }

    /// Plans a query; placeholders become the values of parameters.
    pub(crate) async fn plan(&self, state: &SessionState, sql: &str) -> Result<LogicalPlan> {
        let plan = state.create_logical_plan(sql).await?;
        plan.with_param_values(ParamValues::from(self.params.clone()))
    }

    async fn create(&self, module: &Module) -> Result<Arc<dyn TableProvider>> {
        let state = self.state.get().and_then(|source| source());
        let state = state.ok_or_else(|| plan_datafusion_err!("the session is closed"))?;
        let (schema, batches) = if let Some(native) = module.native {
            let batch = self.compute(&state, native).await?;
            (batch.schema(), vec![batch])
        } else {
            let plan = self.plan(&state, &module.text).await?;
            if !module.materialize {
                return Ok(Arc::new(ViewTable::new(plan, Some(module.text.clone()))));
            }
            run(state, in_order(plan, module)?).await?
        };
        let table = MemTable::try_new(schema, vec![batches])?;
        Ok(Arc::new(if module.order.is_empty() {
            table
        } else {
            table.with_sort_order(vec![order(module)])
        }))
    }

    async fn compute(&self, state: &SessionState, native: &'static Native) -> Result<RecordBatch> {
        let mut batches = BTreeMap::new();
        for &(name, sql) in native.reads {
            let plan = self.plan(state, sql).await?;
            batches.insert(name, read(state.clone(), plan).await?);
        }
        (native.compute)(&Inputs { batches, params: &self.params })
    }
}

/// All rows of `plan` as one batch.
async fn read(state: SessionState, plan: LogicalPlan) -> Result<RecordBatch> {
    let (schema, batches) = run(state, plan).await?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The rows of `plan`, and their schema. What a column may hold is known better to the physical plan
/// than to the logical one.
pub(crate) async fn run(
    state: SessionState,
    plan: LogicalPlan,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let context = state.task_ctx();
    let plan = state.create_physical_plan(&plan).await?;
    let schema = plan.schema();
    Ok((schema, collect(plan, context).await?))
}

/// `plan` with its rows in the order that the module declares.
pub(crate) fn in_order(plan: LogicalPlan, module: &Module) -> Result<LogicalPlan> {
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
        let (Some(cell), Some(module)) = (self.views.get(name), self.catalog.find(name)) else {
            return Ok(None);
        };
        // The error names the innermost module: the one whose text is wrong.
        let view = cell.get_or_try_init(|| self.create(module)).await.map_err(|e| match &e {
            DataFusionError::Context(context, _) if context.starts_with(IN_MODULE) => e,
            _ => e.context(format!("{IN_MODULE}{name}")),
        })?;
        Ok(Some(Arc::clone(view)))
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

/// The module whose SQL an error comes from, and the error itself.
pub(crate) fn module_of(error: DataFusionError) -> (Option<String>, DataFusionError) {
    match error {
        DataFusionError::Context(context, inner) if context.starts_with(IN_MODULE) => {
            (Some(context[IN_MODULE.len()..].to_owned()), *inner)
        }
        other => (None, other),
    }
}
