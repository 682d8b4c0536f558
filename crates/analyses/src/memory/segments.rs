//! The segments of the caching allocator at a moment, and what lies in them.

use std::collections::BTreeMap;

use super::classify::Allocation;

/// Sizes of blocks are multiples of it.
const BLOCK_BYTES: i64 = 512;
/// The allocator splits off the rest of a block in a large segment if the rest is larger than this.
const MIN_SPLIT_BYTES: i64 = 1 << 20;
/// Size of segments for small allocations.
pub(super) const SMALL_SEGMENT_BYTES: i64 = 2 << 20;
/// Larger allocations go into large segments.
const MAX_SMALL_ALLOCATION_BYTES: i64 = 1 << 20;

/// A range of device memory that the caching allocator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) stream: Option<i64>,
    /// It is for small allocations.
    pub(super) is_small: bool,
    /// It belongs to a private pool, as CUDA graphs use them.
    pub(super) is_private: bool,
    /// It grows and shrinks in parts that lie side by side.
    pub(super) is_expandable: bool,
}

/// A segment, or a part of one, that the allocator took or gave back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) position: i64,
    pub(super) is_taken: bool,
    pub(super) segment: Segment,
}

/// The segments in the end, and how they came about.
#[derive(Debug, Default)]
pub(super) struct Segments {
    last: BTreeMap<i64, Segment>,
    /// In order of positions.
    changes: Vec<Change>,
}

/// The content of a stretch of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Allocation(&'a Allocation),
    /// The rest of a block whose allocation is smaller.
    Rounding,
    Free,
}

/// An allocation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) bytes: i64,
    pub(super) stream: Option<i64>,
}

impl Segments {
    pub(super) fn add(&mut self, segment: Segment) {
        insert(&mut self.last, segment);
    }

    /// The segment around an address in the end.
    pub(super) fn last_at(&self, address: i64) -> Option<&Segment> {
        let (_, segment) = self.last.range(..=address).next_back()?;
        (address < segment.end).then_some(segment)
    }

    /// Adds a change that follows all others.
    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The changes after an event.
    pub(super) fn changes_after(&self, position: i64) -> impl Iterator<Item = &Change> {
        let first = self.changes.partition_point(|change| change.position <= position);
        self.changes[first..].iter()
    }

    /// The segments after an event, in order of addresses; parts that lie side by side are one.
    pub(super) fn at(&self, position: i64) -> Vec<Segment> {
        let mut held = self.last.clone();
        let later = self.changes.iter().rev().take_while(|change| change.position > position);
        for change in later {
            remove(&mut held, change.segment.start, change.segment.end);
            if !change.is_taken {
                insert(&mut held, change.segment);
            }
        }
        let mut joined: Vec<Segment> = Vec::with_capacity(held.len());
        for segment in held.into_values() {
            match joined.last_mut() {
                Some(last)
                    if last.is_expandable
                        && segment.is_expandable
                        && last.end == segment.start
                        && last.stream == segment.stream =>
                {
                    last.end = segment.end;
                    // A part does not say what the whole is for.
                    last.is_small &= segment.is_small;
                    last.is_private |= segment.is_private;
                }
                _ => joined.push(segment),
            }
        }
        joined
    }
}

fn insert(held: &mut BTreeMap<i64, Segment>, segment: Segment) {
    if segment.start < segment.end {
        remove(held, segment.start, segment.end);
        held.insert(segment.start, segment);
    }
}

/// Takes a range of addresses out.
fn remove(held: &mut BTreeMap<i64, Segment>, start: i64, end: i64) {
    let overlaps = |held: &BTreeMap<i64, Segment>| {
        Some(*held.range(..end).next_back()?.1).filter(|s| s.end > start)
    };
    while let Some(segment) = overlaps(held) {
        held.remove(&segment.start);
        if segment.start < start {
            held.insert(segment.start, Segment { end: start, ..segment });
        }
        if segment.end > end {
            held.insert(end, Segment { start: end, ..segment });
        }
    }
}

/// Calls `add` with the address, size and content of each stretch of a segment, in order.
///
/// `allocations` are those that are held, in order of addresses; those before the segment are taken off.
pub(super) fn stretches<'a>(
    segment: &Segment,
    allocations: &mut &[&'a Allocation],
    mut add: impl FnMut(i64, i64, Content<'a>),
) {
    let mut at = segment.start;
    let mut last_bytes = None;
    let fill = |at: i64, end: i64, last_bytes: Option<i64>| {
        let gap = end.saturating_sub(at);
        let rounding = match last_bytes {
            None => 0,
            Some(_) if !segment.is_small && gap <= MIN_SPLIT_BYTES => gap,
            Some(bytes) => (-bytes).rem_euclid(BLOCK_BYTES).min(gap),
        };
        (rounding, gap - rounding)
    };
    while let Some((&allocation, rest)) = allocations.split_first() {
        if allocation.address >= segment.end {
            break;
        }
        *allocations = rest;
        let end = allocation.address.saturating_add(allocation.bytes).min(segment.end);
        if end <= at || allocation.address < segment.start {
            continue; // another segment's, empty, or contradictory
        }
        let start = allocation.address.max(at);
        let (rounding, free) = fill(at, start, last_bytes);
        add(at, rounding, Content::Rounding);
        add(at + rounding, free, Content::Free);
        add(start, end - start, Content::Allocation(allocation));
        at = end;
        last_bytes = Some(allocation.bytes);
    }
    let (rounding, free) = fill(at, segment.end, last_bytes);
    add(at, rounding, Content::Rounding);
    add(at + rounding, free, Content::Free);
}

/// Why a free stretch is not used. `is_used`: something else is in its segment.
pub(super) fn free_owner(
    segment: &Segment,
    bytes: i64,
    is_used: bool,
    request: Option<Request>,
) -> &'static str {
    let Some(request) = request else {
        return if is_used { "free_in_used_segments" } else { "free_segments" };
    };
    let is_small = request.bytes <= MAX_SMALL_ALLOCATION_BYTES;
    if segment.is_private {
        "free_in_graph_pool"
    } else if segment.stream.zip(request.stream).is_some_and(|(of, by)| of != by) {
        "free_of_other_stream"
    } else if segment.is_small != is_small && !segment.is_expandable {
        "free_of_other_size_class"
    } else if bytes < request.bytes {
        "free_too_small"
    } else if is_used {
        "free_in_used_segments"
    } else {
        "free_segments"
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Content, Request, Segment, Segments, free_owner, stretches};
    use crate::memory::classify::Allocation;

    fn segment(start: i64, end: i64) -> Segment {
        Segment {
            start,
            end,
            stream: Some(0),
            is_small: false,
            is_private: false,
            is_expandable: false,
        }
    }

    fn ranges(segments: &Segments, position: i64) -> Vec<(i64, i64)> {
        segments.at(position).iter().map(|segment| (segment.start, segment.end)).collect()
    }

    #[test]
    fn segments_are_traced_back_from_the_end() {
        let mut segments = Segments::default();
        segments.add(segment(0, 100));
        segments.add(segment(300, 400));
        let mut change = |position, is_taken, start, end| {
            segments.change(Change { position, is_taken, segment: segment(start, end) });
        };
        change(5, true, 200, 250);
        change(6, false, 200, 250);
        change(7, true, 300, 400);
        assert_eq!(ranges(&segments, 9), [(0, 100), (300, 400)]);
        assert_eq!(ranges(&segments, 6), [(0, 100)]);
        assert_eq!(ranges(&segments, 5), [(0, 100), (200, 250)]);
        assert_eq!(ranges(&segments, -1), [(0, 100)]);
        assert_eq!(segments.changes_after(5).count(), 2);
    }

    #[test]
    fn parts_of_an_expandable_segment_are_one() {
        let part = |start, end| Segment { is_expandable: true, ..segment(start, end) };
        let mut segments = Segments::default();
        segments.add(part(0, 60));
        segments.change(Change { position: 1, is_taken: true, segment: part(20, 40) });
        segments.change(Change { position: 2, is_taken: true, segment: part(40, 60) });
        segments.change(Change { position: 3, is_taken: false, segment: part(60, 80) });
        assert_eq!(ranges(&segments, 3), [(0, 60)]);
        assert_eq!(ranges(&segments, 2), [(0, 80)]);
        assert_eq!(ranges(&segments, 1), [(0, 40), (60, 80)]);
        assert_eq!(ranges(&segments, 0), [(0, 20), (60, 80)]);
    }

    #[test]
    fn stretches_tile_a_segment() {
        const MIB: i64 = 1 << 20;
        let held = [(2 * MIB, 3 * MIB - 100), (5 * MIB + 4096, 10), (9 * MIB, MIB)]
            .map(|(address, bytes)| Allocation { address, bytes, ..Allocation::default() });
        let held: Vec<&Allocation> = held.iter().collect();
        let mut found = Vec::new();
        let mut rest = held.as_slice();
        stretches(&segment(0, 10 * MIB), &mut rest, |at, bytes, content| {
            let kind = match content {
                Content::Allocation(_) => 'a',
                Content::Rounding => 'r',
                Content::Free => 'f',
            };
            if bytes > 0 {
                found.push((at, bytes, kind));
            }
        });
        assert_eq!(
            found,
            [
                (0, 2 * MIB, 'f'),
                (2 * MIB, 3 * MIB - 100, 'a'),
                // Too little to be split off.
                (5 * MIB - 100, 4196, 'r'),
                (5 * MIB + 4096, 10, 'a'),
                (5 * MIB + 4106, 502, 'r'),
                (5 * MIB + 4608, 4 * MIB - 4608, 'f'),
                (9 * MIB, MIB, 'a'),
            ]
        );
    }

    #[test]
    fn free_memory_has_the_reason_for_which_a_request_cannot_use_it() {
        let large = segment(0, 40 << 20);
        let request = Some(Request { bytes: 8 << 20, stream: Some(0) });
        let owner =
            |segment: Segment, bytes, is_used| free_owner(&segment, bytes, is_used, request);
        assert_eq!(free_owner(&large, 1 << 20, true, None), "free_in_used_segments");
        assert_eq!(free_owner(&large, 40 << 20, false, None), "free_segments");
        assert_eq!(owner(large, 4 << 20, true), "free_too_small");
        assert_eq!(
            owner(Segment { stream: Some(7), ..large }, 9 << 20, true),
            "free_of_other_stream"
        );
        assert_eq!(
            owner(Segment { is_private: true, ..large }, 9 << 20, true),
            "free_in_graph_pool"
        );
        assert_eq!(
            owner(Segment { is_small: true, ..large }, 4096, true),
            "free_of_other_size_class"
        );
    }
}
