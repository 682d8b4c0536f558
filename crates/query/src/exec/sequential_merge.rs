//! Merges partitions one after the other, where DataFusion takes batches as they come: a query always gives the same
//! rows in the same order, and sums of floats the same last digit.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

/// `plan` in one partition.
pub(crate) fn single_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.output_partitioning().partition_count() > 1 {
        Arc::new(SequentialMergeExec { merge: Arc::new(CoalescePartitionsExec::new(plan)) })
    } else {
        plan
    }
}

/// Replaces all merges of a plan by sequential ones, and gives it one partition.
#[derive(Debug)]
pub(crate) struct SequentialMergeRule;

impl PhysicalOptimizerRule for SequentialMergeRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(plan));
            };
            let ordered = single_partition(Arc::clone(merge.input()));
            Ok(Transformed::yes(match merge.fetch() {
                Some(rows) => Arc::new(GlobalLimitExec::new(ordered, 0, Some(rows))),
                None => ordered,
            }))
        });
        Ok(single_partition(plan.data()?))
    }

    fn name(&self) -> &'static str {
        "sequential_merge"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Has the properties of the merge that it replaces.
#[derive(Debug)]
struct SequentialMergeExec {
    merge: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for SequentialMergeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for SequentialMergeExec {
    fn name(&self) -> &'static str {
        "SequentialMergeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.merge.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.merge.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.merge.apply_expressions(f)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.merge.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.merge.maintains_input_order()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let merge = Arc::clone(&self.merge).replace_children(children, options)?;
        Ok(Arc::new(Self { merge }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = Arc::clone(self.merge.children()[0]);
        let count = input.output_partitioning().partition_count();
        let streams = stream::iter(0..count)
            .map(move |partition| input.execute(partition, Arc::clone(&context)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), streams)))
    }
}
