//! `advisor completions`: completions for a shell.

use clap::CommandFactory as _;

use crate::args::{Args, CompletionsArgs};
use crate::console::Console;
use crate::exit::Exit;

pub(crate) fn run(args: &CompletionsArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "advisor", &mut script);
    console.out.write_all(&script)?;
    Ok(Exit::Clean)
}
