//! Execution traces: operators and their arguments, without times.

use super::table;

table! {
    ExecutionNodes / ExecutionNode = "execution_nodes", "one call recorded by PyTorch's ExecutionTraceObserver: an operator, annotation, or the thread or process that holds them";
    rank: I32, None, "rank";
    node_id: I64, None, "number of the node in its execution trace; together with the rank it identifies a node";
    name: DictColumn, None, "operator or annotation";
    parent: OptI64, None, "enclosing node (parent, ctrl_deps); null at the root";
    rf_id: OptI64, None, "id of the recorded function, shared with the profiler's events";
    event_id: OptI64, None, "host event of the same call in the profiler's trace; null without that trace";
    fw_parent: OptI64, None, "node of the forward call, on backward operators";
    seq_id: OptI64, None, "autograd sequence number, shared by forward and backward";
    scope: OptI32, None, "record scope: 0 operator, 1 backward, 7 annotation ...";
    tid: OptI64, None, "thread, as PyTorch numbers it";
    fw_tid: OptI64, None, "thread of the forward call, on backward operators";
    op_schema: DictColumn, None, "signature of the operator";
    kernel_backend: DictColumn, None, "generator of the kernel: triton";
    kernel_file: DictColumn, None, "file of the generated kernel";
    input_shapes: DictColumn, None, "shape of each input, JSON";
    input_types: DictColumn, None, "type of each input, JSON";
    input_strides: DictColumn, None, "strides of each input, JSON";
    output_shapes: DictColumn, None, "shape of each output, JSON";
    output_types: DictColumn, None, "type of each output, JSON";
    output_strides: DictColumn, None, "strides of each output, JSON";
    inputs: Text, None, "inputs, JSON; a tensor is [tensor, storage, offset, elements, bytes per element, device]";
    outputs: Text, None, "outputs, JSON; tensors as in inputs";
    args: Text, None, "other attributes, JSON";
}
