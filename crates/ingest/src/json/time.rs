//! Parses times and durations, within bounds that keep the sums in views below 64 bits.

use super::number;
use crate::quantity::{MAX_DURATION_NS, is_time};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::MAX_TIME_NS;

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
