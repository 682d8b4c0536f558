//! Window functions computed column by column. Interval algebra consists of running sums and maxima, each of which is one
//! loop over a column; DataFusion's operators use an accumulator and a scalar per row.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray,
    UInt64Array,
};
use arrow::compute::{partition, sum, take};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use trace_model::RecordBatch;

use super::BatchOperator;
use crate::batch_builder::primitive_array;

/// Replaces a window operator if all of its functions are supported here.
pub(super) fn operator(plan: &dyn ExecutionPlan) -> Option<Arc<dyn BatchOperator>> {
    let functions = if let Some(bounded) = plan.downcast_ref::<BoundedWindowAggExec>() {
        if bounded.input_order_mode != InputOrderMode::Sorted {
            return None;
        }
        bounded.window_expr()
    } else {
        plan.downcast_ref::<WindowAggExec>()?.window_expr()
    };
    // All functions of one operator have the same partitions.
    let partition_by = functions.first()?.partition_by().to_vec();
    let functions: Option<_> = functions.iter().map(|f| Function::new(f.as_ref())).collect();
    Some(Arc::new(ColumnarWindow { partition_by, functions: functions? }))
}

#[derive(Debug)]
struct ColumnarWindow {
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    functions: Vec<Function>,
}

impl BatchOperator for ColumnarWindow {
    fn name(&self) -> &'static str {
        "ColumnarWindowExec"
    }

    /// The rows with one more column per function.
    fn evaluate(&self, input: RecordBatch, schema: SchemaRef) -> Result<RecordBatch> {
        let keys = columns(&self.partition_by, &input)?;
        let partitions = match input.num_rows() {
            0 => Vec::new(),
            count if keys.is_empty() => std::iter::once(0..count).collect(),
            _ => partition(&keys)?.ranges(),
        };
        let mut all = input.columns().to_vec();
        for function in &self.functions {
            all.push(function.evaluate(&input, &partitions)?);
        }
        Ok(RecordBatch::try_new(schema, all)?)
    }
}

/// A window function over sorted rows.
#[derive(Debug)]
struct Function {
    kind: Kind,
    args: Vec<Arc<dyn PhysicalExpr>>,
    frame: Frame,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    RowNumber,
    /// The value this many rows later, or earlier if negative.
    Offset(i64),
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
    RunningInclusive,
    RunningExclusive,
}

impl Function {
    /// `None` if the function is not supported here. DataFusion 55 keeps FILTER and IGNORE NULLS in private fields, so that only the
    /// display name shows them; a test holds the names.
    fn new(function: &dyn WindowExpr) -> Option<Self> {
        if function.name().contains("FILTER (") || function.name().contains("IGNORE NULLS") {
            return None;
        }
        let known = |kind, args, frame| Some(Self { kind, args, frame });
        let frame = frame(function.get_window_frame(), function.order_by().is_empty());
        if let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() {
            let of = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
            let args = of.args();
            return match of.fun().name() {
                "row_number" => known(Kind::RowNumber, Vec::new(), Frame::RunningInclusive),
                "lead" => known(Kind::Offset(offset(args)?), args[..1].to_vec(), Frame::All),
                "lag" => known(Kind::Offset(-offset(args)?), args[..1].to_vec(), Frame::All),
                "first_value" if matches!(frame?, Frame::All | Frame::RunningInclusive) => {
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
            Kind::Offset(by) => picked(partitions.iter().flat_map(|p| shifted(p, by)).collect()),
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
        Int64Array::from(
            self.values(0, partitions, |so_far, row| so_far + i64::from(is_counted(row))),
        )
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
        // Adds in the order in which DataFusion adds up a column, which is not from left to right.
        let sums = partitions.iter().flat_map(|rows| {
            let total = sum(&of.slice(rows.start, rows.len()));
            repeat_n(total.map(|total| zero.add_wrapping(total)), rows.len())
        });
        Arc::new(primitive_array::<T>(sums))
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
        let values = self.values(None, partitions, |so_far, row| {
            if of.is_valid(row) { Some(next(so_far, of.value(row))) } else { so_far }
        });
        Arc::new(primitive_array::<T>(values.into_iter()))
    }

    /// The running value in each row; it restarts in each partition.
    fn values<V: Copy>(
        &self,
        start: V,
        partitions: &[Range<usize>],
        next: impl Fn(V, usize) -> V,
    ) -> Vec<V> {
        let mut values = Vec::with_capacity(partitions.last().map_or(0, |rows| rows.end));
        for rows in partitions {
            let mut so_far = start;
            for row in rows.clone() {
                let before = so_far;
                so_far = next(so_far, row);
                values.push(if self.frame == Frame::RunningExclusive { before } else { so_far });
            }
            if self.frame == Frame::All {
                values[rows.clone()].fill(so_far);
            }
        }
        values
    }
}

/// The offset of `lead` and `lag`. `None` if they have a default for rows without such a row.
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
        (WindowFrameUnits::Rows, WindowFrameBound::CurrentRow) => Some(Frame::RunningInclusive),
        (WindowFrameUnits::Rows, WindowFrameBound::Preceding(ScalarValue::UInt64(Some(1)))) => {
            Some(Frame::RunningExclusive)
        }
        _ => None,
    }
}

/// For each row, the row that many positions later within the partition.
fn shifted(rows: &Range<usize>, by: i64) -> impl Iterator<Item = Option<u64>> {
    rows.clone().map(move |row| {
        let other = row as i64 + by;
        (other >= rows.start as i64 && other < rows.end as i64).then_some(other as u64)
    })
}

fn columns(of: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    of.iter().map(|of| of.evaluate(rows)?.into_array(rows.num_rows())).collect()
}
