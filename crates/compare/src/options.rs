//! Options of a comparison.

use std::fmt;
use std::str::FromStr;

use crate::level::Level;

/// The part of a run to compare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideOptions {
    /// Ranks; by default the ranks that both runs have, or all if they have none in common.
    pub ranks: Option<Vec<i32>>,
    /// Steps.
    pub steps: Steps,
}

/// Steps by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Steps {
    /// All of them.
    #[default]
    All,
    /// The step with the smallest number, of each rank.
    First,
    /// Inclusive ranges of step numbers; each range must contain a step of the run.
    Numbers(Vec<(i64, i64)>),
}

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOptions {
    /// Part of the run before.
    pub before: SideOptions,
    /// Part of the run after.
    pub after: SideOptions,
    /// Levels to return rows of; empty for all.
    pub levels: Vec<Level>,
    /// Compare kernels by name without template arguments, parameters and namespaces.
    pub short_names: bool,
    /// Times that differ by less than this share are `unchanged`.
    pub tolerance: f64,
    /// Least relative change of the median step that counts, see [`super::Verdict`].
    pub least_change: f64,
    /// Order of the rows.
    pub sort: Sort,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            before: SideOptions::default(),
            after: SideOptions::default(),
            levels: Vec::new(),
            short_names: false,
            tolerance: 0.05,
            least_change: 0.05,
            sort: Sort::Impact,
        }
    }
}

/// Order of rows, largest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Effect on the step: on the host the part of the step, on the device the time.
    #[default]
    Impact,
    /// Absolute difference of time.
    Time,
    /// Absolute difference of calls.
    Count,
    /// By name, ascending.
    Name,
}

impl Steps {
    pub(super) fn contains(&self, step: i64) -> bool {
        match self {
            Self::All | Self::First => true,
            Self::Numbers(ranges) => ranges.iter().any(|&(from, to)| (from..=to).contains(&step)),
        }
    }
}

impl fmt::Display for Steps {
    /// As [`Steps::from_str`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::First => f.write_str("first"),
            Self::Numbers(ranges) => {
                for (i, (from, to)) in ranges.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    match *to {
                        i64::MAX => write!(f, "{comma}{from}..")?,
                        to if to == *from => write!(f, "{comma}{from}")?,
                        to => write!(f, "{comma}{from}-{to}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Steps {
    type Err = String;

    /// `all`, `first`, `7`, `5-8`, `5..`, `..8`, and lists of numbers and ranges: `3,5-8`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => return Ok(Self::All),
            "first" => return Ok(Self::First),
            _ => {}
        }
        let number = |text: &str| text.trim().parse::<i64>().ok().filter(|n| *n >= 0);
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let range = if let Some((from, to)) = part.split_once("..") {
                let from = if from.trim().is_empty() { Some(0) } else { number(from) };
                let to = if to.trim().is_empty() { Some(i64::MAX) } else { number(to) };
                from.zip(to)
            } else if let Some((from, to)) = part.split_once('-') {
                number(from).zip(number(to))
            } else {
                number(part).map(|n| (n, n))
            };
            match range {
                Some((from, to)) if from <= to => ranges.push((from, to)),
                _ => return Err(format!("`{part}` is neither a step nor a range of steps")),
            }
        }
        Ok(Self::Numbers(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn steps_parse_numbers_and_ranges() {
        assert_eq!("all".parse(), Ok(Steps::All));
        assert_eq!("first".parse(), Ok(Steps::First));
        assert_eq!("3,5-8".parse(), Ok(Steps::Numbers(vec![(3, 3), (5, 8)])));
        assert_eq!("5..".parse(), Ok(Steps::Numbers(vec![(5, i64::MAX)])));
        assert_eq!("..8".parse(), Ok(Steps::Numbers(vec![(0, 8)])));
        for wrong in ["", "x", "3,", "8-5", "-3", "1-2-3", "99999999999999999999"] {
            assert!(wrong.parse::<Steps>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn steps_print_as_they_parse() {
        for text in ["all", "first", "3", "3,5-8", "5.."] {
            assert_eq!(text.parse::<Steps>().unwrap().to_string(), text);
        }
    }
}
