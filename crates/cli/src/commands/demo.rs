//! `advisor demo`: traces to try the program on.

use anyhow::Context as _;

use crate::args::DemoArgs;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::output::require_local_path;
use crate::progress::Stage;
use crate::render::value::plural;
use trace_demo::{Bottleneck, Options, write_run_with};

pub(crate) fn run(args: &DemoArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let directory = &args.output.directory;
    require_local_path(directory)?;
    let has_entries = directory.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if directory.is_file() || has_entries && !args.output.force {
        return Err(with_help(
            format!("{} exists and is not an empty directory", directory.display()),
            "use --force to write into it; files with other names are kept",
        ));
    }
    let options = Options {
        bottleneck: args.bottleneck,
        ranks: args.ranks.unwrap_or(default_ranks(args.bottleneck)),
        steps: args.steps.unwrap_or(default_steps(args.bottleneck)),
        layers: args.layers,
        schedule: args.schedule,
        microbatches: args.microbatches,
        seed: args.seed,
        stacks: args.stacks,
        gzip: !args.output.json,
        ..Options::default()
    };
    let progress = console.progress(&[Stage::Generate]);
    progress.count(Stage::Generate, options.ranks as usize);
    let written = write_run_with(&options, directory, || progress.item_done());
    drop(progress);
    let written =
        written.with_context(|| format!("cannot write a run to {}", directory.display()))?;
    let files = plural(written.files.len(), "file");
    writeln!(
        console.out,
        "wrote {files}, {:.1} MB; next: advisor check {}{}",
        written.bytes as f64 / 1e6,
        directory.display(),
        if needs_preview(args.bottleneck) { " --preview" } else { "" }
    )?;
    Ok(Exit::Clean)
}

/// Whether only rules in preview find the cause.
fn needs_preview(bottleneck: Bottleneck) -> bool {
    matches!(bottleneck, Bottleneck::Memory | Bottleneck::Experts | Bottleneck::Faults)
}

/// A pipeline of two stages has next to no bubble, and the load of one of two ranks is close to the mean. A slow
/// group needs several others.
fn default_ranks(bottleneck: Bottleneck) -> u32 {
    match bottleneck {
        Bottleneck::Pipeline | Bottleneck::Experts => 4,
        Bottleneck::Faults => 64,
        _ => Options::default().ranks,
    }
}

/// The number of steps that shows the bottleneck. A straggler among two ranks must be late in six steps, and the last
/// step does not count.
fn default_steps(bottleneck: Bottleneck) -> u32 {
    match bottleneck {
        Bottleneck::Straggler => 8,
        _ => Options::default().steps,
    }
}
