//! `advisor demo`: traces to try the program on.

use anyhow::Context as _;

use crate::args::Demo;
use crate::demo::{Bottleneck, Options, write_run};
use crate::diagnostics::with_help;
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Demo, console: &mut Console) -> anyhow::Result<Exit> {
    output::local(&args.output)?;
    let directory = &args.output;
    let holds_files = directory.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if directory.is_file() || holds_files && !args.force {
        return Err(with_help(
            format!("{} exists and is not an empty folder", directory.display()),
            "--force writes into it; files of other names stay",
        ));
    }
    let options = Options {
        bottleneck: args.bottleneck,
        ranks: args.ranks,
        steps: args.steps.unwrap_or(steps(args.bottleneck)),
        layers: args.layers,
        seed: args.seed,
        stacks: args.stacks,
        gzip: !args.json,
    };
    let written = write_run(&options, directory)
        .with_context(|| format!("cannot write a run to {}", directory.display()))?;
    let (count, megabytes) = (written.files.len(), written.bytes as f64 / 1e6);
    let files = if count == 1 { "file" } else { "files" };
    writeln!(
        console.out,
        "wrote {count} {files}, {megabytes:.1} MB; next: advisor check {}",
        directory.display()
    )?;
    Ok(Exit::Clean)
}

/// Steps that show what is slow: who is late among two ranks must be so six times, and the last step does not count.
fn steps(bottleneck: Bottleneck) -> u32 {
    match bottleneck {
        Bottleneck::Straggler => 8,
        _ => Options::default().steps,
    }
}
