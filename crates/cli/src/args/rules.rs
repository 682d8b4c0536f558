//! Commands about rules: `explain`, `rules`, `init` and `schema`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::groups::{FileFormat, OutputArgs, RuleArgs, RuleFileArgs};
use super::headings::{INPUT, OUTPUT, RULES};

/// `advisor explain`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Code (IN001) or name (dataloader-wait) of the rule; without it, list all rules
    #[arg(value_name = "RULE")]
    pub(crate) rule: Option<String>,
    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
}

/// `advisor rules`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RulesCommand>,
    /// Same as `advisor schema rules`
    #[arg(long, hide = true)]
    pub(crate) schema: bool,
}

/// The subcommands of `advisor rules`.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List all rules and what they find; rules that are not evaluated are marked
    List(RuleListArgs),
    /// Print the definition of a rule as rule files contain it
    Show(RuleShowArgs),
    /// Run the tests that rule files contain, and the queries of rules on a simulated run
    Test(TestArgs),
    /// Check many runs and print how often each rule fires and what it costs
    Stats(StatsArgs),
    /// Same as `advisor schema rules`
    #[command(hide = true)]
    Schema,
    /// Write one page per rule, with the text of `advisor explain`, and an index
    ///
    /// Existing pages are overwritten, other files are not. Pages of rules that no longer exist are reported.
    Docs {
        #[command(flatten)]
        rules: RuleFileArgs,
        /// Directory to write to; created if it does not exist
        #[arg(id = "output", long = "output", short = 'o', alias = "to", value_name = "DIR", help_heading = OUTPUT)]
        directory: PathBuf,
    },
}

/// `advisor rules list`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RuleListArgs {
    /// Print metrics and thresholds too, as on wide terminals
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) thresholds: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// `advisor rules show`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RuleShowArgs {
    /// Code (IN001) or name (dataloader-wait) of the rule
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
}

/// `advisor rules test`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TestArgs {
    /// Rule files, on top of the built-in rules [default: advisor.toml, if there is one]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Use only the rules of FILE, not the built-in ones
    #[arg(long, requires = "files", help_heading = RULES)]
    no_default_rules: bool,
    /// Do not look for advisor.toml
    #[arg(long, help_heading = RULES)]
    no_config: bool,
}

impl TestArgs {
    /// The rule files, as other commands name them by options.
    pub(crate) fn rule_files(&self) -> RuleFileArgs {
        let Self { files, no_default_rules, no_config } = self;
        RuleFileArgs {
            files: files.clone(),
            no_config: *no_config,
            no_default_rules: *no_default_rules,
        }
    }
}

/// `advisor rules stats`.
#[derive(Debug, ClapArgs)]
pub(crate) struct StatsArgs {
    /// Runs: trace files, or directories with the traces of all ranks
    #[arg(required = true, value_name = "RUN")]
    pub(crate) paths: Vec<PathBuf>,
    /// Output format [default: by the extension of FILE, else text]
    #[arg(long, short, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<StatsFormat>,
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
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = INPUT)]
    pub(crate) healthy: Option<PathBuf>,
    /// Number of runs to check at once, all held in memory [default: 1, with --no-times the number of cores up to 4]
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) jobs: Option<usize>,
}

impl StatsArgs {
    /// The format of the rates.
    pub(crate) fn format(&self) -> StatsFormat {
        self.output.format(self.format)
    }
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

impl FileFormat for StatsFormat {
    const ENDINGS: &'static [(&'static str, Self)] =
        &[(".txt", Self::Text), (".json", Self::Json), (".md", Self::Markdown)];
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
