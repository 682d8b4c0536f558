//! The verdict on the step: the change of the median step, compared with the variation between steps.
//!
//! The duration of a step of a run is that of its slowest rank. The interval is a bootstrap: steps are drawn from each
//! side with replacement 2000 times, and 95 % of the ratios of medians lie in it. It covers the variation between steps
//! of one recording, not between runs; therefore a change of less than 2 % never counts. The draws are always the same.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::time::human;

use crate::differences::Difference;
use crate::memory::MemoryDiff;
use crate::run_totals::{SelectedSteps, median};
use crate::summary::{Summary, Unit};

/// Draws of the bootstrap.
const RESAMPLES: usize = 2000;

/// The seed of the draws: the same runs always get the same verdict.
const SEED: u64 = 0x5eed_0f57_e900_0001;

/// Fewest steps per side for an interval.
const MIN_STEPS: usize = 3;

/// Run-to-run variation of the same program, which a single pair of runs cannot measure.
const PAIR_NOISE: f64 = 0.02;

/// The outcome for the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Slower by more than the threshold and more than chance explains.
    Regression,
    /// Faster by more than the threshold and more than chance explains.
    Improvement,
    /// Changed by less than the threshold.
    Unchanged,
    /// The recordings do not allow a verdict: steps vary too much, or are too few.
    Inconclusive,
    /// The runs did different work, see [`Difference::not_comparable`].
    NotComparable,
}

impl Outcome {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::Unchanged => "unchanged",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not_comparable",
        }
    }

    /// The name in words.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::NotComparable => "not comparable",
            outcome => outcome.as_str(),
        }
    }
}

/// The steps of one side that the verdict is based on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Number of steps that count.
    pub steps: usize,
    /// Their median.
    pub median_ns: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// The duration that 95 % of them do not exceed.
    pub p95_ns: f64,
    #[serde(skip)]
    times: Vec<i64>,
}

/// The verdict on the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason in a sentence.
    pub reason: String,
    /// Steps before; absent without steps.
    pub before: Option<Sample>,
    /// Steps after.
    pub after: Option<Sample>,
    /// Change of the median step over the median before.
    pub change_ratio: Option<f64>,
    /// Lower end of the 95 % interval of that; absent with fewer than three steps a side.
    pub low_ratio: Option<f64>,
    /// Upper end.
    pub high_ratio: Option<f64>,
    /// Half the width of the interval, at least 2 %: the change that chance can explain.
    pub noise_ratio: Option<f64>,
    /// The threshold: the least change that counts.
    pub least_change_ratio: f64,
}

impl Verdict {
    /// The verdict, or that the runs are not comparable, with its numbers.
    pub(super) fn unless_not_comparable(self, differences: &[Difference]) -> Self {
        let reasons =
            differences.iter().filter_map(|difference| difference.not_comparable.as_deref());
        let reasons: Vec<&str> = reasons.collect();
        if reasons.is_empty() {
            return self;
        }
        Self { outcome: Outcome::NotComparable, reason: reasons.join("; "), ..self }
    }

    /// Half the width of the interval.
    pub(super) fn spread_ratio(&self) -> Option<f64> {
        Some((self.high_ratio? - self.low_ratio?) / 2.0)
    }

    /// A note if mean and median change by more than five percentage points apart.
    pub(super) fn mean_note(
        &self,
        summary: &Summary,
        (before, after): (&SelectedSteps, &SelectedSteps),
    ) -> Option<String> {
        const FAR_APART: f64 = 0.05;
        let (mean, median) = (summary.change_ratio?, self.change_ratio?);
        if summary.unit == Unit::Recording || (mean - median).abs() < FAR_APART {
            return None;
        }
        let longest = |steps: &SelectedSteps| {
            human(steps.steps.iter().map(|s| s.dur_ns).max().unwrap_or(0) as f64)
        };
        Some(format!(
            "the median step changes by {}, the mean by {}: the mean also counts unusual steps (the longest take {} \
             before and {} after)",
            percent(median),
            percent(mean),
            longest(before),
            longest(after)
        ))
    }
}

/// `recording_change` is the relative change of the recordings if there are no steps to compare.
pub(super) fn verdict(
    (before, after): (&SelectedSteps, &SelectedSteps),
    unit: Unit,
    recording_change: Option<f64>,
    least: f64,
) -> Verdict {
    let blank = Verdict {
        outcome: Outcome::Inconclusive,
        reason: String::new(),
        before: None,
        after: None,
        change_ratio: recording_change,
        low_ratio: None,
        high_ratio: None,
        noise_ratio: None,
        least_change_ratio: least,
    };
    if unit == Unit::Recording {
        return if recording_change == Some(0.0) {
            let reason = "the recordings are equally long".to_owned();
            Verdict { outcome: Outcome::Unchanged, reason, ..blank }
        } else {
            let reason =
                "no steps are marked: how long a recording is says little about the program"
                    .to_owned();
            Verdict { reason, ..blank }
        };
    }
    let (b, a) = (Sample::of(before), Sample::of(after));
    let mut verdict = judge(&b, &a, blank);
    verdict.before = Some(b);
    verdict.after = Some(a);
    verdict
}

/// The verdict on memory alone: that of the memory that changes most in relation to what it was. The same program
/// allocates the same bytes, so that every change of the threshold or more counts.
pub(super) fn memory_verdict(memory: &MemoryDiff, least: f64) -> Verdict {
    let most = memory.most_changed();
    let change_ratio = most.and_then(|device| device.change_ratio);
    let (outcome, why) = match change_ratio {
        Some(change) if change >= least && change > 0.0 => {
            (Outcome::Regression, format!("{} or more", share(least)))
        }
        Some(change) if change <= -least && change < 0.0 => {
            (Outcome::Improvement, format!("{} or more", share(least)))
        }
        Some(_) => (Outcome::Unchanged, format!("less than {}", share(least))),
        None => (Outcome::Inconclusive, "nothing was allocated before".to_owned()),
    };
    let what = most.map_or_else(String::new, |device| memory.change_phrase(device));
    Verdict {
        outcome,
        reason: format!("{what}: {why}"),
        before: None,
        after: None,
        change_ratio,
        low_ratio: None,
        high_ratio: None,
        noise_ratio: None,
        least_change_ratio: least,
    }
}

fn judge(b: &Sample, a: &Sample, blank: Verdict) -> Verdict {
    let least = blank.least_change_ratio;
    if b.median_ns <= 0.0 || a.median_ns <= 0.0 {
        return Verdict { reason: "steps without duration".to_owned(), ..blank };
    }
    let change = a.median_ns / b.median_ns - 1.0;
    let medians = format!("median step {} -> {}", human(b.median_ns), human(a.median_ns));
    let found =
        |outcome, reason| Verdict { outcome, reason, change_ratio: Some(change), ..blank.clone() };
    if b.times == a.times {
        let (low_ratio, high_ratio, noise_ratio) = (Some(0.0), Some(0.0), Some(PAIR_NOISE));
        let reason = "the steps take the same time to the nanosecond".to_owned();
        return Verdict { low_ratio, high_ratio, noise_ratio, ..found(Outcome::Unchanged, reason) };
    }
    if b.steps.min(a.steps) < MIN_STEPS {
        let counts = format!("{} and {}", b.steps, a.steps);
        let reason = format!(
            "{medians} ({}), but {counts} complete steps are too few to tell a change from chance: record at least \
             {MIN_STEPS} in each run",
            percent(change)
        );
        return found(Outcome::Inconclusive, reason);
    }
    let (low, high) = interval(&b.times, &a.times);
    let noise = ((high - low) / 2.0).max(PAIR_NOISE);
    let counts = least.max(PAIR_NOISE);
    let slower = change >= counts && change > noise && low > 0.0;
    let faster = change <= -counts && -change > noise && high < 0.0;
    let within = -counts < low && high < counts;
    let (outcome, why) = if slower {
        (Outcome::Regression, "more than chance explains".to_owned())
    } else if faster {
        (Outcome::Improvement, "more than chance explains".to_owned())
    } else if within {
        (Outcome::Unchanged, format!("within the {} that count", share(counts)))
    } else {
        (Outcome::Inconclusive, "steps vary too much to tell: record more of them".to_owned())
    };
    let reason = format!(
        "{medians} ({}; 95 % interval {} to {} from {} and {} steps): {why}",
        percent(change),
        percent(low),
        percent(high),
        b.steps,
        a.steps
    );
    let (low_ratio, high_ratio, noise_ratio) = (Some(low), Some(high), Some(noise));
    Verdict { low_ratio, high_ratio, noise_ratio, ..found(outcome, reason) }
}

impl Sample {
    fn of(selected: &SelectedSteps) -> Self {
        // Ranks are synchronized: a step ends when the slowest rank has finished it.
        let mut by_step: BTreeMap<i64, i64> = BTreeMap::new();
        for step in selected.steps.iter().filter(|s| s.is_marked) {
            let slowest = by_step.entry(step.step).or_default();
            *slowest = step.dur_ns.max(*slowest);
        }
        Self::from_times(&by_step.into_values().collect::<Vec<_>>())
    }

    fn from_times(times: &[i64]) -> Self {
        let mut sorted = times.to_vec();
        let median_ns = median(&mut sorted);
        let sum: f64 = times.iter().map(|ns| *ns as f64).sum();
        // The smallest step that 95 % do not exceed.
        let p95 = (sorted.len() as f64 * 0.95).ceil() as usize;
        Self {
            steps: times.len(),
            median_ns,
            mean_ns: sum / times.len().max(1) as f64,
            p95_ns: sorted.get(p95.saturating_sub(1)).map_or(0.0, |ns| *ns as f64),
            times: times.to_vec(),
        }
    }
}

/// 95 % interval of the change of the median.
fn interval(before: &[i64], after: &[i64]) -> (f64, f64) {
    let mut random = SplitMix(SEED);
    let (mut b, mut a) = (before.to_vec(), after.to_vec());
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let was = drawn_median(before, &mut b, &mut random);
            drawn_median(after, &mut a, &mut random) / was.max(1.0) - 1.0
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    (changes[tail], changes[RESAMPLES - 1 - tail])
}

/// Median of as many steps as there are, drawn with replacement into `drawn`.
fn drawn_median(times: &[i64], drawn: &mut [i64], random: &mut SplitMix) -> f64 {
    for slot in drawn.iter_mut() {
        *slot = times[random.below(times.len())];
    }
    let half = drawn.len() / 2;
    let (lower, &mut upper, _) = drawn.select_nth_unstable(half);
    if times.len() % 2 == 1 {
        return upper as f64;
    }
    let lower = lower.iter().max().copied().unwrap_or(upper);
    f64::midpoint(lower as f64, upper as f64)
}

/// `SplitMix64` (Steele, Lea, Flood 2014): small, and the same on all platforms.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * bound as u128) >> 64) as usize
    }
}

/// `+5.2 %`.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", ratio * 100.0)
}

/// `5 %`.
fn share(ratio: f64) -> String {
    format!("{} %", (ratio * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Sample, Verdict, interval, judge};

    const MS: i64 = 1_000_000;

    fn compare(before: &[i64], after: &[i64]) -> Verdict {
        let sample =
            |times: &[i64]| Sample::from_times(&times.iter().map(|t| t * MS).collect::<Vec<_>>());
        let blank = Verdict {
            outcome: Outcome::Inconclusive,
            reason: String::new(),
            before: None,
            after: None,
            change_ratio: None,
            low_ratio: None,
            high_ratio: None,
            noise_ratio: None,
            least_change_ratio: 0.05,
        };
        judge(&sample(before), &sample(after), blank)
    }

    #[test]
    fn judge_reports_a_change_beyond_the_spread() {
        let (slow, fast) = ([130, 131, 129, 132, 130], [100, 101, 99, 102, 100]);
        let slower = compare(&fast, &slow);
        assert_eq!(slower.outcome, Outcome::Regression, "{}", slower.reason);
        assert!((slower.change_ratio.unwrap() - 0.3).abs() < 1e-12);
        assert!(slower.low_ratio.unwrap() > 0.25 && slower.high_ratio.unwrap() < 0.35);
        assert_eq!(compare(&slow, &fast).outcome, Outcome::Improvement);
    }

    #[test]
    fn judge_is_unchanged_for_a_small_change() {
        let verdict = compare(&[100, 101, 99, 100, 101], &[103, 102, 104, 103, 102]);
        assert_eq!(verdict.outcome, Outcome::Unchanged, "{}", verdict.reason);
    }

    #[test]
    fn judge_is_inconclusive_for_noisy_steps() {
        let verdict = compare(&[41, 49, 50], &[36, 51, 62]);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{}", verdict.reason);
        let verdict = compare(&[100, 180, 90, 170, 95], &[150, 110, 160, 105, 190]);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{}", verdict.reason);
    }

    #[test]
    fn judge_is_inconclusive_for_few_steps_unless_equal() {
        assert_eq!(compare(&[100, 100], &[300, 300]).outcome, Outcome::Inconclusive);
        assert_eq!(compare(&[100], &[104]).outcome, Outcome::Inconclusive);
        assert_eq!(compare(&[100], &[100]).outcome, Outcome::Unchanged);
        let noisy = [40, 90, 20, 60];
        assert_eq!(compare(&noisy, &noisy).outcome, Outcome::Unchanged);
        assert_eq!(compare(&[], &[]).outcome, Outcome::Inconclusive);
        assert_eq!(compare(&[0, 0, 0], &[1, 1, 1]).outcome, Outcome::Inconclusive);
    }

    #[test]
    fn interval_covers_zero_for_equal_distributions() {
        // Two samples of the same uniform distribution: about 95 of 100 intervals contain 0.
        let mut random = super::SplitMix(7);
        let covered = (0..200).filter(|_| {
            let mut draw =
                || (0..20).map(|_| 1_000_000 + random.below(200_000) as i64).collect::<Vec<_>>();
            let (b, a) = (draw(), draw());
            let (low, high) = interval(&b, &a);
            low <= 0.0 && 0.0 <= high
        });
        let covered = covered.count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }
}
