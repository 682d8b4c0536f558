//! The findings of a report in one line each: below the fixes of the plan, in its order, then the rest.

use std::io::{self, Write};

use anstyle::Style;
use trace_advisor::Report;
use trace_advisor::advisor::{Finding, FindingFix, Plan, PlannedFix};

use super::finding_text::severity_style;
use super::phrases;
use super::tree::tree;
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Fixes are a table from this width on.
const MIN_TABLE_COLUMNS: usize = 72;
/// Longest location at the end of a line.
const MAX_LOCATION: usize = 28;
/// Characters before a finding that belongs to a fix: its number and a gap.
const FIX_INDENT: usize = 4;

/// The findings of a report, by what to do about them.
pub(super) struct FindingsList<'a> {
    plan: Option<&'a Plan>,
    /// Findings without a fix that contain other findings.
    headings: Vec<&'a Finding>,
    /// The fixes of the plan, each with the findings that no earlier fix helps.
    planned: Vec<(&'a PlannedFix, Vec<&'a Finding>)>,
    others: Vec<&'a Finding>,
}

impl<'a> FindingsList<'a> {
    pub(super) fn new(report: &'a Report, findings: &[&'a Finding]) -> Self {
        let plan = report.plan.as_ref().filter(|plan| !plan.fixes.is_empty());
        let mut left: Vec<&Finding> = findings.to_vec();
        let planned = plan.iter().flat_map(|plan| &plan.fixes).map(|fix| {
            let (own, others) = left.iter().partition(|finding| fix.codes.contains(&finding.code));
            left = others;
            (fix, own)
        });
        let planned: Vec<_> = planned.collect();
        let is_heading = |finding: &&Finding| {
            let contains = |other: &&Finding| other.gain.within.contains(&finding.code);
            finding.fixes.is_empty() && !finding.is_cause && findings.iter().any(contains)
        };
        let (headings, others) = left.into_iter().partition(is_heading);
        Self { plan, headings, planned, others }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_saving().next().is_none()
    }

    /// The findings, sorted by the least saving of their fixes in the plan, largest first. Findings outside the plan and headings
    /// come last.
    pub(super) fn by_saving(&self) -> impl Iterator<Item = &'a Finding> {
        let mut planned: Vec<_> = self.planned.iter().collect();
        planned.sort_by(|(a, _), (b, _)| b.saves_pct.low.total_cmp(&a.saves_pct.low));
        let planned = planned.into_iter().flat_map(|(_, findings)| findings);
        planned.chain(&self.others).chain(&self.headings).copied()
    }

    pub(super) fn write(&self, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
        for heading in &self.headings {
            write_finding(heading, 0, "", layout, out)?;
        }
        let Some(plan) = self.plan else { return self.write_unplanned(layout, out) };
        if !self.headings.is_empty() {
            writeln!(out)?;
        }
        let span = phrases::timed_span(plan);
        let base = phrases::ms_range(&plan.unprofiled_ms);
        let base =
            format!("Savings are shares of the {base} that a {span} takes without the profiler.");
        for line in layout.wrapped(&base, 0) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        let then = format!("a {span} then takes");
        let rows =
            self.planned.iter().map(|(fix, _)| (saves(fix), phrases::ms_range(&fix.after_ms)));
        let rows: Vec<(String, String)> = rows.collect();
        let width = |texts: &mut dyn Iterator<Item = &String>, head: &str| {
            texts.map(|text| text.chars().count()).max().unwrap_or(0).max(head.len())
        };
        let saves_width = width(&mut rows.iter().map(|(saves, _)| saves), "saves");
        let then_width = width(&mut rows.iter().map(|(_, then)| then), &then);
        let is_table = layout.columns >= MIN_TABLE_COLUMNS;
        if is_table {
            let head = format!(" #  {:saves_width$}  {then:then_width$}  fix", "saves");
            writeln!(out, "{DIM}{head}{DIM:#}")?;
        }
        for ((fix, findings), (saves, after)) in self.planned.iter().zip(&rows) {
            let number = fix.position;
            let effort = fix.effort.as_str();
            let action = format!("{} ({effort} effort){}", fix.title, remark(fix, findings));
            if is_table {
                let indent = FIX_INDENT + saves_width + 2 + then_width + 2;
                write!(out, "{number:>2}  {saves:saves_width$}  {after:then_width$}  ")?;
                write_lines(&layout.wrapped(&action, indent), indent, out)?;
            } else {
                write!(out, "{number:>2}  ")?;
                write_lines(&layout.wrapped(&action, FIX_INDENT), FIX_INDENT, out)?;
                let numbers = format!("saves {saves}; {then} {after}");
                write!(out, "{:FIX_INDENT$}", "")?;
                write_lines(&layout.wrapped(&numbers, FIX_INDENT), FIX_INDENT, out)?;
            }
            for (depth, finding) in tree(findings) {
                write_finding(finding, FIX_INDENT + 2 * depth, "", layout, out)?;
            }
        }
        if !self.others.is_empty() {
            writeln!(out, "{DIM}not in the plan{DIM:#}")?;
        }
        for (depth, finding) in tree(&self.others) {
            write_finding(finding, FIX_INDENT + 2 * depth, &alone(finding), layout, out)?;
        }
        Ok(())
    }

    /// Without a plan, savings are shares of the recorded time.
    fn write_unplanned(&self, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
        for (depth, finding) in tree(&self.others) {
            let saves = match phrases::gain_share(finding) {
                saves if saves.is_empty() => alone(finding),
                saves => format!(" (saves {saves} of the recorded time)"),
            };
            write_finding(finding, 2 * depth, &saves, layout, out)?;
        }
        Ok(())
    }
}

fn saves(fix: &PlannedFix) -> String {
    phrases::percent_range(fix.saves_pct.low, fix.saves_pct.high)
}

/// Returns what the lines of the findings below a fix do not show: which findings it also helps, or that it saves nothing alone.
fn remark(fix: &PlannedFix, findings: &[&Finding]) -> String {
    if findings.is_empty() {
        return format!(", also for {}", fix.codes.join(", "));
    }
    let is_own = |own: &&FindingFix| own.fix == fix.fix;
    let own = findings.iter().find_map(|finding| finding.fixes.iter().find(is_own));
    let saves_alone = own.is_none_or(|own| own.alone_pct.mid > 0.0);
    if saves_alone { String::new() } else { ", saves nothing before the fixes above".to_owned() }
}

/// Returns what a fix outside the plan saves alone, in parentheses; empty if no saving is predicted.
fn alone(finding: &Finding) -> String {
    match (&finding.gain.unknown, phrases::gain_share(finding)) {
        (Some(_), _) => " (saving unknown)".to_owned(),
        (None, saves) if saves.is_empty() => " (no saving predicted)".to_owned(),
        (None, saves) => format!(" (alone {saves}; nothing after the plan)"),
    }
}

/// Writes a line for a finding: severity, code and title, and its location at the right margin.
fn write_finding(
    finding: &Finding,
    indent: usize,
    saves: &str,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let severity = finding.severity.as_str();
    // Severities of a table are a column.
    let severity_width = if layout.columns >= MIN_TABLE_COLUMNS { 8 } else { severity.len() };
    let style = severity_style(finding.severity);
    write!(out, "{:indent$}{style}{severity:severity_width$}{style:#}  ", "")?;
    let state = finding.baseline_state.map(|s| format!("{}: ", s.as_str())).unwrap_or_default();
    let text = format!("{} {state}{}{saves}", finding.code, finding.title);
    let indent = indent + severity_width + 2;
    let lines = layout.wrapped(&text, indent);
    let location = finding.source.first();
    let location = location
        .map(|source| sanitize(&phrases::short_location(source, MAX_LOCATION)).into_owned());
    let used = indent + lines.last().map_or(0, |line| line.chars().count());
    let room = layout.columns.saturating_sub(used);
    let fits = location.as_ref().is_some_and(|text| text.chars().count() + 2 <= room);
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            write!(out, "\n{:indent$}", "")?;
        }
        write!(out, "{line}")?;
    }
    match location {
        Some(location) if fits => writeln!(out, "{DIM}{location:>room$}{DIM:#}"),
        Some(location) => {
            for line in layout.wrapped(&location, indent) {
                write!(out, "\n{:indent$}{DIM}{line}{DIM:#}", "")?;
            }
            writeln!(out)
        }
        None => writeln!(out),
    }
}

/// Writes the lines of a fix, all but the first one indented.
fn write_lines(lines: &[String], indent: usize, out: &mut dyn Write) -> io::Result<()> {
    for (i, line) in lines.iter().enumerate() {
        let indent = if i == 0 { 0 } else { indent };
        writeln!(out, "{:indent$}{BOLD}{line}{BOLD:#}", "")?;
    }
    Ok(())
}
