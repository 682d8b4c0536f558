//! Calls of modules in a forest, with the operators inside each call and their backward operators.

use rustc_hash::FxHashMap;

use crate::call_tree::{CallForest, EventKind, ForestEvent};

/// A call of a module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ModuleCall {
    /// Position in the forest.
    pub(crate) at: u32,
    /// Position of the call around it, among the calls.
    pub(crate) parent: Option<u32>,
    pub(crate) depth: i32,
    /// Operators directly inside, and the work that they and those inside them launched.
    pub(crate) operator_count: i64,
    pub(crate) operators_device_ns: i64,
    /// Backward operators of the operators inside, those of modules inside included.
    pub(crate) backward: Option<BackwardTime>,
}

/// Host and device time of backward operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BackwardTime {
    pub(crate) host_ns: i64,
    pub(crate) device_ns: i64,
}

/// Properties of an operator that the forest does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpFacts {
    pub(crate) thread: i64,
    /// The forward operator that it is the backward operator of.
    pub(crate) forward_op: Option<i64>,
    /// It adds a gradient to a parameter, which ends the backward pass of the operator before.
    pub(crate) accumulates_grad: bool,
}

/// The calls of modules of a rank, in order of start; parents before children.
pub(crate) fn find_calls(
    forest: &CallForest,
    facts: impl Fn(&ForestEvent) -> OpFacts,
) -> Vec<ModuleCall> {
    let nearest = forest.nearest_of_kind(EventKind::Module);
    let mut index = vec![u32::MAX; forest.events.len()];
    let mut calls: Vec<ModuleCall> = Vec::new();
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind != EventKind::Module {
            continue;
        }
        let outer = forest.parents[at].and_then(|parent| nearest[parent as usize]);
        let parent = outer.map(|outer| index[outer as usize]);
        let depth = parent.map_or(0, |parent| calls[parent as usize].depth + 1);
        index[at] = calls.len() as u32;
        calls.push(ModuleCall { at: at as u32, parent, depth, ..ModuleCall::default() });
    }
    for (at, event) in forest.events.iter().enumerate() {
        if event.kind == EventKind::Operator
            && let Some(outer) = forest.enclosing[at]
            && forest.events[outer as usize].kind == EventKind::Module
        {
            let call = &mut calls[index[outer as usize] as usize];
            call.operator_count += 1;
            let device_ns = forest.totals[at].device_total_ns;
            call.operators_device_ns = call.operators_device_ns.saturating_add(device_ns);
        }
    }
    let call_of = |at: u32| nearest[at as usize].map(|at| index[at as usize]);
    add_backward_time(forest, facts, &mut calls, call_of);
    calls
}

/// Adds the time of each outermost backward operator to the call around its forward operator, and to the calls around
/// that call.
fn add_backward_time(
    forest: &CallForest,
    facts: impl Fn(&ForestEvent) -> OpFacts,
    calls: &mut [ModuleCall],
    call_of: impl Fn(u32) -> Option<u32>,
) {
    let positions = forest.position_index();
    let mut has_links = false;
    let mut in_backward = vec![false; forest.events.len()];
    // By thread: the call that the previous backward operator belongs to.
    let mut previous: FxHashMap<i64, Option<u32>> = FxHashMap::default();
    let mut own = vec![BackwardTime::default(); calls.len()];
    for (at, event) in forest.events.iter().enumerate() {
        in_backward[at] = forest.parents[at].is_some_and(|parent| in_backward[parent as usize]);
        if event.kind != EventKind::Operator || in_backward[at] {
            continue;
        }
        let facts = facts(event);
        let call = match facts.forward_op {
            Some(forward) => {
                has_links = true;
                positions.get(forward).and_then(&call_of)
            }
            None if facts.accumulates_grad => previous.get(&facts.thread).copied().flatten(),
            None => continue,
        };
        in_backward[at] = true;
        previous.insert(facts.thread, call);
        if let Some(call) = call {
            let own = &mut own[call as usize];
            own.host_ns = own.host_ns.saturating_add(event.end_ns - event.ts_ns);
            own.device_ns = own.device_ns.saturating_add(forest.totals[at].device_total_ns);
        }
    }
    if !has_links {
        return;
    }
    for i in (0..calls.len()).rev() {
        calls[i].backward = Some(own[i]);
        if let Some(parent) = calls[i].parent {
            let inside = own[i];
            let outer = &mut own[parent as usize];
            outer.host_ns = outer.host_ns.saturating_add(inside.host_ns);
            outer.device_ns = outer.device_ns.saturating_add(inside.device_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BackwardTime, OpFacts, find_calls};
    use crate::call_tree::{Activity, CallForest, EventKind, ForestEvent};

    fn event(
        id: i64,
        parent: Option<i64>,
        kind: EventKind,
        ts_ns: i64,
        end_ns: i64,
    ) -> ForestEvent {
        ForestEvent { id, parent, ts_ns, end_ns, kind, row: id as u32 }
    }

    fn launched(launch: i64, dur_ns: i64) -> Activity {
        Activity { launch: Some(launch), op: None, dur_ns }
    }

    #[test]
    fn backward_time_counts_for_the_module_of_the_forward_operator() {
        let forest = CallForest::new(
            vec![
                event(1, None, EventKind::Module, 0, 100),
                event(2, Some(1), EventKind::Module, 10, 50),
                event(3, Some(2), EventKind::Operator, 20, 30),
                event(4, Some(1), EventKind::Operator, 60, 70),
                // Backward, on another thread: some hold an operator that is linked too.
                event(10, None, EventKind::Operator, 200, 220),
                event(11, Some(10), EventKind::Operator, 205, 215),
                event(12, Some(11), EventKind::Launch, 206, 208),
                event(13, None, EventKind::Operator, 230, 260),
                event(14, None, EventKind::Operator, 270, 275),
                event(15, None, EventKind::Operator, 280, 300),
            ],
            &[launched(12, 40)],
        );
        let facts = |event: &ForestEvent| OpFacts {
            thread: i64::from(event.id >= 10),
            forward_op: match event.id {
                10 | 11 => Some(4),
                13 => Some(3),
                _ => None,
            },
            accumulates_grad: event.id == 14,
        };
        let calls = find_calls(&forest, facts);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls[1].parent, calls[1].depth), (Some(0), 1));
        assert_eq!(calls.iter().map(|c| c.operator_count).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(calls[0].backward, Some(BackwardTime { host_ns: 55, device_ns: 40 }));
        assert_eq!(calls[1].backward, Some(BackwardTime { host_ns: 35, device_ns: 0 }));

        let unlinked =
            |_: &ForestEvent| OpFacts { thread: 0, forward_op: None, accumulates_grad: true };
        assert!(find_calls(&forest, unlinked).iter().all(|call| call.backward.is_none()));
    }
}
