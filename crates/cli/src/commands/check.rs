//! `advisor check`: checks runs, prints reports, fails on findings.

use trace_advisor::advisor::{self, FailOn, Policy, Rule};
use trace_advisor::{Checked, OpenOptions, PendingCheck, Report, RuleSet};

use crate::args::{CheckArgs, ReportFormat};
use crate::baseline;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::{print_timings, warn_about_file};
use crate::output::write_output;
use crate::progress::ReadProgress;
use crate::render::report::{self, ReportContext};
use crate::rule_files;
use crate::run::{
    command_line_options, note_if_exported, open_options, store_in_cache, warn_not_cached,
};

pub(crate) fn run(args: &CheckArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let policy = Policy { min_gain_pct: args.min_gain, fail_on: args.fail_on, ..Policy::default() };
    let rules = rule_files::load_with_policy(&args.rules, &policy)?;
    if rules.rules().iter().all(Rule::is_comparison) {
        let help = "`advisor rules list` marks the rules that are left out";
        return Err(with_help("no rule is left to check a run with", help));
    }
    let baseline = args.baseline.as_deref().map(baseline::read).transpose()?;
    let context = context(args, &rules);
    let options = OpenOptions { step_time_ns: args.step_time, ..open_options(&args.read)? };
    // Text on stdout is printed as it becomes known: the header once the run is open, the rest once it is checked.
    let is_streamed = args.format == ReportFormat::Text && args.output.file.is_none();
    let mut reports = Vec::with_capacity(args.paths.len());
    let mut last_run = None;
    for (i, path) in args.paths.iter().enumerate() {
        let progress = ReadProgress::new(console.err_is_terminal);
        let pending = trace_advisor::open_check(path, &options, &progress)?;
        if is_streamed {
            progress.clear();
            print_header(&pending, i == 0, console)?;
        }
        let Checked { mut report, stages, run, cache_error } = pending.evaluate(&rules)?;
        drop(progress);
        if let Some(run) = &run {
            note_if_exported(run, &args.read, console)?;
        }
        if let Some(error) = &cache_error {
            warn_not_cached(error, &args.read, console)?;
        }
        if let Some(baseline) = &baseline {
            baseline.apply(&mut report, (i, args.paths.len()), &rules)?;
        }
        if is_streamed {
            report::write_body(&report, &context, &mut console.out)?;
            console.out.flush()?;
        }
        reports.push(report);
        if args.read.timings {
            print_timings(&stages, run.as_ref(), console)?;
        }
        // One run in memory at a time. The last one is cached when the report is out.
        if let Some(previous) = std::mem::replace(&mut last_run, run) {
            store_in_cache(&previous, &args.read, console)?;
        }
    }
    if !is_streamed {
        write_output(&args.output, args.format.audience(), console, |out, _| {
            report::write(&reports, &context, args.format, out)
        })?;
        console.out.flush()?;
    }
    if !args.format.includes_warnings() {
        for warning in reports.iter().flat_map(|report| &report.warnings) {
            warn_about_file(&warning.file, &warning.message, warning.count, console)?;
        }
    }
    if let Some(run) = &last_run {
        store_in_cache(run, &args.read, console)?;
    }
    Ok(if args.exit_zero { Exit::Clean } else { exit_code(&reports, fail_on(&rules)) })
}

/// Prints the first line of a report, after an empty line between reports.
fn print_header(
    pending: &PendingCheck<'_>,
    is_first: bool,
    console: &mut Console,
) -> anyhow::Result<()> {
    if !is_first {
        writeln!(console.out)?;
    }
    report::write_header(&advisor::Run::from(pending.info()), &mut console.out)?;
    Ok(console.out.flush()?)
}

fn context<'a>(args: &CheckArgs, rules: &'a RuleSet) -> ReportContext<'a> {
    ReportContext {
        rules,
        show_all: args.all,
        fail_on: fail_on(rules).severity(),
        query_options: args.explain.then(|| command_line_options(&args.read)),
    }
}

fn fail_on(rules: &RuleSet) -> FailOn {
    rules.policy().fail_on.unwrap_or(FailOn::Medium)
}

fn exit_code(reports: &[Report], fail_on: FailOn) -> Exit {
    let worst = reports.iter().filter_map(Report::worst).max();
    match (worst, fail_on.severity()) {
        (Some(worst), Some(limit)) if worst >= limit => Exit::Findings,
        _ => Exit::Clean,
    }
}
