//! Parsers of option values.

use std::time::Duration;

use crate::console::Terminal;

/// Parses a duration in seconds, greater than zero: `30`, `2.5s`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.trim().trim_end_matches('s').parse::<f64>().ok();
    let time = time.and_then(|t| Duration::try_from_secs_f64(t).ok()).filter(|t| !t.is_zero());
    time.ok_or_else(|| "not a duration in seconds".into())
}

/// Parses a duration, greater than zero, to nanoseconds: `113ms`, `1.2s`, `850us`.
pub(super) fn duration_ns(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let scale = match &text[digits.len()..] {
        "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        _ => return Err("not a duration: write 113ms or 1.2s".to_owned()),
    };
    let ns = digits.trim_end().parse::<f64>().map_or(f64::NAN, |number| number * scale);
    if (1.0..9e15).contains(&ns) {
        Ok(ns.round() as i64)
    } else {
        Err("not a duration: write 113ms or 1.2s".to_owned())
    }
}

/// Parses a percentage, zero or greater: `5`, `0.5%`.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    value.ok().filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| "not a percentage".into())
}

/// Parses a size in bytes: `4GiB`, `512MB`, `1000000`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = text[digits.len()..].trim_start().to_ascii_lowercase();
    let (base, unit) = match unit.strip_suffix("ib") {
        Some(unit) => (1024_f64, unit),
        None => (1000_f64, unit.strip_suffix('b').unwrap_or(&unit)),
    };
    let power = match unit {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err("not a size: write 4GiB or 512MB".to_owned()),
    };
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    let number = number.ok_or("not a size: write 4GiB or 512MB")?;
    Ok((number * base.powi(power)) as u64)
}

/// Parses a memory limit. A number without a unit is most likely meant in another unit.
pub(super) fn memory_bytes(text: &str) -> Result<u64, String> {
    /// Less than a trace of any use takes.
    const LEAST: u64 = 1000;
    let size = bytes(text)?;
    if size < LEAST {
        let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
        return Err(format!(
            "{size} bytes are too few for any trace: write {number}GiB or {number}MiB"
        ));
    }
    Ok(size)
}

/// Parses an age: `7d`, `12h`, `30m`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "not an age: write 7d or 12h".to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let seconds = match &text[digits.len()..] {
        "w" => 7 * 24 * 3600,
        "d" => 24 * 3600,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses a time between two actions, at least a second: `30s`, `5m`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || "not a time: write 30s or 5m".to_owned();
    age(text).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// Parses a line width that texts adapt to.
pub(super) fn columns(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok().filter(|number| Terminal::COLUMNS.contains(number));
    number.ok_or_else(|| {
        format!("not a number from {} to {}", Terminal::COLUMNS.start(), Terminal::COLUMNS.end())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{age, bytes, columns, duration_ns, memory_bytes};

    #[test]
    fn columns_are_those_that_texts_adapt_to() {
        assert_eq!((columns("40"), columns("200")), (Ok(40), Ok(200)));
        for text in ["39", "201", "-40", "", "wide"] {
            assert_eq!(columns(text).unwrap_err(), "not a number from 40 to 200", "{text}");
        }
    }

    #[test]
    fn memory_bytes_rejects_numbers_without_a_unit() {
        assert_eq!(memory_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(memory_bytes("1KB"), Ok(1000));
        let message = memory_bytes("4").unwrap_err();
        assert_eq!(message, "4 bytes are too few for any trace: write 4GiB or 4MiB");
    }

    #[test]
    fn age_reads_units() {
        assert_eq!(age("7d"), Ok(Duration::from_hours(7 * 24)));
        assert_eq!(age("12 h"), Ok(Duration::from_hours(12)));
        for text in ["", "7", "d", "-1d", "1y", "99999999999999999999d"] {
            assert!(age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duration_ns_reads_units() {
        for (text, expected) in
            [("113ms", 113_000_000), ("1.2s", 1_200_000_000), ("850 us", 850_000), ("7ns", 7)]
        {
            assert_eq!(duration_ns(text), Ok(expected), "{text}");
        }
        for text in ["", "113", "ms", "-1ms", "0s", "nans", "1h"] {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_reads_sizes_with_and_without_unit() {
        for (text, expected) in [
            ("4GiB", 4 << 30),
            ("512MB", 512_000_000),
            ("1.5 g", 1_500_000_000),
            ("16kib", 16 << 10),
            ("1000000", 1_000_000),
            ("7b", 7),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GiB", "-1GB", "1XB", "0", "nan", "infMB", "1 2GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
