//! `advisor man`: manual pages, one per command.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;
use trace_advisor::trace_model::suggest::nearest;

use crate::args::{Args, ManArgs};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::output::{require_local_path, write_own_file};

/// Text of every page, and of no page of another program.
const MARK: &str = ".TH advisor";

pub(crate) fn run(args: &ManArgs, console: &mut Console) -> anyhow::Result<Exit> {
    // The page does not say where and when the program was built.
    let program = Args::command().long_version(env!("CARGO_PKG_VERSION"));
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let Some(directory) = &args.directory else {
        Man::new(find(program, &args.command)?).render(&mut console.out)?;
        return Ok(Exit::Clean);
    };
    require_local_path(directory)?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    write_pages(program, directory)?;
    writeln!(console.out, "{}", directory.display())?;
    Ok(Exit::Clean)
}

/// The command of these words, from `program` down.
fn find(program: clap::Command, words: &[String]) -> anyhow::Result<clap::Command> {
    words.iter().try_fold(program, |command, word| {
        command.find_subcommand(word).cloned().ok_or_else(|| {
            let below = command.get_subcommands().filter(|below| !below.is_hide_set());
            let names: Vec<&str> = below.map(clap::Command::get_name).collect();
            let help = match nearest(word, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "it has no commands below it".to_owned(),
                None => format!("there are {}", names.join(", ")),
            };
            with_help(format!("{} has no command `{word}`", command.get_name()), help)
        })
    })
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
