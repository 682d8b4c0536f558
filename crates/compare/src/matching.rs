//! Matches the names of one run with those of the other.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::level::Level;
use crate::names::match_keys;

/// The way a name was matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// The names are the same.
    Exact,
    /// The names are the same, but one run records an operator where the other has an annotation.
    OtherLevel,
    /// The names differ only in parts that change with version, vendor or installation, and no other name of the level
    /// is as close. A guess, and marked as one.
    Normalized,
    /// Only one run has the name.
    Alone,
}

/// The level and the name of a row.
pub(super) type Key = (Level, String);

/// A name of the run before and the matching name of the run after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    pub(super) before: Option<&'a Key>,
    pub(super) after: Option<&'a Key>,
    pub(super) matched: Matched,
}

/// Matches names: the same name, then the same name at another level of the host, then keys that only one name on each
/// side has, from fine to coarse. Each name is matched at most once. The cost is linear in the number of names.
pub(super) fn pairs<'a>(before: Vec<&'a Key>, after: Vec<&'a Key>) -> Vec<Pair<'a>> {
    let mut matcher = Matcher { pairs: Vec::new(), before, after };
    matcher.stage(Matched::Exact, |key| Some((Some(key.0), key.1.clone())));
    matcher.stage(Matched::OtherLevel, |key| {
        let may_move = matches!(key.0, Level::Operator | Level::Annotation | Level::Span);
        may_move.then(|| (None, key.1.clone()))
    });
    for depth in 0..3 {
        matcher.stage(Matched::Normalized, |key| {
            let key_of_stage = match_keys(key.0, &key.1).into_iter().nth(depth)?;
            (!key_of_stage.is_empty()).then_some((Some(key.0), key_of_stage))
        });
    }
    let Matcher { mut pairs, before, after } = matcher;
    let alone = Matched::Alone;
    pairs.extend(before.into_iter().map(|k| Pair { before: Some(k), after: None, matched: alone }));
    pairs.extend(after.into_iter().map(|k| Pair { before: None, after: Some(k), matched: alone }));
    pairs
}

struct Matcher<'a> {
    pairs: Vec<Pair<'a>>,
    /// Names that are not matched yet.
    before: Vec<&'a Key>,
    after: Vec<&'a Key>,
}

/// The unmatched names of one side that have a key.
#[derive(Default)]
enum Unmatched<T> {
    #[default]
    None,
    One(T),
    Several,
}

impl<T> Unmatched<T> {
    fn add(&mut self, item: T) {
        *self = if matches!(self, Self::None) { Self::One(item) } else { Self::Several };
    }
}

/// The key of a name at one stage: the level, if it must be the same, and a text.
type StageKey = (Option<Level>, String);

/// The names that have a key, before and after, by position.
type KeyHolders = (Unmatched<usize>, Unmatched<usize>);

impl<'a> Matcher<'a> {
    /// Matches names whose key at this stage is unique on both sides.
    fn stage(&mut self, matched: Matched, key_of: impl Fn(&'a Key) -> Option<StageKey>) {
        if self.before.is_empty() || self.after.is_empty() {
            return;
        }
        let mut found: BTreeMap<StageKey, KeyHolders> = BTreeMap::new();
        for (at, key) in self.before.iter().enumerate() {
            if let Some(k) = key_of(key) {
                found.entry(k).or_default().0.add(at);
            }
        }
        for (at, key) in self.after.iter().enumerate() {
            if let Some(k) = key_of(key) {
                found.entry(k).or_default().1.add(at);
            }
        }
        let mut taken = (vec![false; self.before.len()], vec![false; self.after.len()]);
        for holders in found.into_values() {
            if let (Unmatched::One(b), Unmatched::One(a)) = holders {
                (taken.0[b], taken.1[a]) = (true, true);
                let (before, after) = (Some(self.before[b]), Some(self.after[a]));
                self.pairs.push(Pair { before, after, matched });
            }
        }
        retain(&mut self.before, &taken.0);
        retain(&mut self.after, &taken.1);
    }
}

fn retain<T>(items: &mut Vec<T>, taken: &[bool]) {
    let mut taken = taken.iter();
    items.retain(|_| taken.next() == Some(&false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(before: &[(Level, &str)], after: &[(Level, &str)]) -> Vec<String> {
        let keys = |list: &[(Level, &str)]| -> Vec<Key> {
            list.iter().map(|(level, name)| (*level, (*name).to_owned())).collect()
        };
        let (before, after) = (keys(before), keys(after));
        let mut lines: Vec<String> = pairs(before.iter().collect(), after.iter().collect())
            .into_iter()
            .map(|p| {
                let name = |k: Option<&Key>| k.map_or("-".to_owned(), |k| k.1.clone());
                format!("{:?} {} {}", p.matched, name(p.before), name(p.after))
            })
            .collect();
        lines.sort();
        lines
    }

    use Level::{Annotation, Kernel, Operator, Runtime};

    #[test]
    fn pairs_prefers_equal_names() {
        // In reverse order: each would match the other by its normalized name.
        assert_eq!(
            matched(
                &[(Runtime, "cudaLaunchKernel"), (Runtime, "cuLaunchKernel")],
                &[(Runtime, "cuLaunchKernel"), (Runtime, "cudaLaunchKernel")],
            ),
            ["Exact cuLaunchKernel cuLaunchKernel", "Exact cudaLaunchKernel cudaLaunchKernel"]
        );
    }

    #[test]
    fn pairs_leaves_ambiguous_names_unmatched() {
        assert_eq!(
            matched(&[(Kernel, "f<1>"), (Kernel, "f<2>")], &[(Kernel, "f<3>")]),
            ["Alone - f<3>", "Alone f<1> -", "Alone f<2> -"]
        );
        // After the fine stage has matched one name, the coarse key is unique.
        assert_eq!(
            matched(
                &[(Kernel, "a::f<g<float>, 4>"), (Kernel, "f<h<float>, 4>")],
                &[(Kernel, "b::f<g<float>, 8>"), (Kernel, "c::f<h<float>, 4>")],
            ),
            [
                "Normalized a::f<g<float>, 4> b::f<g<float>, 8>",
                "Normalized f<h<float>, 4> c::f<h<float>, 4>"
            ]
        );
    }

    #[test]
    fn pairs_crosses_levels_only_for_operators_that_became_annotations() {
        assert_eq!(
            matched(
                &[(Operator, "Optimizer.step#SGD.step"), (Runtime, "x")],
                &[(Annotation, "Optimizer.step#SGD.step"), (Kernel, "x")],
            ),
            [
                "Alone - x",
                "Alone x -",
                "OtherLevel Optimizer.step#SGD.step Optimizer.step#SGD.step"
            ]
        );
    }

    #[test]
    fn pairs_holds_every_name_exactly_once() {
        let names = ["f<1>", "f<2>", "f<1u>", "g", "g_1", "g_2", "", "("];
        let before: Vec<_> = names.iter().map(|n| (Kernel, *n)).collect();
        let after: Vec<_> = names.iter().rev().skip(2).map(|n| (Kernel, *n)).collect();
        let lines = matched(&before, &after);
        let count = |side: usize| {
            lines.iter().filter(|l| l.split(' ').nth(side).is_some_and(|n| n != "-")).count()
        };
        assert_eq!((count(1), count(2)), (before.len(), after.len()));
    }
}
