//! From tables to trees.

use std::collections::BTreeMap;

use arrow::array::Array;
use query::rust_view::Result;

use super::tree::{Call, Kind, Mark, Tree, Work};
use query::columns::rows_by_rank;
use query::columns::{Names, ints, names};
use query::rust_view::ViewInputs;

/// Host events of the analysed window.
pub(super) const CALLS: &str = "
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

/// What they launched, in the order in which it ran.
pub(super) const WORK: &str = "
    SELECT rank, launch, name, ts_ns, end_ns, dur_ns
    FROM device_activities
    WHERE launch IS NOT NULL
    ORDER BY rank, ts_ns, event_id";

/// The calls and the work of one rank.
#[derive(Debug, Default)]
pub(super) struct RankTree {
    pub(super) rank: i32,
    pub(super) tree: Tree,
    pub(super) work: Vec<Work>,
}

/// All ranks in order.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) ranks: Vec<RankTree>,
    /// Names of calls.
    pub(super) call_names: Vec<String>,
    /// Names of work.
    pub(super) work_names: Vec<String>,
}

pub(super) fn load(inputs: &ViewInputs<'_>) -> Result<Loaded> {
    let batch = inputs.batch("calls")?;
    let (rank, kind, id) = (ints(batch, "rank")?, ints(batch, "kind")?, ints(batch, "event_id")?);
    let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
    let (self_dur_ns, thread) = (ints(batch, "self_dur_ns")?, ints(batch, "thread")?);
    let parent = ints(batch, "parent")?;
    let call_names = names(batch, "name")?;
    let call = |row: usize| Call {
        id: id.value(row),
        parent: (!parent.is_null(row)).then(|| parent.value(row)),
        thread: thread.value(row),
        ts_ns: ts_ns.value(row),
        dur_ns: dur_ns.value(row),
        self_dur_ns: self_dur_ns.value(row),
        name: call_names.ids[row],
        kind: match kind.value(row) {
            0 => Kind::Operator,
            1 => Kind::RuntimeCall,
            2 => Kind::Annotation,
            _ => Kind::PythonFrame,
        },
    };
    let calls = rows_by_rank(&rank, call);
    let (mut work, work_names) = work(inputs)?;
    let marks: Vec<Mark> = call_names.texts.iter().map(|name| Mark::of(name)).collect();
    let ranks = calls
        .into_iter()
        .map(|(rank, calls)| {
            let work = work.remove(&rank).unwrap_or_default();
            RankTree { rank: rank as i32, tree: Tree::new(calls, &work, &marks), work }
        })
        .collect();
    Ok(Loaded { ranks, call_names: call_names.texts, work_names: work_names.texts })
}

fn work(inputs: &ViewInputs<'_>) -> Result<(BTreeMap<i64, Vec<Work>>, Names)> {
    let batch = inputs.batch("work")?;
    let (rank, launch) = (ints(batch, "rank")?, ints(batch, "launch")?);
    let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let dur_ns = ints(batch, "dur_ns")?;
    let names = names(batch, "name")?;
    let work = rows_by_rank(&rank, |row| Work {
        launch: launch.value(row),
        ts_ns: ts_ns.value(row),
        end_ns: end_ns.value(row),
        dur_ns: dur_ns.value(row),
        name: names.ids[row],
    });
    Ok((work, names))
}
