//! The critical path: a track of its own, and arrows between the lanes it runs along.

use std::io;

use ingest::{EventWriter, Lane};
use trace_model::Value;

use super::Added;
use super::lanes::RankLanes;
use super::rows::{Rows, int, text};
use crate::{Error, Run};

/// The paths of all ranks.
#[derive(Debug)]
pub(super) struct CriticalPath(Rows);

impl CriticalPath {
    pub(super) fn read(run: &Run) -> Result<Self, Error> {
        if analyses::catalog().find("critical_path").is_none() {
            return Ok(Self(Rows::query(run, "SELECT rank FROM ranks WHERE false")?));
        }
        let rows = Rows::query(
            run,
            "SELECT rank, ts_ns, dur_ns, bound_by, what, event_id, stored_in, thread
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
        let (bounds, whats) = (self.0.texts("bound_by"), self.0.texts("what"));
        let tables = self.0.texts("stored_in");

        let (pid, tid) = (lanes.own_process(), lanes.own_thread(0));
        let own = Lane { pid: &pid, tid: &tid };
        out.thread(own, "Critical path")?;
        // Where the path last ran on a lane of the trace: the lane, and a moment inside of the event.
        let mut before: Option<(i64, i64)> = None;
        for row in rows {
            let (ts_ns, dur_ns) = (starts.value(row), durs.value(row));
            let args = [
                ("bound by", Value::Text(text(bounds, row).to_owned())),
                ("event", int(events, row).map_or(Value::Null, Value::Int)),
                ("stored in", Value::Text(text(tables, row).to_owned())),
            ];
            out.slice(own, text(whats, row), ts_ns, dur_ns, &args)?;
            added.segments += 1;

            let Some(thread) = int(threads, row) else { continue };
            if let Some((from, at_ns)) = before
                && from != thread
                && let (Some(from), Some(to)) = (lanes.get(from), lanes.get(thread))
            {
                out.arrow("critical path", added.arrows as u64, (from, at_ns), (to, ts_ns))?;
                added.arrows += 1;
            }
            before = Some((thread, ts_ns + (dur_ns - 1).max(0)));
        }
        Ok(())
    }
}
