//! Options for opening a run.

use std::path::PathBuf;
use std::sync::Arc;

use query::{Params, Selection, ViewProgress};
use trace_model::command_line::CommandOptions;

/// Options for opening a run.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Options for reading files.
    pub ingest: ingest::Options,
    /// Values of view parameters.
    pub params: Params,
    /// Part of the run to load.
    pub selection: Selection,
    /// The only query or view that the run is opened for, if known. A run that is stored as tables (an export, or
    /// a cached run) then loads only the tables that it may read; the other tables have no rows. Has no effect
    /// with a selection.
    pub query_hint: Option<String>,
    /// Views that are read after the rules are evaluated: their rows are computed once and kept.
    pub later_views: &'static [&'static str],
    /// Limit on the memory of tables and queries in bytes, see [`query::Session::open`]; no limit by
    /// default. A run that may need more is computed a few ranks at a time, from an export. A run that is not an
    /// export is exported first, to the cache or to a temporary directory that is removed with the
    /// [`Run`](crate::Run).
    pub memory_bytes: Option<u64>,
    /// Where the ranks of the run were mapped to, a folder or the address of one; see [`map`](crate::map()). Their traces are
    /// then not read. Nothing is cached.
    pub mapped: Option<PathBuf>,
    /// Duration of a step without the profiler, if it is known: predictions then start from it. By default, the time that the recorder measured, else an estimate.
    pub step_time_ns: Option<i64>,
    /// The options of the command line that correspond to these, if there is one: commands in advice repeat them.
    pub command_options: CommandOptions,
    /// Cache for answers and tables; none by default.
    pub cache: Option<ingest::Cache>,
    /// Receiver of the progress of computing views; none by default.
    pub view_progress: Option<Arc<dyn ViewProgress>>,
}
