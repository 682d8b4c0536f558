//! `trainer_steps_reconstructed`: Composer (0.9 and later) writes the end of every mark, the begin only of batches
//! that its schedule records. But before each event its callbacks run, and leave ends of their own: the last
//! of these is where the event begins, some 15 us early.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::marks::argument;
use query::columns::{ints, names};
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[(
    "marks",
    "SELECT rank, name, ts_ns AS begin_ns, ts_ns + dur_ns AS end_ns, args FROM annotations
     WHERE NOT on_device AND (name IN ('event/dataloader', 'event/batch', 'event/epoch')
         OR name LIKE 'callback/%/event/before_dataloader' OR name LIKE 'callback/%/event/batch_start')
     UNION ALL
     SELECT rank, name, NULL, ts_ns, args FROM half_events
     WHERE phase = 'E' AND (name IN ('event/dataloader', 'event/batch', 'event/epoch')
         OR name LIKE 'callback/%/event/before_dataloader' OR name LIKE 'callback/%/event/batch_start')",
)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    BeforeLoader,
    BeforeBatch,
    Loader,
    Batch,
    Epoch,
}

impl What {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "event/dataloader" => Self::Loader,
            "event/batch" => Self::Batch,
            "event/epoch" => Self::Epoch,
            _ if name.ends_with("/event/before_dataloader") => Self::BeforeLoader,
            _ if name.ends_with("/event/batch_start") => Self::BeforeBatch,
            _ => return None,
        })
    }
}

/// The end of a mark, and its begin where that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    at: i64,
    what: What,
    begin: Option<i64>,
    batch: Option<i64>,
}

/// A step as the ends tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    batch: Option<i64>,
    start: i64,
    loader: i64,
    batch_start: i64,
    batch_dur: i64,
    /// How far the begins are off, where they were recorded.
    loader_error: Option<i64>,
    batch_error: Option<i64>,
    is_first_of_epoch: bool,
}

/// Ends by time.
fn steps(ends: &[End]) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut before_loader, mut before_batch) = (None, None);
    // Begin, end, and how far the begin is off.
    let mut loader: Option<(i64, i64, Option<i64>)> = None;
    // Nothing is known of the epoch in which the recording begins.
    let mut fresh = false;
    for end in ends {
        match end.what {
            What::BeforeLoader => before_loader = Some(end.at),
            What::BeforeBatch => before_batch = Some(end.at),
            What::Loader => {
                let begin = before_loader.take();
                loader = begin.map(|at| (at, end.at, end.begin.map(|begin| begin - at)));
            }
            What::Batch => {
                let at = before_batch.take();
                if let Some(((start, loaded, loader_error), at)) = loader.take().zip(at) {
                    // An end carries the counter after the batch.
                    let batch = end.batch.map(|batch| batch.saturating_sub(1));
                    steps.push(Step {
                        batch,
                        start,
                        loader: loaded - start,
                        batch_start: at,
                        batch_dur: end.at - at,
                        loader_error,
                        batch_error: end.begin.map(|begin| begin - at),
                        is_first_of_epoch: fresh || batch == Some(0),
                    });
                    fresh = false;
                }
            }
            What::Epoch => fresh = true,
        }
    }
    steps
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let marks = inputs.batch("marks")?;
    let rank = ints(marks, "rank")?;
    let (begin, at) = (ints(marks, "begin_ns")?, ints(marks, "end_ns")?);
    let (name, args) = (names(marks, "name")?, names(marks, "args")?);
    let mut ranks: BTreeMap<i64, Vec<End>> = BTreeMap::new();
    for row in 0..marks.num_rows() {
        let Some(what) = What::of(name.get(row).unwrap_or_default()) else { continue };
        let begin = begin.iter().nth(row).flatten();
        let batch = argument(args.get(row).unwrap_or_default(), "batch");
        // A pair has the arguments of its begin, where the counter is that of the batch itself.
        let batch = batch.map(|batch| batch.saturating_add(i64::from(begin.is_some())));
        ranks.entry(rank.value(row)).or_default().push(End {
            at: at.value(row),
            what,
            begin,
            batch,
        });
    }
    let mut rows: Vec<(i64, Step)> = Vec::new();
    for (rank, mut ends) in ranks {
        ends.sort_unstable();
        rows.extend(steps(&ends).into_iter().map(|step| (rank, step)));
    }
    let ints = |of: fn(&Step) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, step)| of(step)).collect::<Int64Array>())
    };
    let flags = |of: fn(&Step) -> bool| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, step)| Some(of(step))).collect::<BooleanArray>())
    };
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|&(rank, _)| Some(rank as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("batch", ints(|s| s.batch)),
        ("ts_ns", ints(|s| Some(s.start))),
        ("step_ns", ints(|s| Some(s.loader + s.batch_dur))),
        ("loader_ns", ints(|s| Some(s.loader))),
        ("batch_ns", ints(|s| Some(s.batch_dur))),
        ("is_recorded", flags(|s| s.loader_error.is_some() && s.batch_error.is_some())),
        ("is_first_of_epoch", flags(|s| s.is_first_of_epoch)),
        ("loader_begin_error_ns", ints(|s| s.loader_error)),
        ("batch_begin_error_ns", ints(|s| s.batch_error)),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::{End, Step, What, steps};

    fn end(what: What, at: i64, begin: Option<i64>, batch: i64) -> End {
        End { at, what, begin, batch: Some(batch) }
    }

    #[test]
    fn ends_alone_make_steps() {
        let found = steps(&[
            // The recording begins inside a batch.
            end(What::Batch, 5, None, 3),
            // Two callbacks before the loader: the last one counts.
            end(What::BeforeLoader, 10, None, 3),
            end(What::BeforeLoader, 12, None, 3),
            end(What::Loader, 40, Some(14), 3),
            end(What::BeforeBatch, 41, None, 3),
            end(What::Batch, 90, Some(43), 4),
            // The end of the epoch: a call without a batch.
            end(What::BeforeLoader, 92, None, 4),
            end(What::Loader, 93, None, 4),
            end(What::Epoch, 95, None, 4),
            end(What::BeforeLoader, 100, None, 4),
            end(What::Loader, 130, None, 4),
            end(What::BeforeBatch, 131, None, 4),
            end(What::Batch, 180, None, 5),
        ]);
        let first = Step {
            batch: Some(3),
            start: 12,
            loader: 28,
            batch_start: 41,
            batch_dur: 49,
            loader_error: Some(2),
            batch_error: Some(2),
            is_first_of_epoch: false,
        };
        let second = Step {
            batch: Some(4),
            start: 100,
            loader: 30,
            batch_start: 131,
            loader_error: None,
            batch_error: None,
            is_first_of_epoch: true,
            ..first
        };
        assert_eq!(found, [first, second]);
    }
}
