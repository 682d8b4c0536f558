//! Names in traces are untrusted: control characters and direction overrides never reach a terminal, and commands to a CI
//! system never reach its log.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use trace_advisor::trace_model::text::is_dangerous;

/// The commands of GitHub Actions that take the form `::name::`.
const WORKFLOW_COMMANDS: [&str; 16] = [
    "add-mask",
    "add-matcher",
    "add-path",
    "debug",
    "echo",
    "endgroup",
    "error",
    "group",
    "internal-set-repo-path",
    "notice",
    "remove-matcher",
    "save-state",
    "set-env",
    "set-output",
    "stop-commands",
    "warning",
];

/// Replaces every character that could move the cursor, change colors, reorder text or begin a command to a CI system by its
/// code: `\u{1b}`.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

/// Like [`sanitize`], but keeps line breaks and tabs.
pub(crate) fn sanitize_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'))
}

/// Replaces only what could begin a command to a CI system, in text that is clean otherwise or has styles.
pub(crate) fn without_commands(text: &str) -> Cow<'_, str> {
    replaced(text, |_| true)
}

/// Replaces dangerous characters in JSON text by JSON escapes, which changes none of its values.
pub(crate) fn sanitize_json(text: &str) -> String {
    // Outside of strings, white space is the only JSON text that would be replaced.
    let keep = |c| matches!(c, '\n' | '\r' | '\t');
    replaced_by(text, keep, |c, safe| write!(safe, "\\u{:04x}", u32::from(c))).into_owned()
}

fn replaced(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    replaced_by(text, keep, |c, safe| write!(safe, "\\u{{{:x}}}", u32::from(c)))
}

/// Returns the text with each dangerous character replaced by its `escape`.
fn replaced_by(
    text: &str,
    keep: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String) -> fmt::Result,
) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    // Text may be printed at the start of a line, and lines may be broken after white space.
    let mut may_start_line = true;
    for (at, c) in text.char_indices() {
        let is_replaced =
            (is_dangerous(c) && !keep(c)) || begins_command(&text[at..], may_start_line);
        if is_replaced {
            safe.push_str(&text[copied..at]);
            // Writing to a String cannot fail.
            let _ = escape(c, &mut safe);
            copied = at + c.len_utf8();
        }
        may_start_line = !is_replaced && c.is_whitespace();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.push_str(&text[copied..]);
    Cow::Owned(safe)
}

/// Whether a CI system takes a text for a command. GitHub Actions and Azure Pipelines look for `##[error]` and `##vso[...]`
/// anywhere in a line, GitHub Actions for `::error::` at its start. Names of C++ may begin with `::`, too.
fn begins_command(text: &str, may_start_line: bool) -> bool {
    if let Some(rest) = text.strip_prefix("##") {
        return rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).starts_with('[');
    }
    let Some(rest) = text.strip_prefix("::").filter(|_| may_start_line) else { return false };
    let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '-').unwrap_or(rest.len());
    WORKFLOW_COMMANDS.iter().any(|command| rest[..end].eq_ignore_ascii_case(command))
}

#[cfg(test)]
mod tests {
    use super::{sanitize, sanitize_json, sanitize_lines, without_commands};

    #[test]
    fn sanitize_shows_escapes_as_text() {
        assert_eq!(sanitize("void gemm<float>(Größe)"), "void gemm<float>(Größe)");
        assert_eq!(sanitize("a\u{1b}[2Jb\u{9b}31mc"), "a\\u{1b}[2Jb\\u{9b}31mc");
        assert_eq!(sanitize("x\u{202e}y\nz"), "x\\u{202e}y\\u{a}z");
        assert_eq!(sanitize_json("{\n\"a\": \"\u{9b}31m\"}"), "{\n\"a\": \"\\u009b31m\"}");
        assert_eq!(sanitize_lines("x\ny\r\tz"), "x\ny\\u{d}\tz");
    }

    #[test]
    fn sanitize_shows_line_separators_as_text() {
        assert_eq!(sanitize("a\u{2028}b\u{2029}c"), "a\\u{2028}b\\u{2029}c");
        assert_eq!(sanitize_json("\"a\u{2028}b\""), "\"a\\u2028b\"");
    }

    #[test]
    fn sanitize_shows_commands_to_a_ci_system_as_text() {
        for (text, expected) in [
            ("##[error]x", "\\u{23}#[error]x"),
            ("a ###[group]x", "a #\\u{23}#[group]x"),
            ("##vso[task.setvariable variable=a]b", "\\u{23}#vso[task.setvariable variable=a]b"),
            ("::error::x", "\\u{3a}:error::x"),
            ("a  ::Set-Output name=b::c", "a  \\u{3a}:Set-Output name=b::c"),
            // These are no commands.
            ("## a [b]", "## a [b]"),
            ("::cuda::std::plus, ::errors::x", "::cuda::std::plus, ::errors::x"),
            ("at::error::x", "at::error::x"),
            ("x\n::error::y", "x\\u{a}::error::y"),
        ] {
            assert_eq!(sanitize(text), expected);
            assert_eq!(sanitize(expected), expected, "once more");
        }
        assert_eq!(sanitize_lines("x\n ::error::y"), "x\n \\u{3a}:error::y");
        assert_eq!(without_commands("\u{1b}[1m##[error]"), "\u{1b}[1m\\u{23}#[error]");
        assert_eq!(sanitize_json("[\"##[error]x ::a\"]"), "[\"\\u0023#[error]x ::a\"]");
    }
}
