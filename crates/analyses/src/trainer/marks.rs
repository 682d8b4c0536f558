//! The marks that Composer and Determined leave in a timeline, and the calls of torch that go with them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array};
use query::rust_view::Result;
use trace_model::RecordBatch;

use query::columns::{ints, names};

/// What [`load`] reads, for the list of a native view.
pub(crate) const QUERY: (&str, &str) = (
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

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Composer fetches a training batch.
    Loader,
    /// Composer's `event/batch`: a step without its loading.
    Batch,
    TrainBatch,
    Forward,
    Loss,
    Backward,
    /// Composer evaluates: `event/eval` and all in it.
    Eval,
    /// torch: `__next__` of a `DataLoader`; `true` if it loads in the process itself.
    TorchFetch(bool),
    /// torch: `Optimizer.step`.
    Optimizer,
    /// Determined, before a batch.
    DataloaderNext,
    /// Determined, within a batch: `train_batch`.
    Train,
    /// Determined, inside `train_batch`.
    TrainBackward,
    /// Determined, the other timings of a batch that do not overlap.
    Rest,
}

impl What {
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
            _ if name.starts_with("Optimizer.step") => Self::Optimizer,
            _ if name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__") => {
                Self::TorchFetch(name.contains("SingleProcess"))
            }
            _ => return None,
        })
    }
}

/// One mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) what: What,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) epoch: Option<i64>,
    pub(crate) batch: Option<i64>,
    pub(crate) step: Option<i64>,
}

impl Mark {
    pub(crate) fn dur(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The marks of each rank, by time; of those that begin together the longest first.
pub(crate) fn load(batch: &RecordBatch) -> Result<BTreeMap<i64, Vec<Mark>>> {
    let rank = ints(batch, "rank")?;
    let (start, end) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let step = ints(batch, "step")?;
    let (name, args) = (names(batch, "name")?, names(batch, "args")?);
    let mut ranks: BTreeMap<i64, Vec<Mark>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let args = args.get(row).unwrap_or_default();
        let by_determined = args.contains("\"trial\"");
        let Some(what) = What::of(name.get(row).unwrap_or_default(), by_determined) else {
            continue;
        };
        ranks.entry(rank.value(row)).or_default().push(Mark {
            what,
            start: start.value(row),
            end: end.value(row).max(start.value(row)),
            epoch: argument(args, "epoch"),
            batch: argument(args, "batch"),
            step: present(&step, row),
        });
    }
    for marks in ranks.values_mut() {
        marks.sort_by_key(|m| (m.start, Reverse(m.end), m.what));
    }
    Ok(ranks)
}

/// An integer among the arguments of an event, which are a flat JSON object: `{"epoch":0,"batch":2}`.
pub(crate) fn argument(args: &str, key: &str) -> Option<i64> {
    let mut rest = args;
    while let Some(at) = rest.find(key) {
        let (before, after) = (&rest[..at], &rest[at + key.len()..]);
        if before.ends_with('"')
            && let Some(value) = after.strip_prefix('"').map(str::trim_start)
            && let Some(value) = value.strip_prefix(':').map(str::trim_start)
        {
            let end = value.find(|c: char| !(c.is_ascii_digit() || c == '-'));
            let (digits, next) = value.split_at(end.unwrap_or(value.len()));
            let is_whole = next.trim_start().chars().next().is_none_or(|c| c == ',' || c == '}');
            return if is_whole { digits.parse().ok() } else { None };
        }
        rest = after;
    }
    None
}

fn present(column: &Int64Array, row: usize) -> Option<i64> {
    column.is_valid(row).then(|| column.value(row))
}

#[cfg(test)]
mod tests {
    use super::{What, argument};

    #[test]
    fn arguments_are_read_from_flat_json() {
        let args =
            r#"{"agent":"batch","epoch" : 3, "batch":-12,"x":1.5,"big":99999999999999999999}"#;
        assert_eq!(argument(args, "epoch"), Some(3));
        assert_eq!(argument(args, "batch"), Some(-12));
        assert_eq!(argument(args, "x"), None, "no integer");
        assert_eq!(argument(args, "big"), None, "too large");
        assert_eq!(argument(args, "trial"), None);
        assert_eq!(argument("", "batch"), None);
        assert_eq!(argument(r#"{"batch":"#, "batch"), None);
    }

    #[test]
    fn a_range_of_the_program_is_not_determined_s() {
        assert_eq!(What::of("train_batch", false), None);
        assert_eq!(What::of("train_batch", true), Some(What::Train));
        assert_eq!(What::of("event/eval_forward", false), Some(What::Eval));
        assert_eq!(What::of("event/epoch", false), None);
    }
}
