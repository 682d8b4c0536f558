//! Nesting of everything a host thread did: parent, depth, self time, and what surrounds a launch or
//! an allocation.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::column::NULL_I64;

use super::forward;
use super::source::{Frames, Line, Lines};
use crate::formats::kineto::columns::Columns;

/// Timestamps are rounded when written, so that a child may seem to outlast its parent a little.
const ROUNDING_NS: i64 = 1_000;

/// What surrounds a moment on a thread, innermost of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
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

impl Surroundings {
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

/// One host event. `row` is its row in `table`.
#[derive(Debug, Clone, Copy)]
struct Node {
    ts_ns: i64,
    end_ns: i64,
    event_id: i64,
    name: StrId,
    /// What says where in the program it is: the name of a frame, or a call stack.
    stack: StrId,
    row: u32,
    table: Table,
}

/// What the tree says of one node.
struct Placed {
    table: Table,
    row: u32,
    parent: i64,
    /// Its parent among those of its thread.
    parent_at: Option<u32>,
    depth: i32,
    self_dur_ns: i64,
    around: Surroundings,
    /// Line of the program that this is, or is called from.
    source: StrId,
    /// It is a frame of the user's own code.
    is_users: bool,
}

/// A moment at which something happened. `row` is its row in its table.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ts_ns: i64,
    event_id: i64,
    row: u32,
}

/// What happened on one thread.
#[derive(Debug, Default)]
struct Lane {
    nodes: Vec<Node>,
    allocations: Vec<Moment>,
}

/// What is known of one thread. Allocations by row.
struct Tree {
    nodes: Vec<Placed>,
    allocations: Vec<(u32, Surroundings)>,
}

struct Open {
    end_ns: i64,
    /// End of the operator in `inside`, which rounding may put before the end of this event.
    op_end_ns: i64,
    event_id: i64,
    placed: usize,
    inside: Surroundings,
    frames: Frames,
}

/// Fills `parent`, `depth` and `self_dur_ns` of all host tables, `source`, `op` of
/// runtime calls, `forward_op` of operators, and what surrounds each memory event. The result holds what
/// surrounds each runtime call, by row.
pub(crate) fn build(columns: &mut Columns) -> Vec<Surroundings> {
    let modules: Vec<bool> =
        columns.strings.iter().map(|(_, text)| text.starts_with("nn.Module: ")).collect();
    let lines = Lines::read(columns);
    let mut trees: Vec<Tree> = lanes(columns)
        .into_par_iter()
        .map(|Lane { mut nodes, mut allocations }| {
            // Outer before inner; among equals the one written first is the outer one.
            nodes.sort_by_key(|n| (n.ts_ns, std::cmp::Reverse(n.end_ns), n.event_id));
            allocations.sort_unstable_by_key(|m| (m.ts_ns, m.event_id));
            place(&nodes, &allocations, &modules, &lines)
        })
        .collect();
    let forward = forward::link(columns);
    if columns.has_stacks && !forward.is_empty() {
        let sources = sources_of_ops(columns.cpu_ops.len(), &trees);
        let of_row = |row: u32| {
            let forward = forward[row as usize]?;
            Some(sources[forward as usize]).filter(|source| !source.is_null())
        };
        let names = &columns.cpu_ops.name.0;
        let accumulates: Vec<bool> =
            columns.strings.iter().map(|(_, text)| text.ends_with("AccumulateGrad")).collect();
        let accumulates =
            |row: u32| accumulates.get(names[row as usize].index()).copied().unwrap_or(false);
        trees.par_iter_mut().for_each(|tree| {
            from_forward(&mut tree.nodes, of_row, accumulates);
        });
    }

    let mut surroundings = vec![Surroundings::NONE; columns.runtime_calls.len()];
    let memory = &mut columns.memory_events;
    for &(row, around) in trees.iter().flat_map(|tree| &tree.allocations) {
        let row = row as usize;
        memory.op.0[row] = around.op;
        memory.op_name.0[row] = around.op_name;
        memory.outer_op_name.0[row] = around.outer_op_name;
        memory.annotation.0[row] = around.annotation;
        memory.module.0[row] = around.module;
    }
    for placed in trees.into_iter().flat_map(|tree| tree.nodes) {
        let row = placed.row as usize;
        macro_rules! fill {
            ($table:expr) => {{
                $table.parent.0[row] = placed.parent;
                $table.depth.0[row] = placed.depth;
                $table.self_dur_ns.0[row] = placed.self_dur_ns;
            }};
        }
        match placed.table {
            Table::CpuOp => {
                fill!(columns.cpu_ops);
                columns.cpu_ops.source.0[row] = placed.source;
            }
            Table::Annotation => {
                fill!(columns.annotations);
                columns.annotations.source.0[row] = placed.source;
            }
            Table::PythonFrame => {
                fill!(columns.python_frames);
                columns.python_frames.source.0[row] = placed.source;
            }
            Table::RuntimeCall => {
                fill!(columns.runtime_calls);
                surroundings[row] = Surroundings { source: placed.source, ..placed.around };
            }
        }
    }
    by_external_id(columns, &mut surroundings);
    let calls = &mut columns.runtime_calls;
    for (row, around) in surroundings.iter().enumerate() {
        calls.op.0[row] = around.op;
        calls.source.0[row] = around.source;
    }
    surroundings
}

/// The source of each operator, by row.
fn sources_of_ops(rows: usize, trees: &[Tree]) -> Vec<StrId> {
    let mut sources = vec![StrId::NULL; rows];
    for placed in trees.iter().flat_map(|tree| &tree.nodes).filter(|p| p.table == Table::CpuOp) {
        sources[placed.row as usize] = placed.source;
    }
    sources
}

/// Backward operators, and what they call, get the source of their forward operator: where autograd works
/// off its graph says nothing. What the user wrote for backward (hooks, functions) is nearer than that.
/// What autograd does with a gradient once it has it belongs to the backward operator before.
fn from_forward(
    tree: &mut [Placed],
    of_row: impl Fn(u32) -> Option<StrId>,
    accumulates: impl Fn(u32) -> bool,
) {
    let is_silent = tree.iter().all(|placed| placed.source.is_null());
    let mut inherited: Vec<StrId> = Vec::with_capacity(tree.len());
    let mut before = StrId::NULL;
    for placed in tree {
        let is_op = placed.table == Table::CpuOp;
        let own = is_op.then(|| of_row(placed.row)).flatten();
        before = own.unwrap_or(before);
        let source = match (own, placed.parent_at) {
            _ if placed.is_users => StrId::NULL,
            (Some(own), _) => own,
            (None, Some(parent)) => inherited[parent as usize],
            (None, None) if is_op && (is_silent || accumulates(placed.row)) => before,
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
    macro_rules! gather {
        ($table:ident, $kind:expr, $skip:expr, $stack:expr) => {
            let t = &columns.$table;
            for row in 0..t.len() {
                if $skip(row) {
                    continue;
                }
                let ts_ns = t.ts_ns.0[row];
                lanes[t.thread.0[row] as usize].nodes.push(Node {
                    ts_ns,
                    end_ns: ts_ns + t.dur_ns.0[row],
                    event_id: t.event_id.0[row],
                    name: t.name.0[row],
                    stack: $stack(row),
                    row: row as u32,
                    table: $kind,
                });
            }
        };
    }
    let Columns { annotations: ranges, cpu_ops: ops, .. } = columns;
    let stack_of_range = |row: usize| ranges.call_stack.0[row];
    gather!(python_frames, Table::PythonFrame, |_| false, |row: usize| columns
        .python_frames
        .name
        .0[row]);
    gather!(annotations, Table::Annotation, |row: usize| ranges.on_device.0[row], stack_of_range);
    gather!(cpu_ops, Table::CpuOp, |_| false, |row: usize| ops.call_stack.0[row]);
    gather!(runtime_calls, Table::RuntimeCall, |_| false, |_| StrId::NULL);
    let t = &columns.memory_events;
    for (row, (&ts_ns, &event_id)) in t.ts_ns.0.iter().zip(&t.event_id.0).enumerate() {
        let moment = Moment { ts_ns, event_id, row: row as u32 };
        lanes[t.thread.0[row] as usize].allocations.push(moment);
    }
    lanes
}

fn place(nodes: &[Node], allocations: &[Moment], modules: &[bool], lines: &Lines) -> Tree {
    let mut placed: Vec<Placed> = Vec::with_capacity(nodes.len());
    let mut around_allocations = Vec::with_capacity(allocations.len());
    let mut allocations = allocations.iter().peekable();
    let mut stack: Vec<Open> = Vec::new();
    for node in nodes {
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
        // What ends well before this event does is no ancestor, though it is still open.
        let ancestor = stack.iter().rposition(|open| open.end_ns + ROUNDING_NS >= node.end_ns);
        let (parent, parent_at, around, mut op_end_ns, mut frames) =
            match ancestor.map(|i| &stack[i]) {
                Some(open) => {
                    let inside = node.end_ns.min(open.end_ns) - node.ts_ns;
                    placed[open.placed].self_dur_ns -= inside.max(0);
                    let parent_at = Some(open.placed as u32);
                    (open.event_id, parent_at, open.inside, open.op_end_ns, open.frames)
                }
                None => (NULL_I64, None, Surroundings::NONE, i64::MAX, Frames::NONE),
            };
        let line = lines.get(node.stack);
        if let Some(line) = line {
            frames.enter(line);
        }
        let depth = ancestor.map_or(0, |i| i as i32 + 1);
        let mut inside = around;
        match node.table {
            Table::CpuOp => {
                inside.outer_op_name = around.op_name;
                inside.op = node.event_id;
                inside.op_name = node.name;
                op_end_ns = node.end_ns;
            }
            Table::Annotation => inside.annotation = node.name,
            Table::PythonFrame => {
                if !node.name.is_null() && modules[node.name.index()] {
                    inside.module = node.name;
                } else {
                    inside.python_frame = node.name;
                }
            }
            Table::RuntimeCall => {}
        }
        stack.push(Open {
            end_ns: node.end_ns,
            op_end_ns,
            event_id: node.event_id,
            placed: placed.len(),
            inside,
            frames,
        });
        placed.push(Placed {
            table: node.table,
            row: node.row,
            parent,
            parent_at,
            depth,
            self_dur_ns: node.end_ns - node.ts_ns,
            around,
            source: frames.source(),
            is_users: line.is_some_and(Line::is_users),
        });
    }
    for moment in allocations {
        around_allocations.push((moment.row, at(&mut stack, moment.ts_ns)));
    }
    Tree { nodes: placed, allocations: around_allocations }
}

/// What surrounds a moment: what has begun and not ended. What ends by then is taken off the stack, as
/// the next event, which starts later, would.
fn at(stack: &mut Vec<Open>, ts_ns: i64) -> Surroundings {
    while stack.last().is_some_and(|top| top.end_ns <= ts_ns) {
        stack.pop();
    }
    let Some(top) = stack.last() else { return Surroundings::NONE };
    let mut around = top.inside;
    if top.op_end_ns <= ts_ns {
        let running = stack.iter().rev().find(|open| open.op_end_ns > ts_ns);
        let Surroundings { op, op_name, outer_op_name, .. } =
            running.map_or(Surroundings::NONE, |open| open.inside);
        around = Surroundings { op, op_name, outer_op_name, ..around };
    }
    around
}

/// Calls that no operator surrounds on their own thread: by external id, if that operator was open
/// at the time. (In torch 1.12 to 2.0 the external id of a launch is its correlation id and names an
/// operator at random: without the check, most links would be wrong.)
fn by_external_id(columns: &Columns, surroundings: &mut [Surroundings]) {
    let missing = |row: usize, s: &Surroundings| {
        s.op == NULL_I64 && columns.runtime_calls.external_id.0[row] > 0
    };
    if !surroundings.iter().enumerate().any(|(row, s)| missing(row, s)) {
        return;
    }
    let ops = &columns.cpu_ops;
    let by_id: FxHashMap<i64, usize> =
        ops.external_id.0.iter().enumerate().map(|(row, &id)| (id, row)).collect();
    for (row, around) in surroundings.iter_mut().enumerate() {
        if !missing(row, around) {
            continue;
        }
        let Some(&op) = by_id.get(&columns.runtime_calls.external_id.0[row]) else { continue };
        let ts_ns = columns.runtime_calls.ts_ns.0[row];
        let op_ts_ns = ops.ts_ns.0[op];
        if (op_ts_ns..=op_ts_ns + ops.dur_ns.0[op]).contains(&ts_ns) {
            around.op = ops.event_id.0[op];
            around.op_name = ops.name.0[op];
            if around.source.is_null() {
                around.source = ops.source.0[op];
            }
        }
    }
}
