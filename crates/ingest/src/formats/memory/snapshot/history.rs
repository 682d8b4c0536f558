//! The history of one device, replayed: which release belongs to which allocation, and how much was held
//! after each event. A snapshot tells the end; from there the events tell the beginning.

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    SnapshotAllocation, SnapshotAllocations, SnapshotDevice, SnapshotEvent, SnapshotEvents,
};
use trace_model::{StrId, Strings};

/// An allocation at the time of the snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) address: i64,
    pub(super) bytes: i64,
    pub(super) stream: i64,
    pub(super) category: StrId,
    pub(super) stack: i64,
}

/// Effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    /// Both at once, as some exports have it.
    Free,
    Reserve,
    Unreserve,
    Other,
}

impl Action {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "alloc" => Self::Alloc,
            "free_requested" => Self::FreeRequested,
            "free_completed" => Self::FreeCompleted,
            "free" => Self::Free,
            "segment_alloc" | "segment_map" => Self::Reserve,
            "segment_free" | "segment_unmap" => Self::Unreserve,
            _ => Self::Other,
        }
    }

    /// Returns whether an event without address and size is meaningless.
    pub(super) fn needs_place(self) -> bool {
        self != Self::Other
    }
}

/// The names of where allocations are known from.
#[derive(Debug, Clone, Copy)]
struct KnownFrom {
    alloc: StrId,
    release: StrId,
    block: StrId,
}

/// One device while its events are read.
#[derive(Debug)]
pub(super) struct Replay {
    device: i32,
    known_from: KnownFrom,
    /// Row of the first event and of the first allocation of this device.
    first_event: usize,
    /// Allocations that are held, by address: their row.
    held: FxHashMap<i64, usize>,
    /// Bytes that the events so far added.
    allocated: i64,
    reserved: i64,
    /// Bytes held before the first event, as found so far.
    start_allocated: i64,
    /// Events that contradict those before them.
    pub(super) contradictions: u64,
}

impl Replay {
    pub(super) fn new(device: i32, events: &SnapshotEvents, strings: &mut Strings) -> Self {
        Self {
            device,
            known_from: KnownFrom {
                alloc: strings.intern("alloc"),
                release: strings.intern("release"),
                block: strings.intern("block"),
            },
            first_event: events.len(),
            held: FxHashMap::default(),
            allocated: 0,
            reserved: 0,
            start_allocated: 0,
            contradictions: 0,
        }
    }

    /// Takes in the next event; fills what was held after it, for now without what was there before.
    pub(super) fn event(
        &mut self,
        action: Action,
        event: &mut SnapshotEvent,
        allocations: &mut SnapshotAllocations,
    ) {
        match action {
            Action::Alloc => self.alloc(event, allocations),
            Action::FreeRequested => {
                let row = self.row(event, allocations);
                allocations.free_requested_position.0[row] = event.position;
            }
            Action::FreeCompleted => self.release(event, allocations),
            Action::Free => {
                let row = self.row(event, allocations);
                allocations.free_requested_position.0[row] = event.position;
                self.release(event, allocations);
            }
            Action::Reserve => self.reserved = self.reserved.saturating_add(event.bytes),
            Action::Unreserve => self.reserved = self.reserved.saturating_sub(event.bytes),
            Action::Other => {}
        }
        event.allocated_bytes = self.allocated;
        event.reserved_bytes = self.reserved;
    }

    fn alloc(&mut self, event: &SnapshotEvent, allocations: &mut SnapshotAllocations) {
        if let Some(row) = self.held.remove(&event.address) {
            // Its release was not recorded.
            self.contradictions += 1;
            self.close(row, event, allocations);
        }
        self.allocated = self.allocated.saturating_add(event.bytes);
        self.held.insert(event.address, allocations.len());
        allocations.push(SnapshotAllocation {
            device: self.device,
            address: event.address,
            bytes: event.bytes,
            stream: event.stream,
            known_from: self.known_from.alloc,
            alloc_position: event.position,
            alloc_ts_ns: event.ts_ns,
            category: event.category,
            stack: event.stack,
            ..SnapshotAllocation::null_row()
        });
    }

    fn release(&mut self, event: &SnapshotEvent, allocations: &mut SnapshotAllocations) {
        let row = self.row(event, allocations);
        self.held.remove(&event.address);
        self.close(row, event, allocations);
    }

    fn close(&mut self, row: usize, event: &SnapshotEvent, allocations: &mut SnapshotAllocations) {
        self.allocated = self.allocated.saturating_sub(allocations.bytes.0[row]);
        allocations.free_position.0[row] = event.position;
        allocations.free_ts_ns.0[row] = event.ts_ns;
    }

    /// The allocation that an event releases; one that is older than the history if none is known.
    fn row(&mut self, event: &SnapshotEvent, allocations: &mut SnapshotAllocations) -> usize {
        if let Some(&row) = self.held.get(&event.address) {
            return row;
        }
        let row = allocations.len();
        self.start_allocated = self.start_allocated.saturating_add(event.bytes);
        self.held.insert(event.address, row);
        // Its stack is that of the release, if it has one: who made it is not known.
        allocations.push(SnapshotAllocation {
            device: self.device,
            address: event.address,
            bytes: event.bytes,
            stream: event.stream,
            known_from: self.known_from.release,
            ..SnapshotAllocation::null_row()
        });
        row
    }

    /// Adds what was there before the first event. `held` are the allocations in the snapshot itself,
    /// `reserved` the size of its segments.
    pub(super) fn finish(
        mut self,
        held: &[Held],
        reserved: Option<i64>,
        events: &mut SnapshotEvents,
        allocations: &mut SnapshotAllocations,
    ) -> SnapshotDevice {
        for block in held {
            if let Some(&row) = self.held.get(&block.address) {
                if allocations.stack.0[row] == NULL_I64 {
                    allocations.stack.0[row] = block.stack;
                }
                continue;
            }
            self.start_allocated = self.start_allocated.saturating_add(block.bytes);
            allocations.push(SnapshotAllocation {
                device: self.device,
                address: block.address,
                bytes: block.bytes,
                stream: block.stream,
                known_from: self.known_from.block,
                category: block.category,
                stack: block.stack,
                ..SnapshotAllocation::null_row()
            });
        }
        let start_reserved = reserved.map(|end| end.saturating_sub(self.reserved).max(0));
        let start = self.start_allocated;
        let mut device = SnapshotDevice {
            device: self.device,
            event_count: (events.len() - self.first_event) as i64,
            start_allocated_bytes: start,
            end_allocated_bytes: start.saturating_add(self.allocated),
            peak_allocated_bytes: start,
            start_reserved_bytes: start_reserved.unwrap_or(NULL_I64),
            end_reserved_bytes: reserved.unwrap_or(NULL_I64),
            peak_reserved_bytes: start_reserved.unwrap_or(NULL_I64),
            ..SnapshotDevice::null_row()
        };
        for row in self.first_event..events.len() {
            let allocated = &mut events.allocated_bytes.0[row];
            *allocated = allocated.saturating_add(start);
            let ts_ns = events.ts_ns.get(row);
            if *allocated > device.peak_allocated_bytes {
                device.peak_allocated_bytes = *allocated;
                device.peak_position = events.position.0[row];
                device.peak_ts_ns = ts_ns;
            }
            let after = &mut events.reserved_bytes.0[row];
            *after = start_reserved.map_or(NULL_I64, |start| after.saturating_add(start));
            device.peak_reserved_bytes = device.peak_reserved_bytes.max(*after);
            if ts_ns != NULL_I64 {
                if device.start_ts_ns == NULL_I64 {
                    device.start_ts_ns = ts_ns;
                }
                device.end_ts_ns = ts_ns;
            }
        }
        debug_assert_ne!(self.device, NULL_I32, "a device has a number");
        device
    }
}
