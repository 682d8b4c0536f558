//! Numbers of files, without arithmetic until a conversion has checked their bounds.
//!
//! Readers get a [`RawInteger`] or a [`RawDecimal`] and choose the conversion for the kind of field: an ID, a count,
//! bytes, a percentage. A value outside of the bounds is `None`: readers count it and treat it as missing.

use trace_model::column::NULL_I64;

/// Maximum distance of a time from zero: 2^61 ns (73 years), which is in 2043 for times since 1970.
pub(crate) const MAX_TIME_NS: i64 = 1 << 61;
/// Maximum duration of an event or a recording: 2^50 ns (13 days).
pub(crate) const MAX_DURATION_NS: i64 = 1 << 50;
/// Maximum size of an allocation, a copy, or the memory of a device: 16 TiB.
pub(crate) const MAX_BYTES: i64 = 1 << 44;
/// Maximum number of elements, blocks or batches: about 10^12.
const MAX_COUNT: i64 = 1 << 40;
/// Maximum of a value per second or per multiprocessor.
const MAX_RATE: f64 = 1e9;
/// Maximum of a total since the start of a machine: bytes of traffic, operations, milliseconds.
const MAX_SAMPLE: f64 = 1e18;

/// An integer as a file states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawInteger(i64);

impl RawInteger {
    pub(crate) const fn new(value: i64) -> Self {
        Self(value)
    }

    /// An ID or an address: 64 bits that are compared, not added. `None` for the bits that mean null in columns.
    #[inline]
    pub(crate) fn id(self) -> Option<i64> {
        (self.0 != NULL_I64).then_some(self.0)
    }

    /// A rank, device, stream, line number or enumerator.
    #[inline]
    pub(crate) fn number(self) -> Option<i32> {
        i32::try_from(self.0).ok().filter(|&number| number != i32::MIN)
    }

    /// An amount of things.
    #[inline]
    pub(crate) fn count(self) -> Option<i64> {
        (0..=MAX_COUNT).contains(&self.0).then_some(self.0)
    }

    /// A size.
    #[inline]
    pub(crate) fn bytes(self) -> Option<i64> {
        (0..=MAX_BYTES).contains(&self.0).then_some(self.0)
    }

    /// The change of a size: negative where memory is released.
    #[inline]
    pub(crate) fn byte_change(self) -> Option<i64> {
        (-MAX_BYTES..=MAX_BYTES).contains(&self.0).then_some(self.0)
    }

    /// A time in nanoseconds.
    pub(crate) fn time_ns(self) -> Option<i64> {
        is_time(self.0).then_some(self.0)
    }

    /// A time in microseconds, as nanoseconds.
    pub(crate) fn time_us(self) -> Option<i64> {
        self.0.checked_mul(1000).filter(|&ns| is_time(ns))
    }

    /// A positive duration in nanoseconds.
    pub(crate) fn dur_ns(self) -> Option<i64> {
        (1..=MAX_DURATION_NS).contains(&self.0).then_some(self.0)
    }

    /// The number as a decimal.
    pub(crate) fn decimal(self) -> RawDecimal {
        RawDecimal(self.0 as f64)
    }
}

/// A finite decimal number as a file states it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RawDecimal(f64);

impl RawDecimal {
    /// `None` for infinities and NaN.
    pub(crate) fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value))
    }

    /// A percentage as a ratio.
    pub(crate) fn ratio_of_percent(self) -> Option<f64> {
        (0.0..=100.0).contains(&self.0).then_some(self.0 / 100.0)
    }

    /// An amount per second or per multiprocessor.
    pub(crate) fn rate(self) -> Option<f64> {
        (0.0..=MAX_RATE).contains(&self.0).then_some(self.0)
    }

    /// A duration in milliseconds, as nanoseconds.
    pub(crate) fn dur_ms(self) -> Option<i64> {
        let ns = self.0 * 1e6;
        (0.0..=MAX_DURATION_NS as f64).contains(&ns).then_some(ns.round() as i64)
    }

    /// A sample of a metric with this unit.
    pub(crate) fn sample(self, unit: &str) -> Option<f64> {
        let range = match unit {
            "percent" => 0.0..=100.0,
            _ => 0.0..=MAX_SAMPLE,
        };
        range.contains(&self.0).then_some(self.0)
    }

    /// A sample of a counter whose meaning is unknown. Nothing computes with the value.
    pub(crate) fn of_unknown_unit(self) -> f64 {
        self.0
    }
}

/// Returns whether a time or a time offset is in range.
#[inline]
pub(crate) fn is_time(ns: i64) -> bool {
    ns.unsigned_abs() <= MAX_TIME_NS.unsigned_abs()
}

/// Replaces the largest values by null if the sum of all magnitudes exceeds 2^58. Returns how many.
///
/// Values within the bounds of [`RawInteger`] can still add up to more than 64 bits if a file repeats them often enough.
pub(crate) fn limit_total(values: &mut [i64]) -> u64 {
    const MAX_TOTAL: u64 = 1 << 58;
    let magnitude = |value: i64| if value == NULL_I64 { 0 } else { value.unsigned_abs() };
    let total: u128 = values.iter().map(|&value| u128::from(magnitude(value))).sum();
    if total <= u128::from(MAX_TOTAL) {
        return 0;
    }
    let largest = MAX_TOTAL / values.len() as u64;
    let mut dropped = 0;
    for value in values.iter_mut().filter(|value| magnitude(**value) > largest) {
        *value = NULL_I64;
        dropped += 1;
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conversions_have_inclusive_bounds() {
        let raw = RawInteger::new;
        assert_eq!(raw(MAX_BYTES).bytes(), Some(MAX_BYTES));
        assert_eq!((raw(MAX_BYTES + 1).bytes(), raw(-1).bytes()), (None, None));
        assert_eq!(raw(-MAX_BYTES).byte_change(), Some(-MAX_BYTES));
        assert_eq!(raw(-MAX_BYTES - 1).byte_change(), None);
        assert_eq!((raw(MAX_COUNT).count(), raw(MAX_COUNT + 1).count()), (Some(MAX_COUNT), None));
        assert_eq!((raw(i64::MAX).id(), raw(NULL_I64).id()), (Some(i64::MAX), None));
        assert_eq!((raw(i64::MAX).time_us(), raw(i64::MAX).time_ns()), (None, None));
        let decimal = |value| RawDecimal::new(value).unwrap();
        assert_eq!(decimal(100.0).ratio_of_percent(), Some(1.0));
        assert_eq!(decimal(100.5).ratio_of_percent(), None);
        assert_eq!((decimal(-0.5).rate(), decimal(250.0).sample("percent")), (None, None));
        assert_eq!(RawDecimal::new(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn limited_totals_fit_64_bits(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut limited = values.clone();
            let dropped = limit_total(&mut limited);
            let kept = limited.iter().filter(|&&value| value != NULL_I64);
            let total: i128 = kept.map(|&value| i128::from(value).abs()).sum();
            prop_assert!(total <= 1 << 58);
            let is_same = |(old, new): &(&i64, &i64)| old == new;
            let changed = values.len() - values.iter().zip(&limited).filter(is_same).count();
            prop_assert_eq!(changed as u64, dropped);
        }
    }
}
