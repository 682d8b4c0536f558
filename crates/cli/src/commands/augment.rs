//! `advisor augment`: the traces of a run with what was found out about them, for trace viewers.

use trace_advisor::{Added, Augmentation, ingest::Packing};

use crate::args::{Augment, AugmentPart};
use crate::diagnostics::with_help;
use crate::render::value::thousands;
use crate::run::{finish, open, print_warnings, warn};
use crate::{Console, Exit, output, rule_files};

pub(crate) fn run(args: &Augment, console: &mut Console) -> anyhow::Result<Exit> {
    output::local(&args.output)?;
    let rules = rule_files::choose(&args.rules)?;
    let run = open(&args.path, &args.reading, console)?;
    print_warnings(&run, console)?;
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    let report = wants(AugmentPart::Findings).then(|| run.check(&rules)).transpose()?;
    let written = run.augment(&Augmentation {
        folder: &args.output,
        counters: wants(AugmentPart::Counters),
        critical_path: wants(AugmentPart::CriticalPath),
        report: report.as_ref(),
        packing: match (args.gz, args.json) {
            (true, _) => Packing::Gzip,
            (_, true) => Packing::Plain,
            _ => Packing::Same,
        },
        overwrite: args.force,
    })?;
    if written.is_empty() {
        let help = "`advisor merge` writes what Composer recorded as one trace";
        return Err(with_help("the run holds no trace of the PyTorch Profiler to copy", help));
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
    finish(&run, &args.reading, console)?;
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
