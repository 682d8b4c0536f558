//! The causes of idle time, and their names in the view.

/// Cause of an idle interval of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum IdleCause {
    // States of a host thread, in ascending priority: of two that overlap, the later one counts.
    Python,
    OpDispatch,
    LaunchApi,
    CopyApi,
    Allocation,
    Synchronization,
    DataLoading,
    LaunchLatency,
    Dependency,
    OtherStream,
    Collective,
    Unlinked,
    GraphReplay,
    NoHostEvents,
}

impl IdleCause {
    /// Value of the column `cause`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::OpDispatch => "op_dispatch",
            Self::LaunchApi => "launch_api",
            Self::CopyApi => "copy_api",
            Self::Allocation => "allocation",
            Self::Synchronization => "synchronization",
            Self::DataLoading => "data_loading",
            Self::LaunchLatency => "launch_latency",
            Self::Dependency => "dependency",
            Self::OtherStream => "other_stream",
            Self::Collective => "collective",
            Self::Unlinked => "unlinked",
            Self::GraphReplay => "graph_replay",
            Self::NoHostEvents => "no_host_events",
        }
    }

    /// The side that is late.
    pub(super) fn side(self) -> &'static str {
        match self {
            Self::Python
            | Self::OpDispatch
            | Self::LaunchApi
            | Self::CopyApi
            | Self::Allocation
            | Self::Synchronization
            | Self::DataLoading => "host",
            Self::LaunchLatency => "launch",
            Self::Dependency | Self::OtherStream | Self::Collective => "device",
            Self::Unlinked | Self::GraphReplay | Self::NoHostEvents => "unknown",
        }
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

#[cfg(test)]
mod tests {
    use super::IdleCause;

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
        assert!(
            IdleCause::LaunchApi > IdleCause::OpDispatch
                && IdleCause::OpDispatch > IdleCause::Python
        );
    }
}
