//! Records the plans of a query.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Schema;
use bytes::Bytes;
use datafusion::catalog::TableProvider;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::projection::{
    ProjectionExec, ProjectionExpr, remove_unnecessary_projections,
};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, displayable, replace_children_if_necessary};
use datafusion_proto::bytes::physical_plan_to_bytes_with_proto_converter;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt as _,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode, UnionExecNode};

use super::relation::{RelationReader, RelationScan, RelationWriter};
use super::step_name;
use crate::plan::optimizer::aggregate_once;

/// The plans of a query, while it is planned.
#[derive(Debug)]
pub(crate) struct Recording {
    state: SessionState,
    writer: RelationWriter,
    reader: RelationReader,
    plans: Vec<Bytes>,
    /// Names of tables, views and steps that have no rows.
    empty: HashSet<String>,
    /// True if the last plan added returns no rows, because of these relations.
    is_last_empty: bool,
}

impl Recording {
    /// Begins to record plans that leave out the relations `empty`, which have no rows.
    pub(crate) fn new(state: Arc<SessionState>, empty: &[String]) -> Self {
        let mut builder = SessionStateBuilder::new_from_existing(state.as_ref().clone());
        if !empty.is_empty() {
            let first: [Arc<dyn OptimizerRule + Send + Sync>; 3] = [
                Arc::new(SimplifyExpressions::new()),
                Arc::new(EliminateFilter::new()),
                Arc::new(PropagateEmpty(PropagateEmptyRelation::new())),
            ];
            let rules = first.into_iter().chain(state.optimizers().iter().cloned());
            let mut config = state.config().clone();
            config.options_mut().optimizer.max_passes = 3;
            builder = builder.with_config(config).with_optimizer_rules(rules.collect());
        }
        let unoptimized = builder
            .with_physical_optimizer_rules(Vec::new())
            // Counts names that rules make up.
            .with_execution_props(ExecutionProps::new())
            .build();
        let context = state.task_ctx();
        let (writer, reader) = (RelationWriter::default(), RelationReader::new(state, context));
        let empty = empty.iter().cloned().collect();
        Self { state: unoptimized, writer, reader, plans: Vec::new(), empty, is_last_empty: false }
    }

    /// Adds a table or view that the plans read.
    pub(crate) fn add_table(&mut self, name: &str, table: Arc<dyn TableProvider>) {
        self.reader.tables.insert(name.to_owned(), table);
    }

    /// Adds the rows of the plan that was added last, which later plans read under that name.
    pub(crate) fn add_step(&mut self, name: &str, table: Arc<dyn TableProvider>) {
        let step = step_name(self.plans.len() - 1);
        self.reader.tables.insert(step.clone(), table);
        self.writer.renamed.insert(name.to_owned(), step);
        if self.is_last_empty {
            self.empty.insert(name.to_owned());
        }
    }

    /// Adds a plan.
    ///
    /// # Errors
    /// If it cannot be written, or is another one when it is read.
    pub(crate) async fn add_plan(&mut self, plan: &LogicalPlan) -> Result<()> {
        let plan = self.state.optimize(&self.without_empty_relations(plan)?)?;
        self.is_last_empty = is_empty(&plan);
        let plan = self.state.query_planner().create_physical_plan(&plan, &self.state).await?;
        let plan = aggregate_once(plan)?;
        // Unions may add other projections to their inputs when the plan is read.
        let bytes = match self.written(without_projections(Arc::clone(&plan))?) {
            Ok(bytes) => bytes,
            Err(_) => self.written(plan)?,
        };
        self.plans.push(bytes);
        Ok(())
    }

    fn without_empty_relations(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let without = |plan| {
            Ok(match plan {
                LogicalPlan::TableScan(scan) if self.empty.contains(scan.table_name.table()) => {
                    let schema = scan.projected_schema;
                    let empty = EmptyRelation { produce_one_row: false, schema };
                    Transformed::yes(LogicalPlan::EmptyRelation(empty))
                }
                other => Transformed::no(other),
            })
        };
        Ok(plan.clone().transform_up_with_subqueries(without)?.data)
    }

    /// The bytes of a plan, if it is the same when it is read.
    fn written(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Bytes> {
        let recorded = text(&without_names(&plan)?);
        let bytes = physical_plan_to_bytes_with_proto_converter(
            plan,
            &self.writer,
            &PlanWriter::default(),
        )?;
        let read = text(&self.reader.read(&bytes)?);
        if read != recorded {
            let mut lines = read.lines().zip(recorded.lines());
            let (read, recorded) = lines.find(|(a, b)| a != b).unwrap_or_default();
            return plan_err!("a plan has\n{recorded}\nand is read as\n{read}");
        }
        Ok(bytes)
    }

    pub(crate) fn into_plans(self) -> Vec<Bytes> {
        self.plans
    }
}

/// As DataFusion's rule, but unions keep empty inputs unless all are empty: without them, columns of a union may become
/// non-nullable, which later rules reject.
#[derive(Debug)]
struct PropagateEmpty(PropagateEmptyRelation);

impl OptimizerRule for PropagateEmpty {
    fn name(&self) -> &'static str {
        "propagate_empty"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Union(union) if !union.inputs.iter().all(|input| is_empty(input)) => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(relation) if !relation.produce_one_row)
}

/// Writes plans without the projections that unions add to inputs whose nullability differs: a union that is read adds them
/// again.
#[derive(Default)]
struct PlanWriter {
    /// Numbers of expressions in this process, and in the plan.
    ids: RefCell<HashMap<u64, u64>>,
}

impl PhysicalProtoConverterExtension for PlanWriter {
    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        let Some(union) = plan.downcast_ref::<UnionExec>() else {
            let plan = Arc::clone(plan);
            return PhysicalPlanNode::try_from_physical_plan_with_converter(plan, codec, self);
        };
        let inputs = union.inputs().iter();
        let inputs = inputs.map(|input| {
            let input = added_projection(input).unwrap_or(input);
            self.execution_plan_to_proto(input, codec)
        });
        let union = UnionExecNode { inputs: inputs.collect::<Result<_>>()? };
        Ok(PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Union(union)) })
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        let mut expr = serialize_physical_expr_with_converter(expr, codec, self)?;
        if let Some(id) = &mut expr.expr_id {
            let mut ids = self.ids.borrow_mut();
            let next = ids.len() as u64;
            *id = *ids.entry(*id).or_insert(next);
        }
        Ok(expr)
    }

    fn proto_to_execution_plan(
        &self,
        _: &PhysicalPlanNode,
        _: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!("this converter only writes")
    }

    fn proto_to_physical_expr(
        &self,
        _: &PhysicalExprNode,
        _: &Schema,
        _: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        plan_err!("this converter only writes")
    }
}

/// The input of a projection that returns it as it is, except for casts to the types that columns have.
fn added_projection(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let schema = projection.input().schema();
    let is_same = |(at, column): (usize, &ProjectionExpr)| {
        let field = schema.field(at);
        let inner = match column.expr.downcast_ref::<CastExpr>() {
            Some(cast) if cast.cast_type() == field.data_type() => cast.expr(),
            _ => &column.expr,
        };
        column.alias == *field.name()
            && inner.downcast_ref::<Column>().is_some_and(|column| column.index() == at)
    };
    let columns = projection.expr();
    let are_same =
        columns.len() == schema.fields().len() && columns.iter().enumerate().all(is_same);
    are_same.then_some(projection.input())
}

/// A plan without projections that other operators can do, except for those that unions add.
fn without_projections(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = remove_unnecessary_projections(plan)?.data;
    let is_union = plan.downcast_ref::<UnionExec>().is_some();
    let input = |plan: Arc<dyn ExecutionPlan>| match added_projection(&plan) {
        Some(input) if is_union => {
            let input = without_projections(Arc::clone(input))?;
            Ok(Transformed::yes(replace_children_if_necessary(plan, vec![input])?))
        }
        _ => Ok(Transformed::yes(without_projections(plan)?)),
    };
    Ok(plan.map_children(input)?.data)
}

/// A plan with the scans of tables in place of those that know their names.
fn without_names(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let unnamed = |plan: Arc<dyn ExecutionPlan>| {
        Ok(match plan.downcast_ref::<RelationScan>() {
            Some(scan) => Transformed::yes(Arc::clone(&scan.scan)),
            None => Transformed::no(plan),
        })
    };
    Ok(Arc::clone(plan).transform_up(unnamed)?.data)
}

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    let plan = displayable(plan.as_ref()).set_show_schema(true);
    plan.indent(true).to_string()
}
