//! `kernel_annotations`: the innermost device annotation around each kernel.
//!
//! Annotations of a stream need not nest: several host threads launch on it, so two ranges may overlap without one
//! containing the other. As in HTA, the shortest range that overlaps a kernel is its annotation.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use query::rust_view::Result;
use trace_model::RecordBatch;

use query::columns::ints;
use query::rust_view::{RustView, ViewInputs};

pub(crate) const VIEW: RustView = RustView::new(
    "kernel_annotations",
    &[
        (
            "work",
            "SELECT rank, event_id, category, kind, name, ts_ns, dur_ns, device, stream, thread
             FROM device_activities
             ORDER BY rank, thread, ts_ns, event_id",
        ),
        (
            "ranges",
            "SELECT a.rank, a.event_id, a.name, a.ts_ns, a.dur_ns, a.thread
             FROM annotations a
             JOIN ranks r ON r.rank = a.rank
             WHERE a.on_device
                AND coalesce(a.ts_ns < r.cut_ns OR ($include_last_step AND a.ts_ns <= r.steps_end_ns), true)
             ORDER BY a.rank, a.thread, a.ts_ns, a.event_id",
        ),
    ],
    compute,
);

fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let (work, ranges) = (inputs.batch("work")?, inputs.batch("ranges")?);
    let (lanes, spans) = lanes_and_spans(work)?;
    let (range_lanes, range_spans) = lanes_and_spans(ranges)?;
    let mut found: Vec<Option<u32>> = Vec::with_capacity(spans.len());
    let (mut start, mut first) = (0, 0);
    while start < lanes.len() {
        let lane = lanes[start];
        let end = start + lanes[start..].partition_point(|&other| other == lane);
        first += range_lanes[first..].partition_point(|&other| other < lane);
        let last = first + range_lanes[first..].partition_point(|&other| other == lane);
        let innermost = innermost(&spans[start..end], &range_spans[first..last]);
        found.extend(innermost.into_iter().map(|i| i.map(|i| (first + i) as u32)));
        (start, first) = (end, last);
    }

    let at = UInt32Array::from(found);
    let names = take(ranges.column(ranges.schema().index_of("name")?), &at, None)?;
    let events: ArrayRef = Arc::new(take(&ints(ranges, "event_id")?, &at, None)?);
    let mut fields: Vec<Arc<Field>> = work.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("annotation", names.data_type().clone(), true)));
    fields.push(Arc::new(Field::new("annotation_event_id", DataType::Int64, true)));
    let columns = work.columns().iter().cloned().chain([names, events]).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Rank and lane.
type Lane = (i64, i64);

/// The lane and the time span of each row.
fn lanes_and_spans(batch: &RecordBatch) -> Result<(Vec<Lane>, Vec<TimeSpan>)> {
    let [rank, thread, ts, dur]: [Int64Array; 4] = [
        ints(batch, "rank")?,
        ints(batch, "thread")?,
        ints(batch, "ts_ns")?,
        ints(batch, "dur_ns")?,
    ];
    let lanes = rank.values().iter().copied().zip(thread.values().iter().copied()).collect();
    // Work without length counts as one nanosecond long.
    let span = |(&start, &dur): (&i64, &i64)| TimeSpan { start, end: start + dur.max(1) };
    Ok((lanes, ts.values().iter().zip(dur.values()).map(span).collect()))
}

/// From `start` up to and excluding `end`.
#[derive(Debug, Clone, Copy)]
struct TimeSpan {
    start: i64,
    end: i64,
}

/// For each item of `work`, which is sorted by start, the shortest of `ranges` that overlaps it; of equally short
/// ranges the one that starts later or comes later.
///
/// The shortest range takes all work that it overlaps, then the next one takes from the rest. Each item is taken
/// once, so the cost is `O(n log n)` for any overlaps.
fn innermost(work: &[TimeSpan], ranges: &[TimeSpan]) -> Vec<Option<usize>> {
    let mut innermost = vec![None; work.len()];
    let mut left = LatestEndTree::of(work);
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&i| (ranges[i].end - ranges[i].start, Reverse((ranges[i].start, i))));
    for i in order {
        let before = work.partition_point(|w| w.start < ranges[i].end);
        while let Some(taken) = left.take_one(before, ranges[i].start) {
            innermost[taken] = Some(i);
        }
    }
    innermost
}

/// A tree over the remaining work: each node holds the latest end below it.
struct LatestEndTree {
    leaves: usize,
    /// The root is 1, the children of `n` are `2n` and `2n + 1`.
    nodes: Vec<i64>,
}

impl LatestEndTree {
    const TAKEN: i64 = i64::MIN;

    fn of(work: &[TimeSpan]) -> Self {
        let leaves = work.len().next_power_of_two();
        let mut nodes = vec![Self::TAKEN; 2 * leaves];
        for (i, span) in work.iter().enumerate() {
            nodes[leaves + i] = span.end;
        }
        for n in (1..leaves).rev() {
            nodes[n] = nodes[2 * n].max(nodes[2 * n + 1]);
        }
        Self { leaves, nodes }
    }

    /// Takes the first item among the first `before` that ends after `after`.
    fn take_one(&mut self, before: usize, after: i64) -> Option<usize> {
        let leaf = self.first(1, 0, self.leaves, before, after)?;
        let mut n = self.leaves + leaf;
        self.nodes[n] = Self::TAKEN;
        while n > 1 {
            n /= 2;
            self.nodes[n] = self.nodes[2 * n].max(self.nodes[2 * n + 1]);
        }
        Some(leaf)
    }

    /// The first leaf below `node`, which spans `width` leaves from `from` on.
    fn first(
        &self,
        node: usize,
        from: usize,
        width: usize,
        before: usize,
        after: i64,
    ) -> Option<usize> {
        if from >= before || self.nodes[node] <= after {
            return None;
        }
        if width == 1 {
            return Some(from);
        }
        let half = width / 2;
        self.first(2 * node, from, half, before, after)
            .or_else(|| self.first(2 * node + 1, from + half, half, before, after))
    }
}

#[cfg(test)]
mod tests {
    use super::{TimeSpan, innermost};

    fn spans(of: &[(i64, i64)]) -> Vec<TimeSpan> {
        of.iter().map(|&(start, end)| TimeSpan { start, end }).collect()
    }

    #[test]
    fn innermost_prefers_the_shortest_overlapping_range() {
        let ranges = spans(&[(0, 100), (10, 30), (25, 60)]);
        let work = spans(&[(0, 5), (9, 11), (20, 24), (24, 26), (30, 40), (60, 70), (100, 110)]);
        let expected = [Some(0), Some(1), Some(1), Some(1), Some(2), Some(0), None];
        assert_eq!(innermost(&work, &ranges), expected);
    }

    #[test]
    fn innermost_prefers_the_later_of_equally_short_ranges() {
        assert_eq!(innermost(&spans(&[(5, 6)]), &spans(&[(0, 10), (1, 11), (1, 11)])), [Some(2)]);
    }

    #[test]
    fn innermost_handles_empty_inputs() {
        assert_eq!(innermost(&[], &spans(&[(0, 1)])), []);
        assert_eq!(innermost(&spans(&[(0, 1)]), &[]), [None]);
    }

    /// Compares with the definition on arbitrarily overlapping ranges and work.
    #[test]
    fn innermost_equals_a_naive_model() {
        let mut seed = 7_u64;
        let mut random = |below: i64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) as i64) % below
        };
        for _ in 0..200 {
            let mut any = |count: i64| {
                let mut spans: Vec<TimeSpan> = (0..random(count))
                    .map(|_| {
                        let start = random(60);
                        TimeSpan { start, end: start + 1 + random(20) }
                    })
                    .collect();
                spans.sort_by_key(|s| s.start);
                spans
            };
            let (work, ranges) = (any(40), any(12));
            for (w, found) in work.iter().zip(innermost(&work, &ranges)) {
                let overlapping = (0..ranges.len())
                    .filter(|&i| ranges[i].start < w.end && w.start < ranges[i].end);
                let expected = overlapping.min_by_key(|&i| {
                    let length = ranges[i].end - ranges[i].start;
                    (length, -ranges[i].start, std::cmp::Reverse(i))
                });
                assert_eq!(found, expected);
            }
        }
    }
}
