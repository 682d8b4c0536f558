//! `comm_stragglers`: which rank keeps the others waiting, and what it does meanwhile.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::judge::{By, Part, Verdict, most};
use super::load::{COLLECTIVES, Loaded, RANKS, SPENT, judged, load};
use super::matches::Match;
use super::phases::{NAMES, Spent};
use query::BatchBuilder;
use query::columns::OptIntColumn;
use query::rust_view::{RustView, ViewInputs};

pub(crate) const VIEW: RustView = RustView::new(
    "comm_stragglers",
    &[
        COLLECTIVES,
        RANKS,
        SPENT,
        ("overlap", "SELECT rank, exposed_ns, window_ns FROM comm_overlap ORDER BY rank"),
        (
            "windows",
            "SELECT rank, max(end_ns) - min(ts_ns) AS window_ns FROM device_steps GROUP BY rank ORDER BY rank",
        ),
    ],
    compute,
);

#[derive(Debug, Default, Clone)]
struct Sums {
    collectives: i64,
    last: i64,
    cause: i64,
    caused_wait: f64,
    own_comm: i64,
    own_wait: i64,
    lost: i64,
    excess: Spent,
    late_steps: i64,
    by_duration: bool,
}

fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = load(inputs)?;
    let (verdicts, parts) = judged(inputs, &loaded)?;
    let (sums, step_count) = sum_up(&loaded, &verdicts, &parts);
    let total: f64 = sums.values().map(|sum| sum.caused_wait).sum();
    let ranks = sums.len() as i64;
    let windows = Windows::read(inputs)?;
    let rows: Vec<(i64, Sums)> = sums.into_iter().collect();
    let ratio = |part: i64, of: i64| (of > 0).then(|| part as f64 / of as f64);
    BatchBuilder::of(&rows)
        .int("rank", |(rank, _)| Some(*rank))
        .int("rank_count", |_| Some(ranks))
        .int("collective_count", |(_, s)| Some(s.collectives))
        .int("last_count", |(_, s)| Some(s.last))
        .float("last_ratio", |(_, s)| ratio(s.last, s.collectives))
        .int("cause_count", |(_, s)| Some(s.cause))
        .float("cause_ratio", |(_, s)| ratio(s.cause, s.collectives))
        .float("caused_wait_ns", |(_, s)| Some(s.caused_wait))
        .float("caused_wait_ratio", |(rank, s)| windows.share(*rank, s.caused_wait))
        .float("wait_share_ratio", |(_, s)| (total > 0.0).then(|| s.caused_wait / total))
        .int("own_comm_ns", |(_, s)| Some(s.own_comm))
        .int("own_wait_ns", |(_, s)| Some(s.own_wait))
        .float("wait_ratio", |(_, s)| ratio(s.own_wait, s.own_comm))
        .float("exposed_ratio", |(rank, _)| windows.exposed_ratio(*rank))
        .int("step_count", |_| Some(step_count))
        .int("late_step_count", |(_, s)| Some(s.late_steps))
        .float("chance_ratio", |(_, s)| Some(chance(ranks, step_count, s.late_steps)))
        .text("delay_phase", |(_, s)| {
            most(&s.excess).filter(|_| s.lost > 0).map(|kind| NAMES[kind])
        })
        .int("delay_ns", |(_, s)| Some(s.lost))
        .text("last_by", |(_, s)| Some(if s.by_duration { "duration" } else { "arrival" }))
        .finish()
}

/// Adds up what each rank did in complete matches, and counts the steps they lie in.
fn sum_up(
    loaded: &Loaded,
    verdicts: &[Option<Verdict>],
    parts: &[Vec<Part>],
) -> (BTreeMap<i64, Sums>, i64) {
    let complete: Vec<(&Match, &Verdict, &[Part])> = loaded
        .matches
        .iter()
        .zip(verdicts.iter().zip(parts))
        .filter_map(|(found, (verdict, parts))| Some((found, verdict.as_ref()?, parts.as_slice())))
        .filter(|(found, ..)| found.calls.iter().all(|&at| loaded.calls[at].is_complete))
        .collect();
    let mut sums: BTreeMap<i64, Sums> = BTreeMap::new();
    for &(found, verdict, parts) in &complete {
        for (place, (&at, part)) in found.calls.iter().zip(parts).enumerate() {
            let call = &loaded.calls[at];
            let sum = sums.entry(call.rank).or_default();
            sum.collectives += 1;
            sum.last += i64::from(place == verdict.last);
            sum.own_comm += call.dur_ns().unwrap_or(0);
            sum.own_wait += call.dur_ns().unwrap_or(0) - verdict.transfer_ns;
            sum.by_duration |= verdict.by == By::Duration;
            if call.rank == verdict.cause {
                sum.cause += 1;
                sum.lost += part.delay_ns.unwrap_or(0);
                for (all, excess) in sum.excess.iter_mut().zip(part.excess) {
                    *all += excess;
                }
            }
        }
    }
    // Waits of one rank may overlap, where it runs several collectives at once: each moment counts for
    // the wait that began first.
    let mut waits: BTreeMap<i64, Vec<(i64, i64, usize)>> = BTreeMap::new();
    for (number, (found, _, parts)) in complete.iter().enumerate() {
        for (&at, part) in found.calls.iter().zip(*parts) {
            let call = &loaded.calls[at];
            if let Some((start, _)) = call.interval {
                waits.entry(call.rank).or_default().push((start, start + part.waited_ns, number));
            }
        }
    }
    let mut of_match = vec![0.0; complete.len()];
    for mut of_rank in waits.into_values() {
        of_rank.sort_unstable();
        let mut until = i64::MIN;
        for (start, end, number) in of_rank {
            let counted = (end - start.max(until)).max(0);
            until = until.max(end);
            of_match[number] += counted as f64;
        }
    }
    let mut steps: BTreeMap<(bool, i64), BTreeMap<i64, f64>> = BTreeMap::new();
    for (number, &(found, verdict, parts)) in complete.iter().enumerate() {
        // What the last one waits itself, by durations that differ a little, is not waiting for it.
        let others = (parts.len() - 1) as f64;
        let wait = of_match[number] / others;
        if let Some(cause) = sums.get_mut(&verdict.cause) {
            cause.caused_wait += wait;
        }
        let step = loaded.calls[found.calls[0]].step;
        let of_step = steps.entry((step.is_none(), step.unwrap_or(number as i64))).or_default();
        *of_step.entry(verdict.cause).or_default() += wait;
    }
    for of_step in steps.values() {
        let all: f64 = of_step.values().sum();
        for (rank, wait) in of_step {
            if let Some(sum) = sums.get_mut(rank).filter(|_| *wait > 0.0 && *wait >= all / 2.0) {
                sum.late_steps += 1;
            }
        }
    }
    (sums, steps.len() as i64)
}

/// How likely some rank is to blame for most of the waiting in so many of the steps if each of them falls
/// to some rank by chance: the number of ranks times the tail of a binomial distribution.
fn chance(ranks: i64, steps: i64, late: i64) -> f64 {
    if ranks < 2 || steps == 0 || late == 0 {
        return 1.0;
    }
    let p = 1.0 / ranks as f64;
    // Each term from the one before, by logarithms: n over k overflows soon.
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

/// What waiting is held against.
struct Windows {
    exposed: BTreeMap<i64, (i64, i64)>,
    host: BTreeMap<i64, i64>,
    exposed_sum: f64,
}

impl Windows {
    fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let overlap = inputs.batch("overlap")?;
        let (rank, exposed) =
            (OptIntColumn::of(overlap, "rank")?, OptIntColumn::of(overlap, "exposed_ns")?);
        let window = OptIntColumn::of(overlap, "window_ns")?;
        let exposed: BTreeMap<i64, (i64, i64)> = (0..overlap.num_rows())
            .map(|row| (rank.value_or_0(row), (exposed.value_or_0(row), window.value_or_0(row))))
            .collect();
        let windows = inputs.batch("windows")?;
        let (rank, window) =
            (OptIntColumn::of(windows, "rank")?, OptIntColumn::of(windows, "window_ns")?);
        let host = (0..windows.num_rows())
            .map(|row| (rank.value_or_0(row), window.value_or_0(row)))
            .collect();
        let exposed_sum = exposed.values().map(|&(exposed, _)| exposed as f64).sum();
        Ok(Self { exposed, host, exposed_sum })
    }

    /// What no computation hides, as a share of the window.
    fn exposed_ratio(&self, rank: i64) -> Option<f64> {
        let &(exposed, window) = self.exposed.get(&rank)?;
        (window > 0).then(|| exposed as f64 / window as f64)
    }

    /// Share of the window. Waiting behind computation costs nothing: no more than the others fail to hide.
    fn share(&self, rank: i64, wait: f64) -> Option<f64> {
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
    use super::chance;

    #[test]
    fn chance_is_the_tail_of_a_binomial() {
        // All four steps with four ranks: 4 / 4^4.
        assert!((chance(4, 4, 4) - 1.0 / 64.0).abs() < 1e-12);
        // Three or four of four, two ranks: 2 * (4 + 1) / 16.
        assert!((chance(2, 4, 3) - 0.625).abs() < 1e-12);
        assert!((chance(2, 6, 6) - 1.0 / 32.0).abs() < 1e-12);
        assert!((chance(3, 5, 0) - 1.0).abs() < 1e-12);
        assert!((chance(1, 5, 5) - 1.0).abs() < 1e-12);
        assert!(chance(1_000, 2_000, 1_000) < 1e-9);
    }
}
