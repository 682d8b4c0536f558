//! Connects completion, colors and the end of a statement to the line editor.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects, Style};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::commands::shell::command;
use crate::commands::shell::completion::{Completion, KEYWORDS, Names, is_word_byte};
use crate::commands::statements::{State, has_code, take_inputs, walk};

const KEYWORD: Style = Style::new().effects(Effects::BOLD);
const QUOTED: Style = AnsiColor::Green.on_default();
const COMMENT: Style = Style::new().effects(Effects::DIMMED);

/// Helps to edit a line.
pub(super) struct ShellHelper {
    pub(super) names: Names,
}

/// A text after the cursor that is not part of the line.
pub(super) struct Note(&'static str);

impl Helper for ShellHelper {}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Completion::Words { start, words } = self.names.complete(line, cursor) else {
            return FilenameCompleter::new().complete_path(line, cursor);
        };
        let pair = |word: String| Pair { display: word.clone(), replacement: word };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Validator for ShellHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Hinter for ShellHelper {
    type Hint = Note;

    fn hint(&self, line: &str, cursor: usize, _: &Context<'_>) -> Option<Note> {
        let is_new_line = line.ends_with('\n') && cursor == line.len();
        is_new_line.then_some(Note("  end the query with ;"))
    }
}

impl Hint for Note {
    fn display(&self) -> &str {
        self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Highlighter for ShellHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(highlight(line))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{COMMENT}{hint}{COMMENT:#}"))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

/// Whether Enter ends the input: every statement is complete.
pub(super) fn is_complete(text: &str) -> bool {
    command::from_word(text).is_some() || !has_code(&take_inputs(text).1)
}

/// The text with keywords, quotes and comments in styles.
fn highlight(text: &str) -> String {
    if text.trim_start().starts_with('\\') {
        return text.to_owned();
    }
    let mut styled = String::with_capacity(text.len() * 2);
    let mut start = 0;
    let states: Vec<State> = walk(text).map(|(_, state)| state).collect();
    let kind =
        |at: usize| (states[at], states[at] == State::Code && is_word_byte(text.as_bytes()[at]));
    for end in 1..=text.len() {
        if end < text.len() && kind(end) == kind(start) {
            continue;
        }
        let part = &text[start..end];
        let style = match kind(start) {
            (State::Quoted, _) => Some(QUOTED),
            (State::Comment, _) => Some(COMMENT),
            (State::Code, true) if KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(part)) => {
                Some(KEYWORD)
            }
            (State::Code, _) => None,
        };
        match style {
            Some(style) => {
                // Writing to a String cannot fail.
                let _ = write!(styled, "{style}{part}{style:#}");
            }
            None => styled.push_str(part),
        }
        start = end;
    }
    styled
}

#[cfg(test)]
mod tests {
    use super::{highlight, is_complete};

    #[test]
    fn is_complete_waits_for_the_end_of_a_statement() {
        for complete in ["", "SELECT 1;", "SELECT 1; -- done", "\\d", "help", "exit;", ".tables"] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "help me"] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn highlight_changes_no_character() {
        for text in ["select 'é;' -- ü\nfrom \"a b\" where x_from = 1;", "\\d", "", "'"] {
            let styled = highlight(text);
            assert_eq!(anstream::adapter::strip_str(&styled).to_string(), text);
        }
        assert_eq!(highlight("FROM x_from"), "\u{1b}[1mFROM\u{1b}[0m x_from");
        assert_eq!(highlight("'from'"), "\u{1b}[32m'from'\u{1b}[0m");
    }
}
