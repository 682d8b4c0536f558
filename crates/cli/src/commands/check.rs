//! `advisor check`: judge runs, print reports, fail on findings.

use std::io::Write;

use trace_advisor::advisor::{FailOn, Policy, Rule, Run};
use trace_advisor::trace_model::RunInfo;
use trace_advisor::{Checked, Report, RuleSet};

use crate::args::{Check, ReportFormat};
use crate::failure::helped;
use crate::render::report;
use crate::run::{self, keep, options, print_timings, warn_about};
use crate::{Console, Exit, baseline, output, rule_files};

pub(crate) fn run(args: &Check, console: &mut Console) -> anyhow::Result<Exit> {
    let policy = Policy { min_gain_pct: args.min_gain, fail_on: args.fail_on, ..Policy::default() };
    let rules = rule_files::choose_with(&args.rules, &policy)?;
    if rules.rules().iter().all(Rule::is_comparison) {
        let help = "`advisor rules list` marks the rules that are left out";
        return Err(helped("no rule is left to judge a run with", help));
    }
    let baseline = args.baseline.as_deref().map(baseline::read).transpose()?;
    // Whoever looks on sees what was read while it is judged, and each report as soon as it is there.
    let at_once = args.format == ReportFormat::Text && args.to.output.is_none();
    let mut reports = Vec::with_capacity(args.paths.len());
    let mut last = None;
    for (i, path) in args.paths.iter().enumerate() {
        let begin = |run: &RunInfo, out: &mut dyn Write| {
            out.write_all(if i > 0 { b"\n" } else { b"" })?;
            report::run(&Run::from(run), out)
        };
        let begin: Option<&run::Begin<'_>> = if at_once { Some(&begin) } else { None };
        let Checked { mut report, stages, run: opened, .. } =
            run::check(path, &args.reading, &rules, begin, console)?;
        if let Some(baseline) = &baseline {
            baseline.hold_against(&mut report, (i, args.paths.len()), &rules)?;
        }
        if at_once {
            let reports = std::slice::from_ref(&report);
            let checked = self::checked(reports, &rules, args, true);
            report::write(&checked, args.format, &mut console.out)?;
            console.out.flush()?;
        }
        reports.push(report);
        print_timings(&stages, opened.as_ref(), &args.reading, console)?;
        // One by one: a run in memory is enough. The last one waits until the report is out.
        if let Some(before) = std::mem::replace(&mut last, opened) {
            keep(&before, &args.reading, console)?;
        }
    }
    if !at_once {
        output::to(&args.to, args.format.reader(), console, |out, _| {
            report::write(&checked(&reports, &rules, args, false), args.format, out)
        })?;
        console.out.flush()?;
    }
    if args.format.has_no_warnings() {
        warnings(&reports, console)?;
    }
    if let Some(run) = &last {
        keep(run, &args.reading, console)?;
    }
    Ok(if args.exit_zero { Exit::Clean } else { verdict(&reports, fail_on(&rules)) })
}

fn fail_on(rules: &RuleSet) -> FailOn {
    rules.policy().fail_on.unwrap_or(FailOn::Medium)
}

fn checked<'a>(
    reports: &'a [Report],
    rules: &'a RuleSet,
    args: &Check,
    is_begun: bool,
) -> report::Checked<'a> {
    report::Checked {
        reports,
        rules,
        all: args.all,
        fail_on: fail_on(rules).severity(),
        explain: args.explain.then(|| options(&args.reading)),
        is_begun,
    }
}

/// What could not be read, on stderr.
fn warnings(reports: &[Report], console: &mut Console) -> anyhow::Result<()> {
    for warning in reports.iter().flat_map(|r| &r.warnings) {
        warn_about(&warning.file, &warning.message, warning.count, console)?;
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
