//! CUDA and HIP graphs: finds what streams captured, and links the kernels of each replay with it.
//!
//! A captured launch is a call that launches work while its stream captures, and causes no device activity. A replay is the
//! activity of one graph launch. The two have no id in common: they are matched by the names and the order of their nodes.

use std::cell::RefCell;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use trace_model::StrId;
use trace_model::column::NULL_I64;
use trace_model::tables::{CapturedOp, GraphMatch, GraphMatches, GraphNode};
use trace_model::vocabulary::MODULE_PREFIX;

use super::call_tree::LaunchContext;
use crate::timeline::columns::Columns;
use crate::timeline::trace::Trace;

/// A capture with fewer names in common than this share of the larger side does not match.
const MIN_COMMON_RATIO: f64 = 0.5;

/// The role of a runtime call in captures and replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GraphCall {
    BeginCapture,
    EndCapture,
    LaunchGraph,
    Launch(NodeKind),
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum NodeKind {
    Kernel,
    Copy,
    Fill,
}

impl GraphCall {
    fn of_name(name: &str) -> Self {
        if name.contains("StreamBeginCapture") {
            Self::BeginCapture
        } else if name.contains("StreamEndCapture") {
            Self::EndCapture
        } else if name.contains("GraphLaunch") {
            Self::LaunchGraph
        } else if name.contains("LaunchKernel") || name.contains("LaunchCooperativeKernel") {
            Self::Launch(NodeKind::Kernel)
        } else if name.contains("Memcpy") {
            Self::Launch(NodeKind::Copy)
        } else if name.contains("Memset") {
            Self::Launch(NodeKind::Fill)
        } else {
            Self::Other
        }
    }
}

impl NodeKind {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Fill => "fill",
        }
    }
}

/// The role of each name of a runtime call.
struct GraphCalls(Vec<GraphCall>);

impl GraphCalls {
    /// Judges each name once; `None` if no call ends a capture or launches a graph.
    fn find(columns: &Columns) -> Option<Self> {
        let mut roles = vec![None; columns.strings.len()];
        let mut has_graphs = false;
        for &name in columns.runtime_calls.name.0.iter().filter(|name| !name.is_null()) {
            let role = *roles[name.index()]
                .get_or_insert_with(|| GraphCall::of_name(columns.strings.get(name)));
            has_graphs |= matches!(role, GraphCall::EndCapture | GraphCall::LaunchGraph);
        }
        let roles = roles.into_iter().map(|role| role.unwrap_or(GraphCall::Other));
        has_graphs.then(|| Self(roles.collect()))
    }

    fn get(&self, name: StrId) -> GraphCall {
        if name.is_null() { GraphCall::Other } else { self.0[name.index()] }
    }
}

/// Finds the captures of this trace, and links its replays with them.
pub(crate) fn link(columns: &mut Columns, around: &[LaunchContext], file: &str) {
    let Some(roles) = GraphCalls::find(columns) else { return };
    find_captures(columns, &roles, around, file);
    link_replays(columns, &roles);
}

/// How a trace uses graphs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GraphUse {
    pub(crate) has_captures: bool,
    pub(crate) has_launches: bool,
}

impl GraphUse {
    /// The trace must be enriched.
    pub(crate) fn of(columns: &Columns) -> Self {
        let is_launch = |roles: &GraphCalls| {
            let names = &columns.runtime_calls.name.0;
            names.iter().any(|&name| roles.get(name) == GraphCall::LaunchGraph)
        };
        Self {
            has_captures: !columns.graph_nodes.is_empty(),
            has_launches: GraphCalls::find(columns).is_some_and(|roles| is_launch(&roles)),
        }
    }
}

/// The times between begin and end of one capture.
struct CaptureWindow {
    thread: i32,
    start_ns: i64,
    end_ns: i64,
    name: StrId,
    /// Runtime calls that were captured, by row, in order of time.
    calls: Vec<(usize, NodeKind)>,
}

/// Fills `graph_nodes` and `captured_ops` with the captures of this trace.
fn find_captures(columns: &mut Columns, roles: &GraphCalls, around: &[LaunchContext], file: &str) {
    let mut windows = capture_windows(columns, roles, around);
    if windows.is_empty() {
        return;
    }
    collect_calls(columns, roles, &mut windows);
    windows.retain(|window| !window.calls.is_empty());
    let file = columns.strings.intern(file);
    let kinds = [NodeKind::Kernel, NodeKind::Copy, NodeKind::Fill]
        .map(|kind| columns.strings.intern(kind.name()));
    let mut op_numbers: FxHashMap<i64, i64> = FxHashMap::default();
    for (capture, window) in windows.iter().enumerate() {
        add_ops(columns, capture as i64, window, &mut op_numbers);
    }
    for (capture, window) in windows.iter().enumerate() {
        for (order, &(row, kind)) in window.calls.iter().enumerate() {
            let details = LaunchDetails::parse(columns.runtime_calls.args.get(row));
            let mut intern = |text: String| {
                if text.is_empty() { StrId::NULL } else { columns.strings.intern(&text) }
            };
            let (name, grid, block) =
                (intern(details.kernel), intern(details.grid.text()), intern(details.block.text()));
            let context = &around[row];
            columns.graph_nodes.push_sparse(GraphNode {
                rank: 0,
                node_id: columns.graph_nodes.len() as i64,
                capture: capture as i64,
                capture_name: window.name,
                file,
                node_order: order as i64,
                kind: kinds[kind as usize],
                name: if kind == NodeKind::Kernel { name } else { StrId::NULL },
                grid,
                block,
                launch_name: columns.runtime_calls.name.get(row),
                op: op_numbers.get(&context.op).copied().unwrap_or(NULL_I64),
                op_name: context.op_name,
                module: context.module,
                python_frame: context.python_frame,
                source: context.source,
            });
        }
    }
}

/// Pairs begins and ends of captures on each thread. A capture that the recording cuts off is left out.
fn capture_windows(
    columns: &Columns,
    roles: &GraphCalls,
    around: &[LaunchContext],
) -> Vec<CaptureWindow> {
    let calls = &columns.runtime_calls;
    let role = |row: usize| roles.get(calls.name.get(row));
    let is_bound =
        |row: &usize| matches!(role(*row), GraphCall::BeginCapture | GraphCall::EndCapture);
    let mut bounds: Vec<usize> = (0..calls.len()).filter(is_bound).collect();
    bounds.sort_by_key(|&row| (calls.ts_ns.get(row), calls.event_id.get(row)));
    let mut open: FxHashMap<i32, usize> = FxHashMap::default();
    let mut windows = Vec::new();
    for row in bounds {
        let thread = calls.thread.get(row);
        if role(row) == GraphCall::BeginCapture {
            open.insert(thread, row);
        } else if let Some(begin) = open.remove(&thread) {
            windows.push(CaptureWindow {
                thread,
                start_ns: calls.ts_ns.get(begin),
                end_ns: calls.ts_ns.get(row),
                name: around[begin].annotation,
                calls: Vec::new(),
            });
        }
    }
    windows.sort_by_key(|window| (window.start_ns, window.end_ns, window.thread));
    windows
}

/// Adds captured calls to their windows: that of their own thread, else the one open at that time, since other threads
/// (autograd's) launch into the same capture.
fn collect_calls(columns: &Columns, roles: &GraphCalls, windows: &mut [CaptureWindow]) {
    let calls = &columns.runtime_calls;
    let mut launches: Vec<(i64, i64, usize, NodeKind)> = Vec::new();
    for row in 0..calls.len() {
        if let GraphCall::Launch(kind) = roles.get(calls.name.get(row))
            && calls.device_events.get(row) == 0
        {
            launches.push((calls.ts_ns.get(row), calls.event_id.get(row), row, kind));
        }
    }
    launches.sort_unstable_by_key(|&(ts_ns, event_id, ..)| (ts_ns, event_id));
    // Windows that are open at the time of the launch; few overlap.
    let mut open: Vec<usize> = Vec::new();
    let mut next = 0;
    for (ts_ns, _, row, kind) in launches {
        while next < windows.len() && windows[next].start_ns <= ts_ns {
            open.push(next);
            next += 1;
        }
        open.retain(|&at| windows[at].end_ns >= ts_ns);
        let thread = calls.thread.get(row);
        let own = open.iter().find(|&&at| windows[at].thread == thread).or(open.first());
        if let Some(&at) = own {
            windows[at].calls.push((row, kind));
        }
    }
}

/// Adds the operators of a capture: those that start within it on a thread that launches into it.
fn add_ops(
    columns: &mut Columns,
    capture: i64,
    window: &CaptureWindow,
    numbers: &mut FxHashMap<i64, i64>,
) {
    let calls = &columns.runtime_calls;
    let threads: FxHashSet<i32> =
        window.calls.iter().map(|&(row, _)| calls.thread.get(row)).collect();
    let ops = &columns.cpu_ops;
    let inside = |row: usize| {
        let ts_ns = ops.ts_ns.get(row);
        ts_ns >= window.start_ns && ts_ns <= window.end_ns && threads.contains(&ops.thread.get(row))
    };
    for row in (0..ops.len()).filter(|&row| inside(row)) {
        let op = -1 - columns.captured_ops.len() as i64;
        numbers.insert(ops.event_id.get(row), op);
        columns.captured_ops.push_sparse(CapturedOp {
            rank: 0,
            op,
            capture,
            name: ops.name.get(row),
            ts_ns: ops.ts_ns.get(row),
            dur_ns: ops.dur_ns.get(row),
            thread: -1 - ops.thread.get(row),
            sequence: ops.sequence.get(row),
            fwd_thread: ops.fwd_thread.get(row),
            input_dims: ops.input_dims.get(row),
            input_types: ops.input_types.get(row),
            args: ops.args.get(row).to_owned(),
        });
    }
}

/// Details of the kernel in the arguments of a launching call (HIP).
#[derive(Default, Deserialize)]
#[serde(default)]
struct LaunchDetails {
    kernel: String,
    grid: Extent,
    block: Extent,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Extent {
    Sizes(Vec<i64>),
    #[default]
    Unknown,
}

impl LaunchDetails {
    fn parse(args: &str) -> Self {
        serde_json::from_str(args).unwrap_or_default()
    }
}

impl Extent {
    /// As in `kernels.grid`: `[4, 1, 1]`.
    fn text(&self) -> String {
        match self {
            Self::Sizes(sizes) => format!("{sizes:?}"),
            Self::Unknown => String::new(),
        }
    }
}

/// Adds the captures of other traces of the same process, behind those that are there, and links the replays again.
pub(crate) fn add_captures(columns: &mut Columns, traces: Vec<Trace>) {
    for trace in traces {
        append_captures(columns, trace);
    }
    if let Some(roles) = GraphCalls::find(columns) {
        link_replays(columns, &roles);
    }
}

fn append_captures(columns: &mut Columns, captures: Trace) {
    let mut other = captures.columns;
    let mut remap = Vec::new();
    columns.strings.absorb(&other.strings, &mut remap);
    let (nodes, ops) = (columns.graph_nodes.len() as i64, columns.captured_ops.len() as i64);
    let first_capture = columns.graph_nodes.capture.0.iter().max().map_or(0, |last| last + 1);
    let first_thread = columns.captured_ops.thread.0.iter().min().copied().unwrap_or(0);
    other.graph_nodes.node_id.0.iter_mut().for_each(|id| *id += nodes);
    other.graph_nodes.capture.0.iter_mut().for_each(|capture| *capture += first_capture);
    other.graph_nodes.op.0.iter_mut().filter(|op| **op != NULL_I64).for_each(|op| *op -= ops);
    other.captured_ops.op.0.iter_mut().for_each(|op| *op -= ops);
    other.captured_ops.capture.0.iter_mut().for_each(|capture| *capture += first_capture);
    other.captured_ops.thread.0.iter_mut().for_each(|thread| *thread += first_thread);
    columns.graph_nodes.drain(&mut other.graph_nodes, &remap);
    columns.captured_ops.drain(&mut other.captured_ops, &remap);
}

/// Kind and, where it is known, name of a node.
type NodeKey = (NodeKind, StrId);

/// The nodes of a capture.
struct Capture {
    number: i64,
    nodes: Range<usize>,
    keys: Vec<NodeKey>,
    /// First number in its name: the batch size, in the names that servers give.
    size: Option<u64>,
    /// The launching calls state the names of kernels.
    is_named: bool,
}

/// The activity of one graph launch, in order.
struct Replay {
    launch: i64,
    activities: Vec<Activity>,
    /// First number in the annotation around the launch.
    size: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Activity {
    kind: NodeKind,
    row: usize,
    name: StrId,
    launch: i64,
    launch_ts_ns: i64,
    graph_node_id: i64,
    ts_ns: i64,
    annotation: StrId,
}

impl Activity {
    fn key(&self, is_named: bool) -> NodeKey {
        (self.kind, if is_named && self.kind == NodeKind::Kernel { self.name } else { StrId::NULL })
    }
}

/// A capture that fits a replay, and the node of each of its activities.
struct Fit {
    capture: usize,
    confidence: &'static str,
    nodes: Vec<Option<usize>>,
}

/// Fills `graph_matches`, and links the activity of each replay to the nodes of the capture that fits.
fn link_replays(columns: &mut Columns, roles: &GraphCalls) {
    columns.graph_matches = GraphMatches::default();
    let replays = replays(columns, roles);
    if replays.is_empty() {
        return;
    }
    let matcher = Matcher::new(columns);
    // The capture of the replay before: graphs of one program are launched in the order of their capture.
    let mut last = None;
    let fits: Vec<(i64, Option<Fit>)> = replays
        .iter()
        .map(|replay| {
            let fit = matcher.find(replay, last);
            last = fit.as_ref().map_or(last, |fit| Some(fit.capture));
            let capture = fit.as_ref().map_or(NULL_I64, |fit| matcher.captures[fit.capture].number);
            (capture, fit)
        })
        .collect();
    for (replay, (capture, fit)) in replays.iter().zip(fits) {
        let (confidence, nodes) =
            fit.map_or(("none", Vec::new()), |fit| (fit.confidence, fit.nodes));
        columns.graph_matches.push_sparse(GraphMatch {
            rank: 0,
            launch: replay.launch,
            capture,
            confidence: columns.strings.intern(confidence),
            activity_count: replay.activities.len() as i64,
            matched_count: nodes.iter().flatten().count() as i64,
        });
        for (activity, node) in replay.activities.iter().zip(nodes) {
            if let Some(node) = node {
                set_node(columns, activity, node);
            }
        }
    }
}

fn set_node(columns: &mut Columns, activity: &Activity, node: usize) {
    let nodes = &columns.graph_nodes;
    let (id, op_name, module) =
        (nodes.node_id.get(node), nodes.op_name.get(node), nodes.module.get(node));
    let (python_frame, source) = (nodes.python_frame.get(node), nodes.source.get(node));
    let row = activity.row;
    macro_rules! set {
        ($table:ident) => {{
            let t = &mut columns.$table;
            t.graph_node.set(row, id);
            t.op.set(row, NULL_I64);
            t.op_name.set(row, op_name);
            // Keep a module with which the program marked the node; replace a module around the launch.
            let known = columns.strings.get(t.module.get(row));
            if known.is_empty() || known.starts_with(MODULE_PREFIX) {
                t.module.set(row, module);
            }
            t.python_frame.set(row, python_frame);
            t.source.set(row, source);
        }};
    }
    match activity.kind {
        NodeKind::Kernel => set!(kernels),
        NodeKind::Copy => set!(memcpys),
        NodeKind::Fill => set!(memsets),
    }
}

/// The replays of a trace, in order of their launches.
fn replays(columns: &Columns, roles: &GraphCalls) -> Vec<Replay> {
    let is_graph = |launch: StrId| roles.get(launch) == GraphCall::LaunchGraph;
    let mut activities: Vec<Activity> = Vec::new();
    macro_rules! gather {
        ($table:ident, $kind:expr) => {
            let t = &columns.$table;
            for row in 0..t.len() {
                if is_graph(t.launch_name.get(row)) {
                    activities.push(Activity {
                        kind: $kind,
                        row,
                        name: t.name.get(row),
                        launch: t.launch.get(row),
                        launch_ts_ns: t.launch_ts_ns.get(row),
                        graph_node_id: t.graph_node_id.get(row),
                        ts_ns: t.ts_ns.get(row),
                        annotation: t.annotation.get(row),
                    });
                }
            }
        };
    }
    gather!(kernels, NodeKind::Kernel);
    gather!(memcpys, NodeKind::Copy);
    gather!(memsets, NodeKind::Fill);
    // Nodes are numbered in the order of capture. Without numbers, times tell, which mix the streams of a graph.
    activities.sort_by_key(|a| (a.launch_ts_ns, a.launch, a.graph_node_id, a.ts_ns, a.kind, a.row));
    activities
        .chunk_by(|a, b| a.launch == b.launch)
        .map(|activities| Replay {
            launch: activities[0].launch,
            activities: activities.to_vec(),
            size: first_number(columns, activities[0].annotation),
        })
        .collect()
}

/// The first number in a name: the batch size in `capture_32_FULL` and `execute_32_context_0`.
fn first_number(columns: &Columns, name: StrId) -> Option<u64> {
    if name.is_null() {
        return None;
    }
    let text = columns.strings.get(name);
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The captures of a trace, by what they hold.
struct Matcher<'a> {
    columns: &'a Columns,
    captures: Vec<Capture>,
    by_sequence: FxHashMap<Vec<NodeKey>, Vec<usize>>,
    /// By the same keys, sorted.
    by_content: FxHashMap<Vec<NodeKey>, Vec<usize>>,
    /// Captures that have most names in common with these keys: replays of one graph ask the same.
    partial: RefCell<FxHashMap<Vec<NodeKey>, Vec<usize>>>,
}

impl<'a> Matcher<'a> {
    fn new(columns: &'a Columns) -> Self {
        let nodes = &columns.graph_nodes;
        let kind = |id: StrId| match columns.strings.get(id) {
            "copy" => NodeKind::Copy,
            "fill" => NodeKind::Fill,
            _ => NodeKind::Kernel,
        };
        let rows: Vec<usize> = (0..nodes.len()).collect();
        let mut matcher = Self {
            columns,
            captures: Vec::new(),
            by_sequence: FxHashMap::default(),
            by_content: FxHashMap::default(),
            partial: RefCell::default(),
        };
        for rows in rows.chunk_by(|&a, &b| nodes.capture.get(a) == nodes.capture.get(b)) {
            let keys: Vec<NodeKey> =
                rows.iter().map(|&row| (kind(nodes.kind.get(row)), nodes.name.get(row))).collect();
            let at = matcher.captures.len();
            matcher.by_sequence.entry(keys.clone()).or_default().push(at);
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            matcher.by_content.entry(sorted).or_default().push(at);
            matcher.captures.push(Capture {
                number: nodes.capture.get(rows[0]),
                nodes: rows[0]..rows[rows.len() - 1] + 1,
                is_named: keys.iter().any(|(_, name)| !name.is_null()),
                keys,
                size: first_number(columns, nodes.capture_name.get(rows[0])),
            });
        }
        matcher
    }

    fn find(&self, replay: &Replay, last: Option<usize>) -> Option<Fit> {
        let keys = |is_named| -> Vec<NodeKey> {
            replay.activities.iter().map(|activity| activity.key(is_named)).collect()
        };
        let named = keys(true);
        if let Some(found) = self.by_sequence.get(&named) {
            // A replay without kernels has no names to compare.
            let has_kernel = named.iter().any(|(kind, _)| *kind == NodeKind::Kernel);
            let confidence = if has_kernel { "exact" } else { "order" };
            return Some(self.in_order(found, confidence, replay, last));
        }
        if let Some(found) = self.by_sequence.get(&keys(false)) {
            return Some(self.in_order(found, "order", replay, last));
        }
        let mut sorted = named.clone();
        sorted.sort_unstable();
        if let Some(found) = self.by_content.get(&sorted) {
            let (capture, is_certain) = self.choose(found, replay, last);
            let confidence = if is_certain { "reordered" } else { "ambiguous" };
            return Some(Fit { capture, confidence, nodes: self.by_name(capture, &named) });
        }
        let mut partial = self.partial.borrow_mut();
        let found = partial.entry(named).or_insert_with_key(|keys| self.most_common(keys));
        if found.is_empty() {
            return None;
        }
        let (capture, is_certain) = self.choose(found, replay, last);
        let confidence = if is_certain { "partial" } else { "ambiguous" };
        Some(Fit { capture, confidence, nodes: self.by_name(capture, &keys(true)) })
    }

    /// A fit in which both sides have the same order.
    fn in_order(
        &self,
        found: &[usize],
        confidence: &'static str,
        replay: &Replay,
        last: Option<usize>,
    ) -> Fit {
        let (capture, is_certain) = self.choose(found, replay, last);
        let confidence = if is_certain { confidence } else { "ambiguous" };
        Fit { capture, confidence, nodes: self.captures[capture].nodes.clone().map(Some).collect() }
    }

    /// Chooses among captures that fit equally: those of the size that the annotation around the launch states, of these
    /// the one that was captured next after that of the replay before. The choice is certain if all of these call the
    /// same operators with the same shapes.
    fn choose(&self, found: &[usize], replay: &Replay, last: Option<usize>) -> (usize, bool) {
        let has_size = |&&at: &&usize| self.captures[at].size == replay.size;
        let of_size: Vec<usize> = match replay.size {
            Some(_) => found.iter().filter(has_size).copied().collect(),
            None => Vec::new(),
        };
        let candidates = if of_size.is_empty() { found } else { &of_size };
        let next = candidates.iter().find(|&&at| last.is_some_and(|last| at > last));
        let chosen = *next.unwrap_or(&candidates[0]);
        let is_certain = candidates.iter().all(|&at| self.is_alike(at, chosen));
        (chosen, is_certain)
    }

    /// Returns whether two captures of the same nodes call the same operators with the same shapes.
    fn is_alike(&self, a: usize, b: usize) -> bool {
        let (nodes, ops) = (&self.columns.graph_nodes, &self.columns.captured_ops);
        let dims = |row: usize| match nodes.op.get(row) {
            NULL_I64 => StrId::NULL,
            op => ops.input_dims.get((-1 - op) as usize),
        };
        let signature = |row: usize| (nodes.op_name.get(row), dims(row), nodes.grid.get(row));
        let (a, b) = (self.captures[a].nodes.clone(), self.captures[b].nodes.clone());
        a.start == b.start || a.map(signature).eq(b.map(signature))
    }

    /// The n-th activity of a name gets the n-th node of that name.
    fn by_name(&self, capture: usize, keys: &[NodeKey]) -> Vec<Option<usize>> {
        let Capture { nodes, keys: captured, .. } = &self.captures[capture];
        let mut rows: FxHashMap<NodeKey, Vec<usize>> = FxHashMap::default();
        for (row, &key) in nodes.clone().zip(captured).rev() {
            rows.entry(key).or_default().push(row);
        }
        keys.iter().map(|key| rows.get_mut(key)?.pop()).collect()
    }

    /// The captures that have most names in common with these, if these are enough.
    fn most_common(&self, keys: &[NodeKey]) -> Vec<usize> {
        let mut counts: FxHashMap<NodeKey, usize> = FxHashMap::default();
        for &key in keys {
            *counts.entry(key).or_default() += 1;
        }
        let common = |capture: &Capture| {
            let mut left = counts.clone();
            let is_common = |key: &&NodeKey| match left.get_mut(key) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            };
            capture.keys.iter().filter(is_common).count()
        };
        let scores: Vec<usize> = self
            .captures
            .iter()
            .map(|capture| {
                let larger = capture.keys.len().max(keys.len());
                let smaller = capture.keys.len().min(keys.len());
                let needed = (MIN_COMMON_RATIO * larger as f64).ceil() as usize;
                let common =
                    if capture.is_named && smaller >= needed { common(capture) } else { 0 };
                if common >= needed { common } else { 0 }
            })
            .collect();
        let best = scores.iter().copied().max().unwrap_or(0);
        (0..scores.len()).filter(|&at| best > 0 && scores[at] == best).collect()
    }
}
