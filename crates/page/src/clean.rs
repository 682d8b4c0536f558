//! Text from traces as data: neutralized for people, and escaped for HTML and for JSON inside it.

use serde::Serialize;
use trace_advisor::trace_model::text::is_dangerous;

/// Longest name that the page carries; kernels with template arguments can have thousands of characters.
const MAX_CHARS: usize = 300;

/// The text without characters that could hide or reorder what follows them: controls become a replacement character.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// As [`clean`], cut in the middle if it is very long.
pub(crate) fn short(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_CHARS {
        return clean(text);
    }
    let (head, tail) = (MAX_CHARS * 2 / 3, MAX_CHARS / 3);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    clean(&format!("{start} ... {end}"))
}

/// Dangerous characters except for line breaks and tabs, and the mark of byte order, which shows nothing.
fn is_hidden(c: char) -> bool {
    (is_dangerous(c) && c != '\n' && c != '\t') || c == '\u{feff}'
}

/// The text for HTML, in an element or in a quoted attribute.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The text for HTML, with what is between backticks as code.
pub(crate) fn html_with_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let parts: Vec<&str> = text.split('`').collect();
    let is_balanced = parts.len() % 2 == 1;
    for (i, part) in parts.iter().enumerate() {
        match (i % 2 == 1, is_balanced) {
            (true, true) => {
                out.push_str("<code>");
                out.push_str(&html(part));
                out.push_str("</code>");
            }
            (_, false) if i > 0 => {
                out.push('`');
                out.push_str(&html(part));
            }
            _ => out.push_str(&html(part)),
        }
    }
    out
}

/// A value as JSON that may stand in a `script` element.
pub(crate) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::{clean, html, html_with_code, json, short};

    #[test]
    fn html_escapes_all_that_could_end_text_or_an_attribute() {
        assert_eq!(html(r#"<b a="1" c='2'>&"#), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
        assert_eq!(html("a\u{1b}[31m\u{202e}b"), "a\u{fffd}[31m\u{fffd}b");
    }

    #[test]
    fn html_with_code_marks_balanced_backticks_only() {
        assert_eq!(html_with_code("set `a<b` now"), "set <code>a&lt;b</code> now");
        assert_eq!(html_with_code("a ` b"), "a ` b");
    }

    #[test]
    fn json_cannot_end_its_element() {
        assert_eq!(json(&"</script><!--"), "\"\\u003c/script\\u003e\\u003c!--\"");
    }

    #[test]
    fn short_keeps_both_ends() {
        let text = short(&format!("start{}end", "x".repeat(5000)));
        assert!(text.len() < 320 && text.starts_with("start") && text.ends_with("end"));
        assert_eq!(clean("a\nb"), "a\nb");
    }
}
