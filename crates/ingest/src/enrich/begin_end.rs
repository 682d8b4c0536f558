//! Begin and end events become spans.

use trace_model::StrId;
use trace_model::tables::Span;

use crate::formats::kineto::classify::{Kind, classify};
use crate::formats::kineto::columns::{BeginEndEvent, Columns};
use crate::warnings::Issue;

/// Pairs begin and end events, innermost first: `B` and `E` per thread, asynchronous ones (`b` and `e`) per category and
/// id. User annotations of threads go to their table, the rest to `spans`. What has no partner is counted, and kept in
/// `unpaired_events`.
pub(crate) fn pair(columns: &mut Columns) {
    let mut begin_end_events = std::mem::take(&mut columns.begin_end_events);
    if begin_end_events.is_empty() {
        return;
    }
    // At the same moment, an end comes before the begin that follows it in the file.
    begin_end_events.sort_by_key(|event| (partners(event), event.ts_ns, event.event_id));
    let mut open: Vec<BeginEndEvent> = Vec::new();
    let mut current = None;
    for event in begin_end_events {
        if current != Some(partners(&event)) {
            unmatched(columns, &mut open);
            current = Some(partners(&event));
        }
        if event.begin {
            open.push(event);
            continue;
        }
        match open.pop() {
            Some(begin) => push(columns, begin, event.ts_ns),
            None => unmatched(columns, &mut vec![event]),
        }
    }
    unmatched(columns, &mut open);
}

/// Events with equal keys may be partners: those of one thread, or those of one asynchronous operation.
fn partners(event: &BeginEndEvent) -> (StrId, StrId, i32) {
    if event.async_id == StrId::NULL {
        (StrId::NULL, StrId::NULL, event.thread)
    } else {
        (event.async_id, event.category, 0)
    }
}

fn unmatched(columns: &mut Columns, begin_end_events: &mut Vec<BeginEndEvent>) {
    for event in begin_end_events.drain(..) {
        columns.issues.add(Issue::UnmatchedBeginEnd);
        columns.keep_unpaired(event);
    }
}

fn push(columns: &mut Columns, begin: BeginEndEvent, end_ns: i64) {
    let dur_ns = end_ns - begin.ts_ns;
    // Asynchronous ranges overlap: they have no place in the call tree of a thread.
    let is_of_thread = begin.async_id == StrId::NULL;
    if is_of_thread && classify(columns.strings.get(begin.category)) == Kind::Annotation {
        columns.pair_as_annotation(begin, end_ns);
    } else {
        columns.spans.push_sparse(Span {
            event_id: begin.event_id,
            name: begin.name,
            category: begin.category,
            ts_ns: begin.ts_ns,
            dur_ns,
            thread: begin.thread,
            args: begin.args,
            ..Span::null_row()
        });
    }
}
