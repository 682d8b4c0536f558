//! Messages that occur a few times per trace, with only the fields that are used. Events, of which a trace has millions, are
//! instead read from the wire format without copies.
//!
//! Texts are bytes, because writers do not check that they are UTF-8.

use prost::Message;

/// Interned data of a sequence: events refer to it by `iid`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<InternedText>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedText>,
    #[prost(message, repeated, tag = "3")]
    pub(super) annotation_names: Vec<InternedText>,
    #[prost(message, repeated, tag = "24")]
    pub(super) gpu_specifications: Vec<GpuSpecification>,
    #[prost(message, repeated, tag = "29")]
    pub(super) annotation_strings: Vec<InternedText>,
    #[prost(message, repeated, tag = "47")]
    pub(super) gpu_counters: Vec<InternedGpuCounters>,
    #[prost(message, repeated, tag = "1000")]
    pub(super) kernels: Vec<InternedKernel>,
    #[prost(message, repeated, tag = "1001")]
    pub(super) kernel_arg_names: Vec<InternedText>,
}

/// A name, a category, or another text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedText {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) text: Vec<u8>,
}

/// A queue of a GPU, or a kind of its activities.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GpuSpecification {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) name: Vec<u8>,
    /// 2 means computation.
    #[prost(int32, tag = "4")]
    pub(super) category: i32,
}

/// A kernel.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedKernel {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) demangled_name: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(super) arch: String,
}

/// The counters of a GPU.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedGpuCounters {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(message, optional, tag = "2")]
    pub(super) descriptor: Option<GpuCounters>,
    #[prost(int32, tag = "3")]
    pub(super) gpu: i32,
}

/// Names of counters.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GpuCounters {
    #[prost(message, repeated, tag = "1")]
    pub(super) specs: Vec<GpuCounterSpec>,
}

/// The name of a counter.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GpuCounterSpec {
    #[prost(uint32, tag = "1")]
    pub(super) counter: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) name: Vec<u8>,
}

/// A track: a thread, a process, a counter, or a track that the program names.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) name: Option<Vec<u8>>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, tag = "5")]
    pub(super) parent: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(super) static_name: Option<Vec<u8>>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(super) name: Option<Vec<u8>>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) name: Option<Vec<u8>>,
}

/// The encoding of the values of a counter.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int64, tag = "4")]
    pub(super) unit_multiplier: i64,
    #[prost(bool, tag = "5")]
    pub(super) is_incremental: bool,
}

/// Values of fields that the packets of a sequence omit.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct PacketDefaults {
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEventDefaults>,
    #[prost(uint32, optional, tag = "58")]
    pub(super) clock: Option<u32>,
}

/// Values of fields that the track events of a sequence omit.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TrackEventDefaults {
    #[prost(uint64, optional, tag = "11")]
    pub(super) track: Option<u64>,
}

/// The times of several clocks at the same moment.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<ClockReading>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) trace_clock: Option<u32>,
}

/// The time of a clock, in units of `unit_ns`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ClockReading {
    #[prost(uint32, tag = "1")]
    pub(super) clock: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
    #[prost(bool, tag = "3")]
    pub(super) is_incremental: bool,
    #[prost(uint64, tag = "4")]
    pub(super) unit_ns: u64,
}

/// A Chrome trace event inside a track event.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LegacyEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(int32, tag = "2")]
    pub(super) phase: i32,
    #[prost(int64, optional, tag = "3")]
    pub(super) duration_us: Option<i64>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) unscoped_id: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) bind_id: Option<u64>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) local_id: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) global_id: Option<u64>,
    #[prost(int32, optional, tag = "18")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "19")]
    pub(super) tid: Option<i32>,
}
