//! Commands about the program itself: `cache`, `completions` and `man`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use clap_complete::Shell;

use super::groups::CacheDirArg;
use super::headings::OUTPUT;
use super::values::age;

/// `advisor cache`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CacheCommandArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

/// The subcommands of `advisor cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Print the cache directory
    Dir(CacheDirArg),
    /// Show number and size of the cached runs, and when they were last used
    Info(CacheDirArg),
    /// Remove cached runs
    ///
    /// Only what this program wrote is removed. Results are computed again when they are needed.
    Clean {
        #[command(flatten)]
        directory: CacheDirArg,
        /// Remove only runs that were not used for this time, such as 7d or 12h
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
    },
}

/// `advisor completions`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// Shell to write completions for
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// `advisor man`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Command whose page to print, such as `check` or `cache clean` [default: advisor itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands to DIR; created if it does not exist
    #[arg(id = "output", long = "output", short = 'o', alias = "to", value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) directory: Option<PathBuf>,
}
