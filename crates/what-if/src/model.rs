//! Inputs of the graph: the events of one rank, and the classes of time.

use query::id_index::IdIndex;
use trace_model::vocabulary::{is_host_communication_range, is_loader_fetch};

/// Index of a missing event, edge or activity.
pub(crate) const NO_INDEX: u32 = u32::MAX;

/// The activity that an interval of time is spent on. What-if factors refer to these classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum TimeClass {
    /// Host time inside `__next__` of a `DataLoader`.
    DataLoading,
    /// An operator's own host time.
    Operator,
    /// Host time in a range without an operator, call or frame inside.
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
    /// Communication on the device, or on the host if the backend runs there.
    Communication,
    /// Copies and fills on the device.
    Copy,
    /// From the end of the device work that bounds a start to that start.
    DeviceGap,
    /// A waiting call after the awaited work has ended, or without awaited work.
    Sync,
    /// Time that nothing in the trace explains.
    Other,
}

impl TimeClass {
    pub(crate) const COUNT: usize = 13;

    pub(crate) const ALL: [Self; Self::COUNT] = [
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

    /// Value of `bound_by` for segments of this class.
    pub(crate) fn bound_by(self) -> &'static str {
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

    /// Kind of host time, if the class is host time.
    pub(crate) fn host_kind(self) -> Option<&'static str> {
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

/// The table that an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventTable {
    CpuOps,
    RuntimeCalls,
    Annotations,
    PythonFrames,
    Kernels,
    Memcpys,
    Memsets,
}

impl EventTable {
    pub(crate) const ALL: [Self; 7] = [
        Self::CpuOps,
        Self::RuntimeCalls,
        Self::Annotations,
        Self::PythonFrames,
        Self::Kernels,
        Self::Memcpys,
        Self::Memsets,
    ];

    pub(crate) fn name(self) -> &'static str {
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

/// Role of a host event, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostRole {
    /// No special role.
    Plain,
    /// `__next__` of a data loader.
    Loader,
    /// Ranks exchange data on the host.
    Communication,
    /// Autograd: its thread is not the one that runs the training loop.
    Backward,
    /// Returns when the device is idle.
    DeviceSync,
    /// Returns when a stream is idle.
    StreamSync,
    /// Returns when a stream has passed an event.
    EventSync,
    /// Returns when its own copy has completed.
    BlockingCopy,
    /// May wait for the device before it frees memory.
    Free,
}

impl HostRole {
    /// The role of an event with this name.
    pub(crate) fn of(table: EventTable, name: &str) -> Self {
        match table {
            EventTable::CpuOps if name.starts_with("autograd::engine::") => Self::Backward,
            EventTable::CpuOps | EventTable::Annotations if is_loader_fetch(name) => Self::Loader,
            // NCCL ranges only launch kernels; these ranges contain the communication itself.
            EventTable::Annotations if is_host_communication_range(name) => Self::Communication,
            EventTable::RuntimeCalls => Self::of_runtime_call(name),
            _ => Self::Plain,
        }
    }

    fn of_runtime_call(name: &str) -> Self {
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

/// Returns whether the call that requests a copy of this name may block, even if the call is asynchronous by name.
pub(crate) fn may_block(copy: &str) -> bool {
    copy.contains("Pageable") || copy.contains("DtoH")
}

/// The class of a kernel, from the `kind` column of its table.
pub(crate) fn kernel_class(kind: &str) -> TimeClass {
    match kind {
        "communication" => TimeClass::Communication,
        "memory" => TimeClass::Copy,
        _ => TimeClass::Kernel,
    }
}

/// One event on a host thread.
#[derive(Debug, Clone)]
pub(crate) struct HostEvent {
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) id: i64,
    pub(crate) row: u32,
    pub(crate) lane: i32,
    pub(crate) table: EventTable,
    pub(crate) role: HostRole,
}

/// One activity on a device.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) id: i64,
    pub(crate) row: u32,
    pub(crate) lane: i32,
    pub(crate) device: i32,
    pub(crate) stream: i32,
    pub(crate) table: EventTable,
    pub(crate) class: TimeClass,
    /// Event id of the launching call.
    pub(crate) launch: Option<i64>,
    pub(crate) step: Option<i64>,
    /// A copy to the host, or from or to pageable memory: the requesting call may block even if it is asynchronous by
    /// name.
    pub(crate) may_block: bool,
}

/// A wait that the profiler recorded.
#[derive(Debug, Clone)]
pub(crate) struct Blocker {
    pub(crate) kind: BlockerKind,
    /// Event id of the host call.
    pub(crate) call: i64,
    pub(crate) device: i32,
    /// The stream that waits, or that the host waits for.
    pub(crate) stream: i32,
    /// The stream on which the event was recorded.
    pub(crate) source_stream: i32,
    /// Event id of the call that recorded the event.
    pub(crate) record: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockerKind {
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
pub(crate) struct TrainingStep {
    pub(crate) number: i64,
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
    /// Thread that ran the step; `None` if the whole trace counts as one step.
    pub(crate) lane: Option<i32>,
    /// Length with the device work of the step, see `complete_steps`; `None` for a step that does not count.
    pub(crate) counted_ns: Option<i64>,
}

/// A dependency between two nodes of a graph replay, by event id: the target starts after the source has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeEdge {
    pub(crate) source: i64,
    pub(crate) target: i64,
    /// All dependencies of the target are known.
    pub(crate) is_complete: bool,
}

/// All events of one rank that the graph is built from.
#[derive(Debug, Clone, Default)]
pub(crate) struct RankEvents {
    pub(crate) rank: i32,
    pub(crate) host: Vec<HostEvent>,
    pub(crate) activities: Vec<Activity>,
    pub(crate) waits: Vec<Blocker>,
    /// Dependencies between the nodes of replayed graphs.
    pub(crate) graph_edges: Vec<NodeEdge>,
    /// Sorted by start.
    pub(crate) steps: Vec<TrainingStep>,
    /// Number and mean length of the steps that count: of the rank, or of the window if an annotation selects it.
    pub(crate) counted: CountedSteps,
}

/// The steps of a mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CountedSteps {
    pub(crate) count: usize,
    pub(crate) mean_ns: f64,
}

impl CountedSteps {
    pub(crate) fn of(steps: &[TrainingStep]) -> Self {
        let lengths = steps.iter().filter(|step| step.lane.is_some());
        let lengths: Vec<i64> = lengths.filter_map(|step| step.counted_ns).collect();
        let sum_ns: i64 = lengths.iter().sum();
        Self { count: lengths.len(), mean_ns: sum_ns as f64 / lengths.len().max(1) as f64 }
    }
}

/// The analyzed window of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnalysisWindow {
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
}

impl RankEvents {
    /// From the first event to the end of the last.
    pub(crate) fn full_window(&self) -> Option<AnalysisWindow> {
        let host = self.host.iter().map(|e| (e.ts_ns, e.end_ns));
        let device = self.activities.iter().map(|a| (a.ts_ns, a.end_ns));
        let all = host.chain(device).map(|(begin_ns, end_ns)| AnalysisWindow { begin_ns, end_ns });
        all.reduce(|a, b| AnalysisWindow {
            begin_ns: a.begin_ns.min(b.begin_ns),
            end_ns: a.end_ns.max(b.end_ns),
        })
    }

    /// The longest run of consecutive steps, if there are pauses between steps: of several profile cycles only one is
    /// analyzed, because the time between them was not recorded.
    pub(crate) fn longest_step_run(&self) -> Option<(i64, i64)> {
        let mut durs: Vec<i64> = self.steps.iter().map(|step| step.end_ns - step.ts_ns).collect();
        durs.sort_unstable();
        let pause = durs.get(durs.len() / 2)? / 2;
        let mut runs: Vec<(usize, i64, i64)> = Vec::new();
        for step in &self.steps {
            match runs.last_mut() {
                Some((count, _, end_ns)) if step.ts_ns - *end_ns <= pause => {
                    *count += 1;
                    *end_ns = (*end_ns).max(step.end_ns);
                }
                _ => runs.push((1, step.ts_ns, step.end_ns)),
            }
        }
        let several = runs.len() > 1;
        let (_, begin_ns, end_ns) =
            runs.into_iter().max_by_key(|&(count, begin_ns, _)| (count, begin_ns))?;
        several.then_some((begin_ns, end_ns))
    }

    /// Keeps only events that belong to the host time from `begin_ns` to `end_ns`: clips host events at the borders,
    /// and keeps device work that was launched inside or still running at the start. The window ends when all of it
    /// is done.
    pub(crate) fn clip(&mut self, begin_ns: i64, end_ns: i64) -> AnalysisWindow {
        let calls = RuntimeCallIndex::new(self);
        let keep: Vec<bool> = self
            .activities
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let launched = calls.of(i).map_or(a.ts_ns, |call| self.host[call as usize].ts_ns);
                (a.end_ns > begin_ns || a.ts_ns >= begin_ns) && launched <= end_ns
            })
            .collect();
        let mut keep = keep.into_iter();
        self.activities.retain(|_| keep.next().unwrap_or(false));
        self.host.retain(|e| e.ts_ns <= end_ns && e.end_ns >= begin_ns);
        for event in &mut self.host {
            event.ts_ns = event.ts_ns.max(begin_ns);
            event.end_ns = event.end_ns.min(end_ns);
        }
        for activity in &mut self.activities {
            activity.ts_ns = activity.ts_ns.max(begin_ns);
        }
        self.steps.retain(|s| s.ts_ns >= begin_ns && s.end_ns <= end_ns);
        let last = self.activities.iter().map(|a| a.end_ns).max().unwrap_or(end_ns);
        AnalysisWindow { begin_ns, end_ns: end_ns.max(last) }
    }
}

/// Sorts items that consist of a few sorted runs, which the stable sort exploits.
pub(crate) fn sort_runs<T: Ord>(items: &mut [T]) {
    items.sort();
}

/// Runtime calls by event id, and the call that launched each activity.
#[derive(Debug)]
pub(crate) struct RuntimeCallIndex {
    by_id: IdIndex,
    of_activity: Vec<u32>,
}

impl RuntimeCallIndex {
    pub(crate) fn new(events: &RankEvents) -> Self {
        let calls =
            events.host.iter().zip(0..).filter(|(e, _)| e.table == EventTable::RuntimeCalls);
        let by_id = IdIndex::of(calls.map(|(e, i)| (e.id, i)));
        let mut calls = Self { by_id, of_activity: Vec::new() };
        let launches = events.activities.iter().map(|a| a.launch.and_then(|id| calls.get(id)));
        calls.of_activity = launches.map(|call| call.unwrap_or(NO_INDEX)).collect();
        calls
    }

    /// Index of a call among the host events.
    pub(crate) fn get(&self, id: i64) -> Option<u32> {
        self.by_id.get(id)
    }

    /// Index of the call that launched an activity.
    pub(crate) fn of(&self, activity: usize) -> Option<u32> {
        let call = self.of_activity[activity];
        (call != NO_INDEX).then_some(call)
    }
}
