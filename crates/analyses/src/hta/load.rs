//! Reads the events of each rank as HTA loads them.

use std::collections::BTreeMap;

use arrow::array::Array;
use query::rust_view::Result;
use rustc_hash::FxHashMap;

use super::device::SyncWait;
use super::frame::{Event, EventKind, Frame};
use super::names::{Role, ShortName};
use query::columns::{Names, ints, names, rows_by_rank};
use query::rust_view::ViewInputs;

/// HTA takes the host operators of Triton kernels for device work without a launch, and drops them.
pub(super) const EVENTS: &str = "
    SELECT rank, event_id, 0 AS kind, name, ts_ns, dur_ns, thread, -1 AS stream, -1 AS correlation
    FROM cpu_ops
    WHERE args IS NULL OR args NOT LIKE '%\"stream\":%'
    UNION ALL
    SELECT rank, event_id, 0, name, ts_ns, dur_ns, thread, -1, coalesce(correlation, -1) FROM runtime_calls
    UNION ALL
    SELECT rank, event_id, 1, name, ts_ns, dur_ns, thread, -1, -1 FROM annotations
    UNION ALL
    SELECT rank, event_id, 1, name, ts_ns, dur_ns, thread, -1, -1 FROM python_frames
    UNION ALL
    SELECT rank, event_id, 1, name, ts_ns, dur_ns, thread, -1, -1 FROM spans WHERE category <> 'Trace'
    UNION ALL
    SELECT rank, event_id, 2, name, ts_ns, dur_ns, thread, coalesce(stream, -1), coalesce(correlation, -1) FROM kernels
    UNION ALL
    SELECT rank, event_id, 2, name, ts_ns, dur_ns, thread, coalesce(stream, -1), coalesce(correlation, -1) FROM memcpys
    UNION ALL
    SELECT rank, event_id, 2, name, ts_ns, dur_ns, thread, coalesce(stream, -1), coalesce(correlation, -1) FROM memsets
    UNION ALL
    SELECT rank, event_id, 3, name, ts_ns, dur_ns, thread, coalesce(stream, -1), coalesce(correlation, -1) FROM device_syncs";

pub(super) const WAITS: &str = "
    SELECT rank, event_id, coalesce(wait_on_stream, -1) AS stream, coalesce(wait_on_record, -1) AS record
    FROM device_syncs
    ORDER BY rank, event_id";

pub(super) const LANES: &str = "SELECT rank, thread, pid, tid FROM threads ORDER BY rank, thread";

pub(super) const RANKS: &str = "
    SELECT
        rank,
        CASE
            WHEN cut_ns IS NULL THEN NULL
            WHEN $include_last_step THEN steps_end_ns + 1
            ELSE cut_ns
        END AS cut_ns
    FROM ranks
    ORDER BY rank";

/// The input of one rank.
#[derive(Debug)]
pub(super) struct RankFrame {
    pub(super) rank: i32,
    pub(super) frame: Frame,
    pub(super) waits: Vec<SyncWait>,
    /// Number of the process of each lane, by position of the lane.
    pub(super) processes: Vec<u32>,
}

/// The input of all ranks.
#[derive(Debug)]
pub(super) struct RankFrames {
    /// In order of rank.
    pub(super) ranks: Vec<RankFrame>,
    /// Names of events by index, and how HTA prints them.
    pub(super) names: Vec<String>,
    pub(super) shorts: Vec<ShortName>,
}

pub(super) fn load_frames(inputs: &ViewInputs<'_>) -> Result<RankFrames> {
    let batch = inputs.batch("events")?;
    let [rank, id, kind, ts_ns, dur_ns, thread, stream, correlation] =
        ["rank", "event_id", "kind", "ts_ns", "dur_ns", "thread", "stream", "correlation"]
            .map(|column| ints(batch, column));
    let (rank, id, kind, ts_ns) = (rank?, id?, kind?, ts_ns?);
    let (dur_ns, thread, stream, correlation) = (dur_ns?, thread?, stream?, correlation?);
    let names = names(batch, "name")?;
    let roles: Vec<Role> = names.texts.iter().map(|name| Role::of(name)).collect();
    let mut lanes = lanes(inputs)?;

    let event = |row: usize| {
        let name = names.ids[row];
        Event {
            id: id.value(row),
            ts_ns: ts_ns.value(row),
            dur_ns: dur_ns.value(row).max(0),
            correlation: correlation.value(row),
            stream: stream.value(row),
            name,
            lane: lanes.position(rank.value(row), thread.value(row)),
            kind: match kind.value(row) {
                0 => EventKind::Call,
                1 => EventKind::Range,
                2 => EventKind::Activity,
                _ => EventKind::Sync,
            },
            role: roles.get(name as usize).copied().unwrap_or(Role::Plain),
        }
    };
    let by_rank = rows_by_rank(&rank, event);

    let batch = inputs.batch("ranks")?;
    let (rank, cut_ns) = (ints(batch, "rank")?, ints(batch, "cut_ns")?);
    let cuts: BTreeMap<i64, i64> = (0..batch.num_rows())
        .filter(|&row| !cut_ns.is_null(row))
        .map(|row| (rank.value(row), cut_ns.value(row)))
        .collect();
    let mut waits = waits(inputs)?;
    let ranks = by_rank
        .into_iter()
        .map(|(rank, mut events)| {
            // Each table is in order already.
            events.sort_by_key(|e| e.id);
            RankFrame {
                rank: rank as i32,
                frame: Frame::new(events, cuts.get(&rank).copied()),
                waits: waits.remove(&rank).unwrap_or_default(),
                processes: lanes.processes.remove(&rank).unwrap_or_default(),
            }
        })
        .collect();
    let shorts = names.texts.iter().map(|name| ShortName::of(name)).collect();
    Ok(RankFrames { ranks, names: names.texts, shorts })
}

/// Lanes of each rank, ordered by process and thread, numbers before other texts.
#[derive(Debug, Default)]
struct Lanes {
    positions: FxHashMap<(i64, i64), u32>,
    /// Number of the process of each lane, by rank and position.
    processes: BTreeMap<i64, Vec<u32>>,
}

impl Lanes {
    fn add(&mut self, rank: i64, thread: i64, process: u32) -> u32 {
        let processes = self.processes.entry(rank).or_default();
        let position = processes.len() as u32;
        processes.push(process);
        self.positions.insert((rank, thread), position);
        position
    }

    /// The position of a lane. Lanes that the run does not describe come last.
    fn position(&mut self, rank: i64, thread: i64) -> u32 {
        match self.positions.get(&(rank, thread)) {
            Some(&position) => position,
            None => self.add(rank, thread, Names::NONE),
        }
    }
}

fn lanes(inputs: &ViewInputs<'_>) -> Result<Lanes> {
    let batch = inputs.batch("lanes")?;
    let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
    let (pid, tid) = (names(batch, "pid")?, names(batch, "tid")?);
    let key = |names: &Names, row: usize| {
        let text = names.get(row).unwrap_or_default().to_owned();
        let number = text.parse::<i64>();
        (number.is_err(), number.unwrap_or(0), text)
    };
    let mut rows: Vec<_> = (0..batch.num_rows())
        .map(|row| (rank.value(row), key(&pid, row), key(&tid, row), row))
        .collect();
    rows.sort_unstable();
    let mut lanes = Lanes::default();
    for (rank, _, _, row) in rows {
        lanes.add(rank, thread.value(row), pid.ids[row]);
    }
    Ok(lanes)
}

fn waits(inputs: &ViewInputs<'_>) -> Result<BTreeMap<i64, Vec<SyncWait>>> {
    let batch = inputs.batch("waits")?;
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let (stream, record) = (ints(batch, "stream")?, ints(batch, "record")?);
    Ok(rows_by_rank(&rank, |row| SyncWait {
        id: id.value(row),
        stream: stream.value(row),
        record: record.value(row),
    }))
}
