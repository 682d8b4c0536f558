//! `advisor cut`: a part of the traces as small traces, for viewers that cannot open large ones.

use std::path::Path;

use trace_advisor::ingest::Location;
use trace_advisor::{CutRun, Cutting};

use crate::args::{CutArgs, SelectionArgs};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::{note, print_warnings};
use crate::output::require_local_path;
use crate::progress::Stage;
use crate::render::value::{plural, thousands};
use crate::run::{ingest_options, selection};

pub(crate) fn run(args: &CutArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let folder = args.directory.as_path();
    require_local_path(folder)?;
    refuse_selections(&args.selection)?;
    refuse_full_directory(folder, args.force)?;
    let location = Location::parse(&args.run.path).map_err(trace_advisor::Error::from)?;
    let progress = console.progress(&[Stage::Read, Stage::Copy]);
    let selection = selection(&args.selection);
    let cutting = Cutting { selection: &selection, folder, overwrite: args.force };
    let options = ingest_options(&args.input);
    let cut = trace_advisor::cut(&location, &options, &cutting, progress.files());
    drop(progress);
    print(&cut?, console)?;
    Ok(Exit::Clean)
}

/// Prints the paths that were written to stdout, and the rest to stderr.
fn print(cut: &CutRun, console: &mut Console) -> anyhow::Result<()> {
    for rank in &cut.ranks {
        writeln!(console.out, "{}", rank.path.display())?;
        console.out.flush()?;
        writeln!(
            console.err,
            "rank {}: {} of {} events, {:.1} MB",
            rank.rank,
            thousands(rank.kept_events as i64),
            thousands(rank.events as i64),
            rank.bytes as f64 / 1e6,
        )?;
    }
    if !cut.empty_ranks.is_empty() {
        let ranks: Vec<String> = cut.empty_ranks.iter().map(ToString::to_string).collect();
        note(&format!("nothing is selected on rank {}", ranks.join(", ")), console)?;
    }
    if let [first, ..] = cut.other_files.as_slice() {
        let files = plural(cut.other_files.len(), "file");
        let text = format!("{files} left out, not a timeline of PyTorch Profiler: {first}");
        let more = if cut.other_files.len() > 1 { ", ..." } else { "" };
        note(&format!("{text}{more}"), console)?;
    }
    if let Some(between) = cut.between {
        writeln!(console.err, "the same time range there: --between {}", between.time_text())?;
    }
    Ok(print_warnings(&cut.warnings, console)?)
}

/// Everything in the time range is kept, so that the part is a trace like any other.
fn refuse_selections(selection: &SelectionArgs) -> anyhow::Result<()> {
    let SelectionArgs { steps, between, streams, name, .. } = selection;
    let unused = [("streams", streams.is_some()), ("name", name.is_some())];
    if let Some((option, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        let help = "--ranks selects traces, --steps and --between what is kept of them";
        return Err(with_help(format!("a part is cut out as a whole, without --{option}"), help));
    }
    if steps.is_none() && between.is_none() {
        let help = "select it with --between FROM..TO or --steps RANGE";
        return Err(with_help("nothing says which part to cut out", help));
    }
    Ok(())
}

/// A directory that holds something else would become a run of several programs.
fn refuse_full_directory(folder: &Path, force: bool) -> anyhow::Result<()> {
    let is_full = || folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if folder.is_file() {
        let help = "cut writes one file per rank, into a directory";
        return Err(with_help(format!("{} is a file", folder.display()), help));
    }
    if !force && is_full() {
        let help = "choose another directory, or use --force to overwrite files in it";
        return Err(with_help(format!("{} is not empty", folder.display()), help));
    }
    Ok(())
}
