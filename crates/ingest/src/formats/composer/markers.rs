//! Markers with a duration: begins and ends become annotations.

use serde::Deserialize;

use crate::formats::kineto::columns::{Columns, Half};

/// The training of one batch.
pub(crate) const BATCH: &str = "event/batch";
/// A call of the training loader: since Composer 0.9, and before.
pub(crate) const LOADERS: [&str; 2] = ["event/dataloader", "dataloader/train"];

/// The counters of the training loop that a marker carries.
#[derive(Deserialize)]
struct Progress {
    batch: Option<i64>,
}

/// The batch that a marker's arguments name.
pub(crate) fn batch_number(args: &str) -> Option<i64> {
    serde_json::from_str::<Progress>(args).ok()?.batch
}

/// Pairs begins and ends by thread and name. A marker never lies inside one of its name, so that a second
/// begin ends the wait for the first one's end. What stays alone goes to `half_events`: ends of batches that
/// were not recorded, begins whose end came after the recording.
pub(crate) fn pair(columns: &mut Columns) {
    let mut halves = std::mem::take(&mut columns.halves);
    halves.sort_by_key(|half| (half.thread, half.name, half.ts_ns, half.event_id));
    let mut open: Option<Half> = None;
    for half in halves {
        let begin = open.take();
        match (begin, half.begin) {
            (Some(begin), false) if (begin.thread, begin.name) == (half.thread, half.name) => {
                columns.pair_as_annotation(begin, half.ts_ns);
            }
            (begin, true) => {
                if let Some(begin) = begin {
                    columns.keep_half(begin);
                }
                open = Some(half);
            }
            (begin, false) => {
                if let Some(begin) = begin {
                    columns.keep_half(begin);
                }
                columns.keep_half(half);
            }
        }
    }
    if let Some(begin) = open {
        columns.keep_half(begin);
    }
}
