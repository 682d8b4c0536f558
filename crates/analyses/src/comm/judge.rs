//! Who arrives last at a collective, who waits how long, and whose lost time it was.
//!
//! A collective ends when all ranks have sent, so that each rank waits from its own arrival until the last
//! one's. The last to arrive need not be to blame: if the collective before held it up, the loss is that
//! collective's. So each rank's time since the last collective that all of them had finished is compared
//! with the other ranks': what it took longer than they did, it lost itself.

use std::collections::{BTreeMap, HashMap};

use super::clocks::{Clock, median};
use super::matches::{Call, Match, Status};
use super::phases::{AtCall, KINDS, Spent, difference};

/// How the last to arrive was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// By starts, on one clock.
    Arrival,
    /// By durations: who arrives last has the shortest one. Needs no clock.
    Duration,
}

/// What a collective came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The shortest duration among ranks.
    pub(super) transfer_ns: i64,
    /// First and last arrival on the reference's clock.
    pub(super) arrivals_ns: Option<(i64, i64)>,
    pub(super) by: By,
    /// Position among the calls of the match.
    pub(super) last: usize,
    /// The rank that lost the time.
    pub(super) cause: i64,
    /// Mean wait of the ranks that did not arrive last.
    pub(super) others_wait_ns: i64,
}

/// One rank in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Start on the reference's clock.
    pub(super) arrival_ns: Option<i64>,
    /// After the first arrival.
    pub(super) late_ns: Option<i64>,
    /// Before the last arrival, within its own duration.
    pub(super) waited_ns: i64,
    /// Since the last collective that all had finished.
    pub(super) gap_ns: Option<i64>,
    /// What that is more than the median of the other ranks; less than nothing counts as nothing.
    pub(super) delay_ns: Option<i64>,
    /// By kind of time, more or less than the median of the others.
    pub(super) excess: Spent,
}

/// Clocks, and whether the ranks share one to begin with.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) found: BTreeMap<i64, Clock>,
    /// No rank's zero is its own start.
    pub(super) shared: bool,
}

impl Clocks {
    /// How far a rank's clock is taken to be ahead; none if that is not known.
    ///
    /// On a shared clock, an offset that may be chance is none: it must stand out of its error, and of
    /// what ends of one collective may differ.
    pub(super) fn offset(&self, rank: i64) -> Option<i64> {
        let clock = self.found.get(&rank);
        match clock {
            Some(clock) if !self.shared => Some(clock.ahead_ns),
            Some(clock) if clock.ahead_ns.abs() > (3 * clock.error_ns).max(50_000) => {
                Some(clock.ahead_ns)
            }
            _ => self.shared.then_some(0),
        }
    }

    /// Rests on collectives.
    pub(super) fn is_measured(&self, rank: i64) -> bool {
        self.found.get(&rank).is_some_and(Clock::is_sound)
    }
}

/// For each match, what it came to, and each rank's part in it.
pub(super) type Judged = (Vec<Option<Verdict>>, Vec<Vec<Part>>);

/// Judges all matches whose ranks all have a time. `None` for others. `spent` is what the rank of each call had spent its
/// time on by then.
pub(super) fn judge(
    calls: &[Call],
    matches: &[Match],
    clocks: &Clocks,
    spent: &[AtCall],
) -> Judged {
    let mut parts: Vec<Vec<Part>> =
        matches.iter().map(|found| vec![Part::default(); found.calls.len()]).collect();
    let mut verdicts: Vec<Option<Verdict>> = matches
        .iter()
        .zip(&mut parts)
        .map(|(found, parts)| waits(calls, found, clocks, parts))
        .collect();

    let order = in_order(calls, matches, &verdicts);
    let previous = previous(calls, matches, &order);
    for &at in &order {
        let before = previous[at];
        if let Some(before) = before {
            losses(calls, &matches[at], &matches[before], spent, &mut parts[at]);
        }
        let inherited = before.and_then(|before| verdicts[before]).map(|verdict| verdict.cause);
        if let Some(verdict) = &mut verdicts[at] {
            verdict.cause = cause(calls, &matches[at], verdict, &parts[at], inherited);
        }
    }
    (verdicts, parts)
}

/// Arrivals, and who waits for the last one.
fn waits(calls: &[Call], found: &Match, clocks: &Clocks, parts: &mut [Part]) -> Option<Verdict> {
    let intervals: Vec<(i64, i64)> =
        found.calls.iter().map(|&at| calls[at].interval).collect::<Option<_>>()?;
    if intervals.len() < 2 || found.status != Status::Matched {
        return None;
    }
    let durations = intervals.iter().map(|(start, end)| end - start);
    let transfer_ns = durations.clone().min()?;
    let shortest = durations.clone().position(|dur| dur == transfer_ns)?;
    for (part, (&at, &(start, _))) in parts.iter_mut().zip(found.calls.iter().zip(&intervals)) {
        part.arrival_ns = clocks.offset(calls[at].rank).map(|offset| start - offset);
    }
    let arrivals: Option<Vec<i64>> = parts.iter().map(|part| part.arrival_ns).collect();
    let arrivals_ns =
        arrivals.as_ref().and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    // On the device, durations are exact where clocks are only said to be shared. On the host the first
    // of a broadcast does not wait, and nobody else has a clock of its own.
    let on_host = found.calls.iter().all(|&at| !calls[at].on_device);
    let measured = found.calls.iter().all(|&at| clocks.is_measured(calls[at].rank));
    let by_arrival = arrivals_ns.filter(|_| on_host || measured);
    let (by, last) = match (by_arrival, &arrivals) {
        (Some((_, last)), Some(all)) => (By::Arrival, all.iter().position(|&at| at == last)?),
        _ => (By::Duration, shortest),
    };
    for (part, dur) in parts.iter_mut().zip(durations) {
        part.late_ns =
            part.arrival_ns.zip(arrivals_ns).map(|(arrival, (first, _))| arrival - first);
        part.waited_ns = match (by, part.arrival_ns, arrivals_ns) {
            (By::Arrival, Some(arrival), Some((_, last))) => (last - arrival).clamp(0, dur),
            _ => dur - transfer_ns,
        };
    }
    let others = parts.len() as i64 - 1;
    let sum: i64 = parts.iter().map(|part| part.waited_ns).sum();
    let others_wait_ns = (sum - parts[last].waited_ns) / others;
    let cause = calls[found.calls[last]].rank;
    Some(Verdict { transfer_ns, arrivals_ns, by, last, cause, others_wait_ns })
}

/// Matches with a verdict, in the order in which they happened.
fn in_order(calls: &[Call], matches: &[Match], verdicts: &[Option<Verdict>]) -> Vec<usize> {
    let mut order: Vec<(i64, usize)> = verdicts
        .iter()
        .enumerate()
        .filter_map(|(at, verdict)| {
            let first = calls[matches[at].calls[0]].interval?.0;
            Some((verdict.as_ref()?.arrivals_ns.map_or(first, |(_, last)| last), at))
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// For each match, the latest one before it of the same ranks that all of them had finished.
fn previous(calls: &[Call], matches: &[Match], order: &[usize]) -> Vec<Option<usize>> {
    // Groups of the same ranks under different names are one here.
    let mut sets: HashMap<Vec<i64>, usize> = HashMap::new();
    let mut of_set: Vec<Vec<usize>> = Vec::new();
    for &at in order {
        let ranks: Vec<i64> = matches[at].calls.iter().map(|&call| calls[call].rank).collect();
        let next = of_set.len();
        let set = *sets.entry(ranks).or_insert(next);
        if set == next {
            of_set.push(Vec::new());
        }
        of_set[set].push(at);
    }
    let mut previous = vec![None; matches.len()];
    for of_set in of_set {
        // Latest place in `of_set` that each rank had finished before each match; the least of them counts.
        let mut finished: Vec<Option<Option<usize>>> = vec![None; of_set.len()];
        for rank in 0..matches[of_set[0]].calls.len() {
            let interval = |place: usize| calls[matches[of_set[place]].calls[rank]].interval;
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

/// What each rank did since the collective before, held against the others.
fn losses(calls: &[Call], found: &Match, before: &Match, spent: &[AtCall], parts: &mut [Part]) {
    let gaps: Vec<(i64, i64)> = found
        .calls
        .iter()
        .zip(&before.calls)
        .filter_map(|(&now, &then)| Some((calls[then].interval?.1, calls[now].interval?.0)))
        .collect();
    if gaps.len() != parts.len() || gaps.iter().any(|(from, to)| from > to) {
        return;
    }
    let lengths: Vec<i64> = gaps.iter().map(|(from, to)| to - from).collect();
    let spent: Vec<Spent> = found
        .calls
        .iter()
        .zip(&before.calls)
        .map(|(&now, &then)| difference(&spent[now].start, &spent[then].end))
        .collect();
    let more = more_than_others(&lengths);
    for (part, (&gap, &more)) in parts.iter_mut().zip(lengths.iter().zip(&more)) {
        part.gap_ns = Some(gap);
        part.delay_ns = Some(more.max(0));
    }
    for kind in 0..KINDS {
        let of_kind: Vec<i64> = spent.iter().map(|spent| spent[kind]).collect();
        for (part, more) in parts.iter_mut().zip(more_than_others(&of_kind)) {
            part.excess[kind] = more;
        }
    }
}

/// Each value less the median of the others.
fn more_than_others(values: &[i64]) -> Vec<i64> {
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

/// The last to arrive, if at least half of its lateness is its own; else whoever held it up before.
fn cause(
    calls: &[Call],
    found: &Match,
    verdict: &Verdict,
    parts: &[Part],
    inherited: Option<i64>,
) -> i64 {
    let last = calls[found.calls[verdict.last]].rank;
    let (Some(delay_ns), Some(inherited)) = (parts[verdict.last].delay_ns, inherited) else {
        return last;
    };
    let others = || parts.iter().enumerate().filter(|(at, _)| *at != verdict.last);
    let mut late: Vec<i64> = match (verdict.by, parts[verdict.last].arrival_ns) {
        (By::Arrival, Some(arrival)) => {
            others().filter_map(|(_, part)| Some(arrival - part.arrival_ns?)).collect()
        }
        _ => others().map(|(_, part)| part.waited_ns).collect(),
    };
    if delay_ns >= median(&mut late) / 2 { last } else { inherited }
}

/// The kind of time in which a rank lost most; none if it lost none.
pub(super) fn most(excess: &Spent) -> Option<usize> {
    let most = (0..KINDS).max_by_key(|&kind| (excess[kind], std::cmp::Reverse(kind)))?;
    (excess[most] > 0).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::super::matches::{Kind, matches};
    use super::super::tests::Random;
    use super::*;

    /// Ranks work for a while, then meet; `work[step][rank]`.
    fn run(work: &[&[i64]], offsets: &[i64]) -> Vec<Call> {
        let mut free = vec![0_i64; work[0].len()];
        let mut calls = Vec::new();
        for (step, of_step) in work.iter().enumerate() {
            let starts: Vec<i64> =
                free.iter().zip(*of_step).map(|(free, work)| free + work).collect();
            let end = starts.iter().max().unwrap() + 10;
            for (rank, &start) in starts.iter().enumerate() {
                calls.push(Call {
                    rank: rank as i64,
                    number: step as i64,
                    sequence: Some(step as i64),
                    kind: Kind::of("all_reduce"),
                    interval: Some((start + offsets[rank], end + offsets[rank])),
                    on_device: true,
                    is_complete: true,
                    ..Call::default()
                });
            }
            free = vec![end; free.len()];
        }
        calls
    }

    fn judged(calls: &[Call], shared: bool) -> (Vec<Match>, Vec<Option<Verdict>>, Vec<Vec<Part>>) {
        let found = matches(calls, &BTreeMap::new());
        let clocks = Clocks { found: super::super::clocks::clocks(calls, &found), shared };
        let (verdicts, parts) =
            judge(calls, &found, &clocks, &vec![AtCall::default(); calls.len()]);
        (found, verdicts, parts)
    }

    #[test]
    fn the_others_wait_for_the_last_whatever_the_clocks_say() {
        let work: [&[i64]; 6] = [
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
            &[500_000, 100_000, 100_000],
            &[100_000, 100_000, 400_000],
            &[100_000, 100_000, 400_000],
        ];
        for (offsets, shared) in [([0, 0, 0], true), ([0, 9_000_000, -77_000_000], false)] {
            let calls = run(&work, &offsets);
            let (_, verdicts, parts) = judged(&calls, shared);
            let last: Vec<usize> = verdicts.iter().map(|v| v.unwrap().last).collect();
            assert_eq!(last, [2, 2, 2, 0, 2, 2]);
            assert!(verdicts.iter().all(|v| v.unwrap().by == By::Arrival));
            let waits: Vec<i64> = verdicts.iter().map(|v| v.unwrap().others_wait_ns).collect();
            assert_eq!(waits, [300_000, 300_000, 300_000, 400_000, 300_000, 300_000]);
            assert_eq!(parts[3][0].delay_ns, Some(400_000));
            assert_eq!(parts[3][1].delay_ns, Some(0));
        }
    }

    #[test]
    fn without_a_clock_the_shortest_arrived_last() {
        let work: [&[i64]; 2] = [&[100, 900], &[100, 900]];
        let (_, verdicts, parts) = judged(&run(&work, &[0, -5_000]), false);
        assert!(verdicts.iter().all(|v| v.unwrap().by == By::Duration && v.unwrap().last == 1));
        assert!(
            parts.iter().flatten().all(|part| part.late_ns.is_none() || part.arrival_ns.is_some())
        );
        assert_eq!(parts[0][1].arrival_ns, None);
        assert_eq!(parts[0][0].waited_ns, 800);
    }

    #[test]
    fn who_was_held_up_is_not_to_blame() {
        // Rank 1 is late; the first collective holds rank 0 until then, but lets rank 2 go (a broadcast
        // from it). At the second, rank 0 is last though it lost nothing itself.
        let call = |rank, sequence, start, end| Call {
            rank,
            sequence: Some(sequence),
            interval: Some((start, end)),
            is_complete: true,
            ..Call::default()
        };
        let calls = [
            call(0, 0, 100, 1_010),
            call(1, 0, 1_000, 1_005),
            call(2, 0, 100, 110),
            call(0, 1, 1_115, 1_130),
            call(1, 1, 1_100, 1_130),
            call(2, 1, 200, 1_130),
        ];
        let (_, verdicts, parts) = judged(&calls, true);
        let verdict = verdicts[1].unwrap();
        assert_eq!((verdict.last, verdict.cause), (0, 1));
        assert_eq!(parts[1].iter().map(|p| p.gap_ns.unwrap()).collect::<Vec<_>>(), [105, 95, 90]);
    }

    #[test]
    fn the_median_of_the_others_leaves_oneself_out() {
        let mut random = Random(9);
        for _ in 0..300 {
            let values: Vec<i64> = (0..2 + random.below(7)).map(|_| random.below(9)).collect();
            let expected: Vec<i64> = (0..values.len())
                .map(|own| {
                    let mut others = values.clone();
                    others.remove(own);
                    values[own] - median(&mut others)
                })
                .collect();
            assert_eq!(more_than_others(&values), expected);
        }
    }
}
