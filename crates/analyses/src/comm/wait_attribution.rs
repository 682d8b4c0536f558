//! Attributes the waiting time of collectives: which rank arrives last, how long each rank waits, and which rank lost
//! the time.
//!
//! A collective ends when all ranks have sent, so each rank waits from its own arrival until the last arrival. The
//! last rank is not necessarily the cause: if the previous collective delayed it, that collective's cause is to
//! blame. So the time of each rank since the last collective that all of them finished is compared with that of the
//! other ranks; the excess, less what the rank waited in collectives of other groups meanwhile, is time that the rank
//! lost itself. The rank that it waited for most is to blame for such waiting.

use std::collections::{BTreeMap, HashMap};

use super::clocks::ClockOffset;
use super::matches::{CollectiveMatch, MatchStatus, RankCall};
use super::phases::{PHASE_COUNT, PhaseTotals};
use crate::statistics::int_median;

/// The evidence for the last rank to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastRankEvidence {
    /// Start times on a common clock.
    Arrival,
    /// Durations: the last rank to arrive has the shortest one. Needs no common clock.
    Duration,
}

/// Waiting time of a collective and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attribution {
    /// The shortest duration among ranks.
    pub(super) transfer_ns: i64,
    /// First and last arrival on the reference clock.
    pub(super) arrivals_ns: Option<(i64, i64)>,
    pub(super) evidence: LastRankEvidence,
    /// Index of the last rank's call among the calls of the match.
    pub(super) last: usize,
    /// The rank that lost the time.
    pub(super) cause: i64,
    /// Mean wait of the ranks that did not arrive last.
    pub(super) others_wait_ns: i64,
    /// Time that the cause lost more than the median of the other ranks, per phase; 0 if it does not belong to the group.
    pub(super) cause_excess: PhaseTotals,
}

/// One rank's share in a collective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RankShare {
    /// Time from its arrival to the last one, at most its own duration.
    pub(super) waited_ns: i64,
    /// `None` for the first collective of these ranks.
    pub(super) since_previous: Option<SincePrevious>,
}

/// A rank's time since the last collective that all ranks finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SincePrevious {
    pub(super) gap_ns: i64,
    /// How much longer that is than the median of the other ranks, at least 0.
    pub(super) delay_ns: i64,
    /// The phase in which the rank lost most, compared with the median of the other ranks; `None` if it lost nothing.
    pub(super) delay_phase: Option<u8>,
}

/// Clock offsets of the ranks.
#[derive(Debug, Default)]
pub(super) struct RankClocks {
    pub(super) offsets: BTreeMap<i64, ClockOffset>,
    /// The trace puts all ranks on one clock: no rank's zero is its own start.
    pub(super) is_shared: bool,
}

impl RankClocks {
    /// How far a rank's clock is ahead; `None` if unknown.
    ///
    /// On a shared clock, an offset counts only if it is significant: it must exceed three times its error, and the
    /// tolerance for ends of one collective.
    pub(super) fn offset(&self, rank: i64) -> Option<i64> {
        let clock = self.offsets.get(&rank);
        match clock {
            Some(clock) if !self.is_shared => Some(clock.ahead_ns),
            Some(clock) if clock.ahead_ns.abs() > (3 * clock.error_ns).max(50_000) => {
                Some(clock.ahead_ns)
            }
            _ => self.is_shared.then_some(0),
        }
    }

    /// Time at which a rank arrives at a collective, on the reference clock.
    pub(super) fn arrival_ns(&self, call: &RankCall) -> Option<i64> {
        Some(call.interval?.0 - self.offset(call.rank)?)
    }

    /// Returns whether the offset was measured with enough collectives.
    pub(super) fn is_measured(&self, rank: i64) -> bool {
        self.offsets.get(&rank).is_some_and(ClockOffset::is_reliable)
    }
}

/// The attribution of waiting time in all matches.
#[derive(Debug, Default)]
pub(super) struct Attributions {
    /// The attribution of each match in which every call has an interval; `None` for others.
    pub(super) matches: Vec<Option<Attribution>>,
    /// Each rank's share in each match.
    pub(super) shares: Vec<Vec<RankShare>>,
    /// For each match, the latest earlier one of the same ranks that all of them had finished.
    previous: Vec<Option<usize>>,
}

/// Attributes the waiting time of each match, without phases.
pub(super) fn attribute_waits(
    calls: &[RankCall],
    matches: &[CollectiveMatch],
    clocks: &RankClocks,
) -> Attributions {
    let mut shares: Vec<Vec<RankShare>> =
        matches.iter().map(|found| vec![RankShare::default(); found.calls.len()]).collect();
    let mut attributions: Vec<Option<Attribution>> = matches
        .iter()
        .zip(&mut shares)
        .map(|(found, shares)| measure_waits(calls, found, clocks, shares))
        .collect();

    let order = chronological_order(calls, matches, &attributions);
    let previous = previous_matches(calls, matches, &order);
    let waits = RankWaits::new(calls, matches, &shares);
    for &at in &order {
        let Some(before) = previous[at] else { continue };
        measure_delays(calls, &matches[at], &matches[before], &mut shares[at]);
        let Some(attribution) = attributions[at] else { continue };
        let pair = MatchPair { calls, found: &matches[at], before: &matches[before] };
        let cause = match pair.late_because(clocks, &attribution, &shares[at], &waits) {
            LateBecause::Itself => None,
            LateBecause::Before => attributions[before].map(|before| before.cause),
            LateBecause::Waited(waits) => most_waited_for(waits, &attributions),
        };
        if let (Some(cause), Some(attribution)) = (cause, &mut attributions[at]) {
            attribution.cause = cause;
        }
    }
    Attributions { matches: attributions, shares, previous }
}

impl Attributions {
    /// For each call, the call of its rank in the previous collective of the same ranks, if delays were measured.
    pub(super) fn previous_calls(
        &self,
        call_count: usize,
        matches: &[CollectiveMatch],
    ) -> Vec<Option<u32>> {
        let mut previous = vec![None; call_count];
        for (found, (before, shares)) in matches.iter().zip(self.previous.iter().zip(&self.shares))
        {
            let Some(before) = before.filter(|_| shares[0].since_previous.is_some()) else {
                continue;
            };
            for (now, &then) in found.calls().zip(&matches[before].calls) {
                previous[now] = Some(then);
            }
        }
        previous
    }

    /// Finds the phases in which ranks lost time. `totals` is the time per phase since the end of the previous call, by call.
    pub(super) fn add_phases(
        &mut self,
        calls: &[RankCall],
        matches: &[CollectiveMatch],
        totals: &[PhaseTotals],
    ) {
        let of_matches = self.matches.iter_mut().zip(&mut self.shares);
        for (found, (attribution, shares)) in matches.iter().zip(of_matches) {
            if shares.iter().any(|share| share.since_previous.is_none()) {
                continue;
            }
            let mut excess = vec![PhaseTotals::default(); shares.len()];
            for phase in 0..PHASE_COUNT {
                let of_phase: Vec<i64> = found.calls().map(|at| totals[at][phase]).collect();
                for (excess, more) in excess.iter_mut().zip(excess_over_others(&of_phase)) {
                    excess[phase] = more;
                }
            }
            for ((share, excess), call) in shares.iter_mut().zip(&excess).zip(found.calls()) {
                if let Some(since) = &mut share.since_previous {
                    since.delay_phase = largest_excess(excess).map(|phase| phase as u8);
                }
                if let Some(attribution) = attribution
                    && attribution.cause == calls[call].rank
                {
                    attribution.cause_excess = *excess;
                }
            }
        }
    }
}

/// The wait of a rank in a collective that it has finished.
#[derive(Debug, Clone, Copy)]
struct FinishedWait {
    end_ns: i64,
    waited_ns: i64,
    /// Sum of the waits of the rank up to and with this one.
    sum_ns: i64,
    /// Index of the match.
    found: u32,
}

/// The waits of each rank, by end.
#[derive(Debug)]
struct RankWaits(BTreeMap<i64, Vec<FinishedWait>>);

impl RankWaits {
    fn new(calls: &[RankCall], matches: &[CollectiveMatch], shares: &[Vec<RankShare>]) -> Self {
        let mut of_ranks: BTreeMap<i64, Vec<FinishedWait>> = BTreeMap::new();
        for of_rank in calls.chunk_by(|a, b| a.rank == b.rank) {
            of_ranks.entry(of_rank[0].rank).or_default().reserve_exact(of_rank.len());
        }
        for (at, (found, shares)) in matches.iter().zip(shares).enumerate() {
            for (call, share) in found.calls().zip(shares) {
                let Some((_, end_ns)) = calls[call].interval else { continue };
                let waited_ns = share.waited_ns;
                let wait = FinishedWait { end_ns, waited_ns, sum_ns: 0, found: at as u32 };
                of_ranks.entry(calls[call].rank).or_default().push(wait);
            }
        }
        for waits in of_ranks.values_mut() {
            waits.sort_unstable_by_key(|wait| (wait.end_ns, wait.found));
            let mut sum_ns = 0;
            for wait in waits {
                sum_ns += wait.waited_ns;
                wait.sum_ns = sum_ns;
            }
        }
        Self(of_ranks)
    }

    /// The waits that end in `from..=until`, except at `from` itself.
    fn between(&self, rank: i64, (from, until): (i64, i64)) -> &[FinishedWait] {
        let waits = self.0.get(&rank).map_or(&[][..], Vec::as_slice);
        let up_to = |moment| waits.partition_point(|wait| wait.end_ns <= moment);
        waits.get(up_to(from)..up_to(until)).unwrap_or_default()
    }
}

/// Sum of consecutive waits.
fn waited_ns(waits: &[FinishedWait]) -> i64 {
    let (Some(first), Some(last)) = (waits.first(), waits.last()) else { return 0 };
    last.sum_ns - first.sum_ns + first.waited_ns
}

/// The rank that caused most of these waits.
fn most_waited_for(waits: &[FinishedWait], attributions: &[Option<Attribution>]) -> Option<i64> {
    let mut by_cause: BTreeMap<i64, i64> = BTreeMap::new();
    for wait in waits {
        if let Some(attribution) = attributions[wait.found as usize] {
            *by_cause.entry(attribution.cause).or_default() += wait.waited_ns;
        }
    }
    let most = by_cause.into_iter().max_by_key(|&(rank, waited)| (waited, std::cmp::Reverse(rank)));
    most.map(|(rank, _)| rank)
}

/// Measures arrivals, and how long each rank waits for the last one.
fn measure_waits(
    calls: &[RankCall],
    found: &CollectiveMatch,
    clocks: &RankClocks,
    shares: &mut [RankShare],
) -> Option<Attribution> {
    let intervals: Vec<(i64, i64)> =
        found.calls().map(|at| calls[at].interval).collect::<Option<_>>()?;
    if intervals.len() < 2 || found.status != MatchStatus::Matched {
        return None;
    }
    let durations = intervals.iter().map(|(start, end)| end - start);
    let transfer_ns = durations.clone().min()?;
    let shortest = durations.clone().position(|dur| dur == transfer_ns)?;
    let arrivals: Option<Vec<i64>> =
        found.calls().map(|at| clocks.arrival_ns(&calls[at])).collect();
    let arrivals_ns =
        arrivals.as_ref().and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    // On the device, durations are exact, while clocks may only be stated as shared. On the host, the root of a
    // broadcast does not wait, and all ranks share a clock.
    let on_host = found.calls().all(|at| !calls[at].on_device);
    let measured = found.calls().all(|at| clocks.is_measured(calls[at].rank));
    let by_arrival = arrivals.as_ref().zip(arrivals_ns).filter(|_| on_host || measured);
    let (evidence, last) = match by_arrival {
        Some((arrivals, (_, last))) => {
            (LastRankEvidence::Arrival, arrivals.iter().position(|&at| at == last)?)
        }
        None => (LastRankEvidence::Duration, shortest),
    };
    for (place, (share, dur)) in shares.iter_mut().zip(durations).enumerate() {
        share.waited_ns = match by_arrival {
            Some((arrivals, (_, last))) => (last - arrivals[place]).clamp(0, dur),
            None => dur - transfer_ns,
        };
    }
    let others = shares.len() as i64 - 1;
    let sum: i64 = shares.iter().map(|share| share.waited_ns).sum();
    let others_wait_ns = (sum - shares[last].waited_ns) / others;
    let cause = calls[found.call(last)].rank;
    let cause_excess = PhaseTotals::default();
    Some(Attribution {
        transfer_ns,
        arrivals_ns,
        evidence,
        last,
        cause,
        others_wait_ns,
        cause_excess,
    })
}

/// Attributed matches in chronological order.
fn chronological_order(
    calls: &[RankCall],
    matches: &[CollectiveMatch],
    attributions: &[Option<Attribution>],
) -> Vec<usize> {
    let mut order: Vec<(i64, usize)> = attributions
        .iter()
        .enumerate()
        .filter_map(|(at, attribution)| {
            let first = calls[matches[at].call(0)].interval?.0;
            Some((attribution.as_ref()?.arrivals_ns.map_or(first, |(_, last)| last), at))
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// For each match, the latest earlier match of the same ranks that all of them had finished.
fn previous_matches(
    calls: &[RankCall],
    matches: &[CollectiveMatch],
    order: &[usize],
) -> Vec<Option<usize>> {
    // Groups with the same ranks under different names count as one here.
    let mut sets: HashMap<Vec<i64>, usize> = HashMap::new();
    let mut of_set: Vec<Vec<usize>> = Vec::new();
    for &at in order {
        let ranks: Vec<i64> = matches[at].calls().map(|call| calls[call].rank).collect();
        let next = of_set.len();
        let set = *sets.entry(ranks).or_insert(next);
        if set == next {
            of_set.push(Vec::new());
        }
        of_set[set].push(at);
    }
    let mut previous = vec![None; matches.len()];
    for of_set in of_set {
        // For each match, the latest match that each rank had finished before it; the minimum over ranks counts.
        let mut finished: Vec<Option<Option<usize>>> = vec![None; of_set.len()];
        for rank in 0..matches[of_set[0]].calls.len() {
            let interval = |place: usize| calls[matches[of_set[place]].call(rank)].interval;
            let mut starts: Vec<(i64, usize)> =
                (0..of_set.len()).filter_map(|p| Some((interval(p)?.0, p))).collect();
            let mut ends: Vec<(i64, usize)> =
                (0..of_set.len()).filter_map(|p| Some((interval(p)?.1, p))).collect();
            starts.sort_unstable();
            ends.sort_unstable();
            let mut ended = ends.into_iter().peekable();
            let mut latest: Option<usize> = None;
            for (start, place) in starts {
                while let Some((_, other)) = ended.next_if(|&(end, _)| end <= start) {
                    latest = latest.max(Some(other));
                }
                let own = latest.filter(|&latest| latest < place);
                finished[place] = Some(match finished[place] {
                    Some(least) => least.min(own),
                    None => own,
                });
            }
        }
        for (place, finished) in finished.into_iter().enumerate() {
            previous[of_set[place]] = finished.flatten().map(|before| of_set[before]);
        }
    }
    previous
}

/// Compares the time of each rank since the previous collective with that of the others.
fn measure_delays(
    calls: &[RankCall],
    found: &CollectiveMatch,
    before: &CollectiveMatch,
    shares: &mut [RankShare],
) {
    let gaps: Vec<(i64, i64)> = found
        .calls()
        .zip(before.calls())
        .filter_map(|(now, then)| Some((calls[then].interval?.1, calls[now].interval?.0)))
        .collect();
    if gaps.len() != shares.len() || gaps.iter().any(|(from, to)| from > to) {
        return;
    }
    let lengths: Vec<i64> = gaps.iter().map(|(from, to)| to - from).collect();
    let more = excess_over_others(&lengths);
    for (share, (&gap_ns, &more)) in shares.iter_mut().zip(lengths.iter().zip(&more)) {
        let delay_ns = more.max(0);
        share.since_previous = Some(SincePrevious { gap_ns, delay_ns, delay_phase: None });
    }
}

/// Each value minus the median of the others.
fn excess_over_others(values: &[i64]) -> Vec<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let others = sorted.len() - 1;
    let without =
        |taken: usize, place: usize| sorted[if place < taken { place } else { place + 1 }];
    values
        .iter()
        .map(|&value| {
            let taken = sorted.partition_point(|&other| other < value);
            let high = without(taken, others / 2);
            let low = if others % 2 == 1 { high } else { without(taken, others / 2 - 1) };
            value - low.midpoint(high)
        })
        .collect()
}

/// The reason why the last rank of a collective is late.
#[derive(Debug)]
enum LateBecause<'a> {
    /// It lost at least half of its lateness itself.
    Itself,
    /// It waited in these collectives since the previous one of the same ranks.
    Waited(&'a [FinishedWait]),
    /// The previous collective of the same ranks delayed it.
    Before,
}

/// A match and the previous one of the same ranks.
struct MatchPair<'a> {
    calls: &'a [RankCall],
    found: &'a CollectiveMatch,
    before: &'a CollectiveMatch,
}

impl MatchPair<'_> {
    fn late_because<'w>(
        &self,
        clocks: &RankClocks,
        attribution: &Attribution,
        shares: &[RankShare],
        waits: &'w RankWaits,
    ) -> LateBecause<'w> {
        let last = attribution.last;
        let Some(since) = shares[last].since_previous else { return LateBecause::Itself };
        let others = || (0..shares.len()).filter(|&at| at != last);
        let arrival_ns = |at| clocks.arrival_ns(&self.calls[self.found.call(at)]);
        let mut late: Vec<i64> = match (attribution.evidence, arrival_ns(last)) {
            (LastRankEvidence::Arrival, Some(arrival)) => {
                others().filter_map(|at| Some(arrival - arrival_ns(at)?)).collect()
            }
            _ => others().map(|at| shares[at].waited_ns).collect(),
        };
        let half = int_median(&mut late) / 2;
        if since.delay_ns < half {
            return LateBecause::Before;
        }
        let waits_since = |at: usize| {
            let then = &self.calls[self.before.call(at)];
            let now = &self.calls[self.found.call(at)];
            let gap = then.interval.zip(now.interval).map(|((_, from), (until, _))| (from, until));
            gap.map_or(&[][..], |gap| waits.between(now.rank, gap))
        };
        let waited: Vec<i64> = (0..shares.len()).map(|at| waited_ns(waits_since(at))).collect();
        if waited[last] == 0 || since.delay_ns - excess_over_others(&waited)[last] >= half {
            return LateBecause::Itself;
        }
        LateBecause::Waited(waits_since(last))
    }
}

/// The phase in which a rank lost most; `None` if it lost nothing.
pub(super) fn largest_excess(excess: &PhaseTotals) -> Option<usize> {
    let most = (0..PHASE_COUNT).max_by_key(|&phase| (excess[phase], std::cmp::Reverse(phase)))?;
    (excess[most] > 0).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::super::matches::{CollectiveTraits, Counting, match_collectives};
    use super::super::tests::Random;
    use super::*;

    /// Ranks work for a while, then meet; `work[step][rank]`.
    fn simulate(work: &[&[i64]], offsets: &[i64]) -> Vec<RankCall> {
        let mut free = vec![0_i64; work[0].len()];
        let mut calls = Vec::new();
        for (step, of_step) in work.iter().enumerate() {
            let starts: Vec<i64> =
                free.iter().zip(*of_step).map(|(free, work)| free + work).collect();
            let end = starts.iter().max().unwrap() + 10;
            for (rank, &start) in starts.iter().enumerate() {
                calls.push(RankCall {
                    rank: rank as i64,
                    number: step as i64,
                    counting: Counting::BySequence(step as i64),
                    traits: CollectiveTraits::of("all_reduce"),
                    interval: Some((start + offsets[rank], end + offsets[rank])),
                    on_device: true,
                    is_complete: true,
                    ..RankCall::default()
                });
            }
            free = vec![end; free.len()];
        }
        calls
    }

    fn attribute(calls: &[RankCall], is_shared: bool) -> (Vec<CollectiveMatch>, Attributions) {
        let found = match_collectives(calls, &BTreeMap::new());
        let clocks = RankClocks {
            offsets: super::super::clocks::estimate_offsets(calls, &found),
            is_shared,
        };
        let attributions = attribute_waits(calls, &found, &clocks);
        (found, attributions)
    }

    #[test]
    fn attribute_waits_finds_the_last_rank_on_skewed_clocks() {
        let work: [&[i64]; 6] = [
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
            &[500_000, 100_000, 100_000],
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
        ];
        for (offsets, shared) in [([0, 0, 0], true), ([0, 9_000_000, -77_000_000], false)] {
            let calls = simulate(&work, &offsets);
            let (_, Attributions { matches: attributions, shares, .. }) = attribute(&calls, shared);
            let last: Vec<usize> = attributions.iter().map(|v| v.unwrap().last).collect();
            assert_eq!(last, [2, 2, 2, 0, 2, 2]);
            assert!(attributions.iter().all(|v| v.unwrap().evidence == LastRankEvidence::Arrival));
            let waits: Vec<i64> = attributions.iter().map(|v| v.unwrap().others_wait_ns).collect();
            assert_eq!(waits, [300_000, 300_000, 300_000, 400_000, 300_000, 300_000]);
            let delays: Vec<i64> =
                shares[3].iter().map(|share| share.since_previous.unwrap().delay_ns).collect();
            assert_eq!(delays, [400_000, 0, 0]);
        }
    }

    #[test]
    fn attribute_waits_uses_durations_without_a_clock() {
        let work: [&[i64]; 2] = [&[100, 900], &[100, 900]];
        let (_, Attributions { matches: attributions, shares, .. }) =
            attribute(&simulate(&work, &[0, -5_000]), false);
        assert!(
            attributions
                .iter()
                .all(|v| v.unwrap().evidence == LastRankEvidence::Duration && v.unwrap().last == 1)
        );
        assert!(attributions.iter().all(|v| v.unwrap().arrivals_ns.is_none()));
        assert_eq!(shares[0][0].waited_ns, 800);
    }

    #[test]
    fn attribute_waits_blames_the_rank_that_delayed_the_last_one() {
        // Rank 1 is late; the first collective delays rank 0 until then, but not rank 2 (a broadcast from rank 2). At
        // the second, rank 0 is last although it lost no time itself.
        let call = |rank, sequence, start, end| RankCall {
            rank,
            counting: Counting::BySequence(sequence),
            interval: Some((start, end)),
            is_complete: true,
            ..RankCall::default()
        };
        let calls = [
            call(0, 0, 100, 1_010),
            call(1, 0, 1_000, 1_005),
            call(2, 0, 100, 110),
            call(0, 1, 1_115, 1_130),
            call(1, 1, 1_100, 1_130),
            call(2, 1, 200, 1_130),
        ];
        let (_, Attributions { matches: attributions, shares, .. }) = attribute(&calls, true);
        let attribution = attributions[1].unwrap();
        assert_eq!((attribution.last, attribution.cause), (0, 1));
        let gaps: Vec<i64> =
            shares[1].iter().map(|share| share.since_previous.unwrap().gap_ns).collect();
        assert_eq!(gaps, [105, 95, 90]);
    }

    #[test]
    fn attribute_waits_blames_a_rank_of_another_group() {
        // Ranks 0 and 1, and ranks 2 and 3, meet first; then ranks 0 and 2, and ranks 1 and 3. Rank 3 loses 900 in each
        // step, so rank 2 is late for rank 0.
        let mut calls = Vec::new();
        for step in 0..3 {
            let from = 2_000 * step;
            let mut meet = |group, ranks: [i64; 2], starts: [i64; 2], end| {
                for (rank, start) in ranks.into_iter().zip(starts) {
                    calls.push(RankCall {
                        rank,
                        number: 2 * step,
                        group,
                        has_group: true,
                        counting: Counting::BySequence(step),
                        interval: Some((from + start, from + end)),
                        on_device: true,
                        is_complete: true,
                        ..RankCall::default()
                    });
                }
            };
            meet(0, [0, 1], [100, 100], 110);
            meet(1, [2, 3], [100, 1_000], 1_010);
            meet(2, [0, 2], [120, 1_020], 1_030);
            meet(3, [1, 3], [120, 1_020], 1_030);
        }
        let (found, attributions) = attribute(&calls, true);
        let causes = |group: u32| -> Vec<i64> {
            let of_group =
                found.iter().zip(&attributions.matches).filter(|(found, _)| found.group == group);
            of_group.map(|(_, attribution)| attribution.unwrap().cause).collect()
        };
        assert_eq!(causes(1), [3, 3, 3]);
        // Before the first collective of a group, nothing tells what made a rank late.
        assert_eq!(causes(2), [2, 3, 3]);
        assert_eq!(causes(3), [3, 3, 3]);
    }

    #[test]
    fn excess_over_others_excludes_the_own_value_from_the_median() {
        let mut random = Random(9);
        for _ in 0..300 {
            let values: Vec<i64> = (0..2 + random.below(7)).map(|_| random.below(9)).collect();
            let expected: Vec<i64> = (0..values.len())
                .map(|own| {
                    let mut others = values.clone();
                    others.remove(own);
                    values[own] - int_median(&mut others)
                })
                .collect();
            assert_eq!(excess_over_others(&values), expected);
        }
    }
}
