//! Runs that are larger than memory, a few ranks at a time. Most views say of each rank what its own tables say. They are
//! computed as they are in memory, from tables of a few ranks after the other, and their rows are kept in files; views that
//! compare ranks read those. Which are which is read off their plans.

mod groups;
mod kept;
mod outline;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::exec_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::scalar::ScalarValue;
use tokio::sync::{Mutex, MutexGuard};
use trace_model::{RecordBatch, TableSource};

pub use groups::{fits, fits_by_rank};
pub(crate) use kept::Kept;

use crate::catalog::Catalog;
use crate::module::Module;
use crate::planning;
use crate::schema::{Schema, in_module};
use crate::session::{beside, context};
use groups::Loaded;
use outline::{Columns, Outline};
use reach::Reach;

/// A run of which a few ranks fit into memory.
#[derive(Debug)]
pub(crate) struct ByRank {
    source: Arc<dyn TableSource>,
    groups: Vec<RangeInclusive<i32>>,
    memory_bytes: u64,
    catalog: &'static Catalog,
    params: HashMap<String, ScalarValue>,
    outline: Arc<Outline>,
    /// Plans over the outline.
    state: SessionState,
    turn: Mutex<()>,
}

/// How long a core worked for views.
pub(crate) type Times = Vec<(&'static str, Duration)>;

impl ByRank {
    /// None if not even one rank fits.
    pub(crate) fn new(
        source: &Arc<dyn TableSource>,
        memory_bytes: u64,
        catalog: &'static Catalog,
        params: HashMap<String, ScalarValue>,
    ) -> Result<Option<Self>> {
        let Some(groups) = groups::groups(source.as_ref(), memory_bytes) else { return Ok(None) };
        let outline = Arc::new(Outline::default());
        let context = context(1, Arc::default(), Arc::clone(&outline) as _)?;
        let state = planning::for_views(&context.state(), true);
        let source = Arc::clone(source);
        let turn = Mutex::default();
        Ok(Some(Self { source, groups, memory_bytes, catalog, params, outline, state, turn }))
    }

    /// Waits until nobody else computes.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Of all that `wanted` are built on, what has to be computed rank by rank for them: themselves, and what views that
    /// compare ranks read.
    pub(crate) async fn needed(&self, wanted: &[&'static Module]) -> Result<Vec<&'static Module>> {
        let all = self.built_on(wanted);
        let known = self.outline.learn(&self.state, &all, &self.params).await?;
        let is_by_rank =
            |module: &Module| matches!(known[module.name.as_str()].reach, Reach::Rank(_));
        let mut needed: BTreeSet<&str> = wanted.iter().map(|module| module.name.as_str()).collect();
        for module in all.iter().filter(|module| !is_by_rank(module)) {
            needed.extend(module.needs.iter().map(String::as_str));
        }
        Ok(all.into_iter().filter(|m| is_by_rank(m) && needed.contains(m.name.as_str())).collect())
    }

    /// These views and all that they are built on, each after what it reads.
    fn built_on(&self, wanted: &[&'static Module]) -> Vec<&'static Module> {
        let mut names: BTreeSet<&str> = wanted.iter().map(|module| module.name.as_str()).collect();
        let mut all: Vec<&'static Module> = Vec::new();
        for module in self.catalog.modules().iter().rev() {
            if names.contains(module.name.as_str()) {
                names.extend(module.needs.iter().map(String::as_str));
                all.push(module);
            }
        }
        all.reverse();
        all
    }

    /// Computes views whose rows of a rank come from its own tables, in the order asked for.
    pub(crate) async fn compute(&self, views: &[&'static Module]) -> Result<(Vec<Kept>, Times)> {
        let all = self.built_on(views);
        let known = self.outline.learn(&self.state, &all, &self.params).await?;
        let mut columns = Columns::new();
        for (&table, read) in known.values().flat_map(|known| &known.columns) {
            columns.entry(table).or_default().extend(read);
        }
        let mut files: Vec<Option<kept::Writer>> = views.iter().map(|_| None).collect();
        let mut times: BTreeMap<&'static str, Duration> = BTreeMap::new();
        for ranks in &self.groups {
            let tables = groups::load(&self.source, &columns, ranks).await?;
            let (schema, _state) = self.schema(tables)?;
            schema.share(views);
            let rows = |&module: &&'static Module| {
                let schema = Arc::clone(&schema);
                SpawnedTask::spawn(async move { schema.rows(module).await })
            };
            let tasks: Vec<_> = views.iter().map(rows).collect();
            for (file, task) in files.iter_mut().zip(tasks) {
                let rows = task.join().await.map_err(|e| exec_datafusion_err!("{e}"))??;
                let file = match file {
                    Some(file) => file,
                    None => file.insert(kept::Writer::new(&rows.schema)?),
                };
                for batch in &rows.batches {
                    file.add(batch)?;
                }
            }
            for (view, time) in schema.times() {
                *times.entry(view).or_default() += time;
            }
        }
        let kept: Vec<Kept> =
            files.into_iter().flatten().map(kept::Writer::finish).collect::<Result<_>>()?;
        for (module, kept) in views.iter().zip(&kept) {
            if let Some(native) = module.native.filter(|_| kept.is_empty()) {
                // What no group has is missed now, if the view asks for it.
                let missed = self.outline.native(&self.state, native, &self.params, false).await;
                missed.map_err(|e| in_module(module, e))?;
            }
        }
        Ok((kept, times.into_iter().collect()))
    }

    /// These tables and the views over them, and what must live as long.
    fn schema(&self, tables: Loaded) -> Result<(Arc<Schema>, Arc<SessionState>)> {
        let batches = tables.values().flat_map(|(_, batches)| batches);
        let bytes = batches.map(RecordBatch::get_array_memory_size).sum();
        let mut providers: BTreeMap<&'static str, Arc<dyn TableProvider>> = BTreeMap::new();
        for (table, (schema, batches)) in tables {
            providers.insert(table, Arc::new(MemTable::try_new(schema, vec![batches])?));
        }
        let schema = Schema::new(self.catalog, providers, self.params.clone(), true);
        let schema = Arc::new(schema.of_some_ranks());
        let environment = beside(bytes, self.memory_bytes)?;
        let context = context(1, environment, Arc::clone(&schema) as _)?;
        let state = Arc::new(planning::for_views(&context.state(), true));
        schema.set_state(&state);
        Ok((schema, state))
    }
}
