//! Names in traces are untrusted: control characters and direction overrides never reach a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use trace_advisor::trace_model::text::is_dangerous;

/// Replaces every character that could move the cursor, change colors or reorder text by its code: `\u{1b}`.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

/// Like [`sanitize`], but keeps line breaks and tabs.
pub(crate) fn sanitize_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'))
}

/// Replaces dangerous characters in JSON text by JSON escapes, which changes none of its values.
pub(crate) fn sanitize_json(text: &str) -> String {
    // Outside of strings, white space is the only JSON text that would be replaced.
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => c.to_string(),
            c if is_dangerous(c) => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

fn replaced(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let bad = |c: char| is_dangerous(c) && !keep(c);
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if bad(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::{sanitize, sanitize_json, sanitize_lines};

    #[test]
    fn sanitize_shows_escapes_as_text() {
        assert_eq!(sanitize("void gemm<float>(Größe)"), "void gemm<float>(Größe)");
        assert_eq!(sanitize("a\u{1b}[2Jb\u{9b}31mc"), "a\\u{1b}[2Jb\\u{9b}31mc");
        assert_eq!(sanitize("x\u{202e}y\nz"), "x\\u{202e}y\\u{a}z");
        assert_eq!(sanitize_json("{\n\"a\": \"\u{9b}31m\"}"), "{\n\"a\": \"\\u009b31m\"}");
        assert_eq!(sanitize_lines("x\ny\r\tz"), "x\ny\\u{d}\tz");
    }
}
