//! Window and sort operators that buffer their whole input. They replace DataFusion's streaming operators in views over
//! tables in memory, where they are about twice as fast.

pub(crate) mod projection;
pub(crate) mod sequential_merge;
mod sort;
mod window;

use std::fmt;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
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

/// A function from all input rows to as many output rows.
trait BatchOperator: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn evaluate(&self, input: RecordBatch, schema: SchemaRef) -> Result<RecordBatch>;
}

/// `plan`, or the operator that replaces it.
pub(crate) fn replace_operator(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let operator = window::operator(plan.as_ref()).or_else(|| sort::operator(plan.as_ref()));
    match operator {
        Some(operator) => Arc::new(WholeInputExec { plan, operator }),
        None => plan,
    }
}

/// An operator with the requirements and properties of the plan that it replaces.
#[derive(Debug)]
struct WholeInputExec {
    plan: Arc<dyn ExecutionPlan>,
    operator: Arc<dyn BatchOperator>,
}

impl DisplayAs for WholeInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.operator.name(), self.plan.name())
    }
}

impl ExecutionPlan for WholeInputExec {
    fn name(&self) -> &'static str {
        self.operator.name()
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
        Ok(replace_operator(Arc::clone(&self.plan).replace_children(children, options)?))
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
        let (operator, output_schema) = (Arc::clone(&self.operator), Arc::clone(&schema));
        let batches = stream::once(async move {
            let input_schema = input.schema();
            let batches: Vec<RecordBatch> = input.try_collect().await?;
            let rows = concat_batches(&input_schema, &batches)?;
            drop(batches);
            let rows = operator.evaluate(rows, output_schema)?;
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
