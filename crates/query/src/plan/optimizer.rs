//! How views are planned. Their SQL is ours and hundreds of queries are asked of every run, most over a few
//! thousand rows: what an optimizer does to find its way in strange queries costs more than it gains. So views
//! get the rules that their SQL needs, once, and one pass of our own in place of DataFusion's search for
//! orders and partitions. What users ask keeps all of DataFusion's rules.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::{Distribution, LexOrdering};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::in_order::{MergeInOrder, merged};
use crate::whole::whole;

/// Rules that no view needs: for forms of SQL that views do not use, and rewrites that make little difference
/// over tables in memory.
const NOT_FOR_VIEWS: [&str; 15] = [
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "eliminate_join",
    "decorrelate_lateral_join",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_limit",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "eliminate_group_by_constant",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
    "propagate_empty_relation",
    "common_sub_expression_eliminate",
];

/// Physical rules that plans of one stream need besides [`OneStream`]. That a plan is sound is looked at where tests run,
/// which plan every view.
const PHYSICAL: &[&str] = if cfg!(debug_assertions) {
    &["CombinePartialFinalAggregate", "SanityCheckPlan"]
} else {
    &["CombinePartialFinalAggregate"]
};

/// `full` with what views need only. Where all is in memory, views run side by side rather than split over cores, and
/// operators work on all of their rows.
pub(crate) fn for_views(full: &SessionState, is_in_memory: bool) -> SessionState {
    let rules = full.optimizers().iter().filter(|r| !NOT_FOR_VIEWS.contains(&r.name())).cloned();
    let mut config = full.config().clone();
    config.options_mut().optimizer.max_passes = 1;
    if is_in_memory {
        config.options_mut().execution.target_partitions = 1;
    }
    let is_split = config.target_partitions() > 1;
    let builder = SessionStateBuilder::new_from_existing(full.clone())
        .with_config(config)
        .with_optimizer_rules(rules.collect());
    if is_split {
        return builder.build();
    }
    builder.with_physical_optimizer_rules(one_stream(full, is_in_memory)).build()
}

/// For a query of which a join passed the limit of memory: hash tables stay in memory, sorted rows may go to disk. In
/// one stream, since what waits to be divided among several does not go there either.
pub(crate) fn with_sorted_joins(state: &SessionState) -> SessionState {
    // The planner joins like that where there are several streams only. Merging what was spilled takes a batch of each
    // piece, and must begin while the other side holds all it can.
    let config = state
        .config()
        .clone()
        .with_target_partitions(2)
        .with_batch_size(4096)
        .with_sort_spill_reservation_bytes(1 << 20)
        .set_bool("datafusion.optimizer.prefer_hash_join", false);
    SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_physical_optimizer_rules(one_stream(state, false))
        .build()
}

/// `full` for what users ask of tables in memory: in one stream, so that the same query gives the same rows in the same
/// order each time.
pub(crate) fn in_order(full: &SessionState) -> SessionState {
    let config = full.config().clone().with_target_partitions(1);
    SessionStateBuilder::new_from_existing(full.clone())
        .with_config(config)
        .with_physical_optimizer_rule(Arc::new(MergeInOrder))
        .build()
}

fn one_stream(
    state: &SessionState,
    is_in_memory: bool,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(OneStream { is_in_memory })];
    let kept = state.physical_optimizers().iter().filter(|r| PHYSICAL.contains(&r.name()));
    rules.extend(kept.cloned());
    rules
}

/// Makes a plan for one core executable, from its leaves up: merges streams and sorts where an operator asks for
/// it, and builds hash tables of the side that is likely to be shorter.
#[derive(Debug)]
struct OneStream {
    is_in_memory: bool,
}

impl PhysicalOptimizerRule for OneStream {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(merged(self.settle(plan)?.0))
    }

    fn name(&self) -> &'static str {
        "one_stream"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl OneStream {
    /// The plan, executable, and how many rows it may give.
    fn settle(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, f64)> {
        let mut children = Vec::with_capacity(plan.children().len());
        let mut rows = Vec::with_capacity(plan.children().len());
        for child in plan.children() {
            let (child, count) = self.settle(Arc::clone(child))?;
            children.push(child);
            rows.push(count);
        }
        let estimate = estimate(plan.as_ref(), &rows)?;
        let wants = plan.input_distribution_requirements().into_per_child();
        let orders = plan.required_input_ordering();
        let swaps = plan.downcast_ref::<HashJoinExec>().is_some_and(|join| {
            join.join_type().supports_swap() && !join.null_aware && rows[0] > rows[1]
        });
        for (i, (wanted, order)) in wants.into_iter().zip(orders).enumerate() {
            if swaps || !matches!(wanted, Distribution::UnspecifiedDistribution) {
                children[i] = merged(Arc::clone(&children[i]));
            }
            let Some(order) = order.map(|order| order.first().clone()) else { continue };
            if !children[i].equivalence_properties().ordering_satisfy_requirement(order.clone())? {
                let child = Arc::clone(&children[i]);
                let is_split = child.output_partitioning().partition_count() > 1;
                let sort = SortExec::new(LexOrdering::from(order), child);
                children[i] = self.whole(Arc::new(sort.with_preserve_partitioning(is_split)));
            }
        }
        let plan = replace_children_if_necessary(plan, children)?;
        if let Some(sort) = plan.downcast_ref::<SortExec>()
            && sort.fetch().is_none()
            && sort.input().equivalence_properties().ordering_satisfy(sort.expr().clone())?
        {
            return Ok((Arc::clone(sort.input()), estimate));
        }
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if swaps => Ok((join.swap_inputs(PartitionMode::CollectLeft)?, estimate)),
            _ => Ok((self.whole(plan), estimate)),
        }
    }

    /// What stands in for an operator that may have all of its rows at once.
    fn whole(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        if self.is_in_memory { whole(plan) } else { plan }
    }
}

/// Rows that `plan` may give if its inputs give `rows`: a guess, good enough to tell long from short.
fn estimate(plan: &dyn ExecutionPlan, rows: &[f64]) -> Result<f64> {
    if rows.is_empty() {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new())?;
        return Ok(statistics.num_rows.get_value().map_or(1.0, |&rows| rows as f64));
    }
    let sum: f64 = rows.iter().sum();
    let longest = rows.iter().copied().fold(0.0, f64::max);
    Ok(if plan.downcast_ref::<FilterExec>().is_some() {
        sum / 5.0
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        if aggregate.group_expr().is_empty() { 1.0 } else { sum / 2.0 }
    } else if plan.downcast_ref::<HashJoinExec>().is_some() {
        longest
    } else if plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
    {
        rows.iter().product()
    } else {
        plan.fetch().map_or(sum, |fetch| sum.min(fetch as f64))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::catalog::MemorySchemaProvider;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::displayable;

    use super::*;
    use crate::schema::run;
    use crate::session::context;

    /// Its hash table takes some 60 MB.
    const JOIN: &str = "SELECT count(*) FROM (SELECT unnest(range(0, 2000000)) AS i) a
        JOIN (SELECT unnest(range(0, 2000000)) AS i) b ON a.i = b.i WHERE a.i % 3 <> b.i % 2 + 7";

    fn state(memory_bytes: usize) -> SessionState {
        let builder = RuntimeEnvBuilder::new().with_memory_limit(memory_bytes, 1.0);
        let schema = Arc::new(MemorySchemaProvider::new());
        context(1, builder.build_arc().unwrap(), schema).unwrap().state()
    }

    #[test]
    fn a_join_that_does_not_fit_sorts_both_sides() {
        let answer = async {
            let state = state(32 << 20);
            let plan = state.create_logical_plan(JOIN).await.unwrap();
            let text =
                |plan: Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(false).to_string();
            let hashed = text(state.create_physical_plan(&plan).await.unwrap());
            assert!(hashed.contains("HashJoinExec"), "{hashed}");
            let sorted = with_sorted_joins(&state).create_physical_plan(&plan).await.unwrap();
            let sorted = text(sorted);
            assert!(sorted.contains("SortMergeJoin") && !sorted.contains("HashJoin"), "{sorted}");
            run(&state, plan, &mut Duration::default()).await.unwrap()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let rows = runtime.block_on(runtime.spawn(answer)).unwrap();
        assert_eq!(rows.batches[0].column(0).as_primitive::<Int64Type>().value(0), 2_000_000);
    }
}
