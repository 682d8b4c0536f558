//! `advisor watch`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::groups::{ReadArgs, RuleArgs, RunPathArg};
use super::headings::OUTPUT;
use super::values::interval;

/// `advisor watch`.
#[derive(Debug, ClapArgs)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) run: RunPathArg,
    /// Time between looks at the files of the run: `30s`, `5m`, `1h`
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = interval)]
    pub(crate) every: Duration,
    /// Stop after N checks [default: watch until interrupted]
    #[arg(long, value_name = "N")]
    pub(crate) checks: Option<NonZeroUsize>,
    /// Keep what each rank contributes in DIR, a directory or an address, as `advisor map` does: a check reads only new traces
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) map_to: Option<PathBuf>,
    /// Keep the last report in FILE, as JSON; the first check is compared with it if it exists
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// Write findings and measures of each rank to FILE after each check, in the text format of Prometheus
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) prometheus: Option<PathBuf>,
    /// Replace the FILE of --prometheus even if another program wrote it
    #[arg(long, requires = "prometheus", help_heading = OUTPUT)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
