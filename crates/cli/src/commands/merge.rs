//! `advisor merge`: the traces of all ranks in one file, for trace viewers.

use trace_advisor::ingest::Merged;

use crate::args::Merge;
use crate::render::value::thousands;
use crate::run::{finish, open_whole, print_warnings, warn};
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Merge, console: &mut Console) -> anyhow::Result<Exit> {
    output::local(&args.output)?;
    let run = open_whole(&args.path, &args.reading, console)?;
    print_warnings(&run, console)?;
    let Merged { events, files, ranks, warnings } = run.merge(&args.output, args.force)?;
    let known = run.warnings();
    for warning in warnings.iter().filter(|w| !known.contains(w)) {
        warn(&format!("{}: {}", warning.file, warning.message), console)?;
    }
    writeln!(console.out, "{}", args.output.display())?;
    console.out.flush()?;
    let plural =
        |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let (files, ranks) = (plural(files, "file"), plural(ranks, "rank"));
    writeln!(console.err, "{} events of {ranks} from {files}", thousands(events as i64))?;
    finish(&run, &args.reading, console)?;
    Ok(Exit::Clean)
}
