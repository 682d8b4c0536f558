//! `advisor timeline`: a step as lanes of characters, for terminals without a trace viewer.

use page::{StepLanes, step_lanes};
use trace_advisor::advisor::Finding;
use trace_advisor::{Report, Run};

use crate::args::{Audience, TimelineArgs, TimelineFormat};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::output::write_output;
use crate::render::layout::Layout;
use crate::render::timeline;
use crate::rule_files;
use crate::run::{finish, open};

pub(super) fn run(args: &TimelineArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load_selected(&args.rules, console)?;
    let (run, progress) = open(&args.run.path, &args.read, console)?;
    let report = run.check(&rules)?;
    let lanes = lanes(&run, &report, args.finding.as_deref(), args.step)?;
    drop(progress);
    let format = args.output.format(args.format);
    let audience = match format {
        TimelineFormat::Text => Audience::Human,
        TimelineFormat::Svg => Audience::Machine,
    };
    write_output(&args.output, audience, console, |out, terminal| {
        if format == TimelineFormat::Svg {
            return Ok(timeline::write_svg(&lanes, out)?);
        }
        let mut layout = Layout::from(terminal);
        layout.columns = args.width.unwrap_or(layout.columns);
        Ok(timeline::write_text(&lanes, layout, out)?)
    })?;
    console.out.flush()?;
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

/// The lanes of a step. Marks the finding of the rule with this code or name, by default the first finding with a time range.
pub(crate) fn lanes(
    run: &Run,
    report: &Report,
    rule: Option<&str>,
    step: Option<i64>,
) -> anyhow::Result<StepLanes> {
    let finding = if let Some(rule) = rule {
        Some(finding_of(report, rule)?)
    } else {
        // The first that has a place in time.
        let is_placed = |finding: &&Finding| finding.occurrences.is_some();
        report.advice().find(is_placed).or_else(|| report.advice().next())
    };
    step_lanes(run, finding, step)?.map_err(|reason| {
        let path = &report.run.path;
        let help = "`advisor check` shows what such a recording holds";
        if report.shows_memory_only() {
            return with_help(format!("{path} has no timeline: it only records memory"), help);
        }
        if report.lacks_profiler_trace() {
            let reason = "it holds no trace of the PyTorch Profiler";
            return with_help(format!("{path} has no timeline: {reason}"), help);
        }
        anyhow::Error::msg(format!("cannot draw a timeline of {path}: {reason}"))
    })
}

/// The lanes for the first finding of a report that is shown in full. None if there is none, or if it cannot be drawn.
pub(crate) fn lanes_of_first(
    run: &Run,
    first: Option<&Finding>,
) -> anyhow::Result<Option<StepLanes>> {
    let Some(first) = first else { return Ok(None) };
    match step_lanes(run, Some(first), None) {
        Ok(lanes) => Ok(lanes.ok()),
        // The report says why a view has no rows.
        Err(error) if error.failed_query().is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn finding_of<'a>(report: &'a Report, rule: &str) -> anyhow::Result<&'a Finding> {
    let is_wanted =
        |finding: &&Finding| finding.code.eq_ignore_ascii_case(rule) || finding.name == rule;
    report.findings.iter().find(is_wanted).ok_or_else(|| {
        let codes: Vec<&str> = report.findings.iter().map(|f| f.code.as_str()).collect();
        let help = match codes.as_slice() {
            [] => "the run has no findings".to_owned(),
            codes => format!("the findings are: {}", codes.join(", ")),
        };
        with_help(format!("the run has no finding of the rule `{rule}`"), help)
    })
}
