//! What can be asked: the command line, declared.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use regex::Regex;
use trace_advisor::advisor::FailOn;
use trace_advisor::analyses::diff::Steps;
use trace_advisor::analyses::{Range, Ranges};

use crate::demo::Bottleneck;
use crate::memory;
use crate::output::Reader;

const INPUT: &str = "Input";
const PART: &str = "Part of the run";
const RULES: &str = "Rules";
const COMPARISON: &str = "Comparison";
const OUTPUT: &str = "Output";
const LOGGING: &str = "Logging";

/// Why is this PyTorch training run slow? Reads profiler traces and says what to fix first.
#[derive(Debug, Parser)]
#[command(name = "advisor", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Try it: advisor demo -o run/ && advisor check run/")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Judge a run and print what to fix, most useful first
    ///
    /// Exit code: 0 if there are no findings at or above --fail-on, 1 if there are, 2 if the run
    /// could not be judged. With --baseline, only new and worse findings count.
    Check(Check),
    /// Ask a run questions in SQL: one query, or an interactive shell
    Sql(Sql),
    /// Print one of the built-in analyses of a run
    Analyze(Analyze),
    /// Compare two runs: what got slower or faster, what came and went, and what that did to a step
    ///
    /// A step is compared in two ways that each add up to it: what the host does, each moment under the
    /// innermost range that makes progress, and what the device does. Names of kernels, calls and
    /// operators are matched although versions and vendors rename them; such a match is marked.
    ///
    /// The change of the median step is held against how much steps vary: the verdict is regression,
    /// improvement, unchanged or inconclusive.
    ///
    /// Exit code: 0; 1 if the verdict is one that --fail-on names; 2 if the runs could not be compared.
    Diff(Diff),
    /// Copy the traces of a run with tracks for trace viewers: counters, critical path, findings
    ///
    /// The copies open in Perfetto (ui.perfetto.dev) and in the tracing page of Chrome. Their paths go to stdout.
    Augment(Augment),
    /// Merge the traces of all ranks into one, for trace viewers
    ///
    /// As Composer merges its own, for any number of ranks and any traces: all on one clock, the rank as process.
    /// To analyse a run, give the folder with the traces themselves: they say more.
    Merge(Merge),
    /// Convert a run to Parquet, of any size, rank by rank
    ///
    /// The folder is a run: `check`, `sql`, `analyze`, `diff` and `tables` read it in place of the traces, and much
    /// faster. Other programs read its tables: DIR/kernels/*.parquet. See docs/export.md.
    Export(Export),
    /// Open a trace of a run in the Perfetto UI
    ///
    /// A server on this machine hands the trace, and nothing else, to the page, and ends when that is done. The
    /// page runs in the browser; the trace is sent nowhere. The address to open goes to stdout.
    Open(Open),
    /// Describe tables and views, or say what was read from a run
    Tables(Tables),
    /// Explain a rule: what it measures, why it matters, what to do
    Explain(Explain),
    /// List rules, run their tests, write their pages, print the schema of rule files
    Rules(Rules),
    /// Write a rule file to start from, with comments
    Init(Init),
    /// Print the JSON schema of reports or of rule files
    Schema(Schema),
    /// Write the traces of a simulated run with a known bottleneck
    Demo(Demo),
}

/// How files are read.
#[derive(Debug, ClapArgs)]
pub(crate) struct Files {
    /// Read the Nth profile cycle of each rank; by default the last
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) cycle: Option<usize>,
    /// Read Determined's metrics of trial N; by default of the one that ran with the traces, else the newest
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) trial: Option<i64>,
    /// Refuse compressed files with more than this many bytes of JSON
    #[arg(long, value_name = "BYTES", help_heading = INPUT)]
    pub(crate) max_json_bytes: Option<u64>,
    /// Give up on a store or server that does not answer for so long (30 unless set)
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = INPUT)]
    pub(crate) timeout: Option<Duration>,
}

/// What is kept of a run for the next time.
#[derive(Debug, ClapArgs)]
pub(crate) struct CacheChoice {
    /// Keep what is found out about runs in DIR for the next time, at most 10 GiB (by default in the user's folder for
    /// caches; the environment variable `ADVISOR_CACHE_DIR` names another, or none if it is empty)
    #[arg(long, value_name = "DIR", help_heading = INPUT)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Neither use nor keep what was found out before
    #[arg(long, conflicts_with = "cache_dir", help_heading = INPUT)]
    pub(crate) no_cache: bool,
}

/// How a run is read.
#[derive(Debug, ClapArgs)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) files: Files,
    /// Memory for tables and queries, e.g. 4GiB or 512MB (half of what the machine has unless set). A run that may
    /// take more is computed a few ranks at a time, from Parquet; traces are converted first, in the cache or
    /// in the folder for temporary files
    #[arg(long, value_name = "SIZE", value_parser = memory::bytes, help_heading = INPUT)]
    pub(crate) memory_limit: Option<u64>,
    #[command(flatten)]
    pub(crate) cache: CacheChoice,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Set a parameter of the analyses, e.g. `short_kernel_us=10`
    #[arg(long = "set", value_name = "NAME=VALUE", help_heading = INPUT)]
    pub(crate) set: Vec<String>,
    /// Table of devices with their peaks (TOML), read before the shipped one (`advisor tables --device-table`)
    #[arg(long, value_name = "FILE", help_heading = INPUT)]
    pub(crate) devices: Option<PathBuf>,
    /// Count the last step too, although the recording may cut it off
    #[arg(long, help_heading = INPUT)]
    pub(crate) include_last_step: bool,
    /// Print what each stage took to stderr
    #[arg(long, help_heading = LOGGING)]
    pub(crate) timings: bool,
}

/// A time, not zero.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.trim().trim_end_matches('s').parse::<f64>().ok();
    let time = time.and_then(|t| Duration::try_from_secs_f64(t).ok()).filter(|t| !t.is_zero());
    time.ok_or_else(|| "not a number of seconds".into())
}

/// Which part of a run is asked about.
#[derive(Debug, ClapArgs)]
pub(crate) struct Part {
    /// Only these ranks: `0-3,8`
    #[arg(long, value_name = "LIST", help_heading = PART)]
    pub(crate) ranks: Option<Ranges>,
    /// Only what belongs to these steps: `5`, `5-8`, `5..`
    #[arg(long, value_name = "RANGE", help_heading = PART)]
    pub(crate) steps: Option<Range>,
    /// Only events in a stretch of time, counted from the first event of the run: `10ms..50ms`
    #[arg(long, value_name = "FROM..TO", value_parser = Range::time, help_heading = PART)]
    pub(crate) between: Option<Range>,
    /// Only device work on these streams: `7,20-24`
    #[arg(long, value_name = "LIST", help_heading = PART)]
    pub(crate) streams: Option<Ranges>,
    /// Only events whose name matches a regular expression
    #[arg(long = "name", id = "pattern", value_name = "REGEX", help_heading = PART)]
    pub(crate) name: Option<Regex>,
}

/// Which rules are used.
#[derive(Debug, ClapArgs)]
pub(crate) struct RuleFiles {
    /// Rule file that changes or extends the shipped rules; may be repeated
    #[arg(long = "rules", value_name = "FILE", help_heading = RULES)]
    pub(crate) files: Vec<PathBuf>,
    /// Use only the rules of --rules
    #[arg(long, requires = "files", help_heading = RULES)]
    pub(crate) no_default_rules: bool,
}

/// Which rules judge.
#[derive(Debug, ClapArgs)]
pub(crate) struct RuleChoice {
    #[command(flatten)]
    pub(crate) files: RuleFiles,
    /// Only these rules: codes (IN001), beginnings of codes (IN), names or categories, or ALL; goes
    /// before `select` of rule files
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = RULES)]
    pub(crate) select: Option<Vec<String>>,
    /// Not these rules, whatever is selected; goes before `ignore` of rule files
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = RULES)]
    pub(crate) ignore: Option<Vec<String>>,
}

/// Where rows go and how they look.
#[derive(Debug, ClapArgs)]
pub(crate) struct Rows {
    /// How rows are written
    #[arg(long, short, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: RowFormat,
    #[command(flatten)]
    pub(crate) to: To,
}

/// A file to write to.
#[derive(Debug, ClapArgs)]
pub(crate) struct To {
    /// Write to FILE instead of the terminal
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// Formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RowFormat {
    /// For people: aligned columns
    #[default]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects
    Json,
    /// Parquet file
    Parquet,
    /// Arrow IPC file
    Arrow,
}

impl RowFormat {
    /// Who reads it.
    pub(crate) fn reader(self) -> Reader {
        if self == Self::Table { Reader::Person } else { Reader::Program }
    }

    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}

/// Formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// For programs: a versioned promise, see `advisor schema report`
    Json,
    /// JSON lines: one finding a line, with its run
    Jsonl,
    /// For comments on pull requests
    Markdown,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
    /// JUnit XML: one test case a rule
    Junit,
    /// Comma-separated values: one finding a row
    Csv,
}

impl ReportFormat {
    /// Who reads it.
    pub(crate) fn reader(self) -> Reader {
        if self == Self::Text { Reader::Person } else { Reader::Program }
    }

    /// Whether it leaves out what could not be read, so that it is to be told beside it.
    pub(crate) fn has_no_warnings(self) -> bool {
        !matches!(self, Self::Json | Self::Sarif)
    }
}

/// `advisor check`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// A run: a trace file, or the folder with the traces of all ranks; a path, or an address (s3://,
    /// gs://, az://, https://). Several are judged one by one
    #[arg(required = true, value_name = "PATH", help_heading = INPUT)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) rules: RuleChoice,
    /// Hide findings that could return less than this many percent of the step time
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = RULES)]
    pub(crate) min_gain: Option<f64>,
    /// Hold the findings against an earlier report, as --format json wrote it: only new and worse ones
    /// make the exit code 1
    #[arg(long, value_name = "FILE", help_heading = RULES)]
    pub(crate) baseline: Option<PathBuf>,
    /// Least severity that makes the exit code 1 (medium, unless a rule file says otherwise)
    #[arg(long, value_enum, value_name = "SEVERITY", help_heading = OUTPUT)]
    pub(crate) fail_on: Option<FailOn>,
    /// Exit with 0 whatever is found; as --fail-on never
    #[arg(long, conflicts_with = "fail_on", help_heading = OUTPUT)]
    pub(crate) exit_zero: bool,
    /// How the report is written
    #[arg(long, short, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) to: To,
    /// Show info findings, notes about the trace, passed rules and all evidence too
    #[arg(long, short = 'v', visible_short_alias = 'a', help_heading = OUTPUT)]
    pub(crate) all: bool,
    /// Say after each finding which queries give its numbers, as commands to run (text and Markdown; JSON
    /// always has them)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) explain: bool,
}

/// `advisor sql`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sql {
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    /// The query; without, an interactive shell, or queries from stdin
    #[arg(value_name = "QUERY", help_heading = INPUT)]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) rows: Rows,
}

/// `advisor analyze`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Analyze {
    /// The analysis; without, they are listed
    #[arg(value_name = "NAME", help_heading = INPUT)]
    pub(crate) name: Option<String>,
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: Option<PathBuf>,
    /// List the analyses by topic
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) rows: Rows,
}

/// `advisor diff`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Diff {
    /// The run before: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "BEFORE", help_heading = INPUT, display_order = 1)]
    pub(crate) before: PathBuf,
    /// The run after
    #[arg(value_name = "AFTER", help_heading = INPUT, display_order = 2)]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Steps of the run before: all, first, or numbers and ranges such as 3,5-8 or 5..; by default all
    /// complete ones. They need not have the numbers of those after
    #[arg(long, value_name = "STEPS", help_heading = INPUT)]
    pub(crate) before_steps: Option<Steps>,
    /// Steps of the run after
    #[arg(long, value_name = "STEPS", help_heading = INPUT)]
    pub(crate) after_steps: Option<Steps>,
    /// Ranks of the run before, e.g. 0,3; by default those that both runs have, else all
    #[arg(long, value_name = "RANKS", value_delimiter = ',', help_heading = INPUT)]
    pub(crate) before_ranks: Option<Vec<i32>>,
    /// Ranks of the run after
    #[arg(long, value_name = "RANKS", value_delimiter = ',', help_heading = INPUT)]
    pub(crate) after_ranks: Option<Vec<i32>>,
    #[command(flatten)]
    pub(crate) rules: RuleChoice,
    /// Only rows of this level; may be repeated
    #[arg(long = "level", value_enum, value_name = "LEVEL", help_heading = COMPARISON)]
    pub(crate) levels: Vec<DiffLevel>,
    /// Times that differ by less than this many percent are unchanged
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = percent, help_heading = COMPARISON)]
    pub(crate) tolerance: f64,
    /// Kernels by their names without template arguments and parameters
    #[arg(long, help_heading = COMPARISON)]
    pub(crate) short_names: bool,
    /// The table of HTA's `compare_traces` instead: the first step of the first rank, names as
    /// written, whatever their level
    #[arg(
        long, value_enum, value_name = "EVENTS", num_args = 0..=1, require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["levels", "fail_on", "fail_on_regression", "files"],
        help_heading = COMPARISON
    )]
    pub(crate) hta: Option<HtaEvents>,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t, value_name = "KEY", help_heading = OUTPUT)]
    pub(crate) sort: DiffSort,
    /// At most this many rows a section (10 unless set), or in all where no person reads them
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub(crate) limit: Option<usize>,
    /// Verdict that makes the exit code 1
    #[arg(long, value_enum, value_name = "VERDICT", help_heading = OUTPUT)]
    pub(crate) fail_on: Option<DiffFailOn>,
    /// As --fail-on regression, with another change that counts than 5 percent of the median step
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = OUTPUT)]
    pub(crate) fail_on_regression: Option<f64>,
    /// How the comparison is written
    #[arg(long, short, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: DiffFormat,
    #[command(flatten)]
    pub(crate) to: To,
}

/// A number of percent, not negative.
fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    value
        .ok()
        .filter(|v| v.is_finite() && *v >= 0.0)
        .ok_or_else(|| "not a number of percent".into())
}

/// Which verdict fails a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFailOn {
    /// The step got slower
    Regression,
    /// The step got slower, or that cannot be told
    Inconclusive,
    /// None
    Never,
}

/// What kind of thing a row of `advisor diff` is about.
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

/// Which events HTA's comparison counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HtaEvents {
    /// Host and device
    All,
    /// Host
    Cpu,
    /// Device
    Gpu,
}

/// Order of the rows of `advisor diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DiffSort {
    /// What changed the step most
    #[default]
    Impact,
    /// Difference of time
    Time,
    /// Difference of calls
    Count,
    /// Name
    Name,
}

/// Formats of `advisor diff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DiffFormat {
    /// For people
    #[default]
    Text,
    /// For programs: a versioned promise
    Json,
    /// The rows as comma-separated values with a header
    Csv,
    /// The rows as Parquet file
    Parquet,
    /// The rows as Arrow IPC file
    Arrow,
}

/// `advisor augment`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Augment {
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) rules: RuleChoice,
    /// Add only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART", help_heading = OUTPUT)]
    pub(crate) only: Vec<AugmentPart>,
    /// Folder to write to, each trace under its own name; it is made if it is not there
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Compress with gzip; by default as the traces are
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(crate) gz: bool,
    /// Do not compress
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Overwrite files in DIR; the traces themselves are never overwritten
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// `advisor merge`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Merge {
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// File to write; compressed if its name ends in `.gz`
    #[arg(long, short, value_name = "FILE", default_value = "merged_trace.json.gz", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Overwrite FILE; the traces themselves are never overwritten
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// What can be added to a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AugmentPart {
    /// Queue length of streams, bandwidth of copies, use of devices
    Counters,
    /// The critical path, with arrows between the lanes it runs along
    CriticalPath,
    /// What `check` finds, where it shows
    Findings,
}

/// `advisor export`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Folder to write to; it is made if it is not there
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) to: PathBuf,
    /// Replace DIR if it is an export; anything else is never replaced
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// Print what each stage took to stderr
    #[arg(long, help_heading = LOGGING)]
    pub(crate) timings: bool,
}

/// `advisor open`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Open {
    /// A run: a trace file, or the folder with the traces of all ranks, of which the first is opened
    #[arg(value_name = "PATH", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) rules: RuleChoice,
    /// Open a copy with counters, critical path and findings, as `augment` writes it
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) augment: bool,
    /// Port of this machine; the Perfetto UI fetches from 9001 only
    #[arg(long, value_name = "PORT", default_value_t = 9001, help_heading = OUTPUT)]
    pub(crate) port: u16,
    /// Address of the Perfetto UI, where it is not the public one
    #[arg(long, value_name = "URL", default_value = "https://ui.perfetto.dev", help_heading = OUTPUT)]
    pub(crate) ui: String,
    /// Print the address and start no browser, for instance because it is on another machine
    #[arg(long, visible_alias = "print-url", help_heading = OUTPUT)]
    pub(crate) no_browser: bool,
    /// Go on serving when the trace has been fetched
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) keep: bool,
}

/// `advisor tables`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Tables {
    /// A table or view to describe, or a run to say what was read from it
    #[arg(value_name = "NAME|PATH", help_heading = INPUT)]
    pub(crate) what: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Describe the columns of all tables and views
    #[arg(long, short = 'v', visible_short_alias = 'a', help_heading = OUTPUT)]
    pub(crate) all: bool,
    /// Print the shipped table of devices and their peaks (TOML), to copy entries from
    #[arg(long, conflicts_with_all = ["what", "all"], help_heading = OUTPUT)]
    pub(crate) device_table: bool,
    /// Print the query that a view is, with all views it needs, down to the tables
    #[arg(long, requires = "what", conflicts_with = "all", help_heading = OUTPUT)]
    pub(crate) sql: bool,
}

/// `advisor explain`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Code (IN001) or name (dataloader-wait) of a rule
    #[arg(value_name = "RULE", help_heading = INPUT)]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) rules: RuleFiles,
}

/// `advisor rules`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Rules {
    #[command(subcommand)]
    pub(crate) command: Option<RulesCommand>,
    /// Print the JSON schema of rule files, for editors
    #[arg(long)]
    pub(crate) schema: bool,
}

/// `advisor schema`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Schema {
    /// Of what
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) what: SchemaOf,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// What `advisor check --format json` prints for one run
    Report,
    /// Rule files
    Rules,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List all rules with their metrics and thresholds; those that do not judge are marked
    List(RuleChoice),
    /// Run the tests that rules bring along
    Test {
        /// Rule files, on top of the shipped rules
        #[arg(value_name = "FILE", help_heading = RULES)]
        files: Vec<PathBuf>,
        /// Use only the rules of FILE
        #[arg(long, requires = "files", help_heading = RULES)]
        no_default_rules: bool,
    },
    /// Judge many runs and print how often each rule fires, and what it costs
    Stats(Stats),
    /// Print the JSON schema of rule files, for editors
    Schema,
    /// Write a page for each rule, the text of `advisor explain`, and a table of contents
    ///
    /// Pages are overwritten, other files are not; pages of rules that are no more are named.
    Docs {
        #[command(flatten)]
        rules: RuleFiles,
        /// Folder to write to; it is made if it is not there
        #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
        to: PathBuf,
    },
}

/// `advisor rules stats`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// A run: a trace file, or the folder with the traces of all ranks
    #[arg(required = true, value_name = "RUN", help_heading = INPUT)]
    pub(crate) paths: Vec<PathBuf>,
    /// Each folder below RUN that holds traces is a run of its own
    #[arg(long, help_heading = INPUT)]
    pub(crate) each: bool,
    /// List of runs that count as healthy: `run: reason`, one a line
    #[arg(long, value_name = "FILE", help_heading = INPUT)]
    pub(crate) healthy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: RuleFiles,
    /// Judge so many runs at once, each of which is in memory; by default one if times are measured, else
    /// as many as there are cores, at most four
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) jobs: Option<usize>,
    /// Leave out what rules cost: the only thing that differs from one call to the next
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_times: bool,
    /// How the rates are written
    #[arg(long, short, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: StatsFormat,
    #[command(flatten)]
    pub(crate) to: To,
}

/// Formats of `advisor rules stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For documents
    Markdown,
}

/// `advisor init`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Init {
    /// Folder for `advisor.toml`
    #[arg(value_name = "DIR", default_value = ".", help_heading = OUTPUT)]
    pub(crate) dir: PathBuf,
    /// Overwrite `advisor.toml` if it exists
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// `advisor demo`.
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Demo {
    /// What slows the run down
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bottleneck: Bottleneck,
    /// Number of ranks; one trace each
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) ranks: u32,
    /// Number of recorded steps; by default 6, and 8 with a straggler, whom fewer do not tell from chance if it
    /// has only one other rank
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u32>,
    /// Number of transformer blocks: the size of a step
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) layers: u32,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Record Python stacks and modules too
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Compress with gzip (the default)
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(crate) gz: bool,
    /// Do not compress
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Folder to write to; it is made if it is not there
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) output: PathBuf,
    /// Write into a folder that is not empty
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Args;

    #[test]
    fn is_consistent() {
        Args::command().debug_assert();
    }
}
