//! Matching and clocks against what they are meant to be, on runs made by chance.

use std::collections::BTreeMap;

use super::clocks::{clocks, median};
use super::matches::{Call, Kind, Match, Status, matches};

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, below: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % below
    }
}

fn call(rank: i64, number: i64, end: i64, dur: i64) -> Call {
    Call {
        rank,
        number,
        kind: Kind::of("all_reduce"),
        has_group: true,
        elements: Some(16),
        at_ns: end - dur,
        interval: Some((end - dur, end)),
        on_device: true,
        is_complete: true,
        ..Call::default()
    }
}

/// `(group, sequence, ranks, status)` by the definition: for each number of each group, who has it.
fn naive(calls: &[Call]) -> Vec<(u32, i64, Vec<i64>, Status)> {
    let mut found = Vec::new();
    for group in 0..4 {
        let mut members: Vec<i64> =
            calls.iter().filter(|c| c.group == group).map(|c| c.rank).collect();
        members.sort_unstable();
        members.dedup();
        for sequence in 0..64 {
            let same: Vec<&Call> =
                calls.iter().filter(|c| c.group == group && c.sequence == Some(sequence)).collect();
            let mut ranks: Vec<i64> = same.iter().map(|c| c.rank).collect();
            ranks.sort_unstable();
            if ranks.is_empty() {
                continue;
            }
            let status = if same.iter().any(|c| c.name != same[0].name) {
                Status::Mixed
            } else if ranks != members {
                Status::Missing
            } else if ranks.len() < 2 {
                Status::Alone
            } else {
                Status::Matched
            };
            found.push((group, sequence, ranks, status));
        }
    }
    found
}

fn summary(calls: &[Call], found: &[Match]) -> Vec<(u32, i64, Vec<i64>, Status)> {
    let ranks = |m: &Match| m.calls.iter().map(|&at| calls[at].rank).collect();
    found.iter().map(|m| (m.group, m.sequence, ranks(m), m.status)).collect()
}

#[test]
fn shuffled_and_dropped_collectives_are_matched_by_number() {
    let mut random = Random(3);
    for _ in 0..200 {
        let ranks = 1 + random.below(5);
        let mut calls = Vec::new();
        for rank in 0..ranks {
            let mut of_rank = Vec::new();
            for i in 0..=random.below(40) {
                let name = u32::from(random.below(30) == 0);
                if random.below(8) > 0 {
                    let (group, sequence) = ((i % 4) as u32, Some(i / 4));
                    of_rank.push(Call { name, group, sequence, ..call(rank, i, 100 * i, 10) });
                }
            }
            for i in (1..of_rank.len()).rev() {
                of_rank.swap(i, random.below(i as i64 + 1) as usize);
            }
            calls.extend(of_rank);
        }
        assert_eq!(summary(&calls, &matches(&calls, &BTreeMap::new())), naive(&calls));
    }
}

#[test]
fn without_numbers_order_counts_and_size_tells_apart() {
    // Two threads of rank 1 started them the other way round.
    let mut calls: Vec<Call> = (0..2).map(|i| call(0, i, 100 * (i + 1), 10)).collect();
    calls.extend((0..2).map(|i| call(1, i, 100 * (i + 1), 10)));
    for (at, elements) in [672, 9, 9, 672].into_iter().enumerate() {
        calls[at].elements = Some(elements);
    }
    let found = matches(&calls, &BTreeMap::new());
    assert_eq!(found.len(), 2);
    for m in found {
        assert_eq!(m.status, Status::Matched);
        assert_eq!(calls[m.calls[0]].elements, calls[m.calls[1]].elements);
    }
}

#[test]
fn a_missing_one_spoils_its_own_step_only() {
    let mut calls = Vec::new();
    for rank in 0..2 {
        for i in 0..9_i64 {
            if !(rank == 1 && i == 4) {
                calls.push(Call { step: Some(i / 3), ..call(rank, i, 100 * i + 50, 10) });
            }
        }
    }
    let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
    for m in matches(&calls, &BTreeMap::new()) {
        *counts.entry(m.status).or_default() += 1;
        if m.status == Status::Matched {
            assert_eq!(calls[m.calls[0]].at_ns, calls[m.calls[1]].at_ns);
        }
    }
    assert_eq!(counts, BTreeMap::from([(Status::Matched, 6), (Status::Ambiguous, 3)]));
}

#[test]
fn a_rank_that_the_group_lists_is_missed() {
    let calls = [call(0, 0, 10, 5), call(1, 0, 10, 5), Call { group: 1, ..call(2, 0, 10, 5) }];
    let found = matches(&calls, &BTreeMap::from([(0, vec![0, 1, 2, 3])]));
    // Rank 3 was not recorded: nobody can say whether it has the collective.
    assert_eq!((found[0].status, found[0].missing.as_slice()), (Status::Missing, &[2][..]));
    assert_eq!(found[1].status, Status::Alone);
}

#[test]
fn without_a_group_only_those_who_have_the_like_of_it_count() {
    // Stages of a pipeline: other sizes, other ranks.
    let mut calls: Vec<Call> = (0..4).map(|rank| call(rank, 0, 10, 5)).collect();
    for call in &mut calls {
        call.has_group = false;
        call.elements = Some(call.rank / 2);
    }
    let found = matches(&calls, &BTreeMap::new());
    assert!(found.iter().all(|m| m.status == Status::Matched && m.calls.len() == 2), "{found:?}");
}

#[test]
fn messages_are_not_collectives() {
    let message = |rank| Call { kind: Kind::of("send"), ..call(rank, 0, 10, 5) };
    assert_eq!(matches(&[message(0), message(1)], &BTreeMap::new()), []);
}

/// Ranks in a grid: a group for each row and each column, ends with noise, clocks with skew.
#[test]
fn offsets_are_recovered_from_skewed_clocks() {
    let mut random = Random(11);
    for (rows, columns) in [(1, 2), (2, 4), (3, 3), (1, 16)] {
        let skew: Vec<i64> = (0..rows * columns)
            .map(|rank| if rank == 0 { 0 } else { random.below(2_000_000) - 1_000_000 })
            .collect();
        let mut calls = Vec::new();
        for i in 0..60_i64 {
            for rank in 0..rows * columns {
                for group in [rank / columns, rows + rank % columns] {
                    // Now and then somebody reports an end far too late.
                    let noise =
                        random.below(2_000) + if random.below(10) == 0 { 500_000 } else { 0 };
                    let end = 1_000_000 * (2 * i + i64::from(group >= rows));
                    calls.push(Call {
                        group: group as u32,
                        sequence: Some(i),
                        ..call(rank, i, end + skew[rank as usize] + noise, 100_000)
                    });
                }
            }
        }
        let found = clocks(&calls, &matches(&calls, &BTreeMap::new()));
        assert_eq!(found.len() as i64, rows * columns);
        for (&rank, clock) in &found {
            let off = (clock.ahead_ns - skew[rank as usize]).abs();
            assert!(off <= 4 * clock.error_ns.max(500), "rank {rank}: {clock:?}, off by {off}");
            assert!(clock.error_ns < 5_000 && clock.count >= 60, "{clock:?}");
            assert!(clock.apart * 2 < clock.count);
        }
    }
}

#[test]
fn few_collectives_say_nothing_about_clocks() {
    let calls: Vec<Call> =
        (0..2).flat_map(|rank| (0..4).map(move |i| call(rank, i, 100 * i, 10))).collect();
    let found = clocks(&calls, &matches(&calls, &BTreeMap::new()));
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(found[&0].count, 0);
}

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median(&mut []), 0);
    assert_eq!(median(&mut [3]), 3);
    assert_eq!(median(&mut [9, 1, 2]), 2);
    assert_eq!(median(&mut [4, 2, 9, 1]), 3);
}
