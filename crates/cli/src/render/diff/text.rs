//! A comparison as human-readable text.
//!
//! ```text
//! before  slow: 2 ranks, 6 steps
//! after   fast: 2 ranks, 6 steps
//! differs GPU: Tesla V100 -> NVIDIA H100; batch shape: [32, 3, 224, 224] -> [64, 3, 224, 224]
//! improvement: median step 177 ms -> 127 ms (-28.5 %; 95 % interval -31.1 % to -8.2 % from 6 and 6 steps): ...
//! mean step 178 ms -> 141 ms (-20.6 %): loading data -67.9 ms, forward +14.4 ms, the rest +17.0 ms = -36.5 ms; ...
//!
//!                             before        after       change
//! throughput            5.63 steps/s 7.09 steps/s      +25.9 %
//!
//! mean step                   before        after       change  of the step
//! on the host (adds up)
//!   loading data             69.6 ms      1.70 ms     -67.9 ms      -38.2 %
//! ```

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::IgnoredFinding;
use trace_advisor::compare::{Outcome, Row, signed_bytes};
use trace_advisor::trace_model::number::human_bytes;
use trace_advisor::trace_model::time::human;

use super::context::DiffReport;
use super::phrases;
use super::sections::{self, Section};
use crate::console::Terminal;
use crate::render::columns::{Cell, Column, Kind, Line, Table};
use crate::render::layout::Layout;
use crate::render::report;
use crate::render::sanitize::sanitize;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SLOWER: Style = AnsiColor::Red.on_default();
const FASTER: Style = AnsiColor::Green.on_default();

/// Relative change below which a measure is not colored.
const MIN_COLORED_RATIO: f64 = 0.05;

/// Writes the overview or, if `by_level`, the rows of each level.
pub(super) fn write(
    report: &DiffReport<'_>,
    by_level: bool,
    terminal: Option<Terminal>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let layout = Layout::from(terminal);
    let text = Text {
        report,
        layout,
        table_width: (!report.is_wide).then_some(layout.columns),
        least_ns: sections::least_ns(report.diff),
    };
    text.verdict(out)?;
    if by_level {
        let sections = sections::by_level(report.diff, report.limit);
        for section in &sections {
            text.section(section, out)?;
        }
        if sections.is_empty() {
            writeln!(out, "\nno rows at these levels")?;
        }
        return Ok(());
    }
    text.measures(out)?;
    for finding in &report.comparison.findings {
        writeln!(out)?;
        report::write_finding(finding, report::Detail::Full, text.layout, out)?;
    }
    for IgnoredFinding { code, name, reason, at, .. } in &report.comparison.ignored {
        writeln!(out)?;
        text.prose("ignored: ", &format!("{code} {name}: {reason} ({at})"), out)?;
    }
    text.categories(out)?;
    text.memory(out)?;
    for section in &sections::overview(report.diff, report.limit) {
        text.section(section, out)?;
    }
    let ends = [phrases::added_and_removed(report.diff), phrases::explained(report.diff)];
    for (i, end) in ends.into_iter().flatten().enumerate() {
        if i == 0 {
            writeln!(out)?;
        }
        text.prose("", &end, out)?;
    }
    Ok(())
}

struct Text<'a> {
    report: &'a DiffReport<'a>,
    /// Width of prose.
    layout: Layout,
    /// Width of tables; without one, nothing is left out.
    table_width: Option<usize>,
    /// Change below which a time is not colored.
    least_ns: f64,
}

impl Text<'_> {
    /// Writes what is compared, what differs about the runs, the verdict, what the step changed by, and notes.
    fn verdict(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.report.diff;
        let (before, after) = &self.report.paths;
        let sides =
            [("before", before, &diff.summary.before), ("after ", after, &diff.summary.after)];
        for (which, path, side) in sides {
            let text = format!("{which}  {path}: {}", side.phrase(diff.summary.unit));
            self.paragraph(DIM, &text, out)?;
        }
        if let Some(differences) = phrases::differences(diff) {
            self.prose("differs ", &differences, out)?;
        }
        let style = match diff.verdict.outcome {
            Outcome::Regression => SLOWER,
            Outcome::Improvement => FASTER,
            Outcome::Unchanged | Outcome::Inconclusive | Outcome::NotComparable => Style::new(),
        };
        let outcome = diff.verdict.outcome.phrase();
        let lines = self.layout.wrapped(&format!("{outcome}: {}", diff.verdict.reason), 0);
        for (i, line) in lines.iter().enumerate() {
            match line.strip_prefix(outcome).filter(|_| i == 0) {
                Some(rest) => {
                    let style = style.bold();
                    writeln!(out, "{style}{outcome}{style:#}{BOLD}{rest}{BOLD:#}")?;
                }
                None => writeln!(out, "{BOLD}{line}{BOLD:#}")?,
            }
        }
        self.prose("", &diff.summary.headline, out)?;
        for note in &diff.summary.notes {
            self.prose("note: ", note, out)?;
        }
        Ok(())
    }

    fn prose(&self, label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.paragraph(Style::new(), &format!("{label}{text}"), out)
    }

    /// Writes a paragraph; its further lines are indented.
    fn paragraph(&self, style: Style, text: &str, out: &mut dyn Write) -> io::Result<()> {
        for (i, line) in self.layout.wrapped(text, 2).iter().enumerate() {
            writeln!(out, "{}{style}{line}{style:#}", if i == 0 { "" } else { "  " })?;
        }
        Ok(())
    }

    /// Writes the headline measures of both runs, and why some are not known.
    fn measures(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.report.diff;
        let lines = phrases::shown_measures(diff).map(|measure| {
            let moved = measure.change_ratio.filter(|c| c.abs() >= MIN_COLORED_RATIO);
            let style = match moved {
                Some(change) if (change > 0.0) == measure.more_is_better => FASTER,
                Some(_) => SLOWER,
                None => Style::new(),
            };
            Line::Cells(vec![
                Cell::new(phrases::measure_name(measure)),
                Cell::new(phrases::number(measure, measure.before)),
                Cell::new(phrases::number(measure, measure.after)),
                Cell { text: phrases::measure_change(measure), style },
            ])
        });
        let columns = vec![
            Column { title: "", kind: Kind::Name },
            Column { title: "before", kind: Kind::Number(1) },
            Column { title: "after", kind: Kind::Number(0) },
            Column { title: "change", kind: Kind::Number(0) },
        ];
        writeln!(out)?;
        Table { columns, lines: lines.collect() }.write(self.table_width, out)?;
        for missing in phrases::missing_measures(diff) {
            self.prose("n/a: ", &missing, out)?;
        }
        Ok(())
    }

    /// Writes the parts of the step.
    fn categories(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.report.diff;
        if diff.categories.is_empty() {
            return Ok(());
        }
        let summary = &diff.summary;
        let change_ns = summary.change_ns();
        let mut lines = vec![Line::Cells(vec![
            Cell::new("in all"),
            Cell::new(human(summary.before.mean_ns)),
            Cell::new(human(summary.after.mean_ns)),
            self.change(change_ns),
            Cell::new(phrases::of_step(change_ns, diff)),
        ])];
        let mut last = None;
        for category in &diff.categories {
            if last != Some(category.group) {
                lines.push(Line::Remark(phrases::group(category.group).to_owned()));
                last = Some(category.group);
            }
            let [before, after, change] = phrases::category_values(category);
            let is_time = category.unit == "ns";
            let style = if is_time { self.style(category.diff()) } else { Style::new() };
            let share =
                if is_time { phrases::of_step(category.diff(), diff) } else { String::new() };
            lines.push(Line::Cells(vec![
                Cell::new(format!("  {}", category.phrase())),
                Cell::new(before),
                Cell::new(after),
                Cell { text: change, style },
                Cell::new(share),
            ]));
        }
        let columns = vec![
            Column { title: "", kind: Kind::Name },
            Column { title: "before", kind: Kind::Number(2) },
            Column { title: "after", kind: Kind::Number(1) },
            Column { title: "change", kind: Kind::Number(0) },
            Column { title: phrases::of_step_title(self.report.diff), kind: Kind::Number(3) },
        ];
        writeln!(out)?;
        self.paragraph(BOLD, &format!("parts of the {}", phrases::whole(diff)), out)?;
        Table { columns, lines }.write(self.table_width, out)
    }

    /// Writes who holds the memory that changes most, before and after.
    fn memory(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(section) = sections::memory(self.report.diff, self.report.limit) else {
            return Ok(());
        };
        let least = MIN_COLORED_RATIO * section.device.before_bytes as f64;
        let bytes = |bytes: i64| Cell::new(human_bytes(bytes as f64));
        let change = |bytes: i64| {
            let style = match bytes {
                bytes if (bytes.saturating_abs() as f64) < least || bytes == 0 => Style::new(),
                bytes if bytes > 0 => SLOWER,
                _ => FASTER,
            };
            Cell { text: signed_bytes(bytes), style }
        };
        let device = section.device;
        let total = ("in all".to_owned(), device.before_bytes, device.after_bytes);
        let owners = section.owners.iter().map(|(owner, b, a)| (format!("  {owner}"), *b, *a));
        let lines = std::iter::once(total).chain(owners).map(|(name, before, after)| {
            let moved = change(after.saturating_sub(before));
            Line::Cells(vec![Cell::new(name), bytes(before), bytes(after), moved])
        });
        let columns = vec![
            Column { title: "", kind: Kind::Name },
            Column { title: "before", kind: Kind::Number(2) },
            Column { title: "after", kind: Kind::Number(1) },
            Column { title: "change", kind: Kind::Number(0) },
        ];
        writeln!(out)?;
        self.paragraph(BOLD, &section.title, out)?;
        Table { columns, lines: lines.collect() }.write(self.table_width, out)?;
        if let Some(text) = phrases::batch(device) {
            self.prose("", &text, out)?;
        }
        if section.holders.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        self.paragraph(BOLD, "places that allocate more or less", out)?;
        let mut lines = Vec::new();
        for holder in &section.holders {
            let (name, old) = phrases::holder(holder);
            lines.push(Line::Cells(vec![
                change(holder.change_bytes()),
                bytes(holder.before_bytes),
                bytes(holder.after_bytes),
                Cell::new(phrases::allocation_counts(holder)),
                Cell::new(sanitize(&name).into_owned()),
            ]));
            lines.extend(old.map(|old| Line::Remark(format!("  {}", sanitize(&old)))));
        }
        let columns = vec![
            Column { title: "change", kind: Kind::Number(0) },
            Column { title: "before", kind: Kind::Number(2) },
            Column { title: "after", kind: Kind::Number(3) },
            Column { title: "allocations", kind: Kind::Number(1) },
            Column { title: "place", kind: Kind::Name },
        ];
        Table { columns, lines }.write(self.table_width, out)?;
        let Some((count, change)) = section.more else { return Ok(()) };
        let places = if count == 1 { "place" } else { "places" };
        let text =
            format!("{count} more {places}, together {} (--limit N shows N)", signed_bytes(change));
        self.paragraph(DIM, &text, out)
    }

    /// Writes rows with their times.
    fn section(&self, section: &Section<'_>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        self.paragraph(BOLD, &section.title, out)?;
        let mut lines = Vec::new();
        for row in &section.rows {
            lines.push(Line::Cells(self.cells(section, row)));
            if let Some((how, old)) = phrases::old_name(row) {
                lines.push(Line::Remark(format!("  {how} {}", sanitize(&old))));
            }
        }
        let columns = vec![
            Column { title: "change", kind: Kind::Number(0) },
            Column { title: phrases::of_step_title(self.report.diff), kind: Kind::Number(2) },
            Column { title: "before", kind: Kind::Number(3) },
            Column { title: "after", kind: Kind::Number(4) },
            Column { title: "calls", kind: Kind::Number(1) },
            Column { title: "name", kind: Kind::Name },
        ];
        Table { columns, lines }.write(self.table_width, out)?;
        let Some((count, change_ns)) = section.more else { return Ok(()) };
        let rows = if count == 1 { "row" } else { "rows" };
        let text = format!(
            "{count} more {rows}, together {} (--limit N shows N)",
            phrases::signed(change_ns)
        );
        self.paragraph(DIM, &text, out)
    }

    fn cells(&self, section: &Section<'_>, row: &Row) -> Vec<Cell> {
        let change_ns = section.change_ns(row);
        let name = sanitize(&phrases::name(row.level, &row.name)).into_owned();
        vec![
            self.change(change_ns),
            Cell::new(phrases::of_step(change_ns, self.report.diff)),
            Cell::new(human((section.time)(&row.before))),
            Cell::new(human((section.time)(&row.after))),
            Cell::new(phrases::calls(row)),
            Cell::new(name + phrases::change_mark(row)),
        ]
    }

    fn change(&self, change_ns: f64) -> Cell {
        Cell { text: phrases::signed(change_ns), style: self.style(change_ns) }
    }

    fn style(&self, change_ns: f64) -> Style {
        if change_ns.abs() < self.least_ns || change_ns == 0.0 {
            Style::new()
        } else if change_ns > 0.0 {
            SLOWER
        } else {
            FASTER
        }
    }
}
