//! `loader_fetches` and `loader_fetches_by_step`: the fetches of training batches.

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::pattern::{Fetch, FetchAnalysis, WaitPattern};
use crate::statistics::median;
use crate::trainer::marks::{MARKS, TrainerMark, TrainerMarkKind, load_marks};
use crate::trainer::steps::{TrainerStep, trainer_steps};
use query::BatchBuilder;
use query::rust_view::ViewInputs;

pub(super) const INPUTS: &[(&str, &str)] = &[MARKS];

/// If batches are not numbered, a pause this many times longer than the median pause may hide any number of batches.
const PAUSE_FACTOR: f64 = 10.0;

/// A fetch with what the marks around it record.
#[derive(Debug, Clone, Copy)]
struct FetchRecord {
    fetch: Fetch,
    batch: Option<i64>,
    /// Duration of the batch, if known.
    batch_ns: Option<i64>,
}

impl FetchRecord {
    fn wait_ns(&self) -> i64 {
        self.fetch.end_ns - self.fetch.start_ns
    }
}

/// The fetches of one rank.
struct RankFetches {
    rank: i64,
    source: &'static str,
    /// The name of PyTorch's iterator shows that the process loads its own data.
    loads_in_process: bool,
    records: Vec<FetchRecord>,
    analysis: FetchAnalysis,
}

fn load_ranks(inputs: &ViewInputs<'_>) -> Result<Vec<RankFetches>> {
    let ranks = load_marks(inputs.batch("marks")?)?;
    let rank = |(rank, marks): (i64, Vec<TrainerMark>)| {
        let (source, records) = fetch_records(&marks);
        let fetches: Vec<Fetch> = records.iter().map(|record| record.fetch).collect();
        let loads_in_process = source == "torch"
            && marks.iter().any(|m| m.kind == TrainerMarkKind::TorchFetch(true))
            && !marks.iter().any(|m| m.kind == TrainerMarkKind::TorchFetch(false));
        RankFetches {
            rank,
            source,
            loads_in_process,
            analysis: FetchAnalysis::of(&fetches),
            records,
        }
    };
    Ok(ranks.into_iter().map(rank).filter(|rank| !rank.records.is_empty()).collect())
}

/// PyTorch's own ranges are preferred if recorded: a trainer's mark around them may contain more than the fetch.
fn fetch_records(marks: &[TrainerMark]) -> (&'static str, Vec<FetchRecord>) {
    let torch_records = torch_fetches(marks);
    if !torch_records.is_empty() {
        return ("torch", torch_records);
    }
    let steps = trainer_steps(marks);
    match steps.first() {
        Some(step) if step.is_determined => ("determined", determined_fetches(marks, &steps)),
        Some(_) => ("composer", composer_fetches(&steps)),
        None => ("determined", determined_fetches(marks, &steps)),
    }
}

fn composer_fetches(steps: &[TrainerStep]) -> Vec<FetchRecord> {
    let mut last: Option<(Option<i64>, Option<i64>)> = None;
    let record = |step: &TrainerStep| {
        let this = (step.epoch, step.batch);
        let follows = last.is_some_and(|(epoch, batch)| {
            epoch == step.epoch
                && batch.zip(step.batch).is_none_or(|(a, b)| a.checked_add(1) == Some(b))
        });
        last = Some(this);
        FetchRecord {
            fetch: Fetch { start_ns: step.start_ns, end_ns: step.load_end_ns, follows },
            batch: step.batch,
            batch_ns: Some(step.batch_ns),
        }
    };
    steps.iter().map(record).collect()
}

/// The last fetch may lack its batch.
fn determined_fetches(marks: &[TrainerMark], steps: &[TrainerStep]) -> Vec<FetchRecord> {
    let mut last: Option<i64> = None;
    let mut steps = steps.iter().peekable();
    let fetches = marks.iter().filter(|m| m.kind == TrainerMarkKind::DataloaderNext);
    let record = |mark: &TrainerMark| {
        let follows = last.zip(mark.batch).is_some_and(|(a, b)| a.checked_add(1) == Some(b));
        last = mark.batch;
        let step = steps.next_if(|step| step.start_ns == mark.start_ns);
        FetchRecord {
            fetch: Fetch { start_ns: mark.start_ns, end_ns: mark.end_ns, follows },
            batch: step.and_then(|step| step.batch),
            batch_ns: step.map(|step| step.batch_ns),
        }
    };
    fetches.map(record).collect()
}

/// Fetches outside of evaluation. Steps number them; without steps, long pauses separate them.
fn torch_fetches(marks: &[TrainerMark]) -> Vec<FetchRecord> {
    let mut evaluating_until = i64::MIN;
    let mut fetches: Vec<&TrainerMark> = Vec::new();
    for mark in marks {
        match mark.kind {
            TrainerMarkKind::Eval => evaluating_until = evaluating_until.max(mark.end_ns),
            TrainerMarkKind::TorchFetch(_) if mark.start_ns >= evaluating_until => {
                fetches.push(mark);
            }
            _ => {}
        }
    }
    let pauses = fetches.windows(2).map(|pair| (pair[1].start_ns - pair[0].end_ns) as f64);
    let limit = median(pauses.collect()).map_or(f64::INFINITY, |usual| PAUSE_FACTOR * usual);
    let follows = |k: usize| {
        let Some(last) = k.checked_sub(1).map(|i| fetches[i]) else { return false };
        match last.step.zip(fetches[k].step) {
            Some((a, b)) => a == b || a.checked_add(1) == Some(b),
            None => (fetches[k].start_ns - last.end_ns) as f64 <= limit,
        }
    };
    (0..fetches.len())
        .map(|k| FetchRecord {
            fetch: Fetch {
                start_ns: fetches[k].start_ns,
                end_ns: fetches[k].end_ns,
                follows: follows(k),
            },
            batch: None,
            batch_ns: fetches
                .get(k + 1)
                .filter(|_| follows(k + 1))
                // Fetches that overlap leave no time for a batch.
                .map(|next| (next.start_ns - fetches[k].end_ns).max(0)),
        })
        .collect()
}

/// `loader_fetches_by_step`.
pub(super) fn by_step(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = load_ranks(inputs)?;
    let rows: Vec<(&RankFetches, usize)> =
        ranks.iter().flat_map(|r| (0..r.records.len()).map(move |i| (r, i))).collect();
    let record = |&(r, i): &(&RankFetches, usize)| r.records[i];
    BatchBuilder::of(&rows)
        .int32("rank", |(r, _)| r.rank)
        .utf8("source", |(r, _)| Some(r.source))
        .int("batch", |row| record(row).batch)
        .int("ts_ns", |row| Some(record(row).fetch.start_ns))
        .int("wait_ns", |row| Some(record(row).wait_ns()))
        .int("batch_ns", |row| record(row).batch_ns)
        .flag("follows_previous", |row| record(row).fetch.follows)
        .flag("is_late", |&(r, i)| r.analysis.late[i])
        .flag("is_outlier", |&(r, i)| r.analysis.outliers[i])
        .finish()
}

/// Totals and medians of one rank's fetches. The ratios cover only fetches whose batch time is known.
struct WaitSummary {
    wait_ns: i64,
    /// Sorted.
    wait_lengths_ns: Vec<f64>,
    batch_lengths_ns: Vec<f64>,
    wait_ratio: Option<f64>,
    median_ratio: Option<f64>,
    ratio_without_largest: Option<f64>,
}

impl WaitSummary {
    fn of(records: &[FetchRecord]) -> Self {
        let mut wait_lengths_ns: Vec<f64> = records.iter().map(|r| r.wait_ns() as f64).collect();
        wait_lengths_ns.sort_by(f64::total_cmp);
        let timed: Vec<(i64, i64)> = records
            .iter()
            .filter_map(|record| Some((record.wait_ns(), record.batch_ns?)))
            .collect();
        let (waited, batches) =
            timed.iter().fold((0, 0), |(w, b), &(wait, batch)| (w + wait, b + batch));
        let ratio =
            |wait: i64, batch: i64| (wait + batch > 0).then(|| wait as f64 / (wait + batch) as f64);
        let largest = timed.iter().copied().max_by_key(|&(wait, _)| wait);
        let batch_lengths_ns: Vec<f64> = timed.iter().map(|&(_, batch)| batch as f64).collect();
        let medians = median(timed.iter().map(|&(wait, _)| wait as f64).collect())
            .zip(median(batch_lengths_ns.clone()));
        Self {
            wait_ns: records.iter().map(FetchRecord::wait_ns).sum(),
            wait_ratio: ratio(waited, batches),
            median_ratio: medians.filter(|&(w, b)| w + b > 0.0).map(|(w, b)| w / (w + b)),
            ratio_without_largest: largest
                .filter(|_| timed.len() > 1)
                .and_then(|(wait, batch)| ratio(waited - wait, batches - batch)),
            batch_lengths_ns,
            wait_lengths_ns,
        }
    }

    /// A quantile of the wait time, interpolated linearly.
    fn wait_quantile(&self, quantile: f64) -> Option<f64> {
        let waits = &self.wait_lengths_ns;
        let last = waits.len().checked_sub(1)?;
        let at = last as f64 * quantile;
        let (low, part) = (at as usize, at.fract());
        let next = waits[(low + 1).min(last)];
        Some(waits[low] + (next - waits[low]) * part)
    }
}

/// Workers are not equally fast, and share cores and disks: this many times the number that would do on average.
const WORKER_MARGIN: f64 = 1.3;

/// Number of workers that make a batch in the compute time of a step, if one worker takes `load_ns` per batch.
fn workers_needed(load_ns: f64, compute_ns: f64) -> Option<i64> {
    (compute_ns > 0.0).then(|| ((WORKER_MARGIN * load_ns / compute_ns).ceil() as i64).max(1))
}

/// `loader_fetches`.
pub(super) fn by_rank(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ranks = load_ranks(inputs)?;
    let rows: Vec<(&RankFetches, WaitSummary)> =
        ranks.iter().map(|r| (r, WaitSummary::of(&r.records))).collect();
    let count = |flags: &[bool]| Some(flags.iter().filter(|&&f| f).count() as i64);
    // A process that loads its own data has no workers, even if late fetches recur.
    let workers = |r: &RankFetches| r.analysis.period.filter(|_| !r.loads_in_process);
    let load_ns = |r: &RankFetches| workers(r).and(r.analysis.worker_batch_ns);
    let needed = |r: &RankFetches| workers_needed(load_ns(r)?, r.analysis.compute_ns?);
    BatchBuilder::of(&rows)
        .int32("rank", |(r, _)| r.rank)
        .utf8("source", |(r, _)| Some(r.source))
        .int("fetch_count", |(r, _)| Some(r.records.len() as i64))
        .int("wait_ns", |(_, s)| Some(s.wait_ns))
        .float("wait_mean_ns", |(r, s)| Some(s.wait_ns as f64 / r.records.len() as f64))
        .float("wait_median_ns", |(_, s)| s.wait_quantile(0.5))
        .float("wait_p95_ns", |(_, s)| s.wait_quantile(0.95))
        .int("wait_max_ns", |(_, s)| s.wait_lengths_ns.last().map(|&wait| wait as i64))
        .float("batch_median_ns", |(_, s)| median(s.batch_lengths_ns.clone()))
        .float("wait_ratio", |(_, s)| s.wait_ratio)
        .float("wait_median_ratio", |(_, s)| s.median_ratio)
        .float("wait_without_largest_ratio", |(_, s)| s.ratio_without_largest)
        .int("late_count", |(r, _)| count(&r.analysis.late))
        .int("outlier_count", |(r, _)| count(&r.analysis.outliers))
        .utf8("pattern", |(r, _)| r.analysis.pattern.map(WaitPattern::as_str))
        .int("fetch_period", |(r, _)| r.analysis.period.map(|p| p as i64))
        .int("worker_count", |(r, _)| workers(r).map(|p| p as i64))
        .float("worker_batch_ns", |(r, _)| load_ns(r))
        .float("delivery_ns", |(r, _)| Some(load_ns(r)? / workers(r)? as f64))
        .float("compute_ns", |(r, _)| r.analysis.compute_ns)
        .int("workers_needed_count", |(r, _)| needed(r))
        .int("workers_more_count", |(r, _)| Some((needed(r)? - workers(r)? as i64).max(0)))
        .int("workers_if_single_count", |(r, s)| {
            let is_single = r.loads_in_process || r.analysis.pattern == Some(WaitPattern::Even);
            workers_needed(s.wait_quantile(0.5).filter(|_| is_single)?, r.analysis.compute_ns?)
        })
        .finish()
}

#[cfg(test)]
mod tests {
    use super::workers_needed;

    #[test]
    fn workers_needed_have_a_margin() {
        for (load_ns, compute_ns, expected) in [
            (45.5, 107.0, Some(1)),
            (76.0, 100.0, Some(1)),
            (77.0, 100.0, Some(2)),
            (122.0, 119.0, Some(2)),
            (83.4, 34.2, Some(4)),
            (0.0, 100.0, Some(1)),
            (10.0, 0.0, None),
        ] {
            assert_eq!(workers_needed(load_ns, compute_ns), expected, "{load_ns} / {compute_ns}");
        }
    }
}
