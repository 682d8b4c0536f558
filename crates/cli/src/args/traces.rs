//! Commands that write, draw or serve traces: `augment`, `cut`, `merge`, `export`, `timeline`, `open` and `demo`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use trace_advisor::ingest::Shard;

use super::groups::{
    EachArg, FileFormat, InputArgs, MappedArgs, OutputArgs, ReadArgs, RuleArgs, RuleFileArgs,
    RunPathArg, SelectionArgs, TraceOutputArgs,
};
use super::headings::{LOGGING, OUTPUT, SELECTION};
use super::values::columns;
use trace_demo::{Bottleneck, PipelineSchedule};

/// `advisor augment`.
#[derive(Debug, ClapArgs)]
pub(crate) struct AugmentArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    #[command(flatten)]
    pub(crate) output: TraceOutputArgs,
    /// Add only these tracks
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TRACK", help_heading = OUTPUT)]
    pub(crate) only: Vec<AugmentTrack>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) each: EachArg,
}

/// The tracks that can be added to a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AugmentTrack {
    /// Queue length of streams, bandwidth of copies, GPU utilization
    Counters,
    /// Critical path, with arrows between the lanes that it passes through
    CriticalPath,
    /// Findings of `check`, at the times where they occur
    Findings,
}

/// `advisor cut`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CutArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Directory to write to; created if it does not exist
    #[arg(id = "output", long = "output", short = 'o', value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) directory: PathBuf,
    /// Write into DIR although it is not empty, and overwrite files there
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// `advisor merge`.
#[derive(Debug, ClapArgs)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// File to write; compressed if its name ends in `.gz`
    #[arg(long, short, value_name = "FILE", default_value = "merged_trace.json.gz", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Replace FILE if it exists
    ///
    /// It is replaced once the new one is complete. A symbolic link is replaced itself, not its target.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `advisor export`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Directory to write to; created if it does not exist
    #[arg(id = "output", long = "output", short = 'o', alias = "to", value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) directory: PathBuf,
    /// Replace DIR if it is an export and holds nothing else
    ///
    /// It is replaced once the new export is complete. Other directories and symbolic links are never replaced.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) mapped: MappedArgs,
    #[command(flatten)]
    pub(crate) each: EachArg,
    /// Print the time that the export takes to stderr
    #[arg(long, help_heading = LOGGING)]
    pub(crate) timings: bool,
}

/// `advisor map`.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("cycle", |arg| arg.hide(true)), mut_arg("trial", |arg| arg.hide(true)))]
pub(crate) struct MapArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Directory or address to write to, the same for all shards of a run; created if it does not exist
    #[arg(id = "output", long = "to", short = 'o', visible_alias = "output", value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) to: PathBuf,
    /// Map only part I of N, such as `2/8`: about an Nth of the bytes of all traces
    #[arg(long, value_name = "I/N", default_value_t = Shard::ALL, help_heading = SELECTION)]
    pub(crate) shard: Shard,
    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Print the time that mapping takes to stderr
    #[arg(long, help_heading = LOGGING)]
    pub(crate) timings: bool,
}

/// `advisor timeline`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Draw this step [default: the one in which the finding is worst]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = OUTPUT)]
    pub(crate) step: Option<i64>,
    /// Mark the finding of this rule: a code (IN001) or a name (dataloader-wait) [default: the first finding]
    #[arg(long, value_name = "RULE", help_heading = OUTPUT)]
    pub(crate) finding: Option<String>,
    /// Characters per line, from 40 to 200 [default: the width of the terminal, else 100]
    #[arg(long, value_name = "N", value_parser = columns, help_heading = OUTPUT)]
    pub(crate) width: Option<usize>,
    /// Output format [default: by the extension of FILE, else text]
    #[arg(long, short, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<TimelineFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Formats of `advisor timeline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TimelineFormat {
    /// Lanes of characters
    #[default]
    Text,
    /// A picture for documents and issues
    Svg,
}

impl FileFormat for TimelineFormat {
    const ENDINGS: &'static [(&'static str, Self)] = &[(".txt", Self::Text), (".svg", Self::Svg)];
}

/// `advisor open`.
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
// A trace is opened as a whole: these options would have no effect.
#[command(
    mut_arg("steps", |arg| arg.hide(true)),
    mut_arg("streams", |arg| arg.hide(true)),
    mut_arg("pattern", |arg| arg.hide(true)),
    mut_arg("between", |arg| arg.help("Show this time range, counted from the first event of the run: `10ms..50ms`"))
)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Open a copy with counters, critical path and findings, as `advisor augment` writes it
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) augment: bool,
    /// Serve the report of the run as a page instead, which answers SQL and loads again when the run changes
    #[arg(long, conflicts_with_all = ["augment", "keep"], help_heading = OUTPUT)]
    pub(crate) report: bool,
    /// Local port; the public Perfetto UI fetches from port 9001 only
    #[arg(long, value_name = "PORT", default_value_t = 9001, help_heading = OUTPUT)]
    pub(crate) port: u16,
    /// Address of the Perfetto UI
    #[arg(long, value_name = "URL", default_value = "https://ui.perfetto.dev", help_heading = OUTPUT)]
    pub(crate) ui: String,
    /// Print the address without starting a browser, for example to open it on another machine
    #[arg(long, visible_alias = "print-url", help_heading = OUTPUT)]
    pub(crate) no_browser: bool,
    /// Keep serving after the trace has been downloaded
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `advisor demo`.
#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    /// Bottleneck to simulate
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bottleneck: Bottleneck,
    /// Number of ranks, with one trace each [default: 2, of a pipeline or experts 4, with faults 64]
    #[arg(long, value_name = "N")]
    pub(crate) ranks: Option<u32>,
    /// Number of recorded steps [default: 6, with a straggler 8]
    ///
    /// With two ranks, fewer than 8 steps are too few to distinguish a straggler from chance.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u32>,
    /// Number of transformer blocks, which sets the size of a step
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) layers: u32,
    /// Schedule of a pipeline
    #[arg(long, value_enum, default_value_t)]
    pub(crate) schedule: PipelineSchedule,
    /// Microbatches of a pipeline in each step
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) microbatches: u32,
    /// Random seed; the same seed gives the same bytes
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Record Python stacks and modules too
    #[arg(long)]
    pub(crate) stacks: bool,
    #[command(flatten)]
    pub(crate) output: TraceOutputArgs,
}
