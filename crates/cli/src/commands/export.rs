//! `advisor export`: a run of any size as a folder of Parquet.

use std::time::Instant;

use trace_advisor::ingest::{self, Location};

use crate::args::Export;
use crate::progress::Bar;
use crate::render::value::thousands;
use crate::run::{ingest_options, print_timing, warn_of};
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Export, console: &mut Console) -> anyhow::Result<Exit> {
    output::local(&args.to)?;
    let start = Instant::now();
    let location = Location::parse(&args.path).map_err(trace_advisor::Error::from)?;
    let bar = Bar::new(console.err_is_terminal);
    let options = ingest_options(&args.files);
    let exported = ingest::export(&location, &options, &args.to, args.force, &bar);
    drop(bar);
    let exported = exported.map_err(trace_advisor::Error::from)?;
    warn_of(&exported.warnings, console)?;
    writeln!(console.out, "{}", args.to.display())?;
    console.out.flush()?;
    writeln!(
        console.err,
        "{} rows of {} {}: {:.1} MB of Parquet from {:.1} MB",
        thousands(exported.rows as i64),
        exported.ranks,
        if exported.ranks == 1 { "rank" } else { "ranks" },
        exported.bytes as f64 / 1e6,
        exported.json_bytes as f64 / 1e6,
    )?;
    if args.timings {
        print_timing("export", start.elapsed(), console)?;
    }
    Ok(Exit::Clean)
}
