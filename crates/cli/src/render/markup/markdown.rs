//! Markdown as GitHub and GitLab render it. Names cannot create links, mentions or markup; what is harmless is kept, so
//! that the source reads well too.

use std::fmt::Write as _;

use crate::render::sanitize::{sanitize, sanitize_lines};

/// Keeps a character from making a link, a mention or an emoji of what follows.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Text of a paragraph or a list. Text between backticks is code; everything else is escaped.
pub(crate) fn prose(text: &str) -> String {
    at_start_of_line(with_code(text, escaped, code))
}

/// Text of a table cell.
pub(crate) fn cell(text: &str) -> String {
    let code = if text.contains('\\') { code_element } else { code };
    with_code(text, escaped, code).replace('|', "\\|")
}

/// A name as code in a table cell.
pub(crate) fn cell_code(text: &str) -> String {
    // A backslash in code is kept as it is, and would join the one that keeps the pipe in the cell.
    if text.contains('\\') { code_element(text) } else { code(text).replace('|', "\\|") }
}

/// Text inside of an HTML element, where Markdown does not apply.
pub(crate) fn html(text: &str) -> String {
    with_code(text, html_escaped, code_element)
}

/// A name as code.
pub(crate) fn code(text: &str) -> String {
    let text = sanitize(text);
    if text.trim().is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run_of_backticks(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A name as a `code` element.
fn code_element(text: &str) -> String {
    let mut safe = "<code>".to_owned();
    for c in sanitize(text).chars() {
        if c.is_ascii_punctuation() && !",;()%/'?-.=:\"+".contains(c) {
            let _ = write!(safe, "&#{};", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe.push_str("</code>");
    safe
}

/// Lines of a shell as a block of code.
pub(crate) fn block(text: &str) -> String {
    block_of("sh", text)
}

/// Lines as a block of code in a language, with a fence longer than any run of backticks in them.
pub(crate) fn block_of(language: &str, text: &str) -> String {
    let text = sanitize_lines(text);
    let fence = "`".repeat(longest_run_of_backticks(&text).max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}\n")
}

/// A row of a table; the cells are escaped already.
pub(crate) fn row<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    let mut text = "|".to_owned();
    for cell in cells {
        text.push(' ');
        text.push_str(cell.as_ref());
        text.push_str(" |");
    }
    text.push('\n');
    text
}

/// The head of a table, with columns of numbers on the right: `("before", true)`.
pub(crate) fn head(columns: &[(&str, bool)]) -> String {
    let ruler = columns.iter().map(|(_, is_number)| if *is_number { "--:" } else { "---" });
    row(columns.iter().map(|(title, _)| *title)) + &row(ruler)
}

/// What is hidden until it is clicked. `summary` is escaped already.
pub(crate) fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{}\n\n</details>\n", body.trim_end())
}

/// Like [`folded`], but open at first.
pub(crate) fn unfolded(summary: &str, body: &str) -> String {
    folded(summary, body).replacen("<details>", "<details open>", 1)
}

fn longest_run_of_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Applies `code` to what is between backticks, and `other` to the rest.
fn with_code(text: &str, other: fn(&str) -> String, code: fn(&str) -> String) -> String {
    let text = sanitize(text);
    let parts: Vec<&str> = text.split('`').collect();
    let mut safe = String::new();
    // The last part is no code even if its backtick is never closed.
    let closed = if parts.len() % 2 == 1 { parts.len() } else { parts.len() - 1 };
    for (i, part) in parts.iter().enumerate() {
        match i % 2 {
            1 if i < closed => safe.push_str(&code(part)),
            1 => safe.push_str(&other(&format!("`{part}"))),
            _ => safe.push_str(&other(part)),
        }
    }
    safe
}

/// Keeps text at the start of a line from being a heading, a list, a quote or a rule.
fn at_start_of_line(text: String) -> String {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_list =
        digits > 0 && (text[digits..].starts_with(". ") || text[digits..].starts_with(") "));
    if is_list {
        return format!("{}\\{}", &text[..digits], &text[digits..]);
    }
    let is_mark = ["- ", "--", "+ ", "=", "#", ">"].iter().any(|mark| text.starts_with(mark));
    if is_mark { format!("\\{text}") } else { text }
}

/// Text outside of code, for Markdown.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let next = rest.chars().next().unwrap_or(' ');
        match c {
            '<' if is_tag(rest) => safe.push_str("&lt;"),
            '&' if next == '#' || next.is_ascii_alphabetic() => safe.push_str("&amp;"),
            // A backslash would not keep it from beginning a formula.
            '$' => safe.push_str("&#36;"),
            '\\' | '*' | '~' | '[' | ']' | '`' => safe.extend(['\\', c]),
            '_' if !(before.is_alphanumeric() && next.is_alphanumeric()) => {
                safe.push_str("\\_");
            }
            c => safe.push(c),
        }
        if makes_link(c, before, rest) {
            safe.push(ZERO_WIDTH_SPACE);
        }
        before = c;
    }
    safe
}

/// Text outside of code, for HTML.
fn html_escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '$' => safe.push_str("&#36;"),
            '`' => safe.push_str("&#96;"),
            c => safe.push(c),
        }
        if makes_link(c, before, &text[at + c.len_utf8()..]) {
            safe.push(ZERO_WIDTH_SPACE);
        }
        before = c;
    }
    safe
}

/// Whether `<` begins a tag or a comment, by what follows it.
fn is_tag(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c))
}

/// Whether a character makes what follows it a mention (`@team`), an issue (`#1`), an address (`https://`, `www.`) or
/// an emoji (`:x:`).
fn makes_link(c: char, before: char, rest: &str) -> bool {
    let name = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_+-".contains(*c));
    match c {
        '@' | '#' => rest.starts_with(char::is_alphanumeric),
        ':' => {
            let length = name.count();
            rest.starts_with("//") || (length > 0 && rest[length..].starts_with(':'))
        }
        '.' => before.eq_ignore_ascii_case(&'w') && rest.starts_with(char::is_alphanumeric),
        _ => false,
    }
}

/// A bar of ten blocks for a share of the whole.
pub(crate) fn bar(ratio: f64) -> String {
    const BLOCKS: usize = 10;
    let full = (ratio.clamp(0.0, 1.0) * BLOCKS as f64).round() as usize;
    // Something is never nothing.
    let full = full.max(usize::from(ratio > 0.0));
    format!("`{}{}`", "█".repeat(full), "░".repeat(BLOCKS - full))
}

#[cfg(test)]
mod tests {
    use super::{bar, block, cell, cell_code, code, html, prose};

    #[test]
    fn prose_escapes_markup_only() {
        assert_eq!(prose("a `num_workers=4` b"), "a `num_workers=4` b");
        assert_eq!(
            prose("\"x\" (1, 2); 33.1 % of a->b < 2 & so"),
            "\"x\" (1, 2); 33.1 % of a->b < 2 & so"
        );
        assert_eq!(prose("a <b>*x*</b> &amp;"), "a &lt;b>\\*x\\*&lt;/b> &amp;amp;");
        assert_eq!(prose("f<4096ul>"), "f<4096ul>");
        assert_eq!(prose("half `open"), "half \\`open");
        assert_eq!(prose("aten::mm a_b __x__"), "aten::mm a_b \\_\\_x\\_\\_");
        assert_eq!(prose("[x](y) $a$ ~b~ \\*"), "\\[x\\](y) &#36;a&#36; \\~b\\~ \\\\\\*");
    }

    #[test]
    fn prose_makes_no_links() {
        assert_eq!(prose("@team #12"), "@\u{200b}team #\u{200b}12");
        assert_eq!(prose("https://x.y www.z"), "https:\u{200b}//x.y www.\u{200b}z");
        assert_eq!(prose("a::b::c :+1:"), "a::\u{200b}b::c :\u{200b}+1:");
        assert_eq!(html("<b> @team `a|b`"), "&lt;b&gt; @\u{200b}team <code>a&#124;b</code>");
    }

    #[test]
    fn prose_is_no_heading_list_or_quote() {
        for (text, expected) in
            [("# x", "\\# x"), ("- x", "\\- x"), ("1. x", "1\\. x"), ("> x", "\\> x")]
        {
            assert_eq!(prose(text), expected);
        }
        assert_eq!(prose("12.5 ms"), "12.5 ms");
    }

    #[test]
    fn code_has_a_fence_longer_than_what_it_contains() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code(" "), "");
        assert!(block("a ``` b").starts_with("````sh\n"));
    }

    #[test]
    fn cell_keeps_pipes() {
        assert_eq!(cell("a|b `c|d`"), "a\\|b `c\\|d`");
        assert_eq!(cell("`a\\|b`"), "<code>a&#92;&#124;b</code>");
        assert_eq!(cell_code("a|b"), "`a\\|b`");
        assert_eq!(cell_code("a\\|b"), "<code>a&#92;&#124;b</code>");
    }

    #[test]
    fn bar_has_ten_blocks() {
        assert_eq!(bar(0.0), "`░░░░░░░░░░`");
        assert_eq!(bar(0.001), "`█░░░░░░░░░`");
        assert_eq!(bar(0.66), "`███████░░░`");
        assert_eq!(bar(7.0), "`██████████`");
    }
}
