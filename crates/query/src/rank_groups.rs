//! A run as groups of ranks. Most views derive the rows of a rank from its own tables. If the tables of a run do
//! not fit in memory, such views are computed group after group, each group in memory, and their rows are
//! spilled; views that compare ranks (`scope = "run"`) read the spilled rows of all groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::exec_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Mutex;
use trace_model::tables::TABLES;
use trace_model::{RecordBatch, ScanError, TableSource};

use crate::catalog::Catalog;
use crate::context::{pool_for_remaining_memory, session_context};
use crate::error::{ViewFailure, no_match_candidates};
use crate::params::ParamValue;
use crate::plan::optimizer;
use crate::plan::references::TableColumns;
use crate::progress::ViewProgress;
use crate::provider::{CpuTimes, PlanSource, ViewSchemaProvider, schema_without_metadata};
use crate::selection::filter_rows;
use crate::storage::TableStorage;
use crate::stored_rows::{SpillWriter, StoredRows};
use crate::view::{ViewDef, failure_of};

/// Memory that tables and everything computed from them take at a time, in bytes per byte of the tables.
const WORKING_BYTES: u64 = 4;

/// Size limit of a group of several ranks. Larger groups are not faster, because they only make the system allocate
/// more memory.
const MAX_GROUP_BYTES: u64 = 2 << 30;

/// Returns whether tables of this size leave room, within a limit, for what is computed from them.
pub fn fits_in_memory(table_bytes: u64, memory_bytes: u64) -> bool {
    table_bytes.saturating_mul(WORKING_BYTES) <= memory_bytes
}

/// Returns whether the tables of each single rank fit in memory as defined by [`fits_in_memory`].
pub fn fits_rank_by_rank(source: &dyn TableSource, memory_bytes: u64) -> bool {
    partition_ranks(source, memory_bytes).is_some()
}

/// The rank groups of a run.
#[derive(Debug)]
pub(crate) struct RankGroups {
    catalog: &'static Catalog,
    params: HashMap<String, ParamValue>,
    groups: Vec<RankGroup>,
    /// One computation at a time, because each may use all memory.
    compute_lock: Mutex<()>,
}

#[derive(Debug)]
enum RankGroup {
    /// The whole run, whose views are computed in place.
    Open,
    /// Tables of some ranks that are loaded for a while.
    Loadable { source: Arc<dyn TableSource>, ranks: RangeInclusive<i32>, memory_bytes: u64 },
}

impl RankGroups {
    /// A run of one group: its views are computed over its own tables.
    pub(crate) fn single(catalog: &'static Catalog) -> Self {
        let groups = vec![RankGroup::Open];
        Self { catalog, params: HashMap::new(), groups, compute_lock: Mutex::default() }
    }

    /// Groups of as many ranks as fit in memory; a single one if not even one rank fits.
    pub(crate) fn within(
        memory_bytes: u64,
        source: &Arc<dyn TableSource>,
        catalog: &'static Catalog,
        params: HashMap<String, ParamValue>,
    ) -> Self {
        let Some(ranges) = partition_ranks(source.as_ref(), memory_bytes) else {
            return Self::single(catalog);
        };
        let load = |ranks| RankGroup::Loadable { source: Arc::clone(source), ranks, memory_bytes };
        let groups = ranges.into_iter().map(load).collect();
        Self { catalog, params, groups, compute_lock: Mutex::default() }
    }

    /// Computes, one group after another, the per-rank views that a query of `views` reads, and adds their rows to
    /// `run`. Views that are already computed, or computed in place, are skipped.
    pub(crate) async fn compute_missing(
        &self,
        views: &[&'static ViewDef],
        run: &ViewSchemaProvider,
    ) -> Result<()> {
        if matches!(self.groups[..], [RankGroup::Open]) {
            return Ok(());
        }
        let _one_at_a_time = self.compute_lock.lock().await;
        let mut missing = self.catalog.rank_views_read_by(views);
        missing.retain(|view| !run.is_computed(view));
        if missing.is_empty() {
            return Ok(());
        }
        if let Some(progress) = run.progress() {
            progress.planned(missing.len() * self.groups.len());
        }
        let mut left = Vec::with_capacity(missing.len());
        for view in missing {
            match self.read_computed(view).await? {
                Some(rows) => {
                    run.set_rows(view, Ok(rows));
                    if let Some(progress) = run.progress() {
                        self.groups.iter().for_each(|_| progress.computed(&view.name));
                    }
                }
                None => left.push(view),
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let (rows, cpu_times) = self.compute(&left, run.progress()).await?;
        for (view, rows) in left.iter().zip(rows) {
            run.set_rows(view, rows);
        }
        run.add_cpu_times(cpu_times);
        Ok(())
    }

    /// The rows of a view that were computed together with the tables. `None` if there are none, if they are not valid, or
    /// if parameters have other values.
    async fn read_computed(&self, view: &'static ViewDef) -> Result<Option<StoredRows>> {
        let Some(RankGroup::Loadable { source, .. }) = self.groups.first() else { return Ok(None) };
        if !self.catalog.are_defaults(&self.params) {
            return Ok(None);
        }
        let is_of_ranks = |table: &&str| {
            source.partitions(table).iter().all(|partition| partition.rank.is_some())
        };
        let tables = self.catalog.tables_read_by(&view.name).unwrap_or_default();
        if !tables.iter().all(is_of_ranks) {
            return Ok(None);
        }
        let (source, catalog) = (Arc::clone(source), self.catalog);
        let read = move || {
            let Some(rows) = source.computed_rows(&view.name) else { return Ok(None) };
            let mut writer = None;
            for batch in rows.map_err(DataFusionError::External)? {
                let batch = batch.map_err(DataFusionError::External)?;
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(SpillWriter::new(&batch.schema(), &view.order)?),
                };
                writer.write(&batch)?;
            }
            let writer = match (writer, catalog.known_schema(&view.name)) {
                (Some(writer), _) => writer,
                (None, Some(schema)) => SpillWriter::new(&schema, &view.order)?,
                (None, None) => return Ok(None),
            };
            writer.finish().map(Some)
        };
        SpawnedTask::spawn_blocking(read).join().await.map_err(|e| exec_datafusion_err!("{e}"))?
    }

    /// The rows of views of single ranks in the order given, or why a view has none.
    async fn compute(
        &self,
        views: &[&'static ViewDef],
        progress: Option<&dyn ViewProgress>,
    ) -> Result<(Vec<Result<StoredRows, ViewFailure>>, CpuTimes)> {
        let columns = self.catalog.columns_read_by(views)?;
        let mut writers: Vec<Option<SpillWriter>> = views.iter().map(|_| None).collect();
        let mut no_match: Vec<Option<(usize, DataFusionError)>> =
            views.iter().map(|_| None).collect();
        let mut failed: Vec<Option<ViewFailure>> = views.iter().map(|_| None).collect();
        let mut cpu_times: BTreeMap<&'static str, Duration> = BTreeMap::new();
        for group in &self.groups {
            let RankGroup::Loadable { source, ranks, memory_bytes } = group else { continue };
            let tables = load(source, &columns, ranks).await?;
            let (provider, _state) = self.open(tables, *memory_bytes)?;
            provider.announce_reads(views);
            let rows = |&view: &&'static ViewDef| {
                let provider = Arc::clone(&provider);
                SpawnedTask::spawn(async move { provider.rows(view).await })
            };
            let tasks: Vec<_> = views.iter().map(rows).collect();
            for (at, task) in tasks.into_iter().enumerate() {
                let rows = task.join().await.map_err(|e| exec_datafusion_err!("{e}"))?;
                if let Some(progress) = progress {
                    progress.computed(&views[at].name);
                }
                let rows = match rows {
                    Err(error) => {
                        let Some(candidates) = no_match_candidates(&error) else {
                            failed[at].get_or_insert_with(|| failure_of(views[at], error));
                            continue;
                        };
                        if no_match[at].as_ref().is_none_or(|(most, _)| candidates > *most) {
                            no_match[at] = Some((candidates, error));
                        }
                        continue;
                    }
                    Ok(rows) => rows,
                };
                let writer = match &mut writers[at] {
                    Some(writer) => writer,
                    None => writers[at].insert(SpillWriter::new(&rows.schema, &views[at].order)?),
                };
                rows.batches.iter().try_for_each(|batch| writer.write(batch))?;
            }
            for (view, time) in provider.cpu_times() {
                *cpu_times.entry(view).or_default() += time;
            }
        }
        let mut stored = Vec::with_capacity(views.len());
        for (at, view) in views.iter().enumerate() {
            let outcome = match (failed[at].take(), writers[at].take(), no_match[at].take()) {
                (Some(failure), ..) => Err(failure),
                (None, Some(writer), _) => Ok(writer.finish()?),
                (None, None, Some((_, error))) => Err(failure_of(view, error)),
                (None, None, None) => {
                    Err(failure_of(view, exec_datafusion_err!("the run has no ranks")))
                }
            };
            stored.push(outcome);
        }
        Ok((stored, cpu_times.into_iter().collect()))
    }

    /// Tables in memory with the views over them, and the state that must live as long.
    fn open(
        &self,
        tables: LoadedTables,
        memory_bytes: u64,
    ) -> Result<(Arc<ViewSchemaProvider>, Arc<SessionState>)> {
        let batches = tables.values().flat_map(|(_, batches)| batches);
        let bytes = batches.map(RecordBatch::get_array_memory_size).sum();
        let mut providers: BTreeMap<&'static str, Arc<dyn TableProvider>> = BTreeMap::new();
        let mut filled = BTreeSet::new();
        for (table, (schema, batches)) in tables {
            if batches.iter().any(|batch| batch.num_rows() > 0) {
                filled.insert(table);
            }
            providers.insert(table, Arc::new(MemTable::try_new(schema, vec![batches])?));
        }
        let storage = TableStorage::Memory;
        let params = self.params.clone();
        let provider = ViewSchemaProvider::new(
            self.catalog,
            storage,
            providers,
            filled,
            PlanSource::Planner,
            params,
        );
        let provider = Arc::new(provider);
        let environment = pool_for_remaining_memory(bytes, memory_bytes)?;
        let context = session_context(1, environment, Arc::clone(&provider) as _)?;
        let state = Arc::new(optimizer::view_session_state(&context.state(), storage));
        provider.set_state(&state);
        Ok((provider, state))
    }
}

/// Splits all ranks into ranges whose tables fit in memory. `None` if those of one rank do not.
fn partition_ranks(
    source: &dyn TableSource,
    memory_bytes: u64,
) -> Option<Vec<RangeInclusive<i32>>> {
    let mut ranks: BTreeMap<i32, u64> = BTreeMap::new();
    let mut shared_bytes = 0;
    for partition in TABLES.iter().flat_map(|spec| source.partitions(spec.name)) {
        let bytes = partition.rank.map_or(&mut shared_bytes, |rank| ranks.entry(rank).or_default());
        *bytes = bytes.saturating_add(partition.bytes);
    }
    let mut groups: Vec<RangeInclusive<i32>> = Vec::new();
    let mut group_bytes = u64::MAX;
    for (rank, bytes) in ranks {
        group_bytes = group_bytes.saturating_add(bytes);
        if !fits_in_memory(group_bytes, memory_bytes.min(MAX_GROUP_BYTES)) {
            group_bytes = bytes.saturating_add(shared_bytes);
            if !fits_in_memory(group_bytes, memory_bytes) {
                return None;
            }
            groups.push(rank..=rank);
        } else if let Some(group) = groups.last_mut() {
            *group = *group.start()..=rank;
        }
    }
    // Together the ranges cover all numbers, so that no row is left out.
    for at in 0..groups.len() {
        let first = if at == 0 { i32::MIN } else { *groups[at].start() };
        let last = groups.get(at + 1).map_or(i32::MAX, |next| next.start() - 1);
        groups[at] = first..=last;
    }
    Some(groups).filter(|groups| !groups.is_empty())
}

/// Some columns of tables, in memory.
type LoadedTables = BTreeMap<&'static str, (SchemaRef, Vec<RecordBatch>)>;

/// Reads the rows of some ranks, in these columns.
async fn load(
    source: &Arc<dyn TableSource>,
    columns: &TableColumns,
    ranks: &RangeInclusive<i32>,
) -> Result<LoadedTables> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut loaded = LoadedTables::new();
    let mut tasks = Vec::new();
    for spec in TABLES {
        let Some(columns) = columns.get(spec.name) else { continue };
        let columns: Arc<[usize]> = columns.iter().copied().collect();
        let schema = Arc::new(schema_without_metadata(spec).project(&columns)?);
        loaded.insert(spec.name, (schema, Vec::new()));
        for (number, partition) in source.partitions(spec.name).into_iter().enumerate() {
            if partition.rank.is_none_or(|rank| ranks.contains(&rank)) {
                let has_one_rank = partition.rank.is_some();
                let columns = columns.clone();
                tasks.push(ReadTask { table: spec.name, columns, number, has_one_rank });
            }
        }
    }
    // A task starts reading when a worker picks it up.
    let read = |task: ReadTask| {
        let (source, ranks, table) = (Arc::clone(source), ranks.clone(), task.table);
        async move {
            let read = SpawnedTask::spawn_blocking(move || task.read(source.as_ref(), &ranks));
            let batches = read.join().await.map_err(|e| exec_datafusion_err!("{e}"))?;
            Ok::<_, DataFusionError>((table, batches.map_err(DataFusionError::External)?))
        }
    };
    let tasks: Vec<_> = tasks.into_iter().map(read).collect();
    let mut batches_by_table = stream::iter(tasks).buffered(cores);
    while let Some((table, batches)) = batches_by_table.try_next().await? {
        let Some((schema, rows)) = loaded.get_mut(table) else { continue };
        for batch in batches {
            rows.push(RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())?);
        }
    }
    Ok(loaded)
}

/// Reads one partition of a table.
struct ReadTask {
    table: &'static str,
    columns: Arc<[usize]>,
    number: usize,
    has_one_rank: bool,
}

impl ReadTask {
    fn read(
        &self,
        source: &dyn TableSource,
        ranks: &RangeInclusive<i32>,
    ) -> Result<Vec<RecordBatch>, ScanError> {
        let batches = source.scan(self.table, self.number, &self.columns)?;
        if self.has_one_rank {
            return batches.collect();
        }
        let is_wanted = |rank| i32::try_from(rank).is_ok_and(|rank| ranks.contains(&rank));
        batches.map(|batch| Ok(filter_rows(&batch?, "rank", is_wanted)?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use trace_model::{Batches, Partition};

    use super::*;

    #[derive(Debug)]
    struct Ranks(Vec<(i32, u64)>);

    impl TableSource for Ranks {
        fn partitions(&self, table: &str) -> Vec<Partition> {
            let of_rank = |&(rank, bytes): &_| Partition { rank: Some(rank), rows: 1, bytes };
            let of_run = Partition { rank: None, rows: 1, bytes: 1 };
            match table {
                "kernels" => self.0.iter().map(of_rank).collect(),
                "ranks" => vec![of_run],
                _ => Vec::new(),
            }
        }

        fn scan(&self, _: &str, _: usize, _: &[usize]) -> Result<Batches, ScanError> {
            unreachable!("nothing is read")
        }
    }

    fn split(ranks: &[(i32, u64)]) -> Option<Vec<RangeInclusive<i32>>> {
        partition_ranks(&Ranks(ranks.to_vec()), 11 * WORKING_BYTES)
    }

    #[test]
    fn groups_are_as_large_as_memory_allows_and_leave_no_rank_out() {
        let even: Vec<(i32, u64)> = (0..5).map(|rank| (rank, 4)).collect();
        assert_eq!(split(&even), Some(vec![i32::MIN..=1, 2..=3, 4..=i32::MAX]));
        assert_eq!(split(&[(7, 10), (9, 1), (12, 2)]), Some(vec![i32::MIN..=8, 9..=i32::MAX]));
        assert_eq!(split(&[(3, 10)]), Some(vec![i32::MIN..=i32::MAX]));
    }

    #[test]
    fn groups_are_none_if_a_rank_does_not_fit_or_there_is_none() {
        assert_eq!(split(&[(0, 1), (1, 11)]), None);
        assert_eq!(split(&[(0, 1), (1, u64::MAX)]), None);
        assert_eq!(split(&[(0, u64::MAX), (0, u64::MAX)]), None);
        assert_eq!(split(&[]), None);
    }
}
