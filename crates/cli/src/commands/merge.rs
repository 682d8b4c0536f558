//! `advisor merge`: the traces of all ranks in one file, for trace viewers.

use trace_advisor::ingest::Merged;

use crate::args::MergeArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::messages::warn;
use crate::output::require_local_path;
use crate::progress::Stage;
use crate::render::value::{plural, thousands};
use crate::run::{finish, open_in_memory};

pub(crate) fn run(args: &MergeArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.output)?;
    let progress = console.progress(&[Stage::Read, Stage::Merge]);
    let run = open_in_memory(&args.run.path, &args.read, &progress)?;
    progress.start(Stage::Merge);
    let merged = run.merge(&args.output, args.force, progress.files());
    drop(progress);
    let Merged { events, files, ranks, warnings } = merged?;
    let known = run.warnings();
    for warning in warnings.iter().filter(|w| !known.contains(w)) {
        warn(&format!("{}: {}", warning.file, warning.message), console)?;
    }
    writeln!(console.out, "{}", args.output.display())?;
    console.out.flush()?;
    let (files, ranks) = (plural(files, "file"), plural(ranks, "rank"));
    writeln!(console.err, "{} events of {ranks} from {files}", thousands(events as i64))?;
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}
