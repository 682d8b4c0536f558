//! Host activity: operators, runtime calls, annotations, Python frames.
//!
//! All four nest in one call tree per thread: `parent` may point into any of them.

use super::table;

table! {
    CpuOps / CpuOp = "cpu_ops", "one operator call on a host thread";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "operator: aten::mm, autograd::engine::..., nccl:all_reduce";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration, children included";
    self_dur_ns: I64, Ns, "duration minus that of direct children (any kind of host event)";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id if it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "number of enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    external_id: OptI64, None, "id shared with the device work it launches";
    record_function_id: OptI64, None, "id of the same call in an execution trace recorded at the same time (rf_id)";
    sequence: OptI64, None, "autograd sequence number, shared by forward and backward";
    fwd_thread: OptI64, None, "thread of the forward call, on backward operators";
    forward_op: OptI64, None, "on backward operators, their forward operator: of those with the same sequence number, the last to start";
    input_dims: DictColumn, None, "input shapes, JSON";
    input_types: DictColumn, None, "input types, JSON";
    call_stack: DictColumn, None, "Python call stack, innermost first, ';' between frames (old traces)";
    source: DictColumn, None, "source line of the call, for example train.py:112: that of the innermost Python frame in the user's own code, else in an installed package, else in PyTorch; on backward operators, and what autograd does with their gradient afterwards, the line of the forward operator; where frames are events, the first line of their function; null without stacks (with_stack=True)";
    args: Text, None, "other arguments, JSON";
}

table! {
    RuntimeCalls / RuntimeCall = "runtime_calls", "one call into the device runtime or driver";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "function: cudaLaunchKernel, hipMemcpyAsync";
    category: DictColumn, None, "runtime, driver or the vendor's name for it, as written";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    self_dur_ns: I64, Ns, "duration minus that of direct children";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id if it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "number of enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    correlation: OptI64, None, "id shared with the device activities it causes";
    external_id: OptI64, None, "id shared with the operator that made the call";
    op: OptI64, None, "operator that made the call, by nesting, else by external id";
    device_events: I32, None, "number of device activities that it caused";
    source: DictColumn, None, "source line of the call, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}

table! {
    Annotations / Annotation = "annotations", "one named range: record_function, ProfilerStep#, Optimizer.step, DataLoader; on the host or mirrored on the device";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "name of the range";
    on_device: Flag, None, "true for the copy on the device (gpu_user_annotation), which spans the kernels launched inside";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    self_dur_ns: I64, Ns, "duration minus that of direct children; equal to dur_ns on the device";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id if it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "number of enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    external_id: OptI64, None, "id shared with the device work inside";
    record_function_id: OptI64, None, "id of the same call in an execution trace recorded at the same time (rf_id)";
    input_dims: DictColumn, None, "input shapes, JSON";
    input_types: DictColumn, None, "input types, JSON";
    call_stack: DictColumn, None, "Python call stack, innermost first, ';' between frames (old traces)";
    source: DictColumn, None, "source line around it, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}

table! {
    PythonFrames / PythonFrame = "python_frames", "one call of a Python function";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: DictColumn, None, "file(line): function, nn.Module: Class_n, or <built-in ...>";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration, callees included";
    self_dur_ns: I64, Ns, "duration minus that of direct children (any kind of host event)";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id if it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "number of enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    python_id: OptI64, None, "the profiler's id of this call";
    python_parent_id: OptI64, None, "the profiler's id of the caller";
    module_id: OptI64, None, "instance number, for nn.Module calls";
    source: DictColumn, None, "source line of the frame or of the code around it, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}
