//! Splits SQL text into statements.

/// The statements of a text, without the `;` that ends them. Empty statements are left out.
pub(crate) fn split(text: &str) -> Vec<String> {
    let (mut statements, rest) = take_complete(text);
    statements.push(rest);
    statements.retain(|s| has_code(s));
    statements.iter().map(|s| s.trim().to_owned()).collect()
}

/// The statements that end in `;`, and the text after the last of them.
pub(crate) fn take_complete(text: &str) -> (Vec<String>, String) {
    let mut statements = Vec::new();
    let mut start = 0;
    for (i, state) in walk(text) {
        if state == State::Code && text.as_bytes()[i] == b';' {
            statements.push(text[start..i].trim().to_owned());
            start = i + 1;
        }
    }
    (statements, text[start..].to_owned())
}

/// Whether a text contains more than white space and comments.
fn has_code(text: &str) -> bool {
    walk(text).any(|(i, state)| {
        state == State::Quoted || state == State::Code && !text.as_bytes()[i].is_ascii_whitespace()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Quoted,
    Comment,
}

/// Each byte with what it is part of. A doubled quote, which escapes it in SQL, ends one quoted text and begins
/// the next, with the same result.
fn walk(text: &str) -> impl Iterator<Item = (usize, State)> {
    let bytes = text.as_bytes();
    let mut states = Vec::with_capacity(bytes.len());
    while let Some(rest) = bytes.get(states.len()..).filter(|rest| !rest.is_empty()) {
        let (state, opening, closing): (_, usize, &[u8]) = match rest {
            [b'\'', ..] => (State::Quoted, 1, b"'"),
            [b'"', ..] => (State::Quoted, 1, b"\""),
            [b'-', b'-', ..] => (State::Comment, 2, b"\n"),
            [b'/', b'*', ..] => (State::Comment, 2, b"*/"),
            _ => {
                states.push(State::Code);
                continue;
            }
        };
        let inside = &rest[opening..];
        let end = inside.windows(closing.len()).position(|w| w == closing);
        let length = end.map_or(rest.len(), |end| opening + end + closing.len());
        states.extend(std::iter::repeat_n(state, length));
    }
    states.into_iter().enumerate()
}

#[cfg(test)]
mod tests {
    use super::{split, take_complete};

    #[test]
    fn split_ignores_semicolons_in_quotes_and_comments() {
        assert_eq!(split("SELECT 1; SELECT 2 ;\n"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(
            split("SELECT ';' AS \"a;b\", 'it''s; so'"),
            ["SELECT ';' AS \"a;b\", 'it''s; so'"]
        );
        assert_eq!(
            split("-- no; not here\nSELECT 1 /* nor; here */;"),
            ["-- no; not here\nSELECT 1 /* nor; here */"]
        );
        assert!(split(" ;; -- nothing\n; /* at all */").is_empty());
        assert_eq!(split("SELECT '/*'; SELECT '--'"), ["SELECT '/*'", "SELECT '--'"]);
        assert_eq!(split("SELECT 1 /*/ ; */ + 1"), ["SELECT 1 /*/ ; */ + 1"]);
    }

    #[test]
    fn take_complete_leaves_the_unfinished_statement() {
        assert_eq!(
            take_complete("SELECT 1; SEL"),
            (vec!["SELECT 1".to_owned()], " SEL".to_owned())
        );
        assert_eq!(take_complete("SELECT 'a;"), (vec![], "SELECT 'a;".to_owned()));
    }
}
