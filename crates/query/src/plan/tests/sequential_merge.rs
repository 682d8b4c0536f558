use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::catalog::MemorySchemaProvider;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::displayable;

use crate::context::session_context;
use crate::execution::collect_rows;
use crate::plan::optimizer::user_session_state;
use crate::storage::TableStorage;

/// One partition per branch; the first takes longest.
const BRANCHES: &str =
    "SELECT count(*) AS n FROM (SELECT unnest(range(0, 200000)) AS i) WHERE i % 2 = 0
    UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4";

fn state() -> SessionState {
    let full =
        session_context(4, Arc::new(RuntimeEnv::default()), Arc::new(MemorySchemaProvider::new()));
    user_session_state(full.unwrap().state(), TableStorage::Memory)
}

fn answer(query: &str) -> Vec<i64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let query = query.to_owned();
    let rows = async move {
        let state = state();
        let plan = state.create_logical_plan(&query).await.unwrap();
        let physical = state.create_physical_plan(&plan).await.unwrap();
        let text = displayable(physical.as_ref()).indent(false).to_string();
        assert!(text.contains("SequentialMergeExec") && !text.contains("Coalesce"), "{text}");
        collect_rows(&state, &plan, &mut Duration::default()).await.unwrap()
    };
    let rows = runtime.block_on(rows);
    let of = |batch: &_| -> Vec<i64> {
        let batch: &trace_model::RecordBatch = batch;
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    rows.batches.iter().flat_map(of).collect()
}

#[test]
fn partitions_come_one_after_the_other() {
    assert_eq!(answer(BRANCHES), [100_000, 2, 3, 4]);
}

#[test]
fn a_limit_takes_the_first_rows() {
    assert_eq!(answer(&format!("SELECT n FROM ({BRANCHES}) LIMIT 2")), [100_000, 2]);
}

#[test]
fn aggregates_get_rows_in_order() {
    assert_eq!(answer(&format!("SELECT last_value(n) FROM ({BRANCHES})")), [4]);
}
