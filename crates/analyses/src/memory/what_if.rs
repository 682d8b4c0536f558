//! `memory_what_if`: the peak of other programs, from the history of this one.
//!
//! Each allocation keeps its place in the history and changes its size by the factor of its owner. The peak is the most
//! that is then held at once, which may be at another moment.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::classify::{Allocation, Evidence, Owner, Phase};
use super::load::{Memories, Memory};

/// Ranks over which states are divided.
const SHARDS: [f64; 3] = [2.0, 4.0, 8.0];
/// Batches, as multiples of that of the recording.
const BATCHES: [f64; 3] = [0.5, 2.0, 4.0];
/// Lengths of sequences, as multiples of that of the recording.
const SEQUENCES: [f64; 2] = [0.5, 2.0];
/// In the names of lines that may compute attention scores.
const ATTENTION_WORDS: [&[u8]; 3] = [b"attn", b"attention", b"softmax"];
/// Share of the capacity that a batch may fill: the allocator loses some to rounding and fragmentation.
const USABLE_RATIO: f64 = 0.95;
/// Largest batch that is looked for, as a multiple of that of the recording.
const MAX_BATCH: f64 = 1024.0;
/// Share of the sizes that have to be equal one call later.
const MIN_EQUAL_SHARE: f64 = 0.8;
/// Most allocations that a call makes.
const MAX_PERIOD: usize = 64;
/// Places whose activations are worth a row.
const MAX_PLACES: usize = 5;

/// What is left of the bytes of each owner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors {
    of_owner: [f64; Owner::ALL.len()],
    /// Temporaries that the optimizer makes.
    optimizer_temporary: f64,
}

impl Factors {
    pub(super) fn new(changed: &[(Owner, f64)]) -> Self {
        let mut factors = [1.0; Owner::ALL.len()];
        for &(owner, factor) in changed {
            factors[owner as usize] = factor;
        }
        let optimizer_temporary = factors[Owner::Temporary as usize];
        Self { of_owner: factors, optimizer_temporary }
    }

    /// The same for an optimizer that works on a part of the parameters only.
    fn with_optimizer_work(self, share: f64) -> Self {
        Self { optimizer_temporary: share, ..self }
    }

    /// What grows with the number of samples.
    fn batch(samples: f64) -> Self {
        Self::new(&[
            (Owner::Activation, samples),
            (Owner::Input, samples),
            (Owner::Temporary, samples),
        ])
    }

    pub(super) fn of(&self, allocation: &Allocation) -> f64 {
        match (allocation.owner, allocation.phase) {
            (Owner::Temporary, Phase::Optimizer) => self.optimizer_temporary,
            (owner, _) => self.of_owner[owner as usize],
        }
    }
}

/// The size of the workload that a scenario multiplies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Multiple {
    None,
    /// The number of samples in a batch.
    Batch(f64),
    /// The length of sequences.
    Sequence(f64),
}

struct Scenario {
    name: String,
    what: String,
    /// The peak, and its bounds: what was told from sizes or not at all may belong to another owner.
    peak: [f64; 3],
    multiple: Multiple,
}

struct ScenarioRow<'a> {
    memory: &'a Memory,
    now: f64,
    scenario: Scenario,
}

pub(super) fn what_if(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let memories = Memories::read(inputs)?;
    let rows: Vec<ScenarioRow<'_>> = memories
        .memories
        .iter()
        .filter(|memory| memory.has_history && !memory.allocations.is_empty())
        .flat_map(|memory| {
            let history = History::of(memory);
            let now = history.peak(|a| a.bytes as f64);
            let scenarios = scenarios(memory, &memories, &history, now);
            scenarios.into_iter().map(move |scenario| ScenarioRow { memory, now, scenario })
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |row| row.memory.rank)
        .int("snapshot", |row| row.memory.snapshot)
        .text("memory", |row| Some(row.memory.space.as_str()))
        .int32("device", |row| row.memory.device)
        .text("scenario", |row| Some(row.scenario.name.as_str()))
        .text("change", |row| Some(row.scenario.what.as_str()))
        .int("now_bytes", |row| Some(row.now as i64))
        .int("peak_bytes", |row| Some(row.scenario.peak[1] as i64))
        .int("peak_low_bytes", |row| Some(row.scenario.peak[0] as i64))
        .int("peak_high_bytes", |row| Some(row.scenario.peak[2] as i64))
        .int("freed_bytes", |row| Some((row.now - row.scenario.peak[1]) as i64))
        .float("freed_ratio", |row| {
            (row.now > 0.0).then(|| (row.now - row.scenario.peak[1]) / row.now)
        })
        .float("batch_factor", |row| match row.scenario.multiple {
            Multiple::Batch(factor) => Some(factor),
            _ => None,
        })
        .float("sequence_factor", |row| match row.scenario.multiple {
            Multiple::Sequence(factor) => Some(factor),
            _ => None,
        })
        .int("capacity_bytes", |row| row.memory.capacity_bytes)
        .flag("fits", |row| {
            let capacity = row.memory.capacity_bytes? as f64;
            Some(row.scenario.peak[1] <= USABLE_RATIO * capacity)
        })
        .finish()
}

/// The allocations and releases of a memory in order.
pub(super) struct History<'a> {
    allocations: &'a [Allocation],
    /// Index of the allocation, and whether it is released, in the order of events.
    events: Vec<(u32, bool)>,
}

impl<'a> History<'a> {
    pub(super) fn of(memory: &'a Memory) -> Self {
        Self::with_ends(&memory.allocations, |_, allocation| allocation.end)
    }

    /// The history in which allocations are released at these events.
    fn with_ends(allocations: &'a [Allocation], end: impl Fn(usize, &Allocation) -> i64) -> Self {
        let mut events: Vec<(i64, bool, u32)> = Vec::with_capacity(2 * allocations.len());
        for (index, allocation) in allocations.iter().enumerate() {
            events.push((allocation.start, false, index as u32));
            let end = end(index, allocation);
            if end != i64::MAX {
                events.push((end, true, index as u32));
            }
        }
        // At one event, what was there before goes first.
        events
            .sort_unstable_by_key(|&(position, is_release, index)| (position, !is_release, index));
        let events = events.into_iter().map(|(_, is_release, index)| (index, is_release)).collect();
        Self { allocations, events }
    }

    /// Position, allocation and whether it is released, in the order of events.
    pub(super) fn events(&self) -> impl Iterator<Item = (i64, &'a Allocation, bool)> + Clone {
        let allocations = self.allocations;
        self.events.iter().map(move |&(index, is_release)| {
            let allocation = &allocations[index as usize];
            (if is_release { allocation.end } else { allocation.start }, allocation, is_release)
        })
    }

    /// The most that is held at once if each allocation has this size.
    pub(super) fn peak(&self, bytes: impl Fn(&Allocation) -> f64) -> f64 {
        self.peak_of(|_, allocation| bytes(allocation))
    }

    /// The same, by the index of the allocation, too.
    pub(super) fn peak_of(&self, bytes: impl Fn(usize, &Allocation) -> f64) -> f64 {
        let (mut held, mut peak) = (0.0_f64, 0.0_f64);
        for &(index, is_release) in &self.events {
            let bytes = bytes(index as usize, &self.allocations[index as usize]);
            held += if is_release { -bytes } else { bytes };
            peak = peak.max(held);
        }
        peak
    }

    /// What is held after each event.
    pub(super) fn levels(&self) -> Vec<i64> {
        let mut held = 0_i64;
        let level = |&(index, is_release): &(u32, bool)| {
            let bytes = self.allocations[index as usize].bytes;
            held = if is_release { held.saturating_sub(bytes) } else { held.saturating_add(bytes) };
            held
        };
        self.events.iter().map(level).collect()
    }

    /// The peak with these factors, and its bounds.
    fn scaled(&self, factors: &Factors) -> [f64; 3] {
        let (least, most) =
            factors.of_owner.iter().fold((1.0_f64, 1.0_f64), |(least, most), &factor| {
                (least.min(factor), most.max(factor))
            });
        let bound = |of_uncertain: f64| {
            self.peak(|a| {
                let is_uncertain = a.evidence == Evidence::None
                    || a.owner == Owner::Older && a.evidence >= Evidence::Lifetime;
                let factor = if is_uncertain { of_uncertain } else { factors.of(a) };
                a.bytes as f64 * factor
            })
        };
        let peak = self.peak(|a| a.bytes as f64 * factors.of(a));
        [bound(least).min(peak), peak, bound(most).max(peak)]
    }
}

fn scenarios(
    memory: &Memory,
    memories: &Memories,
    history: &History<'_>,
    now: f64,
) -> Vec<Scenario> {
    let mut found = Vec::new();
    let has = |owner| memory.allocations.iter().any(|a| a.owner == owner);
    let mut add = |name: &str, what: String, factors: Factors, multiple: Multiple| {
        let peak = history.scaled(&factors);
        found.push(Scenario { name: name.to_owned(), what, peak, multiple });
    };
    if has(Owner::OptimizerState) {
        let state = |factor| Factors::new(&[(Owner::OptimizerState, factor)]);
        add(
            "optimizer_8_bit",
            "optimizer state in 8 bits (from 32)".to_owned(),
            state(0.25),
            Multiple::None,
        );
        add(
            "optimizer_16_bit",
            "optimizer state in 16 bits (from 32)".to_owned(),
            state(0.5),
            Multiple::None,
        );
        let none = state(0.0).with_optimizer_work(0.0);
        add("optimizer_none", "an optimizer without state".to_owned(), none, Multiple::None);
    }
    if has(Owner::Parameter) && has(Owner::Gradient) {
        for ranks in SHARDS {
            let share = 1.0 / ranks;
            let divided: [&[Owner]; 3] = [
                &[Owner::OptimizerState],
                &[Owner::OptimizerState, Owner::Gradient],
                &[Owner::OptimizerState, Owner::Gradient, Owner::Parameter],
            ];
            for (stage, owners) in divided.into_iter().enumerate() {
                let factors: Vec<(Owner, f64)> =
                    owners.iter().map(|&owner| (owner, share)).collect();
                let names: Vec<&str> = owners.iter().map(|owner| owner.name()).collect();
                let what = format!("{} divided over {ranks} ranks", names.join(", "));
                let name = format!("zero_{}_of_{ranks}", stage + 1);
                add(&name, what, Factors::new(&factors).with_optimizer_work(share), Multiple::None);
            }
        }
    }
    if has(Owner::Activation) {
        let half = Factors::new(&[(Owner::Activation, 0.5), (Owner::Temporary, 0.5)]);
        add(
            "activations_16_bit",
            "activations in 16 bits (from 32)".to_owned(),
            half,
            Multiple::None,
        );
        for samples in BATCHES {
            let what = format!("{samples} times the batch");
            add("batch", what, Factors::batch(samples), Multiple::Batch(samples));
        }
        if let Some(capacity) = memory.capacity_bytes {
            let limit = USABLE_RATIO * capacity as f64;
            if let Some(samples) = largest_batch(history, limit) {
                let what = format!("{samples:.2} times the batch: the largest that fits");
                add("largest_batch", what, Factors::batch(samples), Multiple::Batch(samples));
            }
        }
        found.extend(sequences(memories, history));
        found.extend(checkpointing(memory, memories, history, now));
    }
    found
}

/// Longer sequences take as much as larger batches, but for attention scores, which grow with the square.
fn sequences(memories: &Memories, history: &History<'_>) -> Vec<Scenario> {
    let has_word = |place: &String, word: &[u8]| {
        place.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
    };
    // Places are few, allocations are many.
    let is_attention: Vec<bool> = memories
        .places
        .iter()
        .map(|place| ATTENTION_WORDS.iter().any(|word| has_word(place, word)))
        .collect();
    let may_be_score = |a: &Allocation| {
        matches!(a.owner, Owner::Activation | Owner::Temporary)
            && is_attention.get(a.place as usize) == Some(&true)
    };
    let scenario = |samples: f64| {
        let factors = Factors::batch(samples);
        let [low, peak, high] = history.scaled(&factors);
        let squared = history
            .peak(|a| a.bytes as f64 * factors.of(a) * if may_be_score(a) { samples } else { 1.0 });
        let bounds = [low.min(squared), peak, high.max(squared)];
        Scenario {
            name: "sequence".to_owned(),
            what: format!("{samples} times the length of sequences"),
            peak: bounds,
            multiple: Multiple::Sequence(samples),
        }
    };
    SEQUENCES.into_iter().map(scenario).collect()
}

/// The largest batch whose peak is within the limit, as a multiple of that of the recording.
fn largest_batch(history: &History<'_>, limit: f64) -> Option<f64> {
    let fits = |samples: f64| history.scaled(&Factors::batch(samples))[1] <= limit;
    if !fits(0.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, MAX_BATCH);
    if fits(high) {
        return Some(high);
    }
    // To 1 % of the batch of the recording, or of the result.
    while high - low > 0.01 * f64::max(1.0, low) {
        let middle = 0.5 * (low + high);
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Bytes that are left of each allocation if the calls at a place are checkpointed: their results stay, from which each
/// call is computed again in the backward pass, one at a time. Of the last call, all is there when that begins.
///
/// `None` if the place makes a single call in a forward pass.
pub(super) fn checkpointed(
    allocations: &[Allocation],
    is_of_place: impl Fn(&Allocation) -> bool,
) -> Option<Vec<bool>> {
    let mut of_iteration: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, allocation) in allocations.iter().enumerate() {
        if allocation.owner == Owner::Activation && is_of_place(allocation) {
            of_iteration.entry(allocation.iteration).or_default().push(index);
        }
    }
    let mut is_left = vec![true; allocations.len()];
    let mut has_calls = false;
    for calls in of_iteration.values() {
        let sizes: Vec<i64> = calls.iter().map(|&index| allocations[index].bytes).collect();
        let Some(period) = period(&sizes) else { continue };
        has_calls = true;
        for (at, &index) in calls.iter().enumerate() {
            is_left[index] = at % period == period - 1 || at + period >= calls.len();
        }
    }
    has_calls.then_some(is_left)
}

/// The number of allocations of a call, if the sizes repeat. The first and the last call may lack some.
fn period(sizes: &[i64]) -> Option<usize> {
    (1..=MAX_PERIOD.min(sizes.len() / 2)).find(|&period| {
        let equal = sizes.windows(period + 1).filter(|w| w[0] == w[period]).count();
        equal as f64 >= MIN_EQUAL_SHARE * (sizes.len() - period) as f64
    })
}

fn checkpointing(
    memory: &Memory,
    memories: &Memories,
    history: &History<'_>,
    now: f64,
) -> Vec<Scenario> {
    let peak = memory.moments.iter().find(|moment| moment.name == "peak");
    let Some(peak) = peak else { return Vec::new() };
    let mut places: BTreeMap<&str, i64> = BTreeMap::new();
    let at_peak = |a: &&Allocation| a.owner == Owner::Activation && a.is_held_at(peak.position);
    for allocation in memory.allocations.iter().filter(at_peak) {
        if let Some(place) = memories.place(allocation.place) {
            let bytes = places.entry(place).or_default();
            *bytes = bytes.saturating_add(allocation.bytes);
        }
    }
    let mut by_bytes: Vec<(&str, i64)> = places.into_iter().collect();
    by_bytes.sort_by_key(|&(place, bytes)| (Reverse(bytes), place));
    let checkpointed_place = |(place, _): (&str, i64)| {
        let is_left =
            checkpointed(&memory.allocations, |a| memories.place(a.place) == Some(place))?;
        let then = history.peak_of(|index, a| if is_left[index] { a.bytes as f64 } else { 0.0 });
        Some(Scenario {
            name: "checkpoint_place".to_owned(),
            what: format!("activations of {place} computed again"),
            peak: [0.9 * then, then, now.min(1.15 * then)],
            multiple: Multiple::None,
        })
    };
    let mut found: Vec<Scenario> =
        by_bytes.into_iter().take(MAX_PLACES).filter_map(checkpointed_place).collect();
    let least = history.peak(|a| if a.owner == Owner::Activation { 0.0 } else { a.bytes as f64 });
    let ends = ends_without_graph(&memory.allocations);
    let then = History::with_ends(&memory.allocations, |index, _| ends[index])
        .peak(|a| a.bytes as f64)
        .min(now);
    found.push(Scenario {
        name: "no_activations".to_owned(),
        what: "no activations are kept: inference under torch.no_grad()".to_owned(),
        peak: [least.min(then), then, now],
        multiple: Multiple::None,
    });
    found
}

/// When allocations are released if no graph keeps the results of forward passes.
///
/// A result is then held by the frame that made it, or by a caller: until the next result in a frame of the same depth,
/// or further outside, has been computed from it.
fn ends_without_graph(allocations: &[Allocation]) -> Vec<i64> {
    let mut ends: Vec<i64> = allocations.iter().map(|a| a.end).collect();
    // Results that nothing has replaced, the innermost frame last.
    let mut held: Vec<usize> = Vec::new();
    for (index, allocation) in allocations.iter().enumerate() {
        let is_result = allocation.phase == Phase::Forward
            && matches!(allocation.owner, Owner::Activation | Owner::Temporary);
        if !is_result || allocation.start < 0 {
            continue;
        }
        if allocation.stack_depth == 0 {
            // Without stacks, nothing tells how long.
            if allocation.owner == Owner::Activation {
                ends[index] = allocation.start;
            }
            continue;
        }
        while let Some(&last) = held.last()
            && allocations[last].stack_depth >= allocation.stack_depth
        {
            // Both are there when the later one is made.
            ends[last] = ends[last].min(allocation.start.saturating_add(1));
            held.pop();
        }
        held.push(index);
    }
    ends
}
