//! Tells equal passes of a program that marks none from the equal layers of one pass.
//!
//! In both cases, the same names of operators recur. A layer reads results of the layer before it; a pass reads an input of
//! its own, and the program often waits, reads the clock or prints between two passes.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;
use trace_model::vocabulary::AUTOGRAD_PREFIX;

use super::data_flow::{DataFlow, Operator};
use super::operator_sequence::{Candidate, Sequence, named};
use crate::timeline::columns::Columns;

/// Shorter sequences have to recur more often.
const MIN_OPERATORS: usize = 8;
const MIN_SHORT_REPETITIONS: usize = 5;
/// Share of the repetitions that a wait or a pause has to precede.
const MIN_REGULAR_RATIO: f64 = 0.75;
/// A pause is longer than every other time in no operator of the same repetition, by this factor. Calling the next layer
/// takes up to twice as long as calling the next operator, six times if that releases large tensors.
const MIN_PAUSE_FACTOR: f64 = 10.0;
/// Share of the operators that have to recur if nothing but a pause tells passes from layers.
const MIN_PAUSE_COVERED_RATIO: f64 = 0.9;

/// Operators that make an input.
const GENERATORS: [&str; 3] = ["aten::rand", "aten::randn", "aten::randint"];
/// Operators that use random numbers to add noise to results of a layer, or to drop a part of them.
const NOISE_CONSUMERS: [&str; 10] =
    ["add", "sub", "rsub", "mul", "div", "lt", "le", "gt", "ge", "floor"];
/// Operators that split an input into the time steps of a recurrent network.
const TIME_SPLITS: [&str; 4] = ["aten::unbind", "aten::split", "aten::chunk", "aten::tensor_split"];

/// The operators of one thread, and other facts that tell passes from layers.
pub(super) struct Evidence<'a> {
    columns: &'a Columns,
    sequence: &'a Sequence,
    /// Positions of operators before which the host waits for a device, outside of operators.
    waits: FxHashSet<usize>,
    /// Positions of operators before which the host launches kernels, outside of operators.
    launches: FxHashSet<usize>,
    has_backward: bool,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(columns: &'a Columns, thread: i32, sequence: &'a Sequence) -> Self {
        let t = &columns.runtime_calls;
        let kinds: FxHashMap<StrId, bool> = columns
            .strings
            .iter()
            .filter_map(|(name, text)| call_kind(text).map(|is_wait| (name, is_wait)))
            .collect();
        let (mut waits, mut launches) = (FxHashSet::default(), FxHashSet::default());
        for row in (0..t.len()).filter(|&row| t.thread.get(row) == thread) {
            let Some(&is_wait) = kinds.get(&t.name.get(row)) else { continue };
            if let Some(next) = sequence.next_after_gap(t.ts_ns.get(row)) {
                let positions = if is_wait { &mut waits } else { &mut launches };
                positions.insert(next);
            }
        }
        let backward = named(columns, AUTOGRAD_PREFIX);
        let has_backward = columns.cpu_ops.name.0.iter().any(|name| backward.contains(name));
        Self { columns, sequence, waits, launches, has_backward }
    }

    /// The operator of the candidate with which a pass begins, by its place in it; `None` if the repetitions may be
    /// layers.
    pub(super) fn first_operator(&self, candidate: &Candidate) -> Option<usize> {
        let length = candidate.length;
        let repetitions = candidate.stretches.len() + 1;
        let names = self.sequence.names_at(candidate.first, length);
        // An iteration of training has a backward pass; operators that recur between two backward passes are not iterations.
        let is_too_short = length < MIN_OPERATORS && repetitions < MIN_SHORT_REPETITIONS;
        let distinct: FxHashSet<StrId> = names.iter().copied().collect();
        if self.has_backward || is_too_short || distinct.len() < 2 {
            return None;
        }
        self.after_wait(candidate)
            .or_else(|| self.own_input(candidate))
            .or_else(|| self.generator(names))
            .or_else(|| self.loss(candidate, names))
            .or_else(|| self.pause(candidate))
    }

    /// The operator before which most repetitions wait for the device.
    fn after_wait(&self, candidate: &Candidate) -> Option<usize> {
        if self.waits.is_empty() {
            return None;
        }
        let count = |offset: usize| {
            candidate.stretches.iter().filter(|&&at| self.waits.contains(&(at + offset))).count()
        };
        let offset = (0..candidate.length)
            .max_by_key(|&offset| (count(offset), std::cmp::Reverse(offset)))?;
        let least = MIN_REGULAR_RATIO * candidate.stretches.len() as f64;
        (count(offset) as f64 >= least).then_some(offset)
    }

    /// The operator that reads a tensor of a shape that no operator of a repetition yields, if everything that the other
    /// operators read can come from it: then no repetition reads results of the one before.
    fn own_input(&self, candidate: &Candidate) -> Option<usize> {
        let operators = self.operators(candidate)?;
        // The time steps of a recurrent network have inputs of their own, too.
        let strings = &self.columns.strings;
        let is_outside = |at: usize| {
            at < candidate.first_position() || at >= candidate.last_position() + candidate.length
        };
        let splits = (0..self.sequence.len()).filter(|&at| is_outside(at)).any(|at| {
            let name = strings.get(self.sequence.names_at(at, 1)[0]);
            TIME_SPLITS.iter().any(|split| name.starts_with(split))
        });
        (!splits).then(|| DataFlow::new(&operators).first_operator())?
    }

    /// The operators of the candidate with the shapes that they read; `None` if shapes were not recorded, or differ
    /// between repetitions.
    fn operators(&self, candidate: &Candidate) -> Option<Vec<Operator<'_>>> {
        let dims = &self.columns.cpu_ops.input_dims;
        let dims_at = |at: usize| dims.get(self.sequence.row(at));
        let (first, length) = (candidate.first, candidate.length);
        let is_equal = |&&start: &&usize| {
            (0..length).all(|offset| dims_at(start + offset) == dims_at(first + offset))
        };
        let equal = candidate.stretches.iter().filter(is_equal).count();
        if (equal as f64) < MIN_REGULAR_RATIO * candidate.stretches.len() as f64 {
            return None;
        }
        let strings = &self.columns.strings;
        let operator = |offset: usize| {
            let name = strings.get(self.sequence.names_at(first + offset, 1)[0]);
            let dims = dims_at(first + offset);
            let dims = if dims.is_null() { "[]" } else { strings.get(dims) };
            Operator::parse(name, dims)
        };
        let operators: Vec<Operator<'_>> = (0..length).map(operator).collect();
        operators.iter().any(Operator::has_inputs).then_some(operators)
    }

    /// The one operator that makes an input of random numbers; `None` if the numbers are noise.
    fn generator(&self, names: &[StrId]) -> Option<usize> {
        let text = |at: usize| self.columns.strings.get(names[at % names.len()]);
        let mut generators = (0..names.len()).filter(|&at| GENERATORS.contains(&text(at)));
        let at = generators.next()?;
        let consumer = text(at + 1).trim_start_matches("aten::").trim_end_matches('_');
        (generators.next().is_none() && !NOISE_CONSUMERS.contains(&consumer)).then_some(at)
    }

    /// The operator after the longest pause, if a loss is computed once.
    fn loss(&self, candidate: &Candidate, names: &[StrId]) -> Option<usize> {
        let losses = names.iter().filter(|&&name| is_loss(self.columns.strings.get(name))).count();
        (losses == 1).then(|| self.sequence.longest_pause(candidate))
    }

    /// The operator before which the host pauses in most repetitions.
    fn pause(&self, candidate: &Candidate) -> Option<usize> {
        let sequence = self.sequence;
        let (length, repetitions) = (candidate.length, candidate.stretches.len() + 1);
        let covered =
            (repetitions * length) as f64 >= MIN_PAUSE_COVERED_RATIO * sequence.len() as f64;
        if repetitions < MIN_SHORT_REPETITIONS || !covered || !candidate.has_all_names {
            return None;
        }
        let offset = sequence.longest_pause(candidate);
        let starts = candidate.stretches.iter().map(|at| at + offset);
        let starts: Vec<usize> =
            starts.filter(|&at| at > 0 && at + length <= sequence.len()).collect();
        let is_pause = |&&at: &&usize| {
            let longest = (at + 1..at + length).map(|at| sequence.gap_ns(at)).max().unwrap_or(0);
            let pause_ns = sequence.gap_ns(at) as f64;
            !self.launches.contains(&at) && pause_ns >= MIN_PAUSE_FACTOR * longest.max(1) as f64
        };
        let pauses = starts.iter().filter(is_pause).count();
        let is_regular = pauses as f64 >= MIN_REGULAR_RATIO * starts.len() as f64;
        let is_chain = || {
            self.operators(candidate).is_some_and(|operators| {
                let last = &operators[(offset + length - 1) % length];
                last.feeds(&operators[offset])
            })
        };
        (is_regular && !starts.is_empty() && !is_chain()).then_some(offset)
    }
}

/// Whether a call of the runtime waits for a device (`true`) or launches kernels (`false`); `None` for other calls.
fn call_kind(name: &str) -> Option<bool> {
    if name.ends_with("Synchronize") {
        return Some(true);
    }
    let is_launch = name.contains("LaunchKernel") || name.contains("GraphLaunch");
    is_launch.then_some(false)
}

/// Whether an operator computes a loss.
fn is_loss(name: &str) -> bool {
    let name = name.strip_prefix("aten::").unwrap_or_default();
    name.ends_with("_loss")
        || name.starts_with("cross_entropy")
        || name.starts_with("binary_cross_entropy")
}
