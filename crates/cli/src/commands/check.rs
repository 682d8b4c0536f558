//! `advisor check`: judge runs, print reports, fail on findings.

use trace_advisor::Report;

use crate::args::Check;
use crate::render::report::{self, Checked};
use crate::run::{open, options, print_timings, warn};
use crate::{Console, Exit, output, rule_files};

pub(crate) fn run(args: &Check, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules.files, args.rules.no_default_rules)?;
    let mut reports = Vec::with_capacity(args.paths.len());
    for path in &args.paths {
        let run = open(path, &args.reading, console)?;
        reports.push(run.check(&rules)?);
        print_timings(&run, &args.reading, console)?;
    }
    let checked = Checked {
        reports: &reports,
        rules: &rules,
        all: args.all,
        fail_on: args.fail_on.severity(),
        explain: args.explain.then(|| options(&args.reading)),
    };
    output::to(&args.to, args.format.reader(), console, |out, _| {
        report::write(&checked, args.format, out)
    })?;
    console.out.flush()?;
    if args.format.has_no_warnings() {
        warnings(&reports, console)?;
    }
    Ok(verdict(&reports, args))
}

/// What could not be read, on stderr.
fn warnings(reports: &[Report], console: &mut Console) -> anyhow::Result<()> {
    for warning in reports.iter().flat_map(|r| &r.warnings) {
        let place =
            if warning.file.is_empty() { String::new() } else { format!("{}: ", warning.file) };
        let times =
            if warning.count > 1 { format!(" ({} times)", warning.count) } else { String::new() };
        warn(&format!("{place}{}{times}", warning.message), console)?;
    }
    Ok(())
}

fn verdict(reports: &[Report], args: &Check) -> Exit {
    let worst = reports.iter().filter_map(Report::worst).max();
    match (worst, args.fail_on.severity()) {
        (Some(worst), Some(limit)) if worst >= limit => Exit::Findings,
        _ => Exit::Clean,
    }
}
