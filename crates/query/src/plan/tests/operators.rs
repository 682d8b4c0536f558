//! The operators give the rows of DataFusion's operators, and are the ones in use.

use std::sync::Arc;

use arrow::array::{
    AsArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;
use trace_model::RecordBatch;

use crate::plan::optimizer::view_session_state;
use crate::storage::TableStorage;

type Row = (i64, i64, Option<i64>, Option<i32>, Option<f64>, Option<u8>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let int = proptest::option::of(prop_oneof![Just(i64::MAX), -9..9_i64]);
    let small = proptest::option::of(-9..9_i32);
    // Their sums are exact: in which order they are added is unspecified.
    let fraction = (-1024..1024).prop_map(|n| f64::from(n) / 1024.0);
    let float = proptest::option::of(prop_oneof![Just(-0.0), Just(2_f64.powi(996)), fraction]);
    let name = proptest::option::of(0..3_u8);
    proptest::collection::vec((0..4_i64, 0..9_i64, int, small, float, name), 0..60)
}

fn table(rows: &[Row]) -> RecordBatch {
    let number: Int64Array = (0..rows.len() as i64).map(Some).collect();
    let rank: Int64Array = rows.iter().map(|r| Some(r.0)).collect();
    let ts: Int64Array = rows.iter().map(|r| Some(r.1)).collect();
    let long: Int64Array = rows.iter().map(|r| r.2).collect();
    let short: Int32Array = rows.iter().map(|r| r.3).collect();
    let float: Float64Array = rows.iter().map(|r| r.4).collect();
    let name: StringArray = rows.iter().map(|r| r.5.map(|n| format!("name {n}"))).collect();
    let label: DictionaryArray<Int32Type> =
        rows.iter().map(|r| r.5.map(|n| ["b", "a", "b b"][n as usize])).collect();
    let flag: BooleanArray = rows.iter().map(|r| r.3.map(|n| n > 0)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("number", Arc::new(number) as _, false),
        ("rank", Arc::new(rank) as _, false),
        ("ts", Arc::new(ts) as _, false),
        ("long", Arc::new(long) as _, true),
        ("short", Arc::new(short) as _, true),
        ("float", Arc::new(float) as _, true),
        ("name", Arc::new(name) as _, true),
        ("label", Arc::new(label) as _, true),
        ("flag", Arc::new(flag) as _, true),
    ])
    .unwrap()
}

/// Rows of a query, and its plan.
struct Answer {
    batches: Vec<RecordBatch>,
    plan: String,
}

impl Answer {
    fn text(&self) -> String {
        pretty_format_batches(&self.batches).unwrap().to_string()
    }
}

/// The answers of our operators and of DataFusion's.
fn both(rows: &[Row], query: &str) -> [Answer; 2] {
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(7);
    let context = SessionContext::new_with_config(config);
    let theirs = context.state();
    let ours = view_session_state(&theirs, TableStorage::Memory);
    context.register_batch("t", table(rows)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    [ours, theirs].map(|state| {
        runtime.block_on(async {
            let plan = state.create_logical_plan(query).await.unwrap();
            let plan = state.create_physical_plan(&plan).await.unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            Answer { batches: collect(plan, state.task_ctx()).await.unwrap(), plan: shown }
        })
    })
}

/// Window functions that are computed here.
const WINDOWS: [&str; 12] = [
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

/// Window functions that are left to DataFusion.
const LEFT: [&str; 8] = [
    "sum(long) OVER (PARTITION BY rank ORDER BY ts)",
    "sum(long) OVER (ORDER BY number ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "sum(short) FILTER (WHERE ts > 3) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "max(float) OVER (PARTITION BY rank)",
    "max(name) OVER (PARTITION BY rank)",
    "lag(short, 1, 7) OVER (ORDER BY number)",
    "lag(short) IGNORE NULLS OVER (ORDER BY number)",
    "ntile(3) OVER (ORDER BY number)",
];

/// Orders that are computed here, in which no two rows are equal.
const ORDERS: [&str; 7] = [
    "float DESC NULLS LAST, number",
    "number DESC",
    "rank, ts DESC, number",
    "long DESC NULLS LAST, short NULLS FIRST, number",
    "name NULLS FIRST, number",
    "label DESC, flag, number",
    "upper(name), flag DESC NULLS LAST, short DESC, number DESC",
];

/// Orders that are left to DataFusion.
const LEFT_ORDERS: [&str; 2] = ["CAST(short AS DECIMAL(9, 2)), number", "number LIMIT 1"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_are_those_of_datafusion(rows in rows()) {
        for window in WINDOWS {
            let [ours, theirs] = both(&rows, &format!("SELECT number, {window} FROM t ORDER BY number"));
            prop_assert!(ours.plan.contains("ColumnarWindowExec"), "{}", window);
            prop_assert_eq!(ours.text(), theirs.text(), "{}", window);
        }
        for order in ORDERS {
            let [ours, theirs] = both(&rows, &format!("SELECT * FROM t ORDER BY {order}"));
            prop_assert!(ours.plan.contains("SortBatchExec"), "{}", order);
            prop_assert_eq!(ours.text(), theirs.text(), "{}", order);
        }
    }

    #[test]
    fn sort_is_stable(rows in rows()) {
        let [ours, _] = both(&rows, "SELECT rank, number FROM t ORDER BY rank");
        let mut expected: Vec<(i64, i64)> = rows.iter().map(|r| r.0).zip(0..).collect();
        expected.sort_by_key(|&(rank, _)| rank);
        let found: Vec<(i64, i64)> = ours.batches.iter().flat_map(|batch| {
            let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
            column(0).into_iter().zip(column(1))
        }).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn unsupported_functions_are_left_to_datafusion() {
    let rows = [(0, 1, Some(1), Some(2), Some(0.5), None), (0, 2, None, None, None, Some(1))];
    for window in LEFT {
        let [ours, theirs] = both(&rows, &format!("SELECT {window} FROM t"));
        assert!(!ours.plan.contains("ColumnarWindowExec"), "{window}");
        assert_eq!(ours.text(), theirs.text(), "{window}");
    }
    for order in LEFT_ORDERS {
        let [ours, theirs] = both(&rows, &format!("SELECT * FROM t ORDER BY {order}"));
        assert!(!ours.plan.contains("SortBatchExec"), "{order}");
        assert_eq!(ours.text(), theirs.text(), "{order}");
    }
}
