//! Begin and end events become spans.

use trace_model::StrId;
use trace_model::tables::Span;

use crate::timeline::begin_end_event::BeginEndEvent;
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Pairs begin and end events, innermost first: `B` and `E` per thread, asynchronous ones (`b` and `e`) per category and
/// id. User annotations of threads go to their table, the rest to `spans`. What has no partner is counted, and kept in
/// `unpaired_events`.
pub(crate) fn pair(columns: &mut Columns) {
    match_partners(std::mem::take(&mut columns.begin_end_events), |matched| match matched {
        Match::Range(begin, end) => push(columns, begin, end.ts_ns),
        Match::Alone(event) => {
            columns.issues.add(Issue::UnmatchedBeginEnd);
            columns.keep_unpaired(event);
        }
    });
}

/// A begin event with its end, or an event without a partner.
pub(crate) enum Match {
    Range(BeginEndEvent, BeginEndEvent),
    Alone(BeginEndEvent),
}

/// Finds the partner of each begin and end event.
pub(crate) fn match_partners(mut events: Vec<BeginEndEvent>, mut each: impl FnMut(Match)) {
    // At the same moment, an end comes before the begin that follows it in the file.
    events.sort_by_key(|event| (partners(event), event.ts_ns, event.event_id));
    let mut open: Vec<BeginEndEvent> = Vec::new();
    let mut current = None;
    for event in events {
        if current != Some(partners(&event)) {
            open.drain(..).for_each(|event| each(Match::Alone(event)));
            current = Some(partners(&event));
        }
        if event.begin {
            open.push(event);
            continue;
        }
        each(match open.pop() {
            Some(begin) => Match::Range(begin, event),
            None => Match::Alone(event),
        });
    }
    for event in open {
        each(Match::Alone(event));
    }
}

/// Events with equal keys may be partners: those of one thread, or those of one asynchronous operation.
fn partners(event: &BeginEndEvent) -> (StrId, StrId, i32) {
    if event.async_id == StrId::NULL {
        (StrId::NULL, StrId::NULL, event.thread)
    } else {
        (event.async_id, event.category, 0)
    }
}

fn push(columns: &mut Columns, begin: BeginEndEvent, end_ns: i64) {
    let dur_ns = end_ns - begin.ts_ns;
    // Asynchronous ranges overlap: they have no place in the call tree of a thread.
    let is_of_thread = begin.async_id == StrId::NULL;
    if is_of_thread && begin.is_annotation {
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
