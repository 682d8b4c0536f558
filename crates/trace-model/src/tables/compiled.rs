//! Compilations by `torch.compile`, from the logs of `TORCH_TRACE`.

use super::table;

table! {
    CompiledFrames / CompiledFrame = "compiled_frames", "one compilation of a Python frame, or of its backward pass, by torch.compile (TORCH_TRACE)";
    rank: I32, None, "rank";
    compile_id: DictColumn, None, "id of the compilation, as PyTorch writes it: 0/1 is the second compilation of frame 0; after torch._dynamo.reset() ids start again";
    phase: DictColumn, None, "forward (Dynamo, AOTAutograd and Inductor) or backward (compiled in the first backward pass)";
    frame_id: OptI64, None, "number of the frame, from 0; the parts of a function after a graph break are frames of their own";
    attempt: OptI64, None, "number of the last attempt, from 0: Dynamo starts again at each graph break";
    function: DictColumn, None, "function that was compiled";
    file: DictColumn, None, "its file";
    line: OptI64, None, "its first line";
    ts_ns: OptI64, Ns, "start; null if the log does not say";
    dur_ns: OptI64, Ns, "duration; null if the log does not say, or ends before";
    inductor_dur_ns: OptI64, Ns, "time in Inductor";
    recompile_reason: Text, None, "guards of earlier compilations that failed, one per line, each with the compilation: 0/0: tensor 'x' size mismatch; null for the first compilation";
    fail_reason: Text, None, "reason for which the frame could not be compiled: it runs uncompiled";
    graph_cache_hit_count: I64, Count, "graphs taken from the cache of compiled graphs (FxGraphCache)";
    graph_cache_miss_count: I64, Count, "graphs looked up in it and compiled";
    graph_cache_bypass_count: I64, Count, "graphs that could not be cached";
    autograd_cache: DictColumn, None, "result of the cache of AOTAutograd: hit, miss or bypass";
    graph_op_count: OptI64, Count, "calls in the graph of the frame";
    guard_count: OptI64, Count, "guards that are checked before each call";
}

table! {
    GraphBreaks / GraphBreak = "graph_breaks", "one graph break: a line that torch.compile could not compile (TORCH_TRACE)";
    rank: I32, None, "rank";
    compile_id: DictColumn, None, "compilation in which it occurred, see compiled_frames";
    file: DictColumn, None, "file";
    line: OptI64, None, "line";
    function: DictColumn, None, "function";
    code: DictColumn, None, "code of the line";
    reason: DictColumn, None, "reason";
    explanation: Text, None, "explanation by PyTorch";
    hint: Text, None, "advice by PyTorch";
    stack: Text, None, "Python stack, innermost last";
}

table! {
    CompiledKernels / CompiledKernel = "compiled_kernels", "one source line of one kernel that Inductor generated (TORCH_TRACE)";
    rank: I32, None, "rank";
    compile_id: DictColumn, None, "compilation, see compiled_frames";
    graph_id: DictColumn, None, "graph, as Inductor numbers it: 0_forward, 0_backward, 1_inference";
    graph_key: DictColumn, None, "key of the graph in the cache of compiled graphs, also in the name of the operator that calls it: ## Call CompiledFxGraph <key> ##";
    name: DictColumn, None, "kernel: triton_poi_fused_add_0, cpp_fused_add_0; extern_kernels.mm for a function of a library";
    backend: DictColumn, None, "triton, cpp or extern";
    call_number: OptI64, None, "number of the call among those of the same function of a library in the graph, from 0; null for generated kernels, and where the log does not tell calls apart";
    file: DictColumn, None, "file; null if the log does not say where the nodes come from";
    line: OptI64, None, "line";
    function: DictColumn, None, "function";
    code: DictColumn, None, "code of the line";
    nodes: Text, None, "nodes of the graph that the kernel computes for this line, after Inductor's passes";
    pre_grad_nodes: Text, None, "nodes that these were made from, as Dynamo recorded them";
    read_bytes: OptI64, Bytes, "bytes of the tensors that these nodes read and the kernel does not compute; null if a size is unknown";
    written_bytes: OptI64, Bytes, "bytes of the tensors that these nodes compute and other lines or other kernels use";
    split_by: DictColumn, None, "what the shares are proportional to: bytes (read and written), nodes (if a size is unknown) or stacks (if the nodes are unknown); null if all of the kernel belongs to one line";
    share_ppm: I64, Number, "share of the kernel's time, in millionths; those of a kernel in a graph, or of a call of a function, sum to 1,000,000";
}
