//! Memory snapshots and memory timelines: files that PyTorch writes in addition to, or instead of, a trace.

use super::table;

table! {
    Snapshots / Snapshot = "snapshots", "one memory snapshot (torch.cuda.memory._dump_snapshot)";
    rank: I32, None, "rank: from the file name, else that of the only trace, else 0";
    snapshot: I32, None, "number of the snapshot within the rank, from 0: in order of time if all snapshots have times, else of file names";
    file: DictColumn, None, "file it was read from";
    ts_ns: OptI64, Ns, "time of its last event; null if its events carry no times";
    segment_count: I64, Count, "number of segments: ranges of device memory that the allocator holds";
    block_count: I64, Count, "number of blocks in the segments";
    event_count: I64, Count, "number of recorded allocator events; 0 if no history was recorded";
    stack_count: I64, Count, "number of distinct call stacks";
    allocator_settings: Text, None, "settings of the allocator, JSON";
    args: Text, None, "other entries of the snapshot, JSON";
}

table! {
    SnapshotDevices / SnapshotDevice = "snapshot_devices", "one device of one snapshot: its memory when recording began, at the peak, and when the snapshot was taken";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal within the process";
    event_count: I64, Count, "number of recorded events; 0 if no history was recorded";
    start_ts_ns: OptI64, Ns, "first event";
    end_ts_ns: OptI64, Ns, "last event";
    start_allocated_bytes: I64, Bytes, "held by allocations made before the first event, as far as the snapshot or a later release shows them";
    end_allocated_bytes: I64, Bytes, "held by allocations when the snapshot was taken";
    peak_allocated_bytes: I64, Bytes, "peak memory held by allocations";
    peak_position: OptI64, None, "event after which the peak was first reached; null if that was before the first event, or if there are no events";
    peak_ts_ns: OptI64, Ns, "time of that event";
    start_reserved_bytes: OptI64, Bytes, "held by the allocator before the first event; null if the snapshot has no segments";
    end_reserved_bytes: OptI64, Bytes, "held by the allocator when the snapshot was taken; null if the snapshot has no segments";
    peak_reserved_bytes: OptI64, Bytes, "peak memory held by the allocator; null if the snapshot has no segments";
}

table! {
    SnapshotSegments / SnapshotSegment = "snapshot_segments", "one segment: a range of device memory that the caching allocator holds";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    segment: I64, None, "number of the segment in the snapshot, from 0";
    device: I32, None, "device ordinal within the process";
    address: OptI64, None, "start address";
    stream: OptI64, None, "stream of its blocks, as the snapshot numbers it";
    kind: DictColumn, None, "size class of its allocations: large or small";
    pool: DictColumn, None, "private pool of a CUDA graph, JSON; [0,0] is the shared pool";
    is_expandable: Flag, None, "true if it grows and shrinks (expandable_segments)";
    total_bytes: I64, Bytes, "size";
    allocated_bytes: OptI64, Bytes, "size of its allocated blocks, as the allocator counts it";
    active_bytes: OptI64, Bytes, "size of its blocks in use or not yet released, as the allocator counts it";
    requested_bytes: OptI64, Bytes, "requested size of its blocks in use, as the allocator counts it";
    stack: OptI64, None, "call stack of its allocation, see snapshot_stacks";
}

table! {
    SnapshotBlocks / SnapshotBlock = "snapshot_blocks", "one block: a part of a segment that is free or holds one allocation";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    segment: I64, None, "segment that contains it";
    block: I64, None, "number of the block in its segment, from 0";
    device: I32, None, "device ordinal within the process";
    address: OptI64, None, "start address";
    state: DictColumn, None, "active_allocated (in use), active_pending_free (released, but a stream may still use it), inactive (free)";
    size_bytes: I64, Bytes, "size";
    requested_bytes: I64, Bytes, "requested size: the rest of the block is lost to rounding; 0 if it is free";
    category: DictColumn, None, "kind of tensor, if the snapshot was made from a profile";
    stack: OptI64, None, "call stack of the allocation, see snapshot_stacks";
}

table! {
    SnapshotEvents / SnapshotEvent = "snapshot_events", "one event in the recorded history of the caching allocator";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal within the process";
    position: I64, None, "position in the history of the device, from 0";
    ts_ns: OptI64, Ns, "time";
    action: DictColumn, None, "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom";
    address: OptI64, None, "address of the allocation or segment";
    bytes: OptI64, Bytes, "requested size; size of the segment or mapping";
    stream: OptI64, None, "stream, as the snapshot numbers it";
    allocated_bytes: I64, Bytes, "held by allocations after the event, from alloc to free_completed, in requested bytes";
    reserved_bytes: OptI64, Bytes, "held by the allocator after the event; null if the snapshot has no segments";
    device_free_bytes: OptI64, Bytes, "free memory on the device at an oom";
    category: DictColumn, None, "kind of tensor, if the snapshot was made from a profile";
    stack: OptI64, None, "call stack, see snapshot_stacks";
    args: Text, None, "other entries of the event, JSON";
}

table! {
    SnapshotAllocations / SnapshotAllocation = "snapshot_allocations", "one allocation in a snapshot: from its history, or present when the snapshot was taken";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal within the process";
    address: OptI64, None, "address";
    bytes: I64, Bytes, "requested size";
    stream: OptI64, None, "stream, as the snapshot numbers it";
    known_from: DictColumn, None, "source of the row: alloc (its allocation was recorded), release (only its release was), block (older than the history, or without one)";
    alloc_position: OptI64, None, "event of the allocation; null if it was not recorded";
    alloc_ts_ns: OptI64, Ns, "time of that event";
    free_requested_position: OptI64, None, "event in which the program released it; null if the program still held it, or the event was not recorded";
    free_position: OptI64, None, "event after which its memory could be reused; null if it was present when the snapshot was taken";
    free_ts_ns: OptI64, Ns, "time of that event";
    category: DictColumn, None, "kind of tensor, if the snapshot was made from a profile";
    stack: OptI64, None, "call stack of the allocation, see snapshot_stacks; null if it was not recorded";
}

table! {
    SnapshotStacks / SnapshotStack = "snapshot_stacks", "one call stack: a frame, with the stack of its caller as parent; common parts are stored once";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    stack: I64, None, "number of the stack";
    parent: OptI64, None, "stack of the caller; null at the outermost frame";
    depth: I32, None, "frames around it: 0 at the outermost";
    name: DictColumn, None, "function";
    file: DictColumn, None, "source file, as written";
    line: OptI32, None, "line in that file";
    user_frame: DictColumn, None, "innermost frame outside of PyTorch, installed packages and native code, as file:line function; null if there is none";
    place: DictColumn, None, "where it allocates: user_frame; without one the innermost frame of an installed package other than PyTorch, then the operator of the backward pass, with the lines whose backward pass it is where native frames tell. Null if no frame says any of these";
    is_whole: Flag, None, "true if an allocation, segment or event has exactly this stack; false if it is only a part of others";
    text: Text, None, "for complete stacks: up to 24 innermost frames, from the inside out, as file:line function; native frames only if there are no others";
}

table! {
    MemoryTimelines / MemoryTimeline = "memory_timelines", "one exported memory timeline (export_memory_timeline): a file, for one device";
    rank: I32, None, "rank: from the file name, else that of the only trace, else 0";
    timeline: I32, None, "number of the file within the rank, from 0, in order of file names";
    file: DictColumn, None, "file it was read from";
    form: DictColumn, None, "raw (one row per action) or sizes (one row per time)";
    start_ns: OptI64, Ns, "first time";
    end_ns: OptI64, Ns, "last time";
    moment_count: I64, Count, "number of times at which a size changes";
    event_count: I64, Count, "number of actions in the raw form; 0 in the other";
}

table! {
    MemoryTimelineSizes / MemoryTimelineSize = "memory_timeline_sizes", "memory of one device from one time on, by category of tensor";
    rank: I32, None, "rank";
    timeline: I32, None, "file, see memory_timelines";
    position: I64, None, "position in the file, from 0";
    ts_ns: I64, Ns, "time; memory held before the recording is placed at its first time";
    parameter_bytes: I64, Bytes, "parameters";
    optimizer_state_bytes: I64, Bytes, "optimizer state";
    input_bytes: I64, Bytes, "inputs";
    temporary_bytes: I64, Bytes, "temporaries: created and released within one operator";
    activation_bytes: I64, Bytes, "activations";
    gradient_bytes: I64, Bytes, "gradients";
    autograd_detail_bytes: I64, Bytes, "created by autograd in the backward pass, other than gradients";
    unknown_bytes: I64, Bytes, "not categorized by PyTorch";
    total_bytes: I64, Bytes, "all categories";
}

table! {
    MemoryTimelineEvents / MemoryTimelineEvent = "memory_timeline_events", "one action of an exported memory timeline in the raw form";
    rank: I32, None, "rank";
    timeline: I32, None, "file, see memory_timelines";
    position: I64, None, "position in the file, from 0";
    ts_ns: OptI64, Ns, "time; null for memory held before the recording";
    action: DictColumn, None, "preexisting, create, increment_version (overwritten: moved from one category to another), destroy";
    bytes: I64, Bytes, "bytes added to the category; negative if removed";
    category: DictColumn, None, "parameter, optimizer_state, input, temporary, activation, gradient, autograd_detail, unknown";
}
