//! Drops device activities that enclose many others on their stream. A stream runs one activity at a time, so their times are
//! wrong.
//!
//! A profiler that loses the end of a kernel may write a kernel as long as the recording, which would hide all idle time. Nothing
//! is dropped in a file of several processes: each process numbers its devices and streams separately, so one number may refer to
//! several streams.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::column::NULL_I32;

use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Minimum number of activities of other calls that an activity with wrong times encloses.
const MIN_ENCLOSED: usize = 10;
/// Number of following activities on the stream that are compared with an activity.
const MAX_COMPARED: usize = 32;
/// An activity with wrong times lasts for at least this fraction, one half, of the extent of its stream.
const EXTENT_PARTS: i64 = 2;

/// The numbers of a device and of a stream on it.
type Stream = (i32, i32);

/// The time from the first to the last activity of a stream.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start_ns: i64,
    end_ns: i64,
    longest_ns: i64,
    count: usize,
}

impl Extent {
    fn may_hold_enclosing(&self) -> bool {
        self.count > MIN_ENCLOSED && is_most_of(self.longest_ns, self)
    }
}

fn is_most_of(dur_ns: i64, extent: &Extent) -> bool {
    dur_ns.saturating_mul(EXTENT_PARTS) >= extent.end_ns - extent.start_ns
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum WorkTable {
    Kernels,
    Memcpys,
    Memsets,
}

/// A row of one of the tables. Of two activities that start at the same time, the longer one is ordered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Activity {
    stream: Stream,
    ts_ns: i64,
    end_ns: std::cmp::Reverse<i64>,
    table: WorkTable,
    row: usize,
    correlation: i64,
}

impl Activity {
    /// Returns whether another activity runs inside this one and a different call launched it. Nodes of one graph may overlap, so
    /// activities of the same call do not count. Tracers write the correlation 0 for "none".
    fn encloses(&self, other: &Self) -> bool {
        other.end_ns.0 <= self.end_ns.0
            && other.correlation > 0
            && other.correlation != self.correlation
    }
}

/// Calls `$each` with the stream, start, duration, correlation, table and row of each activity whose stream is known.
macro_rules! for_each_activity {
    ($columns:ident, $each:expr) => {
        for_each_activity!(@ $columns, $each, kernels = Kernels, memcpys = Memcpys, memsets = Memsets);
    };
    (@ $columns:ident, $each:expr, $($table:ident = $name:ident),+) => { $(
        let t = &$columns.$table;
        for row in 0..t.len() {
            let stream = (t.device.get(row), t.stream.get(row));
            if stream.0 != NULL_I32 && stream.1 >= 0 {
                $each(stream, t.ts_ns.get(row), t.dur_ns.get(row), t.correlation.get(row), WorkTable::$name, row);
            }
        }
    )+ };
}

/// Drops activities with wrong times. Takes linear time, and sorts the activities of streams that have an activity long enough.
pub(super) fn drop(columns: &mut Columns) {
    let extents = extents(columns);
    if !extents.values().any(Extent::may_hold_enclosing) || is_of_several_processes(columns) {
        return;
    }
    let wrong = enclosing(&activities(columns, &extents), &extents);
    if wrong.is_empty() {
        return;
    }
    macro_rules! take {
        ($($table:ident = $name:ident),+) => { $(
            let t = &columns.$table;
            let is_kept = |&row: &usize| !wrong.contains(&(WorkTable::$name, row));
            let rows: Vec<usize> = (0..t.len()).filter(is_kept).collect();
            if rows.len() < t.len() {
                columns.$table = t.take(&rows);
            }
        )+ };
    }
    take!(kernels = Kernels, memcpys = Memcpys, memsets = Memsets);
    columns.issues.add_many(Issue::EnclosingWork, wrong.len() as u64);
}

/// Returns whether several processes of the file call the runtime.
fn is_of_several_processes(columns: &Columns) -> bool {
    let calls = &columns.runtime_calls;
    let mut processes = (0..calls.len()).map(|row| columns.process(calls.thread.get(row)));
    processes.next().is_some_and(|first| processes.any(|process| process != first))
}

fn extents(columns: &Columns) -> FxHashMap<Stream, Extent> {
    let mut extents: FxHashMap<Stream, Extent> = FxHashMap::default();
    let mut add = |stream: Stream, ts_ns: i64, dur_ns: i64, _: i64, _: WorkTable, _: usize| {
        let new = Extent { start_ns: ts_ns, end_ns: ts_ns, longest_ns: 0, count: 0 };
        let extent = extents.entry(stream).or_insert(new);
        extent.start_ns = extent.start_ns.min(ts_ns);
        extent.end_ns = extent.end_ns.max(ts_ns + dur_ns);
        extent.longest_ns = extent.longest_ns.max(dur_ns);
        extent.count += 1;
    };
    for_each_activity!(columns, add);
    extents
}

/// Returns the activities of streams that may contain an activity with wrong times, sorted.
fn activities(columns: &Columns, extents: &FxHashMap<Stream, Extent>) -> Vec<Activity> {
    let mut activities = Vec::new();
    let mut add = |stream: Stream, ts_ns: i64, dur_ns: i64, correlation, table, row| {
        if extents.get(&stream).is_some_and(Extent::may_hold_enclosing) {
            let end_ns = std::cmp::Reverse(ts_ns + dur_ns);
            activities.push(Activity { stream, ts_ns, end_ns, table, row, correlation });
        }
    };
    for_each_activity!(columns, add);
    activities.sort_unstable();
    activities
}

/// Returns table and row of the activities with wrong times.
fn enclosing(
    activities: &[Activity],
    extents: &FxHashMap<Stream, Extent>,
) -> FxHashSet<(WorkTable, usize)> {
    let mut wrong = FxHashSet::default();
    for of_stream in activities.chunk_by(|a, b| a.stream == b.stream) {
        let Some(extent) = extents.get(&of_stream[0].stream) else { continue };
        for (at, activity) in of_stream.iter().enumerate() {
            if !is_most_of(activity.end_ns.0 - activity.ts_ns, extent) {
                continue;
            }
            let next = of_stream[at + 1..].iter().take(MAX_COMPARED);
            if next.filter(|other| activity.encloses(other)).count() >= MIN_ENCLOSED {
                wrong.insert((activity.table, activity.row));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use trace_model::column::NULL_I64;
    use trace_model::tables::{Kernel, RuntimeCall};

    use super::*;

    const LONG_NS: i64 = 1_000;

    /// Returns a kernel of call 1 that lasts `long_ns`, and `count` kernels of 10 ns that start after it, with the correlations of
    /// `correlation`. The extent of the stream is [`LONG_NS`].
    fn enclosing(long_ns: i64, count: i64, correlation: impl Fn(i64) -> i64) -> Columns {
        let mut columns = Columns::default();
        let mut add = |event_id: i64, ts_ns: i64, dur_ns: i64, correlation: i64| {
            let of_stream = Kernel { device: 0, stream: 7, thread: 0, ..Kernel::null_row() };
            columns.kernels.push(Kernel { event_id, ts_ns, dur_ns, correlation, ..of_stream });
        };
        add(0, 0, long_ns, 1);
        for at in 0..count {
            add(1 + at, 20 * (1 + at), 10, correlation(at));
        }
        add(1 + count, LONG_NS - 10, 10, 99);
        columns
    }

    fn dropped_count(mut columns: Columns) -> usize {
        let count = columns.kernels.len();
        drop(&mut columns);
        count - columns.kernels.len()
    }

    #[test]
    fn an_activity_that_encloses_ten_of_other_calls_is_dropped() {
        let other = |at: i64| 2 + at;
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 10, other)), 1);
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 9, other)), 0, "nine of them");
        assert_eq!(dropped_count(enclosing(LONG_NS / 2 - 1, 10, other)), 0, "under half the time");
    }

    #[test]
    fn activities_of_the_same_or_an_unknown_call_may_run_side_by_side() {
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 20, |_| 1)), 0, "nodes of one graph");
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 20, |_| NULL_I64)), 0, "no call");
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 20, |_| 0)), 0, "0 stands for no call");
        let some = |at: i64| if at < 10 { 2 + at } else { NULL_I64 };
        assert_eq!(dropped_count(enclosing(LONG_NS / 2, 20, some)), 1);
    }

    #[test]
    fn streams_of_several_processes_may_share_their_number() {
        for (second, expected) in [("1", 1), ("2", 0)] {
            let mut columns = enclosing(LONG_NS / 2, 10, |at| 2 + at);
            let thread = columns.strings.intern("7");
            for (lane, process) in ["1", second].into_iter().enumerate() {
                let process = columns.strings.intern(process);
                columns.lanes.push((process, thread));
                let thread = lane as i32;
                columns.runtime_calls.push(RuntimeCall { thread, ..RuntimeCall::null_row() });
            }
            assert_eq!(dropped_count(columns), expected, "process {second}");
        }
    }
}
