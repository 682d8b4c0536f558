//! Text in XML: JUnit reports and SVG pictures.

use crate::render::sanitize::sanitize;

/// Text from a trace, as the value of an attribute or between tags.
pub(crate) fn xml_text(text: &str) -> String {
    xml_escaped(&sanitize(text))
}

/// Escapes XML markup and replaces characters that are not allowed in XML. Control characters were removed before.
pub(super) fn xml_escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
