//! Which name of one run is which of the other.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::level::Level;
use crate::names::keys;

/// How a name found its partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// The names are the same.
    Exact,
    /// The names are the same, but one run records an operator where the other has an annotation.
    OtherLevel,
    /// The names differ in what changes with version, vendor or installation, and no other name of the
    /// level comes as close: a guess, and marked as one.
    Normalised,
    /// It has none: only one run has it.
    Alone,
}

/// A level and a name.
pub(super) type Key = (Level, String);

/// A name of the run before and its partner in the run after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    pub(super) before: Option<&'a Key>,
    pub(super) after: Option<&'a Key>,
    pub(super) matched: Matched,
}

/// Finds the partner of each name: the same name, then the same name at another level of the host,
/// then keys that only one name on either side has, from fine to coarse. Each name has at most one
/// partner; cost grows with the number of names.
pub(super) fn pairs<'a>(before: Vec<&'a Key>, after: Vec<&'a Key>) -> Vec<Pair<'a>> {
    let mut matcher = Matcher { pairs: Vec::new(), before, after };
    matcher.stage(Matched::Exact, |key| Some((Some(key.0), key.1.clone())));
    matcher.stage(Matched::OtherLevel, |key| {
        let may_move = matches!(key.0, Level::Operator | Level::Annotation | Level::Span);
        may_move.then(|| (None, key.1.clone()))
    });
    for depth in 0..3 {
        matcher.stage(Matched::Normalised, |key| {
            let key_of_stage = keys(key.0, &key.1).into_iter().nth(depth)?;
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
    /// Names without a partner so far.
    before: Vec<&'a Key>,
    after: Vec<&'a Key>,
}

/// The one name that has a key; or nothing, where several have it.
#[derive(Default)]
enum Only<T> {
    #[default]
    Nobody,
    One(T),
    Several,
}

impl<T> Only<T> {
    fn add(&mut self, item: T) {
        *self = if matches!(self, Self::Nobody) { Self::One(item) } else { Self::Several };
    }
}

/// What names are looked up by at one stage: a level, where it must be the same, and a text.
type StageKey = (Option<Level>, String);

/// Who has a key, before and after, by position.
type Holders = (Only<usize>, Only<usize>);

impl<'a> Matcher<'a> {
    /// Pairs names whose key at this stage nobody else has.
    fn stage(&mut self, matched: Matched, key_of: impl Fn(&'a Key) -> Option<StageKey>) {
        if self.before.is_empty() || self.after.is_empty() {
            return;
        }
        let mut found: BTreeMap<StageKey, Holders> = BTreeMap::new();
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
        for only in found.into_values() {
            if let (Only::One(b), Only::One(a)) = only {
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
    fn the_same_name_comes_first() {
        // Swapped: each would match the other by its normalised name.
        assert_eq!(
            matched(
                &[(Runtime, "cudaLaunchKernel"), (Runtime, "cuLaunchKernel")],
                &[(Runtime, "cuLaunchKernel"), (Runtime, "cudaLaunchKernel")],
            ),
            ["Exact cuLaunchKernel cuLaunchKernel", "Exact cudaLaunchKernel cudaLaunchKernel"]
        );
    }

    #[test]
    fn what_is_ambiguous_is_left_alone() {
        assert_eq!(
            matched(&[(Kernel, "f<1>"), (Kernel, "f<2>")], &[(Kernel, "f<3>")]),
            ["Alone - f<3>", "Alone f<1> -", "Alone f<2> -"]
        );
        // After the fine stage has taken one, the coarse one is unambiguous.
        assert_eq!(
            matched(
                &[(Kernel, "a::f<g<float>, 4>"), (Kernel, "f<h<float>, 4>")],
                &[(Kernel, "b::f<g<float>, 8>"), (Kernel, "c::f<h<float>, 4>")],
            ),
            [
                "Normalised a::f<g<float>, 4> b::f<g<float>, 8>",
                "Normalised f<h<float>, 4> c::f<h<float>, 4>"
            ]
        );
    }

    #[test]
    fn levels_are_kept_apart_but_for_operators_that_became_annotations() {
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
    fn every_name_appears_exactly_once() {
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
