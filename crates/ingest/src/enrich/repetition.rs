//! Steps of a program that marks none: repetitions of the same operators.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use trace_model::StrId;
use trace_model::vocabulary::{AUTOGRAD_PREFIX, LOADER_PREFIX, MODULE_PREFIX};

use crate::timeline::columns::Columns;

/// Fewer repetitions than this are no steps.
const MIN_REPETITIONS: usize = 3;
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
/// First repetitions that take longer than the median by this factor are warm-up.
const WARMUP_FACTOR: f64 = 1.5;

/// A repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repetition {
    /// Its number, from 0; those that are warm-up count.
    pub(super) number: i64,
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) thread: i32,
}

/// Operators on one thread that are in no other operator, by start.
#[derive(Debug, Default)]
struct Sequence {
    names: Vec<StrId>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

/// Finds repetitions of the operators on the thread that calls most of them, without those at the beginning that are
/// warm-up; none if what repeats is not clearly a step.
pub(super) fn find(columns: &Columns) -> Vec<Repetition> {
    let Some((thread, sequence)) = main_sequence(columns) else { return Vec::new() };
    let Some(pattern) = sequence.pattern() else { return Vec::new() };
    let mut found = sequence.occurrences(&pattern, thread);
    if found.len() < MIN_REPETITIONS || !are_iterations(columns, thread, &sequence, &found) {
        return Vec::new();
    }
    let mut durations: Vec<i64> = found.iter().map(|r| r.end_ns - r.ts_ns).collect();
    durations.sort_unstable();
    let limit_ns = WARMUP_FACTOR * durations[durations.len() / 2] as f64;
    let warmup = found.iter().take_while(|r| (r.end_ns - r.ts_ns) as f64 > limit_ns).count();
    found.drain(..warmup.min(found.len() - MIN_REPETITIONS));
    found
}

/// The outermost operators of the thread that has most of them, those of backward passes apart.
fn main_sequence(columns: &Columns) -> Option<(i32, Sequence)> {
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
        }
        if best.as_ref().is_none_or(|(most, ..)| forward > *most) {
            best = Some((forward, t.thread.get(rows[0]), sequence));
        }
    }
    best.map(|(_, thread, sequence)| (thread, sequence))
}

/// The operators of a step, from the one before which the host is busy with something else for longest.
#[derive(Debug)]
struct Pattern {
    names: Vec<StrId>,
    /// Positions where it may begin.
    starts: Vec<usize>,
}

impl Sequence {
    /// The operators of a step.
    fn pattern(&self) -> Option<Pattern> {
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
        anchors.into_iter().take(MAX_ANCHORS).find_map(|(.., at)| self.pattern_at(&at, names))
    }

    /// The pattern between most pairs of neighboring positions, if it is that of a step.
    fn pattern_at(&self, positions: &[usize], names: usize) -> Option<Pattern> {
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
            && length >= MIN_OPERATORS
            && stretches.len() as f64 >= MIN_EQUAL_RATIO * (positions.len() - 1) as f64
            && covered as f64 >= MIN_COVERED_RATIO * self.names.len() as f64
            && own.len() as f64 >= MIN_NAMES_RATIO * names as f64;
        if !is_step {
            return None;
        }
        // Where it begins: after the longest time in no operator.
        let gap_ns = |offset: usize| -> i64 {
            let at = stretches.iter().map(|&i| positions[i] + offset).filter(|&at| at > 0);
            at.map(|at| self.starts[at] - self.ends[at - 1]).sum()
        };
        let offset =
            (0..length).max_by_key(|&offset| (gap_ns(offset), std::cmp::Reverse(offset)))?;
        let mut names = self.names[first..first + length].to_vec();
        names.rotate_left(offset);
        let before = (positions[0] + offset).checked_sub(length);
        let starts = before.into_iter().chain(positions.iter().map(|at| at + offset)).collect();
        Some(Pattern { names, starts })
    }

    /// Where the pattern occurs. A repetition lasts until the next one begins, else to the end of its last operator.
    fn occurrences(&self, pattern: &Pattern, thread: i32) -> Vec<Repetition> {
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

/// Whether the repetitions are iterations of a loop, not the layers of one call: each holds a part of a backward pass, a
/// call of a DataLoader, or the whole call of a module that no other module calls, or of a `record_function` that is in
/// no other.
fn are_iterations(
    columns: &Columns,
    thread: i32,
    sequence: &Sequence,
    found: &[Repetition],
) -> bool {
    let (ops, annotations) = (&columns.cpu_ops, &columns.annotations);
    let backward = named(columns, AUTOGRAD_PREFIX);
    let of_backward = (0..ops.len())
        .filter(|&row| backward.contains(&ops.name.get(row)))
        .map(|row| (ops.ts_ns.get(row), ops.ts_ns.get(row)));
    // A call comes ahead of the operators of its step: the last step may hold none.
    let loaders = named(columns, LOADER_PREFIX);
    let of_loaders = (0..annotations.len())
        .filter(|&row| loaders.contains(&annotations.name.get(row)))
        .map(|row| (annotations.ts_ns.get(row), annotations.ts_ns.get(row)));
    // A range begins before its first operator and ends after its last.
    let operators = |(ts_ns, end_ns): (i64, i64)| {
        let starts = &sequence.starts;
        let at = starts.partition_point(|&start| start < ts_ns);
        let end = starts.partition_point(|&start| start < end_ns);
        Some((*starts[at..end].first()?, *starts[at..end].last()?))
    };
    let of_modules = outermost_modules(columns, thread).into_iter().filter_map(operators);
    let of_annotations = outermost_annotations(columns, thread).into_iter().filter_map(operators);
    count_holding(found, of_backward) == found.len()
        || count_holding(found, of_loaders) + 1 >= found.len()
        || count_holding(found, of_modules) == found.len()
        || count_holding(found, of_annotations) == found.len()
}

/// The names that begin with `prefix`.
fn named(columns: &Columns, prefix: &str) -> FxHashSet<StrId> {
    let names = columns.strings.iter();
    names.filter(|(_, text)| text.starts_with(prefix)).map(|(name, _)| name).collect()
}

/// Start and end of the calls of modules on a thread that are in no other such call.
fn outermost_modules(columns: &Columns, thread: i32) -> Vec<(i64, i64)> {
    let t = &columns.python_frames;
    let modules = named(columns, MODULE_PREFIX);
    let calls = (0..t.len())
        .filter(|&row| t.thread.get(row) == thread && modules.contains(&t.name.get(row)))
        .map(|row| (t.ts_ns.get(row), t.ts_ns.get(row) + t.dur_ns.get(row)));
    outermost(calls.collect())
}

/// Start and end of the annotations on a thread that are in no other annotation.
fn outermost_annotations(columns: &Columns, thread: i32) -> Vec<(i64, i64)> {
    let t = &columns.annotations;
    let ranges = (0..t.len())
        .filter(|&row| t.thread.get(row) == thread && !t.on_device.get(row))
        .map(|row| (t.ts_ns.get(row), t.ts_ns.get(row) + t.dur_ns.get(row)));
    outermost(ranges.collect())
}

/// The ranges that are in no other.
fn outermost(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable_by_key(|&(ts_ns, end_ns)| (ts_ns, std::cmp::Reverse(end_ns)));
    let mut until = i64::MIN;
    ranges.retain(|&(_, end_ns)| {
        let is_outermost = end_ns > until;
        until = until.max(end_ns);
        is_outermost
    });
    ranges
}

/// Number of repetitions that hold one of these ranges as a whole.
fn count_holding(found: &[Repetition], ranges: impl Iterator<Item = (i64, i64)>) -> usize {
    let mut holds = vec![false; found.len()];
    for (ts_ns, end_ns) in ranges {
        let next = found.partition_point(|repetition| repetition.ts_ns <= ts_ns);
        if let Some(at) = next.checked_sub(1).filter(|&at| end_ns < found[at].end_ns) {
            holds[at] = true;
        }
    }
    holds.into_iter().filter(|&holds| holds).count()
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
