//! Links the nodes of an execution trace to the host events of a profiler trace of the same process.
//!
//! Both name the recorded function by its id: nodes as `rf_id`, events as `Record function id` or, in
//! older traces, as `External id`. Ids start from 1 in every process, so equal ids alone prove
//! nothing: a link needs the same name too, and all links together need most names to agree.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;
use trace_model::column::NULL_I64;

use crate::formats::execution::Recording;
use crate::timeline::columns::Columns;

/// The operators and annotations of a host, by id and name.
#[derive(Debug, Default)]
pub(crate) struct HostEvents<'a> {
    ids: FxHashSet<i64>,
    events: FxHashMap<(i64, &'a str), i64>,
}

/// Result of linking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Nodes that have the id of an event.
    pub(crate) same_id: usize,
    /// Nodes that have id and name of an event.
    pub(crate) same_name: usize,
    /// First and last id of nodes, and of events.
    pub(crate) node_ids: Option<(i64, i64)>,
    pub(crate) host_ids: Option<(i64, i64)>,
}

impl Links {
    /// Returns whether both files were recorded together.
    pub(crate) fn believable(&self) -> bool {
        self.same_name > 0 && self.same_name * 2 >= self.same_id
    }
}

impl<'a> HostEvents<'a> {
    pub(crate) fn new(columns: &'a Columns) -> Self {
        let (ops, ranges) = (&columns.cpu_ops, &columns.annotations);
        let recorded = ops.record_function_id.0.iter().chain(&ranges.record_function_id.0);
        let tables = if recorded.copied().any(|id| id != NULL_I64) {
            [
                (&ops.record_function_id.0, &ops.name, &ops.event_id),
                (&ranges.record_function_id.0, &ranges.name, &ranges.event_id),
            ]
        } else {
            [
                (&ops.external_id.0, &ops.name, &ops.event_id),
                (&ranges.external_id.0, &ranges.name, &ranges.event_id),
            ]
        };
        let mut host = Self::default();
        for (i, (ids, names, events)) in tables.into_iter().enumerate() {
            for (row, &id) in ids.iter().enumerate() {
                // The device's copy of an annotation is not a call.
                if id <= 0 || (i == 1 && ranges.on_device.get(row)) {
                    continue;
                }
                host.ids.insert(id);
                let event = host
                    .events
                    .entry((id, columns.strings.get(names.get(row))))
                    .or_insert(events.get(row));
                *event = (*event).min(events.get(row));
            }
        }
        host
    }
}

/// Fills `event_id` of the nodes, if the links are believable. An event belongs to one node at most.
pub(crate) fn link(recording: &mut Recording, host: &HostEvents<'_>) -> Links {
    let Recording { nodes, strings, .. } = recording;
    let mut links = Links { host_ids: extent(host.ids.iter().copied()), ..Links::default() };
    links.node_ids = extent(nodes.rf_id.0.iter().copied().filter(|&id| id != NULL_I64));
    let event = |id: i64, name: StrId| host.events.get(&(id, strings.get(name))).copied();
    for (&id, &name) in nodes.rf_id.0.iter().zip(&nodes.name.0) {
        links.same_id += usize::from(host.ids.contains(&id));
        links.same_name += usize::from(event(id, name).is_some());
    }
    if links.believable() {
        let mut taken = FxHashSet::default();
        for (row, &id) in nodes.rf_id.0.iter().enumerate() {
            if let Some(event) = event(id, nodes.name.get(row))
                && taken.insert(event)
            {
                nodes.event_id.set(row, event);
            }
        }
    }
    links
}

fn extent(ids: impl Iterator<Item = i64> + Clone) -> Option<(i64, i64)> {
    Some((ids.clone().min()?, ids.max()?))
}
