//! Optimizer rules and operators against DataFusion's own.

mod match_dictionaries;
mod operators;
mod optimizer;
mod sequential_merge;
