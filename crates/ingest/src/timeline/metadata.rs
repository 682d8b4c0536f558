//! Properties of the process and the machine in a recording.

use trace_model::Capabilities;

/// Properties of the process and the machine that a timeline was recorded from.
#[derive(Debug, Default, Clone)]
pub(crate) struct Metadata {
    /// Rank, and the entry that states it.
    pub(crate) rank: Option<(i32, &'static str)>,
    pub(crate) world_size: Option<i32>,
    pub(crate) backend: Option<String>,
    pub(crate) host: Option<String>,
    /// Absolute time, in ns since 1970, of a time of zero.
    pub(crate) base_time_ns: Option<i64>,
    pub(crate) devices: Vec<DeviceProperties>,
    pub(crate) processor: Option<ProcessorProperties>,
    pub(crate) unprofiled_steps: Option<UnprofiledStepTimes>,
    /// The kinds of data that options of the profiler recorded, if there was any.
    pub(crate) recorded: Capabilities,
    /// Keys whose values could not be read.
    pub(crate) unreadable: Vec<String>,
}

/// Properties of an accelerator.
#[derive(Debug, Default, Clone)]
pub(crate) struct DeviceProperties {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) total_memory_bytes: Option<i64>,
    pub(crate) compute_major: Option<i32>,
    pub(crate) compute_minor: Option<i32>,
    pub(crate) sm_count: Option<i32>,
    pub(crate) warp_size: Option<i32>,
    pub(crate) max_threads_per_sm: Option<i32>,
}

/// The steps that were timed before the profiler started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnprofiledStepTimes {
    pub(crate) count: i32,
    pub(crate) mean_ns: i64,
}

/// Properties of the processor that runs the process.
#[derive(Debug, Default, Clone)]
pub(crate) struct ProcessorProperties {
    pub(crate) name: Option<String>,
    /// Cores that the process may use.
    pub(crate) core_count: Option<i32>,
    /// Threads that an operator uses.
    pub(crate) thread_count: Option<i32>,
    /// Names of instruction sets, separated by spaces; `None` if they are not known.
    pub(crate) flags: Option<String>,
}
