//! `memory_usage`: what the memory of a device is used for, in one row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::classify::{Allocation, Owner, Phase};
use super::load::{Memories, Memory};
use super::what_if::{Factors, History, checkpointed};

/// A peak that is higher than what is held in so many cases is short.
const USUAL_SHARE: f64 = 0.9;
/// What makes a short peak lives for a small part of the history.
const SHORT_SHARE: f64 = 0.1;
/// Copies in half the size are told from so many different sizes.
const MIN_COPIED_SIZES: i32 = 3;
/// And if so large a share of the parameters and states is in a pair or beside one.
const MIN_COPIED_SHARE: f64 = 0.9;
/// Iterations that fill the cache of the allocator.
const WARM_UP_ITERATIONS: u32 = 2;

/// Memory that one place keeps from iteration to iteration.
#[derive(Default)]
struct Kept {
    bytes: i64,
    count: i64,
    iterations: BTreeSet<i64>,
    owner: Option<Owner>,
}

/// Bytes that all places keep, and the place that keeps most of them.
type KeptBytes<'a> = (i64, Option<(Option<&'a str>, Kept)>);

struct UsageRow<'a> {
    memory: &'a Memory,
    iteration_count: i64,
    peak_bytes: i64,
    reserved_bytes: Option<i64>,
    at_peak: [i64; Owner::ALL.len()],
    top_activation: Option<(&'a str, i64)>,
    top: Option<TopHolder<'a>>,
    has_backward: bool,
    spike_bytes: i64,
    spike_place: Option<(&'a str, i64)>,
    /// `None` if too few iterations are known.
    kept_bytes: Option<i64>,
    kept: Option<(Option<&'a str>, Kept)>,
    half_batch_bytes: Option<i64>,
    checkpointed_bytes: Option<i64>,
    small_state_bytes: Option<i64>,
    half_copies: HalfCopies,
    later: Option<LaterSegments>,
}

/// Who holds most of the peak.
#[derive(Debug, Clone, Copy)]
struct TopHolder<'a> {
    owner: Owner,
    bytes: i64,
    /// Where most of it is allocated, and how much.
    place: Option<(&'a str, i64)>,
    /// When most of it is allocated.
    phase: Option<&'static str>,
}

/// Parameters that are held in 32 and in 16 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HalfCopies {
    bytes: i64,
    count: i64,
}

impl HalfCopies {
    /// These, and the copies of weights that forward passes make.
    fn and_weight_copies(self, memory: &Memory, peak: i64) -> Self {
        let is_copy = |a: &&Allocation| a.owner == Owner::WeightCopy && a.is_held_at(peak);
        memory.allocations.iter().filter(is_copy).fold(self, |sum, copy| Self {
            bytes: sum.bytes.saturating_add(copy.bytes),
            count: sum.count + 1,
        })
    }
}

/// Segments that the allocator took and gave back when its cache should have been filled.
#[derive(Debug, Clone, Copy)]
struct LaterSegments {
    iteration_count: i64,
    taken_count: i64,
    taken_bytes: i64,
    returned_count: i64,
}

impl UsageRow<'_> {
    fn at_peak(&self, owner: Owner) -> i64 {
        self.at_peak[owner as usize]
    }

    fn share(&self, bytes: i64) -> Option<f64> {
        (self.peak_bytes > 0).then(|| bytes as f64 / self.peak_bytes as f64)
    }
}

pub(super) fn usage(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let memories = Memories::read(inputs)?;
    let rows: Vec<UsageRow<'_>> =
        memories.memories.iter().filter_map(|memory| row(memory, &memories)).collect();
    let kept = |row: &UsageRow<'_>| row.kept.as_ref().map(|(_, kept)| kept.count);
    BatchBuilder::of(&rows)
        .int32("rank", |row| row.memory.rank)
        .int("snapshot", |row| row.memory.snapshot)
        .text("memory", |row| Some(row.memory.space.as_str()))
        .int32("device", |row| row.memory.device)
        .flag("has_history", |row| row.memory.has_history)
        .int("iteration_count", |row| Some(row.iteration_count))
        .int("peak_bytes", |row| Some(row.peak_bytes))
        .int("peak_reserved_bytes", |row| row.reserved_bytes)
        .int("capacity_bytes", |row| row.memory.capacity_bytes)
        .int("parameter_bytes", |row| Some(row.at_peak(Owner::Parameter)))
        .int("optimizer_state_bytes", |row| Some(row.at_peak(Owner::OptimizerState)))
        .float("optimizer_state_ratio", |row| row.share(row.at_peak(Owner::OptimizerState)))
        .int("gradient_bytes", |row| Some(row.at_peak(Owner::Gradient)))
        .int("activation_bytes", |row| Some(row.at_peak(Owner::Activation)))
        .float("activation_ratio", |row| row.share(row.at_peak(Owner::Activation)))
        .flag("has_backward", |row| row.has_backward)
        .int("temporary_bytes", |row| Some(row.at_peak(Owner::Temporary)))
        .int("older_bytes", |row| Some(row.at_peak(Owner::Older)))
        .int("weight_copy_bytes", |row| Some(row.at_peak(Owner::WeightCopy)))
        .text("top_owner", |row| Some(row.top?.owner.name()))
        .int("top_owner_bytes", |row| Some(row.top?.bytes))
        .text("top_phase", |row| row.top?.phase)
        .text("top_place", |row| Some(row.top?.place?.0))
        .int("top_place_bytes", |row| Some(row.top?.place?.1))
        .text("top_activation_place", |row| row.top_activation.map(|(place, _)| place))
        .int("top_activation_bytes", |row| row.top_activation.map(|(_, bytes)| bytes))
        .int("spike_bytes", |row| Some(row.spike_bytes))
        .float("spike_ratio", |row| row.share(row.spike_bytes))
        .text("spike_place", |row| row.spike_place.map(|(place, _)| place))
        .int("spike_place_bytes", |row| row.spike_place.map(|(_, bytes)| bytes))
        .int("kept_bytes", |row| row.kept_bytes)
        .float("kept_ratio", |row| row.share(row.kept_bytes?))
        .text("kept_place", |row| row.kept.as_ref().and_then(|(place, _)| *place))
        .text("kept_owner", |row| Some(row.kept.as_ref()?.1.owner?.name()))
        .int("kept_place_bytes", |row| row.kept.as_ref().map(|(_, kept)| kept.bytes))
        .int("kept_allocation_count", kept)
        .int("kept_per_iteration_bytes", |row| {
            let (_, kept) = row.kept.as_ref()?;
            kept.bytes.checked_div(kept.iterations.len() as i64)
        })
        .int("half_batch_peak_bytes", |row| row.half_batch_bytes)
        .int("checkpointed_peak_bytes", |row| row.checkpointed_bytes)
        .int("small_state_peak_bytes", |row| row.small_state_bytes)
        .int("half_copy_bytes", |row| Some(row.half_copies.bytes))
        .int("half_copy_count", |row| Some(row.half_copies.count))
        .float("half_copy_ratio", |row| row.share(row.half_copies.bytes))
        .int("later_iteration_count", |row| Some(row.later?.iteration_count))
        .int("later_segment_count", |row| Some(row.later?.taken_count))
        .float("later_segment_rate", |row| {
            let later = row.later?;
            Some(later.taken_count as f64 / later.iteration_count as f64)
        })
        .int("later_segment_bytes", |row| Some(row.later?.taken_bytes))
        .int("later_returned_count", |row| Some(row.later?.returned_count))
        .finish()
}

fn row<'a>(memory: &'a Memory, memories: &'a Memories) -> Option<UsageRow<'a>> {
    // Without a history, all that is known is the end.
    let peak = memory.moments.iter().find(|moment| moment.name != "oom")?;
    let mut at_peak = [0_i64; Owner::ALL.len()];
    let mut activations: BTreeMap<u32, i64> = BTreeMap::new();
    for allocation in memory.allocations.iter().filter(|a| a.is_held_at(peak.position)) {
        let bytes = &mut at_peak[allocation.owner as usize];
        *bytes = bytes.saturating_add(allocation.bytes);
        if allocation.owner == Owner::Activation {
            let bytes = activations.entry(allocation.place).or_default();
            *bytes = bytes.saturating_add(allocation.bytes);
        }
    }
    let largest = |places: BTreeMap<u32, i64>| {
        let (place, bytes) =
            places.into_iter().max_by_key(|&(place, bytes)| (bytes, Reverse(place)))?;
        Some((memories.place(place)?, bytes))
    };
    let history = History::of(memory);
    let has = |owner: Owner| at_peak[owner as usize] > 0;
    let scaled = |factors: &[(Owner, f64)]| {
        let factors = Factors::new(factors);
        Some(history.peak(|a| a.bytes as f64 * factors.of(a)) as i64)
    };
    let top = largest(activations);
    let checkpointed_bytes = top.and_then(|(name, _)| {
        let is_left = checkpointed(&memory.allocations, |a| memories.place(a.place) == Some(name))?;
        let left = |index: usize, a: &Allocation| if is_left[index] { a.bytes as f64 } else { 0.0 };
        Some(history.peak_of(left) as i64)
    });
    let iterations = memory.allocations.iter().map(|a| a.iteration).max().unwrap_or(0);
    let (kept_bytes, kept) = kept(memory, memories, iterations).unzip();
    let kept = kept.flatten();
    let (spike_bytes, spike_place) = spike(memory, &history, peak.position);
    Some(UsageRow {
        memory,
        iteration_count: i64::from(iterations),
        peak_bytes: peak.allocated_bytes,
        reserved_bytes: peak.reserved_bytes,
        at_peak,
        top_activation: top,
        top: top_holder(memory, memories, peak.position, &at_peak),
        has_backward: memory.allocations.iter().any(|a| a.phase == Phase::Backward),
        spike_bytes,
        spike_place: largest(spike_place),
        kept,
        kept_bytes,
        half_batch_bytes: if has(Owner::Activation)
            || has_temporaries_of_passes(memory, peak.position)
        {
            scaled(&[(Owner::Activation, 0.5), (Owner::Input, 0.5), (Owner::Temporary, 0.5)])
        } else {
            None
        },
        checkpointed_bytes,
        small_state_bytes: if has(Owner::OptimizerState) {
            scaled(&[(Owner::OptimizerState, 0.25)])
        } else {
            None
        },
        half_copies: half_copies(memory, peak.position).and_weight_copies(memory, peak.position),
        later: later_segments(memory, iterations),
    })
}

/// Pairs of allocations of which one has half the size of the other, if most parameters are in one.
fn half_copies(memory: &Memory, peak: i64) -> HalfCopies {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    let mut total = 0_i64;
    let mut has_parameters = false;
    for allocation in memory.allocations.iter().filter(|a| a.is_held_at(peak)) {
        let is_state = matches!(
            allocation.owner,
            Owner::Parameter | Owner::OptimizerState | Owner::Older | Owner::Unknown
        );
        // Sums of older memory are no sizes.
        if is_state && allocation.bytes > 0 && (memory.snapshot.is_some() || allocation.start >= 0)
        {
            has_parameters |= allocation.owner == Owner::Parameter;
            *counts.entry(allocation.bytes).or_default() += 1;
            total = total.saturating_add(allocation.bytes);
        }
    }
    let sizes: Vec<i64> = counts.keys().rev().copied().collect();
    let (mut copies, mut paired, mut distinct) = (HalfCopies::default(), 0_i64, 0);
    for size in sizes {
        let wholes = counts.get(&size).copied().unwrap_or(0);
        if size % 2 != 0 || wholes == 0 {
            continue;
        }
        let Some(halves) = counts.get_mut(&(size / 2)) else { continue };
        // Optimizers keep values of the same size beside each parameter: these have no copy.
        let pairs = (*halves).min(wholes);
        *halves -= pairs;
        distinct += i32::from(pairs > 0);
        copies.count += pairs;
        copies.bytes = copies.bytes.saturating_add(pairs.saturating_mul(size / 2));
        paired =
            paired.saturating_add(wholes.saturating_mul(size).saturating_add(pairs * (size / 2)));
    }
    let is_found = has_parameters
        && distinct >= MIN_COPIED_SIZES
        && paired as f64 >= MIN_COPIED_SHARE * total as f64;
    if is_found { copies } else { HalfCopies::default() }
}

/// Segments that the caching allocator took from the driver, and gave back, after the second iteration. `None` for traces,
/// and if no iteration follows.
fn later_segments(memory: &Memory, iterations: u32) -> Option<LaterSegments> {
    memory.snapshot?;
    let first = memory.allocations.iter().find(|a| a.iteration > WARM_UP_ITERATIONS)?;
    let mut later = LaterSegments {
        iteration_count: i64::from(iterations - WARM_UP_ITERATIONS),
        taken_count: 0,
        taken_bytes: 0,
        returned_count: 0,
    };
    for change in memory.segments.changes_after(first.start) {
        if change.is_taken {
            later.taken_count += 1;
            let bytes = change.segment.end - change.segment.start;
            later.taken_bytes = later.taken_bytes.saturating_add(bytes);
        } else {
            later.returned_count += 1;
        }
    }
    Some(later)
}

/// The owner that holds most at the peak.
fn top_holder<'a>(
    memory: &Memory,
    memories: &'a Memories,
    peak: i64,
    at_peak: &[i64; Owner::ALL.len()],
) -> Option<TopHolder<'a>> {
    let owner = Owner::ALL.into_iter().max_by_key(|&o| (at_peak[o as usize], Reverse(o)))?;
    let bytes = at_peak[owner as usize];
    if bytes <= 0 {
        return None;
    }
    let mut places: BTreeMap<&str, i64> = BTreeMap::new();
    let mut phases: BTreeMap<&'static str, i64> = BTreeMap::new();
    for allocation in memory.allocations.iter().filter(|a| a.owner == owner && a.is_held_at(peak)) {
        if let Some(place) = memories.place(allocation.place) {
            let bytes = places.entry(place).or_default();
            *bytes = bytes.saturating_add(allocation.bytes);
        }
        if let Some(phase) = phase_name(allocation) {
            let bytes = phases.entry(phase).or_default();
            *bytes = bytes.saturating_add(allocation.bytes);
        }
    }
    let place = places.into_iter().max_by_key(|&(place, bytes)| (bytes, Reverse(place)));
    let phase = phases.into_iter().find(|(_, of_phase)| 2 * of_phase > bytes).map(|(name, _)| name);
    Some(TopHolder { owner, bytes, place, phase })
}

/// When an allocation was made, in a word.
fn phase_name(allocation: &Allocation) -> Option<&'static str> {
    match allocation.phase {
        _ if allocation.start < 0 => Some("before"),
        Phase::Forward => Some("forward"),
        Phase::Backward => Some("backward"),
        Phase::Optimizer => Some("optimizer"),
        Phase::Loading | Phase::Building | Phase::Other => None,
    }
}

/// Whether forward and backward passes hold temporaries at the peak. These grow with the batch, unlike temporaries of optimizers.
fn has_temporaries_of_passes(memory: &Memory, peak: i64) -> bool {
    memory.allocations.iter().any(|a| {
        a.owner == Owner::Temporary
            && matches!(a.phase, Phase::Forward | Phase::Backward)
            && a.is_held_at(peak)
    })
}

/// With fewer iterations, nothing tells what is kept from one to the next. A leak takes one more, see MM021.
const MIN_ITERATIONS: u32 = 3;

/// Memory that is allocated in one iteration after another and never released, and the place that keeps most of it.
/// `None` if the recording has too few iterations to tell.
///
/// Parameters, gradients and optimizer state do not count: they are allocated once, or wait to be replaced.
fn kept<'a>(memory: &Memory, memories: &'a Memories, last_iteration: u32) -> Option<KeptBytes<'a>> {
    if last_iteration < MIN_ITERATIONS {
        return None;
    }
    let last = i64::from(last_iteration);
    let may_be_kept = |a: &&Allocation| {
        let is_of_model = matches!(
            a.owner,
            Owner::Parameter
                | Owner::OptimizerState
                | Owner::Gradient
                | Owner::WeightCopy
                | Owner::Workspace
                | Owner::GraphPool
        );
        // The last iteration may still be at work.
        a.start >= 0 && a.end == i64::MAX && !is_of_model && i64::from(a.iteration) < last
    };
    let mut places: BTreeMap<Option<&str>, Kept> = BTreeMap::new();
    for allocation in memory.allocations.iter().filter(may_be_kept) {
        let kept = places.entry(memories.place(allocation.place)).or_default();
        kept.bytes = kept.bytes.saturating_add(allocation.bytes);
        kept.count += 1;
        kept.iterations.insert(i64::from(allocation.iteration));
        kept.owner = Some(allocation.owner);
    }
    // Caches that the first iterations fill do not grow later.
    let is_growing = |kept: &Kept| {
        kept.iterations.len() as i64 >= (last - 1).min(3)
            && kept.iterations.last().is_some_and(|&most| 2 * most > last)
    };
    places.retain(|_, kept| is_growing(kept));
    let bytes = places.values().fold(0_i64, |sum, kept| sum.saturating_add(kept.bytes));
    // A place that has a name goes first.
    let most = places
        .into_iter()
        .max_by_key(|(place, kept)| (place.is_some(), kept.bytes, Reverse(*place)));
    Some((bytes, most))
}

/// How far the peak is above what is held in nine of ten cases, and what of it lives for a short time, by place.
fn spike(memory: &Memory, history: &History<'_>, peak: i64) -> (i64, BTreeMap<u32, i64>) {
    let mut levels = history.levels();
    if levels.is_empty() {
        return (0, BTreeMap::new());
    }
    let most = levels.iter().copied().max().unwrap_or(0);
    let at = ((levels.len() - 1) as f64 * USUAL_SHARE) as usize;
    let (_, usual, _) = levels.select_nth_unstable(at);
    let usual = *usual;
    let short = (levels.len() as f64 * SHORT_SHARE) as i64;
    let mut places: BTreeMap<u32, i64> = BTreeMap::new();
    let is_short =
        |a: &&Allocation| a.is_held_at(peak) && a.end != i64::MAX && a.end - a.start <= short;
    for allocation in memory.allocations.iter().filter(is_short) {
        let bytes = places.entry(allocation.place).or_default();
        *bytes = bytes.saturating_add(allocation.bytes);
    }
    (most.saturating_sub(usual), places)
}

#[cfg(test)]
mod tests {
    use super::{HalfCopies, half_copies, kept, later_segments};
    use crate::memory::classify::{Allocation, Owner};
    use crate::memory::load::{Memories, Memory};
    use crate::memory::segments::{Change, Segment};

    fn memory(sizes: &[i64]) -> Memory {
        let parameter =
            |&bytes: &i64| Allocation { bytes, owner: Owner::Parameter, ..Allocation::default() };
        Memory { snapshot: Some(0), ..Memory::of(sizes.iter().map(parameter).collect()) }
    }

    #[test]
    fn copies_in_half_the_size_are_found_only_if_most_parameters_have_one() {
        let found = |sizes: &[i64]| half_copies(&memory(sizes), 0);
        let copied = [4000, 4000, 2000, 2000, 600, 300, 80, 40];
        assert_eq!(found(&copied), HalfCopies { bytes: 4340, count: 4 });
        // Adam's state beside the parameters in 32 bits.
        let with_state = [4000, 4000, 4000, 2000, 600, 600, 600, 300, 80, 80, 80, 40];
        assert_eq!(found(&with_state), HalfCopies { bytes: 2340, count: 3 });
        // Layers of half the width.
        assert_eq!(found(&[4000, 2000, 900, 700, 80, 40]), HalfCopies::default());
        assert_eq!(found(&[4000, 2000]), HalfCopies::default());
    }

    #[test]
    fn memory_is_kept_only_if_three_iterations_show_it() {
        let memories =
            Memories { memories: Vec::new(), places: vec!["train.py:7 step".to_owned()] };
        let allocation = |iteration: u32, owner| Allocation {
            start: i64::from(iteration) * 10,
            bytes: 100,
            place: 0,
            iteration,
            owner,
            ..Allocation::default()
        };
        let of = |iterations: &[u32], last, owner| {
            let allocations = iterations.iter().map(|&iteration| allocation(iteration, owner));
            let (bytes, most) = kept(&Memory::of(allocations.collect()), &memories, last)?;
            Some((bytes, most.map(|(place, kept)| (place, kept.count))))
        };
        let place = Some("train.py:7 step");
        assert_eq!(of(&[1, 2, 3, 4], 4, Owner::Activation), Some((300, Some((place, 3)))));
        assert_eq!(of(&[1, 2, 3], 3, Owner::Activation), Some((200, Some((place, 2)))));
        assert_eq!(of(&[2, 3], 3, Owner::Activation), Some((0, None)), "not of the first");
        assert_eq!(of(&[1, 2], 2, Owner::Activation), None, "two iterations are too few");
        assert_eq!(of(&[1, 2, 3], 20, Owner::Unknown), Some((0, None)), "a cache is filled");
        for owner in [Owner::Parameter, Owner::Gradient, Owner::OptimizerState, Owner::Workspace] {
            assert_eq!(of(&[1, 2, 3, 4, 5], 5, owner), Some((0, None)), "{owner:?}");
        }
    }

    #[test]
    fn segments_of_later_iterations_are_counted() {
        let allocation = |iteration: u32| Allocation {
            start: i64::from(iteration) * 10,
            iteration,
            ..Allocation::default()
        };
        let of = |iterations: u32, snapshot| {
            let mut memory = Memory::of((1..=iterations).map(allocation).collect());
            memory.snapshot = snapshot;
            for (position, is_taken) in
                [(11, true), (21, true), (31, false), (32, true), (41, true)]
            {
                let segment = Segment { start: 0, end: 100, ..Segment::default() };
                memory.segments.change(Change { position, is_taken, segment });
            }
            later_segments(&memory, iterations)
        };
        let later = of(4, Some(0)).unwrap();
        assert_eq!(later.iteration_count, 2);
        assert_eq!((later.taken_count, later.taken_bytes, later.returned_count), (2, 200, 1));
        assert!(of(2, Some(0)).is_none(), "there is no later iteration");
        assert!(of(4, None).is_none(), "a trace does not tell");
    }
}
