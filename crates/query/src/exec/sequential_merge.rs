//! Streams one after the other, where DataFusion takes batches as they come: a query gives the same rows in the same
//! order each time, and sums of floats the same last digit.

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

/// `plan` as one stream.
pub(crate) fn merged(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.output_partitioning().partition_count() > 1 {
        Arc::new(InOrder { merge: Arc::new(CoalescePartitionsExec::new(plan)) })
    } else {
        plan
    }
}

/// Puts all merges of a plan in order, and gives it one stream.
#[derive(Debug)]
pub(crate) struct MergeInOrder;

impl PhysicalOptimizerRule for MergeInOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(plan));
            };
            let ordered = merged(Arc::clone(merge.input()));
            Ok(Transformed::yes(match merge.fetch() {
                Some(rows) => Arc::new(GlobalLimitExec::new(ordered, 0, Some(rows))),
                None => ordered,
            }))
        });
        Ok(merged(plan.data()?))
    }

    fn name(&self) -> &'static str {
        "merge_in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What is known of its rows is as the merge says that it stands in for.
#[derive(Debug)]
struct InOrder {
    merge: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for InOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for InOrder {
    fn name(&self) -> &'static str {
        "InOrder"
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::catalog::MemorySchemaProvider;
    use datafusion::execution::SessionState;
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::physical_plan::displayable;

    use super::*;
    use crate::planning;
    use crate::schema::run;
    use crate::session::context;

    /// As many streams as branches, the first of which takes longest.
    const BRANCHES: &str =
        "SELECT count(*) AS n FROM (SELECT unnest(range(0, 200000)) AS i) WHERE i % 2 = 0
        UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4";

    fn state() -> SessionState {
        let full =
            context(4, Arc::new(RuntimeEnv::default()), Arc::new(MemorySchemaProvider::new()));
        planning::in_order(&full.unwrap().state())
    }

    fn answer(query: &str) -> Vec<i64> {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let query = query.to_owned();
        let rows = async move {
            let state = state();
            let plan = state.create_logical_plan(&query).await.unwrap();
            let physical = state.create_physical_plan(&plan).await.unwrap();
            let text = displayable(physical.as_ref()).indent(false).to_string();
            assert!(text.contains("InOrder") && !text.contains("Coalesce"), "{text}");
            run(&state, plan, &mut Duration::default()).await.unwrap()
        };
        let rows = runtime.block_on(rows);
        let of = |batch: &_| -> Vec<i64> {
            let batch: &trace_model::RecordBatch = batch;
            batch.column(0).as_primitive::<Int64Type>().values().to_vec()
        };
        rows.batches.iter().flat_map(of).collect()
    }

    #[test]
    fn streams_come_one_after_the_other() {
        assert_eq!(answer(BRANCHES), [100_000, 2, 3, 4]);
    }

    #[test]
    fn a_limit_takes_the_first() {
        assert_eq!(answer(&format!("SELECT n FROM ({BRANCHES}) LIMIT 2")), [100_000, 2]);
    }

    #[test]
    fn what_works_on_all_rows_gets_them_in_order() {
        assert_eq!(answer(&format!("SELECT last_value(n) FROM ({BRANCHES})")), [4]);
    }
}
