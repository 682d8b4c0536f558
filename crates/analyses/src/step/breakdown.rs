//! `step_breakdown_by_step`: each moment of a step goes to the first of these that is going on: a computing
//! kernel, a copy, a fill, communication, a runtime call, loading, an operator or annotation; else to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use trace_model::RecordBatch;

use crate::interval_set::{Span, minus, plus, union, within};
use query::columns::{ints, names};
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[
    ("steps", "SELECT rank, step, source, ts_ns, end_ns FROM device_steps ORDER BY rank, ts_ns"),
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

/// By priority, `OTHER` last: what is left.
const PARTS: [(&str, &str); 8] = [
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

/// Libraries whose collectives are ranges on the host, named `<library>:<collective>`.
const COLLECTIVES: [&str; 6] = ["nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:"];

/// Composer's marks around steps.
const AROUND_STEPS: [&str; 4] = ["event/fit", "event/epoch", "event/iteration", "event/batch"];

/// The part that a range on the host belongs to; a step's mark to none. Loading goes before all of them.
fn part_of_range(name: &str) -> Option<usize> {
    if name.starts_with("ProfilerStep") || AROUND_STEPS.contains(&name) {
        return None;
    }
    Some(if COLLECTIVES.iter().any(|library| name.starts_with(library)) {
        COMMUNICATION
    } else {
        CPU_EXEC
    })
}

/// Some traces write copies and fills as kernels.
fn part_of_work(category: &str, kind: &str) -> usize {
    match (category, kind) {
        ("memset", _) => MEMSET,
        ("memcpy", _) | (_, "memory") => MEMCPY,
        (_, "communication") => COMMUNICATION,
        _ => KERNEL,
    }
}

/// The steps of one rank, and what goes on in it.
#[derive(Debug, Default)]
struct Rank {
    windows: Vec<Span>,
    going_on: [Vec<Span>; OTHER],
}

impl Rank {
    fn add(&mut self, part: usize, span: Span) {
        let (Some(first), Some(last)) = (self.windows.first(), self.windows.last()) else { return };
        if span.1 > first.0 && span.0 < last.1 {
            self.going_on[part].push(span);
        }
    }

    /// The length of each part in each step.
    fn parts(self) -> Vec<[i64; PARTS.len()]> {
        let mut lengths: Vec<[i64; PARTS.len()]> = self
            .windows
            .iter()
            .map(|&(start, end)| {
                let mut parts = [0; PARTS.len()];
                parts[OTHER] = end - start;
                parts
            })
            .collect();
        let mut taken = Vec::new();
        for (part, spans) in self.going_on.into_iter().enumerate() {
            let own = minus(&union(spans), &taken);
            for (step, length) in lengths.iter_mut().zip(within(&own, &self.windows)) {
                step[part] = length;
                step[OTHER] -= length;
            }
            taken = plus(&taken, &own);
        }
        lengths
    }
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let steps = inputs.batch("steps")?;
    let (rank, number) = (ints(steps, "rank")?, ints(steps, "step")?);
    let (start, end) = (ints(steps, "ts_ns")?, ints(steps, "end_ns")?);
    let source = names(steps, "source")?;
    let mut ranks: BTreeMap<i64, Rank> = BTreeMap::new();
    for row in 0..steps.num_rows() {
        let windows = &mut ranks.entry(rank.value(row)).or_default().windows;
        windows.push((start.value(row), end.value(row)));
    }
    gather(inputs, &mut ranks)?;

    let parts: Vec<[i64; PARTS.len()]> = ranks.into_values().flat_map(Rank::parts).collect();
    let step_ns: Vec<i64> = start.values().iter().zip(end.values()).map(|(s, e)| e - s).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", Arc::new(rank.values().iter().map(|&r| Some(r as i32)).collect::<Int32Array>())),
        ("step", Arc::new(number)),
        ("source", Arc::new((0..steps.num_rows()).map(|r| source.get(r)).collect::<StringArray>())),
        ("ts_ns", Arc::new(start)),
        ("step_ns", Arc::new(Int64Array::from(step_ns.clone()))),
    ];
    for (part, (name, _)) in PARTS.iter().enumerate() {
        let lengths: Int64Array = parts.iter().map(|p| Some(p[part])).collect();
        columns.push((name, Arc::new(lengths)));
    }
    for (part, (_, name)) in PARTS.iter().enumerate() {
        let share =
            |(p, &all): (&[i64; PARTS.len()], &i64)| (all > 0).then(|| p[part] as f64 / all as f64);
        columns.push((
            name,
            Arc::new(parts.iter().zip(&step_ns).map(share).collect::<Float64Array>()),
        ));
    }
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// What goes on in each rank that has steps.
fn gather(inputs: &ViewInputs<'_>, ranks: &mut BTreeMap<i64, Rank>) -> Result<()> {
    let work = inputs.batch("work")?;
    let (category, kind) = (names(work, "category")?, names(work, "kind")?);
    add(work, ranks, |row| {
        Some(part_of_work(category.get(row).unwrap_or_default(), kind.get(row).unwrap_or_default()))
    })?;
    add(inputs.batch("calls")?, ranks, |_| Some(RUNTIME))?;
    add(inputs.batch("loads")?, ranks, |_| Some(DATALOADER))?;
    let ranges = inputs.batch("ranges")?;
    let name = names(ranges, "name")?;
    let parts: Vec<Option<usize>> = name.texts.iter().map(|text| part_of_range(text)).collect();
    add(ranges, ranks, |row| parts.get(name.ids[row] as usize).copied().flatten())
}

fn add(
    batch: &RecordBatch,
    ranks: &mut BTreeMap<i64, Rank>,
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
    use super::{COMMUNICATION, CPU_EXEC, KERNEL, MEMCPY, OTHER, RUNTIME, Rank};
    use super::{part_of_range, part_of_work};

    #[test]
    fn ranges_are_told_apart_by_name() {
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

    /// The plugin starts again from the whole step once a category has covered it: 2 000 of 1 000.
    #[test]
    fn a_saturated_device_leaves_nothing_to_others() {
        let mut rank = Rank { windows: vec![(0, 1000)], ..Rank::default() };
        rank.add(KERNEL, (-50, 1100));
        rank.add(MEMCPY, (100, 200));
        rank.add(RUNTIME, (0, 50));
        rank.add(CPU_EXEC, (0, 500));
        let mut expected = [0; OTHER + 1];
        expected[KERNEL] = 1000;
        assert_eq!(rank.parts(), [expected]);
    }
}
