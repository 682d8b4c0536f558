//! The causes of idle time, and which call of the host is which.

/// Why a device has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Cause {
    // What a thread can be in, weakest first: of two that go on at once, the later one counts.
    Python,
    OpDispatch,
    LaunchApi,
    CopyApi,
    Allocation,
    Synchronisation,
    DataLoading,
    LaunchLatency,
    Dependency,
    OtherStream,
    Collective,
    Unlinked,
    GraphReplay,
    NoHostEvents,
}

impl Cause {
    /// As the column has it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::OpDispatch => "op_dispatch",
            Self::LaunchApi => "launch_api",
            Self::CopyApi => "copy_api",
            Self::Allocation => "allocation",
            Self::Synchronisation => "synchronization",
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

    /// Who is late.
    pub(super) fn side(self) -> &'static str {
        match self {
            Self::Python
            | Self::OpDispatch
            | Self::LaunchApi
            | Self::CopyApi
            | Self::Allocation
            | Self::Synchronisation
            | Self::DataLoading => "host",
            Self::LaunchLatency => "launch",
            Self::Dependency | Self::OtherStream | Self::Collective => "device",
            Self::Unlinked | Self::GraphReplay | Self::NoHostEvents => "unknown",
        }
    }

    /// What a call into the runtime or driver does, but for waiting, which `host_waits` knows, and for taking
    /// memory, which `memory_driver_calls` does.
    pub(super) fn of_call(name: &str) -> Self {
        let copies = ["Memcpy", "Memset"].iter().any(|part| name.contains(part));
        if copies { Self::CopyApi } else { Self::LaunchApi }
    }
}

/// Whether a call replays a captured graph.
pub(super) fn is_graph_launch(name: &str) -> bool {
    name.contains("GraphLaunch")
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn calls_are_told_apart_by_name() {
        for (name, cause) in [
            ("cudaLaunchKernel", Cause::LaunchApi),
            ("hipGraphLaunch", Cause::LaunchApi),
            ("cudaMemcpyAsync", Cause::CopyApi),
            ("hipMemsetAsync", Cause::CopyApi),
            ("cuMemGetInfo", Cause::LaunchApi),
            ("cudaFuncGetAttributes", Cause::LaunchApi),
        ] {
            assert_eq!(Cause::of_call(name), cause, "{name}");
        }
    }

    #[test]
    fn waiting_goes_before_working() {
        assert!(Cause::DataLoading > Cause::Synchronisation);
        assert!(Cause::Synchronisation > Cause::CopyApi);
        assert!(Cause::LaunchApi > Cause::OpDispatch && Cause::OpDispatch > Cause::Python);
    }
}
