//! The compilations that a log describes: what its records say of each, from begin to end.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::tables::{CompiledFrame, CompiledFrames, CompiledKernels};
use trace_model::{StrId, Strings};

use super::graph::{Graph, SymbolSizes};
use super::output_code::OutputCode;
use super::provenance::{CompiledGraph, KernelNodes, KernelStacks, NodeMappings, PreGradLines};
use super::record::{CacheResult, GraphKind, Metrics, StageEvent};
use super::source_line::optional;

/// Stages whose duration is that of a compilation, where its metrics do not say.
const FORWARD_STAGE: &str = "entire_frame_compile";
const BACKWARD_STAGE: &str = "entire_backward_compile";

/// One compilation of a frame, as far as the log was read.
#[derive(Debug, Default)]
pub(super) struct Compilation {
    /// Something was recorded that belongs to a row which was not written yet.
    is_open: bool,
    /// Dynamo started.
    has_begun: bool,
    frame_id: Option<i64>,
    attempt: Option<i64>,
    function: Option<String>,
    file: Option<String>,
    line: Option<i64>,
    recompile_reason: String,
    /// Hits, misses and bypasses of the cache of graphs.
    graph_cache: [i64; 3],
    autograd_cache: Option<CacheResult>,
    forward: Stage,
    backward: Stage,
    lines: PreGradLines,
    sizes: SymbolSizes,
    /// Graphs before Inductor's passes: forward, backward.
    aot_graphs: [Option<Graph>; 2],
    /// The graph of which code comes next.
    post_grad: Option<Graph>,
    /// Key of that graph, if it was looked up before.
    key: Option<String>,
    /// The graph of which code was seen last.
    current: Option<CompiledGraph>,
}

/// A stage, by the events at its ends.
#[derive(Debug, Default, Clone, Copy)]
struct Stage {
    start_ns: Option<i64>,
    end_ns: Option<i64>,
}

impl Compilation {
    /// Takes the numbers of a record; the latest attempt counts.
    pub(super) fn seen(&mut self, frame_id: Option<i64>, attempt: Option<i64>) {
        self.frame_id = frame_id.or(self.frame_id);
        self.attempt = attempt.or(self.attempt);
    }

    /// Takes the frame that is compiled, where compilation starts.
    pub(super) fn begin(&mut self, function: String, file: Option<String>, line: i64) {
        self.is_open = true;
        self.has_begun = true;
        self.function = Some(function);
        self.file = file;
        self.line = Some(line);
    }

    pub(super) fn add_symbol(&mut self, name: String, size: u64) {
        self.sizes.insert(name, size);
    }

    pub(super) fn add_recompile_reason(&mut self, reason: &str) {
        self.is_open = true;
        self.recompile_reason = guards(reason);
    }

    pub(super) fn add_stage(&mut self, event: &StageEvent) {
        let stage = match event.name.as_str() {
            FORWARD_STAGE => &mut self.forward,
            BACKWARD_STAGE => &mut self.backward,
            _ => return,
        };
        match event.ph.as_str() {
            "B" => *stage = Stage { start_ns: event.ts_ns(), end_ns: None },
            "E" => stage.end_ns = event.ts_ns(),
            _ => {}
        }
    }

    pub(super) fn add_graph(&mut self, kind: GraphKind, text: &str, strings: &mut Strings) {
        let graph = Graph::parse(text, &self.sizes, strings);
        match kind {
            GraphKind::PreGrad => self.lines.extend(graph.lines()),
            GraphKind::Aot { is_backward } => {
                self.aot_graphs[usize::from(is_backward)] = Some(graph);
            }
            GraphKind::PostGrad => self.post_grad = Some(graph),
        }
    }

    /// Takes the code of the next graph. The rows of the one before are complete then: see [`Self::finish_graph`].
    pub(super) fn add_code(&mut self, text: &str) {
        let code = OutputCode::parse(text);
        // A graph from the cache comes without the one after Inductor's passes. Most of its nodes are in the one before.
        let graph = self.post_grad.take().or_else(|| {
            let is_backward = code.is_backward()?;
            self.aot_graphs[usize::from(is_backward)].take()
        });
        self.current =
            Some(CompiledGraph { code, graph, key: self.key.take(), ..CompiledGraph::default() });
    }

    pub(super) fn add_mappings(&mut self, mappings: NodeMappings) {
        if let Some(current) = &mut self.current {
            current.mappings = mappings;
        }
    }

    pub(super) fn add_kernel_nodes(&mut self, nodes: KernelNodes) {
        if let Some(current) = &mut self.current {
            current.kernel_nodes = nodes;
        }
    }

    pub(super) fn add_stacks(&mut self, stacks: KernelStacks) {
        if let Some(current) = &mut self.current {
            current.stacks = stacks;
        }
    }

    pub(super) fn add_graph_cache(&mut self, result: CacheResult, key: Option<String>) {
        self.is_open = true;
        self.graph_cache[result as usize] += 1;
        match &mut self.current {
            Some(current) if current.key.is_none() => current.key = key,
            _ => self.key = key,
        }
    }

    pub(super) fn add_autograd_cache(&mut self, result: CacheResult) {
        self.autograd_cache = Some(result);
    }

    /// Writes the rows of the graph of which code was seen last.
    pub(super) fn finish_graph(
        &mut self,
        compile_id: StrId,
        strings: &mut Strings,
        kernels: &mut CompiledKernels,
    ) {
        if let Some(graph) = self.current.take() {
            graph.add_rows(compile_id, &self.lines, strings, kernels);
        }
    }

    /// Writes the row of a compilation that ends with these metrics.
    pub(super) fn finish(
        &mut self,
        compile_id: StrId,
        is_backward: bool,
        metrics: &Metrics,
        strings: &mut Strings,
        frames: &mut CompiledFrames,
    ) {
        self.function = metrics.co_name.clone().or(self.function.take());
        self.file = metrics.co_filename.clone().or(self.file.take());
        self.line = metrics.co_firstlineno.or(self.line);
        let stage =
            std::mem::take(if is_backward { &mut self.backward } else { &mut self.forward });
        let measured = stage.start_ns.zip(stage.end_ns).map(|(start, end)| end - start);
        let dur_ns = metrics.dur_ns().or(measured).filter(|&dur_ns| dur_ns >= 0);
        // The reason belongs to the frame: its backward pass is compiled again as a consequence.
        let mut recompile_reason = std::mem::take(&mut self.recompile_reason);
        if recompile_reason.is_empty() {
            recompile_reason = guards(metrics.recompile_reason.as_deref().unwrap_or_default());
        }
        let [hits, misses, bypasses] = std::mem::take(&mut self.graph_cache);
        let autograd_cache = self.autograd_cache.take();
        let null = |value: Option<i64>| value.unwrap_or(NULL_I64);
        frames.push(CompiledFrame {
            compile_id,
            phase: strings.intern(if is_backward { "backward" } else { "forward" }),
            frame_id: null(self.frame_id),
            attempt: null(self.attempt),
            function: optional(self.function.as_deref().unwrap_or_default(), strings),
            file: optional(self.file.as_deref().unwrap_or_default(), strings),
            line: null(self.line),
            ts_ns: null(metrics.start_ns().or(stage.start_ns)),
            dur_ns: null(dur_ns),
            inductor_dur_ns: null(metrics.inductor_dur_ns()),
            recompile_reason,
            fail_reason: metrics.fail_reason.clone().unwrap_or_default(),
            graph_cache_hit_count: hits,
            graph_cache_miss_count: misses,
            graph_cache_bypass_count: bypasses,
            autograd_cache: autograd_cache.map_or(StrId::NULL, |result| {
                strings.intern(match result {
                    CacheResult::Hit => "hit",
                    CacheResult::Miss => "miss",
                    CacheResult::Bypass => "bypass",
                })
            }),
            graph_op_count: null(metrics.graph_op_count),
            guard_count: null(metrics.guard_count),
            ..CompiledFrame::null_row()
        });
        self.is_open = false;
    }

    /// Returns whether a start of Dynamo would be that of another compilation of the same id. Reasons for a recompilation
    /// are written before its start.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns whether the log says something of a compilation whose end it does not hold.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// The guards that failed, one per line, without stacks: `0/0: scale == 1 # return x * scale # train.py:7 in forward`.
fn guards(reasons: &str) -> String {
    let one_space = |line: &str| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let is_reason = |line: &&str| {
        line.split_once(": ").is_some_and(|(id, _)| {
            id.contains('/') && id.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'/' | b'!'))
        })
    };
    let lines: Vec<String> = reasons.lines().filter(is_reason).map(one_space).collect();
    if lines.is_empty() {
        reasons.lines().next().map(one_space).unwrap_or_default()
    } else {
        lines.join("\n")
    }
}

/// The compilations of a log by id.
pub(super) type Compilations = FxHashMap<String, Compilation>;

#[cfg(test)]
mod tests {
    use super::guards;

    #[test]
    fn guards_are_without_stacks() {
        let reasons = "1/1: scale == 2      # return x  # a.py:30 in f\nUser stack trace:\n  File \"a.py\", line 3\n\
                       !0/1/0: L['n'] == 4";
        assert_eq!(
            guards(reasons),
            "1/1: scale == 2 # return x # a.py:30 in f\n!0/1/0: L['n'] == 4"
        );
        assert_eq!(guards("  the cache was  cleared\nmore"), "the cache was cleared");
        assert_eq!(guards(""), "");
    }
}
