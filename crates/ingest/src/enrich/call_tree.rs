//! Nesting of everything a host thread did: parent, depth, self time, and what surrounds a launch or
//! an allocation.

use std::cmp::Ordering;
use std::num::NonZero;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::column::NULL_I64;
use trace_model::vocabulary::MODULE_PREFIX;

use super::forward;
use super::source::{Frames, Line, Lines};
use crate::timeline::columns::Columns;

/// Unit to which times are rounded when written, in nanoseconds, so that a child may seem to outlast its parent by it:
/// a microsecond where no event starts between two.
fn rounding_ns(columns: &Columns) -> i64 {
    let is_whole = |times: &[i64]| times.iter().all(|ts_ns| ts_ns % 1_000 == 0);
    let is_rounded = is_whole(&columns.cpu_ops.ts_ns.0)
        && is_whole(&columns.annotations.ts_ns.0)
        && is_whole(&columns.python_frames.ts_ns.0)
        && is_whole(&columns.runtime_calls.ts_ns.0);
    if is_rounded { 1_000 } else { 1 }
}

/// The innermost event of each kind around a time on a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchContext {
    pub(crate) op: i64,
    pub(crate) op_name: StrId,
    /// The operator around that one.
    pub(crate) outer_op_name: StrId,
    pub(crate) annotation: StrId,
    pub(crate) module: StrId,
    pub(crate) python_frame: StrId,
    /// Line of the program.
    pub(crate) source: StrId,
}

impl LaunchContext {
    pub(crate) const NONE: Self = Self {
        op: NULL_I64,
        op_name: StrId::NULL,
        outer_op_name: StrId::NULL,
        annotation: StrId::NULL,
        module: StrId::NULL,
        python_frame: StrId::NULL,
        source: StrId::NULL,
    };
}

/// The table a node of the tree lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    CpuOp,
    RuntimeCall,
    Annotation,
    PythonFrame,
}

/// One host event. `row` is its row in `table`, which has what else is to know.
#[derive(Debug, Clone, Copy)]
struct Node {
    ts_ns: i64,
    end_ns: i64,
    row: u32,
    table: Table,
}

impl Node {
    fn event_id(&self, columns: &Columns) -> i64 {
        let row = self.row as usize;
        match self.table {
            Table::CpuOp => columns.cpu_ops.event_id.get(row),
            Table::RuntimeCall => columns.runtime_calls.event_id.get(row),
            Table::Annotation => columns.annotations.event_id.get(row),
            Table::PythonFrame => columns.python_frames.event_id.get(row),
        }
    }

    fn name(&self, columns: &Columns) -> StrId {
        let row = self.row as usize;
        match self.table {
            Table::CpuOp => columns.cpu_ops.name.get(row),
            Table::RuntimeCall => columns.runtime_calls.name.get(row),
            Table::Annotation => columns.annotations.name.get(row),
            Table::PythonFrame => columns.python_frames.name.get(row),
        }
    }

    /// Text that contains its source line: the name of a frame, or a call stack.
    fn stack(&self, columns: &Columns) -> StrId {
        let row = self.row as usize;
        match self.table {
            Table::CpuOp => columns.cpu_ops.call_stack.get(row),
            Table::RuntimeCall => StrId::NULL,
            Table::Annotation => columns.annotations.call_stack.get(row),
            Table::PythonFrame => columns.python_frames.name.get(row),
        }
    }

    /// Outer before inner; among equals the one written first is the outer one.
    fn compare(&self, other: &Self, columns: &Columns) -> Ordering {
        let by_time = self.ts_ns.cmp(&other.ts_ns).then(other.end_ns.cmp(&self.end_ns));
        by_time.then_with(|| self.event_id(columns).cmp(&other.event_id(columns)))
    }
}

/// Derived columns of one node.
struct Placed {
    self_dur_ns: i64,
    /// Its parent among those of its thread.
    parent: Option<NonZero<u32>>,
    depth: i32,
    /// Line of the program that this is, or is called from.
    source: StrId,
    /// It is a frame of the user's own code.
    is_users: bool,
}

impl Placed {
    /// Its parent, by position.
    fn parent_at(&self) -> Option<usize> {
        self.parent.map(|number| number.get() as usize - 1)
    }
}

/// A moment at which something happened. `row` is its row in its table.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ts_ns: i64,
    event_id: i64,
    row: u32,
}

/// The events of one thread.
#[derive(Debug, Default)]
struct Lane {
    nodes: Vec<Node>,
    allocations: Vec<Moment>,
}

/// Derived columns of one thread: of each node, and the events around allocations and calls, by row.
struct Tree {
    nodes: Vec<Node>,
    placed: Vec<Placed>,
    allocations: Vec<(u32, LaunchContext)>,
    calls: Vec<(u32, LaunchContext)>,
    /// Frames that never returned, with the duration that they get instead.
    unreturned: Vec<(u32, i64)>,
}

struct Open {
    end_ns: i64,
    is_frame: bool,
    /// End of its children so far.
    covered_ns: i64,
    /// End of the operator in `inside`, which rounding may put before the end of this event.
    op_end_ns: i64,
    placed: usize,
    inside: LaunchContext,
    frames: Frames,
}

/// Fills `parent`, `depth` and `self_dur_ns` of all host tables, `source`, `op` of
/// runtime calls, `forward_op` of operators, and what surrounds each memory event. The result holds what
/// surrounds each runtime call, by row.
pub(crate) fn build(columns: &mut Columns) -> Vec<LaunchContext> {
    let modules: Vec<bool> =
        columns.strings.iter().map(|(_, text)| text.starts_with(MODULE_PREFIX)).collect();
    let lines = Lines::read(columns);
    let (lanes, columns_read, rounding_ns) = (lanes(columns), &*columns, rounding_ns(columns));
    let mut trees: Vec<Tree> = lanes
        .into_par_iter()
        .map(|Lane { mut nodes, mut allocations }| {
            nodes.sort_by(|a, b| a.compare(b, columns_read));
            allocations.sort_unstable_by_key(|m| (m.ts_ns, m.event_id));
            place(columns_read, nodes, &allocations, &modules, &lines, rounding_ns)
        })
        .collect();
    let forward = forward::link(columns);
    if columns.has_stacks && !forward.is_empty() {
        let sources = sources_of_ops(columns.cpu_ops.len(), &trees);
        let of_row = |row: u32| {
            let forward = forward[row as usize]?;
            Some(sources[forward as usize]).filter(|source| !source.is_null())
        };
        let names = &columns.cpu_ops.name;
        let accumulates: Vec<bool> =
            columns.strings.iter().map(|(_, text)| text.ends_with("AccumulateGrad")).collect();
        let accumulates =
            |row: u32| accumulates.get(names.get(row as usize).index()).copied().unwrap_or(false);
        trees.par_iter_mut().for_each(|tree| {
            from_forward(tree, of_row, accumulates);
        });
    }

    let mut surroundings = vec![LaunchContext::NONE; columns.runtime_calls.len()];
    let memory = &mut columns.memory_events;
    for &(row, around) in trees.iter().flat_map(|tree| &tree.allocations) {
        let row = row as usize;
        memory.op.set(row, around.op);
        memory.op_name.set(row, around.op_name);
        memory.outer_op_name.set(row, around.outer_op_name);
        memory.annotation.set(row, around.annotation);
        memory.module.set(row, around.module);
    }
    macro_rules! pad {
        ($($table:ident),+) => { $(
            let rows = columns.$table.len();
            columns.$table.parent.pad(rows);
            if columns.has_stacks {
                columns.$table.source.pad(rows);
            }
        )+ };
    }
    pad!(cpu_ops, annotations, python_frames, runtime_calls);
    for Tree { nodes, placed, calls, unreturned, .. } in trees {
        for (row, dur_ns) in unreturned {
            columns.python_frames.dur_ns.set(row as usize, dur_ns);
        }
        for (node, placed) in nodes.iter().zip(&placed) {
            let row = node.row as usize;
            let parent = placed.parent_at().map_or(NULL_I64, |at| nodes[at].event_id(columns));
            macro_rules! fill {
                ($table:ident) => {{
                    let table = &mut columns.$table;
                    table.parent.set(row, parent);
                    table.depth.set(row, placed.depth);
                    table.self_dur_ns.set(row, placed.self_dur_ns);
                    table.source.set(row, placed.source);
                }};
            }
            match node.table {
                Table::CpuOp => fill!(cpu_ops),
                Table::Annotation => fill!(annotations),
                Table::PythonFrame => fill!(python_frames),
                Table::RuntimeCall => fill!(runtime_calls),
            }
        }
        for (row, around) in calls {
            let source = columns.runtime_calls.source.get(row as usize);
            surroundings[row as usize] = LaunchContext { source, ..around };
        }
    }
    by_external_id(columns, &mut surroundings);
    let calls = &mut columns.runtime_calls;
    calls.op.0 = surroundings.iter().map(|around| around.op).collect();
    for (row, around) in surroundings.iter().enumerate() {
        calls.source.set(row, around.source);
    }
    surroundings
}

/// The source of each operator, by row.
fn sources_of_ops(rows: usize, trees: &[Tree]) -> Vec<StrId> {
    let mut sources = vec![StrId::NULL; rows];
    for (node, placed) in trees.iter().flat_map(|tree| tree.nodes.iter().zip(&tree.placed)) {
        if node.table == Table::CpuOp {
            sources[node.row as usize] = placed.source;
        }
    }
    sources
}

/// Backward operators, and what they call, get the source of their forward operator: where autograd works
/// off its graph says nothing. What the user wrote for backward (hooks, functions) is nearer than that.
/// Work of autograd on a gradient belongs to the backward operator before.
fn from_forward(
    tree: &mut Tree,
    of_row: impl Fn(u32) -> Option<StrId>,
    accumulates: impl Fn(u32) -> bool,
) {
    let is_silent = tree.placed.iter().all(|placed| placed.source.is_null());
    let mut inherited: Vec<StrId> = Vec::with_capacity(tree.nodes.len());
    let mut before = StrId::NULL;
    for (node, placed) in tree.nodes.iter().zip(&mut tree.placed) {
        let is_op = node.table == Table::CpuOp;
        let own = is_op.then(|| of_row(node.row)).flatten();
        before = own.unwrap_or(before);
        let source = match (own, placed.parent_at()) {
            _ if placed.is_users => StrId::NULL,
            (Some(own), _) => own,
            (None, Some(parent)) => inherited[parent],
            (None, None) if is_op && (is_silent || accumulates(node.row)) => before,
            (None, None) => StrId::NULL,
        };
        inherited.push(source);
        if !source.is_null() {
            placed.source = source;
        }
    }
}

fn lanes(columns: &Columns) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    lanes.resize_with(columns.lanes.len(), Lane::default);
    // In as much memory as they need.
    let mut counts = vec![0_usize; lanes.len()];
    macro_rules! each {
        ($($table:ident, $kind:expr, $skip:expr;)+) => {
            $(for &thread in &columns.$table.thread.0 {
                counts[thread as usize] += 1;
            })+
            for (lane, &count) in lanes.iter_mut().zip(&counts) {
                lane.nodes.reserve_exact(count);
            }
            $(
                let t = &columns.$table;
                for (row, (&ts_ns, &dur_ns)) in t.ts_ns.0.iter().zip(&t.dur_ns.0).enumerate() {
                    if $skip(row) {
                        continue;
                    }
                    let (end_ns, row) = (ts_ns + dur_ns, row as u32);
                    let node = Node { ts_ns, end_ns, row, table: $kind };
                    lanes[t.thread.0[row as usize] as usize].nodes.push(node);
                }
            )+
        };
    }
    let ranges = &columns.annotations;
    each! {
        python_frames, Table::PythonFrame, |_| false;
        annotations, Table::Annotation, |row: usize| ranges.on_device.get(row);
        cpu_ops, Table::CpuOp, |_| false;
        runtime_calls, Table::RuntimeCall, |_| false;
    }
    let t = &columns.memory_events;
    for (row, (&ts_ns, &event_id)) in t.ts_ns.0.iter().zip(&t.event_id.0).enumerate() {
        let moment = Moment { ts_ns, event_id, row: row as u32 };
        lanes[t.thread.get(row) as usize].allocations.push(moment);
    }
    lanes
}

fn place(
    columns: &Columns,
    nodes: Vec<Node>,
    allocations: &[Moment],
    modules: &[bool],
    lines: &Lines,
    rounding_ns: i64,
) -> Tree {
    let mut placed: Vec<Placed> = Vec::with_capacity(nodes.len());
    let (mut calls, mut unreturned) = (Vec::new(), Vec::new());
    let frames = nodes.iter().filter(|node| node.table == Table::PythonFrame);
    let last_return_ns = frames.map(|frame| frame.end_ns).max();
    let mut around_allocations = Vec::with_capacity(allocations.len());
    let mut allocations = allocations.iter().peekable();
    let mut stack: Vec<Open> = Vec::new();
    for node in &nodes {
        while let Some(moment) = allocations.next_if(|moment| moment.ts_ns < node.ts_ns) {
            around_allocations.push((moment.row, at(&mut stack, moment.ts_ns)));
        }
        // An event without length belongs to what it touches; others only to what outlasts it.
        let empty = node.end_ns == node.ts_ns;
        while stack
            .last()
            .is_some_and(|top| top.end_ns < node.ts_ns || (top.end_ns == node.ts_ns && !empty))
        {
            stack.pop();
        }
        let mut end_ns = node.end_ns;
        if node.table == Table::PythonFrame {
            let limit_ns = unreturned_end(&stack, node, last_return_ns, rounding_ns);
            if let Some(limit_ns) = limit_ns.filter(|limit_ns| *limit_ns < end_ns) {
                end_ns = limit_ns;
                unreturned.push((node.row, end_ns - node.ts_ns));
            }
        }
        // An event that ends well before this one is not an ancestor, though it is still open.
        let ancestor = stack.iter().rposition(|open| open.end_ns + rounding_ns >= end_ns);
        let (parent, around, mut op_end_ns, mut frames) = match ancestor.map(|i| &mut stack[i]) {
            Some(open) => {
                // Siblings may overlap.
                let inside_ns = end_ns.min(open.end_ns) - node.ts_ns.max(open.covered_ns);
                placed[open.placed].self_dur_ns -= inside_ns.max(0);
                open.covered_ns = open.covered_ns.max(end_ns);
                let parent = NonZero::new(open.placed as u32 + 1);
                (parent, open.inside, open.op_end_ns, open.frames)
            }
            None => (None, LaunchContext::NONE, i64::MAX, Frames::NONE),
        };
        let line = lines.get(node.stack(columns));
        if let Some(line) = line {
            frames.enter(line);
        }
        let depth = ancestor.map_or(0, |i| i as i32 + 1);
        let mut inside = around;
        match node.table {
            Table::CpuOp => {
                inside.outer_op_name = around.op_name;
                inside.op = node.event_id(columns);
                inside.op_name = node.name(columns);
                op_end_ns = end_ns;
            }
            Table::Annotation => inside.annotation = node.name(columns),
            Table::PythonFrame => {
                let name = node.name(columns);
                if !name.is_null() && modules[name.index()] {
                    inside.module = name;
                } else {
                    inside.python_frame = name;
                }
            }
            Table::RuntimeCall => calls.push((node.row, around)),
        }
        stack.push(Open {
            end_ns,
            is_frame: node.table == Table::PythonFrame,
            covered_ns: node.ts_ns,
            op_end_ns,
            placed: placed.len(),
            inside,
            frames,
        });
        placed.push(Placed {
            parent,
            depth,
            self_dur_ns: end_ns - node.ts_ns,
            source: frames.source(),
            is_users: line.is_some_and(Line::is_users),
        });
    }
    for moment in allocations {
        around_allocations.push((moment.row, at(&mut stack, moment.ts_ns)));
    }
    Tree { nodes, placed, allocations: around_allocations, calls, unreturned }
}

/// The latest end of a Python frame that did not return, `None` if it did. The profiler misses some returns (of a
/// generator's `next` that raises), and closes what is still open when recording stops. Frames return in order, so
/// the frame ended no later than the frame or operator in which it began.
fn unreturned_end(
    stack: &[Open],
    frame: &Node,
    last_return_ns: Option<i64>,
    rounding_ns: i64,
) -> Option<i64> {
    let is_open = |end_ns: i64| end_ns > frame.ts_ns;
    let mut outer = stack.iter().rev().filter(|open| open.is_frame).map(|open| open.end_ns);
    let outer_end_ns = outer.find(|&end_ns| is_open(end_ns)).unwrap_or(i64::MAX);
    if frame.end_ns <= outer_end_ns.saturating_add(rounding_ns)
        && Some(frame.end_ns) != last_return_ns
    {
        return None;
    }
    let mut ops = stack.iter().rev().map(|open| open.op_end_ns);
    let op_end_ns = ops.find(|&end_ns| is_open(end_ns)).unwrap_or(i64::MAX);
    Some(outer_end_ns.min(op_end_ns))
}

/// The open events at a time. Events that ended by then are removed from the stack, as
/// the next event, which starts later, would.
fn at(stack: &mut Vec<Open>, ts_ns: i64) -> LaunchContext {
    while stack.last().is_some_and(|top| top.end_ns <= ts_ns) {
        stack.pop();
    }
    let Some(top) = stack.last() else { return LaunchContext::NONE };
    let mut around = top.inside;
    if top.op_end_ns <= ts_ns {
        let running = stack.iter().rev().find(|open| open.op_end_ns > ts_ns);
        let LaunchContext { op, op_name, outer_op_name, .. } =
            running.map_or(LaunchContext::NONE, |open| open.inside);
        around = LaunchContext { op, op_name, outer_op_name, ..around };
    }
    around
}

/// Rows of operators by process and external id; of operators that share both, the last. Operators without an id are left out.
pub(super) fn ops_by_external_id(columns: &Columns) -> FxHashMap<(StrId, i64), usize> {
    let ops = &columns.cpu_ops;
    let ids = ops.external_id.0.iter().enumerate().filter(|&(_, &id)| id > 0);
    ids.map(|(row, &id)| ((columns.process(ops.thread.get(row)), id), row)).collect()
}

/// Calls that no operator surrounds on their own thread: by external id, if that operator was open
/// at the time. (In torch 1.12 to 2.0 the external id of a launch is its correlation id and names an
/// operator at random: without the check, most links would be wrong.)
fn by_external_id(columns: &Columns, surroundings: &mut [LaunchContext]) {
    let missing = |row: usize, s: &LaunchContext| {
        s.op == NULL_I64 && columns.runtime_calls.external_id.get(row) > 0
    };
    if !surroundings.iter().enumerate().any(|(row, s)| missing(row, s)) {
        return;
    }
    let ops = &columns.cpu_ops;
    let by_id = ops_by_external_id(columns);
    for (row, around) in surroundings.iter_mut().enumerate() {
        if !missing(row, around) {
            continue;
        }
        let process = columns.process(columns.runtime_calls.thread.get(row));
        let id = columns.runtime_calls.external_id.get(row);
        let Some(&op) = by_id.get(&(process, id)) else { continue };
        let ts_ns = columns.runtime_calls.ts_ns.get(row);
        let op_ts_ns = ops.ts_ns.get(op);
        if (op_ts_ns..=op_ts_ns + ops.dur_ns.get(op)).contains(&ts_ns) {
            around.op = ops.event_id.get(op);
            around.op_name = ops.name.get(op);
            if around.source.is_null() {
                around.source = ops.source.get(op);
            }
        }
    }
}
