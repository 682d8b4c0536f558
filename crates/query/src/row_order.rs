//! The order of rows: by some columns, ascending, nulls last.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{
    LexicographicalComparator, SortColumn, SortOptions, concat, take_record_batch,
};
use arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SortExpr, ident};
use trace_model::RecordBatch;

/// The sort options of each column.
pub(crate) const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Sort by these columns.
pub(crate) fn ascending(order: &[String]) -> Vec<SortExpr> {
    let SortOptions { descending, nulls_first } = ASCENDING;
    order.iter().map(|column| ident(column).sort(!descending, nulls_first)).collect()
}

/// `plan` sorted by these columns.
pub(crate) fn sort_plan(plan: LogicalPlan, order: &[String]) -> Result<LogicalPlan> {
    if order.is_empty() {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).sort(ascending(order))?.build()
}

/// Rows sorted by these columns.
pub(crate) fn sort_batch(batch: RecordBatch, order: &[String]) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> =
        order.iter().filter_map(|name| batch.column_by_name(name)).cloned().collect();
    if columns.is_empty() || is_sorted(&columns)? {
        return Ok(batch);
    }
    let by = comparator(&columns)?;
    let mut rows: Vec<usize> = (0..batch.num_rows()).collect();
    rows.sort_by(|&a, &b| by.compare(a, b));
    let rows: UInt64Array = rows.into_iter().map(|row| Some(row as u64)).collect();
    Ok(take_record_batch(&batch, &rows)?)
}

/// Returns whether rows are sorted by all of these columns.
fn is_sorted(columns: &[ArrayRef]) -> Result<bool> {
    let by = comparator(columns)?;
    let rows = columns.first().map_or(0, Array::len);
    Ok((1..rows).all(|row| by.compare(row - 1, row).is_le()))
}

fn comparator(columns: &[ArrayRef]) -> Result<LexicographicalComparator> {
    let column =
        |values: &ArrayRef| SortColumn { values: Arc::clone(values), options: Some(ASCENDING) };
    Ok(LexicographicalComparator::try_new(&columns.iter().map(column).collect::<Vec<_>>())?)
}

/// Checks whether batches that follow each other are sorted.
pub(crate) struct OrderCheck {
    /// Indices of the columns.
    columns: Vec<usize>,
    /// The last row of these columns.
    last: Option<Vec<ArrayRef>>,
    is_sorted: bool,
}

impl OrderCheck {
    /// Without columns, or if one of them is missing, rows do not count as sorted.
    pub(crate) fn new(schema: &Schema, order: &[String]) -> Self {
        let columns: Option<Vec<usize>> =
            order.iter().map(|name| schema.column_with_name(name).map(|(at, _)| at)).collect();
        let columns = columns.unwrap_or_default();
        Self { is_sorted: !columns.is_empty(), columns, last: None }
    }

    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if !self.is_sorted || batch.num_rows() == 0 {
            return Ok(());
        }
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|&at| Arc::clone(batch.column(at))).collect();
        let row = |at| columns.iter().map(move |column| column.slice(at, 1));
        if let Some(last) = self.last.take() {
            let pairs = last.iter().zip(row(0)).map(|(last, first)| concat(&[last, &first]));
            self.is_sorted = is_sorted(&pairs.collect::<Result<Vec<_>, _>>()?)?;
        }
        self.is_sorted = self.is_sorted && is_sorted(&columns)?;
        self.last = Some(row(batch.num_rows() - 1).collect());
        Ok(())
    }

    /// Returns whether all rows so far are sorted.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }
}
