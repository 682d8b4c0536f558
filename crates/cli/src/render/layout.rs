//! Lines that fit a terminal.

use std::io::{self, Write};

use anstyle::Style;

use crate::console::Terminal;
use crate::render::sanitize::sanitize;

/// How wide lines are, and which characters they may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Characters per line.
    pub(crate) columns: usize,
    /// True if bars use block characters, false if they use ASCII.
    pub(crate) has_unicode: bool,
    /// Whether words longer than a line are broken. In a file they stay whole, for searches.
    breaks_words: bool,
}

impl From<Option<Terminal>> for Layout {
    fn from(terminal: Option<Terminal>) -> Self {
        Self {
            columns: Terminal::columns_of(terminal),
            has_unicode: terminal.is_some_and(|terminal| terminal.has_unicode),
            breaks_words: terminal.is_some(),
        }
    }
}

impl Layout {
    /// Sanitizes text and wraps it to lines that leave room for `indent` more characters. Code between backticks is kept
    /// on one line if it fits.
    pub(crate) fn wrapped(self, text: &str, indent: usize) -> Vec<String> {
        let width = self.columns.saturating_sub(indent).max(MIN_WIDTH);
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
                continue;
            }
            for part in word.split(' ') {
                if self.breaks_words {
                    broken(part, width).into_iter().for_each(&mut add);
                } else {
                    add(part);
                }
            }
        }
        for line in &mut lines {
            line.truncate(line.trim_end().len());
        }
        lines
    }

    /// Writes a legend: marks in their styles, each with its words, as many on a line as fit.
    pub(crate) fn write_legend(
        self,
        entries: impl IntoIterator<Item = (String, String, Style)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut column = 0;
        for (mark, words, style) in entries {
            let width = mark.chars().count() + 1 + words.chars().count();
            if column > 0 && column + 2 + width > self.columns {
                writeln!(out)?;
                column = 0;
            }
            if column > 0 {
                write!(out, "  ")?;
                column += 2;
            }
            write!(out, "{style}{mark}{style:#} {words}")?;
            column += width;
        }
        if column > 0 { writeln!(out) } else { Ok(()) }
    }
}

/// A text whose lines end at the width of the terminal; all but the first begin with `indent` spaces. In a file it is one
/// line.
pub(crate) fn wrapped_for(terminal: Option<Terminal>, text: &str, indent: usize) -> String {
    let Some(_) = terminal else { return sanitize(text).into_owned() };
    Layout::from(terminal).wrapped(text, indent).join(&format!("\n{:indent$}", ""))
}

/// Lines are not wrapped to fewer characters than this.
const MIN_WIDTH: usize = 16;

/// Parts of a word of at most `width` characters, which end after punctuation where possible.
fn broken(word: &str, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some((limit, _)) = rest.char_indices().nth(width) {
        let end = rest[..limit].rfind(|c: char| "/_.,:;-(=".contains(c)).map_or(limit, |at| at + 1);
        let (part, after) = rest.split_at(if end * 2 < limit { limit } else { end });
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::Layout;
    use crate::console::Terminal;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let layout = Layout { columns: width + 20, has_unicode: false, breaks_words: false };
        layout.wrapped(text, 20)
    }

    #[test]
    fn wrapped_keeps_code_on_one_line() {
        assert_eq!(wrapped("aaaa bbbb cccc dddd eeee", 16), ["aaaa bbbb cccc", "dddd eeee"]);
        assert_eq!(wrapped("do that: `f(a, b)` now", 16), ["do that:", "`f(a, b)` now"]);
        assert_eq!(wrapped("do `function(a, b, c)` now", 16), ["do `function(a,", "b, c)` now"]);
        assert_eq!(wrapped("a `open b c", 20), ["a `open b c"]);
        assert_eq!(wrapped("longerthanasinglelineis x", 16), ["longerthanasinglelineis", "x"]);
        assert_eq!(wrapped("", 16), [""]);
    }

    #[test]
    fn wrapped_breaks_long_words_for_terminals() {
        let layout = Layout::from(Some(Terminal { columns: 40, has_unicode: false }));
        let lines = layout.wrapped("at /home/user/project/training/train_model.py:1234 now", 20);
        assert_eq!(lines, ["at", "/home/user/project/", "training/train_", "model.py:1234 now"]);
    }
}
