//! Planning: names that queries mention, limits on their text, queries without rows, shared common table expressions, and the
//! optimizer rules in use.

pub(crate) mod empty_queries;
pub(crate) mod optimizer;
pub(crate) mod query_limits;
pub(crate) mod references;
pub(crate) mod shared_ctes;
#[cfg(test)]
mod tests;
