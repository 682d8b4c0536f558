//! What the graph is made of: the events of one rank, and the classes of time.

use crate::id_index::IdIndex;

/// No event.
pub(super) const NONE: u32 = u32::MAX;

/// What a stretch of time is spent on. What-if factors speak of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Class {
    /// Host time inside `__next__` of a `DataLoader`.
    DataLoading,
    /// An operator's own host time.
    Operator,
    /// Host time in a range that no operator, call or frame inside explains.
    Annotation,
    /// A Python function's own host time.
    Python,
    /// A call into the device runtime.
    RuntimeCall,
    /// Host time outside any event.
    Gap,
    /// From the submission of device work to its start.
    LaunchDelay,
    /// Computation on the device.
    Kernel,
    /// Communication on the device, or on the host where that does it.
    Communication,
    /// Copies and fills on the device.
    Copy,
    /// From the end of the device work waited for to the start of the next.
    DeviceGap,
    /// A waiting call after what it waited for was over, or with nothing to wait for.
    Sync,
    /// Nothing in the trace explains it.
    Other,
}

impl Class {
    pub(super) const COUNT: usize = 13;

    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::DataLoading,
        Self::Operator,
        Self::Annotation,
        Self::Python,
        Self::RuntimeCall,
        Self::Gap,
        Self::LaunchDelay,
        Self::Kernel,
        Self::Communication,
        Self::Copy,
        Self::DeviceGap,
        Self::Sync,
        Self::Other,
    ];

    /// What bounds a segment of this class.
    pub(super) fn bound_by(self) -> &'static str {
        match self {
            Self::DataLoading => "data_loading",
            Self::Operator | Self::Annotation | Self::Python | Self::RuntimeCall | Self::Gap => {
                "host"
            }
            Self::LaunchDelay => "launch_delay",
            Self::Kernel => "kernel",
            Self::Communication => "communication",
            Self::Copy => "copy",
            Self::DeviceGap => "kernel_kernel_delay",
            Self::Sync => "sync",
            Self::Other => "other",
        }
    }

    /// Which kind of host time.
    pub(super) fn host_kind(self) -> Option<&'static str> {
        Some(match self {
            Self::Operator => "operator",
            Self::Annotation => "annotation",
            Self::Python => "python",
            Self::RuntimeCall => "runtime_call",
            Self::Gap => "gap",
            _ => return None,
        })
    }
}

/// The table a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    CpuOps,
    RuntimeCalls,
    Annotations,
    PythonFrames,
    Kernels,
    Memcpys,
    Memsets,
}

impl Table {
    pub(super) const ALL: [Self; 7] = [
        Self::CpuOps,
        Self::RuntimeCalls,
        Self::Annotations,
        Self::PythonFrames,
        Self::Kernels,
        Self::Memcpys,
        Self::Memsets,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CpuOps => "cpu_ops",
            Self::RuntimeCalls => "runtime_calls",
            Self::Annotations => "annotations",
            Self::PythonFrames => "python_frames",
            Self::Kernels => "kernels",
            Self::Memcpys => "memcpys",
            Self::Memsets => "memsets",
        }
    }
}

/// What a name says about a host event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing special.
    Plain,
    /// `__next__` of a data loader.
    Loader,
    /// Ranks exchange data on the host.
    Communication,
    /// Autograd at work: its thread is not the one that runs the training loop.
    Backward,
    /// Returns when the device has nothing left to do.
    DeviceSync,
    /// Returns when a stream has nothing left to do.
    StreamSync,
    /// Returns when a stream has passed an event.
    EventSync,
    /// Returns when its own copy is done.
    BlockingCopy,
    /// May wait for the device before it gives memory back.
    Free,
}

impl Role {
    /// The role that an event's name gives it.
    pub(super) fn of(table: Table, name: &str) -> Self {
        let loader = || {
            name.starts_with("enumerate(DataPipe)#")
                || name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__")
        };
        match table {
            Table::CpuOps if name.starts_with("autograd::engine::") => Self::Backward,
            Table::CpuOps | Table::Annotations if loader() => Self::Loader,
            // NCCL's ranges only launch kernels; these are the work itself.
            Table::Annotations if name.starts_with("gloo:") || name.starts_with("mpi:") => {
                Self::Communication
            }
            Table::RuntimeCalls => Self::of_call(name),
            _ => Self::Plain,
        }
    }

    fn of_call(name: &str) -> Self {
        if name.ends_with("Synchronize") {
            if name.contains("Stream") {
                Self::StreamSync
            } else if name.contains("Event") {
                Self::EventSync
            } else {
                Self::DeviceSync
            }
        } else if name.contains("Memcpy") && !name.contains("Async") {
            Self::BlockingCopy
        } else if matches!(name, "cudaFree" | "cudaFreeHost" | "hipFree" | "hipHostFree") {
            Self::Free
        } else {
            Self::Plain
        }
    }
}

/// Whether the call that asks for a copy of this name may wait for it, asynchronous or not.
pub(super) fn may_block(copy: &str) -> bool {
    copy.contains("Pageable") || copy.contains("DtoH")
}

/// The class of a kernel, by the kind that its table gives it.
pub(super) fn kernel_class(kind: &str) -> Class {
    match kind {
        "communication" => Class::Communication,
        "memory" => Class::Copy,
        _ => Class::Kernel,
    }
}

/// One event on a host thread.
#[derive(Debug, Clone)]
pub(super) struct HostEvent {
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) id: i64,
    pub(super) row: u32,
    pub(super) lane: i32,
    pub(super) table: Table,
    pub(super) role: Role,
}

/// One activity on a device.
#[derive(Debug, Clone)]
pub(super) struct Activity {
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) id: i64,
    pub(super) row: u32,
    pub(super) lane: i32,
    pub(super) device: i32,
    pub(super) stream: i32,
    pub(super) table: Table,
    pub(super) class: Class,
    /// Event of the launching call.
    pub(super) launch: Option<i64>,
    pub(super) step: Option<i64>,
    /// A copy to the host, or from or to pageable memory: the call that asks for it may wait for it
    /// though it is asynchronous by name.
    pub(super) may_block: bool,
}

/// A wait that the profiler recorded.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) kind: WaitKind,
    /// Event of the host call.
    pub(super) call: i64,
    pub(super) device: i32,
    /// The stream that waits, or that the host waits for.
    pub(super) stream: i32,
    /// The stream on which the event was recorded.
    pub(super) source_stream: i32,
    /// Event of the call that recorded it.
    pub(super) record: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitKind {
    /// The host waits for a stream.
    Stream,
    /// The host waits for the device.
    Context,
    /// The host waits for an event of a stream.
    Event,
    /// A stream waits for an event of another.
    StreamOnEvent,
}

/// One training step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) number: i64,
    pub(super) ts: i64,
    pub(super) end: i64,
    /// Thread that ran it; absent where the whole trace is taken as one step.
    pub(super) lane: Option<i32>,
}

/// Everything of one rank that the graph is built from.
#[derive(Debug, Clone, Default)]
pub(super) struct RankEvents {
    pub(super) rank: i32,
    pub(super) host: Vec<HostEvent>,
    pub(super) activities: Vec<Activity>,
    pub(super) waits: Vec<Wait>,
    /// By start.
    pub(super) steps: Vec<Step>,
}

/// The analysed window of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) begin: i64,
    pub(super) end: i64,
}

impl RankEvents {
    /// From the first event to the end of the last.
    pub(super) fn whole(&self) -> Option<Window> {
        let host = self.host.iter().map(|e| (e.ts, e.end));
        let device = self.activities.iter().map(|a| (a.ts, a.end));
        let all = host.chain(device).map(|(begin, end)| Window { begin, end });
        all.reduce(|a, b| Window { begin: a.begin.min(b.begin), end: a.end.max(b.end) })
    }

    /// The longest stretch of steps that follow each other, if there are pauses between them: of several profile
    /// cycles one, since what happened in between was not recorded.
    pub(super) fn longest_run(&self) -> Option<(i64, i64)> {
        let mut durs: Vec<i64> = self.steps.iter().map(|step| step.end - step.ts).collect();
        durs.sort_unstable();
        let pause = durs.get(durs.len() / 2)? / 2;
        let mut runs: Vec<(usize, i64, i64)> = Vec::new();
        for step in &self.steps {
            match runs.last_mut() {
                Some((count, _, end)) if step.ts - *end <= pause => {
                    *count += 1;
                    *end = (*end).max(step.end);
                }
                _ => runs.push((1, step.ts, step.end)),
            }
        }
        let several = runs.len() > 1;
        let (_, begin, end) = runs.into_iter().max_by_key(|&(count, begin, _)| (count, begin))?;
        several.then_some((begin, end))
    }

    /// Only what belongs to the host's time from `begin` to `end`: host events are cut at its borders;
    /// device work counts if it was launched inside, or was still running at the start. The window
    /// ends when all of that is done.
    pub(super) fn clip(&mut self, begin: i64, end: i64) -> Window {
        let calls = Calls::new(self);
        let keep: Vec<bool> = self
            .activities
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let launched = calls.of(i).map_or(a.ts, |call| self.host[call as usize].ts);
                (a.end > begin || a.ts >= begin) && launched <= end
            })
            .collect();
        let mut keep = keep.into_iter();
        self.activities.retain(|_| keep.next().unwrap_or(false));
        self.host.retain(|e| e.ts <= end && e.end >= begin);
        for event in &mut self.host {
            event.ts = event.ts.max(begin);
            event.end = event.end.min(end);
        }
        for activity in &mut self.activities {
            activity.ts = activity.ts.max(begin);
        }
        self.steps.retain(|s| s.ts >= begin && s.end <= end);
        let last = self.activities.iter().map(|a| a.end).max().unwrap_or(end);
        Window { begin, end: end.max(last) }
    }
}

/// Sorts what consists of a few parts that are in order already: the stable sort profits from them.
pub(super) fn sort<T: Ord>(items: &mut [T]) {
    items.sort();
}

/// Runtime calls by event id, and those that launched the activities.
#[derive(Debug)]
pub(super) struct Calls {
    by_id: IdIndex,
    of_activity: Vec<u32>,
}

impl Calls {
    pub(super) fn new(events: &RankEvents) -> Self {
        let calls = events.host.iter().zip(0..).filter(|(e, _)| e.table == Table::RuntimeCalls);
        let by_id = IdIndex::of(calls.map(|(e, i)| (e.id, i)));
        let mut calls = Self { by_id, of_activity: Vec::new() };
        let launches = events.activities.iter().map(|a| a.launch.and_then(|id| calls.get(id)));
        calls.of_activity = launches.map(|call| call.unwrap_or(NONE)).collect();
        calls
    }

    /// Position of a call among the host events.
    pub(super) fn get(&self, id: i64) -> Option<u32> {
        self.by_id.get(id)
    }

    /// Position of the call that launched an activity.
    pub(super) fn of(&self, activity: usize) -> Option<u32> {
        let call = self.of_activity[activity];
        (call != NONE).then_some(call)
    }
}
