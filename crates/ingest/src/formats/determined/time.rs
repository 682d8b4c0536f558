//! Times as Determined, its master and Postgres write them.

use chrono::DateTime;

use crate::quantity::MAX_TIME_NS;

/// Longest text that can be a time.
const MAX_LENGTH: usize = 48;

/// Nanoseconds since 1970 of `2026-11-21T10:12:51.606720Z`, `...+00:00`, or, as Postgres writes it,
/// `2026-11-21 10:12:51.60672+00`. `None` if it is not a time, has no time zone, is before 1970, or is after 2043.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.len() > MAX_LENGTH {
        return None;
    }
    // Postgres leaves out the minutes of a time zone that are 0.
    let is_short = text.len().checked_sub(3).is_some_and(|at| {
        let zone = &text.as_bytes()[at..];
        text.len() > "2026-11-21 10".len() && matches!(zone[0], b'+' | b'-')
    });
    let time = if is_short {
        DateTime::parse_from_rfc3339(&format!("{text}:00"))
    } else {
        DateTime::parse_from_rfc3339(text)
    };
    time.ok()?.timestamp_nanos_opt().filter(|time| (0..=MAX_TIME_NS).contains(time))
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;
    use proptest::prelude::*;

    #[test]
    fn nanoseconds_parses_all_forms_exactly() {
        let expected = Some(1_795_255_971_606_720_000);
        for text in [
            "2026-11-21T10:12:51.606720+00:00",
            "2026-11-21T10:12:51.606720Z",
            "2026-11-21T10:12:51.60672+00:00",
            "2026-11-21 10:12:51.60672+00",
            "2026-11-21 11:12:51.60672+01",
            "2026-11-21 15:42:51.60672+05:30",
            "2026-11-21 02:12:51.60672-08",
            "2026-11-21T10:12:51.606720000Z",
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(nanoseconds(b"2026-11-21T10:12:51Z"), Some(1_795_255_971_000_000_000));
        assert_eq!(nanoseconds(b"2026-11-21T10:12:51.123456789Z"), Some(1_795_255_971_123_456_789));
    }

    #[test]
    fn nanoseconds_rejects_other_text() {
        for text in [
            "",
            "infinity",
            "-infinity",
            "2026-11-21",
            "2026-11-21 10:12:51",
            "2026-11-21T10:12:51",
            "2026-13-21T10:12:51Z",
            "9999-12-31T23:59:59Z",
            "1969-12-31 23:59:59+00",
            "0001-01-01T00:00:00Z",
            "1795255971",
            "+00",
            "é+00",
            "2026-11-21 10:12:51.60672+000000000000000000000000000000000000000",
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,60}") {
            let _ = nanoseconds(text.as_bytes());
        }
    }
}
