//! `memory_owners`: who holds memory at the peak, in the end, and when an allocation failed.

use std::collections::BTreeMap;

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::classify::{Evidence, Owner};
use super::load::{Memories, Memory, Moment};
use super::segment_map::SegmentMap;
use super::segments::Content;

/// Allocations of one owner that were made at one place.
struct Held {
    bytes: i64,
    count: i64,
    evidence: Evidence,
}

/// A row.
struct OwnerRow<'a> {
    memory: &'a Memory,
    moment: Moment,
    owner: &'static str,
    place: Option<&'a str>,
    bytes: i64,
    count: Option<i64>,
    confidence: &'static str,
    is_allocated: bool,
}

pub(super) fn owners(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let memories = Memories::read(inputs)?;
    let mut rows: Vec<OwnerRow<'_>> = Vec::new();
    for memory in &memories.memories {
        for &moment in &memory.moments {
            add_moment(&mut rows, &memories, memory, moment);
        }
    }
    BatchBuilder::of(&rows)
        .int32("rank", |row| row.memory.rank)
        .int("snapshot", |row| row.memory.snapshot)
        .text("memory", |row| Some(row.memory.space.as_str()))
        .int32("device", |row| row.memory.device)
        .text("moment", |row| Some(row.moment.name))
        .text("owner", |row| Some(row.owner))
        .text("place", |row| row.place)
        .int("bytes", |row| Some(row.bytes))
        .float("bytes_ratio", |row| {
            let total = row.moment.reserved_bytes.unwrap_or(row.moment.allocated_bytes);
            (total > 0).then(|| row.bytes as f64 / total as f64)
        })
        .int("allocation_count", |row| row.count)
        .text("confidence", |row| Some(row.confidence))
        .flag("is_allocated", |row| row.is_allocated)
        .finish()
}

fn add_moment<'a>(
    rows: &mut Vec<OwnerRow<'a>>,
    memories: &'a Memories,
    memory: &'a Memory,
    moment: Moment,
) {
    let mut held: BTreeMap<(Owner, Option<&str>), Held> = BTreeMap::new();
    for allocation in memory.allocations.iter().filter(|a| a.is_held_at(moment.position)) {
        let key = (allocation.owner, memories.place(allocation.place));
        let held =
            held.entry(key).or_insert(Held { bytes: 0, count: 0, evidence: Evidence::Recorded });
        held.bytes = held.bytes.saturating_add(allocation.bytes);
        held.count += 1;
        held.evidence = held.evidence.max(allocation.evidence);
    }
    let sum = held.values().fold(0_i64, |sum, held| sum.saturating_add(held.bytes));
    let mut add = |owner, place, bytes, count, confidence, is_allocated| {
        rows.push(OwnerRow {
            memory,
            moment,
            owner,
            place,
            bytes,
            count,
            confidence,
            is_allocated,
        });
    };
    for ((owner, place), held) in held {
        add(owner.name(), place, held.bytes, Some(held.count), held.evidence.confidence(), true);
    }
    // What the allocator counts and no event explains.
    if sum != moment.allocated_bytes {
        add("unexplained", None, moment.allocated_bytes.saturating_sub(sum), None, "low", true);
    }
    let Some(reserved) = moment.reserved_bytes else { return };
    let unused = reserved.saturating_sub(moment.allocated_bytes);
    let (parts, rest) = match memory.unused_bytes.filter(|_| moment.name == "end") {
        // The snapshot says it.
        Some([rounding, in_used, in_free]) => {
            let parts = [
                ("rounding", rounding),
                ("free_in_used_segments", in_used),
                ("free_segments", in_free),
            ];
            (BTreeMap::from(parts), "unexplained")
        }
        None => (unused_at(memory, moment), "unused"),
    };
    let known = parts.values().fold(0_i64, |sum, bytes| sum.saturating_add(*bytes));
    let parts = parts.into_iter().chain([(rest, unused.saturating_sub(known))]);
    for (owner, bytes) in parts.filter(|(_, bytes)| *bytes != 0) {
        add(owner, None, bytes, None, "high", false);
    }
    // The driver was asked what is free.
    if let Some((device, free)) = memory.device_bytes.zip(moment.device_free_bytes) {
        let outside = device.saturating_sub(free).saturating_sub(reserved);
        if outside > 0 {
            add("outside_allocator", None, outside, None, "high", false);
        }
    }
}

/// What the segments hold at a moment beside allocations, by reason; empty if the history does not show all segments.
fn unused_at(memory: &Memory, moment: Moment) -> BTreeMap<&'static str, i64> {
    let map = SegmentMap::of(memory, moment);
    if moment.reserved_bytes != Some(map.reserved_bytes()) {
        return BTreeMap::new();
    }
    let mut parts: BTreeMap<&'static str, i64> = BTreeMap::new();
    for stretch in &map.stretches {
        let name = match stretch.content {
            Content::Allocation(_) => continue,
            Content::Rounding => "rounding",
            Content::Free => map.free_owner(stretch),
        };
        let bytes = parts.entry(name).or_default();
        *bytes = bytes.saturating_add(stretch.bytes);
    }
    parts
}
