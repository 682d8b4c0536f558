//! Rows of the allocator.

use trace_model::column::NULL_I64;
use trace_model::tables::MemoryEvent;

use super::Run;

impl Run {
    pub fn memory_totals(
        &mut self,
        rank: i32,
        ts_ns: i64,
        allocated: i64,
        reserved: i64,
    ) -> &mut Self {
        let event_id = self.id();
        self.memory_events.push(MemoryEvent {
            rank,
            event_id,
            ts_ns,
            thread: 1,
            device_type: 1,
            device: 0,
            bytes: 1,
            total_allocated_bytes: allocated,
            total_reserved_bytes: reserved,
            ..MemoryEvent::null_row()
        });
        self
    }

    /// An allocation or release on thread 2, that of operators. `memory` is its device type and ordinal,
    /// `totals` what is allocated and reserved after it.
    pub fn memory_event(
        &mut self,
        rank: i32,
        (device_type, device): (i32, i32),
        ts_ns: i64,
        address: i64,
        bytes: i64,
        totals: Option<(i64, i64)>,
    ) -> &mut Self {
        let event_id = self.id();
        let (total_allocated_bytes, total_reserved_bytes) = totals.unwrap_or((NULL_I64, NULL_I64));
        self.memory_events.push(MemoryEvent {
            rank,
            event_id,
            ts_ns,
            thread: 2,
            device_type,
            device,
            address,
            bytes,
            total_allocated_bytes,
            total_reserved_bytes,
            ..MemoryEvent::null_row()
        });
        self
    }

    /// The last memory event falls into a step.
    pub fn memory_in_step(&mut self, step: i64) -> &mut Self {
        set_last!(self.memory_events, step, step);
        self
    }

    /// The innermost operator around the last memory event is one of these: its event and name.
    pub fn memory_in_op(&mut self, op: i64, name: &str) -> &mut Self {
        let name = self.name(name);
        set_last!(self.memory_events, op, op);
        set_last!(self.memory_events, op_name, name);
        self
    }
}
