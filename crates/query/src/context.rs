//! DataFusion's settings and memory pools.

use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::error::Result;
use datafusion::execution::disk_manager::{DEFAULT_MAX_TEMP_DIRECTORY_SIZE, DiskManagerBuilder};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::plan::match_dictionaries::{MatchDictionaries, MatchDictionary};
use crate::spill_file::SpillFiles;
use crate::storage::TableStorage;

/// Pool size for queries, whatever the limit: with less, sorts cannot even begin to spill.
const MIN_POOL_BYTES: usize = 256 << 20;

/// Time that the query of a rule may take, once what it reads is ready. The slowest that is shipped takes a second for a
/// run that just fits in memory.
const RULE_QUERY_TIME: Duration = Duration::from_secs(30);

/// The same, where tables are read while the query runs.
const STREAMED_RULE_QUERY_TIME: Duration = Duration::from_mins(5);

/// Memory that the query of a rule may take for what it computes and returns.
const RULE_QUERY_BYTES: usize = 1 << 30;

/// Temporary files that the query of a rule may write.
const RULE_QUERY_DISK_BYTES: u64 = 4 << 30;

/// Rows per batch: large enough that the fixed cost of a batch, which windows and sorts pay several times,
/// disappears.
const BATCH_ROWS: usize = 32_768;

/// Memory pool for queries over tables in memory: the limit minus the tables, first come, first served.
pub(crate) fn pool_for_remaining_memory(
    table_bytes: usize,
    memory_bytes: u64,
) -> Result<Arc<RuntimeEnv>> {
    let bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    pooled(GreedyMemoryPool::new(bytes.saturating_sub(table_bytes).max(MIN_POOL_BYTES)))
}

/// Memory pool for queries that stream their tables: operators that can spill get equal shares, so that
/// none of them starves the others.
pub(crate) fn spilling_pool(memory_bytes: u64) -> Result<Arc<RuntimeEnv>> {
    let bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    pooled(FairSpillPool::new(bytes.max(MIN_POOL_BYTES)))
}

/// The time that one query of a rule may take.
pub(crate) fn rule_time_limit(storage: TableStorage) -> Duration {
    match storage {
        TableStorage::Memory => RULE_QUERY_TIME,
        TableStorage::Streamed => STREAMED_RULE_QUERY_TIME,
    }
}

/// The memory and the temporary files that one query of a rule may take.
pub(crate) fn rule_environment(
    storage: TableStorage,
    memory_bytes: Option<u64>,
) -> Result<Arc<RuntimeEnv>> {
    let bytes = memory_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
    let bytes = bytes.clamp(MIN_POOL_BYTES, RULE_QUERY_BYTES);
    let pool: Arc<dyn MemoryPool> = match storage {
        TableStorage::Memory => Arc::new(GreedyMemoryPool::new(bytes)),
        TableStorage::Streamed => Arc::new(FairSpillPool::new(bytes)),
    };
    environment(pool, RULE_QUERY_DISK_BYTES)
}

/// For queries without a memory limit.
pub(crate) fn unlimited_environment() -> Result<Arc<RuntimeEnv>> {
    pooled(UnboundedMemoryPool::default())
}

fn pooled(pool: impl MemoryPool + 'static) -> Result<Arc<RuntimeEnv>> {
    environment(Arc::new(pool), DEFAULT_MAX_TEMP_DIRECTORY_SIZE)
}

fn environment(pool: Arc<dyn MemoryPool>, disk_bytes: u64) -> Result<Arc<RuntimeEnv>> {
    let files = Arc::new(SpillFiles::new(disk_bytes));
    RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_disk_manager_builder(DiskManagerBuilder::default().with_temp_file_factory(files))
        .build_arc()
}

/// A context whose only schema, `run.public`, is `schema`.
pub(crate) fn session_context(
    partitions: usize,
    environment: Arc<RuntimeEnv>,
    schema: Arc<dyn SchemaProvider>,
) -> Result<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("run", "public")
        .set_bool("datafusion.sql_parser.collect_spans", true)
        .set_bool("datafusion.execution.collect_statistics", false)
        .set_bool("datafusion.optimizer.repartition_sorts", false)
        .set_usize("datafusion.optimizer.max_passes", 2);
    let context = SessionContext::new_with_config_rt(config, environment);
    context.register_udf(MatchDictionary::function());
    context.add_optimizer_rule(Arc::new(MatchDictionaries::new()));
    let catalog = Arc::new(MemoryCatalogProvider::new());
    catalog.register_schema("public", schema)?;
    context.register_catalog("run", catalog);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_spill_to_files_without_a_name() {
        let environments = [
            unlimited_environment(),
            spilling_pool(1),
            pool_for_remaining_memory(0, 1),
            rule_environment(TableStorage::Memory, None),
            rule_environment(TableStorage::Streamed, Some(1)),
        ];
        for environment in environments {
            let file = environment.unwrap().disk_manager.create_tmp_file("a test").unwrap();
            assert_eq!(file.path(), None);
        }
    }
}
