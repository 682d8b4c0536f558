//! `advisor export`: a run of any size as a directory of Parquet files.

use std::time::Instant;

use trace_advisor::ingest::{self, Location};

use crate::args::ExportArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::messages::{print_timing, print_warnings};
use crate::output::require_local_path;
use crate::progress::ReadProgress;
use crate::render::value::{plural, thousands};
use crate::run::ingest_options;

pub(crate) fn run(args: &ExportArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.to)?;
    let start = Instant::now();
    let location = Location::parse(&args.run.path).map_err(trace_advisor::Error::from)?;
    let progress = ReadProgress::new(console.err_is_terminal);
    let options = ingest_options(&args.input);
    let exported = ingest::export(&location, &options, &args.to, args.force, &progress);
    drop(progress);
    let exported = exported.map_err(trace_advisor::Error::from)?;
    print_warnings(&exported.warnings, console)?;
    writeln!(console.out, "{}", args.to.display())?;
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
    Ok(Exit::Clean)
}
