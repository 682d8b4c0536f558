//! Parses times and durations, within bounds that keep the sums in views below 64 bits.

use super::number;

/// Maximum distance of a time from zero: 2^61 ns (73 years), which is in 2043 for times since 1970.
pub(crate) const MAX_TIME_NS: i64 = 1 << 61;
/// Maximum duration of an event or a recording: 2^50 ns (13 days).
pub(crate) const MAX_DURATION_NS: i64 = 1 << 50;

/// Converts a time in decimal microseconds to nanoseconds. Returns `None` if it is not a number or out of range.
#[inline]
pub(crate) fn time_ns(us: &[u8]) -> Option<i64> {
    number::us_to_ns(us).filter(|&ns| is_time(ns))
}

/// Converts a duration in decimal microseconds, which may be negative, to nanoseconds. Returns `None` if it is not a
/// number or is too long.
#[inline]
pub(crate) fn duration_ns(us: &[u8]) -> Option<i64> {
    number::us_to_ns(us).filter(|&ns| ns <= MAX_DURATION_NS)
}

/// Returns whether a time or a time offset is in range.
#[inline]
pub(crate) fn is_time(ns: i64) -> bool {
    ns.unsigned_abs() <= MAX_TIME_NS.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        assert_eq!(time_ns(b"2305843009213693.952"), Some(MAX_TIME_NS));
        assert_eq!(time_ns(b"2305843009213693.953"), None);
        assert_eq!(time_ns(b"-2305843009213693.952"), Some(-MAX_TIME_NS));
        assert_eq!(time_ns(b"-2305843009213693.953"), None);
        assert_eq!(duration_ns(b"1125899906842.624"), Some(MAX_DURATION_NS));
        assert_eq!(duration_ns(b"1125899906842.625"), None);
        assert_eq!(duration_ns(b"-5"), Some(-5_000));
        assert_eq!(duration_ns(b"NaN"), None);
    }
}
