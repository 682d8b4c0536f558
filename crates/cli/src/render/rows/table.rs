//! Rows as aligned columns, or as one line per column.
//!
//! A pipe or a file gets every row and column, but no longer texts than a terminal of the usual width. A terminal gets what
//! fits: long texts are cut in the middle, columns without values are left out, and then columns from the right, each with a
//! note. A single row has no columns without values anywhere.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use trace_advisor::arrow;
use trace_advisor::trace_model::Unit;

use super::cells::TextColumn;
use super::{RowOptions, keep_ends, shorten};
use crate::console::Terminal;
use crate::render::layout::wrapped_for;
use crate::render::sanitize::{sanitize, sanitize_lines};
use crate::render::value::{plural, thousands};

/// Characters between two columns.
const GAP: usize = 2;
/// A text is not cut to fewer characters.
const MIN_TEXT: usize = 16;
/// Columns that name the place of a row, of which the end says most: they are kept rather than the first text.
const PLACES: [&str; 3] = ["frame", "stack", "place"];
/// A single row of more columns is printed as one line per column.
const MAX_COLUMNS_OF_ONE_ROW: usize = 4;
/// The documentation of a column is not cut to fewer characters.
const MIN_DOC: usize = 20;

/// Writes the first `shown` rows.
pub(super) fn write(
    rows: &RecordBatch,
    shown: usize,
    options: RowOptions<'_>,
    out: &mut dyn Write,
    terminal: Option<Terminal>,
) -> anyhow::Result<()> {
    let schema = rows.schema();
    if schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"]) {
        return write_plans(&rows.slice(0, shown), out);
    }
    let fields = schema.fields().iter().zip(rows.columns());
    let mut columns: Vec<TextColumn> = fields
        .map(|(field, array)| {
            let name = field.name();
            let unit =
                options.view.map_or_else(|| Unit::of_undeclared(name), |view| view.unit_of(name));
            TextColumn::new(name, unit, array, shown)
        })
        .collect::<Result<_, _>>()?;
    if rows.num_rows() == 0 {
        let reason = options.view.map_or("", |view| &view.when_empty);
        let colon = if reason.is_empty() { "" } else { ": " };
        writeln!(out, "no rows{colon}{reason}")?;
        return Ok(());
    }
    let mut notes = Vec::new();
    if terminal.is_some() && rows.num_rows() > shown {
        let more = plural(rows.num_rows() - shown, "more row");
        notes.push(if options.limit.is_none() {
            format!("... {more} (--limit 0 shows all, -f csv -o FILE keeps all)")
        } else {
            format!("... {more}")
        });
    }
    let is_view = options.view.is_some();
    let screen = terminal.filter(|_| !options.is_wide);
    let is_one =
        |columns: &[TextColumn]| shown == 1 && is_view && columns.len() > MAX_COLUMNS_OF_ONE_ROW;
    let is_short = screen.is_some() || is_one(&columns) && !options.is_wide;
    if is_short && is_view && !options.has_chosen_columns {
        let before = columns.len();
        columns.retain(|column| !column.is_empty || options.is_measure(&column.name));
        if before > columns.len() {
            let hidden = plural(before - columns.len(), "column");
            notes.push(format!("{hidden} of 0 or without values hidden (--columns all shows all)"));
        }
    }
    let is_too_wide = screen.is_some_and(|screen| least_width(&columns, screen) > screen.columns);
    if options.is_expanded {
        write_lines(&columns, shown, options, out, None)?;
    } else if is_one(&columns) || is_too_wide && (shown == 1 || options.has_chosen_columns) {
        write_lines(&columns, shown, options, out, screen)?;
    } else {
        if let Some(screen) = screen {
            notes.extend(fit(&mut columns, options, screen));
        } else if !options.is_wide && cut_texts(&mut columns, PAGE) {
            notes
                .push("long texts are cut (--wide, -f csv and -f json have them whole)".to_owned());
        }
        write_table(&columns, shown, out)?;
    }
    for note in notes {
        writeln!(out, "{}", wrapped_for(terminal, &note, 2))?;
    }
    Ok(())
}

/// The plans of an `EXPLAIN` as they are, over several lines.
fn write_plans(rows: &RecordBatch, out: &mut dyn Write) -> anyhow::Result<()> {
    let options = FormatOptions::default();
    let [kinds, plans] = [0, 1].map(|i| ArrayFormatter::try_new(rows.column(i).as_ref(), &options));
    let (kinds, plans) = (kinds?, plans?);
    for row in 0..rows.num_rows() {
        let plan = plans.value(row).try_to_string()?;
        writeln!(
            out,
            "{}\n{}",
            sanitize(&kinds.value(row).try_to_string()?),
            sanitize_lines(plan.trim_end())
        )?;
    }
    Ok(())
}

/// Widths of the columns when texts are cut as far as they may be. The first text, mostly a name, keeps a third of the
/// line if it needs it.
fn least_widths(columns: &[TextColumn], terminal: Terminal) -> Vec<usize> {
    let is_long = |column: &TextColumn| !column.is_number && column.width > MIN_TEXT;
    let name = columns.iter().position(is_long);
    let least = |(at, column): (usize, &TextColumn)| {
        let share = if Some(at) == name { terminal.columns / 3 } else { 0 };
        let least_text = MIN_TEXT.max(share).max(column.name.chars().count());
        if column.is_number { column.width } else { column.width.min(least_text) }
    };
    columns.iter().enumerate().map(least).collect()
}

/// Width of a line of columns of these widths.
fn line_width(columns: impl Iterator<Item = usize>) -> usize {
    columns.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn least_width(columns: &[TextColumn], terminal: Terminal) -> usize {
    line_width(least_widths(columns, terminal).into_iter())
}

/// The page for which texts are cut in files and pipes.
const PAGE: Terminal = Terminal { columns: Terminal::DEFAULT_COLUMNS, has_unicode: false };

/// Leaves out columns from the right, but for the name or place and the main measure, until a line fits, and cuts texts.
/// Returns what to note.
fn fit(
    columns: &mut Vec<TextColumn>,
    options: RowOptions<'_>,
    terminal: Terminal,
) -> Option<String> {
    let measure = options.view.and_then(|view| view.sort.first()).cloned();
    let place = columns.iter().find(|column| PLACES.contains(&column.name.as_str()));
    let name = place.or_else(|| columns.iter().find(|column| !column.is_number));
    let kept = [measure, name.map(|column| column.name.clone())];
    let mut hidden = Vec::new();
    while least_width(columns, terminal) > terminal.columns {
        let is_kept = |column: &TextColumn| kept.iter().flatten().any(|name| *name == column.name);
        let last = columns.iter().rposition(|column| !is_kept(column)).filter(|&at| at > 0);
        let Some(last) = last else { break };
        hidden.push(columns.remove(last).name);
    }
    cut_texts(columns, terminal);
    hidden.reverse();
    let names = hidden.join(", ");
    let how = match options.view {
        Some(_) => " (--columns NAME,... picks columns, --wide shows all)",
        None => "",
    };
    (!hidden.is_empty()).then(|| {
        format!("{} hidden for lack of width: {names}{how}", plural(hidden.len(), "column"))
    })
}

/// Cuts the longest texts to the same width, the largest at which a line fits. Returns whether any is cut.
fn cut_texts(columns: &mut [TextColumn], terminal: Terminal) -> bool {
    let least = least_widths(columns, terminal);
    let natural: Vec<usize> = columns.iter().map(|column| column.width).collect();
    let widths_at = |limit: usize| {
        natural.iter().zip(&least).map(move |(&width, &least)| width.min(limit.max(least)))
    };
    let fits = |limit: &usize| line_width(widths_at(*limit)) <= terminal.columns;
    let limit = (MIN_TEXT..=terminal.columns).rev().find(fits).unwrap_or(MIN_TEXT);
    let mut is_cut = false;
    for (column, width) in columns.iter_mut().zip(widths_at(limit)) {
        if column.width > width {
            column.cells = if PLACES.contains(&column.name.as_str()) {
                keep_ends(&column.cells, width, Some(terminal))
            } else {
                shorten(&column.cells, width, Some(terminal))
            };
            column.width = width;
            is_cut = true;
        }
    }
    is_cut
}

fn write_table(columns: &[TextColumn], rows: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| &column.name));
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| &column.cells[row]));
    }
    for (i, column) in columns.iter().enumerate() {
        if column.is_number
            && let Some(column) = table.column_mut(i)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // The first column has no left padding.
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// One line per column: its name, its value, and for a single row of a view what it means.
fn write_lines(
    columns: &[TextColumn],
    rows: usize,
    options: RowOptions<'_>,
    out: &mut dyn Write,
    terminal: Option<Terminal>,
) -> std::io::Result<()> {
    let names = columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
    let left = Terminal::columns_of(terminal).saturating_sub(names + GAP);
    for row in 0..rows {
        if rows > 1 {
            writeln!(out, "{}row {}", if row > 0 { "\n" } else { "" }, thousands(row as i64 + 1))?;
        }
        // Long texts do not push the documentation of the numbers to the right.
        let numbers = columns.iter().filter(|column| column.is_number);
        let values = numbers.map(|column| column.cells[row].chars().count()).max().unwrap_or(0);
        for column in columns {
            let mut value = column.cells[row].clone();
            if terminal.is_some() && value.chars().count() > left {
                value = shorten(&[value], left.max(MIN_TEXT), terminal).remove(0);
            }
            let name = &column.name;
            let line = if column.is_number {
                format!("{name:names$}  {value:>values$}")
            } else {
                format!("{name:names$}  {value:<values$}")
            };
            let doc = options.view.filter(|_| rows == 1).and_then(|view| {
                let doc = &view.columns.iter().find(|c| c.name == *name)?.doc;
                let room = (names + GAP + left).saturating_sub(line.chars().count() + GAP);
                cut_at_word(doc, room)
            });
            writeln!(out, "{}", format!("{line}  {}", doc.unwrap_or_default()).trim_end())?;
        }
    }
    Ok(())
}

/// The text, or its first words; nothing if hardly any fit.
fn cut_at_word(text: &str, width: usize) -> Option<String> {
    if text.chars().count() <= width {
        return Some(text.to_owned());
    }
    if width < MIN_DOC {
        return None;
    }
    let start: String = text.chars().take(width - 2).collect();
    let words = start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words);
    Some(format!("{}...", words.trim_end_matches([',', ':', ';'])))
}

#[cfg(test)]
mod tests;
