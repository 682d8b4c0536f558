//! Splits a file by process: a merged file holds all ranks of a machine.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{StrId, Warning};

use super::part::Part;
use crate::json::number;
use crate::timeline::columns::Columns;
use crate::timeline::trace::EPOCH_NS;

/// Instants of PyTorch traces.
pub(crate) const TORCH_INSTANTS: [&str; 2] =
    ["Iteration Start: PyTorch Profiler", "Record Window End"];

/// Splits the events of a file by process.
///
/// The rank is the one that the process states (`global_rank`), found by thread id: from the second profile
/// cycle on, a merge while training runs gives events of other ranks the `pid` of rank 0.
pub(super) fn by_process(columns: Columns, file: &str, warnings: &mut Vec<Warning>) -> Vec<Part> {
    let processes = Processes::read(&columns);
    let ranks: Vec<i32> = columns.lanes.iter().map(|&lane| processes.rank(lane)).collect();
    let repaired = processes.repaired(&columns);
    let mut warn = |code: &'static str, message: &str, count: u64| {
        warnings.push(Warning {
            code: code.into(),
            file: file.to_owned(),
            message: message.to_owned(),
            count,
        });
    };
    if repaired > 0 {
        let message = "events carry the rank of another process, because files were merged during training: \
                       assigned to their rank by thread id";
        warn("repaired-rank", message, repaired);
        let ambiguous = processes.ambiguous_device_events(&columns);
        if ambiguous > 0 {
            let message = "device events of such a merged file cannot be distinguished from those of rank 0 and \
                           count as its own; read the files of the ranks instead";
            warn("ambiguous-rank", message, ambiguous);
        }
    }
    let mut numbers: BTreeMap<i32, usize> = ranks.iter().map(|&rank| (rank, 0)).collect();
    for (i, number) in numbers.values_mut().enumerate() {
        *number = i;
    }
    let events = u64::try_from(columns.events).unwrap_or(0);
    let labels = &columns.labels;
    let labels: Vec<(usize, (StrId, StrId, StrId, StrId))> = labels
        .iter()
        .filter_map(|&label| Some((*numbers.get(&processes.rank((label.0, label.1)))?, label)))
        .collect();
    let part_of: Vec<usize> = ranks.iter().map(|rank| numbers[rank]).collect();
    let reference = numbers.keys().next().and_then(|&rank| processes.sync_ns(rank, &columns));
    let names: Vec<String> = numbers.keys().map(|&rank| processes.name(rank, &columns)).collect();
    let count = numbers.len();
    let mut split = columns.split(&part_of, count);
    for (part, label) in labels {
        split[part].labels.push(label);
    }
    let mut parts: Vec<Part> = split
        .into_iter()
        .zip(numbers.into_keys().zip(names))
        .map(|(mut columns, (rank, process))| {
            let events = columns.row_events();
            columns.rename_process(&rank.to_string());
            let (own, torch) = separate(columns);
            Part { rank, process, events, own, torch, sync_ns: reference }
        })
        .collect();
    // A file of one process: all of its entries, whatever became of them.
    if let [only] = parts.as_mut_slice() {
        only.events = events;
    }
    parts
}

/// Separates Composer's own events from those copied from the PyTorch trace.
fn separate(mut columns: Columns) -> (Columns, Option<Columns>) {
    let t = &columns.instants;
    let is_torch = |row: &usize| {
        t.ts_ns.get(*row) < EPOCH_NS
            || TORCH_INSTANTS.contains(&columns.strings.get(t.name.get(*row)))
    };
    let (theirs, ours): (Vec<usize>, Vec<usize>) = (0..t.len()).partition(is_torch);
    let (theirs, ours) = (t.take(&theirs), t.take(&ours));
    let is_own_label = |what: &str, text: &str| {
        !matches!(what, "process_name" | "thread_name" | "process_labels")
            || text.ends_with("training loop process")
            || text == "Training Loop"
    };
    let (own_labels, labels): (Vec<_>, Vec<_>) =
        std::mem::take(&mut columns.labels).into_iter().partition(|label| {
            is_own_label(columns.strings.get(label.2), columns.strings.get(label.3))
        });
    let mut own = Columns {
        strings: columns.strings.clone(),
        begin_end_events: std::mem::take(&mut columns.begin_end_events),
        counters: std::mem::take(&mut columns.counters),
        instants: ours,
        lanes: columns.lanes.clone(),
        labels: own_labels,
        counts: std::mem::take(&mut columns.counts),
        issues: std::mem::take(&mut columns.issues),
        events: columns.events,
        ..Columns::default()
    };
    own.drop_empty_lanes();
    columns.instants = theirs;
    columns.labels = labels;
    columns.drop_empty_lanes();
    let torch = (!columns.lanes.is_empty()).then_some(columns);
    (own, torch)
}

/// The processes of a file, as they describe themselves.
struct Processes {
    /// Rank by thread id, and by process id and thread id for ids that several machines use.
    by_tid: FxHashMap<StrId, Option<i32>>,
    by_lane: FxHashMap<(StrId, StrId), i32>,
    /// Rank by thread id, of threads that do not describe themselves and appear under several.
    helpers: FxHashMap<StrId, i32>,
    /// Rank that a process id stands for.
    by_pid: FxHashMap<StrId, i32>,
    lowest: i32,
    is_merged_badly: bool,
}

impl Processes {
    fn read(columns: &Columns) -> Self {
        let strings = &columns.strings;
        let rank_of = |text: StrId| rank(strings.get(text));
        let mut by_tid: FxHashMap<StrId, Option<i32>> = FxHashMap::default();
        let mut by_lane = FxHashMap::default();
        for &(pid, tid, what, text) in &columns.labels {
            if strings.get(what) != "global_rank" {
                continue;
            }
            let Some(rank) = rank_of(text) else { continue };
            by_lane.insert((pid, tid), rank);
            let known = by_tid.entry(tid).or_insert(Some(rank));
            if *known != Some(rank) {
                *known = None; // two machines with the same process id
            }
        }
        let by_pid: FxHashMap<StrId, i32> =
            columns.lanes.iter().filter_map(|&(pid, _)| Some((pid, rank_of(pid)?))).collect();
        let lowest = by_tid.values().flatten().chain(by_pid.values()).min().copied().unwrap_or(0);
        let is_merged_badly = columns.lanes.iter().any(|(pid, tid)| {
            let stated = by_tid.get(tid).copied().flatten();
            stated.is_some() && stated != by_pid.get(pid).copied()
        });
        let mut helpers = FxHashMap::default();
        if is_merged_badly {
            for (pid, tid) in &columns.lanes {
                if let Some(&rank) = by_pid.get(pid).filter(|&&rank| rank != lowest) {
                    helpers.insert(*tid, rank);
                }
            }
            for tid in device_lanes(columns) {
                helpers.remove(&tid);
            }
        }
        Self { by_tid, by_lane, helpers, by_pid, lowest, is_merged_badly }
    }

    fn rank(&self, (pid, tid): (StrId, StrId)) -> i32 {
        let stated =
            self.by_tid.get(&tid).map(|rank| rank.or(self.by_lane.get(&(pid, tid)).copied()));
        stated
            .flatten()
            .or_else(|| self.helpers.get(&tid).copied())
            .or_else(|| self.by_pid.get(&pid).copied())
            .unwrap_or(self.lowest)
    }

    /// Composer's events under the process id of another rank.
    fn repaired(&self, columns: &Columns) -> u64 {
        if !self.is_merged_badly {
            return 0;
        }
        let is_wrong: Vec<bool> = columns
            .lanes
            .iter()
            .map(|&(pid, tid)| {
                let stated = self.by_tid.get(&tid).copied().flatten();
                stated.is_some() && stated != self.by_pid.get(&pid).copied()
            })
            .collect();
        let wrong = |thread: i32| is_wrong[thread as usize];
        let begin_end_events =
            columns.begin_end_events.iter().filter(|event| wrong(event.thread)).count();
        let t = &columns.counters;
        let samples: FxHashSet<i64> = (0..t.len())
            .filter(|&row| wrong(t.thread.get(row)))
            .map(|row| t.event_id.get(row))
            .collect();
        (begin_end_events + samples.len()) as u64
    }

    /// Device events under the lowest rank, on streams that other ranks have too.
    fn ambiguous_device_events(&self, columns: &Columns) -> u64 {
        let lowest =
            |thread: i32| self.by_pid.get(&columns.lanes[thread as usize].0) == Some(&self.lowest);
        let kernels = &columns.kernels.thread.0;
        kernels.iter().filter(|&&thread| lowest(thread)).count() as u64
    }

    /// Process id of a rank, as written; its number if it does not describe itself.
    fn name(&self, rank: i32, columns: &Columns) -> String {
        let mut tids: Vec<&str> = self
            .by_lane
            .iter()
            .filter(|(_, stated)| **stated == rank)
            .map(|((_, tid), _)| columns.strings.get(*tid))
            .collect();
        tids.sort_unstable();
        if let Some(tid) = tids.last() {
            return (*tid).to_owned();
        }
        // Without a description: the thread of most of its markers.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for event in &columns.begin_end_events {
            let lane = columns.lanes[event.thread as usize];
            if self.rank(lane) == rank {
                *counts.entry(columns.strings.get(lane.1)).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|&(tid, count)| (count, std::cmp::Reverse(tid)));
        most.map_or_else(|| rank.to_string(), |(tid, _)| tid.to_owned())
    }

    /// Time at which a rank passed the barrier, as it last recorded.
    fn sync_ns(&self, rank: i32, columns: &Columns) -> Option<i64> {
        let strings = &columns.strings;
        columns
            .labels
            .iter()
            .rev()
            .filter(|(_, _, what, _)| strings.get(*what) == "clock_sync_timestamp_us")
            .find(|&&(pid, tid, ..)| self.rank((pid, tid)) == rank)
            .and_then(|&(.., text)| number::us_to_ns(strings.get(text).as_bytes()))
            .filter(|sync_ns| (EPOCH_NS..1 << 62).contains(sync_ns))
    }
}

/// Thread ids of device rows: streams, whose numbers all ranks share.
fn device_lanes(columns: &Columns) -> Vec<StrId> {
    let mut threads: Vec<i32> = Vec::new();
    for table in [&columns.kernels.thread.0, &columns.memcpys.thread.0, &columns.memsets.thread.0] {
        threads.extend(table);
    }
    threads.sort_unstable();
    threads.dedup();
    threads.into_iter().map(|thread| columns.lanes[thread as usize].1).collect()
}

fn rank(text: &str) -> Option<i32> {
    text.parse().ok().filter(|&rank| rank >= 0)
}
