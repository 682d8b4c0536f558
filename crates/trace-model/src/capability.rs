//! What a recording can contain: the facts that importers declare, and that views and rules require.
//!
//! A capability says that a recording holds a kind of data, not that the program did something: a recording with
//! [`Capability::DeviceActivity`] can show kernels, a recording without it cannot show that there were none. Importers
//! declare capabilities rank by rank ([`Capabilities`], the table `capabilities`); views and rules name the ones that they
//! need, never the format of a file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The source of a capability: an option, a setting, a version, more ranks, or the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// An argument of `torch.profiler.profile`: `record_shapes=True`.
    ProfilerOption(&'static str),
    /// A call or a setting of another tool, as a user writes it: `torch.cuda.memory._record_memory_history()`.
    Setting(&'static str),
    /// At least this version of a tool: `PyTorch 2.4`.
    Version(&'static str),
    /// At least this number of ranks in one run.
    Ranks(u32),
    /// The program itself: nothing has to be recorded differently.
    Program,
}

impl Provider {
    /// What to write or give, in a form that completes "record with ...": `` `record_shapes=True` ``. `None` if the
    /// program decides.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Self::ProfilerOption(text) | Self::Setting(text) | Self::Version(text) => Some(text),
            Self::Ranks(_) | Self::Program => None,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProfilerOption(text) | Self::Setting(text) => f.write_str(text),
            Self::Version(text) => write!(f, "{text} or later"),
            Self::Ranks(count) => write!(f, "traces of at least {count} ranks"),
            Self::Program => f.write_str("what the program runs, and on which device"),
        }
    }
}

macro_rules! capabilities {
    ($($name:ident = $text:literal, $doc:literal, $missing:literal, $provider:expr;)+) => {
        /// A kind of data that a recording holds or lacks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Capability {
            $(#[doc = $doc] $name,)+
        }

        impl Capability {
            /// All capabilities, in order of documentation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Name in tables, headers of views and rules: `operator_shapes`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What a recording with it holds, as a noun phrase.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => $doc,)+ }
            }

            /// The reason of a verdict *unknown* where it is missing, without what provides it.
            pub fn missing(self) -> &'static str {
                match self { $(Self::$name => $missing,)+ }
            }

            /// What provides it.
            pub fn provider(self) -> Provider {
                match self { $(Self::$name => $provider,)+ }
            }
        }
    };
}

capabilities! {
    Timeline = "timeline", "events of a rank with start and duration",
        "there is no timeline", Provider::Setting("torch.profiler");
    HostOperators = "host_operators", "operators on host threads",
        "the host was not recorded", Provider::ProfilerOption("activities=[ProfilerActivity.CPU, ...]");
    OperatorShapes = "operator_shapes", "input shapes of operators",
        "shapes of operators were not recorded", Provider::ProfilerOption("record_shapes=True");
    PythonStacks = "python_stacks", "Python frames or call stacks",
        "Python stacks were not recorded", Provider::ProfilerOption("with_stack=True");
    ModuleNames = "module_names", "calls of `nn.Module`s",
        "modules were not recorded", Provider::ProfilerOption("with_modules=True");
    MemoryEvents = "memory_events", "allocations and releases of the caching allocator",
        "memory was not recorded", Provider::ProfilerOption("profile_memory=True");
    DeviceActivity = "device_activity", "kernels, copies and sets with their times on a device",
        "the trace has no GPU activity", Provider::ProfilerOption("activities=[..., ProfilerActivity.CUDA]");
    RuntimeCalls = "runtime_calls", "calls of the runtime or driver of a device",
        "calls of the GPU's runtime were not recorded", Provider::ProfilerOption("activities=[..., ProfilerActivity.CUDA]");
    LaunchLinks = "launch_links", "the call that launched each device activity",
        "device activities cannot be matched with the calls that launched them",
        Provider::ProfilerOption("activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
    GraphNodes = "graph_nodes", "the node of a graph that each kernel of a replay ran for",
        "the nodes of replayed graphs were not recorded", Provider::Version("PyTorch of 2026");
    LaunchSizes = "launch_sizes", "grid and block sizes of kernels",
        "the sizes of launches were not recorded", Provider::Program;
    KernelOccupancy = "kernel_occupancy", "an estimate of the occupancy of kernels",
        "the occupancy of kernels was not recorded", Provider::Program;
    CopyDirections = "copy_directions", "the directions of device copies",
        "the directions of copies were not recorded", Provider::Setting("export_chrome_trace(\"trace.json.gz\")");
    DeviceProperties = "device_properties", "memory size, multiprocessors and architecture of devices",
        "the properties of the GPU are not in the trace", Provider::Program;
    ProcessorProperties = "processor_properties", "cores, threads and instruction sets of the processor",
        "the processor was not recorded", Provider::Setting("advisor record, or a callback of trace_advisor");
    Steps = "steps", "training steps, marked or inferred",
        "the trace has no steps", Provider::Setting("prof.step()");
    ForwardBackwardLinks = "forward_backward_links", "the forward operator of each backward operator",
        "backward operators cannot be matched with forward operators", Provider::Program;
    CollectiveSizes = "collective_sizes", "element counts, types and process groups of collectives",
        "the sizes of collectives were not recorded", Provider::Version("PyTorch 2.4");
    Counters = "counters", "values of counters over time",
        "no counters were recorded", Provider::Program;
    HardwareCounters = "hardware_counters", "counters of the device for ranges of kernels",
        "hardware counters were not recorded", Provider::Setting("profiler_metrics");
    SeveralRanks = "several_ranks", "timelines of at least two ranks",
        "only one rank's trace was given", Provider::Ranks(2);
    ExecutionTrace = "execution_trace", "operators with their arguments, without times",
        "no execution trace was recorded", Provider::Setting("torch.profiler.ExecutionTraceObserver");
    MemorySnapshot = "memory_snapshot", "segments and blocks of the caching allocator",
        "there is no memory snapshot", Provider::Setting("torch.cuda.memory._dump_snapshot()");
    MemoryHistory = "memory_history", "allocations and releases before a memory snapshot",
        "the memory snapshot has no history", Provider::Setting("torch.cuda.memory._record_memory_history()");
    CompileLog = "compile_log", "the log of `torch.compile`",
        "there is no log of torch.compile", Provider::Setting("TORCH_TRACE=/tmp/trace");
    FlightRecords = "flight_records", "collectives that a rank called last",
        "there is no dump of the Flight Recorder", Provider::Setting("TORCH_FR_BUFFER_SIZE=2000");
    MachineMetrics = "machine_metrics", "utilization of the machine over time",
        "metrics of the machine were not recorded", Provider::Setting("Composer's SystemProfiler, or Determined's profiler");
    TrainerMarkers = "trainer_markers", "events and callbacks that a trainer marks",
        "there are no marks of a trainer", Provider::Setting("Composer's profiler");
}

impl Capability {
    /// The capability of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|capability| capability.as_str() == name)
    }

    /// The reason of a verdict *unknown* where it is missing, with what provides it.
    pub fn reason(self) -> String {
        match self.provider() {
            Provider::ProfilerOption(text) | Provider::Setting(text) => {
                format!("{}: {text}", self.missing())
            }
            Provider::Version(text) => format!("{}: {text} or later records them", self.missing()),
            Provider::Ranks(count) => format!("{}: give at least {count}", self.missing()),
            Provider::Program => self.missing().to_owned(),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Returns whether the set contains a capability.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & bit(capability) != 0
    }

    /// Adds a capability.
    pub fn insert(&mut self, capability: Capability) {
        self.0 |= bit(capability);
    }

    /// Adds a capability if a condition holds.
    pub fn insert_if(&mut self, condition: bool, capability: Capability) {
        if condition {
            self.insert(capability);
        }
    }

    /// The capabilities of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The capabilities in the set, in the order of [`Capability::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.iter().copied().filter(move |&capability| self.has(capability))
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<T: IntoIterator<Item = Capability>>(capabilities: T) -> Self {
        let mut set = Self::default();
        capabilities.into_iter().for_each(|capability| set.insert(capability));
        set
    }
}

fn bit(capability: Capability) -> u64 {
    1 << capability as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_set() {
        let names: std::collections::BTreeSet<_> =
            Capability::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), Capability::ALL.len());
        assert!(Capability::ALL.len() <= 64);
        for &capability in Capability::ALL {
            assert_eq!(Capability::parse(capability.as_str()), Some(capability));
            let json = serde_json::to_string(&capability).unwrap();
            assert_eq!(json, format!("\"{capability}\""), "serde and `as_str` agree");
        }
    }

    #[test]
    fn a_set_has_what_was_inserted() {
        use Capability::{DeviceActivity, HostOperators, OperatorShapes};
        let mut set: Capabilities = [HostOperators].into_iter().collect();
        set.insert_if(false, DeviceActivity);
        assert!(set.has(HostOperators) && !set.has(DeviceActivity));
        assert_eq!(set.iter().collect::<Vec<_>>(), [HostOperators]);
        let both = set.union([OperatorShapes].into_iter().collect());
        assert_eq!(both.iter().collect::<Vec<_>>(), [HostOperators, OperatorShapes]);
    }

    #[test]
    fn reasons_state_what_provides_the_data() {
        assert_eq!(
            Capability::OperatorShapes.reason(),
            "shapes of operators were not recorded: record_shapes=True"
        );
    }
}
