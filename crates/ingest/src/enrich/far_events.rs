//! Drops events with impossible times, and sizes that add up to too much, so that no sum over the events of a rank exceeds
//! 64 bits.
//!
//! A single wrong time (some profilers write a clock with a different epoch) would make the recording decades long and
//! all ratios to its length meaningless.

use crate::quantity::{MAX_DURATION_NS, limit_total};
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Maximum sum of all durations of a rank: 9 years. The sum over 32 such ranks fits into 64 bits.
const MAX_TOTAL_NS: i64 = 1 << 58;

/// Replaces the largest sizes and counts by null where those of a table add up to too much. Takes linear time.
pub(super) fn limit_totals(columns: &mut Columns) {
    let columns_with_totals = [
        &mut columns.memcpys.bytes.0,
        &mut columns.memsets.bytes.0,
        &mut columns.memory_events.bytes.0,
        &mut columns.collectives.input_elements.0,
        &mut columns.collectives.output_elements.0,
        &mut columns.kernels.blocks.0,
    ];
    let dropped = columns_with_totals.into_iter().map(|values| limit_total(values)).sum();
    columns.issues.add_many(Issue::NumberOutOfBounds, dropped);
}

/// If the recording is longer than [`MAX_DURATION_NS`], drops events more than half of that from the median start. If
/// the durations add up to more than [`MAX_TOTAL_NS`], drops the longest events. Takes linear time.
pub(super) fn drop(columns: &mut Columns) {
    let times = Times::of(columns);
    if times.count == 0 {
        return;
    }
    let is_far = times.end_ns - times.start_ns > MAX_DURATION_NS;
    if !is_far && times.total_ns <= i128::from(MAX_TOTAL_NS) {
        return;
    }
    let (first_ns, last_ns) = if is_far {
        let median_ns = median_start(columns);
        (median_ns - MAX_DURATION_NS / 2, median_ns + MAX_DURATION_NS / 2)
    } else {
        (times.start_ns, times.end_ns)
    };
    let longest_ns = if times.total_ns > i128::from(MAX_TOTAL_NS) {
        MAX_TOTAL_NS / times.count
    } else {
        MAX_DURATION_NS
    };
    let is_kept = |ts_ns: i64, dur_ns: i64| {
        ts_ns >= first_ns && ts_ns + dur_ns <= last_ns && dur_ns <= longest_ns
    };
    let mut dropped = 0;
    macro_rules! each {
        ($($table:ident),+) => { $(
            let t = &columns.$table;
            let rows: Vec<usize> =
                (0..t.len()).filter(|&row| is_kept(t.ts_ns.get(row), t.dur_ns.get(row))).collect();
            dropped += t.len() - rows.len();
            if rows.len() < t.len() {
                columns.$table = t.take(&rows);
            }
        )+ };
    }
    each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
    each!(device_syncs, profiler_ranges, spans);
    let begin_end_count = columns.begin_end_events.len();
    columns.begin_end_events.retain(|event| is_kept(event.ts_ns, 0));
    dropped += begin_end_count - columns.begin_end_events.len();
    // These rows describe events that are already counted.
    let t = &columns.collectives;
    let rows: Vec<usize> =
        (0..t.len()).filter(|&row| is_kept(t.ts_ns.get(row), t.dur_ns.get(row))).collect();
    columns.collectives = t.take(&rows);
    columns.issues.add_many(Issue::FarEvent, dropped as u64);
}

/// Calls `$each` with the start and duration of every event; begin and end events have no duration.
macro_rules! for_each_event {
    ($columns:ident, $each:expr) => {
        for_each_event!(@ $columns, $each, cpu_ops, runtime_calls, annotations, python_frames, kernels);
        for_each_event!(@ $columns, $each, memcpys, memsets, device_syncs, profiler_ranges, spans);
        $columns.begin_end_events.iter().for_each(|event| $each(event.ts_ns, 0));
    };
    (@ $columns:ident, $each:expr, $($table:ident),+) => { $(
        let t = &$columns.$table;
        for (&ts_ns, &dur_ns) in t.ts_ns.0.iter().zip(&t.dur_ns.0) {
            $each(ts_ns, dur_ns);
        }
    )+ };
}

struct Times {
    start_ns: i64,
    end_ns: i64,
    total_ns: i128,
    count: i64,
}

impl Times {
    fn of(columns: &Columns) -> Self {
        let mut times = Self { start_ns: i64::MAX, end_ns: i64::MIN, total_ns: 0, count: 0 };
        let mut add = |ts_ns: i64, dur_ns: i64| {
            times.start_ns = times.start_ns.min(ts_ns);
            times.end_ns = times.end_ns.max(ts_ns + dur_ns);
            times.total_ns += i128::from(dur_ns);
            times.count += 1;
        };
        for_each_event!(columns, add);
        times
    }
}

/// Returns the median start. The columns must not be empty.
fn median_start(columns: &Columns) -> i64 {
    let mut starts = Vec::new();
    let mut add = |ts_ns: i64, _| starts.push(ts_ns);
    for_each_event!(columns, add);
    let middle = starts.len() / 2;
    *starts.select_nth_unstable(middle).1
}
