//! The leaves of prepared plans: tables and views by name.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_err, plan_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_from_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::from_proto::parse_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt as _,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode, ProjectionExecNode};
use futures::FutureExt as _;
use prost::Message as _;
use tokio::task::unconstrained;

use super::is_step;
use crate::exec::projection::OrderedProjectionExec;
use crate::exec::sequential_merge::single_partition;
use crate::plan::optimizer::{SinglePartitionRule, estimate};
use crate::storage::TableStorage;

/// A table whose scans remember its name, for plans that are recorded.
#[derive(Debug)]
pub(crate) struct NamedTable {
    name: String,
    table: Arc<dyn TableProvider>,
}

impl NamedTable {
    pub(crate) fn new(name: &str, table: Arc<dyn TableProvider>) -> Self {
        Self { name: name.to_owned(), table }
    }
}

#[async_trait]
impl TableProvider for NamedTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.table.scan(state, projection, filters, limit).await?;
        let all = || (0..self.schema().fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        Ok(Arc::new(RelationScan { relation: self.name.clone(), columns, limit, scan }))
    }
}

/// A scan with the name of its table.
#[derive(Debug)]
pub(super) struct RelationScan {
    relation: String,
    columns: Vec<usize>,
    limit: Option<usize>,
    pub(super) scan: Arc<dyn ExecutionPlan>,
}

impl ExecutionPlan for RelationScan {
    fn name(&self) -> &'static str {
        "RelationScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.scan.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.scan.statistics_from_inputs(inputs, args)
    }
}

impl DisplayAs for RelationScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt_as(format, f)
    }
}

/// A scan in a file of prepared plans.
#[derive(Clone, PartialEq, prost::Message)]
struct Scan {
    #[prost(string, tag = "1")]
    relation: String,
    /// Positions of the columns in the relation.
    #[prost(uint32, repeated, tag = "2")]
    columns: Vec<u32>,
    /// See [`signature`].
    #[prost(string, tag = "3")]
    signature: String,
    #[prost(uint64, optional, tag = "4")]
    limit: Option<u64>,
}

/// Names, types and nullability of columns. The plan above a scan is made for them.
fn signature(schema: &Schema) -> String {
    let mut text = String::with_capacity(24 * schema.fields().len());
    for field in schema.fields() {
        text.push_str(field.name());
        text.push(' ');
        push_type(&mut text, field.data_type());
        text.push_str(if field.is_nullable() { "?\n" } else { "\n" });
    }
    text
}

/// Returns whether the columns of two signatures are the same, except that some may be nullable in `other` only.
fn is_at_most_as_nullable(signature: &str, other: &str) -> bool {
    let mut columns = signature.lines().zip(other.lines());
    signature.lines().count() == other.lines().count()
        && columns.all(|(column, other)| other == column || other.strip_suffix('?') == Some(column))
}

/// Formatting a type takes longer than all else here.
fn push_type(text: &mut String, data_type: &DataType) {
    match data_type {
        DataType::Boolean => text.push_str("Boolean"),
        DataType::Int32 => text.push_str("Int32"),
        DataType::Int64 => text.push_str("Int64"),
        DataType::Float64 => text.push_str("Float64"),
        DataType::Utf8 => text.push_str("Utf8"),
        DataType::Dictionary(keys, values) => {
            push_type(text, keys);
            text.push_str(" to ");
            push_type(text, values);
        }
        other => text.push_str(&other.to_string()),
    }
}

/// Writes scans of [`NamedTable`]s.
#[derive(Debug, Default)]
pub(super) struct RelationWriter {
    /// Names of tables that exist only while the query runs, and the names that they have in the file.
    pub(super) renamed: HashMap<String, String>,
}

impl PhysicalExtensionCodec for RelationWriter {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        exec_err!("this codec only writes")
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        to: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = plan.downcast_ref::<RelationScan>() else {
            return exec_err!("{} cannot be part of a prepared plan", plan.name());
        };
        let relation = self.renamed.get(&scan.relation).unwrap_or(&scan.relation).clone();
        let columns = scan.columns.iter().filter_map(|&at| u32::try_from(at).ok()).collect();
        let limit = scan.limit.map(|rows| rows as u64);
        let scan = Scan { relation, columns, signature: signature(&scan.schema()), limit };
        scan.encode(to).map_err(|e| DataFusionError::External(Box::new(e)))
    }
}

/// Reads plans, with scans of the tables that they name.
#[derive(Debug)]
pub(crate) struct RelationReader {
    pub(crate) tables: HashMap<String, Arc<dyn TableProvider>>,
    state: Arc<SessionState>,
    context: Arc<TaskContext>,
}

impl RelationReader {
    pub(crate) fn new(state: Arc<SessionState>, context: Arc<TaskContext>) -> Self {
        Self { tables: HashMap::new(), state, context }
    }

    /// Reads a plan as it was recorded. Fails if the columns of a table are not those that the plan was made for.
    pub(super) fn read(&self, plan: &[u8]) -> Result<Arc<dyn ExecutionPlan>> {
        physical_plan_from_bytes_with_extension_codec(plan, &self.context, self)
    }

    /// As `read`, but the plan is executable.
    pub(crate) fn read_executable(&self, plan: &[u8]) -> Result<Arc<dyn ExecutionPlan>> {
        let reader = ExecutablePlanReader::default();
        let plan =
            physical_plan_from_bytes_with_proto_converter(plan, &self.context, self, &reader)?;
        Ok(single_partition(plan))
    }
}

/// Applies [`SinglePartitionRule`] to each operator as it is read: afterwards, the operators above a changed one would have
/// to be made again.
struct ExecutablePlanReader {
    rule: SinglePartitionRule,
    /// Operators by address, with estimates of their rows. They are kept so that no other operator gets the address.
    operators: RefCell<HashMap<*const (), CountedOperator>>,
}

struct CountedOperator {
    plan: Arc<dyn ExecutionPlan>,
    rows: f64,
}

impl Default for ExecutablePlanReader {
    fn default() -> Self {
        let rule = SinglePartitionRule { storage: TableStorage::Memory };
        Self { rule, operators: RefCell::default() }
    }
}

impl ExecutablePlanReader {
    fn rows_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<f64> {
        let address = Arc::as_ptr(plan).cast();
        if let Some(operator) = self.operators.borrow().get(&address) {
            debug_assert!(Arc::ptr_eq(&operator.plan, plan), "an operator keeps its address");
            return Ok(operator.rows);
        }
        // A union has projected it.
        let children: Result<Vec<f64>> =
            plan.children().into_iter().map(|child| self.rows_of(child)).collect();
        estimate(plan.as_ref(), &children?)
    }

    fn projection(
        &self,
        proto: &ProjectionExecNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = proto.input.as_deref() else {
            return exec_err!("a projection in a prepared plan has no input");
        };
        let input = self.proto_to_execution_plan(input, context)?;
        let schema = input.schema();
        let columns = proto.expr.iter().zip(&proto.expr_name).map(|(expr, alias)| {
            let expr = self.proto_to_physical_expr(expr, &schema, context)?;
            Ok(ProjectionExpr::new(expr, alias))
        });
        let columns: Vec<ProjectionExpr> = columns.collect::<Result<_>>()?;
        Ok(Arc::new(OrderedProjectionExec::try_new(columns, input)?))
    }
}

impl PhysicalProtoConverterExtension for ExecutablePlanReader {
    fn proto_to_execution_plan(
        &self,
        proto: &PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = match &proto.physical_plan_type {
            Some(PhysicalPlanType::Projection(projection)) => {
                self.projection(projection, context)?
            }
            _ => proto.try_into_physical_plan_with_context(context, self)?,
        };
        let children: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
        let rows: Vec<f64> =
            children.iter().map(|child| self.rows_of(child)).collect::<Result<_>>()?;
        let (plan, rows) = self.rule.enforce_on_operator(plan, children, &rows)?;
        let operator = CountedOperator { plan: Arc::clone(&plan), rows };
        self.operators.borrow_mut().insert(Arc::as_ptr(&plan).cast(), operator);
        Ok(plan)
    }

    fn proto_to_physical_expr(
        &self,
        proto: &PhysicalExprNode,
        schema: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        parse_physical_expr_with_converter(proto, schema, context, self)
    }

    fn execution_plan_to_proto(
        &self,
        _: &Arc<dyn ExecutionPlan>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        exec_err!("this converter only reads")
    }

    fn physical_expr_to_proto(
        &self,
        _: &Arc<dyn PhysicalExpr>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        exec_err!("this converter only reads")
    }
}

impl PhysicalExtensionCodec for RelationReader {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Scan::decode(bytes).map_err(|e| DataFusionError::External(Box::new(e)))?;
        let Some(table) = self.tables.get(&scan.relation) else {
            return exec_err!("a prepared plan reads `{}`, which it does not list", scan.relation);
        };
        let columns: Vec<usize> = scan.columns.iter().map(|&at| at as usize).collect();
        let limit = scan.limit.and_then(|rows| usize::try_from(rows).ok());
        // Tables in memory answer at once, unless the runtime asks the task to give way.
        let plan = unconstrained(table.scan(self.state.as_ref(), Some(&columns), &[], limit));
        let plan = plan.now_or_never();
        let plan =
            plan.ok_or_else(|| plan_datafusion_err!("`{}` is not in memory", scan.relation))??;
        let actual = signature(&plan.schema());
        let fits = if is_step(&scan.relation) {
            // A plan that leaves out relations may return columns that are not nullable.
            is_at_most_as_nullable(&actual, &scan.signature)
        } else {
            actual == scan.signature
        };
        if !fits {
            return exec_err!("the columns of `{}` have changed", scan.relation);
        }
        Ok(plan)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        exec_err!("this codec only reads, not {}", plan.name())
    }
}
