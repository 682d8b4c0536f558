//! Which rules judge and which findings count: `[policy]` of rule files, and the command line on top of it.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::grade::Severity;
use crate::rule::Rule;
use trace_model::suggest::nearest;

/// The selector of every rule.
pub(crate) const ALL: &str = "ALL";

/// What is selected, and what counts. `None`: not said here.
///
/// A selector is a code (`IN001`), the beginning of codes (`IN`), the name of a rule, a category, or `ALL`: the first
/// of these that it can be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// Only these rules judge; empty for all.
    pub select: Option<Vec<String>>,
    /// These do not, whatever is selected.
    pub ignore: Option<Vec<String>>,
    /// Findings whose gain is known and below this percent of step time are hidden.
    pub min_gain_pct: Option<f64>,
    /// Least severity that fails a check.
    pub fail_on: Option<FailOn>,
}

impl Policy {
    /// This policy, and that of `below` where this one says nothing.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        Self {
            select: self.select.clone().or_else(|| below.select.clone()),
            ignore: self.ignore.clone().or_else(|| below.ignore.clone()),
            min_gain_pct: self.min_gain_pct.or(below.min_gain_pct),
            fail_on: self.fail_on.or(below.fail_on),
        }
    }
}

/// From which severity on findings fail a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// All findings.
    Info,
    /// Low and worse.
    Low,
    /// Medium and worse.
    Medium,
    /// High and critical.
    High,
    /// Critical only.
    Critical,
    /// None.
    Never,
}

impl FailOn {
    /// The least severity that fails.
    pub fn severity(self) -> Option<Severity> {
        match self {
            Self::Info => Some(Severity::Info),
            Self::Low => Some(Severity::Low),
            Self::Medium => Some(Severity::Medium),
            Self::High => Some(Severity::High),
            Self::Critical => Some(Severity::Critical),
            Self::Never => None,
        }
    }
}

/// A selector that means no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSelector {
    /// As written.
    pub selector: String,
    /// What may have been meant.
    pub help: String,
}

impl fmt::Display for UnknownSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is neither a code, nor the beginning of one, nor a rule, nor a category",
            self.selector
        )
    }
}

/// What a selector may be, in the order in which that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    All,
    Code,
    Prefix,
    Name,
    Category,
}

/// The codes of the rules that a selector means.
pub(crate) fn meant(selector: &str, rules: &[Rule]) -> Result<Vec<String>, UnknownSelector> {
    let is = |meaning: Meaning, rule: &Rule| match meaning {
        Meaning::All => selector == ALL,
        Meaning::Code => rule.code == selector,
        Meaning::Prefix => !selector.is_empty() && rule.code.starts_with(selector),
        Meaning::Name => rule.name == selector,
        Meaning::Category => rule.category == selector,
    };
    let order = [Meaning::All, Meaning::Code, Meaning::Prefix, Meaning::Name, Meaning::Category];
    let meaning = order.into_iter().find(|m| rules.iter().any(|r| is(*m, r)));
    let Some(meaning) = meaning else { return Err(unknown(selector, rules)) };
    Ok(rules.iter().filter(|r| is(meaning, r)).map(|r| r.code.clone()).collect())
}

fn unknown(selector: &str, rules: &[Rule]) -> UnknownSelector {
    let area = |rule: &Rule| rule.code.chars().take_while(char::is_ascii_uppercase).collect();
    let mut areas: Vec<String> = rules.iter().map(area).collect();
    areas.dedup();
    let mut categories: Vec<&str> = rules.iter().map(|r| r.category.as_str()).collect();
    categories.sort_unstable();
    categories.dedup();
    let words = rules.iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
    let words: Vec<&str> =
        words.chain(areas.iter().map(String::as_str)).chain(categories.iter().copied()).collect();
    // `in001` is as near to `IN001` as can be.
    let upper = selector.to_uppercase();
    let help = match words.iter().find(|w| ***w == upper).copied() {
        Some(word) => format!("did you mean `{word}`?"),
        None => nearest(selector, words.iter().copied()).map_or_else(
            || {
                format!(
                    "codes begin with {}; categories are {}",
                    areas.join(", "),
                    categories.join(", ")
                )
            },
            |word| format!("did you mean `{word}`?"),
        ),
    };
    UnknownSelector { selector: selector.to_owned(), help }
}

/// A percent, as `min_gain` and limits on the command line are written: `1 %`, `0.5%`.
pub(crate) fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    number.parse().ok().filter(|p: &f64| (0.0..=100.0).contains(p))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_percent_has_its_sign() {
        assert_eq!(percent("1 %"), Some(1.0));
        assert_eq!(percent(" 0.5% "), Some(0.5));
        for wrong in ["1", "%", "-1 %", "101 %", "NaN %", "inf %", "1 ms", ""] {
            assert_eq!(percent(wrong), None, "{wrong}");
        }
    }
}
