//! `comm_stragglers`: the ranks that others wait for, and the phases in which they lose time.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::load::MatchedCollectives;
use super::matches::CollectiveMatch;
use super::phases::{PHASES, PhaseTotals};
use super::wait_attribution::{
    Attribution, Attributions, LastRankEvidence, RankShare, largest_excess,
};
use query::columns::OptIntColumn;
use query::{BatchBuilder, ViewInputs};

/// Time that a rank lost before a collective for which the others waited.
#[derive(Debug, Clone, Copy)]
struct Loss {
    /// The gap before the collective.
    start_ns: i64,
    end_ns: i64,
    delay_ns: i64,
    excess: PhaseTotals,
}

#[derive(Debug, Default, Clone)]
struct RankTotals {
    collective_count: i64,
    last_count: i64,
    cause_count: i64,
    caused_wait_ns: f64,
    own_comm_ns: i64,
    own_wait_ns: i64,
    delay_ns: i64,
    excess: PhaseTotals,
    late_step_count: i64,
    by_duration: bool,
}

impl RankTotals {
    /// Adds what the rank lost in gaps between collectives. Gaps before collectives of different groups overlap, and then
    /// measure one loss: of a later one, only the share of the gap counts that no earlier one covers.
    fn add_losses(&mut self, mut losses: Vec<Loss>) {
        losses.sort_unstable_by_key(|loss| (loss.start_ns, loss.end_ns));
        let mut until = i64::MIN;
        for Loss { start_ns, end_ns, delay_ns, excess } in losses {
            let uncovered = uncovered_ns(start_ns, end_ns, &mut until);
            let counted = |ns: i64| {
                // Exact where nothing overlaps.
                if uncovered == end_ns - start_ns {
                    ns
                } else {
                    (ns as f64 * uncovered as f64 / (end_ns - start_ns) as f64).round() as i64
                }
            };
            self.delay_ns += counted(delay_ns);
            for (sum, excess) in self.excess.iter_mut().zip(excess) {
                *sum += counted(excess);
            }
        }
    }
}

/// The rows of the view. Reads the inputs `overlap` and `windows`.
pub(super) fn straggler_rows(
    inputs: &ViewInputs<'_>,
    collectives: &MatchedCollectives,
    attributions: &Attributions,
) -> Result<RecordBatch> {
    let (sums, step_count) = sum_by_rank(collectives, attributions);
    let total: f64 = sums.values().map(|sum| sum.caused_wait_ns).sum();
    let ranks = sums.len() as i64;
    let windows = WaitWindows::from_inputs(inputs)?;
    let rows: Vec<(i64, RankTotals)> = sums.into_iter().collect();
    let ratio = |share: i64, of: i64| (of > 0).then(|| share as f64 / of as f64);
    BatchBuilder::of(&rows)
        .int("rank", |(rank, _)| Some(*rank))
        .int("rank_count", |_| Some(ranks))
        .int("collective_count", |(_, s)| Some(s.collective_count))
        .int("last_count", |(_, s)| Some(s.last_count))
        .float("last_ratio", |(_, s)| ratio(s.last_count, s.collective_count))
        .int("cause_count", |(_, s)| Some(s.cause_count))
        .float("cause_ratio", |(_, s)| ratio(s.cause_count, s.collective_count))
        .float("caused_wait_ns", |(_, s)| Some(s.caused_wait_ns))
        .float("caused_wait_ratio", |(rank, s)| windows.caused_wait_ratio(*rank, s.caused_wait_ns))
        .float("wait_share_ratio", |(_, s)| (total > 0.0).then(|| s.caused_wait_ns / total))
        .int("own_comm_ns", |(_, s)| Some(s.own_comm_ns))
        .int("own_wait_ns", |(_, s)| Some(s.own_wait_ns))
        .float("wait_ratio", |(_, s)| ratio(s.own_wait_ns, s.own_comm_ns))
        .float("exposed_ratio", |(rank, _)| windows.exposed_ratio(*rank))
        .int("step_count", |_| Some(step_count))
        .int("late_step_count", |(_, s)| Some(s.late_step_count))
        .float("chance_ratio", |(_, s)| {
            Some(chance_probability(ranks, step_count, s.late_step_count))
        })
        .text("delay_phase", |(_, s)| {
            largest_excess(&s.excess).filter(|_| s.delay_ns > 0).map(|kind| PHASES[kind])
        })
        .int("delay_ns", |(_, s)| Some(s.delay_ns))
        .text("last_by", |(_, s)| Some(if s.by_duration { "duration" } else { "arrival" }))
        .finish()
}

/// Sums over complete matches per rank; also returns the number of steps that contain them.
fn sum_by_rank(
    collectives: &MatchedCollectives,
    attributions: &Attributions,
) -> (BTreeMap<i64, RankTotals>, i64) {
    let complete: Vec<(&CollectiveMatch, &Attribution, &[RankShare])> = collectives
        .matches
        .iter()
        .zip(attributions.matches.iter().zip(&attributions.shares))
        .filter_map(|(found, (attribution, shares))| {
            Some((found, attribution.as_ref()?, shares.as_slice()))
        })
        .filter(|(found, ..)| collectives.is_complete(found))
        .collect();
    let mut sums: BTreeMap<i64, RankTotals> = BTreeMap::new();
    let mut losses: BTreeMap<i64, Vec<Loss>> = BTreeMap::new();
    for &(found, attribution, shares) in &complete {
        for (place, (at, share)) in found.calls().zip(shares).enumerate() {
            let call = &collectives.calls[at];
            let sum = sums.entry(call.rank).or_default();
            sum.collective_count += 1;
            sum.last_count += i64::from(place == attribution.last);
            sum.own_comm_ns += call.dur_ns().unwrap_or(0);
            sum.own_wait_ns += call.dur_ns().unwrap_or(0) - attribution.transfer_ns;
            sum.by_duration |= attribution.evidence == LastRankEvidence::Duration;
            if call.rank == attribution.cause {
                sum.cause_count += 1;
                if let (Some(since), Some((start, _))) = (share.since_previous, call.interval) {
                    losses.entry(call.rank).or_default().push(Loss {
                        start_ns: start - since.gap_ns,
                        end_ns: start,
                        delay_ns: since.delay_ns,
                        excess: attribution.cause_excess,
                    });
                }
            }
        }
    }
    for (rank, losses) in losses {
        if let Some(sum) = sums.get_mut(&rank) {
            sum.add_losses(losses);
        }
    }
    // Waits of a rank overlap if it runs several collectives at once: each moment counts for the wait that began
    // first.
    let mut waits: BTreeMap<i64, Vec<(i64, i64, usize)>> = BTreeMap::new();
    for (number, (found, _, shares)) in complete.iter().enumerate() {
        for (at, share) in found.calls().zip(*shares) {
            let call = &collectives.calls[at];
            if let Some((start, _)) = call.interval {
                waits.entry(call.rank).or_default().push((start, start + share.waited_ns, number));
            }
        }
    }
    let mut of_match = vec![0.0; complete.len()];
    for mut of_rank in waits.into_values() {
        of_rank.sort_unstable();
        let mut until = i64::MIN;
        for (start, end, number) in of_rank {
            of_match[number] += uncovered_ns(start, end, &mut until) as f64;
        }
    }
    // Groups that share ranks wait for one rank at the same time, so all other ranks of the run count. The last rank's own
    // wait, from durations that differ slightly, is not a wait for itself.
    let others = (sums.len() as f64 - 1.0).max(1.0);
    let mut steps: BTreeMap<(bool, i64), BTreeMap<i64, f64>> = BTreeMap::new();
    for (number, &(found, attribution, _)) in complete.iter().enumerate() {
        let wait = of_match[number] / others;
        if let Some(cause) = sums.get_mut(&attribution.cause) {
            cause.caused_wait_ns += wait;
        }
        let step = collectives.calls[found.call(0)].step;
        let of_step = steps.entry((step.is_none(), step.unwrap_or(number as i64))).or_default();
        *of_step.entry(attribution.cause).or_default() += wait;
    }
    for of_step in steps.values() {
        let all: f64 = of_step.values().sum();
        for (rank, wait) in of_step {
            if let Some(sum) = sums.get_mut(rank).filter(|_| *wait > 0.0 && *wait >= all / 2.0) {
                sum.late_step_count += 1;
            }
        }
    }
    (sums, steps.len() as i64)
}

/// The part of an interval that earlier ones do not cover. `until` is their end; intervals come by start.
fn uncovered_ns(start: i64, end: i64, until: &mut i64) -> i64 {
    let uncovered = (end - start.max(*until)).max(0);
    *until = (*until).max(end);
    uncovered
}

/// Probability that some rank causes most of the waiting in `late` of `steps` steps if each step falls on a random
/// rank: the number of ranks times the tail of a binomial distribution, at most 1.
fn chance_probability(ranks: i64, steps: i64, late: i64) -> f64 {
    if ranks < 2 || steps == 0 || late == 0 {
        return 1.0;
    }
    let p = 1.0 / ranks as f64;
    // Compute each term from the previous one in logarithms, because binomial coefficients overflow.
    let mut term = steps as f64 * (1.0 - p).ln();
    let mut tail = if late == 0 { term.exp() } else { 0.0 };
    for k in 1..=steps {
        term += ((steps - k + 1) as f64 / k as f64).ln() + (p / (1.0 - p)).ln();
        if k >= late {
            tail += term.exp();
        }
    }
    (tail * ranks as f64).min(1.0)
}

/// Time windows that waiting time is compared with.
struct WaitWindows {
    exposed: BTreeMap<i64, (i64, i64)>,
    host: BTreeMap<i64, i64>,
    exposed_sum: f64,
}

impl WaitWindows {
    fn from_inputs(inputs: &ViewInputs<'_>) -> Result<Self> {
        let overlap = inputs.all_rows("overlap")?;
        let (rank, exposed) =
            (OptIntColumn::of(&overlap, "rank")?, OptIntColumn::of(&overlap, "exposed_ns")?);
        let window = OptIntColumn::of(&overlap, "window_ns")?;
        let exposed: BTreeMap<i64, (i64, i64)> = (0..overlap.num_rows())
            .map(|row| (rank.value_or_0(row), (exposed.value_or_0(row), window.value_or_0(row))))
            .collect();
        let windows = inputs.all_rows("windows")?;
        let (rank, window) =
            (OptIntColumn::of(&windows, "rank")?, OptIntColumn::of(&windows, "window_ns")?);
        let host = (0..windows.num_rows())
            .map(|row| (rank.value_or_0(row), window.value_or_0(row)))
            .collect();
        let exposed_sum = exposed.values().map(|&(exposed, _)| exposed as f64).sum();
        Ok(Self { exposed, host, exposed_sum })
    }

    /// Communication time that no computation hides, as a ratio of the window.
    fn exposed_ratio(&self, rank: i64) -> Option<f64> {
        let &(exposed, window) = self.exposed.get(&rank)?;
        (window > 0).then(|| exposed as f64 / window as f64)
    }

    /// Ratio of caused waiting time to the window. Waiting hidden by computation costs nothing, so the time is
    /// limited to the mean exposed time of the other ranks.
    fn caused_wait_ratio(&self, rank: i64, wait: f64) -> Option<f64> {
        let others = self.exposed.len() as f64 - 1.0;
        let (most, window) = match self.exposed.get(&rank) {
            Some(&(own, window)) if others > 0.0 => {
                ((self.exposed_sum - own as f64) / others, window)
            }
            Some(&(_, window)) => (wait, window),
            None => (wait, *self.host.get(&rank)?),
        };
        (window > 0).then(|| wait.min(most) / window as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Loss, RankTotals, chance_probability};

    #[test]
    fn delays_before_overlapping_collectives_count_once() {
        let loss = |&(start_ns, end_ns, delay_ns): &(i64, i64, i64)| {
            let excess = std::array::from_fn(|phase| delay_ns * i64::from(phase == 0));
            Loss { start_ns, end_ns, delay_ns, excess }
        };
        let sums = |gaps: &[(i64, i64, i64)]| {
            let mut totals = RankTotals::default();
            totals.add_losses(gaps.iter().map(loss).collect());
            (totals.delay_ns, totals.excess[0])
        };
        assert_eq!(sums(&[(0, 100, 60), (200, 300, 50)]), (110, 110));
        // The same loss before the collectives of two groups.
        assert_eq!(sums(&[(0, 100, 60), (0, 100, 60)]), (60, 60));
        // A tenth of the later gap is its own.
        assert_eq!(sums(&[(10, 110, 60), (0, 100, 60)]), (66, 66));
        assert_eq!(sums(&[(0, 100, 60), (20, 80, 40)]), (60, 60));
    }

    #[test]
    fn chance_probability_is_the_binomial_tail() {
        // Four of four steps with four ranks: 4 / 4^4.
        assert!((chance_probability(4, 4, 4) - 1.0 / 64.0).abs() < 1e-12);
        // At least three of four steps with two ranks: 2 * (4 + 1) / 16.
        assert!((chance_probability(2, 4, 3) - 0.625).abs() < 1e-12);
        assert!((chance_probability(2, 6, 6) - 1.0 / 32.0).abs() < 1e-12);
        assert!((chance_probability(3, 5, 0) - 1.0).abs() < 1e-12);
        assert!((chance_probability(1, 5, 5) - 1.0).abs() < 1e-12);
        assert!(chance_probability(1_000, 2_000, 1_000) < 1e-9);
    }
}
