//! Reads calls and device work into one call tree per rank.

use std::collections::BTreeMap;

use query::rust_view::Result;

use crate::call_tree::{CallKind, HostCall, LaunchedActivity, NameMark, PreorderTree};
use query::columns::{Names, get, ints, names, rows_by_rank};
use query::rust_view::{InputQueries, ViewInputs};

/// Host events of the analysed window.
const CALLS: &str = "
    SELECT
        c.rank, c.kind, c.event_id, c.name, c.ts_ns, c.dur_ns, c.self_dur_ns,
        CAST(c.thread AS BIGINT) AS thread, c.parent
    FROM (
        SELECT rank, 0 AS kind, event_id, name, ts_ns, dur_ns, self_dur_ns, thread, parent FROM cpu_ops
        UNION ALL
        SELECT rank, 1, event_id, name, ts_ns, dur_ns, self_dur_ns, thread, parent FROM runtime_calls
        UNION ALL
        SELECT rank, 2, event_id, name, ts_ns, dur_ns, self_dur_ns, thread, parent FROM annotations
        WHERE NOT on_device
        UNION ALL
        SELECT rank, 3, event_id, name, ts_ns, dur_ns, self_dur_ns, thread, parent FROM python_frames
    ) c
    JOIN ranks r ON r.rank = c.rank
    WHERE r.cut_ns IS NULL
        OR c.ts_ns < r.cut_ns
        OR ($include_last_step AND c.ts_ns <= r.steps_end_ns)";

/// The activities that host events launched, in order of start.
const WORK: &str = "
    SELECT rank, launch, name, ts_ns, end_ns, dur_ns
    FROM device_activities
    WHERE launch IS NOT NULL
    ORDER BY rank, ts_ns, event_id";

/// Inputs of the views over call trees.
pub(super) const INPUTS: InputQueries = &[("calls", CALLS), ("work", WORK)];

/// The calls of one rank, and the work that they launched in order of start.
#[derive(Debug, Default)]
pub(super) struct RankCalls {
    pub(super) rank: i32,
    pub(super) tree: PreorderTree,
    pub(super) work: Vec<LaunchedActivity>,
}

/// The trees of all ranks, in order of rank.
#[derive(Debug)]
pub(super) struct CallTrees {
    pub(super) ranks: Vec<RankCalls>,
    /// Names of calls, by index.
    pub(super) call_names: Vec<String>,
    /// Names of activities, by index.
    pub(super) work_names: Vec<String>,
}

pub(super) fn load_trees(inputs: &ViewInputs<'_>) -> Result<CallTrees> {
    let batch = inputs.batch("calls")?;
    let (rank, kind, id) = (ints(batch, "rank")?, ints(batch, "kind")?, ints(batch, "event_id")?);
    let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
    let (self_dur_ns, thread) = (ints(batch, "self_dur_ns")?, ints(batch, "thread")?);
    let parent = ints(batch, "parent")?;
    let call_names = names(batch, "name")?;
    let call = |row: usize| HostCall {
        id: id.value(row),
        parent: get(&parent, row),
        thread: thread.value(row),
        ts_ns: ts_ns.value(row),
        dur_ns: dur_ns.value(row),
        self_dur_ns: self_dur_ns.value(row),
        name: call_names.ids[row],
        kind: match kind.value(row) {
            0 => CallKind::Operator,
            1 => CallKind::RuntimeCall,
            2 => CallKind::Annotation,
            _ => CallKind::PythonFrame,
        },
    };
    let calls = rows_by_rank(&rank, call);
    let (mut work, work_names) = work(inputs)?;
    let marks: Vec<NameMark> = call_names.texts.iter().map(|name| NameMark::of(name)).collect();
    let ranks = calls
        .into_iter()
        .map(|(rank, calls)| {
            let work = work.remove(&rank).unwrap_or_default();
            RankCalls { rank: rank as i32, tree: PreorderTree::new(calls, &work, &marks), work }
        })
        .collect();
    Ok(CallTrees { ranks, call_names: call_names.texts, work_names: work_names.texts })
}

fn work(inputs: &ViewInputs<'_>) -> Result<(BTreeMap<i64, Vec<LaunchedActivity>>, Names)> {
    let batch = inputs.batch("work")?;
    let (rank, launch) = (ints(batch, "rank")?, ints(batch, "launch")?);
    let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let dur_ns = ints(batch, "dur_ns")?;
    let names = names(batch, "name")?;
    let work = rows_by_rank(&rank, |row| LaunchedActivity {
        launch: launch.value(row),
        ts_ns: ts_ns.value(row),
        end_ns: end_ns.value(row),
        dur_ns: dur_ns.value(row),
        name: names.ids[row],
    });
    Ok((work, names))
}
