//! Device activity: kernels, copies, fills, and waits recorded on streams.
//!
//! Each activity has the call that launched it (`launch`, by correlation id), and through that call the operator,
//! annotation, module and Python frame.

use super::table;

/// Declares a table of launched activity: columns of its own around those that all such tables share.
macro_rules! launched_table {
    (
        $table:ident / $row:ident = $name:literal, $row_is:literal;
        name { $($name_columns:tt)+ }
        details { $($detail_columns:tt)+ }
    ) => {
        table! {
            $table / $row = $name, $row_is;
            rank: I32, None, "rank";
            event_id: I64, None, "event";
            $($name_columns)+
            ts_ns: I64, Ns, "start";
            dur_ns: I64, Ns, "duration";
            device: OptI32, None, "device ordinal";
            stream: OptI32, None, "stream on the device";
            thread: I32, None, "lane, see threads; graph nodes may be drawn on other lanes than their stream (graph_lanes)";
            correlation: OptI64, None, "id shared with the launching call";
            external_id: OptI64, None, "id shared with the operator";
            launch: OptI64, None, "launching call; null if it is not in the trace";
            launch_name: DictColumn, None, "function that launched it";
            launch_ts_ns: OptI64, Ns, "start of the launching call";
            launch_dur_ns: OptI64, Ns, "duration of the launching call";
            launch_thread: OptI32, None, "lane of the launching call";
            op: OptI64, None, "operator that launched it; null if it replays a graph node, whose operator graph_nodes has";
            op_name: DictColumn, None, "name of that operator";
            annotation: DictColumn, None, "innermost host annotation around the launch";
            module: DictColumn, None, "innermost nn.Module around the launch, or the module with which the program marked the graph node (module_fqn)";
            python_frame: DictColumn, None, "innermost Python frame around the launch";
            source: DictColumn, None, "source line of the launching call, for example train.py:112; see cpu_ops";
            step: OptI64, None, "step of the launching call; without a launching call, the step by time";
            queue_order: OptI64, None, "position on its stream, from 0, by start time";
            graph_id: OptI64, None, "CUDA graph that it replays, as the profiler numbers it";
            graph_node_id: OptI64, None, "node of that graph, as the profiler numbers it: the graph in the upper 32 bits, where it is known";
            graph_node: OptI64, None, "captured node that it replays, see graph_nodes: op_name, module, python_frame and source come from there; null if no capture fits";
            $($detail_columns)+
            args: Text, None, "other arguments, JSON";
        }
    };
}

launched_table! {
    Kernels / Kernel = "kernels", "one kernel execution";
    name {
        name: DictColumn, None, "kernel name";
        kind: DictColumn, None, "kind, from the name: communication (nccl*Kernel, ncclDevKernel, rccl, hccl, oneCCL, gloo), memory (Memcpy, Memset, dma), or computation";
    }
    details {
        grid: DictColumn, None, "grid size in x, y and z, in blocks; in threads if hipExtModuleLaunchKernel launched it";
        block: DictColumn, None, "threads per block in x, y and z";
        blocks: OptI64, None, "grid size in blocks; in threads if hipExtModuleLaunchKernel launched it";
        block_threads: OptI64, None, "threads per block";
        registers: OptI32, None, "registers per thread";
        shared_memory_bytes: OptI64, Bytes, "shared memory per block";
        blocks_per_sm: OptF64, Number, "blocks per SM of the device, as the profiler reports it";
        warps_per_sm: OptF64, Number, "warps per SM of the device, as the profiler reports it";
        occupancy_ratio: OptF64, Ratio, "estimated achieved occupancy, as the profiler reports it";
        tensor_cores: DictColumn, None, "use of tensor cores (matrix cores on AMD), from the name: yes, no or unknown";
    }
}

launched_table! {
    Memcpys / Memcpy = "memcpys", "one copy by a device";
    name {
        name: DictColumn, None, "name as Kineto writes it: Memcpy HtoD (Pageable -> Device)";
        kind: DictColumn, None, "direction: HtoD, DtoH, DtoD, HtoH, PtoP or unknown";
    }
    details {
        bytes: OptI64, Bytes, "bytes copied";
        bandwidth_gb_per_s: OptF64, GbPerS, "bandwidth, as the profiler reports it; for Cuspy, which reports none, bytes over time";
    }
}

launched_table! {
    Memsets / Memset = "memsets", "one fill by a device";
    name {
        name: DictColumn, None, "name as Kineto writes it: Memset (Device)";
    }
    details {
        bytes: OptI64, Bytes, "bytes filled";
        bandwidth_gb_per_s: OptF64, GbPerS, "bandwidth, as the profiler reports it; for Cuspy, which reports none, bytes over time";
    }
}

table! {
    DeviceSyncs / DeviceSync = "device_syncs", "one synchronization recorded on a stream (cuda_sync; event_wait and event_record of MTIA): the device or the host waits, nothing runs";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "Stream Sync, Event Sync, Context Sync, Stream Wait Event";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "waiting stream; null if the whole context waits";
    thread: I32, None, "lane, see threads";
    correlation: OptI64, None, "id shared with the host call";
    external_id: OptI64, None, "id shared with the operator";
    launch: OptI64, None, "host call that caused it";
    launch_ts_ns: OptI64, Ns, "start of that call";
    wait_on_stream: OptI64, None, "stream that it waits for";
    wait_on_record: OptI64, None, "correlation id of the event record that it waits for";
    step: OptI64, None, "step of the host call; without a host call, the step by time";
    args: Text, None, "other arguments, JSON";
}
