//! The views of a catalog without any rows: what their columns are, and what their rows depend on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::ParamValues;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::scalar::ScalarValue;
use trace_model::RecordBatch;
use trace_model::tables::TABLES;

use super::reach::{Reach, reach};
use crate::module::Module;
use crate::native::{Inputs, Native};
use crate::schema::bare;

/// The views known so far, each as a table without rows.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    views: Mutex<HashMap<&'static str, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    schema: SchemaRef,
    reach: Reach,
}

impl Outline {
    /// What the rows of these views depend on. `modules` has each after those that it reads; `state` plans over this
    /// outline.
    pub(crate) async fn reaches(
        &self,
        state: &SessionState,
        modules: &[&'static Module],
        params: &HashMap<String, ScalarValue>,
    ) -> Result<BTreeMap<&'static str, Reach>> {
        let mut reaches = BTreeMap::new();
        for &module in modules {
            let known = match module.native {
                Some(native) => self.native(state, native, params).await?,
                None => self.query(state, &module.text, params).await?,
            };
            reaches.insert(module.name.as_str(), known.reach.clone());
            self.views().insert(&module.name, known);
        }
        Ok(reaches)
    }

    async fn query(
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
        let reach = reach(&state.optimize(&plan)?, &|table| self.reach(table))?;
        Ok(Known { schema, reach })
    }

    async fn native(
        &self,
        state: &SessionState,
        native: &'static Native,
        params: &HashMap<String, ScalarValue>,
    ) -> Result<Known> {
        let mut batches = BTreeMap::new();
        let mut is_by_rank = native.is_by_rank;
        for &(name, sql) in native.reads {
            let Known { schema, reach } = self.query(state, sql, params).await?;
            is_by_rank &= reach != Reach::Run;
            batches.insert(name, RecordBatch::new_empty(schema));
        }
        let schema = (native.compute)(&Inputs { batches, params })?.schema();
        let reach = if is_by_rank {
            Reach::Rank(schema.index_of("rank").into_iter().collect())
        } else {
            Reach::Run
        };
        Ok(Known { schema, reach })
    }

    fn reach(&self, table: &str) -> Reach {
        // All tables have it as their first column.
        let of_tables = || Reach::Rank([0].into());
        self.views().get(table).map_or_else(of_tables, |known| known.reach.clone())
    }

    fn views(&self) -> MutexGuard<'_, HashMap<&'static str, Known>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schema(&self, name: &str) -> Option<SchemaRef> {
        if let Some(spec) = TABLES.iter().find(|spec| spec.name == name) {
            return Some(bare(spec));
        }
        self.views().get(name).map(|known| Arc::clone(&known.schema))
    }
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
