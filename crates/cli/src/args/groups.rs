//! Groups of options that several commands share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{FalseyValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use regex::Regex;
use trace_advisor::ingest::Packing;
use trace_advisor::query::{Range, Ranges};

use super::headings::{INPUT, LOGGING, OUTPUT, RULES, SELECTION};
use super::values::{memory_bytes, seconds};

/// The run that a command reads.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunPathArg {
    /// Run: a trace file, or a directory with the traces of all ranks
    ///
    /// A path, an address such as `s3://bucket/run/` (also `gs://`, `az://`, `abfss://` and `https://`), or `-` for a
    /// trace on stdin.
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// The option `--allow-damaged`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DamageArg {
    /// Check runs with damaged traces instead of exiting with code 2
    ///
    /// A trace is damaged if it is truncated, or if more than 1 % of its events are invalid.
    #[arg(long, help_heading = INPUT)]
    pub(crate) allow_damaged: bool,
}

/// The option `--each`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct EachArg {
    /// Read each run at or below PATH as a run of its own
    ///
    /// A directory that holds traces is a run, or several if its traces are of several programs; so is each directory with
    /// traces below it. A run that cannot be read is an error, but the others are read.
    #[arg(long, help_heading = INPUT)]
    pub(crate) each: bool,
}

/// Options for reading files.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct InputArgs {
    /// Read the Nth profile cycle of each rank [default: the last one]
    #[arg(long, value_name = "N", help_heading = INPUT)]
    pub(crate) cycle: Option<usize>,
    /// Read Determined metrics of trial N [default: the trial that ran with the traces, else the newest]
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = INPUT)]
    pub(crate) trial: Option<i64>,
    /// Refuse compressed files with more than this many bytes of JSON, and longer traces on stdin [default on stdin: 16 GiB]
    #[arg(long, value_name = "BYTES", hide_short_help = true, help_heading = INPUT)]
    pub(crate) max_json_bytes: Option<u64>,
    /// Network timeout in seconds [default: 30]
    #[arg(
        long, value_name = "SECONDS", value_parser = seconds, env = "ADVISOR_TIMEOUT", hide_env_values = true,
        hide_short_help = true, help_heading = INPUT
    )]
    pub(crate) timeout: Option<Duration>,
}

/// The directory of the cache.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CacheDirArg {
    /// Cache directory, of at most 10 GiB; an empty value disables the cache [default: in the user's cache directory]
    #[arg(
        long = "cache-dir", value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from),
        env = "ADVISOR_CACHE_DIR", hide_env_values = true, hide_short_help = true, help_heading = INPUT
    )]
    pub(crate) cache_dir: Option<PathBuf>,
}

/// Options of the cache.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CacheArgs {
    #[command(flatten)]
    pub(crate) directory: CacheDirArg,
    /// Do not read or write the cache
    #[arg(long, help_heading = INPUT)]
    pub(crate) no_cache: bool,
}

/// Options for reading mapped ranks.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct MappedArgs {
    /// Read mapped ranks from DIR, a directory or an address that `advisor map` wrote to, instead of the traces
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = INPUT)]
    pub(crate) from: Option<PathBuf>,
    /// First map what is missing in the directory of --from on a cluster, with the program `advisor-cluster`
    #[arg(long, value_name = "df://HOST:PORT", requires = "from", hide_short_help = true, help_heading = INPUT)]
    pub(crate) cluster: Option<String>,
}

/// Options for reading a run.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Memory limit for tables and queries, such as 4GiB or 512MB [default: half of the machine's memory]
    ///
    /// A run that may need more is computed from Parquet, a few ranks at a time. Traces are converted first, in the
    /// cache or in the temporary directory.
    #[arg(
        long, value_name = "SIZE", value_parser = memory_bytes, env = "ADVISOR_MEMORY_LIMIT", hide_env_values = true,
        hide_short_help = true, help_heading = INPUT
    )]
    pub(crate) memory_limit: Option<u64>,
    #[command(flatten)]
    pub(crate) mapped: MappedArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    /// Set a parameter of the analyses, such as `short_kernel_us=10`
    #[arg(long = "set", value_name = "NAME=VALUE", hide_short_help = true, help_heading = INPUT)]
    pub(crate) set: Vec<String>,
    /// Device table with peak rates (TOML), used before the built-in one (see `advisor tables --device-table`)
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = INPUT)]
    pub(crate) devices: Option<PathBuf>,
    /// Count the last step too, although the recording may cut it off
    #[arg(long, hide_short_help = true, help_heading = INPUT)]
    pub(crate) include_last_step: bool,
    /// Print the time that each stage takes to stderr
    #[arg(long, hide_short_help = true, help_heading = LOGGING)]
    pub(crate) timings: bool,
}

/// The part of a run to read.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct SelectionArgs {
    /// Only these ranks, such as `0-3,8`
    #[arg(long, value_name = "LIST", help_heading = SELECTION)]
    pub(crate) ranks: Option<Ranges>,
    /// Only events that belong to these steps, such as `5`, `5-8` or `5..`
    #[arg(long, value_name = "RANGE", help_heading = SELECTION)]
    pub(crate) steps: Option<Range>,
    /// Only events in this time range, counted from the first event of the run: `10ms..50ms`
    #[arg(long, value_name = "FROM..TO", value_parser = Range::time, help_heading = SELECTION)]
    pub(crate) between: Option<Range>,
    /// Only GPU activities on these streams, such as `7,20-24`
    #[arg(long, value_name = "LIST", help_heading = SELECTION)]
    pub(crate) streams: Option<Ranges>,
    /// Only events whose name matches this regular expression
    #[arg(long = "name", id = "pattern", value_name = "REGEX", help_heading = SELECTION)]
    pub(crate) name: Option<Regex>,
}

/// The rule files to load.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RuleFileArgs {
    /// Rule file that changes or extends the built-in rules; may be repeated [default: advisor.toml, if there is one]
    ///
    /// By default, `advisor.toml` is read from the current directory, or the nearest directory above that has one, up
    /// to the root of the repository or the home directory.
    #[arg(long = "rules", value_name = "FILE", help_heading = RULES)]
    pub(crate) files: Vec<PathBuf>,
    /// Do not look for advisor.toml
    #[arg(
        long, env = "ADVISOR_NO_CONFIG", hide_env_values = true, value_parser = FalseyValueParser::new(),
        help_heading = RULES
    )]
    pub(crate) no_config: bool,
    /// Use only the rules from --rules, not the built-in ones
    #[arg(long, requires = "files", hide_short_help = true, help_heading = RULES)]
    pub(crate) no_default_rules: bool,
}

/// The rules to evaluate.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RuleArgs {
    #[command(flatten)]
    pub(crate) files: RuleFileArgs,
    /// Evaluate only these rules: codes (IN001), code prefixes (IN), names, categories, or ALL; overrides `select`
    /// in rule files
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = RULES)]
    pub(crate) select: Option<Vec<String>>,
    /// Leave out these rules, even if selected; overrides `ignore` in rule files
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = RULES)]
    pub(crate) ignore: Option<Vec<String>>,
    /// Evaluate rules in preview, too: those that have fired on no recording of a real program yet
    #[arg(long, help_heading = RULES)]
    pub(crate) preview: bool,
}

/// Format and destination of rows.
#[derive(Debug, ClapArgs)]
pub(crate) struct RowOutputArgs {
    /// Output format [default: by the extension of FILE, else table]
    #[arg(long, short, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<RowFormat>,
    /// Print at most N rows; 0 prints all [default: 40 on a terminal, else all]
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub(crate) limit: Option<usize>,
    /// Print names and columns whole, however long a line gets (tables)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl RowOutputArgs {
    /// The format of the rows.
    pub(crate) fn format(&self) -> RowFormat {
        self.output.format(self.format)
    }
}

/// The file that a result is written to.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct OutputArgs {
    /// Write to FILE instead of stdout
    #[arg(id = "output", long = "output", short = 'o', value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) file: Option<PathBuf>,
    /// Replace FILE if it exists
    ///
    /// It is replaced once the new one is complete. A symbolic link is replaced itself, not its target.
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    pub(crate) force: bool,
}

impl OutputArgs {
    /// The format to write: the stated format, else the format that the extension of the file stands for, else the default.
    pub(crate) fn format<F: FileFormat>(&self, stated: Option<F>) -> F {
        let of_file = || F::of_file(self.file.as_deref()?);
        stated.or_else(of_file).unwrap_or_default()
    }

    /// The ending of the file if it promises a format that the command does not write.
    pub(super) fn broken_promise<F: FileFormat>(&self, stated: Option<F>) -> Option<BrokenPromise> {
        /// Endings of formats that some command writes, or that users may expect.
        const PROMISES: [&str; 22] = [
            "html", "htm", "json", "jsonl", "md", "sarif", "xml", "csv", "tsv", "parquet", "arrow",
            "svg", "png", "pdf", "xlsx", "yaml", "yml", "db", "sqlite", "gz", "zst", "zip",
        ];
        let file =
            self.file.as_deref().filter(|file| stated.is_none() && F::of_file(file).is_none())?;
        let ending = file.extension()?.to_string_lossy().to_lowercase();
        PROMISES.contains(&ending.as_str()).then(|| BrokenPromise {
            ending,
            endings: F::ENDINGS.iter().map(|(ending, _)| *ending).collect(),
            default: F::default().to_possible_value().map(|value| value.get_name().to_owned()),
        })
    }
}

/// A file whose ending promises a format that a command does not write.
pub(crate) struct BrokenPromise {
    /// The ending, without the dot.
    pub(crate) ending: String,
    /// The endings of what the command writes.
    pub(crate) endings: Vec<&'static str>,
    /// The format of files without one of these endings.
    pub(crate) default: Option<String>,
}

/// A format that the ending of a file may stand for.
pub(crate) trait FileFormat: ValueEnum + Copy + Default + 'static {
    /// Endings in lower case, longer ones before their own endings.
    const ENDINGS: &'static [(&'static str, Self)];

    /// The format that the name of a file stands for.
    fn of_file(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_string_lossy().to_lowercase();
        Self::ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
    }
}

/// The directory that traces are written to, and how they are compressed.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceOutputArgs {
    /// Directory to write to; created if it does not exist
    #[arg(id = "output", long = "output", short = 'o', value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) directory: PathBuf,
    /// Compress the traces with gzip
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(crate) gz: bool,
    /// Write uncompressed JSON
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Overwrite existing files in DIR
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

impl TraceOutputArgs {
    /// The compression of traces that are copied.
    pub(crate) fn packing(&self) -> Packing {
        match (self.gz, self.json) {
            (true, _) => Packing::Gzip,
            (_, true) => Packing::Plain,
            _ => Packing::Same,
        }
    }
}

/// The reader of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// People: colors where the terminal shows them.
    Human,
    /// Programs: every byte as it is.
    Machine,
}

/// Formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RowFormat {
    /// Aligned columns
    #[default]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON array of objects
    Json,
    /// Parquet file
    Parquet,
    /// Arrow IPC file
    Arrow,
}

impl FileFormat for RowFormat {
    const ENDINGS: &'static [(&'static str, Self)] = &[
        (".txt", Self::Table),
        (".csv", Self::Csv),
        (".json", Self::Json),
        (".parquet", Self::Parquet),
        (".arrow", Self::Arrow),
    ];
}

impl RowFormat {
    pub(crate) fn audience(self) -> Audience {
        if self == Self::Table { Audience::Human } else { Audience::Machine }
    }

    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}
