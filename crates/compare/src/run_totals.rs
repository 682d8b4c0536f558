//! One of the two runs: its steps, and its totals by name.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use trace_model::RecordBatch;

use crate::level::Level;
use crate::matching::Key;
use crate::names;
use crate::options::{SideOptions, Steps};
use query::Session;
use query::{Error, Result};

/// A step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepTime {
    pub(super) rank: i32,
    pub(super) step: i64,
    /// Marked by the profiler or the optimizer; else the whole recording stands for it.
    pub(super) is_marked: bool,
    /// Until host and device are done with it.
    pub(super) dur_ns: i64,
    /// On the host.
    pub(super) host_ns: i64,
}

/// Which steps count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those whose device work was recorded to its end.
    Complete,
    /// All that were recorded.
    Recorded,
}

/// The steps of a run that are compared, in order of rank and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) ranks: Vec<i32>,
    pub(super) steps: Vec<StepTime>,
    /// All steps of the ranks are among them.
    pub(super) is_everything: bool,
    /// Ranks left out because they have no steps, though others have.
    pub(super) without_steps: Vec<i32>,
}

impl Chosen {
    pub(super) fn is_marked(&self) -> bool {
        self.steps.iter().any(|s| s.is_marked)
    }

    /// Mean over steps and ranks.
    pub(super) fn mean(&self, value: impl Fn(&StepTime) -> i64) -> f64 {
        let sum: f64 = self.steps.iter().map(|s| value(s) as f64).sum();
        sum / self.steps.len().max(1) as f64
    }

    pub(super) fn median_ns(&self) -> f64 {
        let mut times: Vec<i64> = self.steps.iter().map(|s| s.dur_ns).collect();
        median(&mut times)
    }

    /// Steps of the rank that has most.
    pub(super) fn steps_per_rank(&self) -> usize {
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        for step in self.steps.iter().filter(|s| s.is_marked) {
            *counts.entry(step.rank).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Positions of the steps by rank and number.
    pub(super) fn positions(&self) -> BTreeMap<(i32, i64), usize> {
        self.steps.iter().enumerate().map(|(at, s)| ((s.rank, s.step), at)).collect()
    }
}

pub(super) fn median(values: &mut [i64]) -> f64 {
    values.sort_unstable();
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2] as f64,
        n => f64::midpoint(values[n / 2 - 1] as f64, values[n / 2] as f64),
    }
}

/// The ranks of a run.
pub(super) fn ranks(session: &Session) -> Result<Vec<i32>> {
    let mut ranks = Vec::new();
    for batch in session.sql("SELECT rank FROM ranks ORDER BY rank")? {
        ranks.extend(ints(&batch, "rank")?.values().iter().map(|&r| r as i32));
    }
    Ok(ranks)
}

/// The steps that a selection means. `side` is `before` or `after`, for errors; `ranks` are those to
/// choose from if the selection does not name any.
pub(super) fn choose(
    session: &Session,
    side: &str,
    selection: &SideOptions,
    ranks: &[i32],
    which: Which,
) -> Result<Chosen> {
    let mut all = steps(session, which)?;
    let known: BTreeSet<i32> = all.iter().map(|s| s.rank).collect();
    let mut ranks = match &selection.ranks {
        None => ranks.to_vec(),
        Some(wanted) => {
            if let Some(missing) = wanted.iter().find(|r| !known.contains(r)) {
                let there: Vec<String> = known.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
                return Err(Error::Selection(format!(
                    "the run {side} has no rank {missing}; it has {there}"
                )));
            }
            wanted.clone()
        }
    };
    ranks.retain(|r| known.contains(r));
    ranks.sort_unstable();
    ranks.dedup();
    all.retain(|s| ranks.contains(&s.rank));
    let mut without_steps = Vec::new();
    if all.iter().any(|s| s.is_marked) {
        without_steps = all.iter().filter(|s| !s.is_marked).map(|s| s.rank).collect();
        all.retain(|s| s.is_marked);
        ranks.retain(|r| !without_steps.contains(r));
    }
    let count = all.len();
    let numbers: BTreeSet<i64> = all.iter().map(|s| s.step).collect();
    match &selection.steps {
        Steps::All => {}
        Steps::First => {
            let mut first: BTreeMap<i32, i64> = BTreeMap::new();
            for step in &all {
                let at = first.entry(step.rank).or_insert(step.step);
                *at = step.step.min(*at);
            }
            all.retain(|s| first.get(&s.rank) == Some(&s.step));
        }
        steps @ Steps::Numbers(ranges) => {
            for &(from, to) in ranges {
                if numbers.range(from..=to).next().is_none() {
                    let there: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                    let wanted = match (from, to) {
                        (from, to) if from == to => format!("step {from}"),
                        (from, i64::MAX) => format!("step from {from} on"),
                        (from, to) => format!("step from {from} to {to}"),
                    };
                    let complete = if which == Which::Complete { "complete " } else { "" };
                    return Err(Error::Selection(format!(
                        "the run {side} has no {complete}{wanted}; it has {}",
                        there.join(", ")
                    )));
                }
            }
            all.retain(|s| steps.contains(s.step));
        }
    }
    if all.is_empty() {
        return Err(Error::Selection(format!("the run {side} has no events to compare")));
    }
    Ok(Chosen { ranks, is_everything: all.len() == count, steps: all, without_steps })
}

fn steps(session: &Session, which: Which) -> Result<Vec<StepTime>> {
    let query = match which {
        Which::Complete => {
            "SELECT rank, step, source <> 'trace' AS is_marked, dur_ns, host_end_ns - host_ts_ns AS host_ns \
             FROM device_steps ORDER BY rank, host_ts_ns, step"
        }
        Which::Recorded => {
            "SELECT rank, step, source <> 'trace' AS is_marked, dur_ns, dur_ns AS host_ns \
             FROM steps ORDER BY rank, ts_ns, step"
        }
    };
    let mut steps = Vec::new();
    for batch in session.sql(query)? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        let (dur, host) = (ints(&batch, "dur_ns")?, ints(&batch, "host_ns")?);
        let marked = column(&batch, "is_marked", &DataType::Int64)?;
        let marked = marked.as_primitive::<Int64Type>();
        steps.extend((0..batch.num_rows()).map(|i| StepTime {
            rank: rank.value(i) as i32,
            step: step.value(i),
            is_marked: marked.value(i) != 0,
            dur_ns: dur.value(i),
            host_ns: host.value(i),
        }));
    }
    Ok(steps)
}

/// What one name amounts to, over all steps that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: i64,
    pub(super) dur_ns: i64,
    pub(super) self_ns: i64,
    pub(super) step_ns: i64,
    pub(super) device_ns: i64,
    /// Calls among `count` whose launch is not in the trace, and their duration.
    pub(super) unlinked: (i64, i64),
    /// Duration by position of the step, where there is any.
    by_step: BTreeMap<usize, i64>,
}

impl Sums {
    /// Median duration over `steps` steps, those without it counting as zero.
    pub(super) fn median_ns(&self, steps: usize) -> f64 {
        let mut values: Vec<i64> = self.by_step.values().copied().collect();
        values.resize(steps.max(values.len()), 0);
        median(&mut values)
    }

    /// Standard error of the mean duration over `steps` steps, those without it counting as zero; 0 for one.
    pub(super) fn error_ns(&self, steps: usize) -> f64 {
        let count = steps.max(self.by_step.len()) as f64;
        if count < 2.0 {
            return 0.0;
        }
        let values = || self.by_step.values().map(|ns| *ns as f64);
        let mean = values().sum::<f64>() / count;
        let without = (count - self.by_step.len() as f64) * mean * mean;
        let squares = values().map(|ns| (ns - mean).powi(2)).sum::<f64>() + without;
        (squares / (count - 1.0) / count).sqrt()
    }
}

/// How names are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) short_names: bool,
    /// As written, step numbers and addresses included.
    pub(super) as_written: bool,
    /// Everything counts, whatever its step; the position is then that of the rank.
    pub(super) whole_recording: bool,
}

/// Totals by name over the chosen steps.
pub(super) fn names(
    session: &Session,
    chosen: &Chosen,
    reading: Reading,
) -> Result<BTreeMap<Key, Sums>> {
    let positions = chosen.positions();
    let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
    for batch in session.analyze("diff_names")? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        let (level, name) = (texts(&batch, "level")?, texts(&batch, "name")?);
        let (count, dur) = (ints(&batch, "event_count")?, ints(&batch, "dur_ns")?);
        let (own, part) = (ints(&batch, "self_ns")?, ints(&batch, "step_ns")?);
        let device = ints(&batch, "device_ns")?;
        let unlinked = (ints(&batch, "unlinked_count")?, ints(&batch, "unlinked_ns")?);
        for i in 0..batch.num_rows() {
            let rank = rank.value(i) as i32;
            let position = if reading.whole_recording {
                chosen.ranks.iter().position(|&r| r == rank)
            } else if step.is_null(i) {
                None
            } else {
                positions.get(&(rank, step.value(i))).copied()
            };
            let (Some(position), Some(level)) = (position, Level::parse(level.value(i))) else {
                continue;
            };
            let mut text = std::borrow::Cow::Borrowed(name.value(i));
            if !reading.as_written {
                text = names::canonical(level, name.value(i));
            }
            // HTA shortens whatever it is given; names of ranges and frames are not C++, though.
            if reading.short_names && (reading.as_written || level == Level::Kernel) {
                text = names::short(&text).into_owned().into();
            }
            let sum = sums.entry((level, text.into_owned())).or_default();
            add(&mut sum.count, count.value(i));
            add(&mut sum.dur_ns, dur.value(i));
            add(&mut sum.self_ns, own.value(i));
            add(&mut sum.step_ns, part.value(i));
            add(&mut sum.device_ns, device.value(i));
            add(&mut sum.unlinked.0, unlinked.0.value(i));
            add(&mut sum.unlinked.1, unlinked.1.value(i));
            if dur.value(i) != 0 {
                add(sum.by_step.entry(position).or_default(), dur.value(i));
            }
        }
    }
    Ok(sums)
}

/// Durations in a trace may be nonsense; their sum is no reason to stop.
fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

/// A column, as `to`.
fn column(batch: &RecordBatch, name: &str, to: &DataType) -> Result<ArrayRef> {
    let array = batch.column_by_name(name).ok_or_else(|| {
        Error::Query(query::view_error!("the result has no column `{name}`").into())
    })?;
    cast(array, to).map_err(|e| Error::Query(e.into()))
}

pub(super) fn ints(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    Ok(column(batch, name, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

pub(super) fn floats(batch: &RecordBatch, name: &str) -> Result<Float64Array> {
    Ok(column(batch, name, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

pub(super) fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    Ok(column(batch, name, &DataType::Utf8)?.as_string::<i32>().clone())
}
