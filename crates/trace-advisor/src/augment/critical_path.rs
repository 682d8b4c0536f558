//! The critical path: a separate track, and arrows between the lanes that it passes.

use std::io;

use ingest::{EventWriter, Lane};
use query::columns::get;
use trace_model::Value;

use super::added::Added;
use super::lanes::RankLanes;
use super::rows::{Rows, text};
use crate::error::Error;
use crate::pipeline::Run;

/// Bounds of segments whose event has not started yet.
const WAITS: [&str; 3] = ["launch_delay", "kernel_kernel_delay", "other"];

/// The paths of all ranks.
#[derive(Debug)]
pub(super) struct CriticalPath(Rows);

impl CriticalPath {
    pub(super) fn read(run: &Run) -> Result<Self, Error> {
        let rows = Rows::query(
            run,
            "SELECT rank, ts_ns, dur_ns, bound_by, name, event_id, stored_in, thread
            FROM critical_path ORDER BY rank, position",
        )?;
        Ok(Self(rows))
    }

    pub(super) fn write(
        &self,
        lanes: &RankLanes<'_>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        let rows = self.0.of(lanes.rank);
        if rows.is_empty() {
            return Ok(());
        }
        let (starts, durs) = (self.0.ints("ts_ns"), self.0.ints("dur_ns"));
        let (events, threads) = (self.0.ints("event_id"), self.0.ints("thread"));
        let (bounds, names) = (self.0.texts("bound_by"), self.0.texts("name"));
        let tables = self.0.texts("stored_in");

        let (pid, tid) = (lanes.own_process(), lanes.own_thread(0));
        let own = Lane { pid: &pid, tid: &tid };
        out.thread(own, "Critical path")?;
        // The last lane of the trace on the path, and a time within its event.
        let mut before: Option<(i64, i64)> = None;
        for row in rows {
            let (ts_ns, dur_ns) = (starts.value(row), durs.value(row));
            let (bound_by, event) = (text(bounds, row), get(events, row));
            let args = [
                ("bound by", Value::Text(bound_by.to_owned())),
                ("event", event.map_or(Value::Null, Value::Int)),
                ("stored in", Value::Text(text(tables, row).to_owned())),
            ];
            let name = match text(names, row) {
                "" => bound_by.to_owned(),
                name => format!("{bound_by}: {name}"),
            };
            out.slice(own, &name, ts_ns, dur_ns, &args)?;
            added.segments += 1;

            // The path waits for this event, which does not run yet: an arrow has no event to end at.
            let runs = event.is_some() && dur_ns > 0 && !WAITS.contains(&bound_by);
            let Some(thread) = get(threads, row).filter(|_| runs) else { continue };
            if let Some((from, at_ns)) = before
                && from != thread
                && let (Some(from), Some(to)) = (lanes.get(from), lanes.get(thread))
            {
                out.arrow("critical path", added.arrows as u64, (from, at_ns), (to, ts_ns))?;
                added.arrows += 1;
            }
            // The middle of the event: viewers use doubles, which may round its last nanosecond beyond its end.
            before = Some((thread, ts_ns + dur_ns / 2));
        }
        Ok(())
    }
}
