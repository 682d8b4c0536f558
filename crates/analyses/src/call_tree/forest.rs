//! Sums over host events and the work they launched, along their nesting.

use query::id_index::IdIndex;

use super::nesting::{
    TreeEvent, enclosing_node, enclosing_nodes, parent_positions, sort_and_index,
};

/// The part that an event plays in the forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A node.
    Operator,
    /// A node: a call of a module.
    Module,
    /// A node that is neither: a step, the data loader, the optimizer, a collective.
    Range,
    /// A call into the device runtime: work of the node around it.
    Launch,
    /// A Python frame. Events inside it belong to the node around it, as with ranges of kind `Other`.
    Frame,
    /// A range that is not a node.
    Other,
}

impl EventKind {
    fn is_node(self) -> bool {
        matches!(self, Self::Operator | Self::Module | Self::Range)
    }
}

/// One host event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForestEvent {
    pub(crate) id: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) kind: EventKind,
    /// Its row in the table it comes from.
    pub(crate) row: u32,
}

impl TreeEvent for ForestEvent {
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
        self.end_ns
    }
}

/// One kernel, copy or fill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    /// The call that launched it.
    pub(crate) launch: Option<i64>,
    /// The operator that launched it.
    pub(crate) op: Option<i64>,
    pub(crate) dur_ns: i64,
}

/// Time and launches of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeTotals {
    /// Its duration less that of the nodes and launches directly inside.
    pub(crate) host_self_ns: i64,
    /// Number of activities that the node launched itself.
    pub(crate) launch_count: i64,
    /// Duration of these activities.
    pub(crate) device_self_ns: i64,
    /// Duration of the activities that the node and the nodes inside it launched.
    pub(crate) device_total_ns: i64,
}

/// The host events of one rank.
#[derive(Debug, Default)]
pub(crate) struct CallForest {
    /// Parents before children.
    pub(crate) events: Vec<ForestEvent>,
    /// Position of the parent of each event.
    pub(crate) parents: Vec<Option<u32>>,
    /// Position of the nearest node around each event.
    pub(crate) enclosing: Vec<Option<u32>>,
    /// Totals of each event; zero for events that are not nodes.
    pub(crate) totals: Vec<NodeTotals>,
}

impl CallForest {
    /// Builds the forest. Events whose parent is not among them are at the top.
    pub(crate) fn new(mut events: Vec<ForestEvent>, work: &[Activity]) -> Self {
        let index = sort_and_index(&mut events);
        let mut parents = parent_positions(&events, &index);
        for (at, parent) in parents.iter_mut().enumerate() {
            // Rounded times could put a child before its parent; such a child is at the top.
            *parent = parent.filter(|&parent| (parent as usize) < at);
        }
        let is_node = |at: u32| events[at as usize].kind.is_node();
        let enclosing = enclosing_nodes(&parents, is_node);
        let mut totals = host_totals(&events, &parents, &enclosing);
        for work in work {
            let node = |id: Option<i64>| {
                let launcher = index.get(id?)?;
                enclosing_node(Some(launcher), &enclosing, is_node)
            };
            // A launch outside every operator may still name the operator that it belongs to.
            let launch = node(work.launch);
            let is_op = |&at: &u32| events[at as usize].kind == EventKind::Operator;
            if let Some(by) = launch.filter(is_op).or_else(|| node(work.op)).or(launch) {
                let totals = &mut totals[by as usize];
                totals.launch_count += 1;
                totals.device_self_ns = totals.device_self_ns.saturating_add(work.dur_ns);
            }
        }
        for at in (0..events.len()).rev() {
            let own = totals[at].device_self_ns;
            totals[at].device_total_ns = totals[at].device_total_ns.saturating_add(own);
            if let Some(outer) = enclosing[at] {
                let total = totals[at].device_total_ns;
                let outer = &mut totals[outer as usize];
                outer.device_total_ns = outer.device_total_ns.saturating_add(total);
            }
        }
        Self { events, parents, enclosing, totals }
    }

    /// The position of the call that each operator is a part of: itself, or the outermost of a chain in which each
    /// operator has the next one of the same name as its only node inside. PyTorch calls an operator twice where
    /// one layer of the dispatcher hands on to the next.
    pub(crate) fn merge_dispatch_chains(&self, same_name: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let mut inside = vec![0_u32; self.events.len()];
        for (event, outer) in self.events.iter().zip(&self.enclosing) {
            if let Some(outer) = outer.filter(|_| event.kind.is_node()) {
                inside[outer as usize] += 1;
            }
        }
        let mut merged: Vec<u32> = (0..self.events.len() as u32).collect();
        let is_op = |at: u32| self.events[at as usize].kind == EventKind::Operator;
        for at in 0..self.events.len() as u32 {
            if let Some(outer) = self.enclosing[at as usize]
                && is_op(at)
                && is_op(outer)
                && inside[outer as usize] == 1
                && same_name(outer, at)
            {
                merged[at as usize] = merged[outer as usize];
            }
        }
        merged
    }

    /// Positions by event id.
    pub(crate) fn position_index(&self) -> IdIndex {
        IdIndex::of_each(self.events.iter().map(|event| event.id))
    }

    /// The nearest event of one kind around each event, itself included.
    pub(crate) fn nearest_of_kind(&self, kind: EventKind) -> Vec<Option<u32>> {
        let mut nearest: Vec<Option<u32>> = Vec::with_capacity(self.events.len());
        for (at, event) in self.events.iter().enumerate() {
            let found = if event.kind == kind {
                Some(at as u32)
            } else {
                self.parents[at].and_then(|parent| nearest[parent as usize])
            };
            nearest.push(found);
        }
        nearest
    }
}

/// Totals with the host time only.
fn host_totals(
    events: &[ForestEvent],
    parents: &[Option<u32>],
    enclosing: &[Option<u32>],
) -> Vec<NodeTotals> {
    let mut totals: Vec<NodeTotals> = Vec::with_capacity(events.len());
    // A launch inside a launch is part of it.
    let mut in_launch = vec![false; events.len()];
    for (at, event) in events.iter().enumerate() {
        in_launch[at] = parents[at].is_some_and(|parent| match events[parent as usize].kind {
            EventKind::Launch => true,
            kind => !kind.is_node() && in_launch[parent as usize],
        });
        let is_node = event.kind.is_node();
        let takes_time = is_node || (event.kind == EventKind::Launch && !in_launch[at]);
        if let Some(outer) = enclosing[at].filter(|_| takes_time) {
            let end_ns = event.end_ns.min(events[outer as usize].end_ns);
            totals[outer as usize].host_self_ns -= (end_ns - event.ts_ns).max(0);
        }
        let host_self_ns = if is_node { event.end_ns - event.ts_ns } else { 0 };
        totals.push(NodeTotals { host_self_ns, ..NodeTotals::default() });
    }
    totals
}
