//! The allocations of memory snapshots, and the segments that they lie in.

use std::collections::BTreeMap;

use query::columns::{Names, get, ints, names};
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::{Memory, Moment};
use crate::memory::classify::{Allocation, Evidence, Owner, Phase};
use crate::memory::segments::{Change, Request, SMALL_SEGMENT_BYTES, Segment, Segments};
use crate::memory::stacks::Stacks;

type DeviceKey = (i64, i64, i64);

/// Rank, snapshot and device of each row.
fn device_keys(batch: &RecordBatch) -> Result<impl Fn(usize) -> DeviceKey> {
    let (rank, snapshot) = (ints(batch, "rank")?, ints(batch, "snapshot")?);
    let device = ints(batch, "device")?;
    Ok(move |row| (rank.value(row), snapshot.value(row), device.value(row)))
}

/// Adds the memories of snapshots.
pub(super) fn snapshots(
    inputs: &ViewInputs<'_>,
    memories: &mut Vec<Memory>,
    places: &mut Vec<String>,
) -> Result<()> {
    let stacks = Stacks::read(inputs.batch("stacks")?)?;
    places.extend(stacks.places.texts.iter().cloned());
    let mut devices: BTreeMap<DeviceKey, Memory> = BTreeMap::new();
    let batch = inputs.batch("snapshot_devices")?;
    let key_of = device_keys(batch)?;
    let [events, peak, peak_bytes, end_bytes, end_reserved] = [
        ints(batch, "event_count")?,
        ints(batch, "peak_position")?,
        ints(batch, "peak_allocated_bytes")?,
        ints(batch, "end_allocated_bytes")?,
        ints(batch, "end_reserved_bytes")?,
    ];
    for row in 0..batch.num_rows() {
        let key = key_of(row);
        let has_history = events.value(row) > 0;
        let mut moments =
            vec![Moment::new("end", i64::MAX - 1, end_bytes.value(row), get(&end_reserved, row))];
        if has_history {
            let position = get(&peak, row).unwrap_or(-1);
            moments.insert(0, Moment::new("peak", position, peak_bytes.value(row), None));
        }
        let memory = Memory {
            rank: key.0,
            snapshot: Some(key.1),
            space: format!("cuda:{}", key.2),
            device: key.2,
            allocations: Vec::new(),
            moments,
            unused_bytes: None,
            segments: Segments::default(),
            device_bytes: None,
            capacity_bytes: None,
            has_history,
        };
        devices.insert(key, memory);
    }
    read_capacities(inputs, &mut devices)?;
    read_moments(inputs, &mut devices)?;
    read_segments(inputs, &mut devices)?;

    let batch = inputs.batch("free_blocks")?;
    let key_of = device_keys(batch)?;
    let [free, rounding, used] =
        [ints(batch, "free_bytes")?, ints(batch, "rounding_bytes")?, ints(batch, "used_count")?];
    for row in 0..batch.num_rows() {
        let key = key_of(row);
        let Some(memory) = devices.get_mut(&key) else { continue };
        let [of_rounding, of_used, of_free] = memory.unused_bytes.get_or_insert([0; 3]);
        *of_rounding = of_rounding.saturating_add(rounding.value(row));
        let of_free = if used.value(row) > 0 { of_used } else { of_free };
        *of_free = of_free.saturating_add(free.value(row));
    }

    let batch = inputs.batch("held")?;
    let key_of = device_keys(batch)?;
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
        let key = key_of(row);
        let Some(memory) = devices.get_mut(&key) else { continue };
        let facts = get(&stack, row).and_then(|stack| stacks.get(key.0, key.1, stack));
        let start = get(&start, row).unwrap_or(-1);
        if facts.is_some() && start >= 0 {
            has_stacks.insert(key, true);
        }
        let recorded = categories.get(row).and_then(Owner::of_category);
        let pool = get(&address, row).and_then(|address| {
            memory.segments.last_at(address)?.is_private.then_some(Owner::GraphPool)
        });
        let (owner, evidence) = match recorded.or(pool) {
            Some(owner) => (owner, Evidence::Recorded),
            None => (Owner::Unknown, Evidence::None),
        };
        memory.allocations.push(Allocation {
            start,
            end: get(&end, row).unwrap_or(i64::MAX),
            address: get(&address, row).unwrap_or(-1),
            bytes: bytes.value(row),
            phase: facts.map_or(Phase::Other, |facts| facts.phase),
            is_workspace: facts.is_some_and(|facts| facts.is_workspace),
            is_cast: facts.and_then(|facts| facts.is_cast),
            stack_depth: facts.map_or(0, |facts| facts.depth),
            place: facts.map_or(Names::NONE, |facts| facts.place),
            owner,
            evidence,
            ..Allocation::default()
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

/// The memory of devices, from the trace beside a snapshot. Snapshots count the devices that a process sees and traces
/// those of the machine: where a rank uses one device, both mean that one.
fn read_capacities(
    inputs: &ViewInputs<'_>,
    devices: &mut BTreeMap<DeviceKey, Memory>,
) -> Result<()> {
    let batch = inputs.batch("device_totals")?;
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let total = ints(batch, "total_memory_bytes")?;
    let mut totals: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        totals.entry(rank.value(row)).or_default().insert(device.value(row), total.value(row));
    }
    for (&(rank, _, device), memory) in devices {
        let Some(of_rank) = totals.get(&rank) else { continue };
        let only = of_rank.values().next().filter(|_| of_rank.len() == 1);
        memory.device_bytes = of_rank.get(&device).or(only).copied();
        memory.capacity_bytes = memory.device_bytes;
    }
    Ok(())
}

/// The segments in the end, and how they changed.
fn read_segments(inputs: &ViewInputs<'_>, devices: &mut BTreeMap<DeviceKey, Memory>) -> Result<()> {
    let batch = inputs.batch("segments")?;
    let key_of = device_keys(batch)?;
    let [address, bytes, stream] =
        [ints(batch, "address")?, ints(batch, "total_bytes")?, ints(batch, "stream")?];
    let [is_small, is_private, is_expandable] =
        [ints(batch, "is_small")?, ints(batch, "is_private")?, ints(batch, "is_expandable")?];
    for row in 0..batch.num_rows() {
        let key = key_of(row);
        let Some(memory) = devices.get_mut(&key) else { continue };
        memory.segments.add(Segment {
            start: address.value(row),
            end: address.value(row).saturating_add(bytes.value(row)),
            stream: get(&stream, row),
            is_small: is_small.value(row) == 1,
            is_private: is_private.value(row) == 1,
            is_expandable: is_expandable.value(row) == 1,
        });
    }
    let batch = inputs.batch("segment_changes")?;
    let key_of = device_keys(batch)?;
    let [position, address, bytes, stream] = [
        ints(batch, "position")?,
        ints(batch, "address")?,
        ints(batch, "bytes")?,
        ints(batch, "stream")?,
    ];
    let (is_taken, is_expandable) = (ints(batch, "is_taken")?, ints(batch, "is_expandable")?);
    for row in 0..batch.num_rows() {
        let key = key_of(row);
        let Some(memory) = devices.get_mut(&key) else { continue };
        let is_expandable = is_expandable.value(row) == 1;
        let (start, bytes) = (address.value(row), bytes.value(row));
        memory.segments.change(Change {
            position: position.value(row),
            is_taken: is_taken.value(row) == 1,
            segment: Segment {
                start,
                end: start.saturating_add(bytes),
                stream: get(&stream, row),
                is_small: bytes <= SMALL_SEGMENT_BYTES,
                is_private: false,
                is_expandable,
            },
        });
    }
    Ok(())
}

/// Reads the state of the allocator at the peak and when an allocation failed.
fn read_moments(inputs: &ViewInputs<'_>, devices: &mut BTreeMap<DeviceKey, Memory>) -> Result<()> {
    let batch = inputs.batch("moments")?;
    let key_of = device_keys(batch)?;
    let [position, allocated, reserved, free, bytes, stream, is_oom] = [
        ints(batch, "position")?,
        ints(batch, "allocated_bytes")?,
        ints(batch, "reserved_bytes")?,
        ints(batch, "device_free_bytes")?,
        ints(batch, "bytes")?,
        ints(batch, "stream")?,
        ints(batch, "is_oom")?,
    ];
    for row in 0..batch.num_rows() {
        let key = key_of(row);
        let Some(memory) = devices.get_mut(&key) else { continue };
        let reserved_bytes = get(&reserved, row);
        if is_oom.value(row) == 1 {
            memory.moments.retain(|moment| moment.name != "oom");
            memory.moments.push(Moment {
                name: "oom",
                position: position.value(row),
                allocated_bytes: allocated.value(row),
                reserved_bytes,
                device_free_bytes: get(&free, row),
                request: get(&bytes, row).map(|bytes| Request { bytes, stream: get(&stream, row) }),
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
