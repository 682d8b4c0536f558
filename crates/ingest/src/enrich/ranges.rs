//! Links kernels that the range profiler measured to the calls that launched them, and the operators around.
//!
//! Such kernels carry no correlation id, but they ran one at a time in the order of their launches:
//! the n-th kernel is that of the n-th launch, if the trace holds as many of one as of the other.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::{StrId, Strings};

use super::call_tree::LaunchContext;
use super::steps::Lookup;
use crate::timeline::columns::Columns;
use crate::timeline::trace::UnpairedRanges;

/// Functions that launch one kernel: those of the runtime, which are all that HTA counts, and those
/// of the driver, which Triton uses.
const RUNTIME: [&str; 1] = ["cudaLaunchKernel"];
const RUNTIME_AND_DRIVER: [&str; 4] = [
    "cudaLaunchKernel",
    "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
];

/// Fills `position` and, if kernels and launches can be paired, the columns that follow from the launch.
pub(crate) fn pair(
    columns: &mut Columns,
    around: &[LaunchContext],
    steps: &Lookup,
) -> Option<UnpairedRanges> {
    let t = &columns.profiler_ranges;
    if t.is_empty() {
        return None;
    }
    let mut ranges: Vec<usize> = (0..t.len()).collect();
    ranges.sort_by_key(|&row| (t.ts_ns.get(row), t.event_id.get(row)));
    for (position, &row) in ranges.iter().enumerate() {
        columns.profiler_ranges.position.set(row, position as i64);
    }
    let mut launches = launch_rows(columns, &RUNTIME);
    if launches.len() != ranges.len() {
        launches = launch_rows(columns, &RUNTIME_AND_DRIVER);
    }
    if launches.len() != ranges.len() {
        return Some(UnpairedRanges { ranges: ranges.len(), launches: launches.len() });
    }
    let mut stacks = Stacks::new(columns);
    let calls = &columns.runtime_calls;
    let t = &mut columns.profiler_ranges;
    for (&row, &call) in ranges.iter().zip(&launches) {
        let around = &around[call];
        let stack = stacks.of(around.op, &mut columns.strings);
        t.launch.set(row, calls.event_id.get(call));
        t.launch_ts_ns.set(row, calls.ts_ns.get(call));
        t.op.set(row, around.op);
        t.op_name.set(row, around.op_name);
        t.top_op_name.set(row, stack.top);
        t.op_stack.set(row, stack.json);
        t.annotation.set(row, around.annotation);
        t.module.set(row, around.module);
        t.python_frame.set(row, around.python_frame);
        t.step.set(row, steps.at(calls.ts_ns.get(call)));
    }
    None
}

/// Rows of the calls to functions whose name starts with one of `prefixes`, in order of time.
fn launch_rows(columns: &Columns, prefixes: &[&str]) -> Vec<usize> {
    let is_launch: Vec<bool> = columns
        .strings
        .iter()
        .map(|(_, text)| prefixes.iter().any(|prefix| text.starts_with(prefix)))
        .collect();
    let t = &columns.runtime_calls;
    let mut rows: Vec<usize> = (0..t.len())
        .filter(|&row| is_launch.get(t.name.get(row).index()).copied().unwrap_or(false))
        .collect();
    rows.sort_by_key(|&row| (t.ts_ns.get(row), t.event_id.get(row)));
    rows
}

/// The operators around an operator, itself included.
#[derive(Debug, Clone, Copy)]
struct Stack {
    /// Name of the outermost.
    top: StrId,
    /// All names, outermost first, JSON.
    json: StrId,
}

/// Operator stacks, each worked out once.
struct Stacks {
    /// Parent of each host event, and its name if it is an operator.
    events: FxHashMap<i64, (i64, Option<StrId>)>,
    known: FxHashMap<i64, Stack>,
}

impl Stacks {
    fn new(columns: &Columns) -> Self {
        let mut events = FxHashMap::default();
        macro_rules! gather {
            ($table:ident, $name:expr) => {
                let t = &columns.$table;
                for row in 0..t.len() {
                    events.insert(t.event_id.get(row), (t.parent.get(row), $name(t.name.get(row))));
                }
            };
        }
        gather!(cpu_ops, Some);
        gather!(annotations, |_| None);
        gather!(python_frames, |_| None);
        gather!(runtime_calls, |_| None);
        Self { events, known: FxHashMap::default() }
    }

    fn of(&mut self, op: i64, strings: &mut Strings) -> Stack {
        if op == NULL_I64 {
            return Stack { top: StrId::NULL, json: StrId::NULL };
        }
        if let Some(&stack) = self.known.get(&op) {
            return stack;
        }
        let mut names = Vec::new();
        let mut next = op;
        while let Some(&(parent, name)) = self.events.get(&next) {
            names.extend(name);
            next = parent;
        }
        names.reverse();
        let texts: Vec<&str> = names.iter().map(|&name| strings.get(name)).collect();
        let json = serde_json::Value::from(texts).to_string();
        let top = names.first().copied().unwrap_or(StrId::NULL);
        let stack = Stack { top, json: strings.intern(&json) };
        self.known.insert(op, stack);
        stack
    }
}
