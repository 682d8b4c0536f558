//! The `advisor` command: why is this training run slow?
//!
//! A thin layer over the [`trace_advisor`] library. `args` declares the command line, `commands` has one file
//! per command, `render` turns results into text. Only this crate prints, and only to a [`Console`], the streams of
//! the process.

mod args;
mod baseline;
mod cluster;
mod commands;
mod console;
mod diagnostics;
pub mod embedding;
mod exit;
mod interrupt;
mod memory;
mod messages;
mod output;
mod progress;
pub mod rates;
mod render;
mod rule_files;
mod run;
pub mod runs;
mod serve;
mod serve_page;
mod text_file;
mod usage;

pub use console::{Console, Terminal};
pub use exit::Exit;

use std::ffi::OsString;

use clap::Parser as _;

use crate::args::{Args, Command, GlobalArgs};

/// Runs the program with these arguments, of which the first is its name, on the streams of the process.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    match Args::try_parse_from(args) {
        Ok(args) => execute(&args.command, &mut Console::of_process(args.global)),
        Err(message) => {
            usage::print_message(message, &mut Console::of_process(GlobalArgs::default()))
        }
    }
}

/// The same on other streams; options about colors and progress have no effect.
pub fn run_on(args: impl IntoIterator<Item = OsString>, console: &mut Console) -> Exit {
    match Args::try_parse_from(args) {
        Ok(args) => execute(&args.command, console),
        Err(message) => usage::print_message(message, console),
    }
}

fn execute(command: &Command, console: &mut Console) -> Exit {
    let result = commands::run(command, console);
    let result = result.and_then(|exit| Ok(console.out.flush().map(|()| exit)?));
    match result {
        Ok(exit) => exit,
        Err(error) if diagnostics::is_broken_pipe(&error) || console.is_unread() => Exit::Unread,
        Err(error) => {
            let _ = diagnostics::print_error(&error, console);
            Exit::Failed
        }
    }
}
