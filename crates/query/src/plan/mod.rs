//! Planning: names that queries mention, limits on their text and on their plans, queries without rows, shared common table
//! expressions, patterns over dictionaries, walks over syntax trees, and the optimizer rules in use.

pub(crate) mod empty_queries;
pub(crate) mod match_dictionaries;
pub(crate) mod optimizer;
pub(crate) mod plan_limits;
pub(crate) mod query_limits;
pub(crate) mod references;
pub(crate) mod shared_ctes;
#[cfg(test)]
mod tests;
pub(crate) mod visit;
