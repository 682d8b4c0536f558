//! Events near moments, and the names of host threads.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_advisor::{Error, Run};

use crate::clean::short;
use crate::queries::query;

/// What an event is; decides its color and its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u8")]
pub(crate) enum Kind {
    Operator,
    Annotation,
    Python,
    Call,
    Computation,
    Communication,
    Copy,
}

impl From<Kind> for u8 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}

impl Kind {
    pub(crate) fn is_device(self) -> bool {
        self >= Self::Computation
    }
}

/// An event near a moment.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) rank: i64,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) ts_ns: i64,
    pub(crate) dur_ns: i64,
    /// Lane in the trace; of device events the stream.
    pub(crate) thread: i64,
    pub(crate) device: i64,
    pub(crate) id: i64,
    pub(crate) launch: Option<i64>,
    /// A call that launched device activities.
    pub(crate) is_launch: bool,
}

impl Event {
    pub(crate) fn end_ns(&self) -> i64 {
        self.ts_ns.saturating_add(self.dur_ns)
    }
}

/// Names of host threads.
pub(crate) struct ThreadNames(BTreeMap<(i64, i64), String>);

impl ThreadNames {
    pub(crate) fn of(run: &Run) -> Result<Self, Error> {
        let sql = "SELECT rank, thread, tid, thread_name FROM threads WHERE NOT is_device ORDER BY rank, thread";
        let table = query(run, sql)?;
        let named = table.named_rows().filter_map(|row| {
            let (name, tid) = (row.text_or_empty("thread_name"), row.text_or_empty("tid"));
            // `thread 25738 (python3)`: what is in parentheses is the program, which is the same for all.
            let name = name.split(" (").next().unwrap_or_default();
            let name = if name.is_empty() { format!("thread {tid}") } else { name.to_owned() };
            Some(((row.integer("rank")?, row.integer("thread")?), short(&name)))
        });
        Ok(Self(named.collect()))
    }

    pub(crate) fn name(&self, rank: i64, thread: i64) -> String {
        self.0.get(&(rank, thread)).cloned().unwrap_or_else(|| "host".to_owned())
    }
}
