//! Matching and clock offsets, tested against naive models on random runs.

use std::collections::BTreeMap;

use super::clocks::estimate_offsets;
use super::matches::{
    CollectiveMatch, CollectiveTraits, Counting, MatchStatus, RankCall, match_collectives,
};

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, below: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % below
    }
}

fn call(rank: i64, number: i64, end: i64, dur: i64) -> RankCall {
    RankCall {
        rank,
        number,
        traits: CollectiveTraits::of("all_reduce"),
        has_group: true,
        counting: Counting::ByName { elements: Some(16) },
        interval: Some((end - dur, end)),
        on_device: true,
        is_complete: true,
        ..RankCall::default()
    }
}

/// `(group, sequence, ranks, status)` by definition: for each number of each group, the ranks that have it.
fn naive(calls: &[RankCall]) -> Vec<(u32, i64, Vec<i64>, MatchStatus)> {
    let mut found = Vec::new();
    for group in 0..4 {
        let mut members: Vec<i64> =
            calls.iter().filter(|c| c.group == group).map(|c| c.rank).collect();
        members.sort_unstable();
        members.dedup();
        for sequence in 0..64 {
            let numbered = Counting::BySequence(sequence);
            let same: Vec<&RankCall> =
                calls.iter().filter(|c| c.group == group && c.counting == numbered).collect();
            let mut ranks: Vec<i64> = same.iter().map(|c| c.rank).collect();
            ranks.sort_unstable();
            if ranks.is_empty() {
                continue;
            }
            let status = if same.iter().any(|c| c.name != same[0].name) {
                MatchStatus::NameMismatch
            } else if ranks != members {
                MatchStatus::MissingRanks
            } else if ranks.len() < 2 {
                MatchStatus::SingleRank
            } else {
                MatchStatus::Matched
            };
            found.push((group, sequence, ranks, status));
        }
    }
    found
}

fn summary(
    calls: &[RankCall],
    found: &[CollectiveMatch],
) -> Vec<(u32, i64, Vec<i64>, MatchStatus)> {
    let ranks = |m: &CollectiveMatch| m.calls().map(|at| calls[at].rank).collect();
    found.iter().map(|m| (m.group, m.sequence, ranks(m), m.status)).collect()
}

#[test]
fn match_collectives_finds_shuffled_and_dropped_calls_by_number() {
    let mut random = Random(3);
    for _ in 0..200 {
        let ranks = 1 + random.below(5);
        let mut calls = Vec::new();
        for rank in 0..ranks {
            let mut of_rank = Vec::new();
            for i in 0..=random.below(40) {
                let name = u32::from(random.below(30) == 0);
                if random.below(8) > 0 {
                    let (group, counting) = ((i % 4) as u32, Counting::BySequence(i / 4));
                    of_rank.push(RankCall { name, group, counting, ..call(rank, i, 100 * i, 10) });
                }
            }
            for i in (1..of_rank.len()).rev() {
                of_rank.swap(i, random.below(i as i64 + 1) as usize);
            }
            calls.extend(of_rank);
        }
        assert_eq!(summary(&calls, &match_collectives(&calls, &BTreeMap::new())), naive(&calls));
    }
}

#[test]
fn match_collectives_uses_sizes_when_numbers_are_missing() {
    // Two threads of rank 1 start them in the opposite order.
    let mut calls: Vec<RankCall> = (0..2).map(|i| call(0, i, 100 * (i + 1), 10)).collect();
    calls.extend((0..2).map(|i| call(1, i, 100 * (i + 1), 10)));
    for (at, elements) in [672, 9, 9, 672].into_iter().enumerate() {
        calls[at].counting = Counting::ByName { elements: Some(elements) };
    }
    let found = match_collectives(&calls, &BTreeMap::new());
    assert_eq!(found.len(), 2);
    for m in found {
        assert_eq!(m.status, MatchStatus::Matched);
        assert_eq!(calls[m.call(0)].counting, calls[m.call(1)].counting);
    }
}

#[test]
fn match_collectives_limits_ambiguity_to_the_step_of_a_missing_call() {
    let mut calls = Vec::new();
    for rank in 0..2 {
        for i in 0..9_i64 {
            if !(rank == 1 && i == 4) {
                calls.push(RankCall { step: Some(i / 3), ..call(rank, i, 100 * i + 50, 10) });
            }
        }
    }
    let mut counts: BTreeMap<MatchStatus, usize> = BTreeMap::new();
    for m in match_collectives(&calls, &BTreeMap::new()) {
        *counts.entry(m.status).or_default() += 1;
        if m.status == MatchStatus::Matched {
            assert_eq!(calls[m.call(0)].interval, calls[m.call(1)].interval);
        }
    }
    assert_eq!(counts, BTreeMap::from([(MatchStatus::Matched, 6), (MatchStatus::Ambiguous, 3)]));
}

#[test]
fn match_collectives_reports_missing_ranks_that_the_group_lists() {
    let calls = [call(0, 0, 10, 5), call(1, 0, 10, 5), RankCall { group: 1, ..call(2, 0, 10, 5) }];
    let found = match_collectives(&calls, &BTreeMap::from([(0, vec![0, 1, 2, 3])]));
    // Rank 3 was not recorded, so it is not reported as missing.
    assert_eq!(
        (found[0].status, found[0].missing.as_slice()),
        (MatchStatus::MissingRanks, &[2][..])
    );
    assert_eq!(found[1].status, MatchStatus::SingleRank);
}

#[test]
fn match_collectives_without_groups_expects_only_ranks_with_the_same_size() {
    // Stages of a pipeline: other sizes, other ranks.
    let mut calls: Vec<RankCall> = (0..4).map(|rank| call(rank, 0, 10, 5)).collect();
    for call in &mut calls {
        call.has_group = false;
        call.counting = Counting::ByName { elements: Some(call.rank / 2) };
    }
    let found = match_collectives(&calls, &BTreeMap::new());
    assert!(
        found.iter().all(|m| m.status == MatchStatus::Matched && m.calls.len() == 2),
        "{found:?}"
    );
}

#[test]
fn match_collectives_skips_point_to_point_messages() {
    let message = |rank| RankCall { traits: CollectiveTraits::of("send"), ..call(rank, 0, 10, 5) };
    assert_eq!(match_collectives(&[message(0), message(1)], &BTreeMap::new()), []);
}

/// Ranks in a grid with one group per row and column, noisy end times, and skewed clocks.
#[test]
fn estimate_offsets_recovers_skewed_clocks() {
    let mut random = Random(11);
    for (rows, columns) in [(1, 2), (2, 4), (3, 3), (1, 16)] {
        let skew: Vec<i64> = (0..rows * columns)
            .map(|rank| if rank == 0 { 0 } else { random.below(2_000_000) - 1_000_000 })
            .collect();
        let mut calls = Vec::new();
        for i in 0..60_i64 {
            for rank in 0..rows * columns {
                for group in [rank / columns, rows + rank % columns] {
                    // Occasionally a rank reports an end that is far too late.
                    let noise =
                        random.below(2_000) + if random.below(10) == 0 { 500_000 } else { 0 };
                    let end = 1_000_000 * (2 * i + i64::from(group >= rows));
                    calls.push(RankCall {
                        group: group as u32,
                        counting: Counting::BySequence(i),
                        ..call(rank, i, end + skew[rank as usize] + noise, 100_000)
                    });
                }
            }
        }
        let found = estimate_offsets(&calls, &match_collectives(&calls, &BTreeMap::new()));
        assert_eq!(found.len() as i64, rows * columns);
        for (&rank, clock) in &found {
            let off = (clock.ahead_ns - skew[rank as usize]).abs();
            assert!(off <= 4 * clock.error_ns.max(500), "rank {rank}: {clock:?}, off by {off}");
            assert!(clock.error_ns < 5_000 && clock.count >= 60, "{clock:?}");
            assert!(clock.apart_count * 2 < clock.count);
        }
    }
}

#[test]
fn estimate_offsets_ignores_ranks_with_few_collectives() {
    let calls: Vec<RankCall> =
        (0..2).flat_map(|rank| (0..4).map(move |i| call(rank, i, 100 * i, 10))).collect();
    let found = estimate_offsets(&calls, &match_collectives(&calls, &BTreeMap::new()));
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(found[&0].count, 0);
}
