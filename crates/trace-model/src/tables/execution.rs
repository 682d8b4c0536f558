//! What execution traces say: which operators ran with which arguments, and no times.

use super::table;

table! {
    ExecutionNodes / ExecutionNode = "execution_nodes", "one call recorded by PyTorch's ExecutionTraceObserver: an operator, annotation, or the thread or process that holds them";
    rank: I32, None, "rank";
    node_id: I64, None, "number of the node in its execution trace; with the rank it identifies a node";
    name: Name, None, "operator or annotation";
    parent: OptI64, None, "enclosing node (parent, ctrl_deps); absent at the root";
    rf_id: OptI64, None, "id of the recorded function, shared with the profiler's events";
    event_id: OptI64, None, "host event of the profiler's trace that is the same call, if that trace is there";
    fw_parent: OptI64, None, "node of the forward call, on backward operators";
    seq_id: OptI64, None, "autograd sequence number, shared by forward and backward";
    scope: OptI32, None, "record scope: 0 operator, 1 backward, 7 annotation ...";
    tid: OptI64, None, "thread, as PyTorch numbers them";
    fw_tid: OptI64, None, "thread of the forward call, on backward operators";
    op_schema: Name, None, "signature of the operator";
    kernel_backend: Name, None, "what generated the kernel: triton";
    kernel_file: Name, None, "file of the generated kernel";
    input_shapes: Name, None, "shape of each input, JSON";
    input_types: Name, None, "type of each input, JSON";
    input_strides: Name, None, "strides of each input, JSON";
    output_shapes: Name, None, "shape of each output, JSON";
    output_types: Name, None, "type of each output, JSON";
    output_strides: Name, None, "strides of each output, JSON";
    inputs: Text, None, "inputs, JSON; a tensor is [tensor, storage, offset, elements, bytes an element, device]";
    outputs: Text, None, "outputs, JSON; tensors as in inputs";
    args: Text, None, "other attributes, JSON";
}
