//! Numbers and text as pickles write them.

use std::borrow::Cow;

/// A little-endian two's complement integer; `None` if it has more than 16 bytes that matter.
pub(super) fn little_endian(bytes: &[u8]) -> Option<i128> {
    let Some(&top) = bytes.last() else { return Some(0) };
    let fill = if top & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [fill; 16];
    if bytes.len() > 16 {
        let (low, high) = bytes.split_at(16);
        if high.iter().any(|&b| b != fill) || (low[15] & 0x80 == 0) != (fill == 0) {
            return None;
        }
        wide.copy_from_slice(low);
    } else {
        wide[..bytes.len()].copy_from_slice(bytes);
    }
    Some(i128::from_le_bytes(wide))
}

/// Value of a decimal integer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decimal {
    Int(i128),
    Huge,
    Bad,
}

/// A decimal integer as protocol 0 writes it, perhaps with Python 2's `L` behind it.
pub(super) fn decimal(line: &[u8]) -> Decimal {
    let line = line.trim_ascii();
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Decimal::Bad;
    }
    let value = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    value.map_or(Decimal::Huge, Decimal::Int)
}

/// Text as UTF-8; invalid bytes are replaced (Python accepts lone surrogates).
pub(super) fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A line of protocol 0's UNICODE: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn raw_unicode_escape(line: &[u8]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digits = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let code = after.get(1..=digits).filter(|_| digits > 0).and_then(hex);
        if let Some(code) = code {
            rest = &after[digits + 1..];
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// A quoted string of protocol 0; `None` if it is not quoted.
pub(super) fn quoted(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii();
    let ([b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"']) = line else { return None };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&escaped, after)) = rest.split_first() else { break };
        rest = after;
        match escaped {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'x' => match rest.get(..2).and_then(hex) {
                Some(code) => {
                    bytes.push(code as u8);
                    rest = &rest[2..];
                }
                None => bytes.extend(b"\\x"),
            },
            other => bytes.push(other),
        }
    }
    Some(utf8(&bytes).into_owned())
}

fn hex(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|t| !t.starts_with('+'))?;
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_reads_integers_of_any_length() {
        assert_eq!(little_endian(&[]), Some(0));
        assert_eq!(little_endian(&[0xff]), Some(-1));
        assert_eq!(little_endian(&[0xff, 0]), Some(255));
        assert_eq!(little_endian(&u64::MAX.to_le_bytes()), Some(-1));
        let mut nine = u64::MAX.to_le_bytes().to_vec();
        nine.push(0);
        assert_eq!(little_endian(&nine), Some(i128::from(u64::MAX)));
        assert_eq!(little_endian(&[1; 17]), None);
        assert_eq!(little_endian(&[0xff; 40]), Some(-1));
        assert_eq!(decimal(b"-12L"), Decimal::Int(-12));
        assert_eq!(decimal(b"9".repeat(99).as_slice()), Decimal::Huge);
        assert_eq!(decimal(b"12a"), Decimal::Bad);
    }

    #[test]
    fn text_of_protocol_0() {
        assert_eq!(raw_unicode_escape(b"a\\u00e9\\U0001f600\xe9\\x"), "a\u{e9}\u{1f600}\u{e9}\\x");
        assert_eq!(raw_unicode_escape(b"\\ud800\\u12"), "\u{fffd}\\u12");
        assert_eq!(quoted(b"'a\\x41\\\\\\''").as_deref(), Some("aA\\'"));
        assert_eq!(quoted(b"'a"), None);
    }
}
