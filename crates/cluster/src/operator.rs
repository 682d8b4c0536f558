//! The operator that maps shards, and the plan around it.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray as _, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, common,
};
use futures::stream;
use prost::Message as _;

use crate::failure::TaskFailure;
use crate::job::MapJob;
use crate::rows::ShardRow;

/// The physical plan of a job. It has a partition for each shard:
///
/// ```text
/// MapRanksExec                       maps the shards that it reads; a row for each
///   DataSourceExec: partitions=N     the numbers 1 to N, one in each partition
/// ```
///
/// # Errors
/// If DataFusion refuses the plan.
pub fn plan(job: &MapJob) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("shard", DataType::UInt32, false)]));
    let partition = |number| -> Result<Vec<RecordBatch>> {
        let numbers = UInt32Array::from_iter_values([number]);
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)])?])
    };
    let partitions = (1..=job.shard_count).map(partition).collect::<Result<Vec<_>>>()?;
    let shards = MemorySourceConfig::try_new(&partitions, Arc::clone(&schema), None)?;
    let shards = DataSourceExec::from_data_source(shards);
    Ok(Arc::new(MapRanksExec::new(job.encode_to_vec().into(), shards)))
}

/// Maps the shards whose numbers its input has. The numbers are data, not partitions of a leaf, because the scheduler gives
/// a task part of the partitions of the sources that it knows, and all partitions of other leaves.
pub(crate) struct MapRanksExec {
    /// The job, encoded: only executors need to understand it.
    message: Arc<[u8]>,
    shards: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl MapRanksExec {
    pub(crate) fn new(message: Arc<[u8]>, shards: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(ShardRow::schema()),
            shards.properties().partitioning.clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { message, shards, properties: Arc::new(properties) }
    }

    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }
}

/// Maps the shards of a partition, one after another, on a thread that may block.
async fn map_shards(message: Arc<[u8]>, shards: SendableRecordBatchStream) -> Result<RecordBatch> {
    let job = MapJob::received(&message)?;
    let mut rows = Vec::new();
    for batch in common::collect(shards).await? {
        for &shard in batch.column(0).as_primitive::<UInt32Type>().values() {
            let job = job.clone();
            let mapped = tokio::task::spawn_blocking(move || job.map(shard)).await;
            let mapped = mapped.map_err(|e| TaskFailure(format!("shard {shard}: {e}")))?;
            rows.push(ShardRow { shard, summary: mapped? });
        }
    }
    Ok(ShardRow::batch(&rows)?)
}

impl ExecutionPlan for MapRanksExec {
    fn name(&self) -> &'static str {
        "MapRanksExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.shards]
    }

    /// A shard is a task already.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [shards] = <[_; 1]>::try_from(children).map_err(|children| {
            DataFusionError::Internal(format!(
                "{} has one child, not {}",
                self.name(),
                children.len()
            ))
        })?;
        Ok(Arc::new(Self::new(Arc::clone(&self.message), shards)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let shards = self.shards.execute(partition, context)?;
        let rows = stream::once(map_shards(Arc::clone(&self.message), shards));
        Ok(Box::pin(RecordBatchStreamAdapter::new(ShardRow::schema(), rows)))
    }
}

impl DisplayAs for MapRanksExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Without the job: addresses may contain signatures.
impl fmt::Debug for MapRanksExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("shards", &self.shards).finish_non_exhaustive()
    }
}
