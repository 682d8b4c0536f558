//! Operators that have all their rows before they begin, as views over tables in memory may. They stand in for
//! DataFusion's, which work on what comes in batch by batch and pay for it.

mod sorting;
#[cfg(test)]
mod tests;
mod windows;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};
use trace_model::RecordBatch;

/// What an operator does to its rows. There are as many afterwards.
trait Work: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn rows(&self, input: RecordBatch, schema: SchemaRef) -> Result<RecordBatch>;
}

/// `plan`, or what stands in for it.
pub(crate) fn whole(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let work = windows::work(plan.as_ref()).or_else(|| sorting::work(plan.as_ref()));
    match work {
        Some(work) => Arc::new(Whole { plan, work }),
        None => plan,
    }
}

/// An operator. What it needs of its input and what is known of its rows is as the plan says that it stands in for.
#[derive(Debug)]
struct Whole {
    plan: Arc<dyn ExecutionPlan>,
    work: Arc<dyn Work>,
}

impl DisplayAs for Whole {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.work.name(), self.plan.name())
    }
}

impl ExecutionPlan for Whole {
    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plan.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.apply_expressions(f)
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.plan.required_input_ordering()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.plan.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.plan.maintains_input_order()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(whole(Arc::clone(&self.plan).replace_children(children, options)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.plan.children()[0].execute(partition, context)?;
        let schema = self.schema();
        let (work, of_rows) = (Arc::clone(&self.work), Arc::clone(&schema));
        let batches = stream::once(async move {
            let input_schema = input.schema();
            let batches: Vec<RecordBatch> = input.try_collect().await?;
            let rows = concat_batches(&input_schema, &batches)?;
            drop(batches);
            let rows = work.rows(rows, of_rows)?;
            let starts = (0..rows.num_rows()).step_by(batch_rows);
            let batch = move |start| rows.slice(start, batch_rows.min(rows.num_rows() - start));
            Ok::<_, DataFusionError>(stream::iter(starts.map(batch).map(Ok)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten())))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
