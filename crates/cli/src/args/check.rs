//! `advisor check`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use trace_advisor::advisor::FailOn;

use super::groups::{Audience, DamageArg, EachArg, FileFormat, OutputArgs, ReadArgs, RuleArgs};
use super::headings::{OUTPUT, RULES};
use super::values::{duration_ns, percent};

/// `advisor check`.
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct CheckArgs {
    /// Runs: trace files, or directories with the traces of all ranks; several runs are checked separately
    ///
    /// Paths, addresses such as `s3://bucket/run/` (also `gs://`, `az://`, `abfss://` and `https://`), or `-` for a
    /// trace on stdin.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Output format [default: by the extension of FILE, else text]
    #[arg(long, short, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<ReportFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Show all findings in full, the timeline of the first, how the plan was predicted, and the reasons for unknown verdicts
    /// (text)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) full: bool,
    /// Also show info findings, notes about the trace, passed rules and all evidence
    #[arg(long, short, help_heading = OUTPUT)]
    pub(crate) all: bool,
    /// Show the queries behind each finding as commands to run (text and Markdown; JSON always includes them)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) explain: bool,
    /// Exit with code 1 for findings of this severity or higher [default: medium]
    ///
    /// Overrides `fail_on` in rule files.
    #[arg(long, value_enum, value_name = "SEVERITY", help_heading = OUTPUT)]
    pub(crate) fail_on: Option<FailOn>,
    /// Exit with code 0 even if there are findings; same as --fail-on never
    #[arg(long, conflicts_with = "fail_on", hide_short_help = true, help_heading = OUTPUT)]
    pub(crate) exit_zero: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Hide findings whose gain is below this percentage of the step time
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = RULES)]
    pub(crate) min_gain: Option<f64>,
    /// What a step takes without the profiler, such as 113ms: predictions start from it [default: as the recorder timed it, else estimated]
    #[arg(long, value_name = "TIME", value_parser = duration_ns, hide_short_help = true, help_heading = OUTPUT)]
    pub(crate) step_time: Option<i64>,
    /// Compare with an earlier JSON report: only new and worse findings affect the exit code
    #[arg(long, value_name = "FILE", help_heading = RULES)]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) damage: DamageArg,
    #[command(flatten)]
    pub(crate) each: EachArg,
}

impl CheckArgs {
    /// The format of the report.
    pub(crate) fn format(&self) -> ReportFormat {
        self.output.format(self.format)
    }
}

/// Formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Human-readable text
    #[default]
    Text,
    /// JSON with a stable, versioned schema (see `advisor schema report`)
    Json,
    /// JSON Lines: one finding per line, with its run
    Jsonl,
    /// One HTML page with charts, timelines and tables; opens without a network
    Html,
    /// Markdown for pull request comments
    Markdown,
    /// SARIF 2.1.0 for code scanning
    Sarif,
    /// Annotations for GitHub Actions
    Github,
    /// JUnit XML: one test case per rule
    Junit,
    /// Comma-separated values: one finding per row
    Csv,
}

impl FileFormat for ReportFormat {
    const ENDINGS: &'static [(&'static str, Self)] = &[
        (".txt", Self::Text),
        (".html", Self::Html),
        (".htm", Self::Html),
        (".sarif.json", Self::Sarif),
        (".sarif", Self::Sarif),
        (".json", Self::Json),
        (".jsonl", Self::Jsonl),
        (".md", Self::Markdown),
        (".xml", Self::Junit),
        (".csv", Self::Csv),
    ];
}

impl ReportFormat {
    pub(crate) fn audience(self) -> Audience {
        if self == Self::Text { Audience::Human } else { Audience::Machine }
    }

    /// Whether the format includes the warnings about the input; otherwise they go to stderr.
    pub(crate) fn includes_warnings(self) -> bool {
        matches!(self, Self::Json | Self::Sarif | Self::Html)
    }
}
