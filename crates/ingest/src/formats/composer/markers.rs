//! Pairs begins and ends of markers to annotations.

use crate::timeline::begin_end_event::BeginEndEvent;
use crate::timeline::columns::Columns;

/// Pairs begins and ends by thread and name. Markers of one name do not nest, so a second begin means that the first
/// one has no end. Unpaired ones go to `unpaired_events`: ends of batches that were not recorded, begins whose end came
/// after the recording.
pub(crate) fn pair(columns: &mut Columns) {
    let mut begin_end_events = std::mem::take(&mut columns.begin_end_events);
    begin_end_events.sort_by_key(|event| (event.thread, event.name, event.ts_ns, event.event_id));
    let mut open: Option<BeginEndEvent> = None;
    for event in begin_end_events {
        let begin = open.take();
        match (begin, event.begin) {
            (Some(begin), false) if (begin.thread, begin.name) == (event.thread, event.name) => {
                columns.pair_as_annotation(begin, event.ts_ns);
            }
            (begin, true) => {
                if let Some(begin) = begin {
                    columns.keep_unpaired(begin);
                }
                open = Some(event);
            }
            (begin, false) => {
                if let Some(begin) = begin {
                    columns.keep_unpaired(begin);
                }
                columns.keep_unpaired(event);
            }
        }
    }
    if let Some(begin) = open {
        columns.keep_unpaired(begin);
    }
}
