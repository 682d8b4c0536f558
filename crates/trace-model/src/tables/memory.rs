//! Events of the allocators.

use super::table;

table! {
    MemoryEvents / MemoryEvent = "memory_events", "one allocation or release";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    ts_ns: I64, Ns, "time";
    thread: I32, None, "lane, see threads";
    step: OptI64, None, "step it falls in";
    op: OptI64, None, "innermost operator that runs on its thread at the time; frames, annotations and calls in between are ignored";
    op_name: DictColumn, None, "name of that operator";
    outer_op_name: DictColumn, None, "name of the operator around it";
    annotation: DictColumn, None, "innermost annotation around it";
    module: DictColumn, None, "innermost nn.Module around it";
    device_type: OptI32, None, "c10 device type: 0 host, 1 CUDA, 6 HIP ...";
    device: OptI32, None, "device ordinal; -1 on the host";
    address: OptI64, None, "address";
    bytes: I64, Bytes, "bytes allocated; negative if released";
    total_allocated_bytes: OptI64, Bytes, "allocated on the device after the event";
    total_reserved_bytes: OptI64, Bytes, "reserved by the caching allocator after the event";
    args: Text, None, "other arguments, JSON";
}
