//! A finding as human-readable text.
//!
//! ```text
//! high[IN001 dataloader-wait]: Steps wait for the DataLoader    saves up to 33.1 %, 2.35 ms/step
//!   --> train.py:61
//!    | 33.1 % of a step ...
//!    = where: rank 1: dataloader 33.1 %; rank 0: 32.9 % (2 of 2 ranks, over 6 steps)
//!    = limit: > 20 % (rules/default.toml:12)
//!    = seen:  310..361 ms on rank 0 (+11 more, 283 ms in total)
//!    = help:  raise num_workers
//! ```

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::{Finding, Severity};

use super::phrases::{self, DescribedFixes};
use crate::render::bar::strip;
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize;

const BOLD: Style = Style::new().bold();
/// Arrows and bars in the margin.
pub(super) const MARGIN: Style = AnsiColor::Blue.on_default().bold();
/// Number of affected rows listed before the rest is counted.
const MAX_ROWS: usize = 3;

/// Parts of a finding that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// What to do, and where.
    Advice,
    /// Also the threshold and the page of the rule.
    Full,
    /// Also all affected rows, and evidence.
    All,
}

/// Writes a finding on its own.
pub(crate) fn write_finding(
    finding: &Finding,
    detail: Detail,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_next_finding(finding, detail, &mut DescribedFixes::default(), layout, out)
}

/// Writes a finding of a report, with the fixes that no finding before it has.
pub(super) fn write_next_finding(
    finding: &Finding,
    detail: Detail,
    described: &mut DescribedFixes,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_title(finding, layout, out)?;
    if let Some((first, rest)) = finding.source.split_first() {
        let more =
            if rest.is_empty() { String::new() } else { format!(", then {}", rest.join(", ")) };
        let lines = layout.wrapped(&format!("{first}{more}"), 6);
        for (i, line) in lines.iter().enumerate() {
            let arrow = if i == 0 { "-->" } else { "   " };
            writeln!(out, "  {MARGIN}{arrow}{MARGIN:#} {line}")?;
        }
    }
    for line in layout.wrapped(&finding.message, 5) {
        writeln!(out, "   {MARGIN}|{MARGIN:#} {line}")?;
    }
    let mut entry = |label: &str, text: &str| write_entry(label, text, layout, out);
    let rows = if detail == Detail::All { usize::MAX } else { MAX_ROWS };
    entry("where", &phrases::affected(finding, rows))?;
    if detail > Detail::Advice {
        entry("limit", &phrases::threshold(finding))?;
    }
    if let Some(seen) = phrases::occurrences(finding) {
        entry("seen", &seen)?;
    }
    let timeline = finding.occurrences.as_ref().and_then(|seen| strip(&seen.timeline, layout));
    if let Some(timeline) = timeline {
        entry("when", &timeline)?;
    }
    for fix in phrases::fixes(finding, described) {
        entry("fix", &fix)?;
    }
    let notes = [phrases::confidence_note(finding), phrases::related_findings(finding)];
    for note in notes.into_iter().flatten() {
        entry("note", &note)?;
    }
    if detail == Detail::All {
        for fix in &finding.left_out_fixes {
            entry("note", &format!("not offered: {}, because {}", fix.title, fix.reason))?;
        }
    }
    if detail == Detail::All {
        for row in phrases::evidence_rows(finding) {
            entry("row", &row)?;
        }
    }
    for advice in &finding.advice {
        entry("help", advice)?;
    }
    if detail > Detail::Advice {
        entry("docs", &format!("advisor explain {}", finding.code))?;
    }
    Ok(())
}

/// Writes the first line: the title, and the gain at the right margin or, if the title leaves no room, on a line
/// of its own.
fn write_title(finding: &Finding, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let style = severity_style(finding.severity);
    let tag = format!("{}[{}]", phrases::severity_label(finding), sanitize(&phrases::tag(finding)));
    let state = finding.baseline_state.map(|s| format!(" {}", s.as_str())).unwrap_or_default();
    let gain = match phrases::gain(finding) {
        gain if gain.is_empty() => gain,
        // The fix serves other findings, too.
        gain if finding.fixes.first().is_some_and(|fix| fix.shortens_pct.is_some()) => {
            format!("its fix saves {gain}")
        }
        gain => format!("saves {gain}"),
    };
    let head = tag.chars().count() + state.len() + 2;
    let titles = layout.wrapped(&finding.title, head.min(layout.columns / 2));
    let width = head + titles[0].chars().count();
    let gain_width = gain.chars().count();
    if titles.len() == 1 && width <= layout.columns {
        let room = layout.columns - width;
        write!(out, "{style}{tag}{style:#}{state}{BOLD}: {}{BOLD:#}", titles[0])?;
        return match gain_width {
            0 => writeln!(out),
            _ if gain_width + 2 <= room => writeln!(out, "{gain:>room$}"),
            _ => writeln!(out, "\n{gain:>width$}", width = layout.columns),
        };
    }
    writeln!(out, "{style}{tag}{style:#}{state}")?;
    for line in layout.wrapped(&finding.title, 2) {
        writeln!(out, "  {BOLD}{line}{BOLD:#}")?;
    }
    if !gain.is_empty() {
        for line in layout.wrapped(&gain, 2) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

/// Writes `   = help:  text`, with the lines of the text aligned.
pub(super) fn write_entry(
    label: &str,
    text: &str,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let label = format!("{label}:");
    for (i, line) in layout.wrapped(text, 12).iter().enumerate() {
        if i == 0 {
            writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}{label:6}{BOLD:#} {line}")?;
        } else {
            writeln!(out, "{:12}{line}", "")?;
        }
    }
    Ok(())
}

pub(super) fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Critical => AnsiColor::Magenta.on_default().bold(),
        Severity::High => AnsiColor::Red.on_default().bold(),
        Severity::Medium => AnsiColor::Yellow.on_default().bold(),
        Severity::Low => AnsiColor::Cyan.on_default().bold(),
        Severity::Info => AnsiColor::Blue.on_default().bold(),
    }
}
