//! What a series of fetches says about the loader behind it: which of them are late, whether they are late
//! in turn, and so how many workers there are and how fast each of them is.
//!
//! Workers take turns: batch `i` comes from worker `i` modulo their number, in order. Where they are too
//! slow together, all of them end a batch at about the same time, one fetch waits for that, and the
//! fetches after it find their batches ready: every p-th fetch is late, p being the number of workers.

/// Batches of one turn at most: more workers than this are not told from chance.
const MAX_PERIOD: usize = 64;
/// Late fetches that must be followed by a late one a period later.
const MIN_RECURRENCES: usize = 4;
/// How well being late must predict being late a period later (correlation of the two).
const MIN_CORRELATION: f64 = 0.5;
/// The same, times the root of the pairs compared: how far from chance, in standard deviations. Many periods
/// are tried.
const MIN_DEVIATIONS: f64 = 4.0;
/// A correlation that few pairs do not reach by chance either.
const PERFECT: f64 = 0.95;
/// A late fetch waits this many times as long as a quick one ...
const LATE_TIMES: f64 = 3.0;
/// ... and longer than that by this share of what a step computes.
const LATE_SHARE: f64 = 0.1;
/// An outlier waits this many times as long as nine in ten do.
const OUTLIER_TIMES: f64 = 5.0;
/// Fetches below which none is an outlier.
const MIN_FOR_OUTLIERS: usize = 5;
/// Share of late fetches up to which the others are all there is.
const RARE: f64 = 0.1;

/// A call of the loader that fetched a batch to train on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fetch {
    pub(super) start: i64,
    pub(super) end: i64,
    /// The fetch before it, of the batch before this one, was recorded too.
    pub(super) follows: bool,
}

impl Fetch {
    fn wait(&self) -> f64 {
        (self.end - self.start) as f64
    }
}

/// How fetches are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The batch is there when it is asked for.
    Ready,
    /// Every fetch waits about as long: batches are made one at a time.
    Even,
    /// Every p-th fetch is late.
    Periodic,
    /// Some are late, not in turn.
    Irregular,
}

impl Pattern {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Even => "even",
            Self::Periodic => "periodic",
            Self::Irregular => "irregular",
        }
    }
}

/// What the fetches of one rank say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Findings {
    pub(super) late: Vec<bool>,
    pub(super) outliers: Vec<bool>,
    pub(super) pattern: Option<Pattern>,
    /// Median time from the end of a fetch to the start of the next: a step without the wait.
    pub(super) compute: Option<f64>,
    pub(super) period: Option<usize>,
    /// Median time between the ends of two late fetches one period apart.
    pub(super) worker_batch: Option<f64>,
}

impl Findings {
    /// Of the fetches of one rank, by time.
    pub(super) fn of(fetches: &[Fetch]) -> Self {
        let waits: Vec<f64> = fetches.iter().map(Fetch::wait).collect();
        let mut sorted = waits.clone();
        sorted.sort_by(f64::total_cmp);
        let gaps = fetches.windows(2).filter(|pair| pair[1].follows);
        let compute =
            median(gaps.map(|pair| (pair[1].start - pair[0].end).max(0) as f64).collect());

        let limit = compute.and_then(|compute| {
            let quick = *sorted.get(index(sorted.len(), 0.1))?;
            Some((LATE_TIMES * quick).max(quick + LATE_SHARE * compute))
        });
        let late: Vec<bool> =
            waits.iter().map(|&wait| limit.is_some_and(|limit| wait > limit)).collect();
        let least = LATE_SHARE * compute.unwrap_or(0.0);
        let outliers = outliers(&waits)
            .into_iter()
            .zip(&waits)
            .map(|(outlier, &wait)| outlier && wait > least)
            .collect();

        let period = period(fetches, &late);
        let worker_batch = period.and_then(|p| {
            let turns = pairs(fetches, p).filter(|&(i, k)| late[i] && late[k]);
            median(turns.map(|(i, k)| (fetches[k].end - fetches[i].end) as f64).collect())
        });
        let pattern = compute.map(|compute| {
            let late_ratio = late.iter().filter(|&&l| l).count() as f64 / late.len() as f64;
            let usual = sorted[index(sorted.len(), 0.5)];
            match period {
                Some(_) => Pattern::Periodic,
                None if late_ratio > RARE => Pattern::Irregular,
                None if usual > LATE_SHARE * compute => Pattern::Even,
                None => Pattern::Ready,
            }
        });
        Self { late, outliers, pattern, compute, period, worker_batch }
    }
}

/// Which waits are far longer than nine in ten are.
pub(crate) fn outliers(waits: &[f64]) -> Vec<bool> {
    let mut sorted = waits.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = sorted.get(index(sorted.len(), 0.9)).copied().unwrap_or(f64::INFINITY);
    let many = waits.len() >= MIN_FOR_OUTLIERS;
    waits.iter().map(|&wait| many && wait > OUTLIER_TIMES * most).collect()
}

/// Indices of fetches `p` apart with all those between them recorded.
fn pairs(fetches: &[Fetch], p: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    // How many fetches lie between each and the start of its uninterrupted run.
    let mut behind = 0;
    fetches.iter().enumerate().filter_map(move |(k, fetch)| {
        behind = if fetch.follows && k > 0 { behind + 1 } else { 0 };
        (behind >= p).then(|| (k - p, k))
    })
}

/// The smallest number of fetches after which being late recurs.
fn period(fetches: &[Fetch], late: &[bool]) -> Option<usize> {
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
                && (phi * pairs.sqrt() >= MIN_DEVIATIONS || phi >= PERFECT)
        })
        // Late fetches in stretches are slow for a while, not in turn.
        .filter(|&p| p > 1)
}

/// Correlation of two truth values (phi), from how often each pair of them occurs; 0 if one never varies.
fn correlation([[neither, second], [first, both]]: [[usize; 2]; 2]) -> f64 {
    let [neither, second, first, both] = [neither, second, first, both].map(|n| n as f64);
    let spread = (first + both) * (neither + second) * (second + both) * (neither + first);
    if spread > 0.0 { (both * neither - first * second) / spread.sqrt() } else { 0.0 }
}

/// Position of a quantile among `len` sorted values.
fn index(len: usize, quantile: f64) -> usize {
    (len.saturating_sub(1) as f64 * quantile) as usize
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Fetch, Findings, Pattern, median};

    /// A loader with workers, as PyTorch's: batches in turn, each worker at most two ahead, results in order.
    struct Job {
        workers: usize,
        /// What a worker needs for a batch, and a step for computing.
        load: f64,
        compute: f64,
        /// Largest deviation of either, as a share.
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
                    let start = now;
                    now = (now + 1.0).max(ready);
                    if let Some(next) = asked.get_mut(batch + 2 * self.workers) {
                        *next = now;
                    }
                    let follows = !fetches.is_empty();
                    fetches.push(Fetch {
                        start: (start * 1e3) as i64,
                        end: (now * 1e3) as i64,
                        follows,
                    });
                    now += self.compute * (1.0 + self.jitter * random());
                }
            }
            fetches
        }
    }

    fn job(workers: usize) -> Job {
        Job {
            workers,
            load: 30.0 * workers as f64,
            compute: 12.0,
            jitter: 0.0,
            epochs: 1,
            batches: 80,
        }
    }

    #[test]
    fn workers_are_counted_by_their_turns() {
        for workers in 2..=8 {
            for (jitter, epochs) in [(0.0, 1), (0.03, 1), (0.03, 3)] {
                let job = Job { jitter, epochs, ..job(workers) };
                let found = Findings::of(&job.run(7));
                assert_eq!(
                    found.period,
                    Some(workers),
                    "{workers} workers, jitter {jitter}, {epochs} epochs"
                );
                assert_eq!(found.pattern, Some(Pattern::Periodic));
                let load = found.worker_batch.unwrap() / 1e3;
                assert!((load / job.load - 1.0).abs() < 0.05, "{workers}: {load}");
                let compute = found.compute.unwrap() / 1e3;
                assert!((compute / 12.0 - 1.0).abs() < 0.05, "{workers}: {compute}");
            }
        }
    }

    #[test]
    fn one_worker_or_none_makes_every_fetch_wait_alike() {
        let found = Findings::of(&job(1).run(3));
        assert_eq!((found.period, found.pattern), (None, Some(Pattern::Even)));
        assert_eq!(found.worker_batch, None);
    }

    #[test]
    fn workers_that_keep_up_are_not_seen() {
        let fast = Job { load: 20.0, jitter: 0.1, ..job(4) };
        let found = Findings::of(&fast.run(5));
        assert_eq!((found.period, found.pattern), (None, Some(Pattern::Ready)));
        assert_eq!(found.late.iter().filter(|&&l| l).count(), 1, "the start of the workers");
    }

    #[test]
    fn batches_that_were_not_recorded_break_a_run() {
        // Eight of twelve batches are recorded, as by a schedule: the turns within them still show.
        let all = Job { batches: 120, ..job(2) }.run(1);
        let mut some: Vec<Fetch> = Vec::new();
        for (i, fetch) in all.iter().enumerate().filter(|(i, _)| i % 12 < 8) {
            some.push(Fetch { follows: i % 12 > 0, ..*fetch });
        }
        let found = Findings::of(&some);
        assert_eq!(found.period, Some(2));
        assert!((found.worker_batch.unwrap() / 60e3 - 1.0).abs() < 0.05);
        // Nothing follows anything: there is nothing to say.
        for fetch in &mut some {
            fetch.follows = false;
        }
        let found = Findings::of(&some);
        assert_eq!((found.pattern, found.compute, found.period), (None, None, None));
        assert!(found.late.iter().all(|late| !late));
    }

    #[test]
    fn a_pause_is_an_outlier_and_no_pattern() {
        let mut fetches = job(1).run(9);
        fetches[20].start -= 3_000_000;
        let found = Findings::of(&fetches);
        let outliers: Vec<usize> = (0..80).filter(|&i| found.outliers[i]).collect();
        assert_eq!(outliers, [20]);
        assert_eq!(found.pattern, Some(Pattern::Even));
    }

    #[test]
    fn nothing_comes_of_nothing() {
        let found = Findings::of(&[]);
        assert_eq!((found.pattern, found.period, found.compute), (None, None, None));
        let found = Findings::of(&[Fetch { start: 0, end: 5, follows: false }]);
        assert_eq!((found.pattern, found.late), (None, vec![false]));
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }

    proptest! {
        /// Waits at random are no turns of workers, and nothing panics.
        #[test]
        fn chance_has_no_period(waits in prop::collection::vec((0..100_i64, 0..4_u8), 0..200)) {
            let mut now = 0;
            let fetches: Vec<Fetch> = waits
                .iter()
                .enumerate()
                .map(|(i, &(wait, kind))| {
                    let wait = if kind == 0 { 400 + wait } else { 10 + wait / 10 };
                    let fetch = Fetch { start: now, end: now + wait, follows: i > 0 };
                    now += wait + 100;
                    fetch
                })
                .collect();
            let found = Findings::of(&fetches);
            prop_assert_eq!(found.late.len(), fetches.len());
            // In a short series chance may look like anything.
            prop_assert!(fetches.len() < 150 || found.period.is_none(), "{:?}", found.period);
        }
    }
}
