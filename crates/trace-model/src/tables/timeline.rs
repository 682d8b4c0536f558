//! The rest of the timeline: collectives, counters, flows, instants, other spans, unpaired begin and end events.

use super::table;

table! {
    Collectives / Collective = "collectives", "one collective operation as the trace describes it, on the host (record_param_comms) or as a kernel";
    rank: I32, None, "rank";
    event_id: I64, None, "event that carries the description";
    name: DictColumn, None, "collective: allreduce, _allgather_base";
    on_device: Flag, None, "true if the kernel carries the description, false if the host operator does";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal, for kernels";
    stream: OptI32, None, "stream, for kernels";
    group_name: DictColumn, None, "process group";
    group_description: DictColumn, None, "purpose of the group";
    group_size: OptI32, None, "ranks in the group";
    group_ranks: DictColumn, None, "ranks in the group, as written";
    dtype: DictColumn, None, "element type";
    input_elements: OptI64, None, "input elements on this rank";
    output_elements: OptI64, None, "output elements on this rank";
    sequence: OptI64, None, "sequence number within the group";
    comms_id: DictColumn, None, "id of the communication, shared by the events that describe it";
    correlation: OptI64, None, "id shared with the launching call, for kernels";
    external_id: OptI64, None, "id shared with the operator";
    step: OptI64, None, "step it belongs to";
}

table! {
    Counters / Counter = "counters", "one sample of one series";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    ts_ns: I64, Ns, "time";
    name: DictColumn, None, "counter as written: memory/virtual, gpu_util";
    series: DictColumn, None, "series within the counter as written; null if it has only one";
    thread: OptI32, None, "lane, see threads; null if an agent sampled it";
    metric: DictColumn, None, "measured quantity, with one name for all samplers: cpu_util, host_memory_used, gpu_util, disk_read; null if unknown";
    unit: DictColumn, None, "unit of the value: percent, bytes, bytes/s, operations/s, samples/s, ms, count; null if unknown";
    is_cumulative: Flag, None, "counts since the machine started: only differences are meaningful";
    agent: DictColumn, None, "machine that sampled it, by Determined's agent name";
    device: DictColumn, None, "disk, file system, network interface, or GPU that it describes: by UUID, or GPU 0 for hardware counters of the profiler";
    batch: OptI64, None, "training batch at that time, if the sampler records it";
    value: OptF64, Number, "value in `unit`; as written if `unit` is null";
}

table! {
    Flows / Flow = "flows", "one end of an arrow between two events";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    id: OptI64, None, "id shared by the ends of the arrow";
    category: DictColumn, None, "kind of arrow: ac2g (launch to device), fwdbwd (forward to backward)";
    phase: DictColumn, None, "s start, t step, f finish";
    ts_ns: I64, Ns, "time";
    thread: I32, None, "lane, see threads";
}

table! {
    Instants / Instant = "instants", "one event without duration";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "name";
    category: DictColumn, None, "category as written";
    ts_ns: I64, Ns, "time";
    thread: I32, None, "lane, see threads";
    args: Text, None, "arguments, JSON";
}

table! {
    Spans / Span = "spans", "one event with a duration whose category has no table of its own: profiler overhead, unknown categories";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "name";
    category: DictColumn, None, "category as written";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    thread: I32, None, "lane, see threads";
    step: OptI64, None, "step it starts in";
    args: Text, None, "arguments, JSON";
}

table! {
    UnpairedEvents / UnpairedEvent = "unpaired_events", "one begin or end event without its partner: the recording began or ended in between, or only the end is written (Composer, for batches that it does not record)";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    phase: DictColumn, None, "B begin, E end";
    name: DictColumn, None, "name";
    category: DictColumn, None, "category as written";
    ts_ns: I64, Ns, "time";
    thread: I32, None, "lane, see threads";
    args: Text, None, "arguments, JSON";
}
