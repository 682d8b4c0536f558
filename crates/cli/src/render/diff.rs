//! A comparison of two runs as human-readable text.
//!
//! ```text
//! step 178 ms -> 141 ms (-20.5 %): loading data -69.6 ms, 190 % of the change; GPU idle -40.1 ms
//! improvement: median step 177 ms -> 127 ms (-28.5 %; 95 % interval -31.1 % to -8.2 % from 6 and 6 steps): ...
//!
//!                             before        after       change
//!   throughput          5.63 steps/s 7.09 steps/s      +25.9 %
//!
//! breakdown of a step            before      after     change  of the change
//!   host    dataloader          69.6 ms    27.0 us   -69.6 ms  190 %
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::{Comparison, IgnoredFinding};
use trace_advisor::compare::{
    Amounts, Category, Change, Diff, Group, Level, Matched, Measure, Outcome, Row,
};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::time::human;

use crate::render::report;
use crate::render::sanitize::sanitize;
use crate::render::value::value;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SLOWER: Style = AnsiColor::Red.on_default();
const FASTER: Style = AnsiColor::Green.on_default();

/// Default number of rows per section.
const DEFAULT_LIMIT: usize = 10;
/// Maximum number of characters of a name.
const MAX_NAME: usize = 64;
/// Relative change below which a measure is not colored.
const MIN_COLORED_RATIO: f64 = 0.05;
/// Change, as a share of a step, below which a row is not shown.
const MIN_SHOWN_RATIO: f64 = 0.001;

/// Writes a comparison, either the overview or, if `by_level`, the rows of each level.
pub(crate) fn write_comparison(
    diff: &Diff,
    comparison: &Comparison,
    paths: (&str, &str),
    by_level: bool,
    limit: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let summary = &diff.summary;
    let sides = [("before", paths.0, &summary.before), ("after ", paths.1, &summary.after)];
    for (which, path, side) in sides {
        let steps = match side.steps {
            0 => "no steps".to_owned(),
            1 => "1 step".to_owned(),
            n => format!("{n} steps"),
        };
        let ranks = match side.ranks.as_slice() {
            [rank] => format!("rank {rank}"),
            ranks => format!("{} ranks", ranks.len()),
        };
        let median = match side.steps {
            0 | 1 => String::new(),
            _ => format!(", median {}", human(side.median_ns)),
        };
        writeln!(out, "{DIM}{which} {}: {ranks}, {steps}{median}{DIM:#}", sanitize(path))?;
    }
    writeln!(out, "{BOLD}{}{BOLD:#}", sanitize(&summary.headline))?;
    let verdict = &diff.verdict;
    let style = match verdict.outcome {
        Outcome::Regression => SLOWER,
        Outcome::Improvement => FASTER,
        Outcome::Unchanged | Outcome::Inconclusive => Style::new(),
    };
    let word = verdict.outcome.as_str();
    writeln!(out, "{style}{word}{style:#}: {}", sanitize(&verdict.reason))?;
    for note in &summary.notes {
        writeln!(out, "note: {}", sanitize(note))?;
    }
    let section = Sections {
        unit: summary.unit.as_str(),
        limit: limit.unwrap_or(DEFAULT_LIMIT),
        least_ns: MIN_SHOWN_RATIO * summary.before.mean_ns.max(summary.after.mean_ns),
    };
    if by_level {
        return section.by_level(diff, out);
    }
    before_after(&diff.before_after, out)?;
    for finding in &comparison.findings {
        writeln!(out)?;
        report::write_finding(finding, false, out)?;
    }
    for ignored in &comparison.ignored {
        let IgnoredFinding { code, name, reason, at, .. } = ignored;
        writeln!(out, "\nignored: {}", sanitize(&format!("{code} {name}: {reason} ({at})")))?;
    }
    section.categories(&diff.categories, out)?;
    section.host(diff, out)?;
    section.device(diff, out)?;
    section.operators(diff, out)?;
    section.modules(diff, out)?;
    added_and_removed(diff, out)?;
    section.explained(diff, out)
}

/// The headline measures of both runs.
fn before_after(measures: &[Measure], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{:<24} {:>14} {:>14} {:>14}{BOLD:#}", "", "before", "after", "change")?;
    for measure in measures {
        let number = |v: Option<f64>| match (v, measure.unit) {
            (None, _) => "n/a".to_owned(),
            (Some(v), "ns") => human(v),
            (Some(v), "bytes") => value(v, Unit::Bytes),
            (Some(v), "ratio") => value(v, Unit::Ratio),
            (Some(v), unit) if v >= 100.0 => format!("{v:.0} {unit}"),
            (Some(v), unit) => format!("{v:.2} {unit}"),
        };
        // A relative change of a percentage would be mistaken for percentage points.
        let change = match (measure.before, measure.after) {
            (Some(b), Some(a)) if measure.unit == "ratio" => {
                format!("{:+.1} points", (a - b) * 100.0 + 0.0)
            }
            _ => measure
                .change_ratio
                .map_or_else(String::new, |c| format!("{:+.1} %", c * 100.0 + 0.0)),
        };
        let moved = measure.change_ratio.filter(|c| c.abs() >= MIN_COLORED_RATIO);
        let style = match moved {
            Some(change) if (change > 0.0) == measure.more_is_better => FASTER,
            Some(_) => SLOWER,
            None => Style::new(),
        };
        let reason = measure.reason.as_deref().map(|r| format!("  ({r})")).unwrap_or_default();
        let line = format!(
            "  {:<22} {:>14} {:>14} {style}{change:>14}{style:#}{DIM}{reason}{DIM:#}",
            measure.name.replace("gpu", "GPU").replace('_', " "),
            number(measure.before),
            number(measure.after),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

struct Sections {
    unit: &'static str,
    limit: usize,
    least_ns: f64,
}

/// Selects the time of a row that a section shows.
type TimeOf = fn(&Amounts) -> f64;

impl Sections {
    fn categories(&self, categories: &[Category], out: &mut dyn Write) -> io::Result<()> {
        if categories.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n{BOLD}breakdown of a {:<12}{:>10} {:>10} {:>10}  of the change{BOLD:#}",
            self.unit, "before", "after", "change"
        )?;
        let mut last = None;
        for category in categories {
            let group = match category.group {
                Group::Host => "host",
                Group::Device => "device",
                Group::Idle => "idle",
                Group::Memory => "memory",
            };
            let label = if last == Some(category.group) { "" } else { group };
            last = Some(category.group);
            let unit = if category.unit == "bytes" { Unit::Bytes } else { Unit::Ns };
            let name = category.name.replace('_', " ");
            let (b, a, d) = (category.before, category.after, category.diff());
            let change = format!("{}{}", if d > 0.0 { "+" } else { "" }, value(d, unit));
            let share = share(category.step_change_ratio);
            let style = if category.unit == "ns" { style(d, self.least_ns) } else { Style::new() };
            let line = format!(
                "  {label:<8}{name:<16} {:>10} {:>10} {style}{change:>10}{style:#}  {share:>6}",
                value(b, unit),
                value(a, unit),
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn host(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let rows = diff.rows.iter().filter(|r| !r.level.is_device() && r.level != Level::None);
        let title = format!("host time in a {} (adds up)", self.unit);
        self.rows(&title, rows, |a| a.step_ns, true, out)
    }

    fn device(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let rows = diff.rows.iter().filter(|r| r.level.is_device_work());
        let title = format!("GPU time in a {} (may overlap)", self.unit);
        self.rows(&title, rows, |a| a.dur_ns, true, out)
    }

    fn operators(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let rows = diff.rows.iter().filter(|r| r.level == Level::Operator);
        self.rows("operators by the GPU time they launch", rows, |a| a.device_ns, false, out)
    }

    fn modules(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let rows = diff.rows.iter().filter(|r| r.level == Level::Module);
        self.rows("modules by host time, including what they call", rows, |a| a.dur_ns, false, out)
    }

    /// The rows of each level that has any, in the order of the comparison.
    fn by_level(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let mut none = true;
        for level in Level::ALL {
            let rows: Vec<&Row> = diff.rows.iter().filter(|r| r.level == level).collect();
            if rows.is_empty() {
                continue;
            }
            none = false;
            self.head(&format!("{level}, inclusive time"), out)?;
            let shown = &rows[..self.limit.min(rows.len())];
            self.lines(shown, |a| a.dur_ns, level.is_device_work(), out)?;
            let more = rows.len() - shown.len();
            if more > 0 {
                writeln!(out, "  ... and {more} more (--limit N shows N, --format csv all)")?;
            }
        }
        if none {
            writeln!(out, "\nno rows at these levels")?;
        }
        Ok(())
    }

    /// The rows whose time changes most.
    fn rows<'a>(
        &self,
        title: &str,
        rows: impl Iterator<Item = &'a Row>,
        time: TimeOf,
        shares: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let moved = |row: &Row| time(&row.after) - time(&row.before);
        let mut rows: Vec<&Row> =
            rows.filter(|r| moved(r) != 0.0 && moved(r).abs() >= self.least_ns).collect();
        if rows.is_empty() || self.limit == 0 {
            return Ok(());
        }
        rows.sort_by(|x, y| moved(y).abs().total_cmp(&moved(x).abs()));
        let shown = &rows[..self.limit.min(rows.len())];
        self.head(title, out)?;
        self.lines(shown, time, shares, out)?;
        let rest = &rows[shown.len()..];
        if !rest.is_empty() {
            let sum: f64 = rest.iter().map(|r| moved(r)).sum();
            writeln!(
                out,
                "{:>11}  {DIM}{} more above {} in total (--limit N shows N){DIM:#}",
                signed(sum),
                rest.len(),
                human(self.least_ns)
            )?;
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "all sections are written by methods")]
    fn head(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{BOLD}{title}{BOLD:#}\n{DIM}{:>11} {:>7} {:>9} {:>9} {:>13}  name{DIM:#}",
            "change", "share", "before", "after", "calls"
        )
    }

    fn lines(
        &self,
        rows: &[&Row],
        time: TimeOf,
        shares: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for row in rows {
            let (b, a) = (time(&row.before), time(&row.after));
            let share = if shares { share(row.step_change_ratio) } else { String::new() };
            let style = style(a - b, self.least_ns);
            let mark = match row.change {
                Change::Added => " (added)",
                Change::Removed => " (removed)",
                _ => "",
            };
            writeln!(
                out,
                "{style}{:>11}{style:#} {share:>7} {:>9} {:>9} {:>13}  {}{mark}",
                signed(a - b),
                human(b),
                human(a),
                calls(row),
                name(row.level, &row.name)
            )?;
            if let Some(old) = &row.renamed_from {
                let how = if row.matched == Matched::Normalized { "matched with" } else { "was" };
                writeln!(out, "{:>54}  {DIM}{how} {}{DIM:#}", "", name(row.level, old))?;
            }
        }
        Ok(())
    }

    fn explained(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let Some(explained) = &diff.summary.explained else { return Ok(()) };
        let Some(ratio) = explained.ratio else { return Ok(()) };
        writeln!(
            out,
            "\nexplained by named rows: {} of {} ({:.0} %); {} with nothing recorded inside the {}",
            signed(explained.named_ns),
            signed(explained.change_ns),
            ratio * 100.0,
            signed(explained.unrecorded_ns),
            self.unit
        )
    }
}

/// `added: 3 kernels, 12 operators; removed: 1 kernel`.
fn added_and_removed(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    for (change, word) in [(Change::Added, "added"), (Change::Removed, "removed")] {
        let mut counts: BTreeMap<Level, usize> = BTreeMap::new();
        let rows = diff.rows.iter().filter(|r| r.change == change && r.level != Level::None);
        for row in rows {
            *counts.entry(row.level).or_default() += 1;
        }
        if !counts.is_empty() {
            let counts: Vec<String> =
                counts.iter().map(|(level, n)| format!("{n} {}", plural(*level, *n))).collect();
            lines.push(format!("{word}: {}", counts.join(", ")));
        }
    }
    let guesses = diff.rows.iter().filter(|r| r.matched == Matched::Normalized).count();
    if guesses > 0 {
        lines.push(format!("matched under another name: {guesses}"));
    }
    if lines.is_empty() { Ok(()) } else { writeln!(out, "\n{}", lines.join("; ")) }
}

fn plural(level: Level, count: usize) -> String {
    let word = match level {
        Level::Runtime => "runtime function",
        Level::Python => "Python function",
        Level::DeviceAnnotation => "device annotation",
        Level::Sync => "synchronization",
        level if count != 1 && level == Level::Copy => return "copies".to_owned(),
        level => level.as_str(),
    };
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// `12`, or `12 -> 14.5`.
fn calls(row: &Row) -> String {
    let number = |count: f64| {
        let digits = usize::from(count.fract() != 0.0 && count < 100.0);
        format!("{count:.digits$}")
    };
    let (b, a) = (number(row.before.count), number(row.after.count));
    if a == b { a } else { format!("{b} -> {a}") }
}

fn share(ratio: Option<f64>) -> String {
    // Adding zero makes -0 a 0.
    ratio.map_or_else(String::new, |r| format!("{:.0} %", (r * 100.0).round() + 0.0))
}

fn signed(ns: f64) -> String {
    format!("{}{}", if ns > 0.0 { "+" } else { "" }, human(ns))
}

fn style(change_ns: f64, least_ns: f64) -> Style {
    if change_ns.abs() < least_ns || change_ns == 0.0 {
        Style::new()
    } else if change_ns > 0.0 {
        SLOWER
    } else {
        FASTER
    }
}

/// The name of a row, shortened to the space it has.
fn name(level: Level, name: &str) -> String {
    match level {
        Level::Kernel => shortened(&kernel(name)),
        Level::Annotation if name == "ProfilerStep*" => format!("{name} (nothing recorded inside)"),
        _ => shortened(name),
    }
}

/// The name of a kernel without common parts, so that the distinctive part is visible.
fn kernel(name: &str) -> String {
    let mut name = name.strip_prefix("void ").unwrap_or(name).to_owned();
    for noise in ["at::native::", "(anonymous namespace)::"] {
        name = name.replace(noise, "");
    }
    name
}

/// Cuts off the end of long names.
fn shortened(name: &str) -> String {
    let name = sanitize(name);
    if name.chars().count() <= MAX_NAME {
        return name.into_owned();
    }
    let start: String = name.chars().take(MAX_NAME - 3).collect();
    format!("{start}...")
}
