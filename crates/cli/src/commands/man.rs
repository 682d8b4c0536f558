//! `advisor man`: manual pages, one per command.

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{Args, ManArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::require_local_path;

pub(crate) fn run(args: &ManArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let directory = &args.directory;
    require_local_path(directory)?;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), directory))
        .with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
    writeln!(console.out, "{}", directory.display())?;
    Ok(Exit::Clean)
}
