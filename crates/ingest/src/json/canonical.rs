//! One text for each list and object, whatever white space and number formats its writer prefers.
//!
//! Views match texts such as `[[8, 128], [128]]`, so that two writers of the same values must not differ in them.

use std::borrow::Cow;

use super::number;
use crate::quantity::RawInteger;

/// The text of a JSON list or object as PyTorch writes it: no white space but one space after each comma and colon. Other
/// values stay as they are.
#[inline]
pub(crate) fn canonical(value: &[u8]) -> Cow<'_, [u8]> {
    let is_container = matches!(value.first(), Some(b'[' | b'{'));
    if !is_container || is_canonical(value) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(rewrite(value))
}

/// Whether the writer uses PyTorch's white space, by the first separator: a writer does not change its style inside a value.
#[inline]
fn is_canonical(value: &[u8]) -> bool {
    let [_, inside @ .., before_end, _] = value else { return true };
    if value[1].is_ascii_whitespace() || before_end.is_ascii_whitespace() {
        return false;
    }
    let mut in_string = false;
    let mut is_escaped = false;
    for (at, &byte) in inside.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b',' | b':' => {
                let after = &value[at + 2..];
                let is_space = |at: usize| after.get(at).is_some_and(u8::is_ascii_whitespace);
                return after.first() == Some(&b' ') && !is_space(1);
            }
            b'.' | b'e' | b'E' => return false,
            _ if byte.is_ascii_whitespace() => return false,
            _ => {}
        }
    }
    true
}

fn rewrite(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + value.len() / 4);
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        let end = match byte {
            b'"' => string_end(value, at),
            b'-' | b'0'..=b'9' => {
                let is_number =
                    |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-');
                let length = value[at..].iter().position(|b| !is_number(b));
                length.map_or(value.len(), |length| at + length)
            }
            _ => at + 1,
        };
        let token = &value[at..end];
        match byte {
            b',' | b':' => out.extend_from_slice(&[byte, b' ']),
            b'-' | b'0'..=b'9' => write_number(token, &mut out),
            _ if byte.is_ascii_whitespace() => {}
            _ => out.extend_from_slice(token),
        }
        at = end;
    }
    out
}

/// The position behind a string that starts at `start`.
fn string_end(value: &[u8], start: usize) -> usize {
    let mut is_escaped = false;
    for (at, &byte) in value.iter().enumerate().skip(start + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    value.len()
}

/// Integers lose decimals and exponents (`8.0`, `1e3`); other numbers stay as they are.
fn write_number(token: &[u8], out: &mut Vec<u8>) {
    match number::integer(token).and_then(RawInteger::count) {
        Some(integer) => out.extend_from_slice(integer.to_string().as_bytes()),
        None => out.extend_from_slice(token),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: &str) -> String {
        String::from_utf8(canonical(value.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn writers_get_the_text_of_pytorch() {
        let expected = r#"[[8, 128], [], ["a,b: c", "x\", y"]]"#;
        for written in [
            expected,
            r#"[[8,128],[],["a,b: c","x\", y"]]"#,
            "[\n  [\n    8,\n    128\n  ],\n  [],\n  [\n    \"a,b: c\",\n    \"x\\\", y\"\n  ]\n]",
            r#"[ [ 8 , 128.0 ] , [ ] , [ "a,b: c" , "x\", y" ] ]"#,
            r#"[[8.0, 1.28e2], [], ["a,b: c", "x\", y"]]"#,
        ] {
            assert_eq!(text(written), expected, "{written}");
        }
        assert_eq!(text(r#"{"a":1,"b":{}}"#), r#"{"a": 1, "b": {}}"#);
        assert_eq!(text("[ ]"), "[]");
        assert_eq!(text("[0.5,1]"), "[0.5, 1]");
        assert_eq!(text(r#""[1,2]""#), r#""[1,2]""#);
    }

    proptest! {
        #[test]
        fn values_stay_the_same(
            integers in proptest::collection::vec(-500_i64..500, 0..5),
            texts in proptest::collection::vec("[a-z,: \"\\\\]{0,6}", 0..4),
        ) {
            let halves: Vec<f64> = integers.iter().map(|&n| n as f64 + 0.5).collect();
            let value = serde_json::json!([integers, halves, texts, { "k": integers.len() }]);
            let compact = serde_json::to_vec(&value).unwrap();
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            let read: serde_json::Value = serde_json::from_slice(&canonical(&compact)).unwrap();
            prop_assert_eq!(&read, &value);
            prop_assert_eq!(canonical(&pretty), canonical(&compact));
        }

        #[test]
        fn any_bytes_have_a_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let once = canonical(&bytes).into_owned();
            prop_assert!(once.len() <= 2 * bytes.len() + 40);
        }
    }
}
