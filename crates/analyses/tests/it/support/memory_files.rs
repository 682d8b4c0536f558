//! Memory snapshots and memory timelines written by hand.

use trace_model::column::NULL_I64;
use trace_model::tables::{
    MemoryTimeline, MemoryTimelineSize, MemoryTimelineSizes, MemoryTimelines, Snapshot,
    SnapshotAllocation, SnapshotAllocations, SnapshotBlock, SnapshotBlocks, SnapshotDevice,
    SnapshotDevices, SnapshotEvent, SnapshotEvents, SnapshotSegment, SnapshotSegments,
    SnapshotStack, SnapshotStacks, Snapshots,
};
use trace_model::{Strings, TableSet};

use super::Run;

#[derive(Default)]
pub struct MemoryFiles {
    snapshots: Snapshots,
    snapshot_devices: SnapshotDevices,
    snapshot_segments: SnapshotSegments,
    snapshot_blocks: SnapshotBlocks,
    snapshot_events: SnapshotEvents,
    snapshot_allocations: SnapshotAllocations,
    snapshot_stacks: SnapshotStacks,
    memory_timelines: MemoryTimelines,
    memory_timeline_sizes: MemoryTimelineSizes,
}

impl MemoryFiles {
    pub fn push(self, tables: &mut TableSet, strings: &Strings) {
        macro_rules! push {
            ($($table:ident),+) => { $(tables.push(stringify!($table), self.$table.into_batch(strings));)+ };
        }
        push!(snapshots, snapshot_devices, snapshot_segments, snapshot_blocks, snapshot_events);
        push!(snapshot_allocations, snapshot_stacks, memory_timelines, memory_timeline_sizes);
    }
}

impl Run {
    /// A snapshot of device 0: a segment of 1000 bytes, 600 of them in one allocation of 500 that was made
    /// after one of 200 had been released; an attempt to allocate more failed in between.
    pub fn snapshot(&mut self, rank: i32) -> &mut Self {
        let file = self.name("snapshot.pickle");
        self.files.snapshots.push(Snapshot { rank, file, event_count: 5, ..Snapshot::null_row() });
        self.files.snapshot_devices.push(SnapshotDevice {
            rank,
            event_count: 5,
            end_allocated_bytes: 500,
            peak_allocated_bytes: 500,
            peak_position: 4,
            end_reserved_bytes: 1000,
            ..SnapshotDevice::null_row()
        });
        let (active, inactive) = (self.name("active_allocated"), self.name("inactive"));
        let small = self.name("small");
        self.files.snapshot_segments.push(SnapshotSegment {
            rank,
            address: 4096,
            kind: small,
            stream: 0,
            total_bytes: 1000,
            ..SnapshotSegment::null_row()
        });
        for (block, state, size_bytes, requested_bytes) in
            [(0, active, 600, 500), (1, inactive, 300, 0), (2, inactive, 100, 0)]
        {
            self.files.snapshot_blocks.push(SnapshotBlock {
                rank,
                block,
                state,
                size_bytes,
                requested_bytes,
                ..SnapshotBlock::null_row()
            });
        }
        let events = [
            ("alloc", 200, 200),
            ("oom", 5000, 200),
            ("free_requested", 200, 200),
            ("free_completed", 200, 0),
            ("alloc", 500, 500),
        ];
        for (position, (action, bytes, allocated_bytes)) in events.into_iter().enumerate() {
            let action = self.name(action);
            self.files.snapshot_events.push(SnapshotEvent {
                rank,
                position: position as i64,
                action,
                address: 4096,
                bytes,
                stream: 0,
                allocated_bytes,
                reserved_bytes: 1000,
                stack: 1,
                ..SnapshotEvent::null_row()
            });
        }
        let (alloc, category) = (self.name("alloc"), self.name("activation"));
        for (bytes, alloc_position, free_position) in [(200, 0, 3), (500, 4, NULL_I64)] {
            self.files.snapshot_allocations.push(SnapshotAllocation {
                rank,
                address: 4096,
                bytes,
                known_from: alloc,
                alloc_position,
                free_requested_position: if free_position == NULL_I64 { NULL_I64 } else { 2 },
                free_position,
                category,
                stack: 1,
                ..SnapshotAllocation::null_row()
            });
        }
        let (name, frame) = (self.name("step"), self.name("train.py:7 step"));
        for (stack, parent) in [(0, NULL_I64), (1, 0)] {
            self.files.snapshot_stacks.push(SnapshotStack {
                rank,
                stack,
                parent,
                name,
                user_frame: frame,
                place: frame,
                is_whole: stack == 1,
                text: "train.py:7 step".to_owned(),
                ..SnapshotStack::null_row()
            });
        }
        self
    }

    /// A memory timeline: moments 10 ns apart, with the bytes of parameters and activations.
    pub fn timeline(&mut self, rank: i32, moments: &[(i64, i64)]) -> &mut Self {
        let (file, form) = (self.name("memory.json"), self.name("sizes"));
        let moment_count = moments.len() as i64;
        self.files.memory_timelines.push(MemoryTimeline {
            rank,
            file,
            form,
            start_ns: 0,
            end_ns: (moment_count - 1) * 10,
            moment_count,
            ..MemoryTimeline::null_row()
        });
        for (position, &(parameter_bytes, activation_bytes)) in (0..).zip(moments) {
            self.files.memory_timeline_sizes.push(MemoryTimelineSize {
                rank,
                position,
                ts_ns: position * 10,
                parameter_bytes,
                activation_bytes,
                total_bytes: parameter_bytes + activation_bytes,
                ..MemoryTimelineSize::null_row()
            });
        }
        self
    }
}
