//! `trainer_steps_reconstructed`: Composer (0.9 and later) writes the end of every mark, but the begin only for batches
//! that its schedule records. Callbacks that run before each event leave ends of their own: the last of these gives
//! the begin of the event, about 15 us early.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::marks::int_argument;
use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::ViewInputs;

pub(super) const INPUTS: &[(&str, &str)] = &[(
    "marks",
    "SELECT rank, name, ts_ns AS begin_ns, ts_ns + dur_ns AS end_ns, args FROM annotations
     WHERE NOT on_device AND (name IN ('event/dataloader', 'event/batch', 'event/epoch')
         OR name LIKE 'callback/%/event/before_dataloader' OR name LIKE 'callback/%/event/batch_start')
     UNION ALL
     SELECT rank, name, NULL, ts_ns, args FROM unpaired_events
     WHERE phase = 'E' AND (name IN ('event/dataloader', 'event/batch', 'event/epoch')
         OR name LIKE 'callback/%/event/before_dataloader' OR name LIKE 'callback/%/event/batch_start')",
)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MarkKind {
    BeforeLoader,
    BeforeBatch,
    Loader,
    Batch,
    Epoch,
}

impl MarkKind {
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

/// The end of a mark, and its begin if recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MarkEnd {
    end_ns: i64,
    kind: MarkKind,
    begin_ns: Option<i64>,
    batch: Option<i64>,
}

/// A step reconstructed from ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReconstructedStep {
    batch: Option<i64>,
    start_ns: i64,
    loader_ns: i64,
    batch_start_ns: i64,
    batch_ns: i64,
    /// Error of the reconstructed begins, where the real begins were recorded.
    loader_error_ns: Option<i64>,
    batch_error_ns: Option<i64>,
    is_first_of_epoch: bool,
}

/// Reconstructs steps from ends in chronological order.
fn reconstruct_steps(ends: &[MarkEnd]) -> Vec<ReconstructedStep> {
    let mut steps = Vec::new();
    let (mut before_loader, mut before_batch) = (None, None);
    // Begin, end, and error of the begin.
    let mut loader: Option<(i64, i64, Option<i64>)> = None;
    // The recording may begin within an epoch.
    let mut is_epoch_start = false;
    for end in ends {
        match end.kind {
            MarkKind::BeforeLoader => before_loader = Some(end.end_ns),
            MarkKind::BeforeBatch => before_batch = Some(end.end_ns),
            MarkKind::Loader => {
                let start_ns = before_loader.take();
                loader = start_ns.map(|start_ns| {
                    (start_ns, end.end_ns, end.begin_ns.map(|begin| begin - start_ns))
                });
            }
            MarkKind::Batch => {
                let batch_start_ns = before_batch.take();
                if let Some(((start_ns, loaded_ns, loader_error_ns), batch_start_ns)) =
                    loader.take().zip(batch_start_ns)
                {
                    // An end carries the counter after the batch.
                    let batch = end.batch.map(|batch| batch.saturating_sub(1));
                    steps.push(ReconstructedStep {
                        batch,
                        start_ns,
                        loader_ns: loaded_ns - start_ns,
                        batch_start_ns,
                        batch_ns: end.end_ns - batch_start_ns,
                        loader_error_ns,
                        batch_error_ns: end.begin_ns.map(|begin| begin - batch_start_ns),
                        is_first_of_epoch: is_epoch_start || batch == Some(0),
                    });
                    is_epoch_start = false;
                }
            }
            MarkKind::Epoch => is_epoch_start = true,
        }
    }
    steps
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let marks = inputs.batch("marks")?;
    let rank = ints(marks, "rank")?;
    let (begin_ns, end_ns) = (ints(marks, "begin_ns")?, ints(marks, "end_ns")?);
    let (name, args) = (names(marks, "name")?, names(marks, "args")?);
    let mut ranks: BTreeMap<i64, Vec<MarkEnd>> = BTreeMap::new();
    for row in 0..marks.num_rows() {
        let Some(kind) = MarkKind::of(name.get(row).unwrap_or_default()) else { continue };
        let begin_ns = get(&begin_ns, row);
        let batch = int_argument(args.get(row).unwrap_or_default(), "batch");
        // A pair of begin and end has the arguments of the begin, where the counter is that of the batch itself.
        let batch = batch.map(|batch| batch.saturating_add(i64::from(begin_ns.is_some())));
        ranks.entry(rank.value(row)).or_default().push(MarkEnd {
            end_ns: end_ns.value(row),
            kind,
            begin_ns,
            batch,
        });
    }
    let mut rows: Vec<(i64, ReconstructedStep)> = Vec::new();
    for (rank, mut ends) in ranks {
        ends.sort_unstable();
        rows.extend(reconstruct_steps(&ends).into_iter().map(|step| (rank, step)));
    }
    BatchBuilder::of(&rows)
        .int32("rank", |&(rank, _)| rank)
        .int("batch", |(_, s)| s.batch)
        .int("ts_ns", |(_, s)| Some(s.start_ns))
        .int("step_ns", |(_, s)| Some(s.loader_ns + s.batch_ns))
        .int("loader_ns", |(_, s)| Some(s.loader_ns))
        .int("batch_ns", |(_, s)| Some(s.batch_ns))
        .flag("is_recorded", |(_, s)| s.loader_error_ns.is_some() && s.batch_error_ns.is_some())
        .flag("is_first_of_epoch", |(_, s)| s.is_first_of_epoch)
        .int("loader_begin_error_ns", |(_, s)| s.loader_error_ns)
        .int("batch_begin_error_ns", |(_, s)| s.batch_error_ns)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::{MarkEnd, MarkKind, ReconstructedStep, reconstruct_steps};

    fn end(kind: MarkKind, end_ns: i64, begin_ns: Option<i64>, batch: i64) -> MarkEnd {
        MarkEnd { end_ns, kind, begin_ns, batch: Some(batch) }
    }

    #[test]
    fn reconstruct_steps_needs_only_ends() {
        let found = reconstruct_steps(&[
            // The recording begins inside a batch.
            end(MarkKind::Batch, 5, None, 3),
            // Two callbacks before the loader: the last one counts.
            end(MarkKind::BeforeLoader, 10, None, 3),
            end(MarkKind::BeforeLoader, 12, None, 3),
            end(MarkKind::Loader, 40, Some(14), 3),
            end(MarkKind::BeforeBatch, 41, None, 3),
            end(MarkKind::Batch, 90, Some(43), 4),
            // The end of the epoch: a loader call without a batch.
            end(MarkKind::BeforeLoader, 92, None, 4),
            end(MarkKind::Loader, 93, None, 4),
            end(MarkKind::Epoch, 95, None, 4),
            end(MarkKind::BeforeLoader, 100, None, 4),
            end(MarkKind::Loader, 130, None, 4),
            end(MarkKind::BeforeBatch, 131, None, 4),
            end(MarkKind::Batch, 180, None, 5),
        ]);
        let first = ReconstructedStep {
            batch: Some(3),
            start_ns: 12,
            loader_ns: 28,
            batch_start_ns: 41,
            batch_ns: 49,
            loader_error_ns: Some(2),
            batch_error_ns: Some(2),
            is_first_of_epoch: false,
        };
        let second = ReconstructedStep {
            batch: Some(4),
            start_ns: 100,
            loader_ns: 30,
            batch_start_ns: 131,
            loader_error_ns: None,
            batch_error_ns: None,
            is_first_of_epoch: true,
            ..first
        };
        assert_eq!(found, [first, second]);
    }
}
