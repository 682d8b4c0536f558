//! A forest of calls in preorder: what is below a call follows it directly.

use rustc_hash::FxHashMap;

use crate::id_index::IdIndex;

/// Which table a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Operator,
    RuntimeCall,
    Annotation,
    PythonFrame,
}

impl Kind {
    /// What rows say, in the order of the kinds.
    pub(super) const NAMES: [&str; 4] = ["operator", "runtime_call", "annotation", "python_frame"];
}

/// One host event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) id: i64,
    pub(super) parent: Option<i64>,
    pub(super) thread: i64,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) self_dur_ns: i64,
    pub(super) name: u32,
    pub(super) kind: Kind,
}

impl Call {
    fn end_ns(&self) -> i64 {
        self.ts_ns.saturating_add(self.dur_ns)
    }
}

/// One kernel, copy or fill that a call launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) launch: i64,
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) name: u32,
}

/// The calls of one rank.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// In preorder.
    pub(super) calls: Vec<Call>,
    /// Position of the parent.
    pub(super) parents: Vec<Option<u32>>,
    pub(super) depths: Vec<i32>,
    /// Position behind the last call below.
    pub(super) ends: Vec<u32>,
    /// Position of the call that launched each piece of work.
    pub(super) launches: Vec<Option<u32>>,
}

/// What names mean for the link from backward to forward threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    None,
    /// `ProfilerStep#`: the thread is the main one.
    Step,
    /// `## backward ##`.
    Backward,
    /// Contains `autograd::`.
    Autograd,
}

impl Mark {
    pub(super) fn of(name: &str) -> Self {
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

impl Tree {
    /// Calls whose parent is not among them are at the top. `marks` are by name.
    pub(super) fn new(mut calls: Vec<Call>, work: &[Work], marks: &[Mark]) -> Self {
        calls.sort_unstable_by_key(|c| (c.ts_ns, std::cmp::Reverse(c.dur_ns), c.id));
        let rows = IdIndex::of_each(calls.iter().map(|call| call.id));
        let mut parents: Vec<Option<u32>> =
            calls.iter().map(|call| rows.get(call.parent?)).collect();
        adopt(&calls, &mut parents, marks);

        // Children of a call, or of none, in order: the first one, then each one's next.
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

/// As in HTA: if one thread has the steps and one other the autograd engine, what is at the top of the
/// latter is below the backward annotation of the former that encloses it, else below the step.
fn adopt(calls: &[Call], parents: &mut [Option<u32>], marks: &[Mark]) {
    let mark = |call: &Call| marks.get(call.name as usize).copied().unwrap_or_default();
    let mut threads: FxHashMap<i64, Mark> = FxHashMap::default();
    for call in calls {
        let thread = threads.entry(call.thread).or_default();
        match mark(call) {
            Mark::Step => *thread = Mark::Step,
            Mark::Autograd if *thread != Mark::Step => *thread = Mark::Autograd,
            _ => {}
        }
    }
    let only = |wanted| {
        let mut found = threads.iter().filter(|&(_, &mark)| mark == wanted).map(|(&t, _)| t);
        found.next().filter(|_| found.next().is_none())
    };
    let (Some(main), Some(backward)) = (only(Mark::Step), only(Mark::Autograd)) else { return };
    let marked = |wanted| -> Vec<u32> {
        let on_main = |call: &Call| call.thread == main && mark(call) == wanted;
        (0..).zip(calls).filter(|(_, call)| on_main(call)).map(|(row, _)| row).collect()
    };
    let mut around = marked(Mark::Backward);
    if around.is_empty() {
        around = marked(Mark::Step);
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
