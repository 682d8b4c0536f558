//! Tables that are read while a query runs, instead of being in memory.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::scalar::ScalarValue;
use trace_model::{Partition, RecordBatch, TableSource};

use crate::row_order::ASCENDING;

/// Batches that are read ahead of the query.
const AHEAD: usize = 2;

/// A table of a source, or view rows stored in a file.
#[derive(Debug)]
pub(crate) struct ScannedTable {
    source: Arc<dyn TableSource>,
    table: Arc<str>,
    schema: SchemaRef,
    /// Maximum number of streams.
    streams: usize,
    /// Columns by which the rows are sorted, if there is one stream.
    order: Vec<String>,
}

impl ScannedTable {
    pub(crate) fn new(
        source: Arc<dyn TableSource>,
        table: &str,
        schema: SchemaRef,
        streams: usize,
    ) -> Self {
        Self { source, table: table.into(), schema, streams, order: Vec::new() }
    }

    /// The rows are sorted by these columns, ascending, nulls last.
    pub(crate) fn with_sort_order(self, order: &[String]) -> Self {
        Self { order: order.to_vec(), ..self }
    }

    /// Properties of the rows in these streams: their order, if it is known.
    fn equivalences(&self, schema: &SchemaRef, streams: &[Stream]) -> EquivalenceProperties {
        let column = |name: &String| {
            let column = Column::new(name, schema.index_of(name).ok()?);
            Some(PhysicalSortExpr { expr: Arc::new(column), options: ASCENDING })
        };
        // The known order ends at the first column that is not read.
        let order: Vec<_> = self.order.iter().map_while(column).collect();
        let orders = (!order.is_empty() && streams.len() == 1).then_some(order);
        EquivalenceProperties::new_with_orderings(Arc::clone(schema), orders)
    }
}

#[async_trait]
impl TableProvider for ScannedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Partitions of other ranks are not read; their rows would not pass the filter.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match ranks_of(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&columns)?);
        let selected: Vec<BTreeSet<i64>> = filters.iter().filter_map(ranks_of).collect();
        let is_selected = |partition: &Partition| {
            let rank = partition.rank.map(i64::from);
            rank.is_none_or(|rank| selected.iter().all(|ranks| ranks.contains(&rank)))
        };
        let partitions = self.source.partitions(&self.table);
        let partitions = partitions.iter().enumerate().filter(|(_, p)| is_selected(p));
        let rows: Vec<(usize, usize)> = partitions.map(|(at, p)| (at, p.rows)).collect();
        let streams = streams(&rows, self.streams);
        let properties = PlanProperties::new(
            self.equivalences(&schema, &streams),
            Partitioning::UnknownPartitioning(streams.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(Scan {
            source: Arc::clone(&self.source),
            table: Arc::clone(&self.table),
            columns,
            streams,
            properties: Arc::new(properties),
        }))
    }
}

/// The ranks that a filter `rank = 3` or `rank IN (3, 4)` selects; `None` for any other filter.
fn ranks_of(filter: &Expr) -> Option<BTreeSet<i64>> {
    let is_rank = |expr: &Expr| match expr {
        Expr::Column(column) => column.name == "rank",
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Column(c) if c.name == "rank"),
        _ => false,
    };
    let number = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Int32(rank), _) => rank.map(i64::from),
        Expr::Literal(ScalarValue::Int64(rank), _) => *rank,
        _ => None,
    };
    match filter {
        Expr::InList(list) if !list.negated && is_rank(&list.expr) => {
            list.list.iter().map(number).collect()
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let rank = match (is_rank(left), is_rank(right)) {
                (true, false) => number(right),
                (false, true) => number(left),
                _ => None,
            };
            rank.map(|rank| BTreeSet::from([rank]))
        }
        // Short lists are written out.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (mut ranks, more) = (ranks_of(left)?, ranks_of(right)?);
            ranks.extend(more);
            Some(ranks)
        }
        _ => None,
    }
}

/// Partitions that follow each other, and their rows.
#[derive(Debug, Clone, Default)]
struct Stream {
    partitions: Vec<usize>,
    rows: usize,
}

/// Splits partitions into at most `wanted` streams of about the same length, in order.
/// `rows` are those of each partition.
fn streams(rows: &[(usize, usize)], wanted: usize) -> Vec<Stream> {
    let each = rows.iter().map(|(_, rows)| rows).sum::<usize>().div_ceil(wanted.max(1));
    let mut streams = vec![Stream::default()];
    for &(partition, rows) in rows {
        let count = streams.len();
        if let Some(last) = streams.last_mut() {
            if last.rows == 0 || last.rows + rows.div_ceil(2) <= each || count == wanted {
                last.partitions.push(partition);
                last.rows += rows;
            } else {
                streams.push(Stream { partitions: vec![partition], rows });
            }
        }
    }
    streams
}

/// Reads columns of a table.
struct Scan {
    source: Arc<dyn TableSource>,
    table: Arc<str>,
    columns: Vec<usize>,
    streams: Vec<Stream>,
    properties: Arc<PlanProperties>,
}

impl Scan {
    /// Reads partitions in order until the receiver is dropped.
    fn read(
        &self,
        stream: usize,
    ) -> impl FnOnce(&dyn Fn(RecordBatch) -> bool) -> Result<()> + Send + 'static {
        let (source, table) = (Arc::clone(&self.source), Arc::clone(&self.table));
        let (partitions, schema) = (self.streams[stream].partitions.clone(), self.schema());
        // A source gives columns in the order of the table, a query may want them in another.
        let mut columns = self.columns.clone();
        columns.sort_unstable();
        columns.dedup();
        let place = |column| columns.binary_search(column).unwrap_or_default();
        let order: Vec<usize> = self.columns.iter().map(place).collect();
        move |send| {
            for partition in partitions {
                let batches = source.scan(&table, partition, &columns);
                for batch in batches.map_err(DataFusionError::External)? {
                    let batch = batch.map_err(DataFusionError::External)?;
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let columns = order.iter().map(|&at| Arc::clone(batch.column(at))).collect();
                    let schema = Arc::clone(&schema);
                    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
                    if !send(batch) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        }
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.streams.len() {
            return Err(exec_datafusion_err!("{} has no stream {partition}", self.table));
        }
        let read = self.read(partition);
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema(), AHEAD);
        let to = stream.tx();
        stream.spawn_blocking(move || read(&|batch| to.blocking_send(Ok(batch)).is_ok()));
        Ok(stream.build())
    }

    /// Joins are planned by row count: the smaller side is held in memory.
    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition() {
            Some(stream) => self.streams.get(stream).map_or(0, |stream| stream.rows),
            None => self.streams.iter().map(|stream| stream.rows).sum(),
        };
        let unknown = Statistics::new_unknown(&self.schema());
        // A selection leaves some out.
        Ok(Arc::new(Statistics { num_rows: Precision::Inexact(rows), ..unknown }))
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan: {}, streams={}", self.table, self.streams.len())
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::streams;

    #[test]
    fn streams_keep_the_order_and_leave_nothing_out() {
        for (rows, wanted) in [
            (vec![], 4),
            (vec![10], 4),
            (vec![1; 100], 4),
            (vec![1000, 1, 1, 1], 2),
            (vec![1, 1, 1, 1000], 2),
            (vec![5, 0, 7, 3, 9], 3),
        ] {
            let numbered: Vec<(usize, usize)> = rows.iter().copied().enumerate().collect();
            let made = streams(&numbered, wanted);
            let partitions: Vec<usize> = made.iter().flat_map(|s| s.partitions.clone()).collect();
            assert_eq!(partitions, (0..rows.len()).collect::<Vec<_>>());
            assert!(!made.is_empty() && made.len() <= wanted, "{rows:?}");
            for stream in &made {
                assert_eq!(stream.rows, stream.partitions.iter().map(|&p| rows[p]).sum::<usize>());
            }
        }
        let even: Vec<(usize, usize)> = (0..100).map(|partition| (partition, 1)).collect();
        let even: Vec<usize> = streams(&even, 4).iter().map(|s| s.rows).collect();
        assert_eq!(even, [25, 25, 25, 25]);
    }
}
