//! From the kernels of a graph to the lines of the program: which line each graph node comes from, and the share of a
//! fused kernel that each line gets.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Deserialize;
use trace_model::column::NULL_I64;
use trace_model::tables::{CompiledKernel, CompiledKernels};
use trace_model::{StrId, Strings};

use super::graph::Graph;
use super::output_code::{Kernel, OutputCode};
use super::source_line::SourceLine;

/// The shares of the lines of a kernel sum to this.
const WHOLE: u64 = 1_000_000;

/// Which nodes each kernel computes, by kernel. Since version 2 keys name single calls: `triton_poi_fused_add_0:7`.
pub(super) type KernelNodes = BTreeMap<String, Vec<String>>;

/// Python stacks of each kernel.
pub(super) type KernelStacks = BTreeMap<String, Vec<String>>;

/// `inductor_provenance_tracking_node_mappings`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeMappings {
    pub(super) cpp_code_to_post: KernelNodes,
    pub(super) post_to_pre: FxHashMap<String, Vec<String>>,
}

/// A graph that Inductor compiled, with what the log says of it.
#[derive(Debug, Default)]
pub(super) struct CompiledGraph {
    pub(super) code: OutputCode,
    pub(super) graph: Option<Graph>,
    pub(super) mappings: NodeMappings,
    pub(super) kernel_nodes: KernelNodes,
    pub(super) stacks: KernelStacks,
    /// Key in the cache of compiled graphs.
    pub(super) key: Option<String>,
}

/// Source lines of the nodes of the graph before Inductor's passes.
pub(super) type PreGradLines = FxHashMap<String, SourceLine>;

/// Contribution of a source line to a kernel.
#[derive(Debug, Default)]
struct Part {
    nodes: BTreeSet<String>,
    pre_nodes: BTreeSet<String>,
    read_bytes: u64,
    written_bytes: u64,
    /// The size of one of its tensors is unknown.
    is_unknown: bool,
    /// Stacks that name the line, of kernels without nodes.
    stacks: u64,
}

/// Quantity by which the time of a kernel is split over source lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplitBy {
    Bytes,
    Nodes,
    Stacks,
}

impl CompiledGraph {
    /// Adds a row for each kernel and source line.
    pub(super) fn add_rows(
        &self,
        compile_id: StrId,
        lines: &PreGradLines,
        strings: &mut Strings,
        rows: &mut CompiledKernels,
    ) {
        let graph_id = self.code.aot_id.as_deref().map_or(StrId::NULL, |id| strings.intern(id));
        let graph_key = self.key.as_deref().map_or(StrId::NULL, |key| strings.intern(key));
        let graph = GraphIds { compile_id, graph_id, graph_key };
        let by_kernel = self.calls_by_kernel();
        let mut numbered_calls = self.numbered_calls();
        for (name, kernel) in &self.code.kernels {
            // Calls of a function of a library differ; those of a generated kernel compute the same nodes.
            let numbered = match kernel.backend {
                "extern" => numbered_calls.remove(name.as_str()).unwrap_or_default(),
                _ => Vec::new(),
            };
            if numbered.is_empty() {
                let calls = by_kernel.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
                let is_call = |call: &str| kernel_of_call(call) == name;
                let parts = self.parts(calls, is_call, lines, strings);
                graph.add_rows(name, kernel.backend, None, &parts, strings, rows);
            }
            for (number, (_, call)) in numbered.into_iter().enumerate() {
                let nodes = self.nodes_of_calls().get(call).filter(|nodes| !nodes.is_empty());
                let nodes: Vec<&[String]> = nodes.map(Vec::as_slice).into_iter().collect();
                let parts = self.parts(&nodes, |other| other == call, lines, strings);
                graph.add_rows(name, kernel.backend, Some(number), &parts, strings, rows);
            }
        }
    }

    /// The contribution of each line to calls with these nodes; without nodes, the lines of the stacks of `is_call`.
    fn parts(
        &self,
        calls: &[&[String]],
        is_call: impl Fn(&str) -> bool,
        lines: &PreGradLines,
        strings: &mut Strings,
    ) -> BTreeMap<Option<Place>, Part> {
        let mut parts = BTreeMap::new();
        for call in calls {
            self.add_call(call, lines, &mut parts);
        }
        if calls.is_empty() {
            self.add_stacks(is_call, strings, &mut parts);
        }
        parts
    }

    /// The nodes of each call of a kernel, by kernel: from the mappings, else from comments in the code.
    fn calls_by_kernel(&self) -> BTreeMap<&str, Vec<&[String]>> {
        let mut calls: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
        for (call, nodes) in self.nodes_of_calls().iter().filter(|(_, nodes)| !nodes.is_empty()) {
            calls.entry(kernel_of_call(call)).or_default().push(nodes);
        }
        for (name, Kernel { nodes, .. }) in &self.code.kernels {
            if !nodes.is_empty() {
                calls.entry(name).or_insert_with(|| vec![nodes]);
            }
        }
        calls
    }

    /// The calls to which the log gives numbers, by kernel, in order.
    fn numbered_calls(&self) -> BTreeMap<&str, Vec<(u64, &str)>> {
        let calls: BTreeSet<&str> =
            self.nodes_of_calls().keys().chain(self.stacks.keys()).map(String::as_str).collect();
        let mut by_kernel: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
        for call in calls {
            let number = call.rsplit_once(':').and_then(|(_, number)| number.parse().ok());
            if let Some(number) = number {
                by_kernel.entry(kernel_of_call(call)).or_default().push((number, call));
            }
        }
        for calls in by_kernel.values_mut() {
            calls.sort_unstable();
        }
        by_kernel
    }

    /// The nodes of each call, as the log maps them.
    fn nodes_of_calls(&self) -> &KernelNodes {
        let mappings = &self.mappings.cpp_code_to_post;
        if mappings.is_empty() { &self.kernel_nodes } else { mappings }
    }

    /// Adds what each line contributes to one call: the bytes that its nodes read from tensors that the kernel did not
    /// compute, and those of the results that other lines, or other kernels, use.
    fn add_call(
        &self,
        call: &[String],
        lines: &PreGradLines,
        parts: &mut BTreeMap<Option<Place>, Part>,
    ) {
        let empty = Graph::default();
        let graph = self.graph.as_ref().unwrap_or(&empty);
        let nodes: BTreeSet<&str> = call.iter().map(String::as_str).collect();
        let numbers: BTreeMap<usize, Option<SourceLine>> = nodes
            .iter()
            .filter_map(|node| Some((graph.find(node)?, self.line_of(node, graph, lines))))
            .collect();
        let mut read: BTreeSet<(Option<Place>, usize)> = BTreeSet::new();
        for name in nodes {
            let line = self.line_of(name, graph, lines);
            let place = line.map(Place);
            let part = parts.entry(place.clone()).or_default();
            part.nodes.insert(name.to_owned());
            part.pre_nodes
                .extend(self.mappings.post_to_pre.get(name).into_iter().flatten().cloned());
            let Some(number) = graph.find(name) else {
                part.is_unknown = true;
                continue;
            };
            let node = graph.node(number);
            for &input in &node.inputs {
                if !numbers.contains_key(&input) && read.insert((place.clone(), input)) {
                    add(&mut part.read_bytes, graph.node(input).bytes, &mut part.is_unknown);
                }
            }
            let is_used_elsewhere = |user: &usize| numbers.get(user) != Some(&line);
            if node.is_output || node.users.iter().any(is_used_elsewhere) {
                add(&mut part.written_bytes, node.bytes, &mut part.is_unknown);
            }
        }
    }

    /// The line of a post-grad node: that of the node itself, else of the node that it was made from.
    fn line_of(&self, node: &str, graph: &Graph, lines: &PreGradLines) -> Option<SourceLine> {
        let own = graph.find(node).and_then(|number| graph.node(number).source);
        own.or_else(|| {
            let before = self.mappings.post_to_pre.get(node)?;
            before.iter().find_map(|node| lines.get(node).copied())
        })
    }

    /// Adds the innermost lines of the stacks of calls whose nodes are unknown; without stacks, a part without a line.
    fn add_stacks(
        &self,
        is_call: impl Fn(&str) -> bool,
        strings: &mut Strings,
        parts: &mut BTreeMap<Option<Place>, Part>,
    ) {
        let stacks = self.stacks.iter().filter(|(call, _)| is_call(call));
        for stack in stacks.flat_map(|(_, stacks)| stacks) {
            if let Some(line) = SourceLine::innermost(stack, strings) {
                parts.entry(Some(Place(line))).or_default().stacks += 1;
            }
        }
        if parts.is_empty() {
            parts.entry(None).or_default().stacks = 1;
        }
    }
}

/// A graph in the rows of its kernels.
struct GraphIds {
    compile_id: StrId,
    graph_id: StrId,
    graph_key: StrId,
}

impl GraphIds {
    /// Adds a row for each source line of a kernel, or of one call of a function.
    fn add_rows(
        &self,
        kernel: &str,
        backend: &str,
        call_number: Option<usize>,
        parts: &BTreeMap<Option<Place>, Part>,
        strings: &mut Strings,
        rows: &mut CompiledKernels,
    ) {
        let Some((split_by, shares)) = split(parts) else { return };
        let kernel_name = strings.intern(kernel);
        for ((place, part), share) in parts.iter().zip(shares) {
            let line = place.as_ref().map(|place| place.0);
            let has_bytes = !part.is_unknown && split_by != SplitBy::Stacks;
            let bytes =
                |bytes: u64| i64::try_from(bytes).ok().filter(|_| has_bytes).unwrap_or(NULL_I64);
            rows.push(CompiledKernel {
                compile_id: self.compile_id,
                graph_id: self.graph_id,
                graph_key: self.graph_key,
                name: kernel_name,
                backend: strings.intern(backend),
                call_number: call_number.map_or(NULL_I64, |number| number as i64),
                file: line.map_or(StrId::NULL, |line| line.file),
                line: line.map_or(NULL_I64, |line| line.line),
                function: line.map_or(StrId::NULL, |line| line.function),
                code: line.map_or(StrId::NULL, |line| line.code),
                nodes: join(&part.nodes),
                pre_grad_nodes: join(&part.pre_nodes),
                read_bytes: bytes(part.read_bytes),
                written_bytes: bytes(part.written_bytes),
                split_by: match split_by {
                    _ if parts.len() == 1 => StrId::NULL,
                    SplitBy::Bytes => strings.intern("bytes"),
                    SplitBy::Nodes => strings.intern("nodes"),
                    SplitBy::Stacks => strings.intern("stacks"),
                },
                share_ppm: share as i64,
                ..CompiledKernel::null_row()
            });
        }
    }
}

/// A line as a key, by order of its ids, which is that of their first occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place(SourceLine);

impl Place {
    fn key(&self) -> (u32, i64, u32, u32) {
        let SourceLine { file, line, function, code } = self.0;
        (file.0, line, function.0, code.0)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The kernel of a call: `cpp_fused_sum_1:5` calls `cpp_fused_sum_1`.
fn kernel_of_call(call: &str) -> &str {
    match call.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => call,
    }
}

fn add(sum: &mut u64, bytes: Option<u64>, is_unknown: &mut bool) {
    match bytes {
        Some(bytes) => *sum = sum.saturating_add(bytes),
        None => *is_unknown = true,
    }
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The share of each part, in millionths; `None` if there are no parts.
fn split(parts: &BTreeMap<Option<Place>, Part>) -> Option<(SplitBy, Vec<u64>)> {
    let weights = |weight: fn(&Part) -> u64| parts.values().map(weight).collect::<Vec<u64>>();
    let bytes = weights(|part| part.read_bytes.saturating_add(part.written_bytes));
    let nodes = weights(|part| part.nodes.len() as u64);
    let is_known = parts.values().all(|part| !part.is_unknown);
    let (split_by, weights) = if is_known && bytes.iter().any(|&bytes| bytes > 0) {
        (SplitBy::Bytes, bytes)
    } else if nodes.iter().any(|&nodes| nodes > 0) {
        (SplitBy::Nodes, nodes)
    } else {
        (SplitBy::Stacks, weights(|part| part.stacks))
    };
    (!parts.is_empty()).then(|| (split_by, apportion(&weights)))
}

/// Splits [`WHOLE`] in proportion to weights, by largest remainder; of equal remainders the first counts as larger.
fn apportion(weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if total == 0 {
        return apportion(&vec![1; weights.len()]);
    }
    let exact = |weight: u64| u128::from(weight) * u128::from(WHOLE);
    let mut shares: Vec<u64> = weights.iter().map(|&w| (exact(w) / total) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(exact(weights[at]) % total), at));
    let left = WHOLE - shares.iter().sum::<u64>();
    for &at in order.iter().take(left as usize) {
        shares[at] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn apportion_is_whole_and_off_by_less_than_one(
            weights in proptest::collection::vec(any::<u64>(), 1..20),
        ) {
            let shares = apportion(&weights);
            prop_assert_eq!(shares.iter().sum::<u64>(), WHOLE);
            let total: f64 = weights.iter().map(|&weight| weight as f64).sum();
            for (&weight, &share) in weights.iter().zip(&shares).filter(|_| total > 0.0) {
                prop_assert!((weight as f64 / total * 1e6 - share as f64).abs() < 1.001);
            }
        }
    }

    #[test]
    fn apportion_without_weights_is_even() {
        assert_eq!(apportion(&[0, 0, 0]), [333_334, 333_333, 333_333]);
        assert_eq!(apportion(&[1, 1]), [500_000, 500_000]);
    }

    #[test]
    fn kernel_of_call_strips_numbers_only() {
        assert_eq!(kernel_of_call("cpp_fused_sum_1:5"), "cpp_fused_sum_1");
        assert_eq!(kernel_of_call("torch.ops.a::b"), "torch.ops.a::b");
    }
}
