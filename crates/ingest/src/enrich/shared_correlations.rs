//! Links device activities with calls by correlation id. Where several calls of a process share one, the nearest call before
//! an activity launched it. Where calls of several processes in one file do, other events tell whose it is: each process
//! numbers its calls independently, and device activities do not say which process launched them.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;

use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Table of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ActivityTable {
    Kernels,
    Memcpys,
    Memsets,
    DeviceSyncs,
}

/// The most calls of several processes that may share an id: time and memory are bounded, and an id of more tells nothing.
const MOST_CALLS: usize = 64;
/// The most rounds in which one certain link makes others certain.
const MOST_ROUNDS: usize = 64;

/// A call, ordered by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    ts_ns: i64,
    row: usize,
}

/// The calls of each of some ids, by time.
type CallsOfIds = FxHashMap<i64, Vec<Call>>;

/// Calls by their correlation id.
pub(super) struct CallsById {
    /// The row of the last call of each id: the only one, unless the id is in one of the others.
    last: FxHashMap<i64, usize>,
    /// The ids that several calls of one process have.
    repeated: CallsOfIds,
    /// The ids that calls of several processes have, and the rows of the calls that launched their activities.
    shared: CallsOfIds,
    owners: FxHashMap<(ActivityTable, usize), Option<usize>>,
}

impl CallsById {
    /// Counts ambiguous ids as issues.
    pub(super) fn new(columns: &mut Columns) -> Self {
        let calls = &columns.runtime_calls;
        let process = |row: usize| columns.process(calls.thread.get(row));
        let call = |row: usize| Call { ts_ns: calls.ts_ns.get(row), row };
        let mut last: FxHashMap<i64, usize> = FxHashMap::default();
        last.reserve(calls.len());
        let mut several = CallsOfIds::default();
        for (row, &id) in calls.correlation.0.iter().enumerate() {
            // Tracers write 0 for "none".
            if id <= 0 {
                continue;
            }
            if let Some(before) = last.insert(id, row) {
                several.entry(id).or_insert_with(|| vec![call(before)]).push(call(row));
            }
        }
        let in_order = |(id, mut calls): (i64, Vec<Call>)| {
            calls.sort_unstable();
            (id, calls)
        };
        let is_of_one_process =
            |calls: &[Call]| calls.iter().all(|call| process(call.row) == process(calls[0].row));
        let (repeated, shared): (CallsOfIds, CallsOfIds) =
            several.into_iter().map(in_order).partition(|(_, calls)| is_of_one_process(calls));
        let duplicates = repeated.values().map(|calls| calls.len() as u64 - 1).sum();
        let mut owners = FxHashMap::default();
        let mut unknown = 0;
        if !shared.is_empty() {
            owners = owners_of_activities(columns, &last, &shared);
            unknown = owners.values().filter(|owner| owner.is_none()).count() as u64;
        }
        columns.issues.add_many(Issue::DuplicateCorrelation, duplicates);
        columns.issues.add_many(Issue::SharedCorrelation, unknown);
        Self { last, repeated, shared, owners }
    }

    /// The call that an activity with a start belongs to; `None` if the trace does not hold it or does not tell.
    #[inline]
    pub(super) fn call_of(
        &self,
        table: ActivityTable,
        row: usize,
        id: i64,
        ts_ns: i64,
    ) -> Option<usize> {
        if let Some(calls) = self.repeated.get(&id) {
            return earlier(calls, ts_ns).last().map(|call| call.row);
        }
        if self.shared.contains_key(&id) {
            return self.owners.get(&(table, row)).copied().flatten();
        }
        self.last.get(&id).copied()
    }
}

/// The calls that do not start after a time.
fn earlier(calls: &[Call], ts_ns: i64) -> &[Call] {
    &calls[..calls.partition_point(|call| call.ts_ns <= ts_ns)]
}

/// An activity, and the rows of the calls that may have launched it, by time.
struct Activity {
    table: ActivityTable,
    row: usize,
    id: i64,
    device: i32,
    calls: Vec<usize>,
}

/// The call behind each activity with a shared id, where only calls of one process can have launched it.
fn owners_of_activities(
    columns: &Columns,
    last: &FxHashMap<i64, usize>,
    shared: &CallsOfIds,
) -> FxHashMap<(ActivityTable, usize), Option<usize>> {
    let calls = &columns.runtime_calls;
    let process = |call: usize| columns.process(calls.thread.get(call));
    let mut activities: Vec<Activity> = Vec::new();
    // Processes that surely use a device.
    let mut users: FxHashMap<i32, FxHashSet<StrId>> = FxHashMap::default();
    macro_rules! gather {
        ($name:ident, $table:ident) => {
            let t = &columns.$name;
            for row in 0..t.len() {
                let id = t.correlation.get(row);
                let Some(sharers) = shared.get(&id) else {
                    if let Some(&call) = last.get(&id) {
                        users.entry(t.device.get(row)).or_default().insert(process(call));
                    }
                    continue;
                };
                let table = ActivityTable::$table;
                let (ts_ns, external_id) = (t.ts_ns.get(row), t.external_id.get(row));
                let sharers = if sharers.len() > MOST_CALLS { &[] } else { &sharers[..] };
                let mut rows: Vec<usize> =
                    earlier(sharers, ts_ns).iter().map(|call| call.row).collect();
                narrow(&mut rows, |call| {
                    launches_kind(columns.strings.get(calls.name.get(call)), table)
                });
                if external_id > 0 {
                    narrow(&mut rows, |call| calls.external_id.get(call) == external_id);
                }
                let device = t.device.get(row);
                activities.push(Activity { table, row, id, device, calls: rows });
            }
        };
    }
    gather!(kernels, Kernels);
    gather!(memcpys, Memcpys);
    gather!(memsets, Memsets);
    gather!(device_syncs, DeviceSyncs);
    activities.sort_by_key(|activity| activity.id);
    let mut taken = FxHashSet::default();
    for _ in 0..MOST_ROUNDS {
        let mut is_changed = false;
        for group in activities.chunk_by_mut(|a, b| a.id == b.id) {
            while let Some(call) = take_certain(columns, group, &mut taken) {
                let device = call.device;
                is_changed |= users.entry(device).or_default().insert(process(call.row));
            }
        }
        for activity in &mut activities {
            if let Some(users) = users.get(&activity.device)
                && users.len() == 1
            {
                let count = activity.calls.len();
                narrow(&mut activity.calls, |call| users.contains(&process(call)));
                is_changed |= activity.calls.len() < count;
            }
        }
        if !is_changed {
            break;
        }
    }
    let owner = |activity: &Activity| {
        let mut processes = activity.calls.iter().map(|&call| process(call));
        let first = processes.next()?;
        processes.all(|other| other == first).then(|| activity.calls.last().copied()).flatten()
    };
    activities.iter().map(|activity| ((activity.table, activity.row), owner(activity))).collect()
}

/// A call that surely launched an activity on a device.
struct CertainCall {
    row: usize,
    device: i32,
}

/// Removes a call that surely launched one activity of an id from the calls of the others, and returns it. Every call
/// launches one activity, except the launch of a graph. Once is enough: no activity gets calls back.
fn take_certain(
    columns: &Columns,
    group: &mut [Activity],
    taken: &mut FxHashSet<usize>,
) -> Option<CertainCall> {
    let calls = &columns.runtime_calls;
    for at in 0..group.len() {
        let &[row] = &*group[at].calls else { continue };
        let (table, device) = (group[at].table, group[at].device);
        if table == ActivityTable::DeviceSyncs
            || taken.contains(&row)
            || columns.strings.get(calls.name.get(row)).contains("Graph")
        {
            continue;
        }
        taken.insert(row);
        let mut is_taken = false;
        for (other, activity) in group.iter_mut().enumerate() {
            if other != at
                && activity.calls.len() > 1
                && activity.table != ActivityTable::DeviceSyncs
            {
                let count = activity.calls.len();
                activity.calls.retain(|&call| call != row);
                is_taken |= activity.calls.len() < count;
            }
        }
        if is_taken {
            return Some(CertainCall { row, device });
        }
    }
    None
}

/// Keeps the calls for which something holds, if it holds for any.
fn narrow(calls: &mut Vec<usize>, holds: impl Fn(usize) -> bool) {
    if calls.len() > 1 && calls.iter().any(|&call| holds(call)) {
        calls.retain(|&call| holds(call));
    }
}

/// Whether a call of CUDA is of the kind that causes such activities. HIP runs kernels for copies and fills.
fn launches_kind(name: &str, table: ActivityTable) -> bool {
    if !name.starts_with("cu") || name.contains("GraphLaunch") {
        return true;
    }
    match table {
        ActivityTable::Kernels => !name.contains("Memcpy") && !name.contains("Memset"),
        ActivityTable::Memcpys => name.contains("Memcpy"),
        ActivityTable::Memsets => name.contains("Memset"),
        ActivityTable::DeviceSyncs => true,
    }
}
