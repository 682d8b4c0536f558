//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::address::SchedulerAddress;

/// Maps the ranks of a run on a cluster of Apache DataFusion Ballista
#[derive(Debug, Parser)]
#[command(name = "advisor-cluster", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print what Ballista logs to stderr
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the scheduler of a cluster, which hands shards to executors
    Scheduler(SchedulerArgs),
    /// Run an executor, which maps the shards that a scheduler hands to it
    Executor(ExecutorArgs),
    /// Map all ranks of a run on the executors of a cluster, for `advisor check RUN --from DIR`
    Map(MapArgs),
}

/// `advisor-cluster scheduler`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulerArgs {
    /// Address and port to listen on; `0.0.0.0:50050` lets other machines in, and asks none of them for a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
    pub(crate) bind: SocketAddr,
    /// Time without a sign of life after which the shards of an executor are handed to others, at least 10 s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = executor_timeout)]
    pub(crate) executor_timeout: Duration,
}

/// `advisor-cluster executor`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExecutorArgs {
    /// Address of the scheduler, such as `scheduler:50050`
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) scheduler: SchedulerAddress,
    /// Address to listen on: the scheduler fetches results from there; `0.0.0.0` if it is on another machine
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind: IpAddr,
    /// Port to listen on [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Shards to map at the same time; one uses all cores
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) tasks: NonZeroUsize,
    /// Directory for results of some hundred bytes per shard [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
}

/// `advisor-cluster map`.
#[derive(Debug, ClapArgs)]
pub(crate) struct MapArgs {
    /// Run to map, a directory or an address that all executors can read
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Directory or address to write to, the same for all executors; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Address of the scheduler
    #[arg(long, value_name = "df://HOST:PORT")]
    pub(crate) scheduler: SchedulerAddress,
    /// Traces that are mapped as one task [default: 4 to 64, so that there are about 64 tasks]
    #[arg(long, value_name = "N")]
    pub(crate) ranks_per_task: Option<NonZeroU32>,
    /// Map what the rules in FILE need, too; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// Map only what the rules in files need
    #[arg(long)]
    pub(crate) no_default_rules: bool,
    /// Refuse compressed traces with more bytes of JSON than this
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    pub(crate) max_json_bytes: u64,
    /// Time limit for a request to a store, such as `30s`
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Time to wait for the scheduler and for the first executor
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    pub(crate) wait: Duration,
}

/// Parses a time in seconds, greater than zero: `30`, `2.5s`.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.trim().trim_end_matches('s').parse::<f64>().ok();
    let time = time.and_then(|t| Duration::try_from_secs_f64(t).ok()).filter(|t| !t.is_zero());
    time.ok_or_else(|| "not a time in seconds: write 60s".into())
}

/// Parses a time that is longer than the five seconds between signs of life of a busy executor.
fn executor_timeout(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    if time < Duration::from_secs(10) {
        return Err("a busy executor gives a sign of life every 5 s: write 10s or more".into());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use clap::{CommandFactory as _, Parser as _};

    use super::{Args, Command};

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn services_listen_on_this_machine_unless_told_otherwise() {
        let addresses = [
            &["advisor-cluster", "scheduler"][..],
            &["advisor-cluster", "executor", "--scheduler", "scheduler:50050"],
        ]
        .map(|args| match Args::try_parse_from(args).unwrap().command {
            Command::Scheduler(args) => args.bind.ip(),
            Command::Executor(args) => args.bind,
            Command::Map(_) => unreachable!("no service"),
        });
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }
}
