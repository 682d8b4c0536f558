//! How far the clocks of ranks are apart, from collectives that end everywhere at about the same time.
//!
//! The lowest rank is the reference. A rank that shares a group with a rank whose offset is known has that
//! offset plus the median difference of the two ranks' ends; how far the differences lie around the median
//! (their median absolute deviation) is the error. Groups are visited once, so that the cost is linear in
//! ranks times collectives, whatever the groups look like.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::matches::{Call, Match, Status};

/// Fewer ends than this say nothing: one collective that ran odd would decide.
pub(super) const LEAST: usize = 5;

/// The clock of one rank, seen from the reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// How far its clock is ahead: the median of what its ends lie after the reference's.
    pub(super) ahead_ns: i64,
    /// Median absolute deviation of these differences, added up on the way to the reference.
    pub(super) error_ns: i64,
    /// Collectives it rests on.
    pub(super) count: usize,
    /// Of these, ends of kernels: on the host, when a call returns is another matter.
    pub(super) kernels: usize,
    /// Of these, ends that lie apart by more than they should on one clock, as recorded.
    pub(super) apart_as_recorded: usize,
    /// Of these, ends that still do when the offset is taken off.
    pub(super) apart: usize,
}

impl Clock {
    /// The offset explains most of the differences.
    pub(super) fn is_sound(&self) -> bool {
        self.count >= LEAST && self.apart * 2 <= self.kernels
    }
}

/// How much later a collective ended than on the reference, and how much of that may be; none on the host.
type Difference = (i64, Option<i64>);

/// Ends further apart than 50 us and 5 % of the duration do not look like those of one collective.
fn tolerance_ns(dur_ns: i64) -> i64 {
    (dur_ns / 20).max(50_000)
}

/// The clock of every rank that enough collectives connect with the lowest one.
pub(super) fn clocks(calls: &[Call], matches: &[Match]) -> BTreeMap<i64, Clock> {
    let mut groups: HashMap<u32, Vec<&Match>> = HashMap::new();
    let mut groups_of: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for found in matches.iter().filter(|found| says_when(calls, found)) {
        let of_group = groups.entry(found.group).or_default();
        of_group.push(found);
        for &at in &found.calls {
            let known = groups_of.entry(calls[at].rank).or_default();
            if !known.contains(&found.group) {
                known.push(found.group);
            }
        }
    }
    let mut clocks: BTreeMap<i64, Clock> = BTreeMap::new();
    let Some((&first, _)) = groups_of.first_key_value() else { return clocks };
    clocks.insert(first, Clock::default());
    let mut next = VecDeque::from([first]);
    while let Some(reference) = next.pop_front() {
        // The group with most to say first.
        let mut of_rank = groups_of.get(&reference).cloned().unwrap_or_default();
        of_rank.sort_by_key(|group| {
            (std::cmp::Reverse(groups.get(group).map_or(0, Vec::len)), *group)
        });
        for group in of_rank {
            let Some(of_group) = groups.remove(&group) else { continue };
            let base = clocks[&reference];
            let (mut count, mut kernels) = (0, 0);
            for (rank, differences) in differences(calls, &of_group, reference) {
                if differences.len() < LEAST {
                    continue;
                }
                count = count.max(differences.len());
                kernels = kernels.max(differences.iter().filter(|(_, may)| may.is_some()).count());
                if let std::collections::btree_map::Entry::Vacant(unknown) = clocks.entry(rank) {
                    unknown.insert(from(base, &differences));
                    next.push_back(rank);
                }
            }
            if let Some(own) = clocks.get_mut(&reference) {
                own.count = own.count.max(count);
                own.kernels = own.kernels.max(kernels);
            }
        }
    }
    clocks
}

/// A collective whose ends can be compared.
fn says_when(calls: &[Call], found: &Match) -> bool {
    found.status == Status::Matched
        && found
            .calls
            .iter()
            .all(|&at| calls[at].kind.ends_together && calls[at].interval.is_some())
}

/// For each other rank of a group, how each collective ended there, held against the reference.
fn differences(
    calls: &[Call],
    of_group: &[&Match],
    reference: i64,
) -> BTreeMap<i64, Vec<Difference>> {
    let mut differences: BTreeMap<i64, Vec<Difference>> = BTreeMap::new();
    for found in of_group {
        let own = found.calls.iter().find(|&&at| calls[at].rank == reference);
        let Some((_, own_end)) = own.and_then(|&at| calls[at].interval) else { continue };
        let least = found.calls.iter().filter_map(|&at| calls[at].dur_ns()).min().unwrap_or(0);
        for &at in &found.calls {
            if let Some((_, end)) = calls[at].interval.filter(|_| calls[at].rank != reference) {
                let of_rank = differences.entry(calls[at].rank).or_default();
                let may = calls[at].on_device.then(|| tolerance_ns(least));
                of_rank.push((end.saturating_sub(own_end), may));
            }
        }
    }
    differences
}

fn from(base: Clock, differences: &[Difference]) -> Clock {
    let mut values: Vec<i64> = differences.iter().map(|&(value, _)| value).collect();
    let ahead_ns = median(&mut values);
    let apart_by = |offset: i64| {
        let is_apart =
            |&&(value, may): &&Difference| may.is_some_and(|may| (value - offset).abs() > may);
        differences.iter().filter(is_apart).count()
    };
    for value in &mut values {
        *value = (*value - ahead_ns).abs();
    }
    Clock {
        ahead_ns: base.ahead_ns.saturating_add(ahead_ns),
        error_ns: base.error_ns.saturating_add(median(&mut values)),
        count: differences.len(),
        kernels: differences.iter().filter(|(_, may)| may.is_some()).count(),
        apart_as_recorded: apart_by(0),
        apart: apart_by(ahead_ns),
    }
}

/// The middle value; of an even number, the mean of the two in the middle.
pub(super) fn median(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) }
}
