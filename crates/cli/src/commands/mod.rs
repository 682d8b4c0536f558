//! The commands, one file each.

mod analyze;
mod augment;
mod cache;
pub(crate) mod check;
mod completions;
mod cut;
mod demo;
pub(crate) mod diff;
mod explain;
mod export;
mod init;
mod man;
mod map;
mod merge;
mod open;
mod open_report;
mod overview;
mod page_query;
mod query;
mod questions;
mod rates;
mod record;
mod rows_of_runs;
mod rules;
mod schema;
#[cfg(feature = "shell")]
mod shell;
mod sql;
mod statements;
mod tables;
pub(crate) mod timeline;
mod watch;
mod window;

use crate::args::{BrokenPromise, Command};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::interrupt::remove_output_if_interrupted;
use crate::output::check_output;

/// Runs a command.
pub(crate) fn run(command: &Command, console: &mut Console) -> anyhow::Result<Exit> {
    console.runs = command.runs();
    if let Some(output) = command.output() {
        check_output(output)?;
    }
    if let Some(promise) = command.broken_promise() {
        return Err(no_format(&promise));
    }
    // `record` passes signals on to the program that it runs.
    if !matches!(command, Command::Record(_)) {
        remove_output_if_interrupted(console);
    }
    match command {
        Command::Check(args) => check::run(args, console),
        Command::Record(args) => record::run(args, console),
        Command::Sql(args) => sql::run(args, console),
        Command::Analyze(args) => analyze::run(args, console),
        Command::Diff(args) => diff::run(args, console),
        Command::Augment(args) => augment::run(args, console),
        Command::Cut(args) => cut::run(args, console),
        Command::Merge(args) => merge::run(args, console),
        Command::Export(args) => export::run(args, console),
        Command::Map(args) => map::run(args, console),
        Command::Watch(args) => watch::run(args, console),
        Command::Timeline(args) => timeline::run(args, console),
        Command::Open(args) if args.report => open_report::run(args, console),
        Command::Open(args) => open::run(args, console),
        Command::Tables(args) => tables::run(args, console),
        Command::Explain(args) => explain::run(args, console),
        Command::Rules(args) => rules::run(args, console),
        Command::Init(args) => init::run(args, console),
        Command::Schema(args) => schema::run(args, console),
        Command::Demo(args) => demo::run(args, console),
        Command::Cache(args) => cache::run(args, console),
        Command::Completions(args) => completions::run(args, console),
        Command::Man(args) => man::run(args, console),
    }
}

/// The error for a file whose ending stands for a format that the command does not write.
fn no_format(promise: &BrokenPromise) -> anyhow::Error {
    let BrokenPromise { ending, endings, default } = promise;
    let default = default.as_deref().unwrap_or_default();
    let help = format!(
        "it writes {}, and with --format {default} any file as {default}",
        endings.join(", ")
    );
    with_help(format!("this command does not write .{ending} files"), help)
}
