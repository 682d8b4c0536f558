//! Computes the rows of views.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arrow::compute::concat_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use trace_model::RecordBatch;

use super::view_query::ViewQuery;
use super::{SharedRows, ViewSchemaProvider, parse, read_only};
use crate::error::is_out_of_memory;
use crate::execution::store_rows;
use crate::plan::shared_ctes;
use crate::prepared::Recording;
use crate::row_order::{sort_batch, sort_plan};
use crate::rust_view::{Computation, ComputeFn, SharedComputation, ViewInputs, ViewOutputs};
use crate::storage::TableStorage;
use crate::stored_rows::{Rows, StoredRows, nullable};
use crate::view::{ViewDef, failure_of, in_view};

impl ViewSchemaProvider {
    /// The rows of a view in their order.
    pub(crate) async fn rows(&self, view: &'static ViewDef) -> Result<Rows> {
        if self.is_stored(view) {
            return self.stored(view).await?.collect();
        }
        self.compute(view, TableStorage::Memory).await.map_err(|e| in_view(view, e))?.collect()
    }

    pub(super) async fn stored(&self, view: &'static ViewDef) -> Result<&StoredRows> {
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
}

/// A schema that does not depend on the rows: code derives nullability from them, and plans are made for a schema.
fn with_nullable_columns(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = nullable(&batch.schema());
    Ok(batch.with_schema(schema)?)
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
