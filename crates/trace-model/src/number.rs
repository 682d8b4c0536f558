//! Numbers for people.

use crate::Unit;
use crate::time::human;

/// `12,345,678`.
pub fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0 {
        text.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 step`, `2 steps`.
pub fn plural(count: usize, noun: &str) -> String {
    let number = thousands(count as i64);
    if count == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}

/// Three significant digits, or all digits before the decimal point.
pub fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// `113 MiB`, `26.5 MiB`, `512 B`.
pub fn human_bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1024.0 {
            let number = if unit == "B" { format!("{value:.0}") } else { three_digits(value) };
            return format!("{number} {unit}");
        }
        value /= 1024.0;
    }
    format!("{} TiB", three_digits(value))
}

/// A value with its unit, in three significant digits: `33.1 %`, `4.20 ms`, `79.2 GiB`.
pub fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", without_zeros(&three_digits(value * 100.0))),
        Unit::Ns => human(value),
        Unit::Bytes => human_bytes(value),
        Unit::GbPerS => format!("{} GB/s", three_digits(value)),
        Unit::Count if value.fract() == 0.0 => thousands(value as i64),
        Unit::Count | Unit::Number | Unit::None => three_digits(value),
    }
}

/// A number without zeros at its end, as rules write percentages.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::{human_bytes, thousands};

    #[test]
    fn human_bytes_has_three_digits() {
        for (bytes, text) in
            [(0.0, "0 B"), (-512.0, "-512 B"), (27_787_264.0, "26.5 MiB"), (3e15, "2728 TiB")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in
            [(0, "0"), (999, "999"), (-1000, "-1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(thousands(number), text);
        }
    }
}
