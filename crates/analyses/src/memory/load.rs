//! Reads the allocations of each device, from memory snapshots and from traces.

use std::collections::BTreeMap;

use query::columns::{Names, get, ints, names};
use query::rust_view::{InputQueries, Result, ViewInputs};

use super::classify::{Allocation, Evidence, Owner, Phase, classify, total_bytes};
use super::stacks::Stacks;

pub(super) const INPUTS: InputQueries = &[
    (
        "stacks",
        "SELECT rank, snapshot, stack, parent, name, file, user_frame FROM snapshot_stacks ORDER BY rank, snapshot, depth",
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
        "SELECT e.rank, e.snapshot, e.device, e.position, e.allocated_bytes, e.reserved_bytes, e.device_free_bytes, e.bytes,
            CASE WHEN e.action = 'oom' THEN 1 ELSE 0 END AS is_oom
         FROM snapshot_events e
         LEFT JOIN snapshot_devices d
             ON d.rank = e.rank AND d.snapshot = e.snapshot AND d.device = e.device AND d.peak_position = e.position
         WHERE d.rank IS NOT NULL OR e.action = 'oom'
         ORDER BY e.position",
    ),
    (
        "graph_pools",
        "SELECT rank, snapshot, device, address, total_bytes
         FROM snapshot_segments
         WHERE pool IS NOT NULL AND pool <> '[0,0]' AND address IS NOT NULL
         ORDER BY rank, snapshot, device, address",
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
    /// What the caching allocator holds.
    pub(super) reserved_bytes: Option<i64>,
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
    /// What the program can have: from the device, or from what was free when an allocation failed.
    pub(super) capacity_bytes: Option<i64>,
    /// The recording has a history: without one, only the end is known.
    pub(super) has_history: bool,
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
        snapshots(inputs, &mut memories, &mut places)?;
        traces(inputs, &mut memories, &mut places)?;
        for memory in &mut memories {
            classify(&mut memory.allocations);
        }
        Ok(Self { memories, places })
    }

    pub(super) fn place(&self, place: u32) -> Option<&str> {
        self.places.get(place as usize).map(String::as_str).filter(|place| !place.is_empty())
    }
}

type DeviceKey = (i64, i64, i64);

fn snapshots(
    inputs: &ViewInputs<'_>,
    memories: &mut Vec<Memory>,
    places: &mut Vec<String>,
) -> Result<()> {
    let stacks = Stacks::read(inputs.batch("stacks")?)?;
    places.extend(stacks.places.texts.iter().cloned());
    let mut devices: BTreeMap<DeviceKey, Memory> = BTreeMap::new();
    let batch = inputs.batch("snapshot_devices")?;
    let keys = |batch| -> Result<_> {
        Ok((ints(batch, "rank")?, ints(batch, "snapshot")?, ints(batch, "device")?))
    };
    let (rank, snapshot, device) = keys(batch)?;
    let [events, peak, peak_bytes, end_bytes, end_reserved] = [
        ints(batch, "event_count")?,
        ints(batch, "peak_position")?,
        ints(batch, "peak_allocated_bytes")?,
        ints(batch, "end_allocated_bytes")?,
        ints(batch, "end_reserved_bytes")?,
    ];
    for row in 0..batch.num_rows() {
        let key = (rank.value(row), snapshot.value(row), device.value(row));
        let has_history = events.value(row) > 0;
        let moment = |name, position, allocated_bytes, reserved_bytes| Moment {
            name,
            position,
            allocated_bytes,
            reserved_bytes,
        };
        let mut moments =
            vec![moment("end", i64::MAX - 1, end_bytes.value(row), get(&end_reserved, row))];
        if has_history {
            let position = get(&peak, row).unwrap_or(-1);
            moments.insert(0, moment("peak", position, peak_bytes.value(row), None));
        }
        let memory = Memory {
            rank: key.0,
            snapshot: Some(key.1),
            space: format!("cuda:{}", key.2),
            device: key.2,
            allocations: Vec::new(),
            moments,
            unused_bytes: None,
            capacity_bytes: None,
            has_history,
        };
        devices.insert(key, memory);
    }
    read_moments(inputs, &mut devices)?;

    let batch = inputs.batch("graph_pools")?;
    let (rank, snapshot, device) = keys(batch)?;
    let (address, bytes) = (ints(batch, "address")?, ints(batch, "total_bytes")?);
    let mut pools: BTreeMap<(DeviceKey, i64), i64> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key = (rank.value(row), snapshot.value(row), device.value(row));
        let start = address.value(row);
        pools.insert((key, start), start.saturating_add(bytes.value(row)));
    }

    let batch = inputs.batch("free_blocks")?;
    let (rank, snapshot, device) = keys(batch)?;
    let [free, rounding, used] =
        [ints(batch, "free_bytes")?, ints(batch, "rounding_bytes")?, ints(batch, "used_count")?];
    for row in 0..batch.num_rows() {
        let key = (rank.value(row), snapshot.value(row), device.value(row));
        let Some(memory) = devices.get_mut(&key) else { continue };
        let [of_rounding, of_used, of_free] = memory.unused_bytes.get_or_insert([0; 3]);
        *of_rounding = of_rounding.saturating_add(rounding.value(row));
        let of_free = if used.value(row) > 0 { of_used } else { of_free };
        *of_free = of_free.saturating_add(free.value(row));
    }

    let batch = inputs.batch("held")?;
    let (rank, snapshot, device) = keys(batch)?;
    let [address, bytes, start, end, stack] = [
        ints(batch, "address")?,
        ints(batch, "bytes")?,
        ints(batch, "alloc_position")?,
        ints(batch, "free_position")?,
        ints(batch, "stack")?,
    ];
    let categories = names(batch, "category")?;
    let mut has_stacks: BTreeMap<DeviceKey, bool> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key = (rank.value(row), snapshot.value(row), device.value(row));
        let Some(memory) = devices.get_mut(&key) else { continue };
        let facts = get(&stack, row).and_then(|stack| stacks.get(key.0, key.1, stack));
        let start = get(&start, row).unwrap_or(-1);
        if facts.is_some() && start >= 0 {
            has_stacks.insert(key, true);
        }
        let recorded = categories.get(row).and_then(Owner::of_category);
        let pool = get(&address, row).and_then(|address| {
            let (pool, &end) = pools.range(..=(key, address)).next_back()?;
            (pool.0 == key && address < end).then_some(Owner::GraphPool)
        });
        let (owner, evidence) = match recorded.or(pool) {
            Some(owner) => (owner, Evidence::Recorded),
            None => (Owner::Unknown, Evidence::None),
        };
        memory.allocations.push(Allocation {
            start,
            end: get(&end, row).unwrap_or(i64::MAX),
            bytes: bytes.value(row),
            phase: facts.map_or(Phase::Other, |facts| facts.phase),
            is_workspace: facts.is_some_and(|facts| facts.is_workspace),
            place: facts.map_or(Names::NONE, |facts| facts.place),
            owner,
            evidence,
            iteration: 0,
        });
    }
    for (key, memory) in &mut devices {
        // The autograd engine runs on a thread of its own, which has no Python frames.
        let is_stackless =
            |a: &&mut Allocation| a.start >= 0 && a.place == Names::NONE && a.phase == Phase::Other;
        if has_stacks.contains_key(key) {
            memory
                .allocations
                .iter_mut()
                .filter(is_stackless)
                .for_each(|a| a.phase = Phase::Backward);
        }
    }
    memories.extend(devices.into_values());
    Ok(())
}

/// What the allocator held at the peak and when an allocation failed.
fn read_moments(inputs: &ViewInputs<'_>, devices: &mut BTreeMap<DeviceKey, Memory>) -> Result<()> {
    let batch = inputs.batch("moments")?;
    let (rank, snapshot) = (ints(batch, "rank")?, ints(batch, "snapshot")?);
    let [device, position, allocated, reserved, free, is_oom] = [
        ints(batch, "device")?,
        ints(batch, "position")?,
        ints(batch, "allocated_bytes")?,
        ints(batch, "reserved_bytes")?,
        ints(batch, "device_free_bytes")?,
        ints(batch, "is_oom")?,
    ];
    for row in 0..batch.num_rows() {
        let key = (rank.value(row), snapshot.value(row), device.value(row));
        let Some(memory) = devices.get_mut(&key) else { continue };
        let reserved_bytes = get(&reserved, row);
        if is_oom.value(row) == 1 {
            memory.moments.retain(|moment| moment.name != "oom");
            memory.moments.push(Moment {
                name: "oom",
                position: position.value(row),
                allocated_bytes: allocated.value(row),
                reserved_bytes,
            });
            let free = get(&free, row).zip(reserved_bytes);
            memory.capacity_bytes = free
                .map(|(free, reserved)| free.saturating_add(reserved))
                .or(memory.capacity_bytes);
        } else if let Some(peak) = memory.moments.iter_mut().find(|moment| moment.name == "peak") {
            peak.reserved_bytes = reserved_bytes;
        }
    }
    Ok(())
}

fn traces(
    inputs: &ViewInputs<'_>,
    memories: &mut Vec<Memory>,
    places: &mut Vec<String>,
) -> Result<()> {
    let batch = inputs.batch("optimizers")?;
    let (rank, states) = (ints(batch, "rank")?, ints(batch, "states")?);
    let states: BTreeMap<i64, i64> =
        (0..batch.num_rows()).map(|row| (rank.value(row), states.value(row))).collect();
    let batch = inputs.batch("pieces")?;
    let rank = ints(batch, "rank")?;
    let [bytes, start, end] =
        [ints(batch, "bytes")?, ints(batch, "alloc_position")?, ints(batch, "end_position")?];
    let (memory, phases) = (names(batch, "memory")?, names(batch, "phase")?);
    let (modules, ops) = (names(batch, "module")?, names(batch, "outer_op_name")?);
    let inner_ops = names(batch, "op_name")?;
    let mut numbers: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
    let mut found: BTreeMap<(i64, String), Vec<Allocation>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key = (modules.ids[row], ops.ids[row], inner_ops.ids[row]);
        let place = *numbers.entry(key).or_insert_with(|| {
            let op = ops.get(row).or_else(|| inner_ops.get(row));
            let parts: Vec<&str> = [modules.get(row), op].into_iter().flatten().collect();
            places.push(parts.join(", "));
            places.len() as u32 - 1
        });
        let phase = match phases.get(row) {
            Some("dataloader") => Phase::Loading,
            Some("forward") => Phase::Forward,
            Some("backward") => Phase::Backward,
            Some("optimizer") => Phase::Optimizer,
            _ => Phase::Other,
        };
        let of = (rank.value(row), memory.get(row).unwrap_or_default().to_owned());
        found.entry(of).or_default().push(Allocation {
            start: get(&start, row).unwrap_or(-1),
            end: get(&end, row).unwrap_or(i64::MAX),
            bytes: bytes.value(row),
            phase,
            is_workspace: false,
            place,
            owner: Owner::Unknown,
            evidence: Evidence::None,
            iteration: 0,
        });
    }
    let batch = inputs.batch("summaries")?;
    let (rank, memory, device) =
        (ints(batch, "rank")?, names(batch, "memory")?, ints(batch, "device")?);
    let [start, end, peak, position, total] = [
        ints(batch, "start_bytes")?,
        ints(batch, "end_bytes")?,
        ints(batch, "peak_allocated_bytes")?,
        ints(batch, "peak_position")?,
        ints(batch, "total_memory_bytes")?,
    ];
    for row in 0..batch.num_rows() {
        let name = memory.get(row).unwrap_or_default();
        let mut allocations = found.remove(&(rank.value(row), name.to_owned())).unwrap_or_default();
        let released = total_bytes(allocations.iter().filter(|a| a.start < 0));
        let older = get(&start, row).unwrap_or(0).saturating_sub(released);
        let states = states.get(&rank.value(row)).copied();
        older_in_traces(&mut allocations, older, states);
        memories.push(Memory {
            rank: rank.value(row),
            snapshot: None,
            space: name.to_owned(),
            device: device.value(row),
            moments: vec![
                Moment {
                    name: "peak",
                    position: position.value(row),
                    allocated_bytes: peak.value(row),
                    reserved_bytes: None,
                },
                Moment {
                    name: "end",
                    position: i64::MAX - 1,
                    allocated_bytes: end.value(row),
                    reserved_bytes: None,
                },
            ],
            allocations,
            unused_bytes: None,
            capacity_bytes: get(&total, row),
            has_history: true,
        });
    }
    Ok(())
}

/// A trace tells of older memory only how much it is. Parameters take as much as the gradients of a backward pass, and
/// optimizers keep as many values again, or twice as many.
fn older_in_traces(allocations: &mut Vec<Allocation>, older_bytes: i64, states: Option<i64>) {
    classify(allocations);
    let mut of_iteration: BTreeMap<u32, i64> = BTreeMap::new();
    for allocation in allocations.iter().filter(|a| a.owner == Owner::Gradient) {
        let bytes = of_iteration.entry(allocation.iteration).or_default();
        *bytes = bytes.saturating_add(allocation.bytes);
    }
    let parameters = of_iteration.values().copied().max().unwrap_or(0).min(older_bytes.max(0));
    let is_kept = |a: &&Allocation| a.owner == Owner::OptimizerState && a.end == i64::MAX;
    let kept = total_bytes(allocations.iter().filter(is_kept));
    let wanted = states.unwrap_or(0).saturating_mul(parameters).saturating_sub(kept).max(0);
    // Optimizers without values (plain SGD) leave nothing of that size.
    let others = older_bytes.saturating_sub(parameters);
    let of_optimizer = if others as f64 >= 0.9 * wanted as f64 { wanted.min(others) } else { 0 };
    let parts = [
        (Owner::Parameter, parameters, Evidence::Size),
        (Owner::OptimizerState, of_optimizer, Evidence::Size),
        (Owner::Older, others.saturating_sub(of_optimizer), Evidence::Lifetime),
    ];
    for (owner, bytes, evidence) in parts.into_iter().filter(|(_, bytes, _)| *bytes != 0) {
        allocations.push(Allocation {
            start: -1,
            end: i64::MAX,
            bytes,
            phase: Phase::Other,
            is_workspace: false,
            place: Names::NONE,
            owner,
            evidence,
            iteration: 0,
        });
    }
}
