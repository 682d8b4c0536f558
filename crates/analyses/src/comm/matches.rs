//! Matches collectives across ranks by process group and sequence number, not by position.
//!
//! If the trace has no sequence numbers, collectives are counted per group and name, and per size where all ranks
//! must have the same: the nth call of one rank matches the nth of another if all ranks have equally many. Otherwise
//! counting restarts in each step, and steps in which ranks have different counts are ambiguous.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::vocabulary;

/// The collective call of one rank, reduced to what comparing ranks needs. Runs of thousands of ranks have 10^8 calls, so
/// the size of this struct determines how much memory they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RankCall {
    pub(super) rank: i64,
    /// Position among the collectives of its rank, which are in order of their starts.
    pub(super) number: i64,
    /// Index of its name; equal names have equal indices.
    pub(super) name: u32,
    /// Index of its group; equal groups have equal indices.
    pub(super) group: u32,
    pub(super) counting: Counting,
    pub(super) step: Option<i64>,
    /// Start and end, if known.
    pub(super) interval: Option<(i64, i64)>,
    pub(super) traits: CollectiveTraits,
    /// The trace identifies the group.
    pub(super) has_group: bool,
    pub(super) on_device: bool,
    pub(super) is_complete: bool,
}

/// The way in which the calls of a group are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// The trace records the sequence number.
    BySequence(i64),
    /// The position among calls of the same name and, where all ranks must have the same, of as many elements.
    ByName { elements: Option<i64> },
}

impl Default for Counting {
    fn default() -> Self {
        Self::ByName { elements: None }
    }
}

/// Properties of a kind of collective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CollectiveTraits {
    pub(super) is_point_to_point: bool,
    pub(super) same_size_everywhere: bool,
    pub(super) ends_together: bool,
}

impl CollectiveTraits {
    pub(super) fn of(name: &str) -> Self {
        Self {
            is_point_to_point: vocabulary::is_point_to_point(name),
            same_size_everywhere: vocabulary::same_size_everywhere(name),
            ends_together: vocabulary::ends_together(name),
        }
    }
}

impl RankCall {
    pub(super) fn dur_ns(&self) -> Option<i64> {
        self.interval.map(|(start, end)| end - start)
    }
}

/// Outcome of matching a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchStatus {
    /// Every rank of the run that belongs to the group has it.
    Matched,
    /// Only one recorded rank has it, and no other is known to belong to the group.
    SingleRank,
    /// At least one rank of the group does not have it.
    MissingRanks,
    /// Ranks have different collectives under the same number.
    NameMismatch,
    /// Ranks have different counts in this step, and the trace has no numbers.
    Ambiguous,
}

impl MatchStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::SingleRank => "one rank",
            Self::MissingRanks => "missing ranks",
            Self::NameMismatch => "different names",
            Self::Ambiguous => "ambiguous order",
        }
    }
}

/// Limit of missing ranks that are listed: listing all would take memory proportional to ranks times ranks.
const MAX_NAMED_RANKS: usize = 16;

/// One collective across ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CollectiveMatch {
    pub(super) group: u32,
    pub(super) sequence: i64,
    pub(super) from_metadata: bool,
    pub(super) status: MatchStatus,
    /// Indices of the calls, one per rank, in order of ranks.
    pub(super) calls: Vec<u32>,
    /// Number of recorded ranks of the group that lack it.
    pub(super) missing_count: usize,
    /// The first of these ranks.
    pub(super) missing: Vec<i64>,
}

impl CollectiveMatch {
    /// Index of the call in a place.
    pub(super) fn call(&self, place: usize) -> usize {
        self.calls[place] as usize
    }

    /// Indices of the calls, in order of ranks.
    pub(super) fn calls(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.calls.iter().map(|&at| at as usize)
    }
}

/// Matches all collectives except point-to-point messages. `calls` are in order of ranks; `group_ranks` holds the ranks that
/// a group lists.
pub(super) fn match_collectives(
    calls: &[RankCall],
    group_ranks: &BTreeMap<u32, Vec<i64>>,
) -> Vec<CollectiveMatch> {
    let members = group_members(calls, group_ranks);
    let mut found = Vec::new();
    for (kind, of_kind) in calls_by_kind(calls) {
        let (mut positions, ambiguous_steps) = match kind.name {
            None => (sequence_positions(calls, &of_kind), FxHashSet::default()),
            Some(_) => counted_positions(calls, of_kind),
        };
        positions.sort_unstable();
        // The members of a group without a name are unknown: only ranks with such a call are expected.
        let is_known = kind.name.is_none() || calls[positions[0].call as usize].has_group;
        let expected = members.get(&kind.group).filter(|_| is_known).map_or(&[][..], Vec::as_slice);
        let is_same = |a: &Position, b: &Position| (a.step, a.sequence) == (b.step, b.sequence);
        for same in positions.chunk_by(is_same) {
            let mut of_rank: Vec<u32> = same.iter().map(|position| position.call).collect();
            // If a rank has a number twice, the first call counts.
            of_rank.dedup_by_key(|at| calls[*at as usize].rank);
            let missing_count = expected.len().saturating_sub(of_rank.len());
            let has_call = |rank: &i64| {
                of_rank.binary_search_by_key(rank, |&at| calls[at as usize].rank).is_ok()
            };
            let missing = expected.iter().filter(|rank| missing_count > 0 && !has_call(rank));
            let missing: Vec<i64> = missing.take(MAX_NAMED_RANKS).copied().collect();
            let name = calls[of_rank[0] as usize].name;
            let status = if ambiguous_steps.contains(&same[0].step) {
                MatchStatus::Ambiguous
            } else if of_rank.iter().any(|&at| calls[at as usize].name != name) {
                MatchStatus::NameMismatch
            } else if missing_count > 0 {
                MatchStatus::MissingRanks
            } else if of_rank.len() < 2 {
                MatchStatus::SingleRank
            } else {
                MatchStatus::Matched
            };
            found.push(CollectiveMatch {
                group: kind.group,
                sequence: same[0].sequence,
                from_metadata: kind.name.is_none(),
                status,
                calls: of_rank,
                missing_count,
                missing,
            });
        }
    }
    found
}

/// Calls that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CallKind {
    group: u32,
    /// Name and elements; `None` if the trace numbers collectives.
    name: Option<(u32, Option<i64>)>,
}

/// The place of a call among those of its kind. Calls of different ranks in the same place are the same collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    /// The step, if counting restarts in each step.
    step: Option<i64>,
    sequence: i64,
    /// Index of the call. Calls are in order of ranks.
    call: u32,
}

/// Indices of the calls of each kind, without point-to-point messages.
fn calls_by_kind(calls: &[RankCall]) -> BTreeMap<CallKind, Vec<u32>> {
    let mut kinds: FxHashMap<CallKind, Vec<u32>> = FxHashMap::default();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| !call.traits.is_point_to_point) {
        let name = match call.counting {
            Counting::BySequence(_) => None,
            Counting::ByName { elements } => {
                Some((call.name, elements.filter(|_| call.traits.same_size_everywhere)))
            }
        };
        kinds.entry(CallKind { group: call.group, name }).or_default().push(at as u32);
    }
    kinds.into_iter().collect()
}

fn sequence_positions(calls: &[RankCall], of_kind: &[u32]) -> Vec<Position> {
    let position = |&at: &u32| match calls[at as usize].counting {
        Counting::BySequence(sequence) => Some(Position { step: None, sequence, call: at }),
        Counting::ByName { .. } => None,
    };
    of_kind.iter().filter_map(position).collect()
}

/// Counts calls per rank, or per rank and step if ranks have different numbers of them. Also returns the steps in which
/// calls cannot be matched by their order.
fn counted_positions(
    calls: &[RankCall],
    mut of_kind: Vec<u32>,
) -> (Vec<Position>, FxHashSet<Option<i64>>) {
    let call = |at: u32| &calls[at as usize];
    of_kind.sort_unstable_by_key(|&at| (call(at).rank, call(at).number));
    let is_one_rank = |a: &u32, b: &u32| call(*a).rank == call(*b).rank;
    let mut positions = Vec::with_capacity(of_kind.len());
    let mut count = |calls: &[u32], step| {
        let numbered = (0..).zip(calls);
        positions.extend(numbered.map(|(sequence, &call)| Position { step, sequence, call }));
    };
    let mut ambiguous_steps = FxHashSet::default();
    if all_equal(of_kind.chunk_by(is_one_rank).map(<[u32]>::len)) {
        of_kind.chunk_by(is_one_rank).for_each(|of_rank| count(of_rank, None));
        return (positions, ambiguous_steps);
    }
    of_kind.sort_unstable_by_key(|&at| (call(at).step, call(at).rank, call(at).number));
    for of_step in of_kind.chunk_by(|&a, &b| call(a).step == call(b).step) {
        // Outside of steps, and where counts differ, the first call of one rank may not match that of another.
        let step = call(of_step[0]).step;
        let counted_step = Some(step.unwrap_or(-1));
        if step.is_none() || !all_equal(of_step.chunk_by(is_one_rank).map(<[u32]>::len)) {
            ambiguous_steps.insert(counted_step);
        }
        of_step.chunk_by(is_one_rank).for_each(|of_rank| count(of_rank, counted_step));
    }
    (positions, ambiguous_steps)
}

fn all_equal(mut counts: impl Iterator<Item = usize>) -> bool {
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}

/// Recorded ranks of each group, sorted: those that it lists and those that use it.
fn group_members(
    calls: &[RankCall],
    group_ranks: &BTreeMap<u32, Vec<i64>>,
) -> BTreeMap<u32, Vec<i64>> {
    let mut recorded: Vec<i64> = Vec::new();
    let mut members: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
    for call in calls {
        for ranks in [&mut recorded, members.entry(call.group).or_default()] {
            if ranks.last() != Some(&call.rank) {
                ranks.push(call.rank);
            }
        }
    }
    recorded.sort_unstable();
    for (group, ranks) in group_ranks {
        if let Some(known) = members.get_mut(group) {
            known.extend(ranks.iter().filter(|rank| recorded.binary_search(rank).is_ok()));
        }
    }
    let sorted = |(group, mut ranks): (u32, Vec<i64>)| {
        ranks.sort_unstable();
        ranks.dedup();
        (group, ranks)
    };
    members.into_iter().map(sorted).collect()
}
