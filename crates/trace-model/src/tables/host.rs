//! What the host did: operators, runtime calls, annotations, Python frames.
//!
//! All four nest in one call tree per thread: `parent` may point into any of them.

use super::table;

table! {
    CpuOps / CpuOp = "cpu_ops", "one operator call on a host thread";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "operator: aten::mm, autograd::engine::..., nccl:all_reduce";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration, children included";
    self_dur_ns: I64, Ns, "duration less that of direct children (any kind of host event)";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id where it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    external_id: OptI64, None, "id shared with the device work it launches";
    record_function_id: OptI64, None, "id that an execution trace recorded at the same time gives it (rf_id)";
    sequence: OptI64, None, "autograd sequence number, shared by forward and backward";
    fwd_thread: OptI64, None, "thread of the forward call, on backward operators";
    forward_op: OptI64, None, "on backward operators, the forward operator that they undo: the last to start of those with their sequence number";
    input_dims: Name, None, "input shapes, JSON";
    input_types: Name, None, "input types, JSON";
    call_stack: Name, None, "Python call stack, innermost first, ';' between frames (old traces)";
    source: Name, None, "line of the program that called it, train.py:112: of the innermost Python frame in the user's own code, else in an installed package, else in PyTorch; on backward operators that of their forward operator, and what autograd does with a gradient after them belongs to them; where frames are events, the line is the one their function starts at; absent without stacks (with_stack=True)";
    args: Text, None, "other arguments, JSON";
}

table! {
    RuntimeCalls / RuntimeCall = "runtime_calls", "one call into the device runtime or driver";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "function: cudaLaunchKernel, hipMemcpyAsync";
    category: Name, None, "runtime, driver or vendor's name for it, as written";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    self_dur_ns: I64, Ns, "duration less that of direct children";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id where it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    correlation: OptI64, None, "id shared with the device activities it causes";
    external_id: OptI64, None, "id shared with the operator that made the call";
    op: OptI64, None, "operator that made the call: by nesting, else by external id";
    device_events: I32, None, "device activities it caused";
    source: Name, None, "line of the program that made the call, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}

table! {
    Annotations / Annotation = "annotations", "one named range: record_function, ProfilerStep#, Optimizer.step, DataLoader; on the host or mirrored on the device";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "name of the range";
    on_device: Flag, None, "the device's copy (gpu_user_annotation): from first to last kernel launched inside";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration";
    self_dur_ns: I64, Ns, "duration less that of direct children; the whole duration on the device";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id where it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    external_id: OptI64, None, "id shared with the device work inside";
    record_function_id: OptI64, None, "id that an execution trace recorded at the same time gives it (rf_id)";
    input_dims: Name, None, "input shapes, JSON";
    input_types: Name, None, "input types, JSON";
    call_stack: Name, None, "Python call stack, innermost first, ';' between frames (old traces)";
    source: Name, None, "line of the program around it, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}

table! {
    PythonFrames / PythonFrame = "python_frames", "one call of a Python function";
    rank: I32, None, "rank";
    event_id: I64, None, "event";
    name: Name, None, "file(line): function, nn.Module: Class_n, or <built-in ...>";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration, callees included";
    self_dur_ns: I64, Ns, "duration less that of direct children (any kind of host event)";
    thread: I32, None, "lane, see threads";
    tid: OptI64, None, "thread id where it is a number";
    parent: OptI64, None, "enclosing host event";
    depth: I32, None, "enclosing host events, 0 at top level";
    step: OptI64, None, "step it starts in";
    python_id: OptI64, None, "the profiler's id of this call";
    python_parent_id: OptI64, None, "the profiler's id of the caller";
    module_id: OptI64, None, "instance number, for nn.Module calls";
    source: Name, None, "line of the program it belongs to, itself included, see cpu_ops";
    args: Text, None, "other arguments, JSON";
}
