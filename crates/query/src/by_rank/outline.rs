//! The views of a catalog without any rows: what their columns are, what they read, and what their rows depend on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::ParamValues;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use trace_model::RecordBatch;
use trace_model::tables::{TABLES, find};

use super::reach::{Reach, reach};
use crate::module::Module;
use crate::native::{Inputs, Native};
use crate::schema::{bare, in_module};

/// The views known so far, each as a table without rows.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    views: Mutex<HashMap<&'static str, Known>>,
}

/// What is known of a view.
#[derive(Debug, Clone)]
pub(super) struct Known {
    schema: SchemaRef,
    pub(super) reach: Reach,
    /// Columns of tables that it reads, not through other views.
    pub(super) columns: Columns,
}

/// Positions of columns by tables.
pub(super) type Columns = BTreeMap<&'static str, BTreeSet<usize>>;

impl Outline {
    /// Gets to know these views. `modules` has each after those that it reads; `state` plans over this outline.
    pub(super) async fn learn(
        &self,
        state: &SessionState,
        modules: &[&'static Module],
        params: &HashMap<String, ScalarValue>,
    ) -> Result<BTreeMap<&'static str, Known>> {
        let mut all = BTreeMap::new();
        for &module in modules {
            let in_view = |e| in_module(module, e);
            let known = self.views().get(module.name.as_str()).cloned();
            let known = match (known, module.native) {
                (Some(known), _) => known,
                (None, Some(native)) => {
                    self.native(state, native, params, true).await.map_err(in_view)?
                }
                (None, None) => self.query(state, &module.text, params).await.map_err(in_view)?,
            };
            self.views().insert(&module.name, known.clone());
            all.insert(module.name.as_str(), known);
        }
        Ok(all)
    }

    /// Of a query over tables and the views known so far.
    pub(super) async fn query(
        &self,
        state: &SessionState,
        sql: &str,
        params: &HashMap<String, ScalarValue>,
    ) -> Result<Known> {
        let mut plan = state.create_logical_plan(sql).await?;
        if sql.contains('$') {
            plan = plan.with_param_values(ParamValues::from(params.clone()))?;
        }
        let schema = Arc::new(plan.schema().as_arrow().clone());
        let optimized = state.optimize(&plan)?;
        let reach = reach(&optimized, &|table| self.reach(table))?;
        // What it names must be there to be planned, even if it turns out not to be needed.
        let words: HashSet<&str> =
            sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let is_named = |table: &str, at: usize| {
            find(table).is_some_and(|spec| words.contains(spec.columns[at].name))
        };
        let mut columns = columns(&plan)?;
        let needed = self::columns(&optimized)?;
        for (table, all) in &mut columns {
            let needed = needed.get(table);
            // The rank is read in any case: it may say which rows are meant.
            all.retain(|at| {
                *at == 0 || is_named(table, *at) || needed.is_some_and(|n| n.contains(at))
            });
        }
        Ok(Known { schema, reach, columns })
    }

    /// Of a native view of a run without ranks, or of a part of one.
    pub(super) async fn native(
        &self,
        state: &SessionState,
        native: &'static Native,
        params: &HashMap<String, ScalarValue>,
        is_part: bool,
    ) -> Result<Known> {
        let mut batches = BTreeMap::new();
        let mut is_by_rank = native.is_by_rank;
        let mut columns = Columns::new();
        for &(name, sql) in native.reads {
            let Known { schema, reach, columns: read } = self.query(state, sql, params).await?;
            is_by_rank &= reach != Reach::Run;
            for (table, read) in read {
                columns.entry(table).or_default().extend(read);
            }
            batches.insert(name, RecordBatch::new_empty(schema));
        }
        let schema = (native.compute)(&Inputs { batches, params, is_part })?.schema();
        let reach = if is_by_rank {
            Reach::Rank(schema.index_of("rank").into_iter().collect())
        } else {
            Reach::Run
        };
        Ok(Known { schema, reach, columns })
    }

    fn reach(&self, table: &str) -> Reach {
        if let Some(known) = self.views().get(table) {
            return known.reach.clone();
        }
        // All tables say it in their first column; some have rows about the run as a whole.
        match find(table) {
            Some(spec) if !spec.columns[0].nullable => Reach::Rank([0].into()),
            _ => Reach::Run,
        }
    }

    fn views(&self) -> MutexGuard<'_, HashMap<&'static str, Known>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schema(&self, name: &str) -> Option<SchemaRef> {
        if let Some(spec) = find(name) {
            return Some(bare(spec));
        }
        self.views().get(name).map(|known| Arc::clone(&known.schema))
    }
}

/// The columns of tables that a plan reads.
fn columns(plan: &LogicalPlan) -> Result<Columns> {
    let mut columns = Columns::new();
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan
            && let Some(spec) = find(scan.table_name.table())
        {
            let all = || (0..spec.columns.len()).collect();
            let read = scan.projection.clone().unwrap_or_else(all);
            columns.entry(spec.name).or_default().extend(read);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

#[async_trait]
impl SchemaProvider for Outline {
    fn table_names(&self) -> Vec<String> {
        let views: Vec<String> = self.views().keys().map(|&name| name.to_owned()).collect();
        TABLES.iter().map(|spec| spec.name.to_owned()).chain(views).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.schema(name).map(|schema| Arc::new(EmptyTable::new(schema)) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.schema(name).is_some()
    }
}
