//! Steps of a program that marks none: repetitions of the same operators.

use trace_model::vocabulary::{AUTOGRAD_PREFIX, LOADER_PREFIX, MODULE_PREFIX};

use super::operator_sequence::{
    MIN_REPETITIONS, RecurringOperators, Repetition, Sequence, main_sequence, median_ns, named,
};
use super::passes::Evidence;
use crate::timeline::columns::Columns;

/// Shorter sequences do not count as passes.
const MIN_PASS_OPERATORS: usize = 2;
/// First repetitions that take longer than the median by this factor are warm-up.
const WARMUP_FACTOR: f64 = 1.5;

/// Recurring operators on the thread that calls most operators.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recurrence {
    /// Iterations of a loop, as backward passes, loaders, modules or annotations show.
    Iterations(Vec<Repetition>),
    /// Equal passes: no pass reads results of the one before, or the program pauses between passes.
    Passes(Vec<Repetition>),
    /// Equal passes or the equal layers of one pass.
    Unclear(RecurringOperators),
    /// Nothing recurs.
    Nothing,
}

/// Finds repetitions of the operators on the thread that calls most of them, without those at the beginning that are
/// warm-up.
pub(super) fn find(columns: &Columns) -> Recurrence {
    let Some((thread, sequence)) = main_sequence(columns) else { return Recurrence::Nothing };
    if let Some(pattern) = sequence.pattern() {
        let found = sequence.occurrences(&pattern, thread);
        if found.len() >= MIN_REPETITIONS && are_iterations(columns, thread, &sequence, &found) {
            return Recurrence::Iterations(without_warmup(found));
        }
    }
    let candidates = sequence.candidates(MIN_PASS_OPERATORS);
    if candidates.is_empty() {
        return Recurrence::Nothing;
    }
    let evidence = Evidence::new(columns, thread, &sequence);
    for candidate in &candidates {
        let Some(first) = evidence.first_operator(candidate) else { continue };
        let found = sequence.occurrences(&candidate.pattern(&sequence, first), thread);
        if found.len() >= MIN_REPETITIONS && !share_a_range(columns, thread, &found) {
            return Recurrence::Passes(without_warmup(found));
        }
    }
    let recurring = candidates.iter().find_map(|candidate| sequence.recurring(candidate, thread));
    recurring.map_or(Recurrence::Nothing, Recurrence::Unclear)
}

/// Leaves out the first repetitions if they take longer than the others.
fn without_warmup(mut found: Vec<Repetition>) -> Vec<Repetition> {
    let limit_ns = WARMUP_FACTOR * median_ns(&found) as f64;
    let warmup = found.iter().take_while(|r| (r.end_ns - r.ts_ns) as f64 > limit_ns).count();
    found.drain(..warmup.min(found.len() - MIN_REPETITIONS));
    found
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

/// Whether two repetitions lie in the same call of a module, or in the same `record_function`: these may be calls of a
/// model, and the repetitions its layers.
fn share_a_range(columns: &Columns, thread: i32, found: &[Repetition]) -> bool {
    let ranges = [outermost_modules(columns, thread), outermost_annotations(columns, thread)];
    ranges.into_iter().flatten().any(|(ts_ns, end_ns)| {
        let first = found.partition_point(|repetition| repetition.ts_ns < ts_ns);
        found.get(first + 1).is_some_and(|second| second.ts_ns < end_ns)
    })
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
