//! `advisor diff`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use trace_advisor::compare::Steps;

use super::groups::{DamageArg, FileFormat, OutputArgs, ReadArgs, RuleArgs};
use super::headings::{COMPARISON, OUTPUT};
use super::values::percent;

/// `advisor diff`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DiffArgs {
    /// Run before the change: a trace file, a memory snapshot, or a directory with the traces of all ranks
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// Run after the change
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// Output format [default: by the extension of FILE, else text]
    #[arg(long, short, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<DiffFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Sort order of the rows
    #[arg(long, value_enum, default_value_t, value_name = "KEY", help_heading = OUTPUT)]
    pub(crate) sort: DiffSort,
    /// Print text with whole names and all columns, however long the lines get
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) wide: bool,
    /// Maximum number of rows per section [default: 10 as text, all in other formats]
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub(crate) limit: Option<usize>,
    /// Exit with code 1 for this verdict
    #[arg(long, value_enum, value_name = "VERDICT", help_heading = OUTPUT)]
    pub(crate) fail_on: Option<DiffFailOn>,
    /// Like `--fail-on regression`, but with this threshold [default: 5]
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = OUTPUT)]
    pub(crate) fail_on_regression: Option<f64>,
    /// Exit with code 1 if the peak memory of a device grows by this percentage or more
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = OUTPUT)]
    pub(crate) fail_on_memory: Option<f64>,
    /// Steps of the run before: `all`, `first`, or numbers and ranges such as `3,5-8` or `5..` [default: all complete
    /// steps]
    ///
    /// Step numbers of the two runs may differ.
    #[arg(long, value_name = "STEPS", help_heading = COMPARISON)]
    pub(crate) before_steps: Option<Steps>,
    /// Steps of the run after
    #[arg(long, value_name = "STEPS", help_heading = COMPARISON)]
    pub(crate) after_steps: Option<Steps>,
    /// Ranks of the run before, such as `0,3` [default: the ranks that both runs have, else all]
    #[arg(long, value_name = "RANKS", value_delimiter = ',', help_heading = COMPARISON)]
    pub(crate) before_ranks: Option<Vec<i32>>,
    /// Ranks of the run after
    #[arg(long, value_name = "RANKS", value_delimiter = ',', help_heading = COMPARISON)]
    pub(crate) after_ranks: Option<Vec<i32>>,
    /// Show only rows of this level; may be repeated
    #[arg(long = "level", value_enum, value_name = "LEVEL", help_heading = COMPARISON)]
    pub(crate) levels: Vec<DiffLevel>,
    /// Treat times that differ by less than this percentage as unchanged
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = percent, help_heading = COMPARISON)]
    pub(crate) tolerance: f64,
    /// Match kernels by name without template arguments and parameters
    #[arg(long, help_heading = COMPARISON)]
    pub(crate) short_names: bool,
    /// Print the table of HTA's `compare_traces` instead
    ///
    /// Compares the first step of the first rank. Names are compared as written, at all levels.
    #[arg(
        long, value_enum, value_name = "EVENTS", num_args = 0..=1, require_equals = true, hide_short_help = true,
        default_missing_value = "all",
        conflicts_with_all = ["levels", "fail_on", "fail_on_regression", "fail_on_memory", "files"],
        help_heading = COMPARISON
    )]
    pub(crate) hta: Option<HtaEvents>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) damage: DamageArg,
}

impl DiffArgs {
    /// The format of the comparison.
    pub(crate) fn format(&self) -> DiffFormat {
        self.output.format(self.format)
    }
}

/// The verdict that fails a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFailOn {
    /// The step got slower
    Regression,
    /// The step got slower, the comparison is inconclusive, or the runs are not comparable
    Inconclusive,
    /// No verdict fails the comparison
    Never,
}

/// The kind of event that a row of `advisor diff` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum DiffLevel {
    Operator,
    Runtime,
    Annotation,
    Python,
    Module,
    Span,
    Kernel,
    Copy,
    Fill,
    Sync,
    DeviceAnnotation,
}

/// The events that HTA's comparison counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HtaEvents {
    /// Host and GPU events
    All,
    /// Host events
    Cpu,
    /// GPU events
    Gpu,
}

/// Sort order of the rows of `advisor diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DiffSort {
    /// Effect on the step time, largest first
    #[default]
    Impact,
    /// Change in time, largest first
    Time,
    /// Change in number of calls, largest first
    Count,
    /// Name
    Name,
}

/// Formats of `advisor diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON with a stable, versioned schema
    Json,
    /// One HTML page: both steps, the verdict and what moved; opens without a network
    Html,
    /// Markdown for pull request comments
    Markdown,
    /// Annotations for GitHub Actions
    Github,
    /// JUnit XML: the step time, memory, the rules about comparisons, the measures
    Junit,
    /// The rows as comma-separated values with a header
    Csv,
    /// The rows as a Parquet file
    Parquet,
    /// The rows as an Arrow IPC file
    Arrow,
}

impl FileFormat for DiffFormat {
    const ENDINGS: &'static [(&'static str, Self)] = &[
        (".txt", Self::Text),
        (".html", Self::Html),
        (".htm", Self::Html),
        (".json", Self::Json),
        (".md", Self::Markdown),
        (".xml", Self::Junit),
        (".csv", Self::Csv),
        (".parquet", Self::Parquet),
        (".arrow", Self::Arrow),
    ];
}
