//! The command line, declared: one file per group of commands, options that several share in `groups`.

mod check;
mod diff;
mod groups;
mod headings;
mod query;
mod rules;
mod traces;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use check::{CheckArgs, ReportFormat};
pub(crate) use diff::{DiffArgs, DiffFailOn, DiffFormat, DiffLevel, DiffSort, HtaEvents};
pub(crate) use groups::{
    Audience, CacheArgs, InputArgs, OutputArgs, ReadArgs, RowFormat, RowOutputArgs, RuleArgs,
    SelectionArgs,
};
pub(crate) use query::{AnalyzeArgs, SqlArgs, TablesArgs};
pub(crate) use rules::{
    ExplainArgs, InitArgs, RulesArgs, RulesCommand, SchemaArgs, SchemaDocument, StatsArgs,
    StatsFormat,
};
pub(crate) use traces::{AugmentArgs, AugmentTrack, DemoArgs, ExportArgs, MergeArgs, OpenArgs};

/// Why is this PyTorch training run slow? Reads PyTorch Profiler traces and tells you what to fix first.
#[derive(Debug, Parser)]
#[command(name = "advisor", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Try it: advisor demo -o run/ && advisor check run/")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a run and list what to fix, most useful first
    ///
    /// Exit code: 0 without findings at or above --fail-on, 1 with such findings, 2 if the run cannot be
    /// checked. With --baseline, only new and worse findings count.
    Check(CheckArgs),
    /// Query a run with SQL: run a single query, or start an interactive shell
    Sql(SqlArgs),
    /// Print one of the built-in analyses of a run
    Analyze(AnalyzeArgs),
    /// Compare two runs: what got slower or faster, what was added or removed
    ///
    /// A step is broken down in two ways, each of which adds up to the step: by what the host does, where each moment
    /// counts for the innermost range that makes progress, and by what the GPU does. Kernels, runtime calls and
    /// operators are matched even if a version or vendor renamed them; such matches are marked.
    ///
    /// The verdict compares the change of the median step with how much steps vary: regression, improvement,
    /// unchanged or inconclusive.
    ///
    /// Exit code: 0, or 1 if the verdict is one that --fail-on names, or 2 if the runs cannot be compared.
    Diff(DiffArgs),
    /// Add counters, critical path and findings to copies of the traces
    ///
    /// The copies open in Perfetto (ui.perfetto.dev) and in `chrome://tracing`. Their paths are printed to stdout. They
    /// are compressed like the originals unless --gz or --json is given. The originals are never overwritten.
    Augment(AugmentArgs),
    /// Merge the traces of all ranks into one file for trace viewers
    ///
    /// Works like Composer's merge, but for any number of ranks and any traces: all ranks share one clock, and each
    /// rank is a process. The originals are never overwritten. To analyze a run, pass the directory with the original
    /// traces instead: they contain more.
    Merge(MergeArgs),
    /// Convert a run of any size to Parquet
    ///
    /// Ranks are converted one by one. The directory that is written is a run: `check`, `sql`, `analyze`, `diff` and
    /// `tables` read it in place of the traces, and much faster. Other programs can read its tables,
    /// DIR/kernels/*.parquet. See docs/export.md.
    Export(ExportArgs),
    /// Open a trace of a run in the Perfetto UI
    ///
    /// Serves the trace to the Perfetto UI from a local web server that exits after one download. The page runs in
    /// your browser, and the trace does not leave your machine. The address to open is printed to stdout. If the run
    /// has several ranks, the lowest is opened; --ranks selects another one.
    Open(OpenArgs),
    /// Describe tables and views, or show what was read from a run
    Tables(TablesArgs),
    /// Explain a rule: what it measures, why it matters, and what to do
    Explain(ExplainArgs),
    /// List and test rules, measure how often they fire, and write their documentation
    Rules(RulesArgs),
    /// Create a commented rule file to start from
    Init(InitArgs),
    /// Print the JSON schema of reports or rule files
    Schema(SchemaArgs),
    /// Generate the traces of a simulated run with a known bottleneck
    ///
    /// The traces are compressed with gzip unless --json is given.
    Demo(DemoArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Args;

    #[test]
    fn args_are_consistent() {
        Args::command().debug_assert();
    }
}
