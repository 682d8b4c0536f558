//! `advisor sql`, `advisor analyze` and `advisor tables`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::groups::{EachArg, ReadArgs, RowFormat, RowOutputArgs, RunPathArg};
use super::headings::OUTPUT;

/// `advisor sql`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// SQL query; without it, start the SQL shell, or read queries from stdin if it is not a terminal
    ///
    /// In the shell, \h lists the commands and Tab completes names. It keeps its history in the file that
    /// `ADVISOR_SQL_HISTORY` names [default: in the user's state directory]; an empty value disables the history.
    #[arg(value_name = "QUERY")]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) rows: RowOutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) each: EachArg,
}

/// `advisor analyze`.
#[derive(Debug, ClapArgs)]
pub(crate) struct AnalyzeArgs {
    /// Analysis to print; without it, give an overview of the run
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Run: a trace file, or a directory with the traces of all ranks
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// List the analyses by the question that they answer, or those that mention WORD
    #[arg(long, value_name = "WORD", num_args = 0..=1, default_missing_value = "")]
    pub(crate) list: Option<String>,
    /// Sort by COLUMN, largest first; `COLUMN:asc` sorts smallest first
    #[arg(long, value_name = "COLUMN", help_heading = OUTPUT)]
    pub(crate) sort: Option<String>,
    /// Print only these columns, in this order; `all` prints columns without values, too
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = OUTPUT)]
    pub(crate) columns: Vec<String>,
    #[command(flatten)]
    pub(crate) rows: RowOutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) each: EachArg,
}

/// `advisor tables`.
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct TablesArgs {
    /// Table or view to describe, or run to show what was read from it
    #[arg(value_name = "NAME|PATH")]
    pub(crate) subject: Option<PathBuf>,
    /// Table or view of the run to describe, with its rows and the columns without values
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<PathBuf>,
    /// Describe the columns of all tables and views; of a run, show empty tables and all kinds of events too
    #[arg(long, short, help_heading = OUTPUT)]
    pub(crate) all: bool,
    /// Print the SQL of a view, including all views it needs, down to the tables
    #[arg(long, requires = "subject", conflicts_with = "all", help_heading = OUTPUT)]
    pub(crate) sql: bool,
    /// Print the built-in device table with peak rates (TOML), to copy entries from
    #[arg(long, conflicts_with_all = ["subject", "all"], help_heading = OUTPUT)]
    pub(crate) device_table: bool,
    /// List the kinds of data that a recording can hold, with what records each
    #[arg(long, conflicts_with_all = ["subject", "all", "device_table"], help_heading = OUTPUT)]
    pub(crate) capabilities: bool,
    /// With `--capabilities`: format of the list
    #[arg(long, short, value_enum, default_value_t, requires = "capabilities", help_heading = OUTPUT)]
    pub(crate) format: RowFormat,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) each: EachArg,
}
