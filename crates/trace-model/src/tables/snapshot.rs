//! What memory snapshots and memory timelines say: files that PyTorch writes beside or instead of a trace.

use super::table;

table! {
    Snapshots / Snapshot = "snapshots", "one memory snapshot (torch.cuda.memory._dump_snapshot)";
    rank: I32, None, "rank: from the file name, else that of the only trace, else 0";
    snapshot: I32, None, "number of the snapshot within the rank, from 0: in order of time where all snapshots have times, else of file names";
    file: Name, None, "file it was read from";
    ts_ns: OptI64, Ns, "time of its last event; absent where its events carry no times";
    segment_count: I64, Count, "segments: stretches of device memory that the allocator holds";
    block_count: I64, Count, "blocks that segments are cut into";
    event_count: I64, Count, "recorded events of the allocator; 0 if no history was recorded";
    stack_count: I64, Count, "distinct call stacks";
    allocator_settings: Text, None, "settings of the allocator, JSON";
    args: Text, None, "other entries of the snapshot, JSON";
}

table! {
    SnapshotDevices / SnapshotDevice = "snapshot_devices", "one device of one snapshot: its memory when recording began, at the peak, and when the snapshot was taken";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal as the process counts them";
    event_count: I64, Count, "recorded events; 0 if no history was recorded";
    start_ts_ns: OptI64, Ns, "first event";
    end_ts_ns: OptI64, Ns, "last event";
    start_allocated_bytes: I64, Bytes, "held by allocations that were there before the first event, as far as the snapshot or a later release tells of them";
    end_allocated_bytes: I64, Bytes, "held by allocations when the snapshot was taken";
    peak_allocated_bytes: I64, Bytes, "most that allocations held at once";
    peak_position: OptI64, None, "event after which that was so for the first time; absent if that was before the first event, or if there are no events";
    peak_ts_ns: OptI64, Ns, "time of that event";
    start_reserved_bytes: OptI64, Bytes, "held by the allocator before the first event; absent if the snapshot has no segments";
    end_reserved_bytes: OptI64, Bytes, "held by the allocator when the snapshot was taken; absent if the snapshot has no segments";
    peak_reserved_bytes: OptI64, Bytes, "most that the allocator held at once; absent if the snapshot has no segments";
}

table! {
    SnapshotSegments / SnapshotSegment = "snapshot_segments", "one segment: a stretch of device memory that the caching allocator holds";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    segment: I64, None, "number of the segment in the snapshot, from 0";
    device: I32, None, "device ordinal as the process counts them";
    address: OptI64, None, "where it begins";
    stream: OptI64, None, "stream its blocks are for, as the snapshot numbers it";
    kind: Name, None, "large or small: which allocations it is for";
    pool: Name, None, "private pool of a CUDA graph it belongs to, JSON; [0,0] is the common one";
    is_expandable: Flag, None, "it grows and shrinks (expandable_segments)";
    total_bytes: I64, Bytes, "size";
    allocated_bytes: OptI64, Bytes, "size of its allocated blocks, as the allocator counts it";
    active_bytes: OptI64, Bytes, "size of its blocks in use or not yet released, as the allocator counts it";
    requested_bytes: OptI64, Bytes, "what was asked for in its blocks in use, as the allocator counts it";
    stack: OptI64, None, "call stack that had it allocated, see snapshot_stacks";
}

table! {
    SnapshotBlocks / SnapshotBlock = "snapshot_blocks", "one block: a part of a segment that one allocation holds, or that is free";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    segment: I64, None, "segment it is part of";
    block: I64, None, "number of the block in its segment, from 0";
    device: I32, None, "device ordinal as the process counts them";
    address: OptI64, None, "where it begins";
    state: Name, None, "active_allocated (in use), active_pending_free (released, but a stream may still use it), inactive (free)";
    size_bytes: I64, Bytes, "size";
    requested_bytes: I64, Bytes, "what was asked for: the rest of the block is lost to rounding; 0 if it is free";
    category: Name, None, "kind of tensor, where the snapshot was made from a profile";
    stack: OptI64, None, "call stack of the allocation, see snapshot_stacks";
}

table! {
    SnapshotEvents / SnapshotEvent = "snapshot_events", "one thing the caching allocator did while its history was recorded";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal as the process counts them";
    position: I64, None, "place in the history of the device, from 0";
    ts_ns: OptI64, Ns, "when";
    action: Name, None, "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom";
    address: OptI64, None, "of the allocation or segment";
    bytes: OptI64, Bytes, "what was asked for; size of the segment or mapping";
    stream: OptI64, None, "stream, as the snapshot numbers it";
    allocated_bytes: I64, Bytes, "held by allocations after the event: from alloc to free_completed, as asked for";
    reserved_bytes: OptI64, Bytes, "held by the allocator after the event; absent if the snapshot has no segments";
    device_free_bytes: OptI64, Bytes, "free on the device, of an oom";
    category: Name, None, "kind of tensor, where the snapshot was made from a profile";
    stack: OptI64, None, "call stack, see snapshot_stacks";
    args: Text, None, "other entries of the event, JSON";
}

table! {
    SnapshotAllocations / SnapshotAllocation = "snapshot_allocations", "one allocation that a snapshot knows of: from its history, or because it was there when the snapshot was taken";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    device: I32, None, "device ordinal as the process counts them";
    address: OptI64, None, "address";
    bytes: I64, Bytes, "what was asked for";
    stream: OptI64, None, "stream, as the snapshot numbers it";
    known_from: Name, None, "alloc: its allocation was recorded; release: only its release was; block: it is older than the history, or there is none";
    alloc_position: OptI64, None, "event that made it; absent if that was not recorded";
    alloc_ts_ns: OptI64, Ns, "time of that event";
    free_requested_position: OptI64, None, "event in which the program let go of it; absent if it still held it, or that was not recorded";
    free_position: OptI64, None, "event from which its memory could be used again; absent if it was there when the snapshot was taken";
    free_ts_ns: OptI64, Ns, "time of that event";
    category: Name, None, "kind of tensor, where the snapshot was made from a profile";
    stack: OptI64, None, "call stack that made it, see snapshot_stacks; absent if it was not recorded";
}

table! {
    SnapshotStacks / SnapshotStack = "snapshot_stacks", "one call stack: a frame, and the stack of its caller as parent; what calls have in common is there once";
    rank: I32, None, "rank";
    snapshot: I32, None, "snapshot, see snapshots";
    stack: I64, None, "number of the stack";
    parent: OptI64, None, "stack of the caller; absent at the outermost frame";
    depth: I32, None, "frames around it: 0 at the outermost";
    name: Name, None, "function";
    file: Name, None, "source file, as written";
    line: OptI32, None, "line in that file";
    user_frame: Name, None, "innermost frame outside of PyTorch, installed packages and native code, as file:line function; absent if there is none";
    is_whole: Flag, None, "an allocation, segment or event has exactly this stack; else it is only part of others";
    text: Text, None, "of whole stacks: innermost frames, from the inside out, as file:line function; up to 24 of them, native ones only if there are no others";
}

table! {
    MemoryTimelines / MemoryTimeline = "memory_timelines", "one exported memory timeline (export_memory_timeline): a file, for one device";
    rank: I32, None, "rank: from the file name, else that of the only trace, else 0";
    timeline: I32, None, "number of the file within the rank, from 0, in order of file names";
    file: Name, None, "file it was read from";
    form: Name, None, "raw (one row an action) or sizes (one row a moment)";
    start_ns: OptI64, Ns, "first moment";
    end_ns: OptI64, Ns, "last moment";
    moment_count: I64, Count, "moments at which a size changes";
    event_count: I64, Count, "actions, in the raw form; 0 in the other";
}

table! {
    MemoryTimelineSizes / MemoryTimelineSize = "memory_timeline_sizes", "memory of one device from one moment on, by category of tensor";
    rank: I32, None, "rank";
    timeline: I32, None, "file, see memory_timelines";
    position: I64, None, "place in the file, from 0";
    ts_ns: I64, Ns, "when; what was there before the recording is placed at its first moment";
    parameter_bytes: I64, Bytes, "parameters";
    optimizer_state_bytes: I64, Bytes, "optimizer state";
    input_bytes: I64, Bytes, "inputs";
    temporary_bytes: I64, Bytes, "temporaries: made and dropped within one operator";
    activation_bytes: I64, Bytes, "activations";
    gradient_bytes: I64, Bytes, "gradients";
    autograd_detail_bytes: I64, Bytes, "made by autograd in the backward pass, and no gradient";
    unknown_bytes: I64, Bytes, "what PyTorch could not tell";
    total_bytes: I64, Bytes, "all categories";
}

table! {
    MemoryTimelineEvents / MemoryTimelineEvent = "memory_timeline_events", "one action of an exported memory timeline in the raw form";
    rank: I32, None, "rank";
    timeline: I32, None, "file, see memory_timelines";
    position: I64, None, "place in the file, from 0";
    ts_ns: OptI64, Ns, "when; absent for what was there before the recording";
    action: Name, None, "preexisting, create, increment_version (written over: out of one category, into another), destroy";
    bytes: I64, Bytes, "added to the category; negative when taken from it";
    category: Name, None, "parameter, optimizer_state, input, temporary, activation, gradient, autograd_detail, unknown";
}
