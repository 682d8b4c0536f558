//! The program inside of another one: what bindings for other languages need.
//!
//! Options are those of the command line, by their names there, so that each is parsed, documented and refused in one
//! place. Nothing is printed: results are values or texts, and warnings stay with the run.

mod check;
mod diff;
mod error_text;
mod output;
mod work_progress;

use std::ffi::OsString;

use clap::Parser as _;

use crate::args::{Args, Command};
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::{commands, usage};

pub use check::{CheckOptions, CheckedRun};
pub use diff::{ComparedRuns, DiffOptions};
pub use error_text::ErrorText;
pub use output::{Style, text_of_rows};
pub use work_progress::WorkProgress;

pub use crate::progress::Work;

/// Runs a command and returns what it writes to stdout. The first argument is the command.
///
/// # Errors
/// If the arguments are wrong or the command fails, also if its exit code says so.
pub fn output_of(arguments: &[OsString]) -> anyhow::Result<String> {
    let command = parse(arguments)?;
    let (mut console, output) = output::buffered(None);
    let exit = commands::run(&command, &mut console)?;
    console.out.flush()?;
    if exit == Exit::Failed {
        let message = output.errors();
        return Err(anyhow::Error::msg(message.trim().trim_start_matches("error: ").to_owned()));
    }
    output.out(Style::default())
}

/// Options about the output, preceded by the format.
fn with_format(format: &str, options: &[OsString]) -> Vec<OsString> {
    [OsString::from("--format"), format.into()].into_iter().chain(options.iter().cloned()).collect()
}

/// Parses a command with its options.
fn parse(arguments: &[OsString]) -> anyhow::Result<Command> {
    let program = OsString::from("advisor");
    let parsed = Args::try_parse_from(std::iter::once(&program).chain(arguments));
    parsed.map(|args| args.command).map_err(|message| match usage::mistake(&message) {
        (message, Some(help)) => with_help(message, help),
        (message, None) => anyhow::Error::msg(message),
    })
}
