//! `advisor augment`: copies of the traces with counters, critical path and findings, for trace viewers.

use trace_advisor::{Added, Augmentation};

use crate::args::{AugmentArgs, AugmentTrack};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::{print_warnings, warn};
use crate::output::require_local_path;
use crate::render::value::thousands;
use crate::rule_files;
use crate::run::{finish, open};

pub(crate) fn run(args: &AugmentArgs, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(&args.output.directory)?;
    let rules = rule_files::load_selected(&args.rules)?;
    let run = open(&args.run.path, &args.read, console)?;
    print_warnings(run.warnings(), console)?;
    let wants = |track| args.only.is_empty() || args.only.contains(&track);
    let report = wants(AugmentTrack::Findings).then(|| run.check(&rules)).transpose()?;
    let written = run.augment(&Augmentation {
        folder: &args.output.directory,
        counters: wants(AugmentTrack::Counters),
        critical_path: wants(AugmentTrack::CriticalPath),
        report: report.as_ref(),
        packing: args.output.packing(),
        overwrite: args.output.force,
    })?;
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
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
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
