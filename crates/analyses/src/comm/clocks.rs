//! Estimates clock offsets between ranks from collectives that end on all ranks at about the same time.
//!
//! The lowest rank is the reference. A rank that shares a group with a rank whose offset is known has that offset
//! plus the median difference of the two ranks' end times. The median absolute deviation of the differences is the
//! error. Each group is visited once, so that the cost is linear in ranks times collectives for any set of groups.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroI64;

use super::matches::{CollectiveMatch, MatchStatus, RankCall};
use crate::statistics::int_median;

/// With fewer end times than this, a single unusual collective would decide the offset.
pub(super) const MIN_COLLECTIVES: usize = 5;

/// The clock of one rank relative to the reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// How far its clock is ahead: the median by which its end times lie after the reference's.
    pub(super) ahead_ns: i64,
    /// Median absolute deviation of these differences, summed along the path to the reference.
    pub(super) error_ns: i64,
    /// Number of collectives that the estimate uses.
    pub(super) count: usize,
    /// How many of them are kernels. On the host, the return of a call says less about the end of the collective.
    pub(super) kernel_count: usize,
    /// Kernels whose recorded end times differ by more than the tolerance.
    pub(super) recorded_apart_count: usize,
    /// Kernels whose end times still differ by more than the tolerance after the offset is subtracted.
    pub(super) apart_count: usize,
}

impl ClockOffset {
    /// Returns whether the offset explains most of the differences.
    pub(super) fn is_reliable(&self) -> bool {
        self.count >= MIN_COLLECTIVES && self.apart_count * 2 <= self.kernel_count
    }
}

/// The end of a collective on one rank, compared with the reference.
#[derive(Debug, Clone, Copy)]
struct EndDifference {
    /// Time by which it ended later than on the reference.
    late_ns: i64,
    /// `None` for collectives on the host.
    tolerance_ns: Option<NonZeroI64>,
}

/// End times of one collective differ by at most 50 us or 5 % of its duration.
fn tolerance_ns(dur_ns: i64) -> Option<NonZeroI64> {
    NonZeroI64::new((dur_ns / 20).max(50_000))
}

fn kernel_count(differences: &[EndDifference]) -> usize {
    differences.iter().filter(|difference| difference.tolerance_ns.is_some()).count()
}

/// The clock of every rank that enough collectives connect with the lowest rank.
pub(super) fn estimate_offsets(
    calls: &[RankCall],
    matches: &[CollectiveMatch],
) -> BTreeMap<i64, ClockOffset> {
    let mut groups: HashMap<u32, Vec<&CollectiveMatch>> = HashMap::new();
    let mut groups_by_rank: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for found in matches.iter().filter(|found| is_comparable(calls, found)) {
        let of_group = groups.entry(found.group).or_default();
        of_group.push(found);
        for at in found.calls() {
            let known = groups_by_rank.entry(calls[at].rank).or_default();
            if !known.contains(&found.group) {
                known.push(found.group);
            }
        }
    }
    let mut clocks: BTreeMap<i64, ClockOffset> = BTreeMap::new();
    let Some((&first, _)) = groups_by_rank.first_key_value() else { return clocks };
    clocks.insert(first, ClockOffset::default());
    let mut next = VecDeque::from([first]);
    while let Some(reference) = next.pop_front() {
        // Visit the group with most collectives first.
        let mut of_rank = groups_by_rank.get(&reference).cloned().unwrap_or_default();
        of_rank.sort_by_key(|group| {
            (std::cmp::Reverse(groups.get(group).map_or(0, Vec::len)), *group)
        });
        for group in of_rank {
            let Some(of_group) = groups.remove(&group) else { continue };
            let base = clocks[&reference];
            let (mut count, mut kernels) = (0, 0);
            for (rank, differences) in differences(calls, &of_group, reference) {
                if differences.len() < MIN_COLLECTIVES {
                    continue;
                }
                count = count.max(differences.len());
                kernels = kernels.max(kernel_count(&differences));
                if let std::collections::btree_map::Entry::Vacant(unknown) = clocks.entry(rank) {
                    unknown.insert(offset_from(base, &differences));
                    next.push_back(rank);
                }
            }
            if let Some(own) = clocks.get_mut(&reference) {
                own.count = own.count.max(count);
                own.kernel_count = own.kernel_count.max(kernels);
            }
        }
    }
    clocks
}

/// Returns whether end times of a collective can be compared.
fn is_comparable(calls: &[RankCall], found: &CollectiveMatch) -> bool {
    found.status == MatchStatus::Matched
        && found.calls().all(|at| calls[at].traits.ends_together && calls[at].interval.is_some())
}

/// For each other rank of a group, the differences of its end times from those of the reference.
fn differences(
    calls: &[RankCall],
    of_group: &[&CollectiveMatch],
    reference: i64,
) -> BTreeMap<i64, Vec<EndDifference>> {
    let mut differences: BTreeMap<i64, Vec<EndDifference>> = BTreeMap::new();
    for found in of_group {
        let own = found.calls().find(|&at| calls[at].rank == reference);
        let Some((_, own_end)) = own.and_then(|at| calls[at].interval) else { continue };
        let least = found.calls().filter_map(|at| calls[at].dur_ns()).min().unwrap_or(0);
        for at in found.calls() {
            if let Some((_, end)) = calls[at].interval.filter(|_| calls[at].rank != reference) {
                let of_rank = differences
                    .entry(calls[at].rank)
                    .or_insert_with(|| Vec::with_capacity(of_group.len()));
                let tolerance_ns = tolerance_ns(least).filter(|_| calls[at].on_device);
                let late_ns = end.saturating_sub(own_end);
                of_rank.push(EndDifference { late_ns, tolerance_ns });
            }
        }
    }
    differences
}

fn offset_from(base: ClockOffset, differences: &[EndDifference]) -> ClockOffset {
    let mut values: Vec<i64> = differences.iter().map(|difference| difference.late_ns).collect();
    let ahead_ns = int_median(&mut values);
    let apart_by = |offset: i64| {
        let is_apart = |difference: &&EndDifference| {
            let tolerance_ns = difference.tolerance_ns.map(NonZeroI64::get);
            tolerance_ns.is_some_and(|most| (difference.late_ns - offset).abs() > most)
        };
        differences.iter().filter(is_apart).count()
    };
    for value in &mut values {
        *value = (*value - ahead_ns).abs();
    }
    ClockOffset {
        ahead_ns: base.ahead_ns.saturating_add(ahead_ns),
        error_ns: base.error_ns.saturating_add(int_median(&mut values)),
        count: differences.len(),
        kernel_count: kernel_count(differences),
        recorded_apart_count: apart_by(0),
        apart_count: apart_by(ahead_ns),
    }
}
