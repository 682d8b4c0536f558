//! Begin (`B`) and end (`E`) events become spans.

use trace_model::tables::Span;

use crate::formats::kineto::classify::{Kind, classify};
use crate::formats::kineto::columns::{Columns, Half};
use crate::warnings::Issue;

/// Pairs begin and end events per thread, innermost first; user annotations go to their table, the
/// rest to `spans`. What has no partner is counted, and kept in `half_events`.
pub(crate) fn pair(columns: &mut Columns) {
    let mut halves = std::mem::take(&mut columns.halves);
    if halves.is_empty() {
        return;
    }
    // At the same moment, an end comes before the begin that follows it in the file.
    halves.sort_by_key(|h| (h.thread, h.ts_ns, h.event_id));
    let mut open: Vec<Half> = Vec::new();
    let mut thread = None;
    for half in halves {
        if thread != Some(half.thread) {
            unmatched(columns, &mut open);
            thread = Some(half.thread);
        }
        if half.begin {
            open.push(half);
            continue;
        }
        match open.pop() {
            Some(begin) => push(columns, begin, half.ts_ns),
            None => unmatched(columns, &mut vec![half]),
        }
    }
    unmatched(columns, &mut open);
}

fn unmatched(columns: &mut Columns, halves: &mut Vec<Half>) {
    for half in halves.drain(..) {
        columns.issues.add(Issue::UnmatchedBeginEnd);
        columns.keep_half(half);
    }
}

fn push(columns: &mut Columns, begin: Half, end_ns: i64) {
    let dur_ns = end_ns - begin.ts_ns;
    if classify(columns.strings.get(begin.category)) == Kind::Annotation {
        columns.pair_as_annotation(begin, end_ns);
    } else {
        columns.spans.put(Span {
            event_id: begin.event_id,
            name: begin.name,
            category: begin.category,
            ts_ns: begin.ts_ns,
            dur_ns,
            thread: begin.thread,
            args: begin.args,
            ..Span::absent()
        });
    }
}
