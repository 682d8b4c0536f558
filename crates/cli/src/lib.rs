//! The `advisor` command: why is this training run slow?
//!
//! A thin layer over the [`trace_advisor`] library. `args` declares the command line, `commands` has one file
//! per command, `render` turns results into text. Only this crate prints, and only to the [`Console`] it is
//! given. [`demo`] generates traces to try it on.

mod args;
mod baseline;
mod commands;
mod console;
pub mod demo;
mod diagnostics;
mod exit;
mod memory;
mod messages;
mod output;
mod progress;
pub mod rates;
mod render;
mod rule_files;
mod run;
mod serve;

pub use console::Console;
pub use exit::Exit;

use std::ffi::OsString;
use std::io;

use clap::Parser as _;

/// Runs the program with these arguments, of which the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>, console: &mut Console) -> Exit {
    let args = match args::Args::try_parse_from(args) {
        Ok(args) => args,
        Err(message) => {
            let failed = message.use_stderr();
            let to = if failed { &mut console.err } else { &mut console.out };
            // The message is lost if the reader is gone.
            let _ = write!(to, "{}", message.render().ansi());
            let _ = to.flush();
            return if failed { Exit::Failed } else { Exit::Clean };
        }
    };
    let result = commands::run(&args.command, console);
    let result = result.and_then(|exit| Ok(console.out.flush().map(|()| exit)?));
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Clean,
        Err(error) => {
            // Output comes before the message.
            let _ = console.out.flush();
            let _ = diagnostics::print_error(&error, console);
            Exit::Failed
        }
    }
}

/// Whether the reader of the output closed it: `advisor tables | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
