//! `advisor check`: judge runs, print reports, fail on findings.

use trace_advisor::Report;
use trace_advisor::advisor::{FailOn, Policy, Rule};

use crate::args::{Check, ReportFormat};
use crate::failure::helped;
use crate::output::Reader;
use crate::render::clean::clean_json;
use crate::render::text;
use crate::run::{open, print_timings, warn};
use crate::{Console, Exit, baseline, output, rule_files};

pub(crate) fn run(args: &Check, console: &mut Console) -> anyhow::Result<Exit> {
    let policy = Policy {
        min_gain_pct: args.min_gain,
        fail_on: args.fail_on.map(FailOn::from),
        ..Policy::default()
    };
    let rules = rule_files::choose_with(&args.rules, &policy)?;
    if rules.rules().iter().all(Rule::is_comparison) {
        let help = "`advisor rules list` marks the rules that are left out";
        return Err(helped("no rule is left to judge a run with", help));
    }
    let baseline = args.baseline.as_deref().map(baseline::read).transpose()?;
    let mut reports = Vec::with_capacity(args.paths.len());
    for (i, path) in args.paths.iter().enumerate() {
        let run = open(path, &args.reading, console)?;
        let mut report = run.check(&rules)?;
        if let Some(baseline) = &baseline {
            baseline.hold_against(&mut report, (i, args.paths.len()), &rules)?;
        }
        reports.push(report);
        print_timings(&run, &args.reading, console)?;
    }
    print(&reports, args, console)?;
    let fail_on = rules.policy().fail_on.unwrap_or(FailOn::Medium);
    Ok(if args.exit_zero { Exit::Clean } else { verdict(&reports, fail_on) })
}

fn print(reports: &[Report], args: &Check, console: &mut Console) -> anyhow::Result<()> {
    match args.format {
        ReportFormat::Json => {
            let mut text = match reports {
                // One run is one object: the promise of the format. Several are an array of them.
                [report] => serde_json::to_string_pretty(report)?,
                reports => serde_json::to_string_pretty(reports)?,
            };
            text.push('\n');
            return output::to(&args.to, Reader::Program, console, |out, terminal| {
                let text = if terminal { clean_json(&text) } else { text };
                Ok(out.write_all(text.as_bytes())?)
            });
        }
        ReportFormat::Text => output::to(&args.to, Reader::Person, console, |out, _| {
            for (i, report) in reports.iter().enumerate() {
                if i > 0 {
                    writeln!(out)?;
                }
                text::report(report, args.all, out)?;
            }
            Ok(())
        })?,
    }
    console.out.flush()?;
    for warning in reports.iter().flat_map(|r| &r.warnings) {
        let place =
            if warning.file.is_empty() { String::new() } else { format!("{}: ", warning.file) };
        let times =
            if warning.count > 1 { format!(" ({} times)", warning.count) } else { String::new() };
        warn(&format!("{place}{}{times}", warning.message), console)?;
    }
    Ok(())
}

fn verdict(reports: &[Report], fail_on: FailOn) -> Exit {
    let worst = reports.iter().filter_map(Report::worst).max();
    match (worst, fail_on.severity()) {
        (Some(worst), Some(limit)) if worst >= limit => Exit::Findings,
        _ => Exit::Clean,
    }
}
