//! Marks of Composer and Determined in the timeline, and the PyTorch calls that belong to them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use trace_model::vocabulary::is_dataloader_next;

use crate::vocabulary::is_optimizer_step;
use query::columns::{get, ints, names};

/// Input query of [`load_marks`].
pub(crate) const MARKS: (&str, &str) = (
    "marks",
    "SELECT rank, name, step, ts_ns, ts_ns + dur_ns AS end_ns, args
     FROM annotations
     WHERE NOT on_device
         AND (name LIKE 'event/%' OR name LIKE 'dataloader/%' OR name LIKE 'enumerate(DataLoader)#%'
             OR name LIKE 'Optimizer.step%'
             OR name IN ('dataloader_next', 'to_device', 'train_batch', 'train_batch.backward',
                 'step_lr_schedulers', 'from_device', 'reduce_metrics'))
     UNION ALL
     SELECT rank, name, step, ts_ns, ts_ns + dur_ns, NULL
     FROM cpu_ops
     WHERE name LIKE 'enumerate(DataLoader)#%' OR name LIKE 'Optimizer.step%'",
);

/// Kind of a trainer mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TrainerMarkKind {
    /// Composer fetches a training batch.
    Loader,
    /// Composer's `event/batch`: a step without its loading.
    Batch,
    TrainBatch,
    Forward,
    Loss,
    Backward,
    /// Composer evaluates: `event/eval` and everything in it.
    Eval,
    /// PyTorch: `__next__` of a `DataLoader`; `true` if the process loads its own data.
    TorchFetch(bool),
    /// PyTorch: `Optimizer.step`.
    Optimizer,
    /// Determined, before a batch.
    DataloaderNext,
    /// Determined, within a batch: `train_batch`.
    Train,
    /// Determined, inside `train_batch`.
    TrainBackward,
    /// Determined, other timings of a batch that do not overlap.
    Rest,
}

impl TrainerMarkKind {
    fn of(name: &str, by_determined: bool) -> Option<Self> {
        Some(match name {
            "event/dataloader" | "dataloader/train" => Self::Loader,
            "event/batch" => Self::Batch,
            "event/train_batch" => Self::TrainBatch,
            "event/forward" => Self::Forward,
            "event/loss" => Self::Loss,
            "event/backward" => Self::Backward,
            "dataloader_next" if by_determined => Self::DataloaderNext,
            "train_batch" if by_determined => Self::Train,
            "train_batch.backward" if by_determined => Self::TrainBackward,
            "to_device" | "step_lr_schedulers" | "from_device" | "reduce_metrics"
                if by_determined =>
            {
                Self::Rest
            }
            _ if name.starts_with("event/eval") => Self::Eval,
            _ if is_optimizer_step(name) => Self::Optimizer,
            _ if is_dataloader_next(name) => Self::TorchFetch(name.contains("SingleProcess")),
            _ => return None,
        })
    }
}

/// A mark in the timeline of a trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrainerMark {
    pub(crate) kind: TrainerMarkKind,
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) epoch: Option<i64>,
    pub(crate) batch: Option<i64>,
    pub(crate) step: Option<i64>,
}

impl TrainerMark {
    pub(crate) fn dur_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The marks of each rank, by start; of marks that begin together, the longest comes first.
pub(crate) fn load_marks(batch: &RecordBatch) -> Result<BTreeMap<i64, Vec<TrainerMark>>> {
    let rank = ints(batch, "rank")?;
    let (start_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let step = ints(batch, "step")?;
    let (name, args) = (names(batch, "name")?, names(batch, "args")?);
    let mut ranks: BTreeMap<i64, Vec<TrainerMark>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let args = args.get(row).unwrap_or_default();
        let by_determined = args.contains("\"trial\"");
        let Some(kind) = TrainerMarkKind::of(name.get(row).unwrap_or_default(), by_determined)
        else {
            continue;
        };
        ranks.entry(rank.value(row)).or_default().push(TrainerMark {
            kind,
            start_ns: start_ns.value(row),
            end_ns: end_ns.value(row).max(start_ns.value(row)),
            epoch: int_argument(args, "epoch"),
            batch: int_argument(args, "batch"),
            step: get(&step, row),
        });
    }
    for marks in ranks.values_mut() {
        marks.sort_by_key(|m| (m.start_ns, Reverse(m.end_ns), m.kind));
    }
    Ok(ranks)
}

/// An integer argument of an event. Arguments are a flat JSON object: `{"epoch":0,"batch":2}`.
pub(crate) fn int_argument(args: &str, key: &str) -> Option<i64> {
    let mut rest = args;
    while let Some(at) = rest.find(key) {
        let (before, after) = (&rest[..at], &rest[at + key.len()..]);
        if before.ends_with('"')
            && let Some(value) = after.strip_prefix('"').map(str::trim_start)
            && let Some(value) = value.strip_prefix(':').map(str::trim_start)
        {
            let digits_end = value.find(|c: char| !(c.is_ascii_digit() || c == '-'));
            let (digits, next) = value.split_at(digits_end.unwrap_or(value.len()));
            let is_whole = next.trim_start().chars().next().is_none_or(|c| c == ',' || c == '}');
            return if is_whole { digits.parse().ok() } else { None };
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{TrainerMarkKind, int_argument};

    #[test]
    fn int_argument_reads_flat_json() {
        let args =
            r#"{"agent":"batch","epoch" : 3, "batch":-12,"x":1.5,"big":99999999999999999999}"#;
        assert_eq!(int_argument(args, "epoch"), Some(3));
        assert_eq!(int_argument(args, "batch"), Some(-12));
        assert_eq!(int_argument(args, "x"), None, "not an integer");
        assert_eq!(int_argument(args, "big"), None, "too large");
        assert_eq!(int_argument(args, "trial"), None);
        assert_eq!(int_argument("", "batch"), None);
        assert_eq!(int_argument(r#"{"batch":"#, "batch"), None);
    }

    #[test]
    fn kind_of_determined_marks_needs_the_trial_argument() {
        assert_eq!(TrainerMarkKind::of("train_batch", false), None);
        assert_eq!(TrainerMarkKind::of("train_batch", true), Some(TrainerMarkKind::Train));
        assert_eq!(TrainerMarkKind::of("event/eval_forward", false), Some(TrainerMarkKind::Eval));
        assert_eq!(TrainerMarkKind::of("event/epoch", false), None);
    }
}
