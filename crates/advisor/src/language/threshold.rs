//! Thresholds: `>= 15 %`, `< 100 us`, `< 2 GiB`, `outside 35..40 %`, `inside 50..85 %`, `never`.
//!
//! The language is closed on purpose: margins, overrides, documentation and priorities all need the
//! number and its unit. Anything richer belongs in an analysis.

use serde::{Deserialize, Serialize};
use trace_model::Unit;

/// A parsed threshold, in the unit of the metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// As written.
    pub text: String,
    /// `file:line` of the threshold.
    pub at: String,
    pub(crate) limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Limit {
    Compare(Op, f64),
    Outside(f64, f64),
    Inside(f64, f64),
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Threshold {
    /// The distance of `value` beyond the threshold, relative to it; `None` if the threshold is not met.
    pub fn margin(&self, value: f64) -> Option<f64> {
        self.limit.margin(value)
    }
}

impl Limit {
    fn margin(self, value: f64) -> Option<f64> {
        let beyond = |distance: f64, limit: f64| {
            if limit == 0.0 { distance } else { distance / limit.abs() }
        };
        match self {
            Self::Compare(op, limit) => {
                let (met, distance) = match op {
                    Op::Less => (value < limit, limit - value),
                    Op::LessEqual => (value <= limit, limit - value),
                    Op::Greater => (value > limit, value - limit),
                    Op::GreaterEqual => (value >= limit, value - limit),
                };
                met.then(|| beyond(distance, limit))
            }
            Self::Outside(low, _) if value < low => Some(beyond(low - value, low)),
            Self::Outside(_, high) if value > high => Some(beyond(value - high, high)),
            Self::Inside(low, high) => (low <= value && value <= high).then_some(0.0),
            Self::Outside(..) | Self::Never => None,
        }
    }

    /// Whether everything that meets `self` also meets the one-sided `weaker`: then `weaker`, when
    /// it stands for a lower severity, still has values left to decide.
    pub(crate) fn is_stricter_than(self, weaker: Self) -> bool {
        let (Self::Compare(a, x), Self::Compare(b, y)) = (self, weaker) else { return true };
        match (a, b) {
            (Op::Less | Op::LessEqual, Op::Less | Op::LessEqual) => x < y,
            (Op::Greater | Op::GreaterEqual, Op::Greater | Op::GreaterEqual) => x > y,
            _ => true,
        }
    }
}

/// A mistake in a threshold, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ThresholdError {
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Reads a threshold on a value of `unit`.
pub(crate) fn parse(text: &str, unit: Unit) -> Result<Limit, ThresholdError> {
    let trimmed = text.trim();
    if trimmed == "never" {
        return Ok(Limit::Never);
    }
    for (word, inside) in [("outside", false), ("inside", true)] {
        if let Some(rest) = trimmed.strip_prefix(word) {
            return parse_range(text, rest, inside, unit);
        }
    }
    let (op, rest) =
        [("<=", Op::LessEqual), (">=", Op::GreaterEqual), ("<", Op::Less), (">", Op::Greater)]
            .into_iter()
            .find_map(|(sign, op)| trimmed.strip_prefix(sign).map(|rest| (op, rest)))
            .ok_or_else(|| unreadable(text, unit))?;
    let (number, unit_text) = split_number(rest).ok_or_else(|| unreadable(text, unit))?;
    Ok(Limit::Compare(op, scaled(number, unit_text, unit)?))
}

fn parse_range(text: &str, rest: &str, inside: bool, unit: Unit) -> Result<Limit, ThresholdError> {
    let (low, high) = rest.split_once("..").ok_or_else(|| unreadable(text, unit))?;
    let (high, unit_text) = split_number(high).ok_or_else(|| unreadable(text, unit))?;
    let low: f64 = low.trim().parse().map_err(|_| unreadable(text, unit))?;
    if low >= high {
        return Err(ThresholdError {
            message: format!("the range `{}` is empty", rest.trim()),
            help: "write the smaller bound first: `outside 35..40 %`".to_owned(),
        });
    }
    let (low, high) = (scaled(low, unit_text, unit)?, scaled(high, unit_text, unit)?);
    Ok(if inside { Limit::Inside(low, high) } else { Limit::Outside(low, high) })
}

/// The number at the start and the trimmed rest.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')))
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

/// The units that a threshold on a metric of `unit` may be written in, with their factors.
fn spellings(unit: Unit) -> &'static [(&'static str, f64)] {
    match unit {
        Unit::Ns => &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)],
        Unit::Bytes => &[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
            ("TiB", 1_099_511_627_776.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("TB", 1e12),
        ],
        Unit::Ratio => &[("%", 1.0), ("", 1.0)],
        Unit::GbPerS => &[("GB/s", 1.0)],
        Unit::None | Unit::Count | Unit::Number => &[("", 1.0)],
    }
}

fn scaled(number: f64, unit_text: &str, unit: Unit) -> Result<f64, ThresholdError> {
    let Some(&(_, factor)) = spellings(unit).iter().find(|(name, _)| *name == unit_text) else {
        let kind = kind(unit);
        let message = if unit_text.is_empty() {
            format!("the threshold has no unit, but the metric is {kind}")
        } else {
            format!("the unit `{unit_text}` does not fit: the metric is {kind}")
        };
        return Err(ThresholdError { message, help: format!("for example `{}`", example(unit)) });
    };
    // 15 in place of 15 % is the most likely mistake: a share is at most 1.
    if unit == Unit::Ratio && unit_text.is_empty() && number > 1.0 {
        return Err(ThresholdError {
            message: format!("the metric is a share from 0 to 1, so {number} is never reached"),
            help: format!("did you mean `{number} %`?"),
        });
    }
    // 70 * 0.01 is not 0.7, and a value of exactly 70 % must not be below `70 %`.
    Ok(if unit_text == "%" { number / 100.0 } else { number * factor })
}

fn kind(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "a duration",
        Unit::Bytes => "an amount of memory",
        Unit::Ratio => "a share",
        Unit::Count => "a count",
        Unit::GbPerS => "a bandwidth",
        Unit::None | Unit::Number => "a plain number",
    }
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "> 100 us",
        Unit::Bytes => "< 2 GiB",
        Unit::Ratio => ">= 15 %",
        Unit::GbPerS => "< 20 GB/s",
        Unit::None | Unit::Count | Unit::Number => ">= 1024",
    }
}

fn unreadable(text: &str, unit: Unit) -> ThresholdError {
    ThresholdError {
        message: format!("`{text}` is not a threshold"),
        help: format!(
            "write a comparison (<, <=, >, >=) and a number: `{}`; a range: `outside 35..40 %`; or `never`",
            example(unit)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Op, parse};
    use trace_model::Unit;

    #[test]
    fn parse_converts_to_the_unit_of_the_metric() {
        assert_eq!(parse(">= 15 %", Unit::Ratio), Ok(Limit::Compare(Op::GreaterEqual, 0.15)));
        assert_eq!(parse("> 0.15", Unit::Ratio), Ok(Limit::Compare(Op::Greater, 0.15)));
        assert_eq!(parse("<100us", Unit::Ns), Ok(Limit::Compare(Op::Less, 100_000.0)));
        assert_eq!(
            parse("<= 2 GiB", Unit::Bytes),
            Ok(Limit::Compare(Op::LessEqual, 2_147_483_648.0))
        );
        assert_eq!(parse(">= 1_024", Unit::Count), Ok(Limit::Compare(Op::GreaterEqual, 1024.0)));
        assert_eq!(parse("outside 25..50 %", Unit::Ratio), Ok(Limit::Outside(0.25, 0.5)));
        assert_eq!(parse("inside 1..2 ms", Unit::Ns), Ok(Limit::Inside(1e6, 2e6)));
        assert_eq!(parse("never", Unit::Ns), Ok(Limit::Never));
    }

    #[test]
    fn parse_errors_suggest_a_fix() {
        for (text, unit, help) in [
            ("> 15", Unit::Ratio, "did you mean `15 %`?"),
            ("> 15 %", Unit::Ns, "for example `> 100 us`"),
            ("> 15", Unit::Bytes, "for example `< 2 GiB`"),
            ("outside 40..35 %", Unit::Ratio, "write the smaller bound first: `outside 35..40 %`"),
        ] {
            assert_eq!(parse(text, unit).expect_err(text).help, help, "{text}");
        }
        for text in ["15 %", "", "> much", "=> 3", "outside 35 %", "> 1e400"] {
            assert!(parse(text, Unit::Ratio).is_err(), "{text}");
        }
    }

    #[test]
    fn margin_is_relative_to_the_limit() {
        let below = parse("< 50 %", Unit::Ratio).unwrap();
        assert_eq!(below.margin(0.25), Some(0.5));
        assert_eq!(below.margin(0.5), None);
        for percent in 1..=100 {
            let text = format!("< {percent} %");
            let value: f64 = format!("{percent}e-2").parse().unwrap();
            assert_eq!(parse(&text, Unit::Ratio).unwrap().margin(value), None, "{text}");
        }
        let at_most = parse(">= 10", Unit::Count).unwrap();
        assert_eq!(at_most.margin(10.0), Some(0.0));
        assert_eq!(at_most.margin(9.0), None);
        let band = parse("outside 25..50 %", Unit::Ratio).unwrap();
        assert_eq!(band.margin(0.3), None);
        assert_eq!(band.margin(0.0), Some(1.0));
        assert_eq!(band.margin(1.0), Some(1.0));
        assert_eq!(parse("> 0", Unit::Count).unwrap().margin(3.0), Some(3.0));
        assert_eq!(Limit::Never.margin(f64::MAX), None);
    }

    #[test]
    fn is_stricter_than_compares_limits() {
        let (high, medium) = (Limit::Compare(Op::Greater, 0.1), Limit::Compare(Op::Greater, 0.2));
        assert!(!high.is_stricter_than(medium));
        assert!(medium.is_stricter_than(high));
    }
}
