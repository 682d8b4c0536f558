//! Traces of `torch.autograd`'s profiler before torch 1.8: arrows lead from operators to what the device ran for them, and
//! no call of the runtime is recorded.
//!
//! With `use_cuda=True` the profiler records an event of CUDA before and after each operator, so that the device has the
//! same nested ranges as the host, under the names of the operators. With `emit_nvtx` it has kernels, under their own names.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;
use trace_model::column::NULL_I64;
use trace_model::tables::Annotation;

use super::steps::Lookup;
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Category of the arrows.
const ARROWS: &str = "cpu_to_cuda";

/// Process of the device.
const DEVICE: &str = "CUDA functions";

/// Times in such traces are rounded to this: a range may seem to outlast the one around it.
const ROUNDING_NS: i64 = 1_000;

/// Operators that allocate, or make another view of a tensor: nothing runs on the device for them.
#[rustfmt::skip]
const WITHOUT_WORK: [&str; 27] = [
    "alias", "as_strided", "detach", "detach_", "diagonal", "empty", "empty_like", "empty_strided", "expand",
    "expand_as", "is_floating_point", "narrow", "permute", "resize_", "resize_as_", "select", "set_", "size", "slice", "split",
    "squeeze", "stride", "t", "transpose", "unsqueeze", "view", "view_as",
];

/// A device activity and the operator that launched it.
#[derive(Debug, Clone, Copy)]
struct Launch {
    op_row: usize,
    kernel_row: usize,
}

/// Operators by the id of what they launched.
#[derive(Debug, Default)]
pub(crate) struct Launches(FxHashMap<i64, usize>);

/// Links device activities with the operators from which arrows lead to them. Of nested ranges of operators on the device,
/// only those are work in which something ran: the others become ranges on the device.
pub(crate) fn link(columns: &mut Columns) -> Launches {
    let launches = launches(columns);
    if launches.is_empty() {
        return Launches::default();
    }
    columns.cpu_ops.external_id.pad(columns.cpu_ops.ts_ns.0.len());
    columns.kernels.external_id.pad(columns.kernels.ts_ns.0.len());
    for &Launch { op_row, kernel_row } in &launches {
        if columns.cpu_ops.external_id.get(op_row) == NULL_I64 {
            columns.cpu_ops.external_id.set(op_row, op_row as i64 + 1);
        }
        let id = columns.cpu_ops.external_id.get(op_row);
        columns.kernels.external_id.set(kernel_row, id);
    }
    let by_event = launches
        .iter()
        .map(|launch| (columns.kernels.event_id.get(launch.kernel_row), launch.op_row))
        .collect();
    separate_ranges(columns, &launches);
    Launches(by_event)
}

/// The launches that arrows show, each activity once.
fn launches(columns: &Columns) -> Vec<Launch> {
    let strings = &columns.strings;
    let Some(arrows) = strings.find(ARROWS) else { return Vec::new() };
    let (Some(start), Some(end)) = (strings.find("s"), strings.find("f")) else {
        return Vec::new();
    };
    let (ops, kernels, flows) = (&columns.cpu_ops, &columns.kernels, &columns.flows);
    let ops_at = by_place(&ops.thread.0, &ops.ts_ns.0);
    let kernels_at = by_place(&kernels.thread.0, &kernels.ts_ns.0);
    let place = |row: usize| (flows.thread.get(row), flows.ts_ns.get(row));
    let is_arrow = |row: &usize| flows.category.get(*row) == arrows;
    let ends: FxHashMap<i64, usize> = (0..flows.len())
        .filter(is_arrow)
        .filter(|&row| flows.phase.get(row) == end)
        .map(|row| (flows.id.get(row), row))
        .collect();
    let mut is_launched = vec![false; kernels.len()];
    let mut launches = Vec::new();
    for row in (0..flows.len()).filter(is_arrow).filter(|&row| flows.phase.get(row) == start) {
        let Some(&end) = ends.get(&flows.id.get(row)) else { continue };
        let starting = ops_at.get(&place(row)).map_or(&[][..], Vec::as_slice);
        let ending = kernels_at.get(&place(end)).map_or(&[][..], Vec::as_slice);
        let launched = is_launched.as_slice();
        let free = move || ending.iter().copied().filter(move |&kernel| !launched[kernel]);
        // Several operators and ranges may start together: equal names belong together. The operator that was written last
        // is the innermost.
        let of_one_name = free().find_map(|kernel_row| {
            let name = kernels.name.get(kernel_row);
            let op_row = starting.iter().copied().find(|&op| ops.name.get(op) == name)?;
            Some(Launch { op_row, kernel_row })
        });
        let innermost =
            || Some(Launch { op_row: *starting.last()?, kernel_row: free().next_back()? });
        if let Some(launch) = of_one_name.or_else(innermost) {
            is_launched[launch.kernel_row] = true;
            launches.push(launch);
        }
    }
    launches
}

/// The rows that start at each time of a lane, in the order in which they were written.
fn by_place(lanes: &[i32], times: &[i64]) -> FxHashMap<(i32, i64), Vec<usize>> {
    let mut rows: FxHashMap<(i32, i64), Vec<usize>> = FxHashMap::default();
    for (row, (&lane, &ts_ns)) in lanes.iter().zip(times).enumerate() {
        rows.entry((lane, ts_ns)).or_default().push(row);
    }
    rows
}

/// A range of an operator on the device.
struct DeviceRange {
    row: usize,
    ts_ns: i64,
    end_ns: i64,
    has_work: bool,
    /// Time of the ranges directly inside in which something ran.
    inner_work_ns: i64,
    /// The longest stretch of time in none of the ranges directly inside, up to `covered_ns`.
    longest: (i64, i64),
    /// Time in none of them, up to `covered_ns`.
    own_ns: i64,
    covered_ns: i64,
}

impl DeviceRange {
    /// Counts the time until `until_ns` as outside of inner ranges, and goes on at `next_ns`.
    fn advance(&mut self, until_ns: i64, next_ns: i64) {
        let own_ns = until_ns - self.covered_ns;
        if own_ns > 0 {
            self.own_ns += own_ns;
            if own_ns > self.longest.1 - self.longest.0 {
                self.longest = (self.covered_ns, until_ns);
            }
        }
        self.covered_ns = self.covered_ns.max(next_ns);
    }
}

/// Turns ranges of operators on the device into kernels and ranges. A range is a kernel if no range inside has work. If
/// more of its time is outside of these than inside, it is one of its own, for the longest stretch of that time.
fn separate_ranges(columns: &mut Columns, launches: &[Launch]) {
    let without_work: FxHashSet<StrId> = WITHOUT_WORK
        .iter()
        .filter_map(|name| columns.strings.find(format!("aten::{name}")))
        .chain(columns.annotations.name.0.iter().copied())
        .collect();
    let (ops, kernels) = (&columns.cpu_ops, &columns.kernels);
    let has_name_of_op =
        |launch: &&Launch| kernels.name.get(launch.kernel_row) == ops.name.get(launch.op_row);
    // Ranges by their rows, and the rows of their operators: the outer of two that are equal was written first.
    let mut ranges: Vec<(usize, usize)> = launches
        .iter()
        .filter(has_name_of_op)
        .map(|launch| (launch.kernel_row, launch.op_row))
        .chain(ranges_of_annotations(columns).map(|row| (row, 0)))
        .collect();
    let span = |row: usize| {
        let ts_ns = kernels.ts_ns.get(row);
        (ts_ns, ts_ns + kernels.dur_ns.get(row))
    };
    ranges.sort_by_key(|&(row, op_row)| {
        let (ts_ns, end_ns) = span(row);
        (kernels.thread.get(row), ts_ns, Reverse(end_ns), op_row)
    });
    let (mut open, mut closed): (Vec<DeviceRange>, Vec<DeviceRange>) = (Vec::new(), Vec::new());
    for (row, _) in ranges {
        let (ts_ns, end_ns) = span(row);
        while let Some(outer) = open.last()
            && !(kernels.thread.get(outer.row) == kernels.thread.get(row)
                && ts_ns < outer.end_ns
                && end_ns <= outer.end_ns + ROUNDING_NS)
        {
            close_last(&mut open, &mut closed);
        }
        if let Some(outer) = open.last_mut() {
            outer.advance(ts_ns, end_ns);
        }
        open.push(DeviceRange {
            row,
            ts_ns,
            end_ns,
            has_work: !without_work.contains(&kernels.name.get(row)),
            inner_work_ns: 0,
            longest: (ts_ns, ts_ns),
            own_ns: 0,
            covered_ns: ts_ns,
        });
    }
    while !open.is_empty() {
        close_last(&mut open, &mut closed);
    }
    let mut is_range = vec![false; kernels.len()];
    for range in &closed {
        if range.inner_work_ns == 0 && range.has_work {
            continue;
        }
        if range.has_work && range.own_ns > range.inner_work_ns {
            let (ts_ns, end_ns) = range.longest;
            columns.kernels.ts_ns.set(range.row, ts_ns);
            columns.kernels.dur_ns.set(range.row, end_ns - ts_ns);
        } else {
            is_range[range.row] = true;
        }
    }
    add_ranges(columns, &is_range);
    columns.issues.add_many(Issue::OperatorTimesOnDevice, closed.len() as u64);
}

/// Rows of the device's copies of annotations on the host.
fn ranges_of_annotations(columns: &Columns) -> impl Iterator<Item = usize> {
    let names: FxHashSet<StrId> = columns.annotations.name.0.iter().copied().collect();
    let process = columns.strings.find(DEVICE);
    let kernels = &columns.kernels;
    (0..kernels.len()).filter(move |&row| {
        Some(columns.process(kernels.thread.get(row))) == process
            && names.contains(&kernels.name.get(row))
    })
}

/// Ends the innermost range, and tells the one around it of its work.
fn close_last(open: &mut Vec<DeviceRange>, closed: &mut Vec<DeviceRange>) {
    let Some(mut range) = open.pop() else { return };
    range.advance(range.end_ns, range.end_ns);
    if let Some(outer) = open.last_mut()
        && (range.has_work || range.inner_work_ns > 0)
    {
        outer.inner_work_ns += range.end_ns - range.ts_ns;
    }
    closed.push(range);
}

/// Moves these kernels to the ranges on the device.
fn add_ranges(columns: &mut Columns, is_range: &[bool]) {
    let kernels = &columns.kernels;
    for row in (0..is_range.len()).filter(|&row| is_range[row]) {
        columns.annotations.push_sparse(Annotation {
            event_id: kernels.event_id.get(row),
            name: kernels.name.get(row),
            on_device: true,
            ts_ns: kernels.ts_ns.get(row),
            dur_ns: kernels.dur_ns.get(row),
            self_dur_ns: kernels.dur_ns.get(row),
            thread: kernels.thread.get(row),
            ..Annotation::null_row()
        });
    }
    let kept: Vec<usize> = (0..is_range.len()).filter(|&row| !is_range[row]).collect();
    if kept.len() < is_range.len() {
        columns.kernels = columns.kernels.take(&kept);
    }
}

/// Makes operators the launching calls of the work that they launched, because no call of the runtime is recorded.
pub(crate) fn set_launches(columns: &mut Columns, launches: &Launches, steps: &Lookup) {
    if launches.0.is_empty() {
        return;
    }
    let ops = &columns.cpu_ops;
    let annotations = annotations_by_op(columns);
    let t = &mut columns.kernels;
    for row in 0..t.len() {
        let Some(&op) = launches.0.get(&t.event_id.get(row)) else { continue };
        let ts_ns = ops.ts_ns.get(op);
        t.launch.set(row, ops.event_id.get(op));
        t.launch_name.set(row, ops.name.get(op));
        t.launch_ts_ns.set(row, ts_ns);
        t.launch_dur_ns.set(row, ops.dur_ns.get(op));
        t.launch_thread.set(row, ops.thread.get(op));
        t.step.set(row, steps.at(ts_ns));
        t.op.set(row, ops.event_id.get(op));
        t.op_name.set(row, ops.name.get(op));
        t.source.set(row, ops.source.get(op));
        t.annotation.set(row, annotations[op]);
    }
}

/// The name of the innermost annotation around each operator.
fn annotations_by_op(columns: &Columns) -> Vec<StrId> {
    let (ops, ranges) = (&columns.cpu_ops, &columns.annotations);
    let mut parents: FxHashMap<i64, (i64, StrId)> = FxHashMap::default();
    for row in 0..ops.len() {
        parents.insert(ops.event_id.get(row), (ops.parent.get(row), StrId::NULL));
    }
    for row in (0..ranges.len()).filter(|&row| !ranges.on_device.get(row)) {
        parents.insert(ranges.event_id.get(row), (ranges.parent.get(row), ranges.name.get(row)));
    }
    let annotation_around = |op: usize| {
        let mut next = ops.parent.get(op);
        while let Some(&(parent, name)) = parents.get(&next) {
            if !name.is_null() {
                return name;
            }
            next = parent;
        }
        StrId::NULL
    };
    (0..ops.len()).map(annotation_around).collect()
}
