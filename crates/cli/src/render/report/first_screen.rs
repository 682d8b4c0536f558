//! A report that fits a screen: the findings in one line each, the first ones in full, and the conclusion last.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::Report;
use trace_advisor::advisor::{Breakdown, BreakdownPart, Finding, RecordingKind, Severity};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::time::human;

use super::context::ReportContext;
use super::finding_text::{Detail, write_next_finding};
use super::findings_list::FindingsList;
use super::instructions::write_instructions;
use super::phrases::{self, DescribedFixes};
use crate::render::bar::{MAX_PARTS, fill, lengths};
use crate::render::layout::Layout;
use crate::render::value::value;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BANNER: Style = AnsiColor::Yellow.on_default().bold();
/// Colors of the parts of the bar in which the device is busy, and of those in which it is idle.
const BUSY: Style = AnsiColor::Green.on_default();
const IDLE: Style = AnsiColor::Red.on_default();
/// Findings that are shown in full.
const IN_FULL: usize = 3;
/// Bytes of a message that a caution repeats.
const MAX_CAUTION: usize = 60;
/// Profiler options that the note about unknown verdicts names.
const MAX_OPTIONS: usize = 3;

/// Writes a report without its first line, which describes the run.
pub(super) fn write(
    report: &Report,
    context: &ReportContext<'_>,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_severe = report.severe_limit().is_some();
    let shown: Vec<&Finding> = context.shown(report).collect();
    let list = FindingsList::new(report, &shown);
    write_overview(report, &list, layout, out)?;
    let first = report.first_finding().filter(|first| shown.iter().any(|f| f.code == first.code));
    let mut described = DescribedFixes::default();
    for finding in in_full(first.into_iter().chain(list.by_saving())) {
        writeln!(out)?;
        write_next_finding(finding, Detail::Advice, &mut described, layout, out)?;
    }
    let events: u64 = report.run.sources.iter().map(|source| source.events).sum();
    let is_small = events < SMALL_EVENTS && is_severe;
    // Findings from a recording without steps need the code, too.
    let has_no_steps = report.recording.as_ref().is_some_and(|r| r.kind == RecordingKind::NoSteps);
    if !is_small && (shown.is_empty() || is_severe || has_no_steps) {
        write_instructions(report, layout, out)?;
    }
    if !is_small {
        writeln!(out)?;
    }
    let mut line = |style: Style, text: &str| -> io::Result<()> {
        for line in layout.wrapped(text, 0) {
            writeln!(out, "{style}{line}{style:#}")?;
        }
        Ok(())
    };
    if let Some(text) = not_judged(report).filter(|_| !is_severe) {
        line(DIM, &text)?;
    }
    for (label, text) in report.baseline.iter().flat_map(phrases::baseline_changes) {
        line(Style::new(), &format!("{label}: {text}"))?;
    }
    if let Some(baseline) = &report.baseline {
        line(Style::new(), &phrases::baseline_counts(baseline))?;
    }
    if !is_severe {
        line(DIM, &phrases::finding_counts(report, false))?;
    }
    let code = phrases::instructions(report).filter(|_| is_small);
    let code = code.map_or("", |_| " Run with `--full` for profiler code to copy.");
    line(BOLD, &format!("{}{code}", report.headline.text))
}

/// Writes what undermines findings, what takes the time, and the findings in one line each, below the fixes of the plan.
pub(super) fn write_overview(
    report: &Report,
    findings: &FindingsList<'_>,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_banners(report, layout, out)?;
    if let Some(breakdown) = report.breakdown.as_ref().filter(|_| report.severe_limit().is_none()) {
        writeln!(out)?;
        write_breakdown(breakdown, report, layout, out)?;
    }
    if !findings.is_empty() {
        writeln!(out)?;
        findings.write(layout, out)?;
    }
    Ok(())
}

/// A recording with fewer events that shows next to nothing gets a few lines.
const SMALL_EVENTS: u64 = 1000;

/// Writes what undermines all findings: notes about the trace.
fn write_banners(report: &Report, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let mut banners: Vec<String> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    let is_severe = report.severe_limit().is_some();
    if let Some(recording) = &report.recording {
        if !recording.subject.is_empty() {
            for line in layout.wrapped(&recording.subject, 0) {
                writeln!(out, "{line}")?;
            }
        }
        // One that shows next to nothing: what else it lacks does not matter.
        let shown =
            recording.limits.iter().enumerate().filter(|(i, limit)| {
                !is_severe || *i == 0 || limit.kind == RecordingKind::Truncated
            });
        banners.extend(shown.map(|(_, limit)| limit.text.clone()));
        told = recording.told_notes();
    }
    let notes = report.notes().filter(|note| note.severity > Severity::Info && !is_severe);
    banners.extend(
        notes
            .filter(|note| !told.contains(&note.code.as_str()))
            .map(|note| format!("{} (`advisor explain {}`)", caution(note), note.code)),
    );
    for banner in banners {
        for (i, line) in layout.wrapped(&banner, 9).iter().enumerate() {
            match i {
                0 => writeln!(out, "{BANNER}caution{BANNER:#}: {line}")?,
                _ => writeln!(out, "         {line}")?,
            }
        }
    }
    for line in report.time_summary().into_iter().flat_map(|text| layout.wrapped(text, 0)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The title of a note, and its message if that is a short sentence.
fn caution(note: &Finding) -> String {
    match note.message.trim_end_matches('.') {
        message if message.len() <= MAX_CAUTION && !message.contains(". ") => {
            format!("{}: {message}", note.title)
        }
        _ => note.title.clone(),
    }
}

/// Writes the bar of a step by cause, and its legend.
fn write_breakdown(
    breakdown: &Breakdown,
    report: &Report,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let span = match breakdown.steps {
        0 => format!("the recording, {}", human(breakdown.window_ns as f64)),
        steps => {
            // The step time of the conclusion, also where the window of the device is a little longer.
            let window_ns = breakdown.window_ns as f64;
            let step_ns = report.headline.step_ms.map_or(window_ns / steps as f64, |ms| ms * 1e6);
            format!("a step, {} ({})", human(step_ns), phrases::mean_of(steps, report.run.steps))
        }
    };
    let device = if breakdown.is_of_host() {
        " on the CPU".to_owned()
    } else {
        format!(" on GPU {}", breakdown.device)
    };
    let device = match report.run.ranks.len() {
        1 => device,
        _ if breakdown.is_slowest => format!("{device} of rank {}, the slowest", breakdown.rank),
        _ => format!("{device} of rank {}; all ranks take as long", breakdown.rank),
    };
    for line in layout.wrapped(&format!("{span}{device}:"), 0) {
        writeln!(out, "{DIM}{line}{DIM:#}")?;
    }
    let parts = shown_parts(&breakdown.parts);
    let ratios: Vec<f64> = parts.iter().map(|part| part.ratio).collect();
    let style = |part: &BreakdownPart| if part.is_busy { BUSY } else { IDLE };
    for ((i, part), length) in parts.iter().enumerate().zip(lengths(&ratios, layout.columns)) {
        let style = style(part);
        write!(out, "{style}{}{style:#}", fill(i, layout).to_string().repeat(length))?;
    }
    writeln!(out)?;
    let entries = parts.iter().enumerate().map(|(i, part)| {
        let text = format!("{} {}", part.cause, value(part.ratio, Unit::Ratio));
        (fill(i, layout).to_string(), text, style(part))
    });
    layout.write_legend(entries, out)
}

/// The parts that a bar can show; small ones are added up.
fn shown_parts(parts: &[BreakdownPart]) -> Vec<BreakdownPart> {
    let mut by_size: Vec<f64> = parts.iter().map(|part| part.ratio).collect();
    by_size.sort_by(|a, b| b.total_cmp(a));
    let least = by_size.get(MAX_PARTS - 2).copied().unwrap_or(0.0).max(MIN_PART_RATIO);
    let (shown, small): (Vec<_>, Vec<_>) =
        parts.iter().cloned().partition(|part| part.ratio >= least);
    let ratio: f64 = small.iter().map(|part| part.ratio).sum();
    let other = BreakdownPart { cause: "other".to_owned(), is_busy: false, ratio };
    shown.into_iter().chain((ratio >= MIN_OTHER_RATIO).then_some(other)).collect()
}

/// Shares below which a part of the bar is not shown on its own, and below which the rest is not shown at all.
const MIN_PART_RATIO: f64 = 0.005;
const MIN_OTHER_RATIO: f64 = 0.001;

/// The first findings that have nothing to do with each other: a finding that is part of another one says the same.
fn in_full<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<&'a Finding> {
    let is_part = |of: &Finding, finding: &Finding| finding.gain.within.contains(&of.code);
    let mut chosen: Vec<&Finding> = Vec::new();
    for finding in findings {
        let is_related = |other: &&Finding| {
            other.code == finding.code || is_part(other, finding) || is_part(finding, other)
        };
        if chosen.len() < IN_FULL && !chosen.iter().any(is_related) {
            chosen.push(finding);
        }
    }
    chosen
}

/// Whether rules have no verdict, and the profiler options that would give most of them one.
fn not_judged(report: &Report) -> Option<String> {
    let (unknown, _) = report.unknown_rules();
    if unknown.is_empty() {
        return None;
    }
    let options = report.missing_options();
    let names: Vec<String> =
        options.iter().take(MAX_OPTIONS).map(|missing| format!("`{}`", missing.option)).collect();
    Some(match names.as_slice() {
        [] => "Some rules have no verdict (--full lists the reasons)".to_owned(),
        names => {
            let names = names.join(", ");
            format!(
                "Some rules have no verdict; record with {names} to judge more (--full lists the reasons)"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use trace_advisor::trace_model::Capability;

    use super::not_judged;
    use crate::render::report::tests::report;

    #[test]
    fn not_judged_names_what_to_record() {
        let mut report = report();
        report.unknown[0].needs = vec![Capability::PythonStacks];
        let text = not_judged(&report).unwrap();
        assert!(text.contains("record with `with_stack=True` to judge more"), "{text}");
        report.unknown.clear();
        assert_eq!(not_judged(&report), None);
    }
}
