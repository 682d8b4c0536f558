//! `advisor map`: what the ranks of a shard contribute to a check, as Parquet.

use std::time::Instant;

use trace_advisor::ingest::MapSummary;
use trace_advisor::{MapOptions, map};

use crate::args::MapArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::messages::print_timing;
use crate::progress::Stage;
use crate::render::value::plural;
use crate::rule_files;
use crate::run::ingest_options;

pub(crate) fn run(args: &MapArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let rules = rule_files::load(&args.rules, console)?;
    let options =
        MapOptions { ingest: ingest_options(&args.input), shard: args.shard, views: page::VIEWS };
    let progress = console.progress(&[Stage::Convert]);
    let mapped = map(&args.run.path, &args.to, &rules, &options, progress.files());
    drop(progress);
    let MapSummary { files, known_files, left_files, json_bytes, bytes, .. } = mapped?;
    writeln!(console.out, "{}", args.to.display())?;
    console.out.flush()?;
    let known = match known_files {
        0 => String::new(),
        known => format!(", {known} of which were mapped before"),
    };
    writeln!(
        console.err,
        "shard {}: {}{known}; {:.1} MB of Parquet from {:.1} MB",
        args.shard,
        plural(files, "trace"),
        bytes as f64 / 1e6,
        json_bytes as f64 / 1e6,
    )?;
    if left_files > 0 {
        writeln!(
            console.err,
            "{} cannot be mapped, as no rank is known or the file cannot be read; `check` reads what is left itself",
            plural(left_files, "trace"),
        )?;
    }
    if args.timings {
        print_timing("map", start.elapsed(), console)?;
    }
    Ok(Exit::Clean)
}
