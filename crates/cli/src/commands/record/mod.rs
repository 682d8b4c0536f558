//! `advisor record`: runs a training program, records some of its steps, and checks them.

mod injection;
mod outcome;
mod program;
mod signals;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Parser as _;

use crate::args::{Args, Command, RecordArgs, TraceWriter};
use crate::commands::check;
use crate::console::Console;
use crate::diagnostics::{print_error, with_help};
use crate::exit::Exit;
use crate::messages::{note, warn};
use crate::output::require_local_path;
use injection::{Injection, Settings};
use outcome::Outcome;

/// Folders are numbered up to here.
const MAX_NUMBER: u32 = 1000;

pub(crate) fn run(args: &RecordArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.directory)?;
    let folder = folder_to_write(args, console)?;
    let injection = Injection::new(&Settings {
        folder: &std::path::absolute(&folder)?,
        first_step: args.steps.first,
        last_step: args.steps.last,
        with_stack: args.stacks,
        memory_snapshot: !args.no_memory_snapshot,
        writer: args.writer,
    })?;
    let exit = match program::run(&args.command, &injection) {
        Ok(exit) => exit,
        Err(error) => {
            let exit = error.exit();
            print_error(&error.into(), console)?;
            return Ok(exit);
        }
    };
    let outcome = Outcome::read(&injection, &folder);
    // Whatever happens to the report, the exit code is that of the program.
    if let Err(error) = report(args, &outcome, &folder, console) {
        print_error(&error, console)?;
    }
    // A program that cannot be recorded at all does not look recorded.
    let has_succeeded = exit.code() == Exit::Clean.code();
    Ok(if has_succeeded && outcome.is_impossible() { Exit::Failed } else { exit })
}

/// The directory to write to: the one that the user named, or the first of `run-2`, `run-3`, ... that is empty or new.
fn folder_to_write(args: &RecordArgs, console: &mut Console) -> anyhow::Result<PathBuf> {
    let named = &args.directory;
    let is_used = |path: &Path| path.read_dir().is_ok_and(|mut files| files.next().is_some());
    if !named.is_file() && (args.force || !is_used(named)) {
        return Ok(named.clone());
    }
    let numbered = |name: &OsStr, number: u32| {
        let mut name = name.to_owned();
        name.push(format!("-{number}"));
        named.with_file_name(name)
    };
    let is_free = |path: &PathBuf| !path.is_file() && !is_used(path);
    let name = named.file_name().filter(|_| !named.is_file());
    let folder =
        name.and_then(|name| (2..MAX_NUMBER).map(|number| numbered(name, number)).find(is_free));
    let Some(folder) = folder else {
        return Err(with_help(
            format!("{} exists and is not an empty directory", named.display()),
            "name another directory with -o, or use --force to write into it; its files are kept",
        ));
    };
    let text = format!("{} is not empty: recording into {}", named.display(), folder.display());
    note(&text, console)?;
    Ok(folder)
}

/// Says on stderr what was recorded, and prints the report.
fn report(
    args: &RecordArgs,
    outcome: &Outcome,
    folder: &Path,
    console: &mut Console,
) -> anyhow::Result<()> {
    for problem in outcome.problems(args.steps) {
        if outcome.is_impossible() {
            print_error(&anyhow::Error::msg(problem), console)?;
        } else {
            warn(&problem, console)?;
        }
    }
    if !outcome.has_files() {
        return Ok(());
    }
    if args.writer == TraceWriter::Cuspy {
        for problem in outcome.other_writers() {
            warn(&problem, console)?;
        }
    }
    note(&outcome.summary(folder), console)?;
    if args.no_check {
        return Ok(());
    }
    let words = ["advisor", "check", "--"].map(Into::into);
    let words = words.into_iter().chain([folder.as_os_str().to_owned()]);
    if let Command::Check(check_args) = Args::try_parse_from(words)?.command {
        console.move_results_to_stderr();
        check::run(&check_args, console)?;
    }
    Ok(())
}
