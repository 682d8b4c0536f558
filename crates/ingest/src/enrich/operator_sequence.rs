//! The sequence of operators on the thread that calls most of them, and the parts of it that recur.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use trace_model::StrId;
use trace_model::vocabulary::AUTOGRAD_PREFIX;

use crate::timeline::columns::Columns;

/// Fewer repetitions than this do not count as steps.
pub(super) const MIN_REPETITIONS: usize = 3;
/// Shorter sequences are as likely the layers of one call: `linear`, `relu`, `linear`, ...
const MIN_OPERATORS: usize = 8;
/// Names that are tried as the one that occurs once per step.
const MAX_ANCHORS: usize = 16;
/// Share of the stretches between two occurrences of that name that have to be equal.
const MIN_EQUAL_RATIO: f64 = 0.75;
/// Share of all operators that have to be in such a stretch.
const MIN_COVERED_RATIO: f64 = 0.6;
/// Share of the names of operators that have to be in each: layers repeat within one call of a model, whose first and
/// last operators are others.
const MIN_NAMES_RATIO: f64 = 0.9;

/// A repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repetition {
    /// Number of the repetition, from 0; warm-up counts.
    pub(super) number: i64,
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) thread: i32,
}

/// Operators that recur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecurringOperators {
    /// Number of operators that are in no other.
    pub(crate) operators: usize,
    pub(crate) repetitions: usize,
    /// Median time from the start of one repetition to the start of the next.
    pub(crate) dur_ns: i64,
}

/// Operators on one thread that are in no other operator, by start.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    names: Vec<StrId>,
    pub(super) starts: Vec<i64>,
    ends: Vec<i64>,
    rows: Vec<usize>,
}

/// The median length of one or more repetitions.
pub(super) fn median_ns(found: &[Repetition]) -> i64 {
    let mut durations: Vec<i64> = found.iter().map(|r| r.end_ns - r.ts_ns).collect();
    durations.sort_unstable();
    durations[durations.len() / 2]
}

/// The outermost operators of the thread that has most of them, without operators of backward passes.
pub(super) fn main_sequence(columns: &Columns) -> Option<(i32, Sequence)> {
    let t = &columns.cpu_ops;
    let backward = named(columns, AUTOGRAD_PREFIX);
    let mut rows: Vec<usize> = (0..t.len()).collect();
    rows.sort_unstable_by_key(|&row| {
        (t.thread.get(row), t.ts_ns.get(row), std::cmp::Reverse(t.dur_ns.get(row)), row)
    });
    let mut best: Option<(usize, i32, Sequence)> = None;
    for rows in rows.chunk_by(|&a, &b| t.thread.get(a) == t.thread.get(b)) {
        let mut sequence = Sequence::default();
        let mut forward = 0;
        let mut until = i64::MIN;
        for &row in rows {
            let (ts_ns, end_ns) = (t.ts_ns.get(row), t.ts_ns.get(row) + t.dur_ns.get(row));
            if ts_ns < until {
                continue;
            }
            until = end_ns;
            let name = t.name.get(row);
            forward += usize::from(!backward.contains(&name));
            sequence.names.push(name);
            sequence.starts.push(ts_ns);
            sequence.ends.push(end_ns);
            sequence.rows.push(row);
        }
        if best.as_ref().is_none_or(|(most, ..)| forward > *most) {
            best = Some((forward, t.thread.get(rows[0]), sequence));
        }
    }
    best.map(|(_, thread, sequence)| (thread, sequence))
}

/// The operators of a step, from the one before which the host is busy with something else for longest.
#[derive(Debug)]
pub(super) struct Pattern {
    names: Vec<StrId>,
    /// Positions where it may begin.
    starts: Vec<usize>,
}

/// Operators between two occurrences of a name that recur, from an operator on that need not be the first of a step.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Position of the first operator.
    pub(super) first: usize,
    /// Number of operators.
    pub(super) length: usize,
    /// Positions where they recur. The last of them is followed by another repetition.
    pub(super) stretches: Vec<usize>,
    /// Positions of the name at which the sequence is cut.
    positions: Vec<usize>,
    /// Whether all operators of the thread have one of its names.
    pub(super) has_all_names: bool,
}

impl Candidate {
    /// Where it begins at the earliest.
    pub(super) fn first_position(&self) -> usize {
        self.positions[0].saturating_sub(self.length)
    }

    /// Where its last repetition begins.
    pub(super) fn last_position(&self) -> usize {
        self.positions[self.positions.len() - 1]
    }

    /// The operators from one of them on.
    pub(super) fn pattern(&self, sequence: &Sequence, first_operator: usize) -> Pattern {
        let mut names = sequence.names_at(self.first, self.length).to_vec();
        names.rotate_left(first_operator);
        let before = (self.positions[0] + first_operator).checked_sub(self.length);
        let starts = self.positions.iter().map(|at| at + first_operator);
        Pattern { names, starts: before.into_iter().chain(starts).collect() }
    }
}

impl Sequence {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The names of operators from a position on.
    pub(super) fn names_at(&self, first: usize, length: usize) -> &[StrId] {
        &self.names[first..first + length]
    }

    /// The row of an operator in its table.
    pub(super) fn row(&self, at: usize) -> usize {
        self.rows[at]
    }

    /// Time in no operator before the one at a position, which is not the first.
    pub(super) fn gap_ns(&self, at: usize) -> i64 {
        self.starts[at] - self.ends[at - 1]
    }

    /// The next operator after a moment in no operator; `None` within operators and after the last.
    pub(super) fn next_after_gap(&self, ts_ns: i64) -> Option<usize> {
        let next = self.starts.partition_point(|&start| start <= ts_ns);
        let is_inside = next.checked_sub(1).is_some_and(|before| ts_ns < self.ends[before]);
        (next < self.len() && !is_inside).then_some(next)
    }

    /// The operator of a candidate before which the median time in no operator is longest.
    pub(super) fn longest_pause(&self, candidate: &Candidate) -> usize {
        let pause_ns = |offset: usize| -> i64 {
            let at = candidate.stretches.iter().map(|at| at + offset);
            let mut gaps: Vec<i64> = at.filter(|&at| at > 0).map(|at| self.gap_ns(at)).collect();
            gaps.sort_unstable();
            gaps.get(gaps.len() / 2).copied().unwrap_or(0)
        };
        let longest = (0..candidate.length)
            .max_by_key(|&offset| (pause_ns(offset), std::cmp::Reverse(offset)));
        longest.unwrap_or(0)
    }

    /// The operators of a step.
    pub(super) fn pattern(&self) -> Option<Pattern> {
        let candidates = self.candidates(MIN_OPERATORS);
        let candidate = candidates.first()?;
        // Where it begins: after the longest time in no operator.
        let gap_ns = |offset: usize| -> i64 {
            let at = candidate.stretches.iter().map(|at| at + offset).filter(|&at| at > 0);
            at.map(|at| self.gap_ns(at)).sum()
        };
        let first = (0..candidate.length)
            .max_by_key(|&offset| (gap_ns(offset), std::cmp::Reverse(offset)))?;
        Some(candidate.pattern(self, first))
    }

    /// Sequences of operators that recur, the longest first.
    pub(super) fn candidates(&self, min_operators: usize) -> Vec<Candidate> {
        let mut positions: FxHashMap<StrId, Vec<usize>> = FxHashMap::default();
        for (at, &name) in self.names.iter().enumerate() {
            positions.entry(name).or_default().push(at);
        }
        let names = positions.len();
        let mut anchors: Vec<(usize, usize, Vec<usize>)> = positions
            .into_values()
            .filter(|at| at.len() >= MIN_REPETITIONS)
            .map(|at| (at.len(), at[0], at))
            .collect();
        // The rarest names first: they make the longest stretches.
        anchors.sort_unstable();
        let anchors = anchors.into_iter().take(MAX_ANCHORS);
        let found = anchors.filter_map(|(.., at)| self.candidate_at(at, names, min_operators));
        let mut lengths = FxHashSet::default();
        found.filter(|candidate| lengths.insert(candidate.length)).collect()
    }

    /// The operators between most pairs of neighboring positions, if they may form a step.
    fn candidate_at(
        &self,
        positions: Vec<usize>,
        names: usize,
        min_operators: usize,
    ) -> Option<Candidate> {
        let hash = |pair: &[usize]| {
            let mut hasher = FxHasher::default();
            self.names[pair[0]..pair[1]].hash(&mut hasher);
            hasher.finish()
        };
        let mut equal: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for (i, pair) in positions.windows(2).enumerate() {
            equal.entry(hash(pair)).or_default().push(i);
        }
        let stretches = equal.into_values().max_by_key(|i| (i.len(), std::cmp::Reverse(i[0])))?;
        let first = positions[stretches[0]];
        let length = positions[stretches[0] + 1] - first;
        let covered = stretches.len() * length;
        let own: FxHashSet<StrId> = self.names[first..first + length].iter().copied().collect();
        let is_step = stretches.len() + 1 >= MIN_REPETITIONS
            && length >= min_operators
            && stretches.len() as f64 >= MIN_EQUAL_RATIO * (positions.len() - 1) as f64
            && covered as f64 >= MIN_COVERED_RATIO * self.names.len() as f64
            && own.len() as f64 >= MIN_NAMES_RATIO * names as f64;
        let stretches = stretches.into_iter().map(|i| positions[i]).collect();
        let has_all_names = own.len() == names;
        is_step.then_some(Candidate { first, length, stretches, positions, has_all_names })
    }

    /// How often the operators of a candidate recur, and how long it takes; `None` if too few of its repetitions are
    /// complete, or it holds a single operator.
    pub(super) fn recurring(
        &self,
        candidate: &Candidate,
        thread: i32,
    ) -> Option<RecurringOperators> {
        let names = self.names_at(candidate.first, candidate.length);
        let found =
            self.occurrences(&candidate.pattern(self, self.longest_pause(candidate)), thread);
        let is_enough =
            found.len() >= MIN_REPETITIONS && names.iter().any(|&name| name != names[0]);
        is_enough.then(|| RecurringOperators {
            operators: names.len(),
            repetitions: found.len(),
            dur_ns: median_ns(&found),
        })
    }

    /// Where the pattern occurs. A repetition lasts until the next one begins, else to the end of its last operator.
    pub(super) fn occurrences(&self, pattern: &Pattern, thread: i32) -> Vec<Repetition> {
        let Pattern { names, starts } = pattern;
        let occurs = |&at: &usize| self.names.get(at..at + names.len()) == Some(names);
        let starts: Vec<usize> = starts.iter().copied().filter(occurs).collect();
        let repetition = |(i, &at): (usize, &usize)| {
            let next = at + names.len();
            let end_ns = if starts.get(i + 1) == Some(&next) {
                self.starts[next]
            } else {
                self.ends[next - 1]
            };
            Repetition { number: i as i64, ts_ns: self.starts[at], end_ns, thread }
        };
        starts.iter().enumerate().map(repetition).collect()
    }
}

/// The names that begin with `prefix`.
pub(super) fn named(columns: &Columns, prefix: &str) -> FxHashSet<StrId> {
    let names = columns.strings.iter();
    names.filter(|(_, text)| text.starts_with(prefix)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use trace_model::StrId;

    use super::{Repetition, Sequence};

    /// A sequence of operators of 10 ns, each after a gap of 1 ns, or of 5 ns before an `a`.
    fn sequence(text: &str) -> Sequence {
        let mut sequence = Sequence::default();
        let mut now = 0;
        for name in text.bytes() {
            now += if name == b'a' { 5 } else { 1 };
            sequence.names.push(StrId(u32::from(name)));
            sequence.starts.push(now);
            now += 10;
            sequence.ends.push(now);
        }
        sequence
    }

    fn pattern(text: &str) -> Option<String> {
        let pattern = sequence(text).pattern()?;
        Some(pattern.names.iter().map(|name| name.index() as u8 as char).collect())
    }

    #[test]
    fn repeated_operators_are_steps() {
        // The recording begins and ends within a step.
        let text = format!("defgh{}abcd", "abcdefgh".repeat(4));
        assert_eq!(pattern(&text).as_deref(), Some("abcdefgh"));
        let sequence = sequence(&text);
        let found = sequence.occurrences(&sequence.pattern().unwrap(), 7);
        assert_eq!(found.len(), 4);
        assert!(found.windows(2).all(|pair| pair[0].end_ns == pair[1].ts_ns));
        let last = Repetition { number: 3, ts_ns: 60 + 3 * 92, end_ns: 60 + 4 * 92 - 5, thread: 7 };
        assert_eq!(found[3], last);
    }

    #[test]
    fn an_operator_that_occurs_several_times_in_a_step_does_not_split_it() {
        let step = "abxcxdxexf";
        assert_eq!(pattern(&step.repeat(5)).as_deref(), Some(step));
    }

    #[test]
    fn layers_of_one_call_are_no_steps() {
        // Embedding and loss occur once; short cycles could be layers.
        assert_eq!(pattern(&format!("yz{}uvw", "abcdefgh".repeat(12))), None);
        assert_eq!(pattern(&"ab".repeat(40)), None);
    }

    #[test]
    fn what_does_not_recur_has_no_steps() {
        assert_eq!(pattern("abcdefgh"), None);
        assert_eq!(pattern("abcdefghabcdefgh"), None);
        assert_eq!(pattern("abcdefghacbedgfhaefghbcdabgfedch"), None);
    }
}
