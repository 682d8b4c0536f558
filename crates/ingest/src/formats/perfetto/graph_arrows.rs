//! Dependencies between the nodes of a replayed graph. A node lists the activities that it waited for. The tables represent these
//! waits as arrows, as Chrome traces of the same writer do.

use rustc_hash::FxHashMap;
use trace_model::tables::{Flow, TableId};

use super::drafts::{Stage, Wait};
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Category of arrows between host and device, and between nodes.
const CATEGORY: &str = "ac2g";
/// First id of arrows between nodes. Smaller ids are correlation ids.
const FIRST_ID: i64 = 1 << 40;

/// Lane and times of an activity.
#[derive(Clone, Copy)]
struct Place {
    thread: i32,
    start_ns: i64,
    end_ns: i64,
}

/// Adds an arrow for each wait.
pub(super) fn add(columns: &mut Columns, stages: &[Stage], waits: &[Wait]) {
    if waits.is_empty() {
        return;
    }
    let mut places: FxHashMap<i64, Place> = FxHashMap::default();
    macro_rules! add_places {
        ($($table:ident),+) => { $(
            let t = &columns.$table;
            for row in 0..t.len() {
                let (thread, start_ns) = (t.thread.get(row), t.ts_ns.get(row));
                let end_ns = start_ns + t.dur_ns.get(row);
                places.insert(t.event_id.get(row), Place { thread, start_ns, end_ns });
            }
        )+ };
    }
    add_places!(kernels, memcpys, memsets, spans);
    let event_of: FxHashMap<u64, i64> =
        stages.iter().map(|stage| (stage.number, stage.event_id)).collect();
    let [start, finish, category] = ["s", "f", CATEGORY].map(|text| columns.strings.intern(text));
    let mut id = FIRST_ID;
    for wait in waits {
        let from = event_of.get(&wait.for_number).and_then(|event| places.get(event));
        let (Some(from), Some(to)) = (from, places.get(&wait.event_id)) else {
            columns.issues.add(Issue::MissingDeclaration);
            continue;
        };
        for (phase, ts_ns, thread) in
            [(start, from.end_ns, from.thread), (finish, to.start_ns, to.thread)]
        {
            let event_id = columns.events;
            columns.events += 1;
            columns.flows.push_sparse(Flow {
                event_id,
                id,
                category,
                phase,
                ts_ns,
                thread,
                ..Flow::null_row()
            });
        }
        for phase in [b's', b'f'] {
            *columns.counts.entry((phase, category, Some(TableId::Flows))).or_default() += 1;
        }
        id += 1;
    }
}
