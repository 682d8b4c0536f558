//! The causes of idle time, and their names in the view.

/// Cause of an idle interval of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum IdleCause {
    // States of a host thread, in ascending priority: of two that overlap, the later one counts.
    Python,
    OpDispatch,
    CpuCompute,
    LaunchApi,
    CopyApi,
    Allocation,
    Synchronization,
    Startup,
    FirstLaunch,
    DataLoading,
    Compiling,
    Profiler,
    StreamCapture,
    // Not states of a thread.
    LaunchLatency,
    Dependency,
    OtherStream,
    Collective,
    Unlinked,
    GraphReplay,
    UnrecordedWork,
    RecordingEnd,
    NoHostEvents,
}

impl IdleCause {
    /// Value of the column `cause`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::OpDispatch => "op_dispatch",
            Self::CpuCompute => "cpu_compute",
            Self::LaunchApi => "launch_api",
            Self::CopyApi => "copy_api",
            Self::Allocation => "allocation",
            Self::Synchronization => "synchronization",
            Self::Startup => "startup",
            Self::FirstLaunch => "first_launch",
            Self::DataLoading => "data_loading",
            Self::Compiling => "compiling",
            Self::Profiler => "profiler",
            Self::StreamCapture => "stream_capture",
            Self::LaunchLatency => "launch_latency",
            Self::Dependency => "dependency",
            Self::OtherStream => "other_stream",
            Self::Collective => "collective",
            Self::Unlinked => "unlinked",
            Self::GraphReplay => "graph_replay",
            Self::UnrecordedWork => "unrecorded_work",
            Self::RecordingEnd => "recording_end",
            Self::NoHostEvents => "no_host_events",
        }
    }

    /// The side that is late. Compiling recurs in some programs: see [`Self::side_in_step`].
    pub(super) fn side(self) -> &'static str {
        match self {
            Self::Python
            | Self::OpDispatch
            | Self::CpuCompute
            | Self::LaunchApi
            | Self::CopyApi
            | Self::Allocation
            | Self::Synchronization
            | Self::DataLoading => "host",
            Self::Startup | Self::FirstLaunch | Self::Compiling | Self::Profiler => "warmup",
            Self::LaunchLatency => "launch",
            Self::Dependency | Self::OtherStream | Self::Collective => "device",
            Self::StreamCapture
            | Self::Unlinked
            | Self::GraphReplay
            | Self::UnrecordedWork
            | Self::RecordingEnd
            | Self::NoHostEvents => "unknown",
        }
    }

    /// The side that is late, in the first step or in a later one. Compiling in a later step is not warm-up.
    pub(super) fn side_in_step(self, is_later: bool) -> &'static str {
        if is_later && self == Self::Compiling { "host" } else { self.side() }
    }

    /// The cause that a value of the column `kind` of `host_warmups` stands for.
    pub(super) fn of_warmup(kind: &str) -> Option<Self> {
        [Self::Startup, Self::FirstLaunch, Self::Compiling, Self::Profiler]
            .into_iter()
            .find(|cause| cause.as_str() == kind)
    }

    /// Returns whether a wait for the device explains idle time that would have this cause without the wait.
    pub(super) fn yields_to_wait(self) -> bool {
        matches!(
            self,
            Self::Python
                | Self::OpDispatch
                | Self::LaunchApi
                | Self::CopyApi
                | Self::Allocation
                | Self::Synchronization
                | Self::LaunchLatency
        )
    }

    /// Returns whether idle time has this cause even if no activity follows on the device.
    pub(super) fn needs_no_successor(self) -> bool {
        matches!(self, Self::CpuCompute | Self::DataLoading)
            || (self.side() == "unknown" && self != Self::UnrecordedWork)
    }

    /// Classifies a runtime or driver call by name. Waits come from `host_waits`, allocations from
    /// `memory_driver_calls`.
    pub(super) fn of_runtime_call(name: &str) -> Self {
        let copies = ["Memcpy", "Memset"].iter().any(|part| name.contains(part));
        if copies { Self::CopyApi } else { Self::LaunchApi }
    }
}

/// Returns whether a call replays a captured graph.
pub(super) fn is_graph_launch(name: &str) -> bool {
    name.contains("GraphLaunch")
}

/// The part of a call in capturing a stream into a graph. What is launched during a capture does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureCall {
    Begin,
    End,
    /// Builds an executable graph from what was captured.
    Instantiate,
}

impl CaptureCall {
    pub(super) fn of_runtime_call(name: &str) -> Option<Self> {
        [
            ("StreamBeginCapture", Self::Begin),
            ("StreamEndCapture", Self::End),
            ("GraphInstantiate", Self::Instantiate),
        ]
        .into_iter()
        .find_map(|(part, call)| name.contains(part).then_some(call))
    }
}

#[cfg(test)]
mod tests {
    use super::{CaptureCall, IdleCause};

    #[test]
    fn of_runtime_call_finds_the_calls_of_a_capture() {
        for (name, call) in [
            ("hipStreamBeginCapture", Some(CaptureCall::Begin)),
            ("cudaStreamEndCapture_v10000", Some(CaptureCall::End)),
            ("cudaGraphInstantiateWithFlags", Some(CaptureCall::Instantiate)),
            ("hipStreamGetCaptureInfo", None),
            ("cudaGraphLaunch", None),
        ] {
            assert_eq!(CaptureCall::of_runtime_call(name), call, "{name}");
        }
    }

    #[test]
    fn of_runtime_call_distinguishes_copies_and_launches() {
        for (name, cause) in [
            ("cudaLaunchKernel", IdleCause::LaunchApi),
            ("hipGraphLaunch", IdleCause::LaunchApi),
            ("cudaMemcpyAsync", IdleCause::CopyApi),
            ("hipMemsetAsync", IdleCause::CopyApi),
            ("cuMemGetInfo", IdleCause::LaunchApi),
            ("cudaFuncGetAttributes", IdleCause::LaunchApi),
        ] {
            assert_eq!(IdleCause::of_runtime_call(name), cause, "{name}");
        }
    }

    #[test]
    fn causes_are_ordered_by_priority() {
        assert!(IdleCause::DataLoading > IdleCause::Synchronization);
        assert!(IdleCause::Synchronization > IdleCause::CopyApi);
        assert!(IdleCause::FirstLaunch > IdleCause::Synchronization);
        assert!(IdleCause::Compiling > IdleCause::FirstLaunch);
        assert!(IdleCause::Profiler > IdleCause::DataLoading);
        assert!(
            IdleCause::LaunchApi > IdleCause::CpuCompute
                && IdleCause::CpuCompute > IdleCause::OpDispatch
                && IdleCause::OpDispatch > IdleCause::Python
        );
    }
}
