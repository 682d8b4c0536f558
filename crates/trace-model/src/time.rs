//! Conversions of nanoseconds for display.

/// Nanoseconds in a microsecond, the unit of `ts` and `dur` in Chrome traces.
pub const NS_PER_US: i64 = 1_000;
/// Nanoseconds in a millisecond.
pub const NS_PER_MS: i64 = 1_000_000;
/// Nanoseconds in a second.
pub const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_HOUR: f64 = 3600e9;
const NS_PER_DAY: f64 = 24.0 * NS_PER_HOUR;

/// Milliseconds, for printing.
pub fn ns_to_ms(ns: f64) -> f64 {
    ns / NS_PER_MS as f64
}

/// A duration in the unit that keeps it between 1 and 1000: `1.53 s`, `12.4 ms`, `830 us`, `12 ns`.
pub fn human(ns: f64) -> String {
    let magnitude = ns.abs();
    let (value, unit) = if magnitude >= 2.0 * NS_PER_DAY {
        (ns / NS_PER_DAY, "days")
    } else if magnitude >= 2.0 * NS_PER_HOUR {
        (ns / NS_PER_HOUR, "h")
    } else if magnitude >= NS_PER_S as f64 {
        (ns / NS_PER_S as f64, "s")
    } else if magnitude >= NS_PER_MS as f64 {
        (ns / NS_PER_MS as f64, "ms")
    } else if magnitude >= NS_PER_US as f64 {
        (ns / NS_PER_US as f64, "us")
    } else {
        (ns, "ns")
    };
    let digits = match value.abs() {
        v if unit == "ns" || v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Two durations as a range: `30.1 to 41.0 ms`; one if both read the same.
pub fn human_range(low_ns: f64, high_ns: f64) -> String {
    let (low, high) = (human(low_ns), human(high_ns));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => low,
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// `310..361 ms`, with enough digits to show the length of the range.
pub fn time_range(ts_ns: i64, dur_ns: i64) -> String {
    let end_ns = ts_ns.saturating_add(dur_ns);
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fits = units.into_iter().find(|(scale, _)| end_ns.unsigned_abs() >= *scale);
    let (scale, unit) = fits.unwrap_or((1, "ns"));
    let (mut digits, mut step) = (0, scale);
    while step > 1 && dur_ns.unsigned_abs() < 10 * step {
        step /= 10;
        digits += 1;
    }
    let time = |ns: i64| format!("{:.digits$}", ns as f64 / scale as f64);
    if dur_ns == 0 {
        return format!("{} {unit}", time(ts_ns));
    }
    format!("{}..{} {unit}", time(ts_ns), time(end_ns))
}

#[cfg(test)]
mod tests {
    use super::{human, human_range};

    #[test]
    fn human_range_names_a_common_unit_once() {
        assert_eq!(human_range(30.1e6, 41.0e6), "30.1 to 41.0 ms");
        assert_eq!(human_range(830e3, 1.2e6), "830 us to 1.20 ms");
        assert_eq!(human_range(30.11e6, 30.12e6), "30.1 ms");
    }

    #[test]
    fn human_picks_the_readable_unit() {
        assert_eq!(human(12.0), "12 ns");
        assert_eq!(human(830_400.0), "830 us");
        assert_eq!(human(12_420_000.0), "12.4 ms");
        assert_eq!(human(1.534e9), "1.53 s");
        assert_eq!(human(69_764e9), "19.4 h");
        assert_eq!(human(17_322_607e9), "200 days");
        assert_eq!(human(-2_500.0), "-2.50 us");
    }
}
