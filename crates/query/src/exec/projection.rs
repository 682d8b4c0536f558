//! Projections of prepared plans. DataFusion's projection derives which of its expressions are equal or constant, which
//! takes longer than all else when a plan is read. Over one partition only the order of rows matters, as it saves sorts.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs, Projector};
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};
use futures::StreamExt as _;

/// Computes columns from those of its input, row by row.
#[derive(Debug)]
pub(crate) struct OrderedProjectionExec {
    projector: Projector,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OrderedProjectionExec {
    pub(crate) fn try_new(
        columns: impl IntoIterator<Item = ProjectionExpr>,
        input: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        let projector = ProjectionExprs::new(columns).make_projector(&input.schema())?;
        Ok(Self::with_projector(projector, input))
    }

    fn with_projector(projector: Projector, input: Arc<dyn ExecutionPlan>) -> Self {
        let orders = projected_orders(input.equivalence_properties(), projector.projection());
        let schema = Arc::clone(projector.output_schema());
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, orders),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { projector, input, properties: Arc::new(properties) }
    }
}

/// The orders of rows that the columns of a projection keep.
fn projected_orders(
    properties: &EquivalenceProperties,
    columns: &ProjectionExprs,
) -> Vec<Vec<PhysicalSortExpr>> {
    let position = |expr: &Arc<dyn PhysicalExpr>| {
        columns.iter().position(|column| column.expr.as_ref() == expr.as_ref())
    };
    let projected = |by: &PhysicalSortExpr| {
        let group = properties.eq_group().get_equivalence_class(&by.expr);
        let position = position(&by.expr).or_else(|| group?.iter().find_map(position))?;
        let column = columns.iter().nth(position)?;
        Some(PhysicalSortExpr::new(Arc::new(Column::new(&column.alias, position)), by.options))
    };
    let orders = properties.oeq_class().iter();
    let orders = orders.map(|order| order.iter().map_while(projected).collect::<Vec<_>>());
    orders.filter(|order| !order.is_empty()).collect()
}

impl DisplayAs for OrderedProjectionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderedProjectionExec: expr=[{}]", self.projector.projection())
    }
}

impl ExecutionPlan for OrderedProjectionExec {
    fn name(&self) -> &'static str {
        "OrderedProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for column in self.projector.projection().iter() {
            recursion = recursion.visit_sibling(|| f(&column.expr))?;
        }
        Ok(recursion)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::with_projector(self.projector.clone(), children.remove(0))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let projector = self.projector.clone();
        let input = self.input.execute(partition, context)?;
        let rows = input.map(move |batch| projector.project_batch(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
