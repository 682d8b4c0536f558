//! Reads the allocations of each device, from memory snapshots and from traces.

mod snapshots;
mod traces;

use query::rust_view::{InputQueries, Result, ViewInputs};

use super::classify::{Allocation, classify};
use super::segments::{Request, Segments};

pub(super) const INPUTS: InputQueries = &[
    (
        "stacks",
        "SELECT rank, snapshot, stack, parent, depth, name, file, place FROM snapshot_stacks ORDER BY rank, snapshot, depth",
    ),
    (
        "held",
        "SELECT rank, snapshot, device, address, bytes, alloc_position, free_position, category, stack FROM snapshot_allocations",
    ),
    (
        "snapshot_devices",
        "SELECT rank, snapshot, device, event_count, peak_position, peak_allocated_bytes, end_allocated_bytes, end_reserved_bytes
         FROM snapshot_devices",
    ),
    // The moments at which the caching allocator's memory is known beside that of allocations.
    (
        "moments",
        "SELECT e.rank, e.snapshot, e.device, e.position, e.allocated_bytes, e.reserved_bytes, e.device_free_bytes, e.bytes, e.stream,
            CASE WHEN e.action = 'oom' THEN 1 ELSE 0 END AS is_oom
         FROM snapshot_events e
         LEFT JOIN snapshot_devices d
             ON d.rank = e.rank AND d.snapshot = e.snapshot AND d.device = e.device AND d.peak_position = e.position
         WHERE d.rank IS NOT NULL OR e.action = 'oom'
         ORDER BY e.position",
    ),
    (
        "segments",
        "SELECT
            rank, snapshot, device, address, total_bytes, stream,
            CASE WHEN kind = 'small' THEN 1 ELSE 0 END AS is_small,
            CASE WHEN pool IS NOT NULL AND pool <> '[0,0]' THEN 1 ELSE 0 END AS is_private,
            CASE WHEN is_expandable THEN 1 ELSE 0 END AS is_expandable
         FROM snapshot_segments
         WHERE address IS NOT NULL
         ORDER BY rank, snapshot, device, address",
    ),
    (
        "segment_changes",
        "SELECT
            rank, snapshot, device, position, address, bytes, stream,
            CASE WHEN action IN ('segment_alloc', 'segment_map') THEN 1 ELSE 0 END AS is_taken,
            CASE WHEN action IN ('segment_map', 'segment_unmap') THEN 1 ELSE 0 END AS is_expandable
         FROM snapshot_events
         WHERE action IN ('segment_alloc', 'segment_free', 'segment_map', 'segment_unmap')
             AND address IS NOT NULL AND bytes > 0
         ORDER BY rank, snapshot, device, position",
    ),
    (
        "device_totals",
        "SELECT rank, device, max(total_memory_bytes) AS total_memory_bytes
         FROM devices
         WHERE total_memory_bytes IS NOT NULL
         GROUP BY rank, device",
    ),
    (
        "free_blocks",
        "SELECT
            rank, snapshot, device, segment,
            sum(CASE WHEN state = 'inactive' THEN size_bytes ELSE 0 END) AS free_bytes,
            sum(CASE WHEN state = 'inactive' THEN 0 ELSE size_bytes - requested_bytes END) AS rounding_bytes,
            sum(CASE WHEN state = 'inactive' THEN 0 ELSE 1 END) AS used_count
         FROM snapshot_blocks
         GROUP BY rank, snapshot, device, segment",
    ),
    (
        "pieces",
        "SELECT
            a.rank, a.memory, a.device, a.bytes, CASE WHEN a.ts_ns IS NULL THEN NULL ELSE a.position END AS alloc_position,
            a.end_position, a.phase, a.op_name, a.outer_op_name, a.module, a.annotation
         FROM memory_allocations a
         WHERE a.address IS NOT NULL",
    ),
    (
        "summaries",
        "SELECT
            s.rank, s.memory, s.device, s.start_bytes, s.end_bytes, s.peak_allocated_bytes, s.peak_position,
            d.total_memory_bytes
         FROM memory_summary s
         LEFT JOIN devices d ON d.rank = s.rank AND d.device = s.device AND s.device >= 0
         WHERE s.peak_allocated_bytes IS NOT NULL",
    ),
    (
        "optimizers",
        "SELECT rank, max(CASE WHEN name LIKE '%Adam%' OR name LIKE '%LAMB%' THEN 2 WHEN name LIKE '%SGD%' THEN 1 ELSE 2 END) AS states
         FROM annotations WHERE name LIKE 'Optimizer.step#%'
         GROUP BY rank",
    ),
];

/// A moment at which the owners are of interest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    pub(super) name: &'static str,
    pub(super) position: i64,
    /// What allocations hold then, as the allocator says.
    pub(super) allocated_bytes: i64,
    /// Bytes that the caching allocator holds; absent if unknown.
    pub(super) reserved_bytes: Option<i64>,
    /// Bytes free on the device; absent if the driver was not asked.
    pub(super) device_free_bytes: Option<i64>,
    /// The allocation that failed.
    pub(super) request: Option<Request>,
}

impl Moment {
    /// A moment at which the driver was not asked for memory.
    fn new(
        name: &'static str,
        position: i64,
        allocated_bytes: i64,
        reserved_bytes: Option<i64>,
    ) -> Self {
        Self {
            name,
            position,
            allocated_bytes,
            reserved_bytes,
            device_free_bytes: None,
            request: None,
        }
    }
}

/// The allocations of a device, or of the host, in one recording.
pub(super) struct Memory {
    pub(super) rank: i64,
    /// Number of the snapshot; `None` for a trace.
    pub(super) snapshot: Option<i64>,
    /// `cuda:0`, `cpu` ...
    pub(super) space: String,
    pub(super) device: i64,
    pub(super) allocations: Vec<Allocation>,
    pub(super) moments: Vec<Moment>,
    /// Rounding, free blocks of segments in use, and free segments, in the end.
    pub(super) unused_bytes: Option<[i64; 3]>,
    /// Segments of the caching allocator; none for recordings that do not have them.
    pub(super) segments: Segments,
    /// Memory of the device; absent if unknown.
    pub(super) device_bytes: Option<i64>,
    /// What the program can have: from the device, or from what was free when an allocation failed.
    pub(super) capacity_bytes: Option<i64>,
    /// The recording has a history: without one, only the end is known.
    pub(super) has_history: bool,
}

#[cfg(test)]
impl Memory {
    /// The allocations of a GPU without anything beside them.
    pub(super) fn of(allocations: Vec<Allocation>) -> Self {
        Self {
            rank: 0,
            snapshot: None,
            space: "cuda:0".to_owned(),
            device: 0,
            allocations,
            moments: Vec::new(),
            unused_bytes: None,
            segments: Segments::default(),
            device_bytes: None,
            capacity_bytes: None,
            has_history: true,
        }
    }
}

/// All memories, and the names that places of allocations refer to.
pub(super) struct Memories {
    pub(super) memories: Vec<Memory>,
    pub(super) places: Vec<String>,
}

impl Memories {
    pub(super) fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let mut memories = Vec::new();
        let mut places = Vec::new();
        snapshots::snapshots(inputs, &mut memories, &mut places)?;
        traces::traces(inputs, &mut memories, &mut places)?;
        for memory in &mut memories {
            classify(&mut memory.allocations);
        }
        Ok(Self { memories, places })
    }

    pub(super) fn place(&self, place: u32) -> Option<&str> {
        self.places.get(place as usize).map(String::as_str).filter(|place| !place.is_empty())
    }
}
