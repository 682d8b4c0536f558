//! `trainer_steps`: the steps that Composer and Determined mark, with their parts.

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::marks::{MARKS, TrainerMark, TrainerMarkKind, load_marks};
use crate::statistics::outliers;
use query::BatchBuilder;
use query::rust_view::ViewInputs;

pub(super) const INPUTS: &[(&str, &str)] = &[MARKS];

/// A step: the loader call that fetched its batch, and the batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrainerStep {
    pub(crate) is_determined: bool,
    pub(crate) epoch: Option<i64>,
    pub(crate) batch: Option<i64>,
    /// Start of the loader call.
    pub(crate) start_ns: i64,
    /// End of the wait for the loader.
    pub(crate) load_end_ns: i64,
    /// Length of the loader mark, which in some releases of Composer lasts until the end of the batch.
    pub(crate) loader_mark_ns: i64,
    /// Start of the batch.
    pub(crate) batch_start_ns: i64,
    /// Duration of the batch without the time between marks.
    pub(crate) batch_ns: i64,
    pub(crate) train_ns: Option<i64>,
    pub(crate) forward_ns: Option<i64>,
    pub(crate) loss_ns: Option<i64>,
    pub(crate) backward_ns: Option<i64>,
    pub(crate) optimizer_ns: Option<i64>,
    pub(crate) microbatch_count: Option<i64>,
}

impl TrainerStep {
    pub(crate) fn loader_ns(&self) -> i64 {
        self.load_end_ns.saturating_sub(self.start_ns)
    }
}

/// The steps of one rank, by start.
pub(crate) fn trainer_steps(marks: &[TrainerMark]) -> Vec<TrainerStep> {
    let mut steps = composer_steps(marks);
    if steps.is_empty() {
        steps = determined_steps(marks);
    }
    steps
}

/// A step is a loader call and the `event/batch` that follows before the next call. The last call of an epoch fetches
/// no batch.
fn composer_steps(marks: &[TrainerMark]) -> Vec<TrainerStep> {
    let mut steps: Vec<TrainerStep> = Vec::new();
    let mut loader: Option<&TrainerMark> = None;
    let mut until = i64::MIN;
    let mut optimizers: Vec<(i64, i64)> = Vec::new();
    for mark in marks {
        let dur = Some(mark.dur_ns());
        match mark.kind {
            TrainerMarkKind::Loader => loader = Some(mark),
            TrainerMarkKind::Batch => {
                until = i64::MIN;
                let same = |l: &&TrainerMark| {
                    l.batch.is_none() || mark.batch.is_none() || l.batch == mark.batch
                };
                let Some(call) = loader.take().filter(same) else { continue };
                until = mark.end_ns;
                steps.push(TrainerStep {
                    epoch: mark.epoch,
                    batch: mark.batch,
                    start_ns: call.start_ns,
                    load_end_ns: call.end_ns.min(mark.start_ns),
                    loader_mark_ns: call.dur_ns(),
                    batch_start_ns: mark.start_ns,
                    batch_ns: mark.dur_ns(),
                    ..TrainerStep::default()
                });
            }
            TrainerMarkKind::TrainBatch
            | TrainerMarkKind::Forward
            | TrainerMarkKind::Loss
            | TrainerMarkKind::Backward
            | TrainerMarkKind::Optimizer
                if mark.end_ns <= until =>
            {
                let Some(step) = steps.last_mut() else { continue };
                match mark.kind {
                    TrainerMarkKind::Optimizer => {
                        add_to_sum(&mut step.optimizer_ns, dur);
                        optimizers.push((mark.start_ns, mark.end_ns));
                    }
                    TrainerMarkKind::TrainBatch => {
                        add_to_sum(&mut step.train_ns, dur);
                        // The optimizer calls the model: its own time is the remainder.
                        let within = optimizers.last().is_some_and(|&(start_ns, end_ns)| {
                            start_ns <= mark.start_ns && mark.end_ns <= end_ns
                        });
                        if within {
                            add_to_sum(&mut step.optimizer_ns, Some(-mark.dur_ns()));
                        }
                    }
                    TrainerMarkKind::Forward => {
                        add_to_sum(&mut step.forward_ns, dur);
                        add_to_sum(&mut step.microbatch_count, Some(1));
                    }
                    TrainerMarkKind::Loss => add_to_sum(&mut step.loss_ns, dur),
                    _ => add_to_sum(&mut step.backward_ns, dur),
                }
            }
            _ => {}
        }
    }
    steps
}

/// A step is a `dataloader_next` and all timings up to the next one, if the batch is among them.
fn determined_steps(marks: &[TrainerMark]) -> Vec<TrainerStep> {
    let mut steps: Vec<TrainerStep> = Vec::new();
    let mut open: Option<TrainerStep> = None;
    let mut train: Option<&TrainerMark> = None;
    for mark in marks {
        match mark.kind {
            TrainerMarkKind::DataloaderNext => {
                steps.extend(open.take().filter(|step| step.train_ns.is_some()));
                train = None;
                open = Some(TrainerStep {
                    is_determined: true,
                    start_ns: mark.start_ns,
                    load_end_ns: mark.end_ns,
                    loader_mark_ns: mark.dur_ns(),
                    batch_start_ns: i64::MAX,
                    ..TrainerStep::default()
                });
            }
            TrainerMarkKind::Train | TrainerMarkKind::Rest => {
                let Some(step) = &mut open else { continue };
                step.batch_start_ns = step.batch_start_ns.min(mark.start_ns);
                step.batch_ns = step.batch_ns.saturating_add(mark.dur_ns());
                if mark.kind == TrainerMarkKind::Train {
                    step.batch = mark.batch;
                    add_to_sum(&mut step.train_ns, Some(mark.dur_ns()));
                    train = Some(mark);
                }
            }
            TrainerMarkKind::TrainBackward => {
                let Some(step) = &mut open else { continue };
                // The forward pass ends where the first backward pass begins.
                if let Some(train) = train
                    && step.backward_ns.is_none()
                {
                    step.forward_ns = Some(mark.start_ns.saturating_sub(train.start_ns).max(0));
                }
                add_to_sum(&mut step.backward_ns, Some(mark.dur_ns()));
            }
            _ => {}
        }
    }
    steps.extend(open.filter(|step| step.train_ns.is_some()));
    steps
}

fn add_to_sum(sum: &mut Option<i64>, value: Option<i64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

struct StepRow {
    rank: i64,
    step: TrainerStep,
    is_loader_outlier: bool,
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = load_marks(inputs.batch("marks")?)?;
    let mut rows: Vec<StepRow> = Vec::new();
    for (&rank, marks) in &ranks {
        let steps = trainer_steps(marks);
        let waits: Vec<f64> = steps.iter().map(|step| step.loader_ns() as f64).collect();
        let rank_rows = steps.into_iter().zip(outliers(&waits));
        rows.extend(rank_rows.map(|(step, is_loader_outlier)| StepRow {
            rank,
            step,
            is_loader_outlier,
        }));
    }
    BatchBuilder::of(&rows)
        .int32("rank", |r| r.rank)
        .utf8("source", |r| Some(if r.step.is_determined { "determined" } else { "composer" }))
        .int("epoch", |r| r.step.epoch)
        .int("batch", |r| r.step.batch)
        .int("ts_ns", |r| Some(r.step.start_ns))
        .int("step_ns", |r| Some(r.step.loader_ns().saturating_add(r.step.batch_ns)))
        .int("loader_ns", |r| Some(r.step.loader_ns()))
        .int("loader_marker_ns", |r| Some(r.step.loader_mark_ns))
        .int("batch_ts_ns", |r| Some(r.step.batch_start_ns))
        .int("batch_ns", |r| Some(r.step.batch_ns))
        .int("train_batch_ns", |r| r.step.train_ns)
        .int("forward_ns", |r| r.step.forward_ns)
        .int("loss_ns", |r| r.step.loss_ns)
        .int("backward_ns", |r| r.step.backward_ns)
        .int("outside_train_batch_ns", |r| {
            r.step.train_ns.map(|train_ns| r.step.batch_ns.saturating_sub(train_ns))
        })
        .int("optimizer_ns", |r| r.step.optimizer_ns)
        .int("microbatch_count", |r| r.step.microbatch_count)
        .flag("is_loader_outlier", |r| r.is_loader_outlier)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::{TrainerMark, TrainerMarkKind, TrainerStep, trainer_steps};

    fn mark(kind: TrainerMarkKind, start_ns: i64, end_ns: i64, batch: i64) -> TrainerMark {
        TrainerMark { kind, start_ns, end_ns, epoch: Some(0), batch: Some(batch), step: None }
    }

    /// Steps of marks in the order of `load_marks`: by start, longer marks first.
    fn found(mut marks: Vec<TrainerMark>) -> Vec<TrainerStep> {
        marks.sort_by_key(|m| (m.start_ns, -m.end_ns, m.kind));
        trainer_steps(&marks)
    }

    #[test]
    fn trainer_steps_joins_loader_calls_and_batches() {
        let found = found(vec![
            // The end of an epoch: no batch.
            mark(TrainerMarkKind::Loader, 0, 5, 1),
            mark(TrainerMarkKind::Loader, 10, 30, 1),
            mark(TrainerMarkKind::Batch, 31, 90, 1),
            mark(TrainerMarkKind::Optimizer, 35, 80, 1),
            mark(TrainerMarkKind::TrainBatch, 40, 75, 1),
            mark(TrainerMarkKind::Forward, 41, 50, 1),
            mark(TrainerMarkKind::Loss, 50, 51, 1),
            mark(TrainerMarkKind::Backward, 51, 60, 1),
            mark(TrainerMarkKind::Forward, 60, 65, 1),
            mark(TrainerMarkKind::Backward, 66, 74, 1),
            // Recorded without the batch that it fetched.
            mark(TrainerMarkKind::Loader, 100, 120, 2),
            mark(TrainerMarkKind::Batch, 400, 450, 7),
            // Outside of any batch.
            mark(TrainerMarkKind::Forward, 460, 470, 7),
        ]);
        assert_eq!(
            found,
            [TrainerStep {
                epoch: Some(0),
                batch: Some(1),
                start_ns: 10,
                load_end_ns: 30,
                loader_mark_ns: 20,
                batch_start_ns: 31,
                batch_ns: 59,
                train_ns: Some(35),
                forward_ns: Some(14),
                loss_ns: Some(1),
                backward_ns: Some(17),
                optimizer_ns: Some(10),
                microbatch_count: Some(2),
                ..TrainerStep::default()
            }]
        );
    }

    /// Releases 0.7 to 0.8: the loader is a generator, and its mark stays open while the batch is trained on.
    #[test]
    fn trainer_steps_ends_a_loader_mark_where_the_batch_begins() {
        let found = found(vec![
            mark(TrainerMarkKind::Loader, 0, 100, 3),
            mark(TrainerMarkKind::Batch, 40, 95, 3),
        ]);
        assert_eq!(
            (found[0].loader_ns(), found[0].loader_mark_ns, found[0].batch_ns),
            (40, 100, 55)
        );
    }

    #[test]
    fn trainer_steps_reads_timings_of_determined() {
        let found = found(vec![
            // The recording begins within a batch.
            mark(TrainerMarkKind::Train, 0, 9, 1),
            mark(TrainerMarkKind::DataloaderNext, 10, 60, 1),
            mark(TrainerMarkKind::Rest, 61, 62, 2),
            mark(TrainerMarkKind::Train, 63, 73, 2),
            mark(TrainerMarkKind::TrainBackward, 67, 71, 2),
            mark(TrainerMarkKind::Rest, 74, 75, 2),
            // The recording ends before the next batch.
            mark(TrainerMarkKind::DataloaderNext, 80, 90, 2),
        ]);
        assert_eq!(
            found,
            [TrainerStep {
                is_determined: true,
                batch: Some(2),
                start_ns: 10,
                load_end_ns: 60,
                loader_mark_ns: 50,
                batch_start_ns: 61,
                batch_ns: 12,
                train_ns: Some(10),
                forward_ns: Some(4),
                backward_ns: Some(4),
                ..TrainerStep::default()
            }]
        );
    }
}
