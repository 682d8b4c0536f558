//! Optimizer rules for views and for queries of users.
//!
//! `check` plans some hundred queries that we wrote, most over a few thousand rows, so planning would cost more than it
//! gains. Views, and other queries of this program, get one pass of the rules that their SQL needs, and one rule of ours
//! in place of DataFusion's search for orders and partitions: the larger side of a cross join must come second. Queries
//! of users keep all of DataFusion's rules.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::{Distribution, LexOrdering};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::exec::replace_operator;
use crate::exec::sequential_merge::{SequentialMergeRule, single_partition};
use crate::plan::plan_limits::{LimitConstants, LimitExpressions};
use crate::storage::TableStorage;

/// Logical rules that views do without: rules for forms of SQL that views do not use, and rewrites that make little
/// difference over tables in memory. A test checks that DataFusion has rules of these names.
pub(super) const DISABLED_LOGICAL_RULES: [&str; 15] = [
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

/// Physical rules that plans of one partition keep besides [`SinglePartitionRule`]. All builds but the published one check
/// that plans are valid, because tests plan every view.
const KEPT_PHYSICAL_RULES: &[&str] =
    if cfg!(debug_assertions) { &["SanityCheckPlan"] } else { &[] };

/// The state that plans views. Over tables in memory a view is one partition, because views run concurrently, and
/// operators see all of their rows at once.
pub(crate) fn view_session_state(full: &SessionState, storage: TableStorage) -> SessionState {
    let is_enabled = |name: &str| !DISABLED_LOGICAL_RULES.contains(&name);
    let rules = full.optimizers().iter().filter(|rule| is_enabled(rule.name())).cloned();
    let mut config = full.config().clone();
    config.options_mut().optimizer.max_passes = 1;
    if storage == TableStorage::Memory {
        config.options_mut().execution.target_partitions = 1;
    }
    let is_split = config.target_partitions() > 1;
    let builder = SessionStateBuilder::new_from_existing(full.clone())
        .with_config(config)
        .with_optimizer_rules(rules.collect());
    if is_split {
        return builder.build();
    }
    builder.with_physical_optimizer_rules(single_partition_rules(full, storage)).build()
}

/// The state for a query of which a hash join exceeded the memory limit: sorted rows can spill, hash tables cannot. It
/// uses one partition, because rows that wait to be repartitioned cannot spill either.
pub(crate) fn sorted_join_state(state: &SessionState) -> SessionState {
    // The planner uses sort-merge joins only with several partitions. Merging spilled runs takes one batch per run, and
    // must begin while the other side uses all the memory it may.
    let config = state
        .config()
        .clone()
        .with_target_partitions(2)
        .with_batch_size(4096)
        .with_sort_spill_reservation_bytes(1 << 20)
        .set_bool("datafusion.optimizer.prefer_hash_join", false);
    let mut rules = single_partition_rules(state, TableStorage::Streamed);
    let may_be_canceled =
        |name: &str| name == "EnsureCooperative" || name == CancelableJoinRule.name();
    rules.extend(state.physical_optimizers().iter().filter(|r| may_be_canceled(r.name())).cloned());
    SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_physical_optimizer_rules(rules)
        .build()
}

/// The state that plans queries of users. Over tables in memory they run in one partition, so that the same query always
/// gives the same rows in the same order.
pub(crate) fn user_session_state(full: SessionState, storage: TableStorage) -> SessionState {
    let mut config = full.config().clone();
    let mut builder = SessionStateBuilder::new_from_existing(full);
    if storage == TableStorage::Memory {
        config = config.with_target_partitions(1);
        builder = builder.with_physical_optimizer_rule(Arc::new(SequentialMergeRule));
    }
    builder.with_config(config).with_physical_optimizer_rule(Arc::new(CancelableJoinRule)).build()
}

/// Returns the state that plans untrusted queries: the state of user queries, with limits.
pub(crate) fn stranger_session_state(
    user: &SessionState,
    environment: Arc<RuntimeEnv>,
) -> SessionState {
    SessionStateBuilder::new_from_existing(user.clone())
        .with_runtime_env(environment)
        .with_analyzer_rule(Arc::new(LimitExpressions))
        .with_optimizer_rule(Arc::new(LimitConstants))
        .build()
}

fn single_partition_rules(
    state: &SessionState,
    storage: TableStorage,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(SinglePartitionRule { storage })];
    let kept =
        state.physical_optimizers().iter().filter(|r| KEPT_PHYSICAL_RULES.contains(&r.name()));
    rules.extend(kept.cloned());
    rules
}

/// Makes a plan of one partition executable, from its leaves up: merges partitions and sorts where an operator requires
/// it, aggregates in one pass where there is one partition, and builds hash tables from the side that is likely to be
/// smaller.
#[derive(Debug)]
pub(crate) struct SinglePartitionRule {
    pub(crate) storage: TableStorage,
}

impl PhysicalOptimizerRule for SinglePartitionRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(single_partition(self.enforce_requirements(plan)?.0))
    }

    fn name(&self) -> &'static str {
        "single_partition"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Lets queries be canceled in the middle of a join. A query ends where it gives way to others, which it does at each
/// batch that it reads, but a join may return millions of batches for one that it has read.
#[derive(Debug)]
struct CancelableJoinRule;

impl PhysicalOptimizerRule for CancelableJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let gives_way = |plan: Arc<dyn ExecutionPlan>| {
            let is_join = plan.downcast_ref::<CrossJoinExec>().is_some()
                || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
                || plan.downcast_ref::<HashJoinExec>().is_some();
            Ok(if is_join {
                Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _)
            } else {
                Transformed::no(plan)
            })
        };
        Ok(plan.transform_up(gives_way)?.data)
    }

    fn name(&self) -> &'static str {
        "cancelable_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl SinglePartitionRule {
    /// The executable plan, and an estimate of its number of rows.
    fn enforce_requirements(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, f64)> {
        let mut children = Vec::with_capacity(plan.children().len());
        let mut rows = Vec::with_capacity(plan.children().len());
        for child in plan.children() {
            let (child, count) = self.enforce_requirements(Arc::clone(child))?;
            children.push(child);
            rows.push(count);
        }
        self.enforce_on_operator(plan, children, &rows)
    }

    /// As `enforce_requirements`, given the executable children and the estimates of their rows.
    pub(crate) fn enforce_on_operator(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        rows: &[f64],
    ) -> Result<(Arc<dyn ExecutionPlan>, f64)> {
        let estimate = estimate(plan.as_ref(), rows)?;
        let wants = plan.input_distribution_requirements().into_per_child();
        let orders = plan.required_input_ordering();
        let swaps = plan.downcast_ref::<HashJoinExec>().is_some_and(|join| {
            join.join_type().supports_swap() && !join.null_aware && rows[0] > rows[1]
        });
        for (i, (wanted, order)) in wants.into_iter().zip(orders).enumerate() {
            if swaps || !matches!(wanted, Distribution::UnspecifiedDistribution) {
                children[i] = single_partition(Arc::clone(&children[i]));
            }
            let Some(order) = order.map(|order| order.first().clone()) else { continue };
            if !children[i].equivalence_properties().ordering_satisfy_requirement(order.clone())? {
                let child = Arc::clone(&children[i]);
                let is_split = child.output_partitioning().partition_count() > 1;
                let sort = SortExec::new(LexOrdering::from(order), child);
                children[i] =
                    self.replace_operator(Arc::new(sort.with_preserve_partitioning(is_split)));
            }
        }
        if let Some(aggregate) = in_one_pass(plan.as_ref(), &children)? {
            return Ok((aggregate, estimate));
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
            _ => Ok((self.replace_operator(plan), estimate)),
        }
    }

    /// Replaces an operator by one that works on its whole input, where the input is in memory.
    fn replace_operator(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match self.storage {
            TableStorage::Memory => replace_operator(plan),
            TableStorage::Streamed => plan,
        }
    }
}

/// A plan whose aggregates take one pass where their input is one partition, however many rows it has.
pub(crate) fn aggregate_once(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let aggregate_once = |plan: Arc<dyn ExecutionPlan>| {
        let children: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
        let are_whole =
            children.iter().all(|child| child.output_partitioning().partition_count() == 1);
        let aggregate = if are_whole { in_one_pass(plan.as_ref(), &children)? } else { None };
        Ok(aggregate.map_or_else(|| Transformed::no(plan), Transformed::yes))
    };
    Ok(plan.transform_up(aggregate_once)?.data)
}

/// The planner aggregates each partition and then their results. Over one partition, one pass does both.
fn in_one_pass(
    plan: &dyn ExecutionPlan,
    children: &[Arc<dyn ExecutionPlan>],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (Some(last), [child]) = (plan.downcast_ref::<AggregateExec>(), children) else {
        return Ok(None);
    };
    let Some(first) = child.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let mode = match last.mode() {
        AggregateMode::Final => AggregateMode::Single,
        AggregateMode::FinalPartitioned => AggregateMode::SinglePartitioned,
        _ => return Ok(None),
    };
    if *first.mode() != AggregateMode::Partial
        || !first.group_expr().is_single()
        || last.aggr_expr() != first.aggr_expr()
    {
        return Ok(None);
    }
    let aggregate = AggregateExec::try_new(
        mode,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::clone(first.input()),
        first.input_schema(),
    )?;
    Ok(Some(Arc::new(aggregate.with_limit_options(last.limit_options()))))
}

/// Estimated rows of `plan`, given those of its inputs: a guess that is good enough to tell large inputs from small ones.
pub(crate) fn estimate(plan: &dyn ExecutionPlan, rows: &[f64]) -> Result<f64> {
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
