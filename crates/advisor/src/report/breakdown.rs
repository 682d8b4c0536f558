//! Where the time of a step goes: parts of the analyzed window that add up to it.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::{MetricTable, Value};

use crate::report::finding::round4;

/// Views of one row per device, with the shares of its window in which it is busy and idle.
const BUSY_VIEW: &str = "gpu_utilization";
const IDLE_VIEW: &str = "gpu_idle_causes";

/// Columns of [`BUSY_VIEW`] and [`IDLE_VIEW`] that add up to 1, with the name of the part, in order of the bar.
const PARTS: [(&str, &str, &str); 18] = [
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
    ("start-up", IDLE_VIEW, "startup_ratio"),
    ("compiling", IDLE_VIEW, "compiling_ratio"),
    ("profiler", IDLE_VIEW, "profiler_ratio"),
    ("host not recorded", IDLE_VIEW, "no_host_events_ratio"),
    ("unknown", IDLE_VIEW, UNKNOWN),
];

/// The view with one row per rank that runs on the CPU alone.
const HOST_VIEW: &str = "op_cpu_work";

/// Columns of [`HOST_VIEW`], with the name of the part and whether the thread computes, in order of the bar. What they
/// leave is [`OUTSIDE_OPERATORS`].
const HOST_PARTS: [(&str, bool, &str); 5] = [
    ("matmuls", true, "matmul_ratio"),
    ("convolutions", true, "convolution_ratio"),
    ("other operators", true, "other_op_ratio"),
    ("communication", false, "communication_ratio"),
    ("data loading", false, "loading_ratio"),
];

/// Time of a thread in no operator and not loading data.
pub(crate) const OUTSIDE_OPERATORS: &str = "Python or waiting";

/// Idle time of unknown cause: what the other parts leave.
const UNKNOWN: &str = "unattributed_ratio";

/// Where the time of a device goes, on the slowest rank: each nanosecond of its window is in one part. A device that
/// computes and communicates at the same time computes. Of a program that runs on the CPU alone, it is the time of the
/// host thread that works most.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Breakdown {
    /// Rank.
    pub rank: i64,
    /// Device ordinal; -1 for the host.
    pub device: i64,
    /// From the start of the first step that counts to the end of the last; without steps the whole recording.
    pub window_ns: i64,
    /// Steps that count in it; 0 without steps.
    pub steps: i64,
    /// The parts that are not zero, in a fixed order; they add up to 1.
    pub parts: Vec<BreakdownPart>,
}

/// A part of a [`Breakdown`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BreakdownPart {
    /// What the device does, or why it is idle: `computation`, `data loading`, ... What the thread of a program on the CPU
    /// does.
    pub cause: String,
    /// True if the device is busy in this part, or the thread computes, false if it is idle.
    pub is_busy: bool,
    /// Share of the window.
    pub ratio: f64,
}

impl Breakdown {
    /// The device of a breakdown of the host.
    pub const HOST: i64 = -1;

    /// Whether it is of the host: the program runs on the CPU alone.
    pub fn is_of_host(&self) -> bool {
        self.device == Self::HOST
    }
}

/// Reads the breakdown of the busiest device of a rank, or of its host if it has none; `None` if the views were not
/// computed.
pub(crate) fn breakdown(tables: &[MetricTable], slowest_rank: Option<i64>) -> Option<Breakdown> {
    of_device(tables, slowest_rank).or_else(|| of_host(tables, slowest_rank))
}

fn of_host(tables: &[MetricTable], slowest_rank: Option<i64>) -> Option<Breakdown> {
    let work = tables.iter().find(|table| table.view == HOST_VIEW)?;
    let number = |row: &[Value], name: &str| work.index(name).and_then(|at| row.get(at)?.as_f64());
    let flag = |row: &[Value], name: &str| work.index(name).and_then(|at| row.get(at).cloned());
    let is_of_rank = |row: &&Vec<Value>| {
        slowest_rank.is_none_or(|rank| number(row, "rank") == Some(rank as f64))
            && flag(row, "has_device") == Some(Value::Bool(false))
            && flag(row, "uses_device") != Some(Value::Bool(true))
    };
    let row = work.rows.iter().find(is_of_rank)?;
    let mut parts = Vec::new();
    let mut left = 1.0_f64;
    let mut add = |cause: &str, is_busy, ratio: f64| {
        if ratio > 1e-6 {
            parts.push(BreakdownPart { cause: cause.to_owned(), is_busy, ratio: round4(ratio) });
        }
    };
    for (cause, is_busy, column) in HOST_PARTS {
        // An operator that ends after the window counts up to its end.
        let ratio = number(row, column)?.clamp(0.0, left);
        left -= ratio;
        add(cause, is_busy, ratio);
    }
    add(OUTSIDE_OPERATORS, false, left);
    Some(Breakdown {
        rank: number(row, "rank")? as i64,
        device: Breakdown::HOST,
        window_ns: number(row, "window_ns")? as i64,
        steps: number(row, "step_count")? as i64,
        parts,
    })
}

fn of_device(tables: &[MetricTable], slowest_rank: Option<i64>) -> Option<Breakdown> {
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
