//! Where the tables of a run are.

/// Where the base tables are. Decides how views over them are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableStorage {
    /// In memory: operators see all rows at once, and shared rows stay in memory.
    Memory,
    /// Streamed while queries run, because they do not fit: shared rows are spilled.
    Streamed,
}
