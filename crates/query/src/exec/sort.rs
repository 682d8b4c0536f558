//! A stable sort by integer keys. Rows of views are sorted by ranks, times and names, and are mostly in order already, or a
//! union of sorted parts, which a sort that detects runs exploits. DataFusion sorts batch by batch, merges, and calls a
//! comparator per column.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{SortOptions, cast, rank, take_record_batch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, SchemaRef, UInt64Type};
use datafusion::common::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use trace_model::RecordBatch;

use super::BatchOperator;

/// Replaces a sort without limit whose keys are numbers, texts or Booleans.
pub(super) fn operator(plan: &dyn ExecutionPlan) -> Option<Arc<dyn BatchOperator>> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let schema = sort.input().schema();
    let is_known = |key: &PhysicalSortExpr| {
        key.expr.data_type(&schema).is_ok_and(|data_type| match data_type {
            DataType::Dictionary(key, value) => *key == DataType::Int32 && is_text(&value),
            DataType::Int32
            | DataType::Int64
            | DataType::UInt64
            | DataType::Float64
            | DataType::Boolean => true,
            other => is_text(&other),
        })
    };
    let is_supported = sort.fetch().is_none() && sort.expr().iter().all(is_known);
    is_supported.then(|| Arc::new(SortBatch { by: sort.expr().clone() }) as _)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[derive(Debug)]
struct SortBatch {
    by: LexOrdering,
}

impl BatchOperator for SortBatch {
    fn name(&self) -> &'static str {
        "SortBatchExec"
    }

    fn evaluate(&self, input: RecordBatch, _: SchemaRef) -> Result<RecordBatch> {
        let count = input.num_rows();
        let mut keys: Vec<Vec<u64>> = Vec::with_capacity(self.by.len());
        for by in &self.by {
            let column = by.expr.evaluate(&input)?.into_array(count)?;
            for key in integers(&column, by.options)? {
                // A constant key, such as the rank of a run with one rank, has no effect.
                if key.iter().any(|&value| value != key[0]) {
                    keys.push(key);
                }
            }
        }
        let Some((first, rest)) = keys.split_first() else { return Ok(input) };
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            let (at, other) = (a.1 as usize, b.1 as usize);
            a.0.cmp(&b.0).then_with(|| {
                let mut rest = rest.iter().map(|key| key[at].cmp(&key[other]));
                rest.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        };
        let mut order: Vec<(u64, u32)> = first.iter().copied().zip(0..).collect();
        if order.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return Ok(input);
        }
        order.sort_by(compare);
        let order = UInt32Array::from_iter_values(order.iter().map(|&(_, row)| row));
        Ok(take_record_batch(&input, &order)?)
    }
}

/// Integers in the order of the values of a column; two per value if some are null.
fn integers(column: &ArrayRef, options: SortOptions) -> Result<Vec<Vec<u64>>> {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let mut keys: Vec<u64> = match column.data_type() {
        DataType::Int32 => {
            let values = column.as_primitive::<Int32Type>().values();
            values.iter().map(|&value| ordered(i64::from(value))).collect()
        }
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            values.iter().map(|&value| ordered(value)).collect()
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            values.iter().map(|&value| total_order(value)).collect()
        }
        DataType::UInt64 => column.as_primitive::<UInt64Type>().values().to_vec(),
        DataType::Boolean => column.as_boolean().values().iter().map(u64::from).collect(),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            let ranks = ranks(column.values())?;
            let keys = column.keys().values().iter();
            keys.map(|&key| ranks.get(key as usize).copied().unwrap_or_default()).collect()
        }
        _ => ranks(column)?,
    };
    if options.descending {
        for key in &mut keys {
            *key = !*key;
        }
    }
    let Some(nulls) = nulls else { return Ok(vec![keys]) };
    let is_last = |is_null: bool| u64::from(is_null != options.nulls_first);
    let sides = nulls.iter().map(|is_valid| is_last(!is_valid)).collect();
    for (key, is_valid) in keys.iter_mut().zip(nulls) {
        if !is_valid {
            *key = 0;
        }
    }
    Ok(vec![sides, keys])
}

fn ordered(value: i64) -> u64 {
    (value as u64) ^ (1 << 63)
}

/// As [`f64::total_cmp`] orders them.
fn total_order(value: f64) -> u64 {
    let bits = value.to_bits() as i64;
    ordered(bits ^ (((bits >> 63) as u64) >> 1) as i64)
}

/// The position of each text among the sorted texts; equal texts have equal positions.
fn ranks(texts: &ArrayRef) -> Result<Vec<u64>> {
    let texts = cast(texts, &DataType::Utf8)?;
    Ok(rank(texts.as_ref(), None)?.into_iter().map(u64::from).collect())
}
