//! Window functions of views, a column at a time. Interval algebra is made of running sums and maxima, each of which
//! is one loop over a column; DataFusion's operators go through an accumulator and a scalar for each row.

use std::fmt;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray,
    UInt64Array,
};
use datafusion::arrow::compute::{concat_batches, partition, sum, take};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, InputOrderMode, PlanProperties, ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};
use trace_model::RecordBatch;

/// `plan` with its functions computed here, if it is an operator for window functions and this knows all of its
/// functions. All rows of a partition are held in memory.
pub(crate) fn by_column(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match functions(plan.as_ref()) {
        Some(functions) => Transformed::yes(Arc::new(ByColumn { plan, functions })),
        None => Transformed::no(plan),
    })
}

fn functions(plan: &dyn ExecutionPlan) -> Option<Arc<[Function]>> {
    let functions = if let Some(bounded) = plan.downcast_ref::<BoundedWindowAggExec>() {
        if bounded.input_order_mode != InputOrderMode::Sorted {
            return None;
        }
        bounded.window_expr()
    } else if let Some(whole) = plan.downcast_ref::<WindowAggExec>() {
        whole.window_expr()
    } else {
        return None;
    };
    functions.iter().map(|f| Function::new(f.as_ref())).collect()
}

/// An operator for window functions. What it needs of its input and what is known of its rows is as DataFusion says.
#[derive(Debug)]
struct ByColumn {
    plan: Arc<dyn ExecutionPlan>,
    functions: Arc<[Function]>,
}

/// A window function over sorted rows.
#[derive(Debug)]
struct Function {
    kind: Kind,
    args: Vec<Arc<dyn PhysicalExpr>>,
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    frame: Frame,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    RowNumber,
    /// The value so many rows later, or earlier if negative.
    Shifted(i64),
    First,
    Count,
    Sum,
    Min,
    Max,
}

/// The rows of the partition that a value is computed from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    All,
    UpToThis,
    BeforeThis,
}

impl Function {
    /// None if it is not known here. FILTER and IGNORE NULLS are told by the name only.
    fn new(function: &dyn WindowExpr) -> Option<Self> {
        if function.name().contains("FILTER (") || function.name().contains("IGNORE NULLS") {
            return None;
        }
        let known = |kind, args, frame| {
            let partition_by = function.partition_by().to_vec();
            Some(Self { kind, args, partition_by, frame })
        };
        let frame = frame(function.get_window_frame(), function.order_by().is_empty());
        if let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() {
            let of = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
            let args = of.args();
            return match of.fun().name() {
                "row_number" => known(Kind::RowNumber, Vec::new(), Frame::UpToThis),
                "lead" => known(Kind::Shifted(offset(args)?), args[..1].to_vec(), Frame::All),
                "lag" => known(Kind::Shifted(-offset(args)?), args[..1].to_vec(), Frame::All),
                "first_value" if matches!(frame?, Frame::All | Frame::UpToThis) => {
                    known(Kind::First, args.to_vec(), Frame::All)
                }
                _ => None,
            };
        }
        let plain = function.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
        let aggregate = plain.get_aggregate_expr();
        if aggregate.is_distinct() || aggregate.expressions().len() != 1 {
            return None;
        }
        let data_type = function.field().ok()?.data_type().clone();
        let kind = match (aggregate.fun().name(), data_type) {
            ("count", _) => Kind::Count,
            ("sum", DataType::Int64 | DataType::Float64) => Kind::Sum,
            ("min", DataType::Int32 | DataType::Int64) => Kind::Min,
            ("max", DataType::Int32 | DataType::Int64) => Kind::Max,
            _ => return None,
        };
        known(kind, aggregate.expressions(), frame?)
    }

    fn evaluate(&self, rows: &RecordBatch, partitions: &[Range<usize>]) -> Result<ArrayRef> {
        let args = columns(&self.args, rows)?;
        let picked = |indices: UInt64Array| Ok(take(args[0].as_ref(), &indices, None)?);
        match self.kind {
            Kind::RowNumber => {
                let numbers = partitions.iter().flat_map(|p| 1..=p.len() as u64);
                Ok(Arc::new(UInt64Array::from_iter_values(numbers)))
            }
            Kind::Shifted(by) => picked(partitions.iter().flat_map(|p| shifted(p, by)).collect()),
            Kind::First => {
                let firsts = partitions.iter().flat_map(|p| repeat_n(p.start as u64, p.len()));
                picked(UInt64Array::from_iter_values(firsts))
            }
            Kind::Count => Ok(Arc::new(self.counts(args[0].as_ref(), partitions))),
            Kind::Sum => Ok(match args[0].data_type() {
                DataType::Float64 => self.sums(args[0].as_primitive::<Float64Type>(), partitions),
                _ => self.sums(args[0].as_primitive::<Int64Type>(), partitions),
            }),
            Kind::Min | Kind::Max => Ok(match args[0].data_type() {
                DataType::Int32 => self.extremes(args[0].as_primitive::<Int32Type>(), partitions),
                _ => self.extremes(args[0].as_primitive::<Int64Type>(), partitions),
            }),
        }
    }

    fn counts(&self, of: &dyn Array, partitions: &[Range<usize>]) -> Int64Array {
        let nulls = of.logical_nulls();
        let is_counted = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let mut counts = Vec::with_capacity(of.len());
        for rows in partitions {
            let mut count = 0;
            let start = counts.len();
            for row in rows.clone() {
                let before = count;
                count += i64::from(is_counted(row));
                counts.push(if self.frame == Frame::BeforeThis { before } else { count });
            }
            if self.frame == Frame::All {
                counts[start..].fill(count);
            }
        }
        Int64Array::from(counts)
    }

    fn sums<T: ArrowPrimitiveType>(
        &self,
        of: &PrimitiveArray<T>,
        partitions: &[Range<usize>],
    ) -> ArrayRef {
        let zero = T::Native::ZERO;
        if self.frame != Frame::All {
            return self.folded(of, partitions, |so_far, value| {
                so_far.unwrap_or(zero).add_wrapping(value)
            });
        }
        // As DataFusion adds a column up: not from left to right.
        let sums = partitions.iter().flat_map(|rows| {
            let total = sum(&of.slice(rows.start, rows.len()));
            repeat_n(total.map(|total| zero.add_wrapping(total)), rows.len())
        });
        Arc::new(sums.collect::<PrimitiveArray<T>>())
    }

    fn extremes<T: ArrowPrimitiveType>(
        &self,
        of: &PrimitiveArray<T>,
        partitions: &[Range<usize>],
    ) -> ArrayRef {
        let is_min = matches!(self.kind, Kind::Min);
        self.folded(of, partitions, |so_far, value| match so_far {
            Some(kept) if (is_min && kept.is_le(value)) || (!is_min && kept.is_ge(value)) => kept,
            _ => value,
        })
    }

    fn folded<T: ArrowPrimitiveType>(
        &self,
        of: &PrimitiveArray<T>,
        partitions: &[Range<usize>],
        next: impl Fn(Option<T::Native>, T::Native) -> T::Native,
    ) -> ArrayRef {
        let mut values: Vec<Option<T::Native>> = Vec::with_capacity(of.len());
        for rows in partitions {
            let mut so_far = None;
            let start = values.len();
            for row in rows.clone() {
                let before = so_far;
                if of.is_valid(row) {
                    so_far = Some(next(so_far, of.value(row)));
                }
                values.push(if self.frame == Frame::BeforeThis { before } else { so_far });
            }
            if self.frame == Frame::All {
                values[start..].fill(so_far);
            }
        }
        Arc::new(PrimitiveArray::<T>::from_iter(values))
    }
}

/// How far `lead` and `lag` look. None if they are given a value for rows that have none so far.
fn offset(args: &[Arc<dyn PhysicalExpr>]) -> Option<i64> {
    let literal = |arg: &Arc<dyn PhysicalExpr>| {
        arg.downcast_ref::<Literal>().map(|literal| literal.value().clone())
    };
    match args {
        [_] => Some(1),
        [_, offset] => match literal(offset)? {
            ScalarValue::Int64(Some(offset)) => Some(offset),
            _ => None,
        },
        _ => None,
    }
}

fn frame(frame: &WindowFrame, is_unordered: bool) -> Option<Frame> {
    let is_unbounded = |bound: &WindowFrameBound| bound.is_unbounded();
    if !is_unbounded(&frame.start_bound) {
        return None;
    }
    match (&frame.units, &frame.end_bound) {
        (_, end) if is_unbounded(end) => Some(Frame::All),
        (WindowFrameUnits::Range, WindowFrameBound::CurrentRow) if is_unordered => Some(Frame::All),
        (WindowFrameUnits::Rows, WindowFrameBound::CurrentRow) => Some(Frame::UpToThis),
        (WindowFrameUnits::Rows, WindowFrameBound::Preceding(ScalarValue::UInt64(Some(1)))) => {
            Some(Frame::BeforeThis)
        }
        _ => None,
    }
}

/// For each row, the row so many later, within the partition.
fn shifted(rows: &Range<usize>, by: i64) -> impl Iterator<Item = Option<u64>> {
    rows.clone().map(move |row| {
        let other = row as i64 + by;
        (other >= rows.start as i64 && other < rows.end as i64).then_some(other as u64)
    })
}

impl ByColumn {
    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.plan.children()[0]
    }
}

fn columns(of: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    of.iter().map(|of| of.evaluate(rows)?.into_array(rows.num_rows())).collect()
}

/// The rows with a column more for each function.
fn evaluate(functions: &[Function], rows: &RecordBatch, schema: SchemaRef) -> Result<RecordBatch> {
    let keys = columns(&functions[0].partition_by, rows)?;
    let partitions = match rows.num_rows() {
        0 => Vec::new(),
        count if keys.is_empty() => vec![0..count],
        _ => partition(&keys)?.ranges(),
    };
    let mut all = rows.columns().to_vec();
    for function in functions {
        all.push(function.evaluate(rows, &partitions)?);
    }
    Ok(RecordBatch::try_new(schema, all)?)
}

impl DisplayAs for ByColumn {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByColumn: ")?;
        match self.plan.downcast_ref::<BoundedWindowAggExec>() {
            Some(plan) => plan.fmt_as(format, f),
            None => f.write_str(self.plan.name()),
        }
    }
}

impl ExecutionPlan for ByColumn {
    fn name(&self) -> &'static str {
        "ByColumn"
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
        by_column(Arc::clone(&self.plan).replace_children(children, options)?).data()
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
        let input = self.input().execute(partition, context)?;
        let schema = self.schema();
        let (functions, of_rows) = (Arc::clone(&self.functions), Arc::clone(&schema));
        let batches = stream::once(async move {
            let input_schema = input.schema();
            let batches: Vec<RecordBatch> = input.try_collect().await?;
            let rows = concat_batches(&input_schema, &batches)?;
            drop(batches);
            let rows = evaluate(&functions, &rows, of_rows)?;
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int32Array, Int64Array, StringArray};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionState;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use proptest::prelude::*;
    use trace_model::RecordBatch;

    use crate::planning;

    type Row = (i64, i64, Option<i64>, Option<i32>, Option<f64>, Option<u8>);

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let int = proptest::option::of(prop_oneof![Just(i64::MAX), -9..9_i64]);
        let small = proptest::option::of(-9..9_i32);
        let float = proptest::option::of(prop_oneof![Just(-0.0), Just(1e300), -1.0..1.0]);
        let name = proptest::option::of(0..3_u8);
        proptest::collection::vec((0..4_i64, 0..9_i64, int, small, float, name), 0..60)
    }

    fn table(rows: &[Row]) -> RecordBatch {
        let number = Int64Array::from_iter_values(0..rows.len() as i64);
        RecordBatch::try_from_iter_with_nullable([
            ("number", Arc::new(number) as _, false),
            ("rank", Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0))) as _, false),
            ("ts", Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1))) as _, false),
            ("long", Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.2))) as _, true),
            ("short", Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.3))) as _, true),
            ("float", Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.4))) as _, true),
            (
                "name",
                Arc::new(StringArray::from_iter(rows.iter().map(|r| r.5.map(|n| n.to_string()))))
                    as _,
                true,
            ),
        ])
        .unwrap()
    }

    /// The rows of a query and whether its window functions were computed here.
    async fn answer(state: &SessionState, query: &str) -> (String, bool) {
        let plan = state.create_logical_plan(query).await.unwrap();
        let plan = state.create_physical_plan(&plan).await.unwrap();
        let is_here = displayable(plan.as_ref()).indent(false).to_string().contains("ByColumn");
        let batches = collect(plan, state.task_ctx()).await.unwrap();
        (pretty_format_batches(&batches).unwrap().to_string(), is_here)
    }

    fn both(rows: &[Row], query: &str) -> ((String, bool), String) {
        let config = SessionConfig::new().with_target_partitions(1).with_batch_size(7);
        let context = SessionContext::new_with_config(config);
        let theirs = context.state();
        let ours = planning::for_views(&theirs, true);
        context.register_batch("t", table(rows)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let query = format!("SELECT number, {query} FROM t ORDER BY number");
            (answer(&ours, &query).await, answer(&theirs, &query).await.0)
        })
    }

    const KNOWN: [&str; 12] = [
        "sum(long) OVER (PARTITION BY rank ORDER BY ts, number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "sum(float) OVER (PARTITION BY rank ORDER BY ts, number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "sum(short) OVER (PARTITION BY rank ORDER BY ts, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        "sum(float) OVER (PARTITION BY rank)",
        "max(long) OVER (PARTITION BY rank, ts ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        "min(short) OVER (ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "max(short) OVER (PARTITION BY name)",
        "count(name) OVER (PARTITION BY rank ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "count(*) OVER (PARTITION BY rank)",
        "row_number() OVER (PARTITION BY name ORDER BY ts DESC, number)",
        "lead(name) OVER (PARTITION BY rank ORDER BY ts, number), lag(float, 2) OVER (PARTITION BY rank ORDER BY ts, number)",
        "first_value(name) OVER (PARTITION BY rank ORDER BY ts, number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ];

    const LEFT_TO_DATAFUSION: [&str; 8] = [
        "sum(long) OVER (PARTITION BY rank ORDER BY ts)",
        "sum(long) OVER (ORDER BY number ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "sum(short) FILTER (WHERE ts > 3) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "max(float) OVER (PARTITION BY rank)",
        "max(name) OVER (PARTITION BY rank)",
        "lag(short, 1, 7) OVER (ORDER BY number)",
        "lag(short) IGNORE NULLS OVER (ORDER BY number)",
        "ntile(3) OVER (ORDER BY number)",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn values_are_those_of_datafusion(rows in rows()) {
            for query in KNOWN {
                let ((ours, is_here), theirs) = both(&rows, query);
                prop_assert!(is_here, "{query}");
                prop_assert_eq!(ours, theirs, "{}", query);
            }
        }
    }

    #[test]
    fn what_is_not_known_here_is_left_to_datafusion() {
        let rows = [(0, 1, Some(1), Some(2), Some(0.5), None), (0, 2, None, None, None, Some(1))];
        for query in LEFT_TO_DATAFUSION {
            let ((ours, is_here), theirs) = both(&rows, query);
            assert!(!is_here, "{query}");
            assert_eq!(ours, theirs, "{query}");
        }
    }
}
