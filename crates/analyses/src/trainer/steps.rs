//! `trainer_steps`: the steps that Composer's and Determined's marks tell of, with what they are made of.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::marks::{self, Mark, What};
use crate::loader::pattern::outliers;
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[marks::QUERY];

/// A step: the call of the loader that fetched its batch, and the batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) is_determined: bool,
    pub(crate) epoch: Option<i64>,
    pub(crate) batch: Option<i64>,
    /// Start of the loader's call.
    pub(crate) start: i64,
    /// End of the wait for the loader.
    pub(crate) loaded: i64,
    /// Length of the loader's mark, which in some releases of Composer goes on to the end of the batch.
    pub(crate) loader_mark: i64,
    /// Start of the batch.
    pub(crate) batch_start: i64,
    /// What the batch takes: without the moments between marks.
    pub(crate) batch_dur: i64,
    pub(crate) train: Option<i64>,
    pub(crate) forward: Option<i64>,
    pub(crate) loss: Option<i64>,
    pub(crate) backward: Option<i64>,
    pub(crate) optimizer: Option<i64>,
    pub(crate) microbatches: Option<i64>,
}

impl Step {
    pub(crate) fn loader(&self) -> i64 {
        self.loaded.saturating_sub(self.start)
    }
}

/// The steps of one rank, by time.
pub(crate) fn steps(marks: &[Mark]) -> Vec<Step> {
    let mut steps = composer(marks);
    if steps.is_empty() {
        steps = determined(marks);
    }
    steps
}

/// A call of the loader, and the `event/batch` that follows it before the next call does: the last call of
/// an epoch fetches nothing.
fn composer(marks: &[Mark]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut loader: Option<&Mark> = None;
    let mut until = i64::MIN;
    let mut optimizers: Vec<(i64, i64)> = Vec::new();
    for mark in marks {
        let dur = Some(mark.dur());
        match mark.what {
            What::Loader => loader = Some(mark),
            What::Batch => {
                until = i64::MIN;
                let same =
                    |l: &&Mark| l.batch.is_none() || mark.batch.is_none() || l.batch == mark.batch;
                let Some(call) = loader.take().filter(same) else { continue };
                until = mark.end;
                steps.push(Step {
                    epoch: mark.epoch,
                    batch: mark.batch,
                    start: call.start,
                    loaded: call.end.min(mark.start),
                    loader_mark: call.dur(),
                    batch_start: mark.start,
                    batch_dur: mark.dur(),
                    ..Step::default()
                });
            }
            What::TrainBatch | What::Forward | What::Loss | What::Backward | What::Optimizer
                if mark.end <= until =>
            {
                let Some(step) = steps.last_mut() else { continue };
                match mark.what {
                    What::Optimizer => {
                        add(&mut step.optimizer, dur);
                        optimizers.push((mark.start, mark.end));
                    }
                    What::TrainBatch => {
                        add(&mut step.train, dur);
                        // The optimizer calls the model: its own time is what is left.
                        let within = optimizers
                            .last()
                            .is_some_and(|&(start, end)| start <= mark.start && mark.end <= end);
                        if within {
                            add(&mut step.optimizer, Some(-mark.dur()));
                        }
                    }
                    What::Forward => {
                        add(&mut step.forward, dur);
                        add(&mut step.microbatches, Some(1));
                    }
                    What::Loss => add(&mut step.loss, dur),
                    _ => add(&mut step.backward, dur),
                }
            }
            _ => {}
        }
    }
    steps
}

/// A `dataloader_next` and all timings up to the next one, if the batch is among them.
fn determined(marks: &[Mark]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<Step> = None;
    let mut train: Option<&Mark> = None;
    for mark in marks {
        match mark.what {
            What::DataloaderNext => {
                steps.extend(open.take().filter(|step| step.train.is_some()));
                train = None;
                open = Some(Step {
                    is_determined: true,
                    start: mark.start,
                    loaded: mark.end,
                    loader_mark: mark.dur(),
                    batch_start: i64::MAX,
                    ..Step::default()
                });
            }
            What::Train | What::Rest => {
                let Some(step) = &mut open else { continue };
                step.batch_start = step.batch_start.min(mark.start);
                step.batch_dur = step.batch_dur.saturating_add(mark.dur());
                if mark.what == What::Train {
                    step.batch = mark.batch;
                    add(&mut step.train, Some(mark.dur()));
                    train = Some(mark);
                }
            }
            What::TrainBackward => {
                let Some(step) = &mut open else { continue };
                // Where the first backward pass begins, forward ends.
                if let Some(train) = train
                    && step.backward.is_none()
                {
                    step.forward = Some(mark.start.saturating_sub(train.start).max(0));
                }
                add(&mut step.backward, Some(mark.dur()));
            }
            _ => {}
        }
    }
    steps.extend(open.filter(|step| step.train.is_some()));
    steps
}

fn add(sum: &mut Option<i64>, value: Option<i64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = marks::load(inputs.batch("marks")?)?;
    let mut rows: Vec<(i64, Step)> = Vec::new();
    let mut slow: Vec<bool> = Vec::new();
    for (&rank, marks) in &ranks {
        let steps = steps(marks);
        let waits: Vec<f64> = steps.iter().map(|step| step.loader() as f64).collect();
        slow.extend(outliers(&waits));
        rows.extend(steps.into_iter().map(|step| (rank, step)));
    }
    let ints = |of: fn(&Step) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, step)| of(step)).collect::<Int64Array>())
    };
    let source =
        |(_, step): &(i64, Step)| Some(if step.is_determined { "determined" } else { "composer" });
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|&(rank, _)| Some(rank as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("source", Arc::new(rows.iter().map(source).collect::<StringArray>())),
        ("epoch", ints(|s| s.epoch)),
        ("batch", ints(|s| s.batch)),
        ("ts_ns", ints(|s| Some(s.start))),
        ("step_ns", ints(|s| Some(s.loader().saturating_add(s.batch_dur)))),
        ("loader_ns", ints(|s| Some(s.loader()))),
        ("loader_marker_ns", ints(|s| Some(s.loader_mark))),
        ("batch_ts_ns", ints(|s| Some(s.batch_start))),
        ("batch_ns", ints(|s| Some(s.batch_dur))),
        ("train_batch_ns", ints(|s| s.train)),
        ("forward_ns", ints(|s| s.forward)),
        ("loss_ns", ints(|s| s.loss)),
        ("backward_ns", ints(|s| s.backward)),
        (
            "outside_train_batch_ns",
            ints(|s| s.train.map(|train| s.batch_dur.saturating_sub(train))),
        ),
        ("optimizer_ns", ints(|s| s.optimizer)),
        ("microbatch_count", ints(|s| s.microbatches)),
        ("is_loader_outlier", Arc::new(BooleanArray::from(slow))),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::{Mark, Step, What, steps};

    fn mark(what: What, start: i64, end: i64, batch: i64) -> Mark {
        Mark { what, start, end, epoch: Some(0), batch: Some(batch), step: None }
    }

    /// Marks as they come from the loader: by time, the longer one first.
    fn found(mut marks: Vec<Mark>) -> Vec<Step> {
        marks.sort_by_key(|m| (m.start, -m.end, m.what));
        steps(&marks)
    }

    #[test]
    fn a_step_is_a_call_of_the_loader_and_the_batch_it_fetched() {
        let found = found(vec![
            // The end of an epoch: no batch.
            mark(What::Loader, 0, 5, 1),
            mark(What::Loader, 10, 30, 1),
            mark(What::Batch, 31, 90, 1),
            mark(What::Optimizer, 35, 80, 1),
            mark(What::TrainBatch, 40, 75, 1),
            mark(What::Forward, 41, 50, 1),
            mark(What::Loss, 50, 51, 1),
            mark(What::Backward, 51, 60, 1),
            mark(What::Forward, 60, 65, 1),
            mark(What::Backward, 66, 74, 1),
            // Recorded without the batch that it fetched.
            mark(What::Loader, 100, 120, 2),
            mark(What::Batch, 400, 450, 7),
            // Outside of any batch.
            mark(What::Forward, 460, 470, 7),
        ]);
        assert_eq!(
            found,
            [Step {
                epoch: Some(0),
                batch: Some(1),
                start: 10,
                loaded: 30,
                loader_mark: 20,
                batch_start: 31,
                batch_dur: 59,
                train: Some(35),
                forward: Some(14),
                loss: Some(1),
                backward: Some(17),
                optimizer: Some(10),
                microbatches: Some(2),
                ..Step::default()
            }]
        );
    }

    /// Releases 0.7 to 0.8: the loader is a generator, and its mark stays open while the batch is trained on.
    #[test]
    fn a_loader_mark_around_the_batch_ends_where_the_batch_begins() {
        let found = found(vec![mark(What::Loader, 0, 100, 3), mark(What::Batch, 40, 95, 3)]);
        assert_eq!((found[0].loader(), found[0].loader_mark, found[0].batch_dur), (40, 100, 55));
    }

    #[test]
    fn determined_s_timings_follow_the_call_of_the_loader() {
        let found = found(vec![
            // The recording begins within a batch.
            mark(What::Train, 0, 9, 1),
            mark(What::DataloaderNext, 10, 60, 1),
            mark(What::Rest, 61, 62, 2),
            mark(What::Train, 63, 73, 2),
            mark(What::TrainBackward, 67, 71, 2),
            mark(What::Rest, 74, 75, 2),
            // And ends before one.
            mark(What::DataloaderNext, 80, 90, 2),
        ]);
        assert_eq!(
            found,
            [Step {
                is_determined: true,
                batch: Some(2),
                start: 10,
                loaded: 60,
                loader_mark: 50,
                batch_start: 61,
                batch_dur: 12,
                train: Some(10),
                forward: Some(4),
                backward: Some(4),
                ..Step::default()
            }]
        );
    }
}
