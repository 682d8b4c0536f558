//! The command line, declared: one file per group of commands, options that several share in `groups`.

mod check;
mod diff;
mod examples;
mod global;
mod groups;
mod headings;
mod program;
mod query;
mod record;
mod rules;
mod traces;
mod values;
mod watch;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use check::{CheckArgs, ReportFormat};
pub(crate) use diff::{DiffArgs, DiffFailOn, DiffFormat, DiffLevel, DiffSort, HtaEvents};
pub(crate) use global::GlobalArgs;
pub(crate) use groups::{
    Audience, BrokenPromise, CacheDirArg, FileFormat, InputArgs, MappedArgs, OutputArgs, ReadArgs,
    RowFormat, RowOutputArgs, RuleArgs, RuleFileArgs, SelectionArgs,
};
pub(crate) use program::{CacheCommand, CacheCommandArgs, CompletionsArgs, ManArgs};
pub(crate) use query::{AnalyzeArgs, SqlArgs, TablesArgs};
pub(crate) use record::{RecordArgs, TraceWriter};
pub(crate) use rules::{
    ExplainArgs, InitArgs, RuleShowArgs, RulesArgs, RulesCommand, SchemaArgs, SchemaDocument,
    StatsArgs, StatsFormat,
};
pub(crate) use traces::{
    AugmentArgs, AugmentTrack, CutArgs, DemoArgs, ExportArgs, MapArgs, MergeArgs, OpenArgs,
    TimelineArgs, TimelineFormat,
};
pub(crate) use watch::WatchArgs;

/// Version, commit and target. Builds for development do not know their commit.
const LONG_VERSION: &str = env!("ADVISOR_LONG_VERSION");

/// Why is this PyTorch training run slow? Reads PyTorch Profiler traces and tells you what to fix first.
#[derive(Debug, Parser)]
#[command(name = "advisor", version, long_version = LONG_VERSION, max_term_width = 100)]
#[command(after_help = examples::PROGRAM)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a run and list what to fix, biggest gain first
    ///
    /// Exit code: 0 without findings at or above --fail-on, 1 with such findings, 2 if the run cannot be
    /// checked. With --baseline, only new and worse findings count.
    #[command(after_help = examples::CHECK)]
    Check(CheckArgs),
    /// Run a training program, record some of its steps, and check them
    ///
    /// The program needs no change: the training loop is found through the steps of its optimizers, in each Python process that
    /// the command starts, such as the ranks of `torchrun`. Each rank writes its trace into DIR. If the program runs out
    /// of GPU memory, a memory snapshot is written there, too. The report is printed to stderr when the program ends.
    ///
    /// Exit code: the exit code of the program; 128 + N if signal N ends the program; 126 or 127 if it cannot be started;
    /// 2 if it succeeds but its version of PyTorch cannot be recorded.
    #[command(after_help = examples::RECORD)]
    Record(RecordArgs),
    /// Query a run with SQL: run a single query, or start an interactive shell
    #[command(after_help = examples::SQL)]
    Sql(SqlArgs),
    /// Print one of the built-in analyses of a run
    #[command(after_help = examples::ANALYZE)]
    Analyze(AnalyzeArgs),
    /// Compare two runs: what got slower or faster, what was added or removed
    ///
    /// A step is broken down in two ways, each of which adds up to the step: by what the host does, where each moment
    /// counts for the innermost range that makes progress, and by what the GPU does. Kernels, runtime calls and
    /// operators are matched even if a version or vendor renamed them; such matches are marked.
    ///
    /// What differs about the runs comes first: GPU, ranks, steps, program, shape of the batch, options of the profiler.
    ///
    /// The verdict compares the change of the median step with how much steps vary: regression, improvement,
    /// unchanged or inconclusive. Runs that did different work are not comparable; what they took is printed all the same.
    ///
    /// Where both runs recorded memory, its owners at the peak are compared by place. Of two memory snapshots, the
    /// verdict is about the peak.
    ///
    /// Exit code: 0, or 1 if the verdict is one that --fail-on names or memory grew by what --fail-on-memory allows, or
    /// 2 if the runs cannot be compared.
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Add counters, critical path and findings to copies of the traces
    ///
    /// The copies open in Perfetto (ui.perfetto.dev) and in `chrome://tracing`. Their paths are printed to stdout. They
    /// are compressed like the originals unless --gz or --json is given. The originals are never overwritten.
    #[command(after_help = examples::AUGMENT)]
    Augment(AugmentArgs),
    /// Cut steps or a time range out of the traces, for trace viewers that cannot open large ones
    ///
    /// Each rank's part is a trace of its own, DIR/NAME.json.gz. Kept unchanged are the events that overlap the time range,
    /// as a whole; the calls that launched something in it, and all that calls in it launched; arrows of which both ends
    /// are kept; names of processes and threads, and all properties of the trace. The paths are printed to stdout.
    /// Memory does not grow with the traces. The originals are never overwritten.
    #[command(after_help = examples::CUT)]
    #[command(mut_arg("streams", hide), mut_arg("pattern", hide))]
    #[command(mut_arg("steps", |steps| steps.help(CUT_STEPS)))]
    #[command(mut_arg("between", |range| range.help(CUT_BETWEEN)))]
    Cut(CutArgs),
    /// Merge the traces of all ranks into one file for trace viewers
    ///
    /// Works like Composer's merge, but for any number of ranks and any traces: all ranks share one clock, and each
    /// rank is a process. The originals are never overwritten. To analyze a run, pass the directory with the original
    /// traces instead: they contain more.
    #[command(after_help = examples::MERGE)]
    Merge(MergeArgs),
    /// Convert a run of any size to Parquet
    ///
    /// Ranks are converted one by one. The directory that is written is a run: `check`, `sql`, `analyze`, `diff` and
    /// `tables` read it in place of the traces, and much faster. Other programs can read its tables,
    /// DIR/kernels/*.parquet.
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Compute a part of the work of `check` for a run with many ranks, on one of several machines
    ///
    /// Converts the traces of one shard to Parquet, computes what each rank contributes to a check, and writes both to DIR, a
    /// directory or an address such as `s3://bucket/prefix/`. Traces that are there already are skipped, so a shard
    /// that was interrupted, or a run to which ranks were added, is continued with the same command. Shards need not know of
    /// each other: any scheduler can run them, in any order and more than once. `advisor check PATH --from DIR` then
    /// puts the run together.
    #[command(after_help = examples::MAP)]
    Map(MapArgs),
    /// Check a run again whenever its files change, and report what is new, worse or gone
    ///
    /// The first check prints the whole report; later ones print what changed since the check before. Files that are still being
    /// written, and a run that does not exist yet, are waited for. A run in a store is listed at each look.
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Draw a step in the terminal: threads, launches, streams, waits, and where a finding occurs
    ///
    /// Each line is a lane, each character a part of the step: its letter is what takes most time in that part, small if
    /// that is less than half of it. The step is the one in which the finding is worst; without findings, the longest
    /// but the first. --ranks selects another rank.
    #[command(after_help = examples::TIMELINE)]
    Timeline(TimelineArgs),
    /// Open a trace of a run in the Perfetto UI
    ///
    /// Serves the trace to the Perfetto UI from a local web server that exits after one download. The page runs in
    /// your browser, and the trace does not leave your machine. The address to open is printed to stdout. If the run
    /// has several ranks, the lowest is opened; --ranks selects another one. --between sets the time range that the UI
    /// shows at first.
    #[command(after_help = examples::OPEN)]
    #[command(mut_arg("steps", hide), mut_arg("streams", hide), mut_arg("pattern", hide))]
    #[command(mut_arg("between", |range| range.help(SHOWN_FIRST)))]
    Open(OpenArgs),
    /// Describe tables and views, or show what was read from a run
    #[command(after_help = examples::TABLES)]
    Tables(TablesArgs),
    /// Explain a rule: what it measures, why it matters, and what to do
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// List and test rules, measure how often they fire, and write their documentation
    #[command(after_help = examples::RULES)]
    Rules(RulesArgs),
    /// Create the rule file of a project, `advisor.toml`
    ///
    /// Everything in it is commented out: nothing changes until you edit it. All commands that evaluate rules find it
    /// in the current directory and in the directories above, up to the root of the repository.
    #[command(after_help = examples::INIT)]
    Init(InitArgs),
    /// Print the JSON schema of reports or rule files
    #[command(after_help = examples::SCHEMA)]
    Schema(SchemaArgs),
    /// Generate the traces of a simulated run with a known bottleneck
    ///
    /// The traces are compressed with gzip unless --json is given.
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Show or clean the cache
    #[command(after_help = examples::CACHE)]
    Cache(CacheCommandArgs),
    /// Print completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print a manual page, or write those of all commands
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
}

/// Help of `advisor open --between`.
const SHOWN_FIRST: &str =
    "Show this time range first, counted from the first event of the run: `10ms..50ms`";

/// Help of `advisor cut --steps`.
const CUT_STEPS: &str = "The time range of these steps, such as `5`, `5-8` or `5..`";
/// Help of `advisor cut --between`.
const CUT_BETWEEN: &str = "This time range, counted from the first event of the run: `10ms..50ms`";

/// Hides an option that has no effect on a command.
fn hide(option: clap::Arg) -> clap::Arg {
    option.hide(true)
}

impl Command {
    /// Paths that the command may read runs from.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        match self {
            Self::Check(args) => args.paths.clone(),
            Self::Sql(args) => vec![args.run.path.clone()],
            Self::Watch(args) => vec![args.run.path.clone()],
            Self::Timeline(args) => vec![args.run.path.clone()],
            // Either may be the path.
            Self::Analyze(args) => {
                args.name.iter().map(PathBuf::from).chain(args.path.clone()).collect()
            }
            Self::Diff(args) => vec![args.before.clone(), args.after.clone()],
            Self::Rules(RulesArgs { command: Some(RulesCommand::Stats(stats)), .. }) => {
                stats.paths.clone()
            }
            _ => Vec::new(),
        }
    }

    /// The file that the result of the command is written to.
    pub(crate) fn output(&self) -> Option<&OutputArgs> {
        match self {
            Self::Check(args) => Some(&args.output),
            Self::Sql(args) => Some(&args.rows.output),
            Self::Analyze(args) => Some(&args.rows.output),
            Self::Diff(args) => Some(&args.output),
            Self::Timeline(args) => Some(&args.output),
            Self::Rules(RulesArgs { command: Some(RulesCommand::Stats(stats)), .. }) => {
                Some(&stats.output)
            }
            _ => None,
        }
    }

    /// The ending of that file, if it promises a format that the command does not write.
    pub(crate) fn broken_promise(&self) -> Option<BrokenPromise> {
        match self {
            Self::Check(args) => args.output.broken_promise(args.format),
            Self::Sql(args) => args.rows.output.broken_promise(args.rows.format),
            Self::Analyze(args) => args.rows.output.broken_promise(args.rows.format),
            Self::Diff(args) => args.output.broken_promise(args.format),
            Self::Timeline(args) => args.output.broken_promise(args.format),
            Self::Rules(RulesArgs { command: Some(RulesCommand::Stats(stats)), .. }) => {
                stats.output.broken_promise(stats.format)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::Args;

    #[test]
    fn args_are_consistent() {
        Args::command().debug_assert();
    }

    /// The words of a command line, without redirections.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(['<', '>']).next().unwrap();
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn examples_in_help_parse() {
        let program = Args::command();
        let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
        for command in commands.chain([&program]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().filter_map(|line| {
                let line = line.split("    ").next().unwrap().rsplit(" | ").next().unwrap();
                line.trim().strip_prefix("advisor ").map(|_| line.trim())
            });
            let examples: Vec<&str> = examples.collect();
            assert!(!examples.is_empty(), "{} has no examples", command.get_name());
            for example in examples {
                if let Err(error) = Args::try_parse_from(words(example)) {
                    panic!("{example}: {error}");
                }
            }
        }
    }

    #[test]
    fn options_with_defaults_say_so_like_clap() {
        let mut program = Args::command();
        program.build();
        for command in program.get_subcommands() {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.contains("unless"), "{} {argument}: {help}", command.get_name());
            }
        }
    }
}
