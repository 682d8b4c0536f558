//! `advisor sql`, `advisor analyze` and `advisor tables`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::groups::{ReadArgs, RowOutputArgs, RunPathArg};
use super::headings::OUTPUT;

/// `advisor sql`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// SQL query; without it, start an interactive shell or read queries from stdin
    #[arg(value_name = "QUERY")]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) rows: RowOutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `advisor analyze`.
#[derive(Debug, ClapArgs)]
pub(crate) struct AnalyzeArgs {
    /// Analysis to print; without it, list the analyses
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Run: a trace file, or a directory with the traces of all ranks
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// List the analyses by topic
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) rows: RowOutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `advisor tables`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TablesArgs {
    /// Table or view to describe, or run to show what was read from it
    #[arg(value_name = "NAME|PATH")]
    pub(crate) subject: Option<PathBuf>,
    /// Describe the columns of all tables and views; of a run, show empty tables and all kinds of events too
    #[arg(long, short = 'v', visible_short_alias = 'a', help_heading = OUTPUT)]
    pub(crate) all: bool,
    /// Print the SQL of a view, including all views it needs, down to the tables
    #[arg(long, requires = "subject", conflicts_with = "all", help_heading = OUTPUT)]
    pub(crate) sql: bool,
    /// Print the built-in device table with peak rates (TOML), to copy entries from
    #[arg(long, conflicts_with_all = ["subject", "all"], help_heading = OUTPUT)]
    pub(crate) device_table: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
