//! What a log of `torch.compile` holds.

use trace_model::tables::{CompiledFrame, CompiledKernel, GraphBreak};

use super::Run;

impl Run {
    /// A compilation of `forward` in model.py, whose graph was not in the cache.
    pub fn compiled(&mut self, rank: i32, compile_id: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        self.recompiled(rank, compile_id, ts_ns, dur_ns, "")
    }

    /// The same, because these guards failed.
    pub fn recompiled(
        &mut self,
        rank: i32,
        compile_id: &str,
        ts_ns: i64,
        dur_ns: i64,
        reason: &str,
    ) -> &mut Self {
        let row = CompiledFrame {
            rank,
            compile_id: self.name(compile_id),
            phase: self.name("forward"),
            function: self.name("forward"),
            file: self.name("model.py"),
            line: 10,
            ts_ns,
            dur_ns,
            recompile_reason: reason.into(),
            graph_cache_miss_count: 1,
            ..CompiledFrame::null_row()
        };
        self.compiled_frames.push(row);
        self
    }

    /// The compilation is of a backward pass.
    pub fn of_backward(&mut self) -> &mut Self {
        let phase = self.name("backward");
        set_last!(self.compiled_frames, phase, phase);
        self
    }

    /// The graph of the compilation was in the cache.
    pub fn found_in_cache(&mut self) -> &mut Self {
        set_last!(self.compiled_frames, graph_cache_miss_count, 0);
        set_last!(self.compiled_frames, graph_cache_hit_count, 1);
        self
    }

    /// A call of a compiled graph, on the thread that launches kernels.
    pub fn graph_call(&mut self, rank: i32, key: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        self.op(rank, &format!("## Call CompiledFxGraph {key} ##"), ts_ns, dur_ns);
        set_last!(self.cpu_ops, thread, 1);
        self
    }

    pub fn graph_break(&mut self, rank: i32, line: i64, reason: &str) -> &mut Self {
        let row = GraphBreak {
            rank,
            compile_id: self.name("0/0"),
            file: self.name("model.py"),
            line,
            code: self.name("print(x)"),
            reason: self.name(reason),
            hint: "Do not print.".into(),
            ..GraphBreak::null_row()
        };
        self.graph_breaks.push(row);
        self
    }

    /// The share of a line in a kernel of the graph with this key, of all graphs if it is empty.
    pub fn compiled_line(
        &mut self,
        rank: i32,
        kernel: &str,
        graph_key: &str,
        line: i64,
        share_ppm: i64,
    ) -> &mut Self {
        let row = CompiledKernel {
            rank,
            compile_id: self.name("0/0"),
            graph_key: self.name(graph_key),
            name: self.name(kernel),
            backend: self.name("triton"),
            file: self.name("model.py"),
            line,
            split_by: self.name("bytes"),
            share_ppm,
            ..CompiledKernel::null_row()
        };
        self.compiled_kernels.push(row);
        self
    }
}
