//! Splits SQL text into statements.

/// The statements of a text, without the `;` that ends them. Empty statements are left out.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut start = 0;
    let ends = ends_of_statements(text).chain([text.len()]);
    let statements = ends.map(|end| &text[std::mem::replace(&mut start, end + 1)..end]);
    statements.filter(|s| has_code(s)).map(|s| s.trim().to_owned()).collect()
}

/// The offsets of each `;` that ends a statement.
pub(crate) fn ends_of_statements(text: &str) -> impl Iterator<Item = usize> {
    let is_end = |&(i, state): &(usize, State)| state == State::Code && text.as_bytes()[i] == b';';
    walk(text).filter(is_end).map(|(i, _)| i)
}

/// What a text asks the shell for, in this order, and the text after the last statement that ends in `;`.
///
/// A line that begins with a backslash where no statement has begun is a command of the shell.
#[cfg(feature = "shell")]
pub(crate) fn take_inputs(text: &str) -> (Vec<Input>, String) {
    let mut inputs = Vec::new();
    let mut rest = text;
    loop {
        let code = rest.trim_start();
        if code.starts_with('\\') {
            let (line, after) = code.split_once('\n').unwrap_or((code, ""));
            inputs.push(Input::Command(line.trim().to_owned()));
            rest = after;
            continue;
        }
        let Some(end) = ends_of_statements(rest).next() else { return (inputs, rest.to_owned()) };
        let statement = &rest[..end];
        if has_code(statement) {
            inputs.push(Input::Query(statement.trim().to_owned()));
        }
        rest = &rest[end + 1..];
    }
}

/// An input to the shell.
#[cfg(feature = "shell")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line such as `\d kernels`.
    Command(String),
    /// A statement, without the `;` that ends it.
    Query(String),
}

/// Whether a text contains more than white space and comments.
pub(crate) fn has_code(text: &str) -> bool {
    walk(text).any(|(i, state)| {
        state == State::Quoted || state == State::Code && !text.as_bytes()[i].is_ascii_whitespace()
    })
}

/// What a byte of SQL is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Keywords, names, numbers, operators.
    Code,
    /// A text in single quotes, or a name in double quotes.
    Quoted,
    /// A comment.
    Comment,
}

/// Each byte with what it is part of. A doubled quote, which escapes it in SQL, ends one quoted text and begins
/// the next, with the same result.
pub(crate) fn walk(text: &str) -> impl Iterator<Item = (usize, State)> {
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
    use super::split;

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

    #[cfg(feature = "shell")]
    #[test]
    fn take_inputs_tells_commands_from_statements() {
        use super::{Input, take_inputs};
        let query = |text: &str| Input::Query(text.to_owned());
        let command = |text: &str| Input::Command(text.to_owned());
        for (text, inputs, rest) in [
            ("SELECT 1; SEL", vec![query("SELECT 1")], " SEL"),
            ("SELECT 'a;", vec![], "SELECT 'a;"),
            (" \\d kernels \n SELECT\n2;", vec![command("\\d kernels"), query("SELECT\n2")], ""),
            ("SELECT 1\n\\d", vec![], "SELECT 1\n\\d"),
            ("; -- nothing\n;", vec![], ""),
        ] {
            assert_eq!(take_inputs(text), (inputs, rest.to_owned()), "{text}");
        }
    }
}
