//! Markdown for a terminal: bold headings, aligned tables, indented code, and text that fits the terminal's width.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::console::Terminal;

const BOLD: Style = Style::new().bold();
const ITALIC: Style = Style::new().italic();
const CODE: Style = AnsiColor::Cyan.on_default();
/// Columns between the cells of a table.
const GUTTER: usize = 2;
/// Indentation of code.
const CODE_INDENT: usize = 4;

/// Renders Markdown for a terminal. Styles are written as escapes.
pub(crate) fn for_terminal(markdown: &str, terminal: Terminal) -> String {
    let mut page = Page::new(terminal);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.add(event);
    }
    page.out
}

/// Words of a paragraph, a list item or a cell. A word may consist of pieces in different styles.
#[derive(Debug, Default)]
struct Words {
    words: Vec<Word>,
    /// Whether the next piece begins a word.
    is_open: bool,
}

/// Text without a line break.
#[derive(Debug, Default)]
struct Word {
    text: String,
    columns: usize,
}

impl Words {
    /// Adds text. White space ends a word.
    fn add_text(&mut self, text: &str, style: Option<Style>) {
        for (i, piece) in text.split(char::is_whitespace).enumerate() {
            if i > 0 {
                self.is_open = false;
            }
            self.add_piece(piece, style);
        }
    }

    /// Adds to the last word, or begins one.
    fn add_piece(&mut self, piece: &str, style: Option<Style>) {
        if piece.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_open, true) {
            self.words.push(Word::default());
        }
        if let Some(word) = self.words.last_mut() {
            let style = style.unwrap_or_default();
            let _ = write!(word.text, "{style}{piece}{style:#}");
            word.columns += piece.chars().count();
        }
    }

    /// Adds code, which stays on one line if that has at most `columns`.
    fn add_code(&mut self, code: &str, columns: usize) {
        let code = format!("`{code}`");
        if code.chars().count() <= columns {
            self.add_piece(&code, Some(CODE));
        } else {
            self.add_text(&code, Some(CODE));
        }
    }

    /// Number of columns on one line.
    fn columns(&self) -> usize {
        let gaps = self.words.len().saturating_sub(1);
        self.words.iter().map(|word| word.columns).sum::<usize>() + gaps
    }

    /// Writes the words in lines of at most `columns`, the first after a prefix, the others indented.
    fn write(&self, out: &mut String, prefix: &str, indent: usize, columns: usize) {
        out.push_str(prefix);
        let mut used = prefix.chars().count();
        for (i, word) in self.words.iter().enumerate() {
            if i > 0 && used + 1 + word.columns > columns {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                used = indent;
            } else if i > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(&word.text);
            used += word.columns;
        }
        out.push('\n');
    }
}

/// A page that is being written.
struct Page {
    columns: usize,
    bullet: &'static str,
    out: String,
    /// The block that is being read.
    words: Words,
    style: Option<Style>,
    code: Option<String>,
    /// Target of the link that is being read, and the text of the link.
    link: Option<(String, String)>,
    rows: Vec<Vec<Words>>,
}

impl Page {
    fn new(terminal: Terminal) -> Self {
        Self {
            columns: terminal.columns,
            bullet: if terminal.has_unicode { "• " } else { "- " },
            out: String::new(),
            words: Words::default(),
            style: None,
            code: None,
            link: None,
            rows: Vec::new(),
        }
    }

    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.words.add_code(&code, self.columns - CODE_INDENT),
            Event::SoftBreak | Event::HardBreak => self.words.add_text(" ", None),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            code.push_str(text);
            return;
        }
        if let Some((_, shown)) = &mut self.link {
            shown.push_str(text);
        }
        self.words.add_text(text, self.style);
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.separate();
                self.style = Some(BOLD);
            }
            Tag::Paragraph | Tag::List(_) | Tag::Table(_) => self.separate(),
            Tag::CodeBlock(_) => {
                self.separate();
                self.code = Some(String::new());
            }
            Tag::TableHead => {
                self.rows.push(Vec::new());
                self.style = Some(BOLD);
            }
            Tag::TableRow => self.rows.push(Vec::new()),
            Tag::Emphasis => self.style = Some(ITALIC),
            Tag::Strong => self.style = Some(BOLD),
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.into_string(), String::new())),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) | TagEnd::Paragraph => self.write_block(""),
            TagEnd::Item => self.write_block(self.bullet),
            TagEnd::CodeBlock => {
                for line in self.code.take().unwrap_or_default().lines() {
                    let indented = format!("{:CODE_INDENT$}{line}", "");
                    self.out.push_str(indented.trim_end());
                    self.out.push('\n');
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.words);
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.write_table(),
            TagEnd::Link => {
                let (target, shown) = self.link.take().unwrap_or_default();
                if target != shown {
                    self.words.add_text(&format!(" ({target})"), None);
                }
            }
            _ => {}
        }
        if matches!(tag, TagEnd::Heading(_) | TagEnd::TableHead | TagEnd::Emphasis | TagEnd::Strong)
        {
            self.style = None;
        }
    }

    /// Ends the block before with an empty line.
    fn separate(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn write_block(&mut self, prefix: &str) {
        let words = std::mem::take(&mut self.words);
        words.write(&mut self.out, prefix, prefix.chars().count(), self.columns);
    }

    /// Writes the rows in aligned columns, of which the last is wrapped. Rows with too little room for it have it in
    /// lines of their own.
    fn write_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(Words::columns).max();
        let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
        let indent: usize = widths.iter().rev().skip(1).map(|width| width + GUTTER).sum();
        let is_aligned = indent <= self.columns / 2;
        for row in &rows {
            let Some((last, first)) = row.split_last() else { continue };
            let mut line = String::new();
            for (cell, width) in first.iter().zip(&widths) {
                if is_aligned {
                    let words: Vec<&str> = cell.words.iter().map(|w| w.text.as_str()).collect();
                    let padding = " ".repeat(width + GUTTER - cell.columns());
                    let _ = write!(line, "{}{padding}", words.join(" "));
                } else {
                    cell.write(&mut self.out, "", 0, self.columns);
                }
            }
            if is_aligned {
                self.out.push_str(&line);
                last.write(&mut self.out, "", indent, self.columns - indent);
            } else {
                last.write(&mut self.out, "    ", CODE_INDENT, self.columns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::for_terminal;
    use crate::console::Terminal;

    const PAGE: &str = "# IN001 wait\n\nOne `value` per *rank*: a share\nof step time.\n\n## How to fix it\n\n\
                        - Use `num_workers=4`, and raise it while the wait shrinks.\n- Or not.\n\n\
                        ```sql\nSELECT 1\n```\n\n\
                        | limit | severity |\n|---|---|\n| &lt; 5 % | low |\n| `x` > 15 % | high and so on |\n\n\
                        - <https://a.b>\n- [here](https://c.d)\n";

    fn rendered(columns: usize) -> String {
        let terminal = Terminal { columns, has_unicode: false };
        strip_str(&for_terminal(PAGE, terminal)).to_string()
    }

    #[test]
    fn blocks_are_laid_out() {
        let expected = "IN001 wait\n\nOne `value` per rank: a share of step time.\n\nHow to fix it\n\n\
                        - Use `num_workers=4`, and raise it while the wait shrinks.\n- Or not.\n\n    SELECT 1\n\n\
                        limit       severity\n< 5 %       low\n`x` > 15 %  high and so on\n\n\
                        - https://a.b\n- here (https://c.d)\n";
        assert_eq!(rendered(100), expected);
    }

    #[test]
    fn text_fits_the_terminal() {
        let page = rendered(40);
        assert!(page.lines().all(|line| line.chars().count() <= 40), "{page}");
        assert!(page.contains("- Use `num_workers=4`, and raise it\n"), "{page}");
        assert!(page.contains("\n  while the wait shrinks.\n"), "{page}");
    }

    #[test]
    fn headings_are_bold_and_code_is_colored() {
        let page = for_terminal(PAGE, Terminal { columns: 80, has_unicode: true });
        assert!(page.contains("\u{1b}[1mHow\u{1b}[0m"), "{page}");
        assert!(page.contains("\u{1b}[36m`num_workers=4`\u{1b}[0m,"), "{page}");
        assert!(page.contains("• Use"), "{page}");
    }
}
