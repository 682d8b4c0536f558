//! Lists of numbers and times, as JSON or as Postgres writes them.

/// The items of `[1, "NaN", null]` or `{1,NaN,NULL}`, without quotes; `None` if it is not such a list. Numbers and
/// times contain no commas.
pub(super) fn items(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let text = text.trim_ascii();
    let inner = match text {
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.trim_ascii(),
        _ => return None,
    };
    let count = if inner.is_empty() { 0 } else { usize::MAX };
    Some(inner.split(|&byte| byte == b',').take(count).map(unquote))
}

/// Returns whether the text is a list without items.
pub(super) fn is_empty(text: &[u8]) -> bool {
    items(text).is_some_and(|mut items| items.next().is_none())
}

/// A value without its quotes.
pub(super) fn unquote(text: &[u8]) -> &[u8] {
    match text.trim_ascii() {
        [b'"', inner @ .., b'"'] => inner,
        text => text,
    }
}

/// Returns whether the value is `null`, or `NULL` as Postgres writes it.
pub(super) fn is_null(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Option<Vec<String>> {
        let items = items(text.as_bytes())?;
        Some(items.map(|item| String::from_utf8_lossy(item).into_owned()).collect())
    }

    #[test]
    fn items_reads_json_and_postgres_lists() {
        assert_eq!(all("[1, \"NaN\" ,null]").unwrap(), ["1", "NaN", "null"]);
        assert_eq!(all("{0.5,NaN,NULL}").unwrap(), ["0.5", "NaN", "NULL"]);
        let times = all("{\"2026-11-21 10:12:51+00\",\"2026-11-21 10:12:52+00\"}").unwrap();
        assert_eq!(times, ["2026-11-21 10:12:51+00", "2026-11-21 10:12:52+00"]);
        assert_eq!(all(" [ ] ").unwrap(), [""; 0]);
        assert_eq!(all("{}").unwrap(), [""; 0]);
        for cut in ["[1, 2", "{1,2", "1,2", "", "[", "{]"] {
            assert_eq!(all(cut), None, "{cut}");
        }
        assert!(is_empty(b"{}") && !is_empty(b"{1}") && !is_empty(b"1"));
    }
}
