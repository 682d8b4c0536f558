//! The steps that all call trees share: ordering events, finding the node that encloses an event, and nesting by time.

use std::cmp::Reverse;

use query::id_index::IdIndex;

/// A host event that may name the event around it.
pub(super) trait TreeEvent {
    fn id(&self) -> i64;
    fn parent(&self) -> Option<i64>;
    fn ts_ns(&self) -> i64;
    fn end_ns(&self) -> i64;
}

/// Sorts events as the call tree of the tables does: a parent starts before its children or ends after them.
/// Returns the position of each event by its id.
pub(super) fn sort_and_index<E: TreeEvent>(events: &mut [E]) -> IdIndex {
    events.sort_unstable_by_key(|event| (event.ts_ns(), Reverse(event.end_ns()), event.id()));
    IdIndex::of_each(events.iter().map(TreeEvent::id))
}

/// The position of each event's parent; `None` for events whose parent is not among them.
pub(super) fn parent_positions<E: TreeEvent>(events: &[E], index: &IdIndex) -> Vec<Option<u32>> {
    events.iter().map(|event| index.get(event.parent()?)).collect()
}

/// The nearest node around one event: its parent if that is a node, else the node around its parent.
pub(super) fn enclosing_node(
    parent: Option<u32>,
    enclosing: &[Option<u32>],
    is_node: impl Fn(u32) -> bool,
) -> Option<u32> {
    let parent = parent?;
    if is_node(parent) { Some(parent) } else { enclosing[parent as usize] }
}

/// The nearest node around each event. Parents come before their children.
pub(super) fn enclosing_nodes(
    parents: &[Option<u32>],
    is_node: impl Fn(u32) -> bool,
) -> Vec<Option<u32>> {
    let mut enclosing: Vec<Option<u32>> = Vec::with_capacity(parents.len());
    for &parent in parents {
        let node = enclosing_node(parent, &enclosing, &is_node);
        enclosing.push(node);
    }
    enclosing
}

/// The spans of one thread that are open at the current time, outermost first. Spans are entered in order of start; of
/// spans with the same start, the longest comes first.
#[derive(Debug, Default)]
pub(crate) struct OpenSpans {
    /// End and row.
    open: Vec<(i64, u32)>,
}

impl OpenSpans {
    /// Opens a span and returns the row of the span around it. Closes spans that have ended by `ts_ns`.
    pub(crate) fn enter(&mut self, row: u32, ts_ns: i64, end_ns: i64) -> Option<u32> {
        while self.open.last().is_some_and(|&(end, _)| end <= ts_ns) {
            self.open.pop();
        }
        let enclosing = self.open.last().map(|&(_, row)| row);
        self.open.push((end_ns, row));
        enclosing
    }

    /// Closes all spans, before the next thread.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenSpans, enclosing_nodes};

    #[test]
    fn enclosing_nodes_skip_events_that_are_not_nodes() {
        let parents = [None, Some(0), Some(1), Some(2), None];
        let is_node = |at: u32| matches!(at, 0 | 3);
        assert_eq!(enclosing_nodes(&parents, is_node), [None, Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn open_spans_close_spans_that_end_at_the_start_of_the_next() {
        let mut spans = OpenSpans::default();
        assert_eq!(spans.enter(0, 0, 100), None);
        assert_eq!(spans.enter(1, 10, 20), Some(0));
        assert_eq!(spans.enter(2, 20, 30), Some(0));
        assert_eq!(spans.enter(3, 25, 40), Some(2), "a span that overlaps nests by its start");
        spans.clear();
        assert_eq!(spans.enter(4, 50, 60), None);
    }
}
