//! `advisor check`: checks runs, prints reports, fails on findings.

use std::path::{Path, PathBuf};

use trace_advisor::advisor::{self, DamagedFile, FailOn, Policy, Rule};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::{plural, value};
use trace_advisor::{Checked, OpenOptions, PendingCheck, Report, RuleSet, Run};

use super::timeline;
use crate::args::{CheckArgs, ReportFormat};
use crate::baseline;
use crate::cluster;
use crate::console::Console;
use crate::diagnostics::{print_error, with_help};
use crate::exit::Exit;
use crate::messages::{note, print_timings, warn, warn_about_file};
use crate::output::{write_output, write_page};
use crate::progress::Stage;
use crate::render::layout::Layout;
use crate::render::report::{self, ReportContext};
use crate::rule_files;
use crate::run::{self, note_if_exported, open_options, store_in_cache, warn_not_cached};
use crate::runs::RunQueue;

pub(crate) fn run(args: &CheckArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = load_rules(args, console)?;
    let baseline = args.baseline.as_deref().map(baseline::read).transpose()?;
    let mut context = context(args, &rules);
    // The page shows more than rules read.
    let later_views = if args.format() == ReportFormat::Html { page::VIEWS } else { &[] };
    let step_time_ns = args.step_time;
    let options = OpenOptions { step_time_ns, later_views, ..open_options(&args.read)? };
    // Text on stdout is printed as it becomes known: the header once the run is open, the rest once it is checked.
    let is_streamed = args.format() == ReportFormat::Text && args.output.file.is_none();
    let layout = Layout::from(console.out_terminal);
    let mut reports = Vec::with_capacity(args.paths.len());
    let mut last_run = None;
    let mut page =
        (args.format() == ReportFormat::Html).then(|| page::Page::new(&page::Options::default()));
    let mut queue = RunQueue::new(&args.paths, args.each.each)?;
    loop {
        let progress = console.progress(Stage::QUERY);
        let options = OpenOptions { view_progress: Some(progress.views()), ..options.clone() };
        let mut opened = PathBuf::new();
        let open = |path: &Path, _: &mut Console| {
            path.clone_into(&mut opened);
            let (read, rule_files) = (&args.read, Some(&args.rules.files));
            progress.suspend(|| cluster::map_run(path, &read.mapped, &read.input, rule_files))?;
            Ok(trace_advisor::open_check(path, &options, progress.files())?)
        };
        let note = |text: &str, console: &mut Console| progress.suspend(|| note(text, console));
        let Some(pending) = queue.next(console, open, note)? else { break };
        if is_streamed {
            progress.suspend(|| print_header(&pending, reports.is_empty(), layout, console))?;
        }
        let Checked { mut report, stages, mut run, cache_error } = pending.evaluate(&rules)?;
        let doubt = step_time_doubt(args.step_time, &report);
        let wants_timeline = args.full && args.format() == ReportFormat::Text;
        if (page.is_some() || wants_timeline) && run.is_none() {
            run = Some(Run::open_with(&opened, &options, progress.files())?);
        }
        // The baseline changes neither the findings nor their order.
        let drawn = run.as_ref().filter(|_| wants_timeline);
        let drawn = drawn.map(|run| timeline::lanes_of_first(run, context.shown(&report).next()));
        context.timelines.push(drawn.transpose()?.flatten());
        drop(progress);
        if let Some(run) = &run {
            note_if_exported(run, &args.read, console)?;
        }
        if let Some(doubt) = doubt {
            warn(&format!("--step-time: {doubt}"), console)?;
        }
        if let Some(error) = &cache_error {
            warn_not_cached(error, &args.read, console)?;
        }
        if let Some(baseline) = &baseline {
            let count = reports.len() + 1 + queue.len();
            baseline.apply(&mut report, (reports.len(), count), &rules)?;
        }
        if is_streamed {
            let timeline = context.timelines.last().and_then(Option::as_ref);
            report::write_body(&report, timeline, &context, layout, &mut console.out)?;
            console.out.flush()?;
        }
        if let (Some(page), Some(run)) = (&mut page, &run) {
            page.add(run, &report)?;
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
    if is_streamed && reports.len() > 1 {
        report::write_runs(&reports, layout, &mut console.out)?;
    }
    if let Some(page) = page {
        write_page(&args.output, &page.finish(), console)?;
    } else if !is_streamed {
        write_output(&args.output, args.format().audience(), console, |out, terminal| {
            report::write(&reports, &context, args.format(), Layout::from(terminal), out)
        })?;
        console.out.flush()?;
    }
    if !args.format().includes_warnings() {
        for warning in reports.iter().flat_map(|report| &report.warnings) {
            warn_about_file(&warning.file, &warning.message, warning.count, console)?;
        }
    }
    if let Some(run) = &last_run {
        store_in_cache(run, &args.read, console)?;
    }
    let read = queue.print_failures(console)?;
    let unjudged: Vec<&Report> =
        reports.iter().filter(|report| !report.is_judged(&rules)).collect();
    for report in &unjudged {
        let reason = match report.severe_limit() {
            Some(_) => "the recording shows next to nothing",
            None if report.shows_memory_only() => "no rule is about memory timelines",
            None if report.lacks_profiler_trace() => "it holds no trace of the PyTorch Profiler",
            None => report.main_unknown_reason().unwrap_or("no rule was evaluated"),
        };
        let message = format!("{} could not be judged: {reason}", report.run.path);
        print_error(&anyhow::Error::msg(message), console)?;
    }
    let mut is_damaged = false;
    for report in reports.iter().filter(|_| !args.damage.allow_damaged) {
        is_damaged |= print_damage(&report.run.path, &report.damaged_files, console)?;
    }
    Ok(if read == Exit::Failed || !unjudged.is_empty() || is_damaged {
        Exit::Failed
    } else if args.exit_zero {
        Exit::Clean
    } else {
        exit_code(&reports, fail_on(&rules))
    })
}

/// Asks about a step time that the recording cannot confirm: the profiler makes steps longer, and only by so much.
pub(crate) fn step_time_doubt(given_ns: Option<i64>, report: &Report) -> Option<String> {
    /// How far predictions may start from the given time. Without any, how far a step may be from its recording.
    const NEAR: std::ops::RangeInclusive<f64> = 0.9..=1.1;
    const NEAR_RECORDED: std::ops::RangeInclusive<f64> = 0.3..=1.1;
    let given_ms = given_ns? as f64 / 1e6;
    let recorded_ms = report.headline.step_ms?;
    let used_ms = report.headline.unprofiled_step_ms.map(|step| step.mid);
    let is_near = used_ms.map_or_else(
        || NEAR_RECORDED.contains(&(given_ms / recorded_ms)),
        |used_ms| NEAR.contains(&(given_ms / used_ms)),
    );
    let time = |ms: f64| value(ms * 1e6, Unit::Ns);
    let used =
        used_ms.map_or_else(String::new, |ms| format!(", and predictions start from {}", time(ms)));
    (!is_near).then(|| {
        format!(
            "{} is far from the recording: a step of {} took {} with the profiler{used}; is it the time of one step?",
            time(given_ms),
            report.run.path,
            time(recorded_ms),
        )
    })
}

/// Prints an error about damaged traces. Returns whether there are any.
pub(crate) fn print_damage(
    run: &str,
    files: &[DamagedFile],
    console: &mut Console,
) -> anyhow::Result<bool> {
    let Some(first) = files.first() else { return Ok(false) };
    let more = match files.len() - 1 {
        0 => String::new(),
        more => format!(", and {}", plural(more, "more file")),
    };
    let message = format!("{run} is damaged: {}: {}{more}", first.file, first.description);
    let help = "record or copy it again, or pass --allow-damaged to check only the intact part";
    print_error(&with_help(message, help), console)?;
    Ok(true)
}

/// Loads the rules that the options select.
pub(crate) fn load_rules(args: &CheckArgs, console: &mut Console) -> anyhow::Result<RuleSet> {
    let policy = Policy { min_gain_pct: args.min_gain, fail_on: args.fail_on, ..Policy::default() };
    let rules = rule_files::load_with_policy(&args.rules, &policy, console)?;
    if rules.rules().iter().all(Rule::is_comparison) {
        let help = "`advisor rules list` marks the rules that are left out";
        return Err(with_help("no rule is left to check a run with", help));
    }
    Ok(rules)
}

/// Prints the first line of a report, after an empty line between reports.
fn print_header(
    pending: &PendingCheck<'_>,
    is_first: bool,
    layout: Layout,
    console: &mut Console,
) -> anyhow::Result<()> {
    if !is_first {
        writeln!(console.out)?;
    }
    report::write_header(&advisor::Run::from(pending.info()), layout, &mut console.out)?;
    Ok(console.out.flush()?)
}

/// Returns the rules and options that the renderers need.
pub(crate) fn context<'a>(args: &CheckArgs, rules: &'a RuleSet) -> ReportContext<'a> {
    let folder = std::env::current_dir().unwrap_or_default();
    let options = command_options(args);
    ReportContext {
        rules,
        show_all: args.all,
        is_full: args.full || args.all || args.explain,
        fail_on: fail_on(rules).severity(),
        command_options: options.iter().map(|o| report::relative_path(&folder, o)).collect(),
        folder,
        query_options: args.explain.then(|| run::command_options(&args.read).to_vec()),
        timelines: Vec::new(),
    }
}

/// The options that decide what a report says.
fn command_options(args: &CheckArgs) -> Vec<String> {
    let values = [
        ("--min-gain", args.min_gain.map(|percent| format!("{percent}%"))),
        ("--step-time", args.step_time.map(|ns| format!("{ns}ns"))),
        ("--baseline", args.baseline.as_ref().map(|path| path.display().to_string())),
    ];
    let values = values.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let mut options = rule_files::command_line_options(&args.rules);
    options.extend(values.flatten());
    options.extend(run::command_options(&args.read).to_vec());
    options
}

/// The lowest severity that fails the check.
pub(crate) fn fail_on(rules: &RuleSet) -> FailOn {
    rules.policy().fail_on.unwrap_or(FailOn::Medium)
}

/// The exit code for the findings.
pub(crate) fn exit_code(reports: &[Report], fail_on: FailOn) -> Exit {
    let worst = reports.iter().filter_map(Report::worst).max();
    match (worst, fail_on.severity()) {
        (Some(worst), Some(limit)) if worst >= limit => Exit::Findings,
        _ => Exit::Clean,
    }
}
