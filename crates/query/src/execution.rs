//! Runs planned queries.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array as _, ArrayRef};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use futures::TryStreamExt as _;
use trace_model::RecordBatch;

use crate::error::is_out_of_memory;
use crate::plan::optimizer;
use crate::storage::TableStorage;
use crate::stored_rows::{Rows, SpillWriter, StoredRows};

/// The rows of `plan`. Adds to `cpu_time` the time for which this thread worked on them.
pub(crate) async fn collect_rows(
    state: &SessionState,
    plan: &LogicalPlan,
    cpu_time: &mut Duration,
) -> Result<Rows> {
    match timed(collect_with(state, plan), cpu_time).await {
        Err(error) if is_out_of_memory(&error) => {
            timed(collect_with(&optimizer::sorted_join_state(state), plan), cpu_time).await
        }
        outcome => outcome,
    }
}

/// As [`collect_rows`], to be read several times. The plan sorts by `order`.
pub(crate) async fn store_rows(
    state: &SessionState,
    plan: &LogicalPlan,
    order: &[String],
    storage: TableStorage,
    cpu_time: &mut Duration,
) -> Result<StoredRows> {
    if storage == TableStorage::Memory {
        return Ok(StoredRows::Memory(collect_rows(state, plan, cpu_time).await?));
    }
    match timed(spill_with(state, plan, order), cpu_time).await {
        Err(error) if is_out_of_memory(&error) => {
            timed(spill_with(&optimizer::sorted_join_state(state), plan, order), cpu_time).await
        }
        outcome => outcome,
    }
}

async fn collect_with(state: &SessionState, plan: &LogicalPlan) -> Result<Rows> {
    let plan = state.create_physical_plan(plan).await?;
    // The physical plan knows types and nullability better than the logical one.
    let schema = plan.schema();
    Rows::returned(schema, collect(plan, state.task_ctx()).await?)
}

/// The rows of an executable plan. Adds to `cpu_time` as [`collect_rows`].
pub(crate) async fn run_prepared_plan(
    context: &Arc<TaskContext>,
    plan: Arc<dyn ExecutionPlan>,
    cpu_time: &mut Duration,
) -> Result<Rows> {
    let schema = plan.schema();
    Rows::returned(schema, timed(collect(plan, Arc::clone(context)), cpu_time).await?)
}

/// As [`collect_rows`], but the rows count as memory of the query.
pub(crate) async fn collect_within_limit(state: &SessionState, plan: &LogicalPlan) -> Result<Rows> {
    Ok(collect_first_rows(state, plan, usize::MAX).await?.0)
}

/// As [`collect_within_limit`], but ends after the first `max_rows` rows. Returns whether there are more.
pub(crate) async fn collect_first_rows(
    state: &SessionState,
    plan: &LogicalPlan,
    max_rows: usize,
) -> Result<(Rows, bool)> {
    match limited_with(state, plan, max_rows).await {
        Err(error) if is_out_of_memory(&error) => {
            limited_with(&optimizer::sorted_join_state(state), plan, max_rows).await
        }
        outcome => outcome,
    }
}

/// Counts rows as memory of the query that returned them.
///
/// # Errors
/// If there are too many.
pub(crate) fn within_limit(context: &TaskContext, rows: Rows) -> Result<Rows> {
    let memory = memory_of_rows(context);
    rows.batches.iter().try_for_each(|batch| memory.try_grow(batch_bytes(batch)))?;
    Ok(rows)
}

fn memory_of_rows(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("rows of the query").register(context.memory_pool())
}

async fn limited_with(
    state: &SessionState,
    plan: &LogicalPlan,
    max_rows: usize,
) -> Result<(Rows, bool)> {
    let plan = state.create_physical_plan(plan).await?;
    let context = state.task_ctx();
    let memory = memory_of_rows(&context);
    let (schema, mut batches) = (plan.schema(), Vec::new());
    let mut stream = execute_stream(plan, context)?;
    let (mut rows_left, mut is_cut) = (max_rows, false);
    while !is_cut && let Some(batch) = stream.try_next().await? {
        is_cut = batch.num_rows() > rows_left;
        let batch = if is_cut { batch.slice(0, rows_left) } else { batch };
        rows_left -= batch.num_rows();
        memory.try_grow(batch_bytes(&batch))?;
        batches.push(batch);
    }
    Ok((Rows::returned(schema, batches)?, is_cut))
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(slice_bytes).sum()
}

/// Memory of the rows of an array, which may be a part of a larger one.
fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

async fn spill_with(
    state: &SessionState,
    plan: &LogicalPlan,
    order: &[String],
) -> Result<StoredRows> {
    let plan = state.create_physical_plan(plan).await?;
    let mut writer = SpillWriter::new(&plan.schema(), order)?;
    let mut batches = execute_stream(Arc::clone(&plan), state.task_ctx())?;
    while let Some(batch) = batches.try_next().await? {
        writer.write(&batch)?;
    }
    writer.finish()
}

/// Awaits `future` and adds the time spent in its polls to `cpu_time`.
async fn timed<T>(future: impl Future<Output = T>, cpu_time: &mut Duration) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let start = Instant::now();
        let polled = future.as_mut().poll(context);
        *cpu_time += start.elapsed();
        polled
    })
    .await
}
