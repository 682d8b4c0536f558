//! The causes of idle time, and their names in the view.

use trace_model::vocabulary::is_collective_range;

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
    FirstLaunch,
    DataLoading,
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
            Self::FirstLaunch => "first_launch",
            Self::DataLoading => "data_loading",
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

    /// The side that is late.
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
            Self::FirstLaunch => "warmup",
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

/// Returns whether an operator that runs on the CPU computes something there: operators that only make views or take
/// memory, autograd's own nodes, and communication do not.
pub(super) fn can_compute(operator: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "aten::empty",
        "aten::resize_",
        "aten::set_",
        "aten::_foreach_",
        "aten::view",
        "aten::as_strided",
        "autograd::",
        "profiler::",
        "c10d",
        "_c10d",
    ];
    operator.contains("::")
        && !is_collective_range(operator)
        && !OTHERS.iter().any(|prefix| operator.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{CaptureCall, IdleCause, can_compute};

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
    fn can_compute_leaves_out_what_only_prepares() {
        for name in ["aten::copy_", "aten::max", "torchvision::nms", "aten::_fused_adam_"] {
            assert!(can_compute(name), "{name}");
        }
        for name in [
            "aten::empty_strided",
            "autograd::engine::evaluate_function: MulBackward0",
            "c10d::barrier",
            "forward",
        ] {
            assert!(!can_compute(name), "{name}");
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
        assert!(
            IdleCause::LaunchApi > IdleCause::CpuCompute
                && IdleCause::CpuCompute > IdleCause::OpDispatch
                && IdleCause::OpDispatch > IdleCause::Python
        );
    }
}
