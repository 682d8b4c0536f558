//! Where the time of a step goes: parts of the analyzed window that add up to it.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::{MetricTable, Value};

use crate::finding::round4;

/// Views of one row per device, with the shares of its window in which it is busy and idle.
const BUSY_VIEW: &str = "gpu_utilization";
const IDLE_VIEW: &str = "gpu_idle_causes";

/// Columns of [`BUSY_VIEW`] and [`IDLE_VIEW`] that add up to 1, with the name of the part, in order of the bar.
const PARTS: [(&str, &str, &str); 14] = [
    ("computation", BUSY_VIEW, "computation_ratio"),
    ("communication", BUSY_VIEW, "exposed_communication_ratio"),
    ("copies", BUSY_VIEW, "exposed_copy_ratio"),
    ("data loading", IDLE_VIEW, "dataloader_ratio"),
    ("synchronization", IDLE_VIEW, "sync_ratio"),
    ("launching", IDLE_VIEW, "dispatch_ratio"),
    ("Python", IDLE_VIEW, "python_ratio"),
    ("CPU operators", IDLE_VIEW, "cpu_compute_ratio"),
    ("allocation", IDLE_VIEW, "allocation_ratio"),
    ("waiting for collectives", IDLE_VIEW, "collective_ratio"),
    ("waiting for other streams", IDLE_VIEW, "other_stream_ratio"),
    ("gaps between kernels", IDLE_VIEW, "dependency_ratio"),
    ("first launches", IDLE_VIEW, "first_launch_ratio"),
    ("unknown", IDLE_VIEW, UNKNOWN),
];

/// Idle time of unknown cause: what the other parts leave.
const UNKNOWN: &str = "unattributed_ratio";

/// Where the time of a device goes, on the slowest rank: each nanosecond of its window is in one part. A device that
/// computes and communicates at the same time computes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Breakdown {
    /// Rank.
    pub rank: i64,
    /// Device ordinal.
    pub device: i64,
    /// From the start of the first complete step to the end of the last; without steps the whole recording.
    pub window_ns: i64,
    /// Complete steps in it; 0 without steps.
    pub steps: i64,
    /// The parts that are not zero, in a fixed order; they add up to 1.
    pub parts: Vec<BreakdownPart>,
}

/// A part of a [`Breakdown`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BreakdownPart {
    /// What the device does, or why it is idle: `computation`, `data loading`, ...
    pub cause: String,
    /// True if the device is busy in this part, false if it is idle.
    pub is_busy: bool,
    /// Share of the window.
    pub ratio: f64,
}

/// Reads the breakdown of the busiest device of a rank; `None` if its views were not computed, or it has no device.
pub(crate) fn breakdown(tables: &[MetricTable], slowest_rank: Option<i64>) -> Option<Breakdown> {
    let find = |view: &str| tables.iter().find(|table| table.view == view);
    let (busy, idle) = (find(BUSY_VIEW)?, find(IDLE_VIEW)?);
    let number = |table: &MetricTable, row: &[Value], name: &str| {
        table.index(name).and_then(|at| row.get(at)?.as_f64())
    };
    let of_rank = |row: &&Vec<Value>| match slowest_rank {
        Some(rank) => number(busy, row, "rank") == Some(rank as f64),
        None => true,
    };
    let busy_ratio = |row: &[Value]| number(busy, row, "busy_ratio").unwrap_or(0.0);
    let row = busy.rows.iter().filter(of_rank).rev();
    let row = row.max_by(|a, b| busy_ratio(a).total_cmp(&busy_ratio(b)))?;
    let key = |table: &MetricTable, row: &[Value]| {
        Some((number(table, row, "rank")? as i64, number(table, row, "device")? as i64))
    };
    let (rank, device) = key(busy, row)?;
    let idle_row = idle.rows.iter().find(|row| key(idle, row) == Some((rank, device)))?;
    let mut parts = Vec::new();
    let mut known_ratio = 0.0;
    for (cause, view, column) in PARTS {
        let ratio = match (view, column) {
            (_, UNKNOWN) => 1.0 - known_ratio,
            (BUSY_VIEW, column) => number(busy, row, column)?,
            (_, column) => number(idle, idle_row, column)?,
        };
        known_ratio += ratio;
        if ratio > 1e-6 {
            let is_busy = view == BUSY_VIEW;
            parts.push(BreakdownPart { cause: cause.to_owned(), is_busy, ratio: round4(ratio) });
        }
    }
    Some(Breakdown {
        rank,
        device,
        window_ns: number(busy, row, "window_ns")? as i64,
        steps: number(busy, row, "step_count")? as i64,
        parts,
    })
}
