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
    Input,
    Temporary,
    Workspace,
    GraphPool,
    /// Held since before the recording.
    Older,
    Unknown,
}

impl Owner {
    pub(super) const ALL: [Self; 10] = [
        Self::Parameter,
        Self::OptimizerState,
        Self::Gradient,
        Self::Activation,
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
}

/// The forward and backward passes of a recording.
struct Passes {
    /// First event of each backward pass, and its last.
    backward: Vec<(i64, i64)>,
    /// First event of each forward pass that follows a backward pass, and of the first of all.
    iterations: Vec<i64>,
}

impl Passes {
    fn of(allocations: &[Allocation]) -> Self {
        let mut passes = Self { backward: Vec::new(), iterations: Vec::new() };
        let mut last = Phase::Other;
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
            if matches!(allocation.phase, Phase::Forward | Phase::Backward | Phase::Optimizer) {
                last = allocation.phase;
            }
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

    /// The last event of the backward pass around an event.
    fn backward_end(&self, position: i64) -> Option<i64> {
        let next = self.backward.partition_point(|&(first, _)| first <= position);
        self.backward.get(next.checked_sub(1)?).map(|&(_, end)| end)
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
