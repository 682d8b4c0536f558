//! A report for people.
//!
//! ```text
//! high[IN001 dataloader-wait]: Steps wait for the DataLoader    saves up to 33.1 %, 2.35 ms/step
//!   --> train.py:61
//!    | 33.1 % of a step ...
//!    = where: rank 1 (33.1 %); rank 0 (32.9 %): 2 of 2 ranks, over 6 steps
//!    = limit: > 20 % (rules/default.toml:12)
//!    = seen:  310..361 ms on rank 0 (+11 more, 283 ms together)
//!    = help:  raise num_workers
//! ```

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Run, Severity};

use super::{Checked, phrases};
use crate::render::sanitize::{sanitize, sanitize_lines};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// What stands at the margin: arrows, bars.
const MARGIN: Style = AnsiColor::Blue.on_default().bold();
/// Columns that lines are laid out for.
const WIDTH: usize = 100;
/// Affected rows named before the rest is counted.
const NAMED: usize = 3;
/// Reasons why rules could not judge, before the rest is counted.
const REASONS: usize = 8;

/// Writes all reports, one below the other.
pub(super) fn write(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (i, report) in checked.reports.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let page = Page { report, checked };
        page.write(out)?;
    }
    Ok(())
}

struct Page<'a> {
    report: &'a Report,
    checked: &'a Checked<'a>,
}

impl Page<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let report = self.report;
        if !self.checked.is_begun {
            run(&report.run, out)?;
        }
        writeln!(out, "{BOLD}{}{BOLD:#}", sanitize(&report.headline.text))?;
        for finding in self.checked.shown(report) {
            writeln!(out)?;
            self.finding(finding, out)?;
        }
        writeln!(out)?;
        self.summary(out)
    }

    fn finding(&self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        self::finding(finding, self.checked.all, out)?;
        if let Some(options) = &self.checked.explain {
            for (what, command) in phrases::commands(self.report, finding, options) {
                // As it is to be typed: on one line, or on those of the query.
                writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}sql{BOLD:#}:   {what}")?;
                writeln!(out, "{}", sanitize_lines(&command))?;
            }
        }
        Ok(())
    }

    fn summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let (report, all) = (self.report, self.checked.all);
        writeln!(out, "{BOLD}{}{BOLD:#}", phrases::counts(report, all))?;
        for ignored in &report.ignored {
            let until = ignored.until.as_deref().map(|d| format!(" until {d}")).unwrap_or_default();
            let text = format!(
                "{} {}{until}: {} ({})",
                ignored.code, ignored.name, ignored.reason, ignored.at
            );
            listed("ignored", &text, all, out)?;
        }
        let unknown = phrases::unknown(report);
        let fits = all || unknown.len() <= REASONS + 1;
        let shown = if fits { unknown.len() } else { REASONS };
        for (codes, reason) in &unknown[..shown] {
            listed("unknown", &format!("{codes}: {reason}"), all, out)?;
        }
        if unknown.len() > shown {
            let more = unknown.len() - shown;
            listed("unknown", &format!("{more} more reasons (--all tells them)"), all, out)?;
        }
        if all && !report.passed.is_empty() {
            listed("passed", &report.passed.join(", "), all, out)?;
        }
        if all && !report.below_min_gain.is_empty() {
            let hidden = phrases::below_min_gain(report).join(", ");
            listed("below the least gain", &hidden, all, out)?;
        }
        if let Some(baseline) = &report.baseline {
            for (label, text) in phrases::against(baseline) {
                listed(label, &text, true, out)?;
            }
            writeln!(out, "{BOLD}{}{BOLD:#}", sanitize(&phrases::against_counts(baseline)))?;
        }
        Ok(())
    }
}

/// Writes the first line of a report: what the run is.
pub(crate) fn run(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let (path, extent) = (sanitize(&run.path), phrases::extent(run));
    writeln!(out, "{DIM}{path}: {}{DIM:#}", sanitize(&extent))
}

/// Writes a finding. `all`: with its evidence.
pub(crate) fn finding(finding: &Finding, all: bool, out: &mut dyn Write) -> io::Result<()> {
    head(finding, out)?;
    if let Some((first, rest)) = finding.source.split_first() {
        let more =
            if rest.is_empty() { String::new() } else { format!(", then {}", rest.join(", ")) };
        let lines = filled(&format!("{first}{more}"), WIDTH - 6);
        for (i, line) in lines.iter().enumerate() {
            let arrow = if i == 0 { "-->" } else { "   " };
            writeln!(out, "  {MARGIN}{arrow}{MARGIN:#} {line}")?;
        }
    }
    for line in filled(&finding.message, WIDTH - 5) {
        writeln!(out, "   {MARGIN}|{MARGIN:#} {line}")?;
    }
    let named = if all { usize::MAX } else { NAMED };
    entry("where", &phrases::affected(finding, named), out)?;
    entry("limit", &phrases::limit(finding), out)?;
    if let Some(seen) = phrases::seen(finding) {
        entry("seen", &seen, out)?;
    }
    let notes =
        [phrases::second_opinion(finding), phrases::doubts(finding), phrases::relations(finding)];
    for note in notes.into_iter().flatten() {
        entry("note", &note, out)?;
    }
    if all {
        for row in phrases::evidence(finding) {
            entry("row", &row, out)?;
        }
    }
    for advice in &finding.advice {
        entry("help", advice, out)?;
    }
    entry("docs", &format!("advisor explain {}", finding.code), out)
}

/// The first line: what, and what it would bring. The gain stands at the right margin, or on its own line where
/// the title leaves no room.
fn head(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let style = style(finding.severity);
    let tag = format!("{}[{}]", phrases::level(finding), sanitize(&phrases::tag(finding)));
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

/// `   = help:  text`, its lines below each other.
fn entry(label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let label = format!("{label}:");
    for (i, line) in filled(text, WIDTH - 12).iter().enumerate() {
        if i == 0 {
            writeln!(out, "   {MARGIN}={MARGIN:#} {BOLD}{label:6}{BOLD:#} {line}")?;
        } else {
            writeln!(out, "{:12}{line}", "")?;
        }
    }
    Ok(())
}

/// A line of the summary; cut to one unless all of it is asked for.
fn listed(label: &str, text: &str, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let indent = label.len() + 4;
    let lines = filled(text, WIDTH - indent - 4);
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

/// Text in lines of at most `width` columns, cleaned. What stands between backticks is kept on one line if it
/// fits on one; words longer than a line stay whole.
fn filled(text: &str, width: usize) -> Vec<String> {
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

fn style(severity: Severity) -> Style {
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
    use super::filled;

    #[test]
    fn lines_keep_code_together() {
        assert_eq!(filled("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(filled("do `f(a, b)` now", 11), ["do", "`f(a, b)`", "now"]);
        assert_eq!(filled("do `f(a, b, c)` now", 8), ["do `f(a,", "b, c)`", "now"]);
        assert_eq!(filled("a `open b c", 20), ["a `open b c"]);
        assert_eq!(filled("longerthanaline x", 4), ["longerthanaline", "x"]);
        assert_eq!(filled("", 4), [""]);
    }
}
