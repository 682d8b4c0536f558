//! The options of a simulated run.

/// The bottleneck of a simulated run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Bottleneck {
    /// Batches are loaded on the training thread, which takes a third of the step.
    #[default]
    DataLoading,
    /// Kernels take a few microseconds, so the host cannot launch them fast enough.
    SmallKernels,
    /// The forward pass of the last rank takes 1.6 times as long.
    Straggler,
    /// The host reads a value from the GPU after every second layer.
    Sync,
    /// Activations fill the GPU memory to 98.6 %.
    Memory,
    /// Every step leaks a tensor of 168 MB.
    MemoryLeak,
    /// Each rank computes one stage of a pipeline, and the one in the middle takes 1.5 times as long.
    Pipeline,
    /// FSDP gathers each layer only when the layer before it has been computed.
    Sharding,
    /// The experts of the last rank get twice as many tokens as those of each other rank.
    Experts,
    /// In groups of 16 ranks on two machines, a rank computes slowly, the link of a group is slow, and a rank calls another
    /// collective than its group.
    Faults,
    /// A healthy run without a bottleneck.
    None,
}

/// The order in which the stages of a pipeline compute microbatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum PipelineSchedule {
    /// All forward passes, then all backward passes.
    Gpipe,
    /// One forward pass, one backward pass.
    #[default]
    #[value(name = "1f1b")]
    OneForwardOneBackward,
    /// The same with two stages on each rank.
    Interleaved,
}

/// A fault of a job on many machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The last rank takes 2.5 times as long for its forward pass.
    SlowRank,
    /// Collectives between the machines of a group take 2.5 times as long.
    SlowLink,
    /// A rank calls another collective than its group.
    OtherCollective,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 3] = [Self::SlowRank, Self::SlowLink, Self::OtherCollective];
}

/// The run to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What slows the run down.
    pub bottleneck: Bottleneck,
    /// Number of ranks, with one trace each.
    pub ranks: u32,
    /// Number of recorded steps.
    pub steps: u32,
    /// Number of transformer blocks, which sets the size of a step (some 150 kB of JSON per block and step).
    pub layers: u32,
    /// Schedule of a pipeline.
    pub schedule: PipelineSchedule,
    /// Number of microbatches of a pipeline in each step.
    pub microbatches: u32,
    /// Whether all stages of a pipeline take the same time.
    pub equal_stages: bool,
    /// The faults of [`Bottleneck::Faults`].
    pub faults: Vec<Fault>,
    /// Random seed; the same seed gives the same bytes.
    pub seed: u64,
    /// Whether to record Python frames and modules, as `with_stack=True` does.
    pub stacks: bool,
    /// Whether to compress with gzip, as the trace handler of the profiler does with `use_gzip=True`.
    pub gzip: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bottleneck: Bottleneck::default(),
            ranks: 2,
            steps: 6,
            layers: 4,
            schedule: PipelineSchedule::default(),
            microbatches: 8,
            equal_stages: false,
            faults: Fault::ALL.to_vec(),
            seed: 0,
            stacks: false,
            gzip: true,
        }
    }
}
