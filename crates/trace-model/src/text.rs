//! Text from traces, which is not trusted.

/// C0 and C1 control characters, separators of lines and paragraphs, and characters that change the direction of the text
/// after them.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
