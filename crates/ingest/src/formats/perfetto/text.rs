//! Values as JSON text, which the reader of Chrome traces expects.

use std::io::Write as _;

/// Appends an integer.
pub(super) fn push_integer(text: &mut Vec<u8>, value: i64) {
    if value < 0 {
        text.push(b'-');
    }
    push_natural(text, value.unsigned_abs());
}

/// Appends an integer without a sign.
pub(super) fn push_natural(text: &mut Vec<u8>, mut value: u64) {
    const MAX_DIGITS: usize = 20;
    let mut digits = [0; MAX_DIGITS];
    let mut at = MAX_DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// Appends nanoseconds as decimal microseconds.
pub(super) fn push_us(text: &mut Vec<u8>, ns: i64) {
    if ns < 0 {
        text.push(b'-');
    }
    let ns = ns.unsigned_abs();
    push_natural(text, ns / 1000);
    let rest = ns % 1000;
    let digit = |value: u64| b'0' + (value % 10) as u8;
    text.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
}

/// Appends a decimal number; `null` for infinities and NaN, which JSON cannot represent.
pub(super) fn push_decimal(text: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        // `{:?}` writes an exponent instead of many zeros. Writing to memory does not fail.
        let _ = write!(text, "{value:?}");
    } else {
        text.extend_from_slice(b"null");
    }
}

/// Appends a string with quotes.
pub(super) fn push_string(text: &mut Vec<u8>, string: &[u8]) {
    text.push(b'"');
    push_inside_quotes(text, string);
    text.push(b'"');
}

/// Appends a string with escapes, but without quotes.
pub(super) fn push_inside_quotes(text: &mut Vec<u8>, string: &[u8]) {
    let mut rest = string;
    while let Some(at) = rest.iter().position(|&byte| needs_escape(byte)) {
        text.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => text.extend_from_slice(&[b'\\', byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\t' => text.extend_from_slice(b"\\t"),
            byte => {
                // Writing to memory does not fail.
                let _ = write!(text, "\\u{byte:04x}");
            }
        }
        rest = &rest[at + 1..];
    }
    text.extend_from_slice(rest);
}

/// Returns whether a byte must be escaped in a JSON string.
pub(super) fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns whether a text is a JSON number, `true`, `false` or `null`.
pub(super) fn is_scalar(text: &[u8]) -> bool {
    if matches!(text, b"true" | b"false" | b"null") {
        return true;
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let sign = usize::from(matches!(exponent, [b'+' | b'-', ..]));
        let exponent = &exponent[sign..];
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        push(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_written_as_json() {
        assert_eq!(text(|t| push_integer(t, i64::MIN)), "-9223372036854775808");
        assert_eq!(text(|t| push_natural(t, u64::MAX)), "18446744073709551615");
        assert_eq!(text(|t| push_integer(t, 0)), "0");
        assert_eq!(text(|t| push_us(t, 1_234_567)), "1234.567");
        assert_eq!(text(|t| push_us(t, -5)), "-0.005");
        assert_eq!(text(|t| push_decimal(t, 0.625)), "0.625");
        assert_eq!(text(|t| push_decimal(t, 1e300)), "1e300");
        assert_eq!(text(|t| push_decimal(t, f64::NAN)), "null");
    }

    #[test]
    fn strings_are_escaped_where_json_asks_for_it() {
        assert_eq!(
            text(|t| push_string(t, "a\"b\\c\n\u{1}é".as_bytes())),
            "\"a\\\"b\\\\c\\n\\u0001é\""
        );
    }

    #[test]
    fn scalars_are_what_json_writes_without_quotes() {
        for scalar in ["0", "-1", "12.5", "1e9", "1.5E-3", "true", "null"] {
            assert!(is_scalar(scalar.as_bytes()), "{scalar}");
        }
        for other in ["", "-", "01", "1.", ".5", "1e", "0x10", "NaN", "1 ", "Float", "[1]"] {
            assert!(!is_scalar(other.as_bytes()), "{other}");
        }
    }
}
