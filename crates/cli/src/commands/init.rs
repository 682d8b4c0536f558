//! `advisor init`: a rule file to start from.

use std::fs;

use anyhow::Context as _;

use crate::args::{Init, To};
use crate::output::{Reader, local};
use crate::render::sanitize::sanitize;
use crate::{Console, Exit, output};

/// What is written: it passes its own tests.
const STARTER: &str = include_str!("init.toml");

/// Its name.
const NAME: &str = "advisor.toml";

pub(crate) fn run(args: &Init, console: &mut Console) -> anyhow::Result<Exit> {
    local(&args.dir)?;
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot make the folder {}", args.dir.display()))?;
    let path = args.dir.join(NAME);
    let to = To { output: Some(path.clone()), force: args.force };
    output::to(&to, Reader::Program, console, |out, _| Ok(out.write_all(STARTER.as_bytes())?))?;
    let path = path.display().to_string();
    let path = sanitize(&path);
    writeln!(console.out, "{path}")?;
    writeln!(console.err, "next: advisor rules test {path}; advisor check run/ --rules {path}")?;
    Ok(Exit::Clean)
}
