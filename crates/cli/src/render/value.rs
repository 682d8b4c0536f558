//! Numbers with their units, as text for people.

use trace_advisor::trace_model::number::three_digits;
pub(crate) use trace_advisor::trace_model::number::{plural, thousands, value};
use trace_advisor::trace_model::{Unit, Value};

/// The value of a cell with its unit.
pub(crate) fn cell(cell: &Value, unit: Unit) -> String {
    match (cell.as_f64(), unit) {
        (Some(number), Unit::None | Unit::Number) if matches!(cell, Value::Float(_)) => {
            three_digits(number)
        }
        (_, Unit::None | Unit::Number) | (None, _) => cell.to_string(),
        (Some(number), unit) => value(number, unit),
    }
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
        assert_eq!(cell(&Value::Int(1_500), Unit::Ns), "1.50 us");
        assert_eq!(cell(&Value::Int(15_000), Unit::None), "15000");
        assert_eq!(cell(&Value::Null, Unit::None), "-");
    }
}
