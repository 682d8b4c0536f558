//! `advisor man`: manual pages, one per command.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::{Args, ManArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::{require_local_path, write_own_file};

/// Text of every page, and of no page of another program.
const MARK: &str = ".TH advisor";

pub(crate) fn run(args: &ManArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let directory = &args.directory;
    require_local_path(directory)?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let mut program = Args::command().disable_help_subcommand(true);
    program.build();
    write_pages(program, directory)?;
    writeln!(console.out, "{}", directory.display())?;
    Ok(Exit::Clean)
}

/// Writes the pages of a command and of those below it.
fn write_pages(command: clap::Command, directory: &Path) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), directory)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    write_own_file(&directory.join(page.get_filename()), &text, MARK)
}
