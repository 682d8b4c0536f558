//! What host events and the work they launched amount to along their nesting.

use crate::id_index::IdIndex;

/// What an event is to the forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A node.
    Operator,
    /// A node: a call of a module.
    Module,
    /// A node that is neither: a step, the data loader, the optimizer, a collective.
    Range,
    /// A call into the device runtime: work of the node around it.
    Launch,
    /// A Python frame: what is inside belongs to the node around. So with other ranges.
    Frame,
    Other,
}

impl Kind {
    fn is_node(self) -> bool {
        matches!(self, Self::Operator | Self::Module | Self::Range)
    }
}

/// One host event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) id: i64,
    pub(super) parent: Option<i64>,
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) kind: Kind,
    /// Its row in the table it comes from.
    pub(super) row: u32,
}

/// One kernel, copy or fill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// The call that launched it.
    pub(super) launch: Option<i64>,
    /// The operator that launched it.
    pub(super) op: Option<i64>,
    pub(super) dur_ns: i64,
}

/// What one node amounts to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Its duration less that of the nodes and launches directly inside.
    pub(super) host_self_ns: i64,
    /// Work that it launched itself, how much and for how long.
    pub(super) launch_count: i64,
    pub(super) device_self_ns: i64,
    /// Work that it and the nodes inside it launched.
    pub(super) device_total_ns: i64,
}

/// The host events of one rank.
#[derive(Debug, Default)]
pub(super) struct Forest {
    /// Parents before children.
    pub(super) events: Vec<Event>,
    pub(super) parents: Vec<Option<u32>>,
    /// The nearest node around each event.
    pub(super) around: Vec<Option<u32>>,
    pub(super) sums: Vec<Sums>,
}

impl Forest {
    /// Events whose parent is not among them are at the top.
    pub(super) fn new(mut events: Vec<Event>, work: &[Work]) -> Self {
        // As in the call tree of the tables: parents start before their children, or end after them.
        events.sort_unstable_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.end_ns), e.id));
        let at = IdIndex::of_each(events.iter().map(|event| event.id));
        let mut forest = Self { parents: Vec::with_capacity(events.len()), ..Self::default() };
        let mut sums: Vec<Sums> = Vec::with_capacity(events.len());
        // A launch inside a launch is part of it.
        let mut in_launch = vec![false; events.len()];
        for (i, event) in events.iter().enumerate() {
            let parent = event.parent.and_then(|id| at.get(id));
            // Rounded times could put a child before its parent; such a child is at the top.
            let parent = parent.filter(|&parent| (parent as usize) < i);
            let around = parent.and_then(|parent| {
                let is_node = events[parent as usize].kind.is_node();
                if is_node { Some(parent) } else { forest.around[parent as usize] }
            });
            in_launch[i] = parent.is_some_and(|parent| match events[parent as usize].kind {
                Kind::Launch => true,
                kind => !kind.is_node() && in_launch[parent as usize],
            });
            let takes_time = event.kind.is_node() || (event.kind == Kind::Launch && !in_launch[i]);
            if let Some(around) = around.filter(|_| takes_time) {
                let end_ns = event.end_ns.min(events[around as usize].end_ns);
                sums[around as usize].host_self_ns -= (end_ns - event.ts_ns).max(0);
            }
            let host_self_ns = if event.kind.is_node() { event.end_ns - event.ts_ns } else { 0 };
            sums.push(Sums { host_self_ns, ..Sums::default() });
            forest.parents.push(parent);
            forest.around.push(around);
        }
        for work in work {
            let node = |id: Option<i64>| {
                let found = at.get(id?)?;
                let is_node = events[found as usize].kind.is_node();
                if is_node { Some(found) } else { forest.around[found as usize] }
            };
            // A launch outside every operator may still name the one that asked for it.
            let launch = node(work.launch);
            let is_op = |&at: &u32| events[at as usize].kind == Kind::Operator;
            if let Some(by) = launch.filter(is_op).or_else(|| node(work.op)).or(launch) {
                let sums = &mut sums[by as usize];
                sums.launch_count += 1;
                sums.device_self_ns = sums.device_self_ns.saturating_add(work.dur_ns);
            }
        }
        for i in (0..events.len()).rev() {
            let own = sums[i].device_self_ns;
            sums[i].device_total_ns = sums[i].device_total_ns.saturating_add(own);
            if let Some(around) = forest.around[i] {
                let total = sums[i].device_total_ns;
                let around = &mut sums[around as usize];
                around.device_total_ns = around.device_total_ns.saturating_add(total);
            }
        }
        Self { events, sums, ..forest }
    }

    /// The operator that each operator is a part of: itself, or the outermost of a chain in which each
    /// has the next one of the same name as its only node inside. PyTorch calls an operator twice where
    /// one layer of the dispatcher hands on to the next.
    pub(super) fn merged(&self, same_name: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let mut inside = vec![0_u32; self.events.len()];
        for (event, around) in self.events.iter().zip(&self.around) {
            if let Some(around) = around.filter(|_| event.kind.is_node()) {
                inside[around as usize] += 1;
            }
        }
        let mut merged: Vec<u32> = (0..self.events.len() as u32).collect();
        let is_op = |at: u32| self.events[at as usize].kind == Kind::Operator;
        for i in 0..self.events.len() as u32 {
            if let Some(around) = self.around[i as usize]
                && is_op(i)
                && is_op(around)
                && inside[around as usize] == 1
                && same_name(around, i)
            {
                merged[i as usize] = merged[around as usize];
            }
        }
        merged
    }

    /// Positions by event.
    pub(super) fn positions(&self) -> IdIndex {
        IdIndex::of_each(self.events.iter().map(|event| event.id))
    }

    /// The nearest event of one kind around each event, itself included.
    pub(super) fn nearest(&self, kind: Kind) -> Vec<Option<u32>> {
        let mut nearest: Vec<Option<u32>> = Vec::with_capacity(self.events.len());
        for (i, event) in self.events.iter().enumerate() {
            let found = if event.kind == kind {
                Some(i as u32)
            } else {
                self.parents[i].and_then(|parent| nearest[parent as usize])
            };
            nearest.push(found);
        }
        nearest
    }
}
