//! The lanes of a trace, the processes of its devices, and ids for added lanes.

use ingest::Lane;
use query::columns::get;

use super::rows::{Rows, text};
use crate::error::Error;
use crate::pipeline::Run;

/// Number of ids reserved for added lanes.
const ROOM: i64 = 1_000;

/// The lanes of all ranks.
#[derive(Debug)]
pub(super) struct Lanes {
    threads: Rows,
    devices: Rows,
}

/// The lanes of one rank.
#[derive(Debug)]
pub(super) struct RankLanes<'a> {
    all: &'a Lanes,
    pub(super) rank: i32,
    /// Number of devices.
    devices: usize,
    /// The first id that no lane of the trace uses.
    free: i64,
}

impl Lanes {
    pub(super) fn read(run: &Run) -> Result<Self, Error> {
        let threads =
            Rows::query(run, "SELECT rank, thread, pid, tid FROM threads ORDER BY rank, thread")?;
        let devices = Rows::query(
            run,
            "SELECT rank, device, min(thread) AS thread FROM (
                SELECT rank, coalesce(device, CAST(-1 AS INT)) AS device, thread FROM kernels
                UNION ALL
                SELECT rank, coalesce(device, CAST(-1 AS INT)), thread FROM memcpys
                UNION ALL
                SELECT rank, coalesce(device, CAST(-1 AS INT)), thread FROM memsets
            ) GROUP BY rank, device ORDER BY rank, device",
        )?;
        Ok(Self { threads, devices })
    }

    pub(super) fn of(&self, rank: i32) -> RankLanes<'_> {
        let (pids, tids) = (self.threads.texts("pid"), self.threads.texts("tid"));
        let used: Vec<i64> = self
            .threads
            .of(rank)
            .flat_map(|row| [text(pids, row), text(tids, row)])
            .filter_map(|id| id.parse().ok())
            .collect();
        let mut free = 900_000_000;
        while used.iter().any(|id| (free..free + ROOM).contains(id)) {
            free += ROOM;
        }
        RankLanes { all: self, rank, devices: self.devices.of(rank).len(), free }
    }
}

impl RankLanes<'_> {
    /// A lane of the trace by its number.
    pub(super) fn get(&self, thread: i64) -> Option<Lane<'_>> {
        let threads = &self.all.threads;
        let rows = threads.of(self.rank);
        let row = rows.start + usize::try_from(thread).ok()?;
        (row < rows.end).then(|| Lane {
            pid: text(threads.texts("pid"), row),
            tid: text(threads.texts("tid"), row),
        })
    }

    /// The process of a device's activities.
    pub(super) fn device_process(&self, device: i64) -> &str {
        let devices = &self.all.devices;
        let row = devices.of(self.rank).find(|&row| devices.ints("device").value(row) == device);
        let thread = row.and_then(|row| get(devices.ints("thread"), row));
        thread.and_then(|thread| self.get(thread)).map_or("", |lane| lane.pid)
    }

    /// Suffix that distinguishes the devices of a rank in names; empty if there is one device.
    pub(super) fn device_label(&self, device: i64) -> String {
        if self.devices > 1 { format!(" GPU {device}") } else { String::new() }
    }

    /// The process of added lanes.
    pub(super) fn own_process(&self) -> String {
        self.free.to_string()
    }

    /// A thread of the added process.
    pub(super) fn own_thread(&self, number: usize) -> String {
        (self.free + 1 + number as i64).to_string()
    }
}
