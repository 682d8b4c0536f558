//! `memory_segment_map`: the layout of the caching allocator's segments.

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::classify::Allocation;
use super::load::{Memories, Memory, Moment};
use super::segments::{Content, Request, Segment, free_owner, stretches};

/// A stretch of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'a> {
    /// Index of the segment.
    pub(super) segment: usize,
    pub(super) address: i64,
    pub(super) bytes: i64,
    pub(super) content: Content<'a>,
}

/// All segments of a memory at a moment, and what they hold, in order of addresses.
#[derive(Debug)]
pub(super) struct SegmentMap<'a> {
    pub(super) segments: Vec<Segment>,
    pub(super) stretches: Vec<Stretch<'a>>,
    /// For each segment, whether it holds an allocation.
    is_used: Vec<bool>,
    request: Option<Request>,
}

impl<'a> SegmentMap<'a> {
    pub(super) fn of(memory: &'a Memory, moment: Moment) -> Self {
        let segments = memory.segments.at(moment.position);
        let mut held: Vec<&Allocation> =
            memory.allocations.iter().filter(|a| a.is_held_at(moment.position)).collect();
        held.sort_by_key(|allocation| allocation.address);
        let mut rest = held.as_slice();
        let mut found = Vec::new();
        let mut is_used = vec![false; segments.len()];
        for (index, segment) in segments.iter().enumerate() {
            stretches(segment, &mut rest, |address, bytes, content| {
                is_used[index] |= matches!(content, Content::Allocation(_));
                if bytes > 0 {
                    found.push(Stretch { segment: index, address, bytes, content });
                }
            });
        }
        Self { segments, stretches: found, is_used, request: moment.request }
    }

    pub(super) fn reserved_bytes(&self) -> i64 {
        let bytes = |segment: &Segment| segment.end.saturating_sub(segment.start);
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(bytes(segment)))
    }

    /// Why a free stretch is not used, as an owner of memory.
    pub(super) fn free_owner(&self, stretch: &Stretch<'_>) -> &'static str {
        let segment = &self.segments[stretch.segment];
        free_owner(segment, stretch.bytes, self.is_used[stretch.segment], self.request)
    }
}

/// Neighboring allocations of one owner and place, or a free stretch.
struct Row<'a> {
    memory: &'a Memory,
    moment: Moment,
    segment: Segment,
    address: i64,
    bytes: i64,
    rounding_bytes: i64,
    owner: &'static str,
    place: Option<&'a str>,
    allocation_count: i64,
}

pub(super) fn segment_map(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let memories = Memories::read(inputs)?;
    let mut rows = Vec::new();
    for memory in &memories.memories {
        for &moment in &memory.moments {
            add_rows(&memories, memory, moment, &mut rows);
        }
    }
    BatchBuilder::of(&rows)
        .int32("rank", |row| row.memory.rank)
        .int("snapshot", |row| row.memory.snapshot)
        .text("memory", |row| Some(row.memory.space.as_str()))
        .int32("device", |row| row.memory.device)
        .text("moment", |row| Some(row.moment.name))
        .int("segment_address", |row| Some(row.segment.start))
        .int("segment_bytes", |row| Some(row.segment.end - row.segment.start))
        .int("stream", |row| row.segment.stream)
        .text("size_class", |row| Some(if row.segment.is_small { "small" } else { "large" }))
        .flag("is_private", |row| row.segment.is_private)
        .int("offset_bytes", |row| Some(row.address - row.segment.start))
        .int("bytes", |row| Some(row.bytes))
        .int("rounding_bytes", |row| Some(row.rounding_bytes))
        .text("owner", |row| Some(row.owner))
        .text("place", |row| row.place)
        .int("allocation_count", |row| Some(row.allocation_count))
        .finish()
}

fn add_rows<'a>(
    memories: &'a Memories,
    memory: &'a Memory,
    moment: Moment,
    rows: &mut Vec<Row<'a>>,
) {
    let map = SegmentMap::of(memory, moment);
    let mut last: Option<Row<'a>> = None;
    for stretch in &map.stretches {
        let segment = map.segments[stretch.segment];
        let (owner, place, count) = match stretch.content {
            Content::Allocation(a) => (a.owner.name(), memories.place(a.place), 1),
            Content::Free => (map.free_owner(stretch), None, 0),
            Content::Rounding => {
                if let Some(row) = &mut last {
                    row.bytes += stretch.bytes;
                    row.rounding_bytes += stretch.bytes;
                }
                continue;
            }
        };
        match &mut last {
            Some(row)
                if count > 0
                    && row.allocation_count > 0
                    && row.segment.start == segment.start
                    && (row.owner, row.place) == (owner, place) =>
            {
                row.bytes += stretch.bytes;
                row.allocation_count += 1;
            }
            _ => rows.extend(last.replace(Row {
                memory,
                moment,
                segment,
                address: stretch.address,
                bytes: stretch.bytes,
                rounding_bytes: 0,
                owner,
                place,
                allocation_count: count,
            })),
        }
    }
    rows.extend(last);
}
