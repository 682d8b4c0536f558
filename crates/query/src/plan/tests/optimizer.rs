use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::catalog::MemorySchemaProvider;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::context::session_context;
use crate::execution::collect_rows;
use crate::plan::optimizer::{DISABLED_LOGICAL_RULES, sorted_join_state};

/// Its hash table takes some 60 MB.
const JOIN: &str = "SELECT count(*) FROM (SELECT unnest(range(0, 2000000)) AS i) a
    JOIN (SELECT unnest(range(0, 2000000)) AS i) b ON a.i = b.i WHERE a.i % 3 <> b.i % 2 + 7";

fn state(memory_bytes: usize) -> SessionState {
    let builder = RuntimeEnvBuilder::new().with_memory_limit(memory_bytes, 1.0);
    let schema = Arc::new(MemorySchemaProvider::new());
    session_context(1, builder.build_arc().unwrap(), schema).unwrap().state()
}

#[test]
fn sorted_join_state_sorts_both_sides_of_a_join_that_does_not_fit() {
    let answer = async {
        let state = state(32 << 20);
        let plan = state.create_logical_plan(JOIN).await.unwrap();
        let text =
            |plan: Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(false).to_string();
        let hashed = text(state.create_physical_plan(&plan).await.unwrap());
        assert!(hashed.contains("HashJoinExec"), "{hashed}");
        let sorted = sorted_join_state(&state).create_physical_plan(&plan).await.unwrap();
        let sorted = text(sorted);
        assert!(sorted.contains("SortMergeJoin") && !sorted.contains("HashJoin"), "{sorted}");
        collect_rows(&state, &plan, &mut Duration::default()).await.unwrap()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let rows = runtime.block_on(runtime.spawn(answer)).unwrap();
    assert_eq!(rows.batches[0].column(0).as_primitive::<Int64Type>().value(0), 2_000_000);
}

/// A rule that DataFusion renames would silently be enabled again.
#[test]
fn disabled_rules_exist_in_datafusion() {
    let state = state(32 << 20);
    let known: Vec<&str> = state.optimizers().iter().map(|rule| rule.name()).collect();
    for rule in DISABLED_LOGICAL_RULES {
        assert!(known.contains(&rule), "{rule} is not among {known:?}");
    }
}
