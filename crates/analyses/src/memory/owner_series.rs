//! `memory_owner_series`: bytes of each owner over the recording.

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::classify::Owner;
use super::load::{Memories, Memory};
use super::what_if::History;

/// Parts of the history that have a point each.
const MAX_POINTS: usize = 200;

struct Point<'a> {
    memory: &'a Memory,
    position: i64,
    owner: Owner,
    bytes: i64,
    allocated_bytes: i64,
}

pub(super) fn owner_series(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let memories = Memories::read(inputs)?;
    let mut points = Vec::new();
    for memory in memories.memories.iter().filter(|memory| memory.has_history) {
        add_points(memory, &mut points);
    }
    BatchBuilder::of(&points)
        .int32("rank", |point| point.memory.rank)
        .int("snapshot", |point| point.memory.snapshot)
        .text("memory", |point| Some(point.memory.space.as_str()))
        .int32("device", |point| point.memory.device)
        .int("position", |point| Some(point.position))
        .text("owner", |point| Some(point.owner.name()))
        .int("bytes", |point| Some(point.bytes))
        .int("allocated_bytes", |point| Some(point.allocated_bytes))
        .finish()
}

/// The highest moment of each part of the history.
fn add_points<'a>(memory: &'a Memory, points: &mut Vec<Point<'a>>) {
    let history = History::of(memory);
    let mut held = [0_i64; Owner::ALL.len()];
    let mut is_used = [false; Owner::ALL.len()];
    let mut highest: Vec<(i64, i64, [i64; Owner::ALL.len()])> = Vec::new();
    let events = history.events();
    // What was there before the history comes first, without a position.
    let recorded = events.clone().filter(|(position, ..)| *position >= 0).count();
    let part_length = recorded.div_ceil(MAX_POINTS).max(1);
    let mut total = 0_i64;
    let mut last_part = None;
    let mut number = 0;
    for (position, allocation, is_release) in events {
        let owner = allocation.owner as usize;
        is_used[owner] |= allocation.bytes > 0;
        let change = if is_release { -allocation.bytes } else { allocation.bytes };
        held[owner] = held[owner].saturating_add(change);
        total = total.saturating_add(change);
        let part = if position < 0 { None } else { Some(number / part_length) };
        number += usize::from(position >= 0);
        match highest.last_mut() {
            Some(point) if last_part == Some(part) => {
                // All of what is older counts at once.
                if total > point.1 || part.is_none() {
                    *point = (position, total, held);
                }
            }
            _ => highest.push((position, total, held)),
        }
        last_part = Some(part);
    }
    for (position, allocated_bytes, held) in highest {
        for owner in Owner::ALL.into_iter().filter(|owner| is_used[*owner as usize]) {
            let bytes = held[owner as usize];
            points.push(Point { memory, position, owner, bytes, allocated_bytes });
        }
    }
}
