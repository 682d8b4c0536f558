//! Optimizer rules and operators against DataFusion's own.

mod operators;
mod optimizer;
mod sequential_merge;
