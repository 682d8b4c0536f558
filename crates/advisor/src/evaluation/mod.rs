//! Verdicts of rules on the rows of a run, and what follows from them: priorities, baselines, follow-up queries.

pub(crate) mod baseline;
pub(crate) mod baseline_comparison;
pub(crate) mod comparison;
pub mod effects;
pub(crate) mod evaluate;
pub(crate) mod evaluate_rule;
pub(crate) mod firing_rates;
pub(crate) mod follow_up;
pub(crate) mod held_capabilities;
pub(crate) mod prioritize;
pub(crate) mod run_traits;
pub(crate) mod selftest;
pub(crate) mod verdict;
