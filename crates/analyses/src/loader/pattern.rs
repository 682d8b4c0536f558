//! Infers the properties of a data loader from its fetches: which of them are late, whether every p-th one is, and
//! hence the number of workers and the speed of each.
//!
//! Batch `i` comes from worker `i` modulo the number of workers, in order. If the workers are too slow together, all
//! of them complete a batch at about the same time: one fetch waits for that, and the next ones find their batches
//! ready. So every p-th fetch is late, where p is the number of workers.

use crate::statistics::{median, outliers, quantile_index};

/// Longest period; a larger number of workers cannot be distinguished from chance.
const MAX_PERIOD: usize = 64;
/// Minimum number of late fetches that are followed by a late one a period later.
const MIN_RECURRENCES: usize = 4;
/// Minimum correlation between being late and being late a period later.
const MIN_CORRELATION: f64 = 0.5;
/// Minimum of the correlation times the square root of the number of pairs: the distance from chance in standard
/// deviations. It is high because many periods are tried.
const MIN_DEVIATIONS: f64 = 4.0;
/// A correlation that even few pairs do not reach by chance.
const NEAR_PERFECT_CORRELATION: f64 = 0.95;
/// A late fetch waits at least this many times as long as a quick one ...
const LATE_FACTOR: f64 = 3.0;
/// ... and longer by at least this ratio of the compute time of a step.
const LATE_COMPUTE_RATIO: f64 = 0.1;
/// Up to this ratio of late fetches, the others determine the pattern.
const MAX_RARE_LATE_RATIO: f64 = 0.1;

/// A fetch of a training batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fetch {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    /// The fetch of the previous batch was recorded too.
    pub(super) follows: bool,
}

impl Fetch {
    fn wait_ns(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64
    }
}

/// Pattern of waits for the loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitPattern {
    /// Batches are ready when requested.
    Ready,
    /// Every fetch waits about as long: batches are made one at a time.
    Even,
    /// Every p-th fetch is late.
    Periodic,
    /// Some fetches are late, but not periodically.
    Irregular,
}

impl WaitPattern {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Even => "even",
            Self::Periodic => "periodic",
            Self::Irregular => "irregular",
        }
    }
}

/// The pattern of one rank's fetches.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FetchAnalysis {
    pub(super) late: Vec<bool>,
    pub(super) outliers: Vec<bool>,
    pub(super) pattern: Option<WaitPattern>,
    /// Median time from the end of a fetch to the start of the next: a step without the wait.
    pub(super) compute_ns: Option<f64>,
    pub(super) period: Option<usize>,
    /// Median time between the ends of two late fetches one period apart.
    pub(super) worker_batch_ns: Option<f64>,
}

impl FetchAnalysis {
    /// Analyzes the fetches of one rank, in chronological order.
    pub(super) fn of(fetches: &[Fetch]) -> Self {
        let waits: Vec<f64> = fetches.iter().map(Fetch::wait_ns).collect();
        let mut sorted = waits.clone();
        sorted.sort_by(f64::total_cmp);
        let gaps = fetches.windows(2).filter(|pair| pair[1].follows);
        let compute =
            median(gaps.map(|pair| (pair[1].start_ns - pair[0].end_ns).max(0) as f64).collect());

        let limit = compute.and_then(|compute| {
            let quick = *sorted.get(quantile_index(sorted.len(), 0.1))?;
            Some((LATE_FACTOR * quick).max(quick + LATE_COMPUTE_RATIO * compute))
        });
        let late: Vec<bool> =
            waits.iter().map(|&wait| limit.is_some_and(|limit| wait > limit)).collect();
        let least = LATE_COMPUTE_RATIO * compute.unwrap_or(0.0);
        let outliers = outliers(&waits)
            .into_iter()
            .zip(&waits)
            .map(|(outlier, &wait)| outlier && wait > least)
            .collect();

        let period = late_period(fetches, &late);
        let worker_batch = period.and_then(|p| {
            let turns = pairs(fetches, p).filter(|&(i, k)| late[i] && late[k]);
            median(turns.map(|(i, k)| (fetches[k].end_ns - fetches[i].end_ns) as f64).collect())
        });
        let pattern = compute.map(|compute| {
            let late_ratio = late.iter().filter(|&&l| l).count() as f64 / late.len() as f64;
            let usual = sorted[quantile_index(sorted.len(), 0.5)];
            match period {
                Some(_) => WaitPattern::Periodic,
                None if late_ratio > MAX_RARE_LATE_RATIO => WaitPattern::Irregular,
                None if usual > LATE_COMPUTE_RATIO * compute => WaitPattern::Even,
                None => WaitPattern::Ready,
            }
        });
        Self { late, outliers, pattern, compute_ns: compute, period, worker_batch_ns: worker_batch }
    }
}

/// Indices of fetches `p` apart, if all between them are recorded.
fn pairs(fetches: &[Fetch], p: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    // Number of fetches since the start of the uninterrupted run.
    let mut behind = 0;
    fetches.iter().enumerate().filter_map(move |(k, fetch)| {
        behind = if fetch.follows && k > 0 { behind + 1 } else { 0 };
        (behind >= p).then(|| (k - p, k))
    })
}

/// The smallest number of fetches after which lateness recurs.
fn late_period(fetches: &[Fetch], late: &[bool]) -> Option<usize> {
    let longest = MAX_PERIOD.min(fetches.len() / 2);
    (1..=longest)
        .find(|&p| {
            let mut counts = [[0_usize; 2]; 2];
            for (i, k) in pairs(fetches, p) {
                counts[usize::from(late[i])][usize::from(late[k])] += 1;
            }
            let pairs = counts.as_flattened().iter().sum::<usize>() as f64;
            let phi = correlation(counts);
            counts[1][1] >= MIN_RECURRENCES
                && phi >= MIN_CORRELATION
                && (phi * pairs.sqrt() >= MIN_DEVIATIONS || phi >= NEAR_PERFECT_CORRELATION)
        })
        // Consecutive late fetches mean a slow phase, not workers that take turns.
        .filter(|&p| p > 1)
}

/// Correlation (phi) of two Booleans from the counts of each combination; 0 if one of them never varies.
fn correlation([[neither, second], [first, both]]: [[usize; 2]; 2]) -> f64 {
    let [neither, second, first, both] = [neither, second, first, both].map(|n| n as f64);
    let spread = (first + both) * (neither + second) * (second + both) * (neither + first);
    if spread > 0.0 { (both * neither - first * second) / spread.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Fetch, FetchAnalysis, WaitPattern};

    /// A loader like PyTorch's: workers take turns, each is at most two batches ahead, and results come in order.
    struct Job {
        workers: usize,
        /// Time that a worker needs for a batch, and a step for computing.
        load: f64,
        compute_ns: f64,
        /// Largest relative deviation of either.
        jitter: f64,
        epochs: usize,
        batches: usize,
    }

    impl Job {
        fn run(&self, seed: u64) -> Vec<Fetch> {
            let mut state = seed | 1;
            let mut random = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
            };
            let mut fetches = Vec::new();
            let mut now = 0.0;
            for _ in 0..self.epochs {
                // Workers start one after the other.
                let mut free: Vec<f64> = (0..self.workers).map(|w| now + w as f64).collect();
                let mut asked = vec![now; self.batches];
                for batch in 0..self.batches {
                    let worker = batch % self.workers;
                    let took = self.load * (1.0 + self.jitter * random());
                    let ready = free[worker].max(asked[batch]) + took;
                    free[worker] = ready;
                    let start_ns = now;
                    now = (now + 1.0).max(ready);
                    if let Some(next) = asked.get_mut(batch + 2 * self.workers) {
                        *next = now;
                    }
                    let follows = !fetches.is_empty();
                    fetches.push(Fetch {
                        start_ns: (start_ns * 1e3) as i64,
                        end_ns: (now * 1e3) as i64,
                        follows,
                    });
                    now += self.compute_ns * (1.0 + self.jitter * random());
                }
            }
            fetches
        }
    }

    fn job(workers: usize) -> Job {
        Job {
            workers,
            load: 30.0 * workers as f64,
            compute_ns: 12.0,
            jitter: 0.0,
            epochs: 1,
            batches: 80,
        }
    }

    #[test]
    fn fetch_analysis_counts_workers_by_their_period() {
        for workers in 2..=8 {
            for (jitter, epochs) in [(0.0, 1), (0.03, 1), (0.03, 3)] {
                let job = Job { jitter, epochs, ..job(workers) };
                let analysis = FetchAnalysis::of(&job.run(7));
                assert_eq!(
                    analysis.period,
                    Some(workers),
                    "{workers} workers, jitter {jitter}, {epochs} epochs"
                );
                assert_eq!(analysis.pattern, Some(WaitPattern::Periodic));
                let load = analysis.worker_batch_ns.unwrap() / 1e3;
                assert!((load / job.load - 1.0).abs() < 0.05, "{workers}: {load}");
                let compute = analysis.compute_ns.unwrap() / 1e3;
                assert!((compute / 12.0 - 1.0).abs() < 0.05, "{workers}: {compute}");
            }
        }
    }

    #[test]
    fn fetch_analysis_is_even_for_one_worker_or_none() {
        let analysis = FetchAnalysis::of(&job(1).run(3));
        assert_eq!((analysis.period, analysis.pattern), (None, Some(WaitPattern::Even)));
        assert_eq!(analysis.worker_batch_ns, None);
    }

    #[test]
    fn fetch_analysis_is_ready_when_workers_keep_up() {
        let fast = Job { load: 20.0, jitter: 0.1, ..job(4) };
        let analysis = FetchAnalysis::of(&fast.run(5));
        assert_eq!((analysis.period, analysis.pattern), (None, Some(WaitPattern::Ready)));
        assert_eq!(analysis.late.iter().filter(|&&l| l).count(), 1, "the start of the workers");
    }

    #[test]
    fn fetch_analysis_ignores_batches_that_were_not_recorded() {
        // Eight of twelve batches are recorded, as with a profiler schedule: the periods within them still show.
        let all = Job { batches: 120, ..job(2) }.run(1);
        let mut some: Vec<Fetch> = Vec::new();
        for (i, fetch) in all.iter().enumerate().filter(|(i, _)| i % 12 < 8) {
            some.push(Fetch { follows: i % 12 > 0, ..*fetch });
        }
        let analysis = FetchAnalysis::of(&some);
        assert_eq!(analysis.period, Some(2));
        assert!((analysis.worker_batch_ns.unwrap() / 60e3 - 1.0).abs() < 0.05);
        // No fetch follows a recorded one, so there is no pattern.
        for fetch in &mut some {
            fetch.follows = false;
        }
        let analysis = FetchAnalysis::of(&some);
        assert_eq!((analysis.pattern, analysis.compute_ns, analysis.period), (None, None, None));
        assert!(analysis.late.iter().all(|late| !late));
    }

    #[test]
    fn fetch_analysis_flags_a_pause_as_outlier_without_a_pattern() {
        let mut fetches = job(1).run(9);
        fetches[20].start_ns -= 3_000_000;
        let analysis = FetchAnalysis::of(&fetches);
        let outliers: Vec<usize> = (0..80).filter(|&i| analysis.outliers[i]).collect();
        assert_eq!(outliers, [20]);
        assert_eq!(analysis.pattern, Some(WaitPattern::Even));
    }

    #[test]
    fn fetch_analysis_is_empty_for_too_few_fetches() {
        let analysis = FetchAnalysis::of(&[]);
        assert_eq!((analysis.pattern, analysis.period, analysis.compute_ns), (None, None, None));
        let analysis = FetchAnalysis::of(&[Fetch { start_ns: 0, end_ns: 5, follows: false }]);
        assert_eq!((analysis.pattern, analysis.late), (None, vec![false]));
    }

    proptest! {
        /// Random waits have no period, and nothing panics.
        #[test]
        fn fetch_analysis_finds_no_period_in_random_waits(waits in prop::collection::vec((0..100_i64, 0..4_u8), 0..200)) {
            let mut now = 0;
            let fetches: Vec<Fetch> = waits
                .iter()
                .enumerate()
                .map(|(i, &(wait, kind))| {
                    let wait = if kind == 0 { 400 + wait } else { 10 + wait / 10 };
                    let fetch = Fetch { start_ns: now, end_ns: now + wait, follows: i > 0 };
                    now += wait + 100;
                    fetch
                })
                .collect();
            let analysis = FetchAnalysis::of(&fetches);
            prop_assert_eq!(analysis.late.len(), fetches.len());
            // A short random series may have a period.
            prop_assert!(fetches.len() < 150 || analysis.period.is_none(), "{:?}", analysis.period);
        }
    }
}
