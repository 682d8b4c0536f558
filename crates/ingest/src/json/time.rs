//! Times and durations from text, within bounds in which the sums of views fit 64 bits.

use super::number;

/// Times lie within 2^61 ns (73 years) of zero: until 2043 for times since 1970.
pub(crate) const MAX_TIME_NS: i64 = 1 << 61;
/// No event lasts, and no recording covers, more than 2^50 ns (13 days).
pub(crate) const MAX_DURATION_NS: i64 = 1 << 50;

/// Integer nanoseconds of a time in decimal microseconds. `None` if it is not a number or out of range.
#[inline]
pub(crate) fn time_ns(us: &[u8]) -> Option<i64> {
    number::us_to_ns(us).filter(|&ns| is_time(ns))
}

/// Integer nanoseconds of a duration in decimal microseconds, which may be negative. `None` if it is not a number or
/// out of range.
#[inline]
pub(crate) fn duration_ns(us: &[u8]) -> Option<i64> {
    number::us_to_ns(us).filter(|&ns| ns <= MAX_DURATION_NS)
}

/// Returns whether a time, or an offset of times, is in range.
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
