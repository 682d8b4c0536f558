//! A report as human-readable text.
//!
//! ```text
//! high[IN001 dataloader-wait]: Steps wait for the DataLoader    saves up to 33.1 %, 2.35 ms/step
//!   --> train.py:61
//!    | 33.1 % of a step ...
//!    = where: rank 1 (33.1 %); rank 0 (32.9 %): 2 of 2 ranks, over 6 steps
//!    = limit: > 20 % (rules/default.toml:12)
//!    = seen:  310..361 ms on rank 0 (+11 more, 283 ms in total)
//!    = help:  raise num_workers
//! ```

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Run, Severity};

use super::context::ReportContext;
use super::phrases;
use crate::render::sanitize::{sanitize, sanitize_lines};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Arrows and bars in the margin.
const MARGIN: Style = AnsiColor::Blue.on_default().bold();
/// Width of the text in columns.
const WIDTH: usize = 100;
/// Number of affected rows listed before the rest is counted.
const MAX_ROWS: usize = 3;
/// Number of reasons for unknown verdicts listed before the rest is counted.
const MAX_REASONS: usize = 8;

/// Writes all reports, separated by empty lines.
pub(super) fn write(
    reports: &[Report],
    context: &ReportContext<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (i, report) in reports.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        write_header(&report.run, out)?;
        write_body(report, context, out)?;
    }
    Ok(())
}

/// Writes the first line of a report, which describes the run.
pub(crate) fn write_header(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let (path, summary) = (sanitize(&run.path), phrases::run_summary(run));
    writeln!(out, "{DIM}{path}: {}{DIM:#}", sanitize(&summary))
}

/// Writes a report without its first line: headline, findings, summary.
pub(crate) fn write_body(
    report: &Report,
    context: &ReportContext<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let body = Body { report, context };
    writeln!(out, "{BOLD}{}{BOLD:#}", sanitize(&report.headline.text))?;
    for line in phrases::plan(report) {
        for (i, line) in wrapped(&line, WIDTH - 4).iter().enumerate() {
            writeln!(out, "{}{line}", if i == 0 { "  " } else { "    " })?;
        }
    }
    for finding in context.shown(report) {
        writeln!(out)?;
        body.write_finding(finding, out)?;
    }
    writeln!(out)?;
    body.write_summary(out)
}

struct Body<'a> {
    report: &'a Report,
    context: &'a ReportContext<'a>,
}

impl Body<'_> {
    fn write_finding(&self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        self::write_finding(finding, self.context.show_all, out)?;
        if let Some(options) = &self.context.query_options {
            for (subject, command) in phrases::query_commands(self.report, finding, options) {
                // Not wrapped, so that it can be copied.
                writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}sql{BOLD:#}:   {subject}")?;
                writeln!(out, "{}", sanitize_lines(&command))?;
            }
        }
        Ok(())
    }

    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let (report, all) = (self.report, self.context.show_all);
        writeln!(out, "{BOLD}{}{BOLD:#}", phrases::counts(report, all))?;
        for ignored in &report.ignored {
            let until = ignored.until.as_deref().map(|d| format!(" until {d}")).unwrap_or_default();
            let text = format!(
                "{} {}{until}: {} ({})",
                ignored.code, ignored.name, ignored.reason, ignored.at
            );
            write_listed("ignored", &text, all, out)?;
        }
        let unknown = phrases::unknown_by_reason(report);
        let fits = all || unknown.len() <= MAX_REASONS + 1;
        let shown = if fits { unknown.len() } else { MAX_REASONS };
        for (codes, reason) in &unknown[..shown] {
            write_listed("unknown", &format!("{codes}: {reason}"), all, out)?;
        }
        if unknown.len() > shown {
            let more = unknown.len() - shown;
            write_listed("unknown", &format!("{more} more reasons (--all shows them)"), all, out)?;
        }
        if all && !report.passed.is_empty() {
            write_listed("passed", &report.passed.join(", "), all, out)?;
        }
        if all && !report.below_min_gain.is_empty() {
            let hidden = phrases::below_min_gain(report).join(", ");
            write_listed("below minimum gain", &hidden, all, out)?;
        }
        if let Some(baseline) = &report.baseline {
            for (label, text) in phrases::baseline_changes(baseline) {
                write_listed(label, &text, true, out)?;
            }
            writeln!(out, "{BOLD}{}{BOLD:#}", sanitize(&phrases::baseline_counts(baseline)))?;
        }
        Ok(())
    }
}

/// Writes a finding, with all affected rows and its evidence if `show_all`.
pub(crate) fn write_finding(
    finding: &Finding,
    show_all: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_title(finding, out)?;
    if let Some((first, rest)) = finding.source.split_first() {
        let more =
            if rest.is_empty() { String::new() } else { format!(", then {}", rest.join(", ")) };
        let lines = wrapped(&format!("{first}{more}"), WIDTH - 6);
        for (i, line) in lines.iter().enumerate() {
            let arrow = if i == 0 { "-->" } else { "   " };
            writeln!(out, "  {MARGIN}{arrow}{MARGIN:#} {line}")?;
        }
    }
    for line in wrapped(&finding.message, WIDTH - 5) {
        writeln!(out, "   {MARGIN}|{MARGIN:#} {line}")?;
    }
    let rows = if show_all { usize::MAX } else { MAX_ROWS };
    write_entry("where", &phrases::affected(finding, rows), out)?;
    write_entry("limit", &phrases::threshold(finding), out)?;
    if let Some(seen) = phrases::occurrences(finding) {
        write_entry("seen", &seen, out)?;
    }
    for fix in phrases::fixes(finding) {
        write_entry("fix", &fix, out)?;
    }
    let notes = [phrases::confidence_note(finding), phrases::related_findings(finding)];
    for note in notes.into_iter().flatten() {
        write_entry("note", &note, out)?;
    }
    if show_all {
        for row in phrases::evidence_rows(finding) {
            write_entry("row", &row, out)?;
        }
    }
    for advice in &finding.advice {
        write_entry("help", advice, out)?;
    }
    write_entry("docs", &format!("advisor explain {}", finding.code), out)
}

/// Writes the first line: the title, and the gain at the right margin or, if the title leaves no room, on a line
/// of its own.
fn write_title(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let style = severity_style(finding.severity);
    let tag = format!("{}[{}]", phrases::severity_label(finding), sanitize(&phrases::tag(finding)));
    let state = finding.baseline_state.map(|s| format!(" {}", s.as_str())).unwrap_or_default();
    let title = sanitize(&finding.title);
    let gain = match phrases::gain(finding) {
        gain if gain.is_empty() => gain,
        gain => format!("saves {gain}"),
    };
    let used = tag.chars().count() + state.len() + 2 + title.chars().count();
    let room = WIDTH.saturating_sub(used);
    write!(out, "{style}{tag}{style:#}{state}{BOLD}: {title}{BOLD:#}")?;
    match gain.chars().count() {
        0 => writeln!(out),
        length if length + 2 <= room => writeln!(out, "{gain:>room$}"),
        _ => writeln!(out, "\n{gain:>WIDTH$}"),
    }
}

/// Writes `   = help:  text`, with the lines of the text aligned.
fn write_entry(label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let label = format!("{label}:");
    for (i, line) in wrapped(text, WIDTH - 12).iter().enumerate() {
        if i == 0 {
            writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}{label:6}{BOLD:#} {line}")?;
        } else {
            writeln!(out, "{:12}{line}", "")?;
        }
    }
    Ok(())
}

/// Writes a line of the summary, cut to one line unless `all`.
fn write_listed(label: &str, text: &str, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let indent = label.len() + 4;
    let lines = wrapped(text, WIDTH - indent - 4);
    for (i, line) in lines.iter().enumerate() {
        match (i, all) {
            (0, false) if lines.len() > 1 => writeln!(out, "  {label}: {line} ...")?,
            (0, _) => writeln!(out, "  {label}: {line}")?,
            (_, true) => writeln!(out, "{:indent$}{line}", "")?,
            _ => break,
        }
    }
    Ok(())
}

/// Sanitizes text and wraps it to lines of at most `width` columns. Code between backticks is kept on one line
/// if it fits; words longer than a line are not broken.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let text = sanitize(text);
    let mut words: Vec<String> = Vec::new();
    let mut in_code = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if in_code => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    let mut lines = vec![String::new()];
    let mut add = |word: &str| {
        let Some(line) = lines.last_mut() else { return };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    };
    for word in &words {
        if word.chars().count() <= width {
            add(word);
        } else {
            word.split(' ').for_each(&mut add);
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Critical => AnsiColor::Magenta.on_default().bold(),
        Severity::High => AnsiColor::Red.on_default().bold(),
        Severity::Medium => AnsiColor::Yellow.on_default().bold(),
        Severity::Low => AnsiColor::Cyan.on_default().bold(),
        Severity::Info => AnsiColor::Blue.on_default().bold(),
    }
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn wrapped_keeps_code_on_one_line() {
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("do `f(a, b)` now", 11), ["do", "`f(a, b)`", "now"]);
        assert_eq!(wrapped("do `f(a, b, c)` now", 8), ["do `f(a,", "b, c)`", "now"]);
        assert_eq!(wrapped("a `open b c", 20), ["a `open b c"]);
        assert_eq!(wrapped("longerthanaline x", 4), ["longerthanaline", "x"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
