//! The policy selects rules and the findings that count: `[policy]` of rule files, overridden by the command line.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::language::rule::Rule;
use crate::language::severity::FailOn;
use trace_model::suggest::nearest;

/// The selector of every rule.
pub(crate) const ALL: &str = "ALL";

/// Selected rules, and the findings that count. `None`: not stated.
///
/// A selector is a code (`IN001`), a prefix of codes (`IN`), the name of a rule, a category, or `ALL`: the first
/// of these that matches a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Only these rules are evaluated; empty for all.
    pub select: Option<Vec<String>>,
    /// These are not evaluated, even if they are selected.
    pub ignore: Option<Vec<String>>,
    /// Evaluates all rules in preview. Otherwise only those that are selected by code or name are evaluated.
    pub preview: Option<bool>,
    /// Findings whose gain is known and below this percent of step time are hidden.
    pub min_gain_pct: Option<f64>,
    /// Lowest severity that fails a check.
    pub fail_on: Option<FailOn>,
}

impl Policy {
    /// This policy, completed by `fallback` where it states nothing.
    #[must_use]
    pub fn or(&self, fallback: &Self) -> Self {
        Self {
            select: self.select.clone().or_else(|| fallback.select.clone()),
            ignore: self.ignore.clone().or_else(|| fallback.ignore.clone()),
            preview: self.preview.or(fallback.preview),
            min_gain_pct: self.min_gain_pct.or(fallback.min_gain_pct),
            fail_on: self.fail_on.or(fallback.fail_on),
        }
    }
}

/// A selector that matches no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSelector {
    /// As written.
    pub selector: String,
    /// A suggestion.
    pub help: String,
}

impl fmt::Display for UnknownSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a code, a prefix of codes, a rule name or a category", self.selector)
    }
}

/// Kinds of selectors, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorKind {
    All,
    Code,
    Prefix,
    Name,
    Category,
}

/// The codes of the rules that a selector matches.
pub(crate) fn resolve_selector(
    selector: &str,
    rules: &[Rule],
) -> Result<Vec<String>, UnknownSelector> {
    let matches = |kind: SelectorKind, rule: &Rule| match kind {
        SelectorKind::All => selector == ALL,
        SelectorKind::Code => rule.code == selector,
        SelectorKind::Prefix => !selector.is_empty() && rule.code.starts_with(selector),
        SelectorKind::Name => rule.name == selector,
        SelectorKind::Category => rule.category == selector,
    };
    let order = [
        SelectorKind::All,
        SelectorKind::Code,
        SelectorKind::Prefix,
        SelectorKind::Name,
        SelectorKind::Category,
    ];
    let kind = order.into_iter().find(|k| rules.iter().any(|r| matches(*k, r)));
    let Some(kind) = kind else { return Err(unknown(selector, rules)) };
    Ok(rules.iter().filter(|r| matches(kind, r)).map(|r| r.code.clone()).collect())
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
    // `in001` is `IN001` in the wrong case.
    let upper = selector.to_uppercase();
    let help = match words.iter().find(|w| ***w == upper).copied() {
        Some(word) => format!("did you mean `{word}`?"),
        None => nearest(selector, words.iter().copied()).map_or_else(
            || {
                format!(
                    "code prefixes: {}; categories: {}",
                    areas.join(", "),
                    categories.join(", ")
                )
            },
            |word| format!("did you mean `{word}`?"),
        ),
    };
    UnknownSelector { selector: selector.to_owned(), help }
}

/// A percentage, as `min_gain` and limits on the command line are written: `1 %`, `0.5%`.
pub(crate) fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    number.parse().ok().filter(|p: &f64| (0.0..=100.0).contains(p))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn percent_requires_the_sign() {
        assert_eq!(percent("1 %"), Some(1.0));
        assert_eq!(percent(" 0.5% "), Some(0.5));
        for wrong in ["1", "%", "-1 %", "101 %", "NaN %", "inf %", "1 ms", ""] {
            assert_eq!(percent(wrong), None, "{wrong}");
        }
    }
}
