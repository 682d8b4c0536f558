//! Commands about rules: `explain`, `rules`, `init` and `schema`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::groups::{OutputArgs, RuleArgs, RuleFileArgs};
use super::headings::{INPUT, OUTPUT, RULES};

/// `advisor explain`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Code (IN001) or name (dataloader-wait) of the rule
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
}

/// `advisor rules`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RulesCommand>,
    /// Print the JSON schema of rule files, for editors
    #[arg(long)]
    pub(crate) schema: bool,
}

/// The subcommands of `advisor rules`.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List all rules with their metrics and thresholds; rules that are not evaluated are marked
    List(RuleArgs),
    /// Run the tests that rule files contain
    Test {
        /// Rule files, on top of the built-in rules
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Use only the rules of FILE, not the built-in ones
        #[arg(long, requires = "files", help_heading = RULES)]
        no_default_rules: bool,
    },
    /// Check many runs and print how often each rule fires and what it costs
    Stats(StatsArgs),
    /// Print the JSON schema of rule files, for editors
    Schema,
    /// Write one page per rule, with the text of `advisor explain`, and an index
    ///
    /// Existing pages are overwritten, other files are not. Pages of rules that no longer exist are reported.
    Docs {
        #[command(flatten)]
        rules: RuleFileArgs,
        /// Directory to write to; created if it does not exist
        #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
        to: PathBuf,
    },
}

/// `advisor rules stats`.
#[derive(Debug, ClapArgs)]
pub(crate) struct StatsArgs {
    /// Runs: trace files, or directories with the traces of all ranks
    #[arg(required = true, value_name = "RUN")]
    pub(crate) paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: StatsFormat,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Leave out what rules cost, the only output that differs from one call to the next
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_times: bool,
    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
    /// Treat each directory below RUN that holds traces as a run of its own
    #[arg(long, help_heading = INPUT)]
    pub(crate) each: bool,
    /// List of runs that count as healthy, one `run: reason` per line
    #[arg(long, value_name = "FILE", help_heading = INPUT)]
    pub(crate) healthy: Option<PathBuf>,
    /// Number of runs to check at once, all held in memory [default: 1, with --no-times the number of cores up to 4]
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) jobs: Option<usize>,
}

/// Formats of `advisor rules stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StatsFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON
    Json,
    /// Markdown for documents
    Markdown,
}

/// `advisor init`.
#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// Directory for `advisor.toml`
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Overwrite `advisor.toml` if it exists
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// `advisor schema`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SchemaArgs {
    /// Document to describe
    #[arg(value_enum, value_name = "DOCUMENT")]
    pub(crate) document: SchemaDocument,
}

/// The documents that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaDocument {
    /// Report of one run, as `advisor check --format json` prints it
    Report,
    /// Rule files
    Rules,
}
