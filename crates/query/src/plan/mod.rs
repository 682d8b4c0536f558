//! Planning: names that queries mention, limits on their text, shared common table expressions, and the optimizer rules in use.

pub(crate) mod optimizer;
pub(crate) mod query_limits;
pub(crate) mod references;
pub(crate) mod shared_ctes;
#[cfg(test)]
mod tests;
