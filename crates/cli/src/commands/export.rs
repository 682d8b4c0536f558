//! `advisor export`: a run of any size as a directory of Parquet files.

use std::path::Path;
use std::time::Instant;

use trace_advisor::analyses;
use trace_advisor::ingest::{self, Location};

use crate::args::ExportArgs;
use crate::cluster;
use crate::console::Console;
use crate::exit::Exit;
use crate::messages::{print_timing, print_warnings};
use crate::output::require_local_path;
use crate::progress::Stage;
use crate::render::value::{plural, thousands};
use crate::run::ingest_options;
use crate::runs::{RunOutputs, for_each_run, note_left_out_below};

pub(crate) fn run(args: &ExportArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let (root, to) = (&args.run.path, &args.directory);
    require_local_path(to)?;
    if args.each.each {
        let outputs = RunOutputs::new(root, to)?;
        let queue = for_each_run(root, console, |path, console| {
            export(path, &outputs.of(path), args, console)
        })?;
        return Ok(queue.print_failures(console)?);
    }
    note_left_out_below(root, console)?;
    export(root, to, args, console)?;
    Ok(Exit::Clean)
}

/// Writes the run at `path` to the directory `to`.
fn export(path: &Path, to: &Path, args: &ExportArgs, console: &mut Console) -> anyhow::Result<()> {
    let start = Instant::now();
    let location = Location::parse(path).map_err(trace_advisor::Error::from)?;
    let progress = console.progress(&[Stage::Convert]);
    let options = ingest_options(&args.input);
    progress.suspend(|| cluster::map_run(path, &args.mapped, &args.input, None))?;
    let exported = match &args.mapped.from {
        Some(from) => {
            let from = Location::parse(from).map_err(trace_advisor::Error::from)?;
            let views = analyses::catalog().fingerprint();
            let (overwrite, files) = (args.force, progress.files());
            ingest::export_mapped(&location, &from, &options, &views, to, overwrite, files)
        }
        None => ingest::export(&location, &options, to, args.force, progress.files()),
    };
    drop(progress);
    let exported = exported.map_err(trace_advisor::Error::from)?;
    writeln!(console.out, "{}", to.display())?;
    console.out.flush()?;
    writeln!(
        console.err,
        "{} rows of {}: {:.1} MB of Parquet from {:.1} MB",
        thousands(exported.rows as i64),
        plural(exported.ranks, "rank"),
        exported.bytes as f64 / 1e6,
        exported.json_bytes as f64 / 1e6,
    )?;
    if args.timings {
        print_timing("export", start.elapsed(), console)?;
    }
    Ok(print_warnings(&exported.warnings, console)?)
}
