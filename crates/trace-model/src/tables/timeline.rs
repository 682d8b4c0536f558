//! The rest of the timeline: collectives, counters, flows, instants, other spans, halves of spans.

use super::table;

table! {
    Collectives / Collective = "collectives", "one collective operation as the trace describes it, on the host (record_param_comms) or as a kernel";
    rank: I32, None, "rank";
    event_id: I64, None, "event that carries the description";
    name: Name, None, "collective: allreduce, _allgather_base";
    on_device: Flag, None, "described on the kernel rather than on the host operator";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal, for kernels";
    stream: OptI32, None, "stream, for kernels";
    group_name: Name, None, "process group";
    group_description: Name, None, "what the group is for";
    group_size: OptI32, None, "ranks in the group";
    group_ranks: Name, None, "ranks in the group, as written";
    dtype: Name, None, "element type";
    input_elements: OptI64, None, "elements in, on this rank";
    output_elements: OptI64, None, "elements out, on this rank";
    sequence: OptI64, None, "sequence number within the group";
    correlation: OptI64, None, "id shared with the launching call, for kernels";
    external_id: OptI64, None, "id shared with the operator";
    step: OptI64, None, "step it belongs to";
}

table! {
    Counters / Counter = "counters", "one sample of one series";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    ts_ns: I64, Ns, "when";
    name: Name, None, "counter as written: memory/virtual, gpu_util";
    series: Name, None, "series within the counter as written; absent where it has only one";
    thread: OptI32, None, "lane, see threads; absent where an agent sampled it";
    metric: Name, None, "what is measured, by one name whoever sampled it: cpu_util, host_memory_used, gpu_util, disk_read; absent if that is not known";
    unit: Name, None, "unit of the value: percent, bytes, bytes/s, operations/s, samples/s, ms, count; absent if that is not known";
    is_cumulative: Flag, None, "a count since the machine started: only differences are a measurement";
    agent: Name, None, "machine that sampled it, as Determined calls it";
    device: Name, None, "disk, file system, network interface, or GPU by UUID that it is about";
    batch: OptI64, None, "training batch at that moment, where the sampler says so";
    value: OptF64, Number, "value in `unit`; as written where that is absent";
}

table! {
    Flows / Flow = "flows", "one end of an arrow between two events";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    id: OptI64, None, "id shared by the ends of the arrow";
    category: Name, None, "kind of arrow: ac2g (launch to device), fwdbwd (forward to backward)";
    phase: Name, None, "s start, t step, f finish";
    ts_ns: I64, Ns, "when";
    thread: I32, None, "lane, see threads";
}

table! {
    Instants / Instant = "instants", "one event without duration";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "name";
    category: Name, None, "category as written";
    ts_ns: I64, Ns, "when";
    thread: I32, None, "lane, see threads";
    args: Text, None, "arguments, JSON";
}

table! {
    Spans / Span = "spans", "one event with duration of a kind that has no table of its own: profiler overhead, unknown categories";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "name";
    category: Name, None, "category as written";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    thread: I32, None, "lane, see threads";
    step: OptI64, None, "step it starts in";
    args: Text, None, "arguments, JSON";
}

table! {
    HalfEvents / HalfEvent = "half_events", "one begin or end event without its other half: the recording began or ended in between, or only the end is written (Composer, for batches that it does not record)";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    phase: Name, None, "B begin, E end";
    name: Name, None, "name";
    category: Name, None, "category as written";
    ts_ns: I64, Ns, "when";
    thread: I32, None, "lane, see threads";
    args: Text, None, "arguments, JSON";
}
