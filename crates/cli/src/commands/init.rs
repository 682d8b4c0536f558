//! `advisor init`: a rule file to start from.

use std::fs;

use anyhow::Context as _;

use crate::args::{Audience, InitArgs, OutputArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::{require_local_path, write_output};
use crate::render::sanitize::sanitize;
use crate::rule_files::PROJECT_FILE;

/// The text of the file: comments only.
const TEMPLATE: &str = include_str!("init.toml");

pub(crate) fn run(args: &InitArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.dir)?;
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot create the directory {}", args.dir.display()))?;
    let path = args.dir.join(PROJECT_FILE);
    let output = OutputArgs { file: Some(path.clone()), force: args.force };
    write_output(&output, Audience::Machine, console, |out, _| {
        Ok(out.write_all(TEMPLATE.as_bytes())?)
    })?;
    let path = path.display().to_string();
    let path = sanitize(&path);
    writeln!(console.out, "{path}")?;
    writeln!(
        console.err,
        "everything in it is commented out; commands that evaluate rules find it in its directory and below"
    )?;
    Ok(Exit::Clean)
}
