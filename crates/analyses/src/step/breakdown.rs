//! `step_breakdown_by_step`: assigns each moment of a step to the first of these that is active: a computing kernel,
//! a copy, a fill, communication, a runtime call, data loading, an operator or annotation; else to other time.

use query::rust_view::Result;
use std::collections::BTreeMap;
use trace_model::RecordBatch;

use crate::interval_set::{Interval, difference, overlap_per_window, union, union_of_sorted};
use crate::vocabulary::{is_communication_range, is_step_marker};
use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::ViewInputs;

pub(super) const INPUTS: &[(&str, &str)] = &[
    (
        "steps",
        "SELECT rank, step, source, ts_ns, end_ns, is_counted FROM complete_steps ORDER BY rank, ts_ns",
    ),
    ("work", "SELECT rank, category, kind, ts_ns, end_ns FROM device_work"),
    ("loads", "SELECT rank, ts_ns, end_ns FROM host_waits WHERE cause = 'dataloader'"),
    ("calls", "SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns FROM runtime_calls"),
    (
        "ranges",
        "SELECT rank, name, ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops
         UNION ALL
         SELECT rank, name, ts_ns, ts_ns + dur_ns FROM annotations WHERE NOT on_device",
    ),
];

const PART_COUNT: usize = 8;

/// Columns of the parts of a step, by priority; `OTHER` is last and takes the rest.
const PART_COLUMNS: [(&str, &str); PART_COUNT] = [
    ("kernel_ns", "kernel_ratio"),
    ("memcpy_ns", "memcpy_ratio"),
    ("memset_ns", "memset_ratio"),
    ("communication_ns", "communication_ratio"),
    ("runtime_ns", "runtime_ratio"),
    ("dataloader_ns", "dataloader_ratio"),
    ("cpu_exec_ns", "cpu_exec_ratio"),
    ("other_ns", "other_ratio"),
];
const KERNEL: usize = 0;
const MEMCPY: usize = 1;
const MEMSET: usize = 2;
const COMMUNICATION: usize = 3;
const RUNTIME: usize = 4;
const DATALOADER: usize = 5;
const CPU_EXEC: usize = 6;
const OTHER: usize = 7;

/// The part that a host range belongs to, before data loading is subtracted; `None` for marks of steps.
fn part_of_range(name: &str) -> Option<usize> {
    if is_step_marker(name) {
        return None;
    }
    Some(if is_communication_range(name) { COMMUNICATION } else { CPU_EXEC })
}

/// Classifies device work. Some traces record copies and fills as kernels.
fn part_of_work(category: &str, kind: &str) -> usize {
    match (category, kind) {
        ("memset", _) => MEMSET,
        ("memcpy", _) | (_, "memory") => MEMCPY,
        (_, "communication") => COMMUNICATION,
        _ => KERNEL,
    }
}

/// The steps of one rank, and the active intervals of each part.
#[derive(Debug, Default)]
struct RankActivity {
    windows: Vec<Interval>,
    active: [Vec<Interval>; OTHER],
}

impl RankActivity {
    fn add(&mut self, part: usize, span: Interval) {
        let (Some(first), Some(last)) = (self.windows.first(), self.windows.last()) else { return };
        if span.1 > first.0 && span.0 < last.1 {
            self.active[part].push(span);
        }
    }

    /// The length of each part in each step.
    fn parts(self) -> Vec<[i64; PART_COUNT]> {
        let mut lengths: Vec<[i64; PART_COUNT]> = self
            .windows
            .iter()
            .map(|&(start, end)| {
                let mut parts = [0; PART_COUNT];
                parts[OTHER] = end - start;
                parts
            })
            .collect();
        let mut taken = Vec::new();
        for (part, spans) in self.active.into_iter().enumerate() {
            let own = difference(&union(spans), &taken);
            for (step, length) in lengths.iter_mut().zip(overlap_per_window(&own, &self.windows)) {
                step[part] = length;
                step[OTHER] -= length;
            }
            taken = union_of_sorted(&taken, &own);
        }
        lengths
    }
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let steps = inputs.batch("steps")?;
    let (rank, number) = (ints(steps, "rank")?, ints(steps, "step")?);
    let (start, end) = (ints(steps, "ts_ns")?, ints(steps, "end_ns")?);
    let (source, is_counted) = (names(steps, "source")?, ints(steps, "is_counted")?);
    let mut ranks: BTreeMap<i64, RankActivity> = BTreeMap::new();
    for row in 0..steps.num_rows() {
        let windows = &mut ranks.entry(rank.value(row)).or_default().windows;
        windows.push((start.value(row), end.value(row)));
    }
    add_activity(inputs, &mut ranks)?;

    let parts: Vec<[i64; PART_COUNT]> = ranks.into_values().flat_map(RankActivity::parts).collect();
    let rows: Vec<(usize, [i64; PART_COUNT])> = parts.into_iter().enumerate().collect();
    let step_ns = |row: usize| end.value(row) - start.value(row);
    let mut output = BatchBuilder::of(&rows)
        .int32("rank", |&(row, _)| rank.value(row))
        .int("step", |&(row, _)| get(&number, row))
        .utf8("source", |&(row, _)| source.get(row))
        .flag("is_counted", |&(row, _)| is_counted.value(row) != 0)
        .int("ts_ns", |&(row, _)| Some(start.value(row)))
        .int("step_ns", |&(row, _)| Some(step_ns(row)));
    for (part, (name, _)) in PART_COLUMNS.into_iter().enumerate() {
        output = output.int(name, |(_, parts)| Some(parts[part]));
    }
    for (part, (_, name)) in PART_COLUMNS.into_iter().enumerate() {
        output = output.float(name, |&(row, parts)| {
            let all = step_ns(row);
            (all > 0).then(|| parts[part] as f64 / all as f64)
        });
    }
    output.finish()
}

/// Adds the active intervals of each rank that has steps.
fn add_activity(inputs: &ViewInputs<'_>, ranks: &mut BTreeMap<i64, RankActivity>) -> Result<()> {
    let work = inputs.batch("work")?;
    let (category, kind) = (names(work, "category")?, names(work, "kind")?);
    add_rows(work, ranks, |row| {
        Some(part_of_work(category.get(row).unwrap_or_default(), kind.get(row).unwrap_or_default()))
    })?;
    add_rows(inputs.batch("calls")?, ranks, |_| Some(RUNTIME))?;
    add_rows(inputs.batch("loads")?, ranks, |_| Some(DATALOADER))?;
    let ranges = inputs.batch("ranges")?;
    let name = names(ranges, "name")?;
    let parts: Vec<Option<usize>> = name.texts.iter().map(|text| part_of_range(text)).collect();
    add_rows(ranges, ranks, |row| parts.get(name.ids[row] as usize).copied().flatten())
}

fn add_rows(
    batch: &RecordBatch,
    ranks: &mut BTreeMap<i64, RankActivity>,
    part: impl Fn(usize) -> Option<usize>,
) -> Result<()> {
    let (rank, start) = (ints(batch, "rank")?, ints(batch, "ts_ns")?);
    let end = ints(batch, "end_ns")?;
    for row in 0..batch.num_rows() {
        if let (Some(found), Some(part)) = (ranks.get_mut(&rank.value(row)), part(row)) {
            found.add(part, (start.value(row), end.value(row)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{COMMUNICATION, CPU_EXEC, KERNEL, MEMCPY, OTHER, RUNTIME, RankActivity};
    use super::{part_of_range, part_of_work};

    #[test]
    fn part_of_range_distinguishes_communication_by_prefix() {
        for (name, part) in [
            ("ProfilerStep#3", None),
            ("event/batch", None),
            ("event/forward", Some(CPU_EXEC)),
            ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__init__", Some(CPU_EXEC)),
            ("nccl:_all_gather_base", Some(COMMUNICATION)),
            ("gloo:all_to_all", Some(COMMUNICATION)),
            ("record_param_comms", Some(CPU_EXEC)),
            ("Optimizer.step#SGD.step", Some(CPU_EXEC)),
        ] {
            assert_eq!(part_of_range(name), part, "{name}");
        }
        assert_eq!(part_of_work("kernel", "communication"), COMMUNICATION);
        assert_eq!(part_of_work("kernel", "memory"), MEMCPY);
    }

    /// TensorBoard's plugin restarts from the whole step once a category covers it, which gives 2000 of 1000 ns.
    #[test]
    fn parts_leave_nothing_to_others_on_a_saturated_device() {
        let mut rank = RankActivity { windows: vec![(0, 1000)], ..RankActivity::default() };
        rank.add(KERNEL, (-50, 1100));
        rank.add(MEMCPY, (100, 200));
        rank.add(RUNTIME, (0, 50));
        rank.add(CPU_EXEC, (0, 500));
        let mut expected = [0; OTHER + 1];
        expected[KERNEL] = 1000;
        assert_eq!(rank.parts(), [expected]);
    }
}
