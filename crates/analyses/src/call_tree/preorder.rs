//! All calls of a rank in preorder: the calls below a call follow it directly.

use rustc_hash::FxHashMap;

use super::nesting::{TreeEvent, parent_positions, sort_and_index};

/// The table that a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    Operator,
    RuntimeCall,
    Annotation,
    PythonFrame,
}

impl CallKind {
    /// Values of the column `kind`, in the order of the variants.
    pub(crate) const NAMES: [&str; 4] = ["operator", "runtime_call", "annotation", "python_frame"];
}

/// One host event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) id: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) thread: i64,
    pub(crate) ts_ns: i64,
    pub(crate) dur_ns: i64,
    pub(crate) self_dur_ns: i64,
    pub(crate) name: u32,
    pub(crate) kind: CallKind,
}

impl TreeEvent for HostCall {
    fn id(&self) -> i64 {
        self.id
    }

    fn parent(&self) -> Option<i64> {
        self.parent
    }

    fn ts_ns(&self) -> i64 {
        self.ts_ns
    }

    fn end_ns(&self) -> i64 {
        self.ts_ns.saturating_add(self.dur_ns)
    }
}

/// One kernel, copy or fill that a call launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchedActivity {
    pub(crate) launch: i64,
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) dur_ns: i64,
    pub(crate) name: u32,
}

/// The calls of one rank.
#[derive(Debug, Default)]
pub(crate) struct PreorderTree {
    /// In preorder.
    pub(crate) calls: Vec<HostCall>,
    /// Position of the parent.
    pub(crate) parents: Vec<Option<u32>>,
    pub(crate) depths: Vec<i32>,
    /// Position after the last call below.
    pub(crate) ends: Vec<u32>,
    /// Position of the call that launched each activity.
    pub(crate) launches: Vec<Option<u32>>,
}

/// The meaning of a name for the link from backward to forward threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NameMark {
    #[default]
    None,
    /// `ProfilerStep#`: the thread is the main one.
    Step,
    /// `## backward ##`.
    Backward,
    /// Contains `autograd::`.
    Autograd,
}

impl NameMark {
    pub(crate) fn of(name: &str) -> Self {
        if name.starts_with("ProfilerStep#") {
            Self::Step
        } else if name.starts_with("## backward ##") {
            Self::Backward
        } else if name.contains("autograd::") {
            Self::Autograd
        } else {
            Self::None
        }
    }
}

impl PreorderTree {
    /// Builds the tree. Calls whose parent is not among them are at the top. `marks` are by name.
    pub(crate) fn new(
        mut calls: Vec<HostCall>,
        work: &[LaunchedActivity],
        marks: &[NameMark],
    ) -> Self {
        let rows = sort_and_index(&mut calls);
        let mut parents = parent_positions(&calls, &rows);
        attach_backward_threads(&calls, &mut parents, marks);

        // The children of each call, and the calls at the top, as linked lists in order of time.
        let mut first: Vec<Option<u32>> = vec![None; calls.len()];
        let mut next: Vec<Option<u32>> = vec![None; calls.len()];
        let mut first_root = None;
        for row in (0..calls.len()).rev() {
            let head = parents[row].map_or(&mut first_root, |parent| &mut first[parent as usize]);
            next[row] = head.replace(row as u32);
        }

        let mut tree = Self {
            calls: Vec::with_capacity(calls.len()),
            parents: Vec::with_capacity(calls.len()),
            depths: Vec::with_capacity(calls.len()),
            ends: Vec::with_capacity(calls.len()),
            launches: Vec::new(),
        };
        let mut positions: Vec<Option<u32>> = vec![None; calls.len()];
        let mut open: Vec<u32> = Vec::new();
        let mut at = first_root;
        loop {
            if let Some(row) = at {
                let position = tree.calls.len() as u32;
                positions[row as usize] = Some(position);
                tree.calls.push(calls[row as usize]);
                tree.parents.push(open.last().and_then(|&parent| positions[parent as usize]));
                tree.depths.push(open.len() as i32);
                tree.ends.push(position + 1);
                open.push(row);
                at = first[row as usize];
            } else if let Some(row) = open.pop() {
                if let Some(position) = positions[row as usize] {
                    tree.ends[position as usize] = tree.calls.len() as u32;
                }
                at = next[row as usize];
            } else {
                break;
            }
        }
        let position = |id: i64| positions[rows.get(id)? as usize];
        tree.launches = work.iter().map(|work| position(work.launch)).collect();
        tree
    }
}

/// As in HTA: if exactly one thread has the steps and exactly one other thread the autograd engine, calls at the top
/// of the latter go below the backward annotation of the former that encloses them, else below the step.
fn attach_backward_threads(calls: &[HostCall], parents: &mut [Option<u32>], marks: &[NameMark]) {
    let mark = |call: &HostCall| marks.get(call.name as usize).copied().unwrap_or_default();
    let mut threads: FxHashMap<i64, NameMark> = FxHashMap::default();
    for call in calls {
        let thread = threads.entry(call.thread).or_default();
        match mark(call) {
            NameMark::Step => *thread = NameMark::Step,
            NameMark::Autograd if *thread != NameMark::Step => *thread = NameMark::Autograd,
            _ => {}
        }
    }
    let only = |wanted| {
        let mut found = threads.iter().filter(|&(_, &mark)| mark == wanted).map(|(&t, _)| t);
        found.next().filter(|_| found.next().is_none())
    };
    let (Some(main), Some(backward)) = (only(NameMark::Step), only(NameMark::Autograd)) else {
        return;
    };
    let marked = |wanted| -> Vec<u32> {
        let on_main = |call: &HostCall| call.thread == main && mark(call) == wanted;
        (0..).zip(calls).filter(|(_, call)| on_main(call)).map(|(row, _)| row).collect()
    };
    let mut around = marked(NameMark::Backward);
    if around.is_empty() {
        around = marked(NameMark::Step);
    }
    for row in 0..calls.len() {
        let call = &calls[row];
        if call.thread == backward && parents[row].is_none() {
            let mark = |row: u32| &calls[row as usize];
            let begun = around.partition_point(|&row| mark(row).ts_ns <= call.ts_ns);
            let latest = begun.checked_sub(1).map(|i| around[i]);
            parents[row] = latest.filter(|&row| call.end_ns() <= mark(row).end_ns());
        }
    }
}
