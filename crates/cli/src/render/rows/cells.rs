//! The texts of a column's cells, with units for people.
//!
//! All numbers of a column have one unit and as many decimals, so that they can be compared by their length, as long as
//! the smallest of them keeps two digits. In other columns each number has the unit that suits it.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use trace_advisor::arrow;
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::time::{NS_PER_MS, NS_PER_S, NS_PER_US};

use crate::render::sanitize::sanitize;
use crate::render::value::{thousands, value};

const NULL: &str = "-";

/// A column as text.
#[derive(Debug)]
pub(super) struct TextColumn {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
    /// Characters of the name or the longest cell, whichever is longer.
    pub(super) width: usize,
    pub(super) is_number: bool,
    /// Whether no row has a value: all are null or, of a quantity, zero.
    pub(super) is_empty: bool,
}

impl TextColumn {
    /// The first `shown` cells of a column.
    pub(super) fn new(
        name: &str,
        unit: Unit,
        array: &ArrayRef,
        shown: usize,
    ) -> anyhow::Result<Self> {
        let first = array.slice(0, shown);
        let has_none = array.null_count() == array.len();
        let (cells, is_empty) = match Kind::of(name, unit, array.data_type()) {
            Kind::Text => (texts(&first)?, has_none),
            Kind::Time => (times(&first)?, has_none),
            Kind::Quantity(unit) => {
                let numbers = cast(array, &DataType::Float64)?;
                let numbers: Vec<_> = numbers.as_primitive::<Float64Type>().iter().collect();
                let is_empty = numbers.iter().flatten().all(|&number| number == 0.0);
                (quantities(&numbers[..shown], unit), is_empty)
            }
        };
        let is_number = array.data_type().is_numeric();
        let name = sanitize(name).into_owned();
        let widths = cells.iter().chain([&name]).map(|text| text.chars().count());
        let width = widths.max().unwrap_or(0);
        Ok(Self { name, cells, width, is_number, is_empty })
    }
}

/// How the cells of a column are written.
enum Kind {
    /// As they are: names, identifiers, flags.
    Text,
    /// A moment of the recording.
    Time,
    /// A number with a unit or a fraction.
    Quantity(Unit),
}

impl Kind {
    fn of(column: &str, unit: Unit, data_type: &DataType) -> Self {
        if !data_type.is_numeric() {
            return Self::Text;
        }
        match unit {
            Unit::Ns if is_time(column) => Self::Time,
            Unit::None | Unit::Number if data_type.is_integer() => Self::Text,
            Unit::None => Self::Quantity(Unit::Number),
            unit => Self::Quantity(unit),
        }
    }
}

/// Whether a column in nanoseconds holds moments, not durations.
fn is_time(column: &str) -> bool {
    // Idle time at the end of a recording, and sums up to the end of a collective.
    let is_duration = column == "recording_end_ns" || column.ends_with("_until_end_ns");
    let is_moment = ["_ts_ns", "_end_ns", "_arrival_ns"].iter().any(|name| column.ends_with(name));
    (is_moment && !is_duration) || ["ts_ns", "start_ns", "end_ns", "arrival_ns"].contains(&column)
}

fn texts(array: &ArrayRef) -> anyhow::Result<Vec<String>> {
    let options = FormatOptions::default().with_null(NULL);
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
    let text = |row| Ok(one_line(&formatter.value(row).try_to_string()?));
    (0..array.len()).map(text).collect()
}

/// Line breaks, as in JSON that was written over several lines, become spaces.
fn one_line(text: &str) -> String {
    if text.contains(['\n', '\r', '\t']) {
        let words: Vec<&str> = text.split_whitespace().collect();
        return sanitize(&words.join(" ")).into_owned();
    }
    sanitize(text).into_owned()
}

/// Milliseconds with three decimals, as `--between` takes them: `762.058 ms`.
fn times(array: &ArrayRef) -> anyhow::Result<Vec<String>> {
    let times = cast(array, &DataType::Int64)?;
    let text = |ns: Option<i64>| {
        ns.map_or_else(|| NULL.to_owned(), |ns| format!("{:.3} ms", ns as f64 / NS_PER_MS as f64))
    };
    Ok(times.as_primitive::<Int64Type>().iter().map(text).collect())
}

fn quantities(numbers: &[Option<f64>], unit: Unit) -> Vec<String> {
    let scale = Scale::of(numbers, unit);
    let text = |number: f64| match (&scale, unit) {
        _ if number == 0.0 => "0".to_owned(),
        (Some(scale), _) => scale.text(number),
        (None, Unit::Number) => significant(number),
        (None, Unit::Ratio) if number.abs() < 5e-5 => "<0.01 %".to_owned(),
        (None, _) => value(number, unit),
    };
    numbers.iter().map(|number| number.map_or_else(|| NULL.to_owned(), text)).collect()
}

/// Three digits, as a power of ten where that is shorter.
fn significant(number: f64) -> String {
    match number.abs() {
        magnitude if !(1e-2..1e6).contains(&magnitude) => format!("{number:.2e}"),
        _ => value(number, Unit::Number),
    }
}

/// One unit and number of decimals for all numbers of a column.
struct Scale {
    divisor: f64,
    unit: &'static str,
    decimals: usize,
}

impl Scale {
    /// The scale in which every number that is not 0 keeps two digits, if there is one.
    fn of(numbers: &[Option<f64>], unit: Unit) -> Option<Self> {
        let magnitudes = || numbers.iter().flatten().map(|v| v.abs()).filter(|&v| v > 0.0);
        let most = magnitudes().reduce(f64::max)?;
        let least = magnitudes().reduce(f64::min)?;
        let &(divisor, name) = steps(unit)
            .iter()
            .rev()
            .find(|(divisor, _)| most >= *divisor)
            .or(steps(unit).first())?;
        let is_whole = unit != Unit::Ratio && numbers.iter().flatten().all(|v| v.fract() == 0.0);
        let decimals = match least / divisor {
            _ if divisor <= 1.0 && is_whole => 0,
            least if least >= 99.5 => 0,
            least if least >= 9.95 || (unit == Unit::Ratio && least >= 0.0995) => 1,
            least if least >= 0.0995 || (unit == Unit::Ratio && least >= 0.00995) => 2,
            least if least >= 0.00995 => 3,
            _ => return None,
        };
        // Numbers without a unit of their own stay short.
        (most / divisor < 1e9 || is_whole && unit == Unit::Count).then_some(Self {
            divisor,
            unit: name,
            decimals,
        })
    }

    fn text(&self, number: f64) -> String {
        let scaled = number / self.divisor;
        let digits = if self.decimals == 0 && scaled.abs() < 1e18 {
            thousands(scaled.round() as i64)
        } else {
            format!("{scaled:.*}", self.decimals)
        };
        if self.unit.is_empty() { digits } else { format!("{digits} {}", self.unit) }
    }
}

/// The divisors and names of a unit, smallest first.
fn steps(unit: Unit) -> &'static [(f64, &'static str)] {
    const KIB: f64 = 1024.0;
    match unit {
        Unit::Ns => &[
            (1.0, "ns"),
            (NS_PER_US as f64, "us"),
            (NS_PER_MS as f64, "ms"),
            (NS_PER_S as f64, "s"),
        ],
        Unit::Bytes => &[
            (1.0, "B"),
            (KIB, "KiB"),
            (KIB * KIB, "MiB"),
            (KIB * KIB * KIB, "GiB"),
            (KIB * KIB * KIB * KIB, "TiB"),
        ],
        Unit::Ratio => &[(0.01, "%")],
        Unit::GbPerS => &[(1.0, "GB/s")],
        Unit::Count | Unit::Number | Unit::None => &[(1.0, "")],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trace_advisor::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use trace_advisor::trace_model::Unit;

    use super::{TextColumn, is_time};

    fn ints(name: &str, values: &[Option<i64>]) -> Vec<String> {
        let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        TextColumn::new(name, Unit::of_undeclared(name), &array, array.len()).unwrap().cells
    }

    fn floats(name: &str, values: &[f64]) -> Vec<String> {
        let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        TextColumn::new(name, Unit::of_undeclared(name), &array, array.len()).unwrap().cells
    }

    #[test]
    fn a_column_has_one_unit_if_its_smallest_number_keeps_two_digits() {
        let close = [Some(45_531_000), Some(830_400), Some(0), None];
        assert_eq!(ints("sum_ns", &close), ["45.53 ms", "0.83 ms", "0", "-"]);
        assert_eq!(ints("sum_ns", &[Some(1_500), Some(999)]), ["1.50 us", "1.00 us"]);
        assert_eq!(ints("dur_ns", &[Some(12), Some(999)]), ["12 ns", "999 ns"]);
        assert_eq!(ints("sum_ns", &[Some(2_000_000_000), Some(1_400)]), ["2.00 s", "1.40 us"]);
        assert_eq!(ints("peak_bytes", &[Some(3 << 30), Some(1 << 29)]), ["3.00 GiB", "0.50 GiB"]);
        assert_eq!(ints("peak_bytes", &[Some(3 << 30), Some(512)]), ["3.0 GiB", "512 B"]);
    }

    #[test]
    fn shares_are_percentages_and_counts_have_separators() {
        assert_eq!(floats("idle_ratio", &[0.352_161_6, 0.01]), ["35.2 %", "1.0 %"]);
        assert_eq!(floats("ratio", &[1.0, 0.000_31]), ["100.00 %", "0.03 %"]);
        assert_eq!(floats("ratio", &[1.0, 0.000_001]), ["100 %", "<0.01 %"]);
        assert_eq!(ints("call_count", &[Some(12_345), Some(7)]), ["12,345", "7"]);
        assert_eq!(ints("count(*)", &[Some(12_345)]), ["12,345"]);
        assert_eq!(ints("sum(kernels.dur_ns)", &[Some(12_345)]), ["12.3 us"]);
    }

    #[test]
    fn numbers_without_a_unit_keep_sensible_digits_and_identifiers_all() {
        assert_eq!(floats("imbalance", &[1.234_567, 10.0]), ["1.23", "10.00"]);
        assert_eq!(floats("flops", &[1.5e12, 2.0]), ["1.50e12", "2.0"]);
        assert_eq!(ints("event_id", &[Some(1_234_567)]), ["1234567"]);
        assert_eq!(ints("rank", &[Some(15_000)]), ["15000"]);
    }

    #[test]
    fn times_keep_microseconds() {
        assert_eq!(ints("ts_ns", &[Some(762_058_512), Some(0)]), ["762.059 ms", "0.000 ms"]);
        assert!(is_time("host_end_ns") && is_time("ts_ns") && is_time("start_ns"));
        assert!(!is_time("recording_end_ns") && !is_time("device_until_start_ns"));
    }

    #[test]
    fn a_column_without_values_is_empty_unless_it_names_something() {
        let column = |name: &str, values: &[Option<i64>]| {
            let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            TextColumn::new(name, Unit::of_undeclared(name), &array, array.len()).unwrap().is_empty
        };
        assert!(column("sync_ns", &[Some(0), None]));
        assert!(column("stream", &[None, None]));
        assert!(!column("rank", &[Some(0), Some(0)]));
        assert!(!column("ts_ns", &[Some(0)]));
    }

    #[test]
    fn json_over_several_lines_becomes_one_line() {
        let array: ArrayRef =
            Arc::new(StringArray::from(vec!["[\n    [\n  16,\n 3\n]]", "a\u{1b}[2J"]));
        let cells = TextColumn::new("input_dims", Unit::None, &array, 2).unwrap().cells;
        assert_eq!(cells, ["[ [ 16, 3 ]]", "a\\u{1b}[2J"]);
    }
}
