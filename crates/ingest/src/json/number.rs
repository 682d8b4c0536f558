//! Numbers from text: exact, and forgiving about quotes.

use crate::quantity::{RawDecimal, RawInteger};

/// Removes the quotes of a number written as a string (`"128"`), and the white space inside.
fn unquote(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        _ => text,
    }
}

/// Integer nanoseconds from decimal microseconds, exactly: not through an `f64`, since microseconds
/// since 1970 leave an `f64` no more than a quarter of a microsecond. Digits past the nanosecond are
/// rounded half away from zero. `None` if it is not a finite number or does not fit 64 bits.
#[inline]
pub(crate) fn us_to_ns(text: &[u8]) -> Option<i64> {
    plain_us_to_ns(text).or_else(|| scaled(unquote(text), 3))
}

/// As nearly all times are written: few enough digits for 64 bits, at most three of them behind a point.
#[inline]
fn plain_us_to_ns(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    let mut decimals = None;
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        if let Some(eight) = eight_digits(&text[at..]) {
            value = value * 100_000_000 + eight;
            at += 8;
            continue;
        }
        let digit = b.wrapping_sub(b'0');
        at += 1;
        if digit <= 9 {
            value = value * 10 + i64::from(digit);
        } else if b == b'.' && decimals.is_none() {
            decimals = Some(text.len() - at);
        } else {
            return None;
        }
    }
    match decimals {
        None => value.checked_mul(1000),
        Some(decimals @ 1..=3) if text.len() > decimals + 1 => {
            value.checked_mul([1000, 100, 10, 1][decimals])
        }
        Some(_) => None,
    }
}

/// The number that the first eight bytes write, if they are all digits.
#[inline]
fn eight_digits(text: &[u8]) -> Option<i64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*text.first_chunk()?).wrapping_sub(ONES * u64::from(b'0'));
    // No byte is past nine, or was below zero.
    if (word.wrapping_add(ONES * (0x7f - 9)) | word) & (ONES << 7) != 0 {
        return None;
    }
    // Pairs, then fours, then all: the first digit is in the lowest byte.
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let all = (fours & 0xffff_ffff) * 10_000 + (fours >> 32);
    Some(all as i64)
}

/// An integer; a decimal with nothing but zeros behind the point counts as one.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<RawInteger> {
    integer_value(text).map(RawInteger::new)
}

/// An ID.
#[inline]
pub(crate) fn id(text: &[u8]) -> Option<i64> {
    integer(text)?.id()
}

#[inline]
fn integer_value(text: &[u8]) -> Option<i64> {
    let text = unquote(text);
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= 18 {
        let mut value = 0_i64;
        for &b in digits {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                return integer_slow(text);
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if negative { -value } else { value });
    }
    integer_slow(text)
}

/// Decimals and exponents (`1.0`, `1e3`) only if the value is an integer; addresses past 2^63 wrap
/// into negative numbers, as a 64-bit pattern.
fn integer_slow(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(value) = text.parse::<i64>() {
        return Some(value);
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.cast_signed());
    }
    let value = scaled(text.as_bytes(), 0)?;
    let is_exact = scaled_wide(text.as_bytes(), 9)? == i128::from(value) * 1_000_000_000;
    is_exact.then_some(value)
}

/// A finite decimal number.
pub(crate) fn decimal(text: &[u8]) -> Option<RawDecimal> {
    RawDecimal::new(std::str::from_utf8(unquote(text)).ok()?.parse().ok()?)
}

/// `text * 10^scale`, rounded half away from zero. `None` if it does not fit 64 bits.
fn scaled(text: &[u8], scale: i32) -> Option<i64> {
    i64::try_from(scaled_wide(text, scale)?).ok()
}

/// Like [`scaled`], in 128 bits.
fn scaled_wide(text: &[u8], scale: i32) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut digits = 0_i128;
    let mut exponent = scale;
    let mut dropped_half = false;
    let mut seen_digit = false;
    let mut seen_point = false;
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        match b {
            b'0'..=b'9' => {
                seen_digit = true;
                if digits < i128::MAX / 100 {
                    digits = digits * 10 + i128::from(b - b'0');
                    exponent -= i32::from(seen_point);
                } else {
                    // Past 36 significant digits nothing can reach the nanosecond.
                    exponent += i32::from(!seen_point);
                }
            }
            b'.' if !seen_point => seen_point = true,
            b'e' | b'E' => {
                let power: i32 = std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
                exponent = exponent.checked_add(power)?;
                at = text.len();
                continue;
            }
            _ => return None,
        }
        at += 1;
    }
    if !seen_digit {
        return None;
    }
    if digits == 0 {
        return Some(0);
    }
    while exponent > 0 {
        digits = digits.checked_mul(10)?;
        exponent -= 1;
    }
    while exponent < 0 && digits > 0 {
        dropped_half = digits % 10 >= 5;
        digits /= 10;
        exponent += 1;
    }
    if exponent < 0 {
        dropped_half = false; // every digit went, and zeros after it
    }
    let value = digits.checked_add(i128::from(dropped_half))?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn us_to_ns_is_exact() {
        assert_eq!(us_to_ns(b"1712085511123456.789"), Some(1_712_085_511_123_456_789));
        assert_eq!(us_to_ns(b"4203669603069.091"), Some(4_203_669_603_069_091));
        assert_eq!(us_to_ns(b"1623142623531625"), Some(1_623_142_623_531_625_000));
        assert_eq!(us_to_ns(b"\"12.5\""), Some(12_500));
        assert_eq!(us_to_ns(b"0.0005"), Some(1));
        assert_eq!(us_to_ns(b"0.00049"), Some(0));
        assert_eq!(us_to_ns(b"-2.5"), Some(-2_500));
        assert_eq!(us_to_ns(b"1.7e15"), Some(1_700_000_000_000_000_000));
        assert_eq!(us_to_ns(b"2E-3"), Some(2));
    }

    #[test]
    fn numbers_reject_other_text() {
        let bad: [&[u8]; 9] =
            [b"NaN", b"Infinity", b"-", b"", b"\"\"", b"1.2.3", b"abc", b"1e30", b"null"];
        for text in bad {
            assert_eq!(us_to_ns(text), None, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(us_to_ns(b"1e2147483647"), None);
        assert_eq!(us_to_ns(b"1e-2147483000"), Some(0));
    }

    #[test]
    fn integer_accepts_quotes_and_integral_decimals() {
        assert_eq!(integer_value(b"\"128\""), Some(128));
        assert_eq!(integer_value(b"7"), Some(7));
        assert_eq!(integer_value(b"-1"), Some(-1));
        assert_eq!(integer_value(b"3.0"), Some(3));
        assert_eq!(integer_value(b"3.5"), None);
        assert_eq!(integer_value(b"\"0x0\""), None);
        assert_eq!(integer_value(b"18446744073709551615"), Some(-1));
        assert_eq!(integer_value(b"\"N/A\""), None);
        // The thousandths fit 64 bits, the rounded value times a thousand does not.
        assert_eq!(integer_value(b"9223372036854775.807"), None);
        assert_eq!(integer_value(b"-9223372036854775.807"), None);
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives(ns in 0..=i64::MAX) {
            let text = format!("{}.{:03}", ns / 1000, ns % 1000);
            prop_assert_eq!(us_to_ns(text.as_bytes()), Some(ns));
        }

        #[test]
        fn integers_of_any_decimals_are_exact(digits in "-?[0-9]{1,20}(\\.[0-9]{0,4})?") {
            let is_integer = digits.split_once('.').is_none_or(|(_, decimals)| {
                decimals.bytes().all(|digit| digit == b'0')
            });
            let value = integer_value(digits.as_bytes());
            prop_assert!(value.is_none() || is_integer, "{} is {:?}", digits, value);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (us_to_ns(&bytes), integer(&bytes), decimal(&bytes));
        }
    }
}
