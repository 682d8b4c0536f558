//! Where the time of a step goes: parts of the analyzed window that add up to it.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::{MetricTable, Row};

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
    /// True if the steps of this rank take at least 2 % longer than the steps of the fastest rank.
    pub is_slowest: bool,
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
    let row = MetricTable::rows_of(tables, HOST_VIEW).find(|row| {
        is_of_rank(*row, slowest_rank)
            && row.flag("has_device") == Some(false)
            && !row.is_true("uses_device")
    })?;
    let mut parts = Vec::new();
    let mut left = 1.0_f64;
    let mut add = |cause: &str, is_busy, ratio: f64| {
        if ratio > 1e-6 {
            parts.push(BreakdownPart { cause: cause.to_owned(), is_busy, ratio: round4(ratio) });
        }
    };
    for (cause, is_busy, column) in HOST_PARTS {
        // An operator that ends after the window counts up to its end.
        let ratio = row.number(column)?.clamp(0.0, left);
        left -= ratio;
        add(cause, is_busy, ratio);
    }
    add(OUTSIDE_OPERATORS, false, left);
    Some(Breakdown {
        rank: row.integer("rank")?,
        is_slowest: false,
        device: Breakdown::HOST,
        window_ns: row.integer("window_ns")?,
        steps: row.integer("step_count")?,
        parts,
    })
}

fn is_of_rank(row: Row<'_>, rank: Option<i64>) -> bool {
    rank.is_none_or(|rank| row.integer("rank") == Some(rank))
}

fn of_device(tables: &[MetricTable], slowest_rank: Option<i64>) -> Option<Breakdown> {
    let busy = MetricTable::rows_of(tables, BUSY_VIEW).filter(|row| is_of_rank(*row, slowest_rank));
    let busy = Row::largest(busy, "busy_ratio")?;
    let key = |row: Row<'_>| Some((row.integer("rank")?, row.integer("device")?));
    let (rank, device) = key(busy)?;
    let mut idle = MetricTable::rows_of(tables, IDLE_VIEW);
    let idle = idle.find(|row| key(*row) == Some((rank, device)))?;
    let mut parts = Vec::new();
    let mut known_ratio = 0.0;
    for (cause, view, column) in PARTS {
        let ratio = match (view, column) {
            (_, UNKNOWN) => 1.0 - known_ratio,
            (BUSY_VIEW, column) => busy.number(column)?,
            (_, column) => idle.number(column)?,
        };
        known_ratio += ratio;
        if ratio > 1e-6 {
            let is_busy = view == BUSY_VIEW;
            parts.push(BreakdownPart { cause: cause.to_owned(), is_busy, ratio: round4(ratio) });
        }
    }
    Some(Breakdown {
        rank,
        is_slowest: false,
        device,
        window_ns: busy.integer("window_ns")?,
        steps: busy.integer("step_count")?,
        parts,
    })
}
