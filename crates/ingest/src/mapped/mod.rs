//! Mapped runs: timelines that workers converted to Parquet, together with the rows of views that look at each rank on its
//! own. The run is put together from them without reading its timelines again.
//!
//! ```text
//! DIR/group-<key>/group.json              what the group holds; written last
//! DIR/group-<key>/ranks.parquet           the row of `ranks` of each trace
//! DIR/group-<key>/tables/<table>.parquet  rows of a table, each trace of the group in row groups of its own
//! DIR/group-<key>/views/<view>.parquet    rows of a view, of all traces of the group
//! ```
//!
//! The clock of each trace starts with its first event, because the zero of the run's clock is known only when all ranks
//! are read: [`MappedRun`] shifts times when it reads them. The key is derived from the names, lengths and versions of the
//! files, from the program and from its views. So workers that map the same traces write the same group, and only the first
//! one counts; a group without its manifest does not exist.

mod export;
mod manifest;
mod read;
mod shard;
mod timelines;
mod write;

pub use export::export_mapped;
pub use read::MappedRun;
pub use shard::Shard;
pub use write::{MapSummary, Mapper, TraceGroup, ViewRows};
