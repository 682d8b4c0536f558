//! A report as human-readable text: the first screen, or everything.

use std::io::{self, Write};

use anstyle::Style;
use page::StepLanes;
use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Run};

use super::context::ReportContext;
use super::finding_text::{Detail, MARGIN, write_next_finding};
use super::findings_list::FindingsList;
use super::instructions::write_instructions;
use super::phrases::DescribedFixes;
use super::runs_table::write_runs;
use super::{first_screen, phrases};
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize_lines;
use crate::render::timeline;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Writes all reports, separated by empty lines.
pub(super) fn write(
    reports: &[Report],
    context: &ReportContext<'_>,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (i, report) in reports.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        write_header(&report.run, layout, out)?;
        let timeline = context.timelines.get(i).and_then(Option::as_ref);
        write_body(report, timeline, context, layout, out)?;
    }
    if reports.len() > 1 { write_runs(reports, layout, out) } else { Ok(()) }
}

/// Writes the first line of a report, which describes the run.
pub(crate) fn write_header(run: &Run, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    for line in layout.wrapped(&format!("{}: {}", run.path, phrases::run_summary(run)), 0) {
        writeln!(out, "{DIM}{line}{DIM:#}")?;
    }
    Ok(())
}

/// Writes a report without its first line. `timeline` shows the first finding.
pub(crate) fn write_body(
    report: &Report,
    timeline: Option<&StepLanes>,
    context: &ReportContext<'_>,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !context.is_full {
        return first_screen::write(report, context, layout, out);
    }
    let shown: Vec<&Finding> = context.shown(report).collect();
    first_screen::write_overview(report, &FindingsList::new(report, &shown), layout, out)?;
    if let Some(basis) = phrases::plan_basis(report) {
        writeln!(out)?;
        for line in layout.wrapped(&basis, 0) {
            writeln!(out, "{line}")?;
        }
    }
    let mut described = DescribedFixes::default();
    let detail = if context.show_all { Detail::All } else { Detail::Full };
    for (i, finding) in shown.into_iter().enumerate() {
        writeln!(out)?;
        write_next_finding(finding, detail, &mut described, layout, out)?;
        if let Some(timeline) = timeline.filter(|_| i == 0) {
            writeln!(out)?;
            timeline::write_text(timeline, layout, out)?;
        }
        if let Some(options) = &context.query_options {
            for (subject, command) in phrases::query_commands(report, finding, options) {
                // Not wrapped, so that it can be copied.
                writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}sql{BOLD:#}:   {subject}")?;
                writeln!(out, "{}", sanitize_lines(&command))?;
            }
        }
    }
    writeln!(out)?;
    write_summary(report, context.show_all, layout, out)?;
    write_instructions(report, layout, out)?;
    for line in layout.wrapped(&report.headline.text, 0) {
        writeln!(out, "{BOLD}{line}{BOLD:#}")?;
    }
    Ok(())
}

fn write_summary(
    report: &Report,
    show_all: bool,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in layout.wrapped(&phrases::counts(report, show_all), 0) {
        writeln!(out, "{BOLD}{line}{BOLD:#}")?;
    }
    let mut listed = |label: &str, text: &str| write_listed(label, text, layout, out);
    for ignored in &report.ignored {
        let until = ignored.until.as_deref().map(|d| format!(" until {d}")).unwrap_or_default();
        let text = format!(
            "{} {}{until}: {} ({})",
            ignored.code, ignored.name, ignored.reason, ignored.at
        );
        listed("ignored", &text)?;
    }
    for (codes, reason) in phrases::unknown_by_reason(report) {
        listed("unknown", &format!("{codes}: {reason}"))?;
    }
    let (_, not_applicable) = report.unknown_rules();
    if !not_applicable.is_empty() {
        let codes: Vec<&str> = not_applicable.iter().map(|rule| rule.code.as_str()).collect();
        listed("not applicable", &codes.join(", "))?;
    }
    if show_all && !report.passed.is_empty() {
        listed("passed", &report.passed.join(", "))?;
    }
    if show_all && !report.below_min_gain.is_empty() {
        listed("below minimum gain", &phrases::below_min_gain(report).join(", "))?;
    }
    if let Some(baseline) = &report.baseline {
        for (label, text) in phrases::baseline_changes(baseline) {
            listed(label, &text)?;
        }
        for line in layout.wrapped(&phrases::baseline_counts(baseline), 0) {
            writeln!(out, "{BOLD}{line}{BOLD:#}")?;
        }
    }
    Ok(())
}

/// Writes an entry of the summary, with its lines aligned.
fn write_listed(label: &str, text: &str, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let indent = label.len() + 4;
    for (i, line) in layout.wrapped(text, indent).iter().enumerate() {
        match i {
            0 => writeln!(out, "  {label}: {line}")?,
            _ => writeln!(out, "{:indent$}{line}", "")?,
        }
    }
    Ok(())
}
