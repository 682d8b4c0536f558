//! The records of the simulation: one per trace event, before it becomes JSON.

use std::fmt;

use super::model::Kernel;

/// Host threads of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// The training loop.
    Main,
    /// The autograd engine's worker.
    Autograd,
}

/// Name of a host event, formatted only when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Plain(&'static str),
    Step(u32),
    /// `autograd::engine::evaluate_function: <node>`.
    Evaluate(&'static str),
    /// `nn.Module: <class>_<n>`.
    Module(&'static str, u32),
    /// `FSDP::<call> (layers.<n>)`.
    Sharding(&'static str, u32),
    /// `PP:<stage>F<microbatch>`: a pass of a pipeline.
    Pass {
        stage: u32,
        letter: char,
        microbatch: u32,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(name) => f.write_str(name),
            Self::Step(n) => write!(f, "ProfilerStep#{n}"),
            Self::Evaluate(node) => write!(f, "autograd::engine::evaluate_function: {node}"),
            Self::Module(class, n) => write!(f, "nn.Module: {class}_{n}"),
            Self::Sharding(call, layer) => write!(f, "FSDP::{call} (layers.{layer})"),
            Self::Pass { stage, letter, microbatch } => write!(f, "PP:{stage}{letter}{microbatch}"),
        }
    }
}

/// CUDA calls, with CUPTI's callback ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    LaunchKernel,
    LaunchKernelExC,
    MemcpyAsync,
    StreamSynchronize,
    DeviceSynchronize,
    EventRecord,
    EventSynchronize,
    StreamWaitEvent,
}

impl Call {
    /// Name and callback id.
    pub(super) fn describe(self) -> (&'static str, u32) {
        match self {
            Self::LaunchKernel => ("cudaLaunchKernel", 211),
            Self::LaunchKernelExC => ("cudaLaunchKernelExC", 430),
            Self::MemcpyAsync => ("cudaMemcpyAsync", 41),
            Self::StreamSynchronize => ("cudaStreamSynchronize", 131),
            Self::DeviceSynchronize => ("cudaDeviceSynchronize", 165),
            Self::EventRecord => ("cudaEventRecord", 135),
            Self::EventSynchronize => ("cudaEventSynchronize", 137),
            Self::StreamWaitEvent => ("cudaStreamWaitEvent", 147),
        }
    }
}

/// The kind of a host event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostKind {
    Operator,
    Annotation,
    /// `record_param_comms` of an exchange.
    Exchange(Exchange),
}

/// An exchange between ranks, with numbers of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// A message to a rank.
    Send(u32),
    /// A message from a rank.
    Receive(u32),
    AllReduce(u64),
    /// Each rank contributes this many.
    AllGather(u64),
    /// Each rank gets this many.
    ReduceScatter(u64),
    AllToAll {
        sent: u64,
        received: u64,
    },
    /// Any of these in a group of its own.
    Mesh(MeshExchange),
}

/// A collective of a process group that not all ranks belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeshExchange {
    pub(super) name: &'static str,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) group: MeshGroup,
    /// Number within the group.
    pub(super) sequence: u32,
}

/// The groups of a rank, see `faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeshGroup {
    /// Shards the model.
    Shard,
    /// Has the same shard.
    Replicate,
}

/// One trace event. Times are nanoseconds on the clock all ranks share.
#[derive(Debug, Clone)]
pub(super) enum Record<'m> {
    Host {
        kind: HostKind,
        thread: Thread,
        name: Name,
        args: &'m str,
        /// Sequence number of the forward call in autograd.
        sequence: Option<u64>,
        external: u64,
        ts: i64,
        end: i64,
    },
    /// One end of a forward-to-backward arrow.
    Gradient {
        start: bool,
        thread: Thread,
        id: u64,
        ts: i64,
    },
    Memory {
        thread: Thread,
        ts: i64,
        bytes: i64,
        address: i64,
        allocated: i64,
    },
    Python {
        thread: Thread,
        name: Name,
        id: u64,
        parent: u64,
        ts: i64,
        end: i64,
    },
    Runtime {
        call: Call,
        thread: Thread,
        ts: i64,
        end: i64,
        external: u64,
        correlation: u64,
        launches: bool,
    },
    Kernel {
        kernel: &'m Kernel,
        stream: u32,
        ts: i64,
        dur: i64,
        external: u64,
        correlation: u64,
        exchange: Option<Exchange>,
    },
    Copy {
        to_device: bool,
        ts: i64,
        dur: i64,
        bytes: i64,
        external: u64,
        correlation: u64,
    },
    DeviceAnnotation {
        name: Name,
        stream: u32,
        ts: i64,
        dur: i64,
        external: u64,
    },
}

impl Record<'_> {
    /// Sets the end of a host event or a Python frame.
    pub(super) fn close(&mut self, at: i64) {
        match self {
            Self::Host { end, .. } | Self::Python { end, .. } => *end = at,
            _ => {}
        }
    }
}
