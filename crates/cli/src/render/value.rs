//! Numbers with their units, as text for people.

use trace_advisor::trace_model::time::human;
use trace_advisor::trace_model::{Unit, Value};

/// The value of a metric.
pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", short(value * 100.0)),
        Unit::Ns => human(value),
        Unit::Bytes => bytes(value),
        Unit::GbPerS => format!("{} GB/s", short(value)),
        Unit::Count if value.fract() == 0.0 => thousands(value as i64),
        Unit::Count | Unit::Number | Unit::None => short(value),
    }
}

/// The value of a cell, with the unit that the suffix of its column's name gives.
pub(crate) fn cell(column: &str, cell: &Value) -> String {
    let unit = Unit::ALL.into_iter().find(|u| u.suffix().is_some_and(|s| column.ends_with(s)));
    match (cell.as_f64(), unit) {
        (Some(number), Some(unit)) => value(number, unit),
        (Some(number), None) if matches!(cell, Value::Float(_)) => short(number),
        _ => cell.to_string(),
    }
}

/// `1 step`, `2 steps`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    let number = thousands(count as i64);
    if count == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}

/// `12,345,678`.
pub(crate) fn thousands(value: i64) -> String {
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

fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1024.0 {
            return format!(
                "{} {unit}",
                if unit == "B" { format!("{value:.0}") } else { short(value) }
            );
        }
        value /= 1024.0;
    }
    format!("{} TiB", short(value))
}

/// Three significant digits, or all digits before the decimal point.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use trace_advisor::trace_model::{Unit, Value};

    use super::{cell, thousands, value};

    #[test]
    fn values_have_three_digits_and_a_unit() {
        assert_eq!(value(0.3312, Unit::Ratio), "33.1 %");
        assert_eq!(value(1.0, Unit::Ratio), "100 %");
        assert_eq!(value(0.0, Unit::Ratio), "0 %");
        assert_eq!(value(0.0042, Unit::Ratio), "0.42 %");
        assert_eq!(value(85_017_493_504.0, Unit::Bytes), "79.2 GiB");
        assert_eq!(value(512.0, Unit::Bytes), "512 B");
        assert_eq!(value(12_345.0, Unit::Count), "12,345");
        assert_eq!(value(4_200_000.0, Unit::Ns), "4.20 ms");
        assert_eq!(thousands(-1_234_567), "-1,234,567");
        assert_eq!(thousands(999), "999");
        assert_eq!(cell("idle_ns", &Value::Int(1_500)), "1.50 us");
        assert_eq!(cell("rank", &Value::Int(15_000)), "15000");
        assert_eq!(cell("name", &Value::Null), "-");
    }
}
