//! Columns of numbers beside a name, fitted to the width of a terminal: where they do not fit, the least important
//! columns are left out and names are cut in the middle.

use std::io::{self, Write};

use anstyle::Style;

use crate::render::shorten::shorten;

/// Style of titles that are no data.
const DIM: Style = Style::new().dimmed();
const GAP: usize = 2;
/// A name gets at least this room before columns are left out.
const MIN_NAME: usize = 24;
const ELLIPSIS: &str = "...";

/// A column. Exactly one is of names.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    /// Numbers; those with the greatest rank are left out first, those with rank 0 never.
    Number(u8),
}

/// A text with a style.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: Style::new() }
    }
}

/// A line of the table.
pub(crate) enum Line {
    Cells(Vec<Cell>),
    /// A remark in the column of names.
    Remark(String),
}

pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) lines: Vec<Line>,
}

impl Table {
    /// Writes the lines below the titles, at most `width` characters wide; without a limit nothing is left out.
    pub(crate) fn write(&self, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        let name_at = self.columns.iter().position(|c| c.kind == Kind::Name).unwrap_or(0);
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|i| self.width_of(i)).collect();
        let kept = self.kept(&widths, name_at, width);
        let numbers = (0..widths.len()).filter(|i| kept[*i] && *i != name_at);
        let numbers: usize = numbers.map(|i| widths[i] + GAP).sum();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(numbers));
        widths[name_at] = room.min(widths[name_at]);
        let names = shorten(&self.names(name_at), widths[name_at], ELLIPSIS);
        let fit = Fit { widths, kept, name_at };
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let title = |column: &Column| Cell { text: column.title.to_owned(), style: DIM };
            let titles: Vec<Cell> = self.columns.iter().map(title).collect();
            fit.write(&titles, self.columns[name_at].title, out)?;
        }
        let before_name = (0..name_at).filter(|i| fit.kept[*i]);
        let indent: usize = before_name.map(|i| fit.widths[i] + GAP).sum();
        for (line, name) in self.lines.iter().zip(&names) {
            match line {
                Line::Cells(cells) => fit.write(cells, name, out)?,
                Line::Remark(_) => writeln!(out, "{:indent$}{DIM}{name}{DIM:#}", "")?,
            }
        }
        Ok(())
    }

    fn names(&self, name_at: usize) -> Vec<String> {
        let name = |line: &Line| match line {
            Line::Cells(cells) => cells[name_at].text.clone(),
            Line::Remark(text) => text.clone(),
        };
        self.lines.iter().map(name).collect()
    }

    fn width_of(&self, column: usize) -> usize {
        let is_name = self.columns[column].kind == Kind::Name;
        let texts = self.lines.iter().filter_map(|line| match line {
            Line::Cells(cells) => cells.get(column).map(|cell| cell.text.as_str()),
            Line::Remark(text) => is_name.then_some(text.as_str()),
        });
        let title = self.columns[column].title.chars().count();
        texts.map(|text| text.chars().count()).max().unwrap_or(0).max(title)
    }

    /// The columns that fit beside the names.
    fn kept(&self, widths: &[usize], name_at: usize, width: Option<usize>) -> Vec<bool> {
        let mut kept = vec![true; widths.len()];
        let Some(width) = width else { return kept };
        let name = widths[name_at].min(MIN_NAME);
        loop {
            let numbers = (0..widths.len()).filter(|i| kept[*i] && *i != name_at);
            if numbers.clone().map(|i| widths[i] + GAP).sum::<usize>() + name <= width {
                return kept;
            }
            let rank = |i: &usize| match self.columns[*i].kind {
                Kind::Number(rank) => rank,
                Kind::Name => 0,
            };
            match numbers.filter(|i| rank(i) > 0).max_by_key(rank) {
                Some(least) => kept[least] = false,
                None => return kept,
            }
        }
    }
}

/// The columns that are written, and their widths.
struct Fit {
    widths: Vec<usize>,
    kept: Vec<bool>,
    name_at: usize,
}

impl Fit {
    fn write(&self, cells: &[Cell], name: &str, out: &mut dyn Write) -> io::Result<()> {
        let text = |i: usize| if i == self.name_at { name } else { cells[i].text.as_str() };
        let kept: Vec<usize> = (0..cells.len()).filter(|i| self.kept[*i]).collect();
        let used = kept.iter().rposition(|&i| !text(i).is_empty()).map_or(0, |last| last + 1);
        for (at, &i) in kept[..used].iter().enumerate() {
            let gap = if at == 0 { 0 } else { GAP };
            let (text, style) = (text(i), cells[i].style);
            let pad = self.widths[i].saturating_sub(text.chars().count());
            let (left, right) = match i == self.name_at {
                // Nothing follows the last text of a line.
                true if at + 1 == used => (gap, 0),
                true => (gap, pad),
                false => (gap + pad, 0),
            };
            write!(out, "{:left$}{style}{text}{style:#}{:right$}", "", "")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Cell, Column, Kind, Line, Table};

    fn table(name_first: bool) -> Table {
        let name = Column { title: "name", kind: Kind::Name };
        let numbers = [("change", 0), ("after", 1), ("share", 2)];
        let numbers = numbers.map(|(title, rank)| Column { title, kind: Kind::Number(rank) });
        let mut columns: Vec<Column> = numbers.into_iter().collect();
        columns.insert(if name_first { 0 } else { 3 }, name);
        let cells = |name: &str, change: &str| {
            let mut cells = ["12.5 ms", "-20.1 %"].map(Cell::new).into_iter().collect::<Vec<_>>();
            cells.insert(0, Cell::new(change));
            cells.insert(if name_first { 0 } else { 3 }, Cell::new(name));
            Line::Cells(cells)
        };
        let lines = vec![
            cells("elementwise_kernel<AddFunctor<float>, std::array<char*, 3ul>>(int)", "-1.50 ms"),
            Line::Remark("  was elementwise_kernel<AddFunctor<float>>".to_owned()),
            cells("elementwise_kernel<MulFunctor<float>, std::array<char*, 3ul>>(int)", "+10.0 us"),
        ];
        Table { columns, lines }
    }

    fn written(table: &Table, width: Option<usize>) -> String {
        let mut out = Vec::new();
        table.write(width, &mut out).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn write_fits_every_width() {
        for width in 40..=200 {
            for name_first in [false, true] {
                let text = written(&table(name_first), Some(width));
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                    assert_eq!(line.trim_end(), line);
                }
                let names: BTreeSet<String> = text
                    .lines()
                    .skip(1)
                    .map(|line| line.chars().filter(|c| c.is_alphabetic()).collect())
                    .collect();
                assert_eq!(names.len(), 3, "{width}: different names look different: {text}");
            }
        }
    }

    #[test]
    fn write_leaves_out_the_least_important_numbers() {
        let narrow = written(&table(true), Some(40));
        assert!(narrow.lines().next().unwrap().ends_with("change"), "{narrow}");
        let wide = written(&table(false), None);
        assert_eq!(
            wide.lines().next_back().unwrap(),
            "+10.0 us  12.5 ms  -20.1 %  elementwise_kernel<MulFunctor<float>, std::array<char*, 3ul>>(int)"
        );
        assert_eq!(
            wide.lines().nth(2).unwrap(),
            "                              was elementwise_kernel<AddFunctor<float>>"
        );
    }
}
