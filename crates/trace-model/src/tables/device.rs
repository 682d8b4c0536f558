//! What the devices did: kernels, copies, fills, and waits recorded on streams.
//!
//! Each activity knows the call that launched it (`launch`, by correlation id) and through it the
//! operator, annotation, module and Python frame.

use super::table;

table! {
    Kernels / Kernel = "kernels", "one kernel execution";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "kernel name";
    kind: Name, None, "by name: communication (nccl*Kernel, ncclDevKernel, rccl, hccl, oneCCL, gloo), memory (Memcpy, Memset, dma), or computation";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "stream on the device";
    thread: I32, None, "lane, see threads";
    correlation: OptI64, None, "id shared with the launching call";
    external_id: OptI64, None, "id shared with the operator";
    launch: OptI64, None, "launching call; absent if the trace does not hold it";
    launch_name: Name, None, "function that launched it";
    launch_ts_ns: OptI64, Ns, "start of the launching call";
    launch_dur_ns: OptI64, Ns, "duration of the launching call";
    launch_thread: OptI32, None, "lane of the launching call";
    op: OptI64, None, "operator that launched it";
    op_name: Name, None, "name of that operator";
    annotation: Name, None, "innermost host annotation around the launch";
    module: Name, None, "innermost nn.Module around the launch";
    python_frame: Name, None, "innermost Python frame around the launch";
    source: Name, None, "line of the program that launched it, train.py:112: that of the launching call, see cpu_ops";
    step: OptI64, None, "step of the launching call; by time where there is none";
    queue_order: OptI64, None, "position on its stream, from 0, by start";
    grid: Name, None, "grid in x, y and z: in blocks; in threads where hipExtModuleLaunchKernel launched it";
    block: Name, None, "threads of a block in x, y and z";
    blocks: OptI64, None, "size of the grid: blocks; threads where hipExtModuleLaunchKernel launched it";
    block_threads: OptI64, None, "threads in a block";
    registers: OptI32, None, "registers a thread uses";
    shared_memory_bytes: OptI64, Bytes, "shared memory a block uses";
    blocks_per_sm: OptF64, Number, "blocks over SMs of the device, as the profiler gives it";
    warps_per_sm: OptF64, Number, "warps over SMs of the device, as the profiler gives it";
    occupancy_ratio: OptF64, Ratio, "estimated achieved occupancy, as the profiler gives it";
    tensor_cores: Name, None, "by name: yes, no or unknown: whether it multiplies on tensor cores (matrix cores on AMD)";
    args: Text, None, "other arguments, JSON";
}

table! {
    Memcpys / Memcpy = "memcpys", "one copy by a device";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "name as written: Memcpy HtoD (Pageable -> Device)";
    kind: Name, None, "direction: HtoD, DtoH, DtoD, HtoH, PtoP or unknown";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "stream on the device";
    thread: I32, None, "lane, see threads";
    correlation: OptI64, None, "id shared with the launching call";
    external_id: OptI64, None, "id shared with the operator";
    launch: OptI64, None, "launching call; absent if the trace does not hold it";
    launch_name: Name, None, "function that launched it";
    launch_ts_ns: OptI64, Ns, "start of the launching call";
    launch_dur_ns: OptI64, Ns, "duration of the launching call";
    launch_thread: OptI32, None, "lane of the launching call";
    op: OptI64, None, "operator that launched it";
    op_name: Name, None, "name of that operator";
    annotation: Name, None, "innermost host annotation around the launch";
    module: Name, None, "innermost nn.Module around the launch";
    python_frame: Name, None, "innermost Python frame around the launch";
    source: Name, None, "line of the program that launched it, train.py:112: that of the launching call, see cpu_ops";
    step: OptI64, None, "step of the launching call; by time where there is none";
    queue_order: OptI64, None, "position on its stream, from 0, by start";
    bytes: OptI64, Bytes, "bytes copied";
    bandwidth_gb_per_s: OptF64, GbPerS, "bandwidth as the profiler gives it";
    args: Text, None, "other arguments, JSON";
}

table! {
    Memsets / Memset = "memsets", "one fill by a device";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "name as written";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "stream on the device";
    thread: I32, None, "lane, see threads";
    correlation: OptI64, None, "id shared with the launching call";
    external_id: OptI64, None, "id shared with the operator";
    launch: OptI64, None, "launching call; absent if the trace does not hold it";
    launch_name: Name, None, "function that launched it";
    launch_ts_ns: OptI64, Ns, "start of the launching call";
    launch_dur_ns: OptI64, Ns, "duration of the launching call";
    launch_thread: OptI32, None, "lane of the launching call";
    op: OptI64, None, "operator that launched it";
    op_name: Name, None, "name of that operator";
    annotation: Name, None, "innermost host annotation around the launch";
    module: Name, None, "innermost nn.Module around the launch";
    python_frame: Name, None, "innermost Python frame around the launch";
    source: Name, None, "line of the program that launched it, train.py:112: that of the launching call, see cpu_ops";
    step: OptI64, None, "step of the launching call; by time where there is none";
    queue_order: OptI64, None, "position on its stream, from 0, by start";
    bytes: OptI64, Bytes, "bytes filled";
    bandwidth_gb_per_s: OptF64, GbPerS, "bandwidth as the profiler gives it";
    args: Text, None, "other arguments, JSON";
}

table! {
    DeviceSyncs / DeviceSync = "device_syncs", "one synchronisation recorded on a stream (cuda_sync): the device or host waits, nothing runs";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "Stream Sync, Event Sync, Context Sync, Stream Wait Event";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "stream that waits; absent where it is the whole context";
    thread: I32, None, "lane, see threads";
    correlation: OptI64, None, "id shared with the host call";
    external_id: OptI64, None, "id shared with the operator";
    launch: OptI64, None, "host call that caused it";
    launch_ts_ns: OptI64, Ns, "start of that call";
    wait_on_stream: OptI64, None, "stream waited for";
    wait_on_record: OptI64, None, "correlation id of the event record waited for";
    step: OptI64, None, "step of the host call; by time where there is none";
    args: Text, None, "other arguments, JSON";
}
