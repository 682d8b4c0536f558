//! Kernels measured by the range profiler: run one at a time, with hardware counters in place of a timeline.

use super::table;

table! {
    ProfilerRanges / ProfilerRange = "profiler_ranges", "one kernel measured by the range profiler (cuda_profiler_range), which runs kernels one at a time";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "kernel name";
    ts_ns: I64, Ns, "start as written: the profiler spreads the kernels evenly over the recording, so only their order is meaningful";
    dur_ns: I64, Ns, "duration as written: an even share of the recording";
    device: OptI32, None, "device ordinal";
    stream: OptI32, None, "stream on the device, if the trace has it";
    thread: I32, None, "lane, see threads";
    position: I64, None, "position in the rank's order of kernels, from 0";
    launch: OptI64, None, "launching call: the one at the same position in the order of launches, if there are as many launches as kernels";
    launch_ts_ns: OptI64, Ns, "start of the launching call";
    op: OptI64, None, "operator that launched it";
    op_name: DictColumn, None, "name of that operator";
    top_op_name: DictColumn, None, "outermost operator around the launch";
    op_stack: DictColumn, None, "names of the operators around the launch, outermost first, JSON";
    annotation: DictColumn, None, "innermost host annotation around the launch";
    module: DictColumn, None, "innermost nn.Module around the launch";
    python_frame: DictColumn, None, "innermost Python frame around the launch";
    step: OptI64, None, "step of the launching call";
    args: Text, None, "arguments that are not counters, JSON";
}

table! {
    RangeCounters / RangeCounter = "range_counters", "one hardware counter of one kernel measured by the range profiler";
    rank: I32, None, "rank";
    event_id: I64, None, "event of the kernel, see profiler_ranges";
    name: DictColumn, None, "counter, as CUPTI names it";
    value: OptF64, Number, "value as written";
}
