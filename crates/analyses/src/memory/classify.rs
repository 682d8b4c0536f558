//! Owners of allocations: from the phase in which they are made, how long they live, and their sizes.

use std::collections::BTreeMap;

/// What the program does while it allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    Loading,
    Building,
    Forward,
    Backward,
    Optimizer,
    #[default]
    Other,
}

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Owner {
    Parameter,
    OptimizerState,
    Gradient,
    Activation,
    /// Parameters in 16 bits, which autocast or the program casts in a forward pass.
    WeightCopy,
    Input,
    Temporary,
    Workspace,
    GraphPool,
    /// Held since before the recording.
    Older,
    Unknown,
}

impl Owner {
    pub(super) const ALL: [Self; 11] = [
        Self::Parameter,
        Self::OptimizerState,
        Self::Gradient,
        Self::Activation,
        Self::WeightCopy,
        Self::Input,
        Self::Temporary,
        Self::Workspace,
        Self::GraphPool,
        Self::Older,
        Self::Unknown,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::OptimizerState => "optimizer_state",
            Self::Gradient => "gradient",
            Self::Activation => "activation",
            Self::WeightCopy => "weight_copy",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Workspace => "workspace",
            Self::GraphPool => "graph_pool",
            Self::Older => "older",
            Self::Unknown => "unknown",
        }
    }

    /// The owner of a category that PyTorch recorded.
    pub(super) fn of_category(category: &str) -> Option<Self> {
        Some(match category {
            "parameter" => Self::Parameter,
            "optimizer_state" => Self::OptimizerState,
            "gradient" => Self::Gradient,
            "activation" => Self::Activation,
            "input" => Self::Input,
            "temporary" | "autograd_detail" => Self::Temporary,
            _ => return None,
        })
    }
}

/// What tells the owner. The least certain one comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// The snapshot says so.
    Recorded,
    /// The stack, or the operators and annotations around it.
    Context,
    /// When it was allocated and released.
    Lifetime,
    /// Sizes that equal those of others.
    Size,
    None,
}

impl Evidence {
    pub(super) fn confidence(self) -> &'static str {
        match self {
            Self::Recorded | Self::Context => "high",
            Self::Lifetime => "medium",
            Self::Size | Self::None => "low",
        }
    }
}

/// An allocation.
#[derive(Debug, Clone)]
pub(super) struct Allocation {
    /// Event of the allocation; -1 if it is older than the recording.
    pub(super) start: i64,
    /// Event of the release; [`i64::MAX`] if it was still held in the end.
    pub(super) end: i64,
    /// Negative if unknown.
    pub(super) address: i64,
    pub(super) bytes: i64,
    pub(super) phase: Phase,
    pub(super) is_workspace: bool,
    /// Whether the allocation is the result of a cast; `None` if nothing tells.
    pub(super) is_cast: Option<bool>,
    /// Python and native frames around the one that made it; 0 if unknown.
    pub(super) stack_depth: u16,
    /// Index of the line or module that allocated it.
    pub(super) place: u32,
    pub(super) owner: Owner,
    pub(super) evidence: Evidence,
    /// Forward and backward passes before it.
    pub(super) iteration: u32,
}

/// An allocation of no known owner, held all the time.
impl Default for Allocation {
    fn default() -> Self {
        Self {
            start: -1,
            end: i64::MAX,
            address: -1,
            bytes: 0,
            phase: Phase::Other,
            is_workspace: false,
            is_cast: None,
            stack_depth: 0,
            place: u32::MAX,
            owner: Owner::Unknown,
            evidence: Evidence::None,
            iteration: 0,
        }
    }
}

impl Allocation {
    pub(super) fn is_held_at(&self, position: i64) -> bool {
        self.start <= position && self.end > position
    }

    fn set(&mut self, owner: Owner, evidence: Evidence) {
        (self.owner, self.evidence) = (owner, evidence);
    }
}

/// The bytes of all of them.
pub(super) fn total_bytes<'a>(allocations: impl Iterator<Item = &'a Allocation>) -> i64 {
    allocations.fold(0, |sum, allocation| sum.saturating_add(allocation.bytes))
}

/// Requests that cuBLAS makes for its workspaces: PyTorch's default, and that for Hopper and later.
const WORKSPACE_BYTES: [i64; 3] = [8_519_680, 33_554_432, 33_562_624];
/// A result of the backward pass that is released after so few events is no gradient of a parameter.
const MAX_TEMPORARY_EVENTS: i64 = 4;
/// Without any backward pass, results of a forward pass that live longer are kept for one.
const MIN_KEPT_EVENTS: i64 = 16;
/// Optimizers keep at most so many values for a parameter.
const MAX_STATES: i64 = 3;
/// Without native frames, allocations count as copies of weights from this many sizes of parameters on, if each size has as
/// many copies as parameters.
const MIN_COPIED_SIZES: usize = 3;
/// Smaller parameters (biases, weights of norms) have sizes that other tensors have, too.
const MIN_COPIED_BYTES: i64 = 4096;
/// Share of the allocations that have to be equal one pass later.
const MIN_REPEATED_SHARE: f64 = 0.9;
/// Passes that are enough to tell repetition from chance.
pub(super) const MIN_PASSES: usize = 4;

/// Finds the owner of each allocation of a device. Allocations whose owner is known keep it.
pub(super) fn classify(allocations: &mut [Allocation]) {
    allocations.sort_by_key(|a| a.start);
    let passes = Passes::of(allocations);
    for allocation in allocations.iter_mut() {
        if allocation.start >= 0 {
            allocation.iteration = passes.iteration(allocation.start);
        }
        if allocation.owner == Owner::Unknown {
            by_context(allocation, &passes);
        }
    }
    older_by_size(allocations, &passes);
    weight_copies(allocations);
}

/// The forward and backward passes of a recording.
struct Passes {
    /// First event of each backward pass, and its last.
    backward: Vec<(i64, i64)>,
    /// First event of each forward pass that follows a backward pass, and of the first of all. Without backward passes and
    /// optimizers, of each pass that repeats the first; without forward passes, the first event after each backward pass.
    iterations: Vec<i64>,
}

impl Passes {
    fn of(allocations: &[Allocation]) -> Self {
        let mut passes = Self { backward: Vec::new(), iterations: Vec::new() };
        let mut last = Phase::Other;
        // Without modules, work outside of all phases lies between backward passes.
        let has_forward = allocations.iter().any(|a| a.phase == Phase::Forward);
        for allocation in allocations.iter().filter(|a| a.start >= 0) {
            match allocation.phase {
                Phase::Backward => match passes.backward.last_mut() {
                    Some((_, end)) if last == Phase::Backward => *end = allocation.start,
                    _ => passes.backward.push((allocation.start, allocation.start)),
                },
                Phase::Forward if last != Phase::Forward => {
                    passes.iterations.push(allocation.start);
                }
                _ => {}
            }
            let is_phase =
                matches!(allocation.phase, Phase::Forward | Phase::Backward | Phase::Optimizer);
            if is_phase || !has_forward {
                last = allocation.phase;
            }
        }
        let has_optimizer = allocations.iter().any(|a| a.phase == Phase::Optimizer);
        if passes.iterations.is_empty() {
            passes.iterations = between_backward_passes(allocations, &passes.backward);
        } else if passes.backward.is_empty() && !has_optimizer {
            passes.iterations = repeated_passes(allocations);
        }
        passes
    }

    fn iteration(&self, position: i64) -> u32 {
        self.iterations.partition_point(|&start| start <= position) as u32
    }

    /// Whether a backward pass begins between the two events.
    fn has_backward(&self, start: i64, end: i64) -> bool {
        let next = self.backward.partition_point(|&(first, _)| first <= start);
        self.backward.get(next).is_some_and(|&(first, _)| first < end)
    }

    /// Whether a backward pass that begins after the allocation releases it: only its graph held it then.
    fn is_released_by_backward(&self, start: i64, end: i64) -> bool {
        let next = self.backward.partition_point(|&(first, _)| first <= start);
        self.backward[next..].iter().any(|&(first, last)| first < end && end <= last)
    }

    /// The last event of the backward pass around an event.
    fn backward_end(&self, position: i64) -> Option<i64> {
        let next = self.backward.partition_point(|&(first, _)| first <= position);
        self.backward.get(next.checked_sub(1)?).map(|&(_, end)| end)
    }
}

/// The first event of the recording, and that after each backward pass but the last.
fn between_backward_passes(allocations: &[Allocation], backward: &[(i64, i64)]) -> Vec<i64> {
    let recorded = || allocations.iter().map(|a| a.start).filter(|&start| start >= 0);
    let Some((_, earlier)) = backward.split_last() else { return Vec::new() };
    let after = |&(_, last): &(i64, i64)| recorded().find(|&start| start > last);
    recorded().next().into_iter().chain(earlier.iter().filter_map(after)).collect()
}

/// The first event of each forward pass of a program that runs forward passes only.
///
/// A pass begins where modules run again after other work, at the place where the first one did. Where passes follow each
/// other without other work, one begins after each result that is kept, if the same allocations recur between all of them,
/// and if the place that made these results makes others of the same size that are released: layers of one pass that keep
/// their results keep all of them.
fn repeated_passes(allocations: &[Allocation]) -> Vec<i64> {
    let mut last = Phase::Other;
    let mut starts: Vec<&Allocation> = Vec::new();
    for allocation in allocations.iter().filter(|a| a.start >= 0) {
        if allocation.phase == Phase::Forward && last != Phase::Forward {
            starts.push(allocation);
        }
        last = allocation.phase;
    }
    let Some(&first) = starts.first() else { return Vec::new() };
    starts.retain(|a| (a.place, a.stack_depth) == (first.place, first.stack_depth));
    if starts.len() >= MIN_PASSES {
        return starts.into_iter().map(|a| a.start).collect();
    }
    let forward: Vec<&Allocation> =
        allocations.iter().filter(|a| a.start >= 0 && a.phase == Phase::Forward).collect();
    let symbol = |a: &Allocation| (a.place, a.stack_depth, a.bytes);
    let mut kept: BTreeMap<(u32, u16, i64), Vec<usize>> = BTreeMap::new();
    for (at, allocation) in forward.iter().enumerate().filter(|(_, a)| a.end == i64::MAX) {
        kept.entry(symbol(allocation)).or_default().push(at);
    }
    let period = |(&of, at): (&(u32, u16, i64), &Vec<usize>)| {
        let (&begin, &end) = at.first().zip(at.last())?;
        let period = at.windows(2).map(|pair| pair[1] - pair[0]).min()?;
        let is_regular = at.windows(2).all(|pair| pair[1] - pair[0] == period);
        let pairs = forward[..=end].iter().zip(forward[..=end].iter().skip(period));
        let equal = pairs.clone().filter(|(a, b)| symbol(a) == symbol(b)).count();
        let is_repeated = equal as f64 >= MIN_REPEATED_SHARE * pairs.count() as f64;
        let releases_others = forward[..end].iter().any(|a| a.end != i64::MAX && symbol(a) == of);
        let is_pass = at.len() >= MIN_PASSES && begin < period && is_regular && is_repeated;
        (is_pass && releases_others).then_some((at.len(), begin, period))
    };
    let Some((_, begin, period)) = kept.iter().filter_map(period).max() else {
        return vec![first.start];
    };
    // A pass ends with the result that is kept.
    let offset = (begin + 1) % period;
    let starts = forward.iter().skip(offset).step_by(period).map(|a| a.start);
    (offset > 0).then_some(first.start).into_iter().chain(starts).collect()
}

/// Copies of parameters in half their size that forward passes make: autocast casts weights, and keeps the casts until
/// its region ends.
fn weight_copies(allocations: &mut [Allocation]) {
    let mut parameters: BTreeMap<i64, usize> = BTreeMap::new();
    for allocation in allocations.iter() {
        let is_older = allocation.owner == Owner::Older && allocation.start < 0;
        if allocation.owner == Owner::Parameter || is_older {
            *parameters.entry(allocation.bytes).or_default() += 1;
        }
    }
    let may_be_copy = |a: &Allocation| {
        let is_result = matches!(a.owner, Owner::Activation | Owner::Temporary);
        let of_forward = a.phase == Phase::Forward || a.is_cast == Some(true);
        is_result && of_forward && parameters.contains_key(&a.bytes.saturating_mul(2))
    };
    if allocations.iter().any(|a| a.is_cast.is_some()) {
        for allocation in allocations.iter_mut() {
            if allocation.is_cast == Some(true) && may_be_copy(&*allocation) {
                allocation.set(Owner::WeightCopy, Evidence::Context);
            }
        }
        return;
    }
    // By iteration, how often each size is allocated.
    let mut counts: BTreeMap<u32, BTreeMap<i64, usize>> = BTreeMap::new();
    for allocation in allocations.iter().filter(|a| a.bytes >= MIN_COPIED_BYTES && may_be_copy(a)) {
        let of_size = counts.entry(allocation.iteration).or_default();
        *of_size.entry(allocation.bytes).or_default() += 1;
    }
    for of_size in counts.values_mut() {
        of_size.retain(|bytes, count| parameters.get(&(2 * *bytes)) == Some(&*count));
    }
    counts.retain(|_, of_size| of_size.len() >= MIN_COPIED_SIZES);
    for allocation in allocations.iter_mut() {
        let of_size = counts.get(&allocation.iteration);
        if of_size.is_some_and(|sizes| sizes.contains_key(&allocation.bytes))
            && may_be_copy(&*allocation)
        {
            allocation.set(Owner::WeightCopy, Evidence::Size);
        }
    }
}

fn by_context(allocation: &mut Allocation, passes: &Passes) {
    use Evidence::{Context, Lifetime, Size};
    let Allocation { start, end, bytes, phase, is_workspace, .. } = *allocation;
    let is_kept = end == i64::MAX;
    if start < 0 {
        return;
    }
    let (owner, evidence) = match phase {
        _ if is_workspace => (Owner::Workspace, Context),
        Phase::Forward | Phase::Backward if is_kept && WORKSPACE_BYTES.contains(&bytes) => {
            (Owner::Workspace, Size)
        }
        Phase::Building if is_kept || end - start > MAX_TEMPORARY_EVENTS => {
            (Owner::Parameter, Context)
        }
        Phase::Optimizer if is_kept || passes.iteration(end) > passes.iteration(start) => {
            (Owner::OptimizerState, Context)
        }
        // What a forward pass makes lives until the backward pass has used it, or until nobody needs it.
        Phase::Forward if is_kept || passes.has_backward(start, end) => {
            (Owner::Activation, Context)
        }
        Phase::Forward if passes.backward.is_empty() && end - start > MIN_KEPT_EVENTS => {
            (Owner::Activation, Lifetime)
        }
        Phase::Backward => match passes.backward_end(start) {
            Some(last) if end > last && end - start > MAX_TEMPORARY_EVENTS => {
                (Owner::Gradient, Lifetime)
            }
            _ => (Owner::Temporary, Lifetime),
        },
        Phase::Loading => (Owner::Input, Context),
        Phase::Forward | Phase::Optimizer | Phase::Building => (Owner::Temporary, Lifetime),
        Phase::Other if !is_kept && passes.is_released_by_backward(start, end) => {
            (Owner::Activation, Lifetime)
        }
        Phase::Other if end - start <= MAX_TEMPORARY_EVENTS => (Owner::Temporary, Lifetime),
        // Outside of modules, optimizers and backward passes: batches, and what the loop keeps.
        Phase::Other if !is_kept && !passes.iterations.is_empty() => (Owner::Input, Lifetime),
        Phase::Other => (Owner::Unknown, Evidence::None),
    };
    allocation.set(owner, evidence);
}

/// What was there before the recording: parameters have the sizes of gradients, and the optimizer keeps values of
/// the same sizes.
fn older_by_size(allocations: &mut [Allocation], passes: &Passes) {
    let iterations = passes.backward.len().max(1) as i64;
    let mut gradients: BTreeMap<i64, i64> = BTreeMap::new();
    for allocation in allocations.iter().filter(|a| a.owner == Owner::Gradient) {
        *gradients.entry(allocation.bytes).or_default() += 1;
    }
    for count in gradients.values_mut() {
        *count = (*count + iterations - 1) / iterations;
    }
    let mut older: BTreeMap<i64, i64> = BTreeMap::new();
    let is_older = |a: &Allocation| a.start < 0 && a.owner == Owner::Unknown;
    for allocation in allocations.iter().filter(|a| is_older(a)) {
        *older.entry(allocation.bytes).or_default() += 1;
    }
    // Values for each parameter, itself among them: the number that fits most sizes.
    let fitting = |values: i64| {
        gradients
            .iter()
            .filter(|&(bytes, &count)| older.get(bytes) == Some(&(count * values)))
            .count()
    };
    let values = (1..=1 + MAX_STATES).max_by_key(|&values| (fitting(values), -values));
    let values = values.unwrap_or(1);
    let mut left: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (&bytes, &count) in &gradients {
        let held = older.get(&bytes).copied().unwrap_or(0);
        let parameters = count.min(held / values);
        left.insert(bytes, (parameters, parameters * (values - 1)));
    }
    // cuBLAS has one for each stream, and most programs use one stream for it.
    let mut has_workspace = false;
    for allocation in allocations.iter_mut().filter(|a| is_older(a)) {
        let (parameters, of_optimizer) = left.entry(allocation.bytes).or_default();
        if *parameters > 0 {
            *parameters -= 1;
            allocation.set(Owner::Parameter, Evidence::Size);
        } else if *of_optimizer > 0 {
            *of_optimizer -= 1;
            allocation.set(Owner::OptimizerState, Evidence::Size);
        } else if WORKSPACE_BYTES.contains(&allocation.bytes) && !has_workspace {
            has_workspace = true;
            allocation.set(Owner::Workspace, Evidence::Size);
        } else {
            allocation.set(Owner::Older, Evidence::Lifetime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocation, Evidence, Owner, Phase, classify};

    fn of_forward(start: i64, end: i64, bytes: i64, place: u32) -> Allocation {
        Allocation {
            start,
            end,
            bytes,
            place,
            phase: Phase::Forward,
            stack_depth: 9,
            ..Allocation::default()
        }
    }

    fn iterations(mut allocations: Vec<Allocation>) -> u32 {
        classify(&mut allocations);
        allocations.iter().map(|a| a.iteration).max().unwrap()
    }

    /// Passes of a model of `layers` equal layers, whose last result is kept.
    fn passes(count: i64, layers: i64, with_inputs: bool) -> Vec<Allocation> {
        let mut allocations = Vec::new();
        let mut at = 0;
        let mut next = || {
            at += 1;
            at
        };
        for _ in 0..count {
            if with_inputs {
                let start = next();
                allocations.push(Allocation {
                    start,
                    end: start + 9,
                    bytes: 7,
                    place: 3,
                    ..Allocation::default()
                });
            }
            for layer in 0..layers {
                let start = next();
                allocations.push(of_forward(start, start + 2, 400, 1));
                let start = next();
                let end = if layer == layers - 1 { i64::MAX } else { start + 2 };
                allocations.push(of_forward(start, end, 100, 2));
            }
        }
        allocations
    }

    #[test]
    fn passes_without_a_backward_pass_are_counted_only_where_they_are_sure() {
        assert_eq!(iterations(passes(8, 3, true)), 8);
        assert_eq!(iterations(passes(8, 3, false)), 8);
        assert_eq!(iterations(passes(3, 3, false)), 1, "three passes are too few");
        // One pass of twelve layers, all of which keep their results.
        assert_eq!(iterations(passes(12, 1, false)), 1);
    }

    #[test]
    fn passes_of_functions_are_counted_by_backward_passes() {
        let mut allocations = Vec::new();
        for step in 0..5 {
            let phases = [Phase::Other, Phase::Other, Phase::Backward, Phase::Backward];
            for (at, phase) in (step * 4..).zip(phases) {
                allocations.push(Allocation {
                    start: at,
                    end: at + 3,
                    bytes: 8,
                    phase,
                    ..Allocation::default()
                });
            }
        }
        assert_eq!(iterations(allocations), 5);
    }

    #[test]
    fn results_outside_of_modules_that_a_backward_pass_releases_are_activations() {
        let of =
            |start, end, phase| Allocation { start, end, bytes: 8, phase, ..Allocation::default() };
        let mut allocations = vec![
            of(0, 12, Phase::Other),
            of(1, 7, Phase::Other),
            of(5, 9, Phase::Backward),
            of(8, 10, Phase::Backward),
        ];
        classify(&mut allocations);
        assert_eq!(allocations[1].owner, Owner::Activation);
        assert_ne!(allocations[0].owner, Owner::Activation, "the loop holds it");
    }

    #[test]
    fn copies_of_weights_are_no_activations() {
        let parameters = [8192, 8192, 16384, 65536];
        let model = |is_cast: Option<bool>, sizes: &[i64]| {
            let parameter = |&bytes: &i64| Allocation {
                bytes,
                owner: Owner::Parameter,
                ..Allocation::default()
            };
            let copy = |(at, &bytes): (usize, &i64)| Allocation {
                is_cast,
                ..of_forward(at as i64, i64::MAX, bytes, 1)
            };
            let mut allocations: Vec<Allocation> = parameters.iter().map(parameter).collect();
            allocations.extend(sizes.iter().enumerate().map(copy));
            classify(&mut allocations);
            let found = allocations.iter().filter(|a| a.owner == Owner::WeightCopy);
            found.map(|a| (a.bytes, a.evidence)).collect::<Vec<_>>()
        };
        let copies = [4096, 4096, 8192, 32768];
        assert_eq!(model(Some(true), &copies[..1]), [(4096, Evidence::Context)]);
        assert_eq!(model(Some(false), &copies), []);
        // Without native frames, sizes and their numbers tell.
        assert_eq!(model(None, &copies).len(), 4);
        assert_eq!(model(None, &[4096, 8192, 32768]), [], "one of two has a copy");
        assert_eq!(model(None, &[4096, 4096, 8192]), [], "two sizes may be chance");
    }
}
