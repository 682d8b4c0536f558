//! `loader_fetches` and `loader_fetches_by_step`: the calls that fetched the batches to train on.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::pattern::{Fetch, Findings, Pattern, median};
use crate::trainer::marks::{self, Mark, What};
use crate::trainer::steps::{Step, steps};
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[marks::QUERY];

/// A pause of the loop longer than this many usual ones hides how many batches went by, where nothing
/// numbers them.
const PAUSE_TIMES: f64 = 10.0;

/// A fetch with what the marks around it say.
#[derive(Debug, Clone, Copy)]
struct Call {
    fetch: Fetch,
    batch: Option<i64>,
    /// What the batch took, as far as it is known.
    took: Option<i64>,
}

/// The fetches of one rank.
struct Rank {
    number: i64,
    source: &'static str,
    /// The name of torch's iterator says that it loads in the process itself.
    in_process: bool,
    calls: Vec<Call>,
    found: Findings,
}

fn read(inputs: &ViewInputs<'_>) -> Result<Vec<Rank>> {
    let ranks = marks::load(inputs.batch("marks")?)?;
    let rank = |(number, marks): (i64, Vec<Mark>)| {
        let (source, calls) = calls(&marks);
        let fetches: Vec<Fetch> = calls.iter().map(|call| call.fetch).collect();
        let in_process = source == "torch"
            && marks.iter().any(|m| m.what == What::TorchFetch(true))
            && !marks.iter().any(|m| m.what == What::TorchFetch(false));
        Rank { number, source, in_process, found: Findings::of(&fetches), calls }
    };
    Ok(ranks.into_iter().map(rank).filter(|rank| !rank.calls.is_empty()).collect())
}

/// torch's own ranges where it recorded them: a mark around them may hold more than the fetch.
fn calls(marks: &[Mark]) -> (&'static str, Vec<Call>) {
    let of_torch = torch(marks);
    if !of_torch.is_empty() {
        return ("torch", of_torch);
    }
    let steps = steps(marks);
    match steps.first() {
        Some(step) if step.is_determined => ("determined", determined(marks, &steps)),
        Some(_) => ("composer", composer(&steps)),
        None => ("determined", determined(marks, &steps)),
    }
}

fn composer(steps: &[Step]) -> Vec<Call> {
    let mut last: Option<(Option<i64>, Option<i64>)> = None;
    let call = |step: &Step| {
        let this = (step.epoch, step.batch);
        let follows = last.is_some_and(|(epoch, batch)| {
            epoch == step.epoch
                && batch.zip(step.batch).is_none_or(|(a, b)| a.checked_add(1) == Some(b))
        });
        last = Some(this);
        Call {
            fetch: Fetch { start: step.start, end: step.loaded, follows },
            batch: step.batch,
            took: Some(step.batch_dur),
        }
    };
    steps.iter().map(call).collect()
}

/// The last fetch may lack its batch.
fn determined(marks: &[Mark], steps: &[Step]) -> Vec<Call> {
    let mut last: Option<i64> = None;
    let mut steps = steps.iter().peekable();
    let fetches = marks.iter().filter(|m| m.what == What::DataloaderNext);
    let call = |mark: &Mark| {
        let follows = last.zip(mark.batch).is_some_and(|(a, b)| a.checked_add(1) == Some(b));
        last = mark.batch;
        let step = steps.next_if(|step| step.start == mark.start);
        Call {
            fetch: Fetch { start: mark.start, end: mark.end, follows },
            batch: step.and_then(|step| step.batch),
            took: step.map(|step| step.batch_dur),
        }
    };
    fetches.map(call).collect()
}

/// Calls outside of evaluation. Steps number them; where there are none, long pauses part them.
fn torch(marks: &[Mark]) -> Vec<Call> {
    let mut evaluating_until = i64::MIN;
    let mut fetches: Vec<&Mark> = Vec::new();
    for mark in marks {
        match mark.what {
            What::Eval => evaluating_until = evaluating_until.max(mark.end),
            What::TorchFetch(_) if mark.start >= evaluating_until => fetches.push(mark),
            _ => {}
        }
    }
    let pauses = fetches.windows(2).map(|pair| (pair[1].start - pair[0].end) as f64);
    let limit = median(pauses.collect()).map_or(f64::INFINITY, |usual| PAUSE_TIMES * usual);
    let follows = |k: usize| {
        let Some(last) = k.checked_sub(1).map(|i| fetches[i]) else { return false };
        match last.step.zip(fetches[k].step) {
            Some((a, b)) => a == b || a.checked_add(1) == Some(b),
            None => (fetches[k].start - last.end) as f64 <= limit,
        }
    };
    (0..fetches.len())
        .map(|k| Call {
            fetch: Fetch { start: fetches[k].start, end: fetches[k].end, follows: follows(k) },
            batch: None,
            took: fetches
                .get(k + 1)
                .filter(|_| follows(k + 1))
                .map(|next| next.start - fetches[k].end),
        })
        .collect()
}

/// `loader_fetches_by_step`.
pub(super) fn by_step(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = read(inputs)?;
    let rows: Vec<(&Rank, usize)> =
        ranks.iter().flat_map(|r| (0..r.calls.len()).map(move |i| (r, i))).collect();
    let ints = |of: fn(&Call) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(r, i)| of(&r.calls[*i])).collect::<Int64Array>())
    };
    let flags = |of: fn(&Findings) -> &[bool]| -> ArrayRef {
        Arc::new(rows.iter().map(|(r, i)| Some(of(&r.found)[*i])).collect::<BooleanArray>())
    };
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|(r, _)| Some(r.number as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("source", Arc::new(rows.iter().map(|(r, _)| Some(r.source)).collect::<StringArray>())),
        ("batch", ints(|c| c.batch)),
        ("ts_ns", ints(|c| Some(c.fetch.start))),
        ("wait_ns", ints(|c| Some(c.fetch.end - c.fetch.start))),
        ("batch_ns", ints(|c| c.took)),
        (
            "follows_previous",
            Arc::new(
                rows.iter().map(|(r, i)| Some(r.calls[*i].fetch.follows)).collect::<BooleanArray>(),
            ),
        ),
        ("is_late", flags(|f| &f.late)),
        ("is_outlier", flags(|f| &f.outliers)),
    ])?)
}

/// Sums and middle values of one rank's fetches.
struct Summary {
    wait: i64,
    waits: Vec<f64>,
    took: Vec<f64>,
    share: Option<f64>,
    median_share: Option<f64>,
    share_without_largest: Option<f64>,
}

impl Summary {
    /// Shares are of the fetches whose batch is known.
    fn of(calls: &[Call]) -> Self {
        let wait = |call: &Call| call.fetch.end - call.fetch.start;
        let mut waits: Vec<f64> = calls.iter().map(|c| wait(c) as f64).collect();
        waits.sort_by(f64::total_cmp);
        let whole: Vec<(i64, i64)> =
            calls.iter().filter_map(|call| Some((wait(call), call.took?))).collect();
        let (waited, took) = whole.iter().fold((0, 0), |(w, t), &(a, b)| (w + a, t + b));
        let share =
            |wait: i64, took: i64| (wait + took > 0).then(|| wait as f64 / (wait + took) as f64);
        let largest = whole.iter().copied().max_by_key(|&(wait, _)| wait);
        let batch: Vec<f64> = whole.iter().map(|&(_, took)| took as f64).collect();
        let medians =
            median(whole.iter().map(|&(w, _)| w as f64).collect()).zip(median(batch.clone()));
        Self {
            wait: calls.iter().map(wait).sum(),
            share: share(waited, took),
            median_share: medians.filter(|&(w, b)| w + b > 0.0).map(|(w, b)| w / (w + b)),
            share_without_largest: largest
                .filter(|_| whole.len() > 1)
                .and_then(|(w, t)| share(waited - w, took - t)),
            took: batch,
            waits,
        }
    }

    fn quantile(&self, quantile: f64) -> Option<f64> {
        let last = self.waits.len().checked_sub(1)?;
        let at = last as f64 * quantile;
        let (low, part) = (at as usize, at.fract());
        let next = self.waits[(low + 1).min(last)];
        Some(self.waits[low] + (next - self.waits[low]) * part)
    }
}

/// How many workers of that speed make a batch in the time that a step computes.
fn needed(load: f64, compute: f64) -> Option<i64> {
    // Less than a part in a hundred too slow is noise.
    (compute > 0.0).then(|| ((load / compute - 0.01).ceil() as i64).max(1))
}

/// `loader_fetches`.
pub(super) fn by_rank(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = read(inputs)?;
    let sums: Vec<Summary> = ranks.iter().map(|r| Summary::of(&r.calls)).collect();
    let rows: Vec<(&Rank, &Summary)> = ranks.iter().zip(&sums).collect();
    let ints = |of: &dyn Fn(&Rank, &Summary) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(r, s)| of(r, s)).collect::<Int64Array>())
    };
    let floats = |of: &dyn Fn(&Rank, &Summary) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(r, s)| of(r, s)).collect::<Float64Array>())
    };
    let count = |flags: &[bool]| Some(flags.iter().filter(|&&f| f).count() as i64);
    // A process that loads for itself has no workers, whatever recurs.
    let workers = |r: &Rank| r.found.period.filter(|_| !r.in_process);
    let load = |r: &Rank| workers(r).and(r.found.worker_batch);
    let needs = |r: &Rank| needed(load(r)?, r.found.compute?);
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|(r, _)| Some(r.number as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("source", Arc::new(rows.iter().map(|(r, _)| Some(r.source)).collect::<StringArray>())),
        ("fetch_count", ints(&|r, _| Some(r.calls.len() as i64))),
        ("wait_ns", ints(&|_, s| Some(s.wait))),
        ("wait_mean_ns", floats(&|r, s| Some(s.wait as f64 / r.calls.len() as f64))),
        ("wait_median_ns", floats(&|_, s| s.quantile(0.5))),
        ("wait_p95_ns", floats(&|_, s| s.quantile(0.95))),
        ("wait_max_ns", ints(&|_, s| s.waits.last().map(|&wait| wait as i64))),
        ("batch_median_ns", floats(&|_, s| median(s.took.clone()))),
        ("wait_ratio", floats(&|_, s| s.share)),
        ("wait_median_ratio", floats(&|_, s| s.median_share)),
        ("wait_without_largest_ratio", floats(&|_, s| s.share_without_largest)),
        ("late_count", ints(&|r, _| count(&r.found.late))),
        ("outlier_count", ints(&|r, _| count(&r.found.outliers))),
        (
            "pattern",
            Arc::new(
                rows.iter()
                    .map(|(r, _)| r.found.pattern.map(Pattern::as_str))
                    .collect::<StringArray>(),
            ),
        ),
        ("fetch_period", ints(&|r, _| r.found.period.map(|p| p as i64))),
        ("worker_count", ints(&|r, _| workers(r).map(|p| p as i64))),
        ("worker_batch_ns", floats(&|r, _| load(r))),
        ("delivery_ns", floats(&|r, _| Some(load(r)? / workers(r)? as f64))),
        ("compute_ns", floats(&|r, _| r.found.compute)),
        ("workers_needed_count", ints(&|r, _| needs(r))),
        ("workers_more_count", ints(&|r, _| Some((needs(r)? - workers(r)? as i64).max(0)))),
        (
            "workers_if_single_count",
            ints(&|r, s| {
                let single = r.in_process || r.found.pattern == Some(Pattern::Even);
                needed(s.quantile(0.5).filter(|_| single)?, r.found.compute?)
            }),
        ),
    ])?)
}
