//! Maps the ranks of a run on a cluster of [Ballista](https://datafusion.apache.org/ballista/): the scheduler hands shards
//! to executors, which run [`trace_advisor::map_views`], and repeats those that are lost.
//!
//! A [`MapJob`] says what to map. [`plan`] makes the physical plan of it, [`Session::run`] submits the plan and returns a
//! [`ShardRow`] for each shard. The mapped ranks themselves go straight to the directory of the job.

mod address;
mod args;
mod client;
mod codec;
mod executor;
mod exposure;
mod failure;
mod job;
mod logging;
mod map;
mod operator;
mod rows;
mod scheduler;
mod signals;

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::Parser as _;

pub use address::SchedulerAddress;
pub use client::Session;
pub use job::{MapJob, program};
pub use operator::plan;
pub use rows::ShardRow;

use args::{Args, Command};

/// Exit code of success.
const SUCCESS: u8 = 0;
/// Exit code of an error, also of a wrong command line.
const FAILED: u8 = 2;

/// Runs the program `advisor-cluster` with these arguments, of which the first is its name. Returns the exit code: 0, or 2
/// for an error, which is written to stderr.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(message) => {
            // Nobody is left to tell if this fails.
            let _ = message.print();
            return if message.use_stderr() { FAILED } else { SUCCESS };
        }
    };
    let is_service = !matches!(args.command, Command::Map(_));
    logging::start(is_service, args.verbose);
    match execute(&args.command) {
        Ok(()) => SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            FAILED
        }
    }
}

fn execute(command: &Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = match command {
        Command::Scheduler(args) => runtime.block_on(scheduler::run(args)),
        Command::Executor(args) => runtime.block_on(executor::run(args)),
        Command::Map(args) => map::run(args, &runtime),
    };
    // Work that cannot be interrupted does not keep the process.
    runtime.shutdown_background();
    result
}
