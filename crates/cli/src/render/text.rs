//! A report for people.
//!
//! ```text
//! high[IN001 dataloader-wait] The GPU waits for data              up to 33.1 %, 4.20 ms/step
//!   33.1 % of a step ...
//!   rank 0, device 0: 33.1 % (limit > 20 %, rules/default.toml:12)
//!   do: raise num_workers
//!   advisor explain IN001
//! ```

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::Report;
use trace_advisor::advisor::{AgainstBaseline, Confidence, Finding, GoneFinding, Severity};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::time::human;

use crate::render::clean::clean;
use crate::render::value::{cell, thousands, value};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Columns that lines are laid out for.
const WIDTH: usize = 100;
/// Affected rows named before the rest is counted.
const NAMED: usize = 3;

/// Writes a report. `all`: infos, notes about the trace, passed rules and evidence too.
pub(crate) fn report(report: &Report, all: bool, out: &mut dyn Write) -> io::Result<()> {
    run_line(report, out)?;
    writeln!(out, "{BOLD}{}{BOLD:#}", clean(&report.headline.text))?;
    let shown = |f: &&Finding| all || (!f.is_note() && f.severity > Severity::Info);
    for item in report.findings.iter().filter(shown) {
        writeln!(out)?;
        finding(item, all, out)?;
    }
    writeln!(out)?;
    summary(report, all, out)
}

fn run_line(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let run = &report.run;
    let ranks = plural(run.ranks.len(), "rank");
    let steps = if run.steps == 0 { "no steps".to_owned() } else { plural(run.steps, "step") };
    let events: u64 = run.sources.iter().map(|s| s.events).sum();
    let wall = human(run.wall_ns as f64);
    let events = thousands(events as i64);
    let path = clean(&run.path);
    let part = match run.selection.as_str() {
        "" => String::new(),
        part => format!("; only {}", clean(part)),
    };
    writeln!(out, "{DIM}{path}: {ranks}, {steps}, {wall}, {events} events{part}{DIM:#}")
}

/// Writes a finding. `all`: with its evidence.
pub(crate) fn finding(finding: &Finding, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let style = style(finding.severity);
    let label = if finding.is_note() { "note" } else { finding.severity.as_str() };
    let tag = format!("{label}[{} {}]", finding.code, finding.name);
    let state = finding.baseline_state.map(|s| format!("{} ", s.as_str())).unwrap_or_default();
    let title = format!("{state}{}", clean(&finding.title));
    let gain = gain(finding);
    let used = tag.chars().count() + 1 + title.chars().count();
    // The gain stands at the right margin, or on its own line where the title leaves no room.
    let room = WIDTH.saturating_sub(used);
    write!(out, "{style}{tag}{style:#} {BOLD}{title}{BOLD:#}")?;
    match gain.chars().count() {
        0 => writeln!(out)?,
        length if length + 2 <= room => writeln!(out, "{gain:>room$}")?,
        _ => writeln!(out, "\n{gain:>WIDTH$}")?,
    }
    wrapped(out, "  ", "  ", &finding.message)?;
    affected(finding, all, out)?;
    if let Some(pct) = finding.gain.what_if_pct {
        let share = value(pct / 100.0, Unit::Ratio);
        writeln!(out, "  second opinion: without it the critical path is {share} shorter")?;
    }
    doubts(finding, out)?;
    if !finding.source.is_empty() {
        wrapped(out, "  at ", "     ", &finding.source.join(", "))?;
    }
    relations(finding, out)?;
    if all {
        evidence(finding, out)?;
    }
    for advice in &finding.advice {
        wrapped(out, "  do: ", "      ", advice)?;
    }
    writeln!(out, "  {DIM}advisor explain {}{DIM:#}", finding.code)
}

fn gain(finding: &Finding) -> String {
    let Some(high) = finding.gain.high_pct.filter(|pct| *pct >= 0.05) else { return String::new() };
    let share = value(high / 100.0, Unit::Ratio);
    match finding.gain.ms_per_step {
        Some(ms) => format!("saves up to {share}, {}/step", human(ms * 1e6)),
        None => format!("saves up to {share}"),
    }
}

/// The worst rows with what decided: `rank 0: 33.1 % (limit > 20 %, rules/default.toml:12)`.
fn affected(finding: &Finding, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let unit = Unit::parse(&finding.unit).unwrap_or(Unit::None);
    let rows = &finding.affected.worst;
    let named = if all { rows.len() } else { NAMED.min(rows.len()) };
    let list: Vec<String> = rows[..named]
        .iter()
        .map(|row| format!("{}: {}", row.label, value(row.value, unit)))
        .collect();
    let more = finding.affected.fired.saturating_sub(named);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    let limit = format!("(limit {}, {})", finding.threshold, finding.threshold_at);
    let list = if list.is_empty() { value(finding.value, unit) } else { list.join("; ") };
    wrapped(out, "  ", "  ", &format!("{list}{more} {limit}"))
}

fn doubts(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    if finding.confidence == Confidence::High && finding.caveats.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} confidence", finding.confidence);
    if !finding.caveats.is_empty() {
        text.push_str(": ");
        text.push_str(&finding.caveats.join("; "));
    }
    wrapped(out, "  ", "  ", &text)
}

fn relations(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let gain = &finding.gain;
    if !gain.contains.is_empty() {
        let rest = gain
            .unattributed_pct
            // As much as the whole: what it contains only looks closer.
            .filter(|pct| gain.high_pct.is_some_and(|high| *pct < high) && *pct >= 0.05)
            .map(|pct| {
                format!(", which leaves {} without a cause", value(pct / 100.0, Unit::Ratio))
            })
            .unwrap_or_default();
        wrapped(out, "  ", "  ", &format!("contains {}{rest}", gain.contains.join(", ")))?;
    } else if let Some(parent) = gain.within.first() {
        writeln!(out, "  part of {}", clean(parent))?;
    }
    Ok(())
}

fn evidence(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    for row in &finding.evidence {
        let cells: Vec<String> =
            row.columns.0.iter().map(|(name, v)| format!("{name} {}", cell(name, v))).collect();
        wrapped(out, "  seen: ", "        ", &format!("{}: {}", row.view, cells.join(", ")))?;
    }
    Ok(())
}

fn summary(report: &Report, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut parts: Vec<String> = Severity::WORST_FIRST
        .into_iter()
        .filter(|s| *s > Severity::Info)
        .filter_map(|severity| {
            let count = report.advice().filter(|f| f.severity == severity).count();
            (count > 0).then(|| format!("{count} {severity}"))
        })
        .collect();
    if parts.is_empty() {
        parts.push("no findings".to_owned());
    }
    let infos = report.advice().filter(|f| f.severity == Severity::Info).count();
    let notes = report.notes().count();
    let hidden =
        [(infos, "info"), (notes, "note")].into_iter().filter(|(count, _)| *count > 0).map(
            |(count, what)| {
                if what == "info" { format!("{count} info") } else { plural(count, what) }
            },
        );
    let hidden: Vec<String> = hidden.collect();
    if !hidden.is_empty() {
        parts.push(format!(
            "{}{}",
            hidden.join(" and "),
            if all { "" } else { " hidden (--all shows them)" }
        ));
    }
    if !report.ignored.is_empty() {
        parts.push(format!("{} ignored", report.ignored.len()));
    }
    if !report.below_min_gain.is_empty() {
        parts.push(format!("{} below the least gain", report.below_min_gain.len()));
    }
    if !report.unknown.is_empty() {
        parts.push(format!("{} unknown", report.unknown.len()));
    }
    if !report.passed.is_empty() {
        parts.push(format!("{} passed", report.passed.len()));
    }
    writeln!(out, "{BOLD}{}{BOLD:#}", parts.join(", "))?;
    for ignored in &report.ignored {
        let until = ignored.until.as_deref().map(|d| format!(" until {d}")).unwrap_or_default();
        let text = format!(
            "{} {}{until}: {} ({})",
            ignored.code, ignored.name, ignored.reason, ignored.at
        );
        wrapped(out, "  ignored: ", "           ", &text)?;
    }
    // Rules with the same reason share a line.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for unknown in &report.unknown {
        match reasons.iter_mut().find(|(reason, _)| *reason == unknown.reason) {
            Some((_, codes)) => codes.push(&unknown.code),
            None => reasons.push((&unknown.reason, vec![&unknown.code])),
        }
    }
    for (reason, codes) in reasons {
        wrapped(out, "  unknown: ", "           ", &format!("{}: {reason}", codes.join(", ")))?;
    }
    if all && !report.passed.is_empty() {
        wrapped(out, "  passed: ", "          ", &report.passed.join(", "))?;
    }
    if all && !report.below_min_gain.is_empty() {
        let hidden = report.below_min_gain.iter().map(|f| {
            format!("{} {} ({})", f.code, f.name, value(f.gain_high_pct / 100.0, Unit::Ratio))
        });
        let hidden: Vec<String> = hidden.collect();
        wrapped(out, "  below the least gain: ", "    ", &hidden.join(", "))?;
    }
    report.baseline.as_ref().map_or(Ok(()), |baseline| against(baseline, out))
}

/// What became of an earlier report's findings.
fn against(baseline: &AgainstBaseline, out: &mut dyn Write) -> io::Result<()> {
    let was = |old: &GoneFinding| {
        let unit = Unit::parse(&old.unit).unwrap_or(Unit::None);
        let number = old.value.map(|v| format!(", {}", value(v, unit))).unwrap_or_default();
        format!("{} {} ({}{number}): {}", old.code, old.name, old.severity, old.title)
    };
    for gone in &baseline.gone {
        wrapped(out, "  gone: ", "        ", &was(gone))?;
    }
    for undecided in &baseline.cannot_tell {
        let text = format!("{}; now {}", was(&undecided.was), undecided.reason);
        wrapped(out, "  cannot tell: ", "               ", &text)?;
    }
    for rule in &baseline.unjudged_before {
        let text = format!("{}: {}", rule.code, rule.reason);
        wrapped(out, "  not judged before: ", "                     ", &text)?;
    }
    let counts = [
        (baseline.new, "new"),
        (baseline.worse, "worse"),
        (baseline.better, "better"),
        (baseline.unchanged, "unchanged"),
        (baseline.gone.len(), "gone"),
        (baseline.cannot_tell.len(), "cannot be told"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if counts.is_empty() {
        counts.push("no findings then and now".to_owned());
    }
    let path = clean(&baseline.path);
    writeln!(out, "{BOLD}against {path}: {}{BOLD:#}", counts.join(", "))
}

/// Text in lines of at most [`WIDTH`] columns, cleaned; words longer than a line stay whole.
fn wrapped(out: &mut dyn Write, first: &str, rest: &str, text: &str) -> io::Result<()> {
    let text = clean(text);
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", line.trim_end())
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

fn plural(count: usize, word: &str) -> String {
    let count_text = thousands(count as i64);
    if count == 1 { format!("{count_text} {word}") } else { format!("{count_text} {word}s") }
}
