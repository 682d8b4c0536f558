//! `advisor augment`: copies of the traces with counters, critical path and findings, for trace viewers.

use std::path::Path;

use trace_advisor::{Added, Augmentation, RuleSet};

use crate::args::{AugmentArgs, AugmentTrack};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::warn;
use crate::output::require_local_path;
use crate::progress::Stage;
use crate::render::value::thousands;
use crate::rule_files;
use crate::run::{finish, open_with_progress};
use crate::runs::{RunOutputs, for_each_run, note_left_out_below};

pub(crate) fn run(args: &AugmentArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.output.directory)?;
    let rules = rule_files::load_selected(&args.rules, console)?;
    let (root, to) = (&args.run.path, &args.output.directory);
    if args.each.each {
        let outputs = RunOutputs::new(root, to)?;
        let queue = for_each_run(root, console, |path, console| {
            augment(path, &outputs.of(path), &rules, args, console)
        })?;
        return Ok(queue.print_failures(console)?);
    }
    note_left_out_below(root, console)?;
    augment(root, to, &rules, args, console)?;
    Ok(Exit::Clean)
}

/// Writes the traces of the run at `path` to the directory `to`.
fn augment(
    path: &Path,
    to: &Path,
    rules: &RuleSet,
    args: &AugmentArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let progress = console.progress(&[Stage::Read, Stage::Compute, Stage::Copy]);
    let run = open_with_progress(None, path, &args.read, &progress, console)?;
    let wants = |track| args.only.is_empty() || args.only.contains(&track);
    let report = wants(AugmentTrack::Findings).then(|| run.check(rules)).transpose()?;
    let wanted = Augmentation {
        folder: to,
        counters: wants(AugmentTrack::Counters),
        critical_path: wants(AugmentTrack::CriticalPath),
        report: report.as_ref(),
        packing: args.output.packing(),
        overwrite: args.output.force,
    };
    let written = run.augment(&wanted, progress.files())?;
    drop(progress);
    if written.is_empty() {
        let help = "`advisor merge` writes what Composer recorded as one trace";
        return Err(with_help("the run has no PyTorch Profiler trace to copy", help));
    }
    for trace in &written {
        let known = run.warnings();
        for warning in trace.warnings.iter().filter(|w| !known.contains(w)) {
            warn(&format!("{}: {}", warning.file, warning.message), console)?;
        }
        writeln!(console.out, "{}", trace.path.display())?;
        console.out.flush()?;
        writeln!(console.err, "rank {}: {}", trace.rank, summary(&trace.added))?;
    }
    finish(&run, &args.read, console)
}

fn summary(added: &Added) -> String {
    let parts: Vec<String> = [
        (added.counters, "counter", "counters"),
        (added.samples, "value", "values"),
        (added.segments, "segment of the critical path", "segments of the critical path"),
        (added.arrows, "arrow", "arrows"),
        (added.findings, "finding", "findings"),
        (added.ranges, "time range that shows them", "time ranges that show them"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| {
        format!("{} {}", thousands(count as i64), if count == 1 { one } else { many })
    })
    .collect();
    if parts.is_empty() { "nothing to add".to_owned() } else { parts.join(", ") }
}
