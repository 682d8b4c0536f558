//! `advisor record`: runs a training program, records some of its steps, and checks them.

mod injection;
mod outcome;
mod program;
mod signals;

use clap::Parser as _;

use crate::args::{Args, Command, RecordArgs};
use crate::commands::check;
use crate::console::Console;
use crate::diagnostics::{print_error, with_help};
use crate::exit::Exit;
use crate::messages::{note, warn};
use crate::output::require_local_path;
use injection::{Injection, Settings};
use outcome::Outcome;

pub(crate) fn run(args: &RecordArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.directory)?;
    let has_entries = args.directory.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if args.directory.is_file() || has_entries && !args.force {
        return Err(with_help(
            format!("{} exists and is not an empty directory", args.directory.display()),
            "name another directory with -o, or use --force to write into it; its files are kept",
        ));
    }
    let injection = Injection::new(&Settings {
        folder: &std::path::absolute(&args.directory)?,
        first_step: args.steps.first,
        last_step: args.steps.last,
        with_stack: args.stacks,
        memory_snapshot: !args.no_memory_snapshot,
    })?;
    let exit = match program::run(&args.command, &injection) {
        Ok(exit) => exit,
        Err(error) => {
            let exit = error.exit();
            print_error(&error.into(), console)?;
            return Ok(exit);
        }
    };
    // Whatever happens to the report, the exit code is that of the program.
    if let Err(error) = report(args, &Outcome::read(&injection, &args.directory), console) {
        print_error(&error, console)?;
    }
    Ok(exit)
}

/// Says on stderr what was recorded, and prints the report.
fn report(args: &RecordArgs, outcome: &Outcome, console: &mut Console) -> anyhow::Result<()> {
    for problem in outcome.problems(args.steps) {
        warn(&problem, console)?;
    }
    if !outcome.has_files() {
        return Ok(());
    }
    note(&outcome.summary(&args.directory), console)?;
    if args.no_check {
        return Ok(());
    }
    let words = ["advisor", "check", "--"].map(Into::into);
    let words = words.into_iter().chain([args.directory.clone().into_os_string()]);
    if let Command::Check(check_args) = Args::try_parse_from(words)?.command {
        console.move_results_to_stderr();
        check::run(&check_args, console)?;
    }
    Ok(())
}
