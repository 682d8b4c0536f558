//! Matches collectives across ranks by process group and sequence number, not by position.
//!
//! If the trace has no sequence numbers, collectives are counted per group and name, and per size where all ranks
//! must have the same: the nth call of one rank matches the nth of another if all ranks have equally many. Otherwise
//! counting restarts in each step, and steps in which ranks have different counts are ambiguous.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::vocabulary;

/// The collective call of one rank, reduced to what matching needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RankCall {
    pub(super) rank: i64,
    /// Position among the collectives of its rank.
    pub(super) number: i64,
    /// Index of its name; equal names have equal indices.
    pub(super) name: u32,
    pub(super) traits: CollectiveTraits,
    /// Index of its group; equal groups have equal indices.
    pub(super) group: u32,
    /// The trace identifies the group.
    pub(super) has_group: bool,
    /// Sequence number, if the trace records it.
    pub(super) sequence: Option<i64>,
    pub(super) elements: Option<i64>,
    pub(super) step: Option<i64>,
    /// Start of the host call, or of the device work.
    pub(super) start_ns: i64,
    /// Start and end, if known.
    pub(super) interval: Option<(i64, i64)>,
    pub(super) on_device: bool,
    pub(super) is_complete: bool,
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
    pub(super) calls: Vec<usize>,
    /// Number of recorded ranks of the group that lack it.
    pub(super) missing_count: usize,
    /// The first of these ranks.
    pub(super) missing: Vec<i64>,
}

/// Matches all collectives except point-to-point messages. `group_ranks` holds the ranks that a group lists.
pub(super) fn match_collectives(
    calls: &[RankCall],
    group_ranks: &BTreeMap<u32, Vec<i64>>,
) -> Vec<CollectiveMatch> {
    let members = group_members(calls, group_ranks);
    let mut keyed: Vec<(MatchKey, i64, usize)> = match_keys(calls)
        .into_iter()
        .enumerate()
        .filter_map(|(at, key)| Some((key?, calls[at].rank, at)))
        .collect();
    keyed.sort_unstable();
    let mut found = Vec::new();
    for same in keyed.chunk_by(|a, b| a.0 == b.0) {
        let key = same[0].0;
        let mut of_rank: Vec<usize> = same.iter().map(|&(_, _, at)| at).collect();
        // If a rank has a number twice, the first call counts.
        of_rank.dedup_by_key(|at| calls[*at].rank);
        // The members of a group without a name are unknown: only ranks with such a call are expected.
        let is_known = calls[of_rank[0]].has_group || key.kind.is_none();
        let expected = members.get(&key.group).filter(|_| is_known);
        let missing_count = expected.map_or(0, |all| all.len().saturating_sub(of_rank.len()));
        let has_call =
            |rank: &i64| of_rank.binary_search_by_key(rank, |&at| calls[at].rank).is_ok();
        let missing: Vec<i64> = expected
            .filter(|_| missing_count > 0)
            .map(|all| {
                all.iter().filter(|rank| !has_call(rank)).take(MAX_NAMED_RANKS).copied().collect()
            })
            .unwrap_or_default();
        let name = calls[of_rank[0]].name;
        let status = if key.is_ambiguous {
            MatchStatus::Ambiguous
        } else if of_rank.iter().any(|&at| calls[at].name != name) {
            MatchStatus::NameMismatch
        } else if missing_count > 0 {
            MatchStatus::MissingRanks
        } else if of_rank.len() < 2 {
            MatchStatus::SingleRank
        } else {
            MatchStatus::Matched
        };
        found.push(CollectiveMatch {
            group: key.group,
            sequence: key.sequence,
            from_metadata: key.kind.is_none(),
            status,
            calls: of_rank,
            missing_count,
            missing,
        });
    }
    found
}

/// The properties that matching calls share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MatchKey {
    group: u32,
    /// Name and elements; `None` if the trace numbers collectives.
    kind: Option<(u32, Option<i64>)>,
    step: Option<i64>,
    sequence: i64,
    is_ambiguous: bool,
}

/// Indices of calls by rank.
type CallsByRank = BTreeMap<i64, Vec<usize>>;

/// The key of each call; `None` for point-to-point messages.
fn match_keys(calls: &[RankCall]) -> Vec<Option<MatchKey>> {
    let mut keys = vec![None; calls.len()];
    let mut unnumbered: BTreeMap<(u32, u32, Option<i64>), CallsByRank> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| !call.traits.is_point_to_point) {
        if let Some(sequence) = call.sequence {
            let (kind, step, is_ambiguous) = (None, None, false);
            keys[at] = Some(MatchKey { group: call.group, kind, step, sequence, is_ambiguous });
        } else {
            let elements = call.elements.filter(|_| call.traits.same_size_everywhere);
            let kind = (call.group, call.name, elements);
            unnumbered.entry(kind).or_default().entry(call.rank).or_default().push(at);
        }
    }
    for ((group, name, elements), mut ranks) in unnumbered {
        for of_rank in ranks.values_mut() {
            of_rank.sort_by_key(|&at| (calls[at].start_ns, calls[at].number));
        }
        let key = |sequence, step, is_ambiguous| {
            Some(MatchKey { group, kind: Some((name, elements)), step, sequence, is_ambiguous })
        };
        if all_equal(ranks.values().map(Vec::len)) {
            for of_rank in ranks.values() {
                for (nth, &at) in of_rank.iter().enumerate() {
                    keys[at] = key(nth as i64, None, false);
                }
            }
            continue;
        }
        let mut steps: BTreeMap<Option<i64>, CallsByRank> = BTreeMap::new();
        for (&rank, of_rank) in &ranks {
            for &at in of_rank {
                let of_step = steps.entry(calls[at].step).or_default();
                of_step.entry(rank).or_default().push(at);
            }
        }
        for (step, of_step) in steps {
            // Outside of steps, and where counts differ, the first call of one rank may not match that of another.
            let is_ambiguous = step.is_none() || !all_equal(of_step.values().map(Vec::len));
            for of_rank in of_step.values() {
                for (nth, &at) in of_rank.iter().enumerate() {
                    let step = Some(step.unwrap_or(-1));
                    keys[at] = key(nth as i64, step, is_ambiguous);
                }
            }
        }
    }
    keys
}

fn all_equal(mut counts: impl Iterator<Item = usize>) -> bool {
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}

/// Recorded ranks of each group: those that it lists and those that use it.
fn group_members(
    calls: &[RankCall],
    group_ranks: &BTreeMap<u32, Vec<i64>>,
) -> HashMap<u32, BTreeSet<i64>> {
    let recorded: BTreeSet<i64> = calls.iter().map(|call| call.rank).collect();
    let mut members: HashMap<u32, BTreeSet<i64>> = HashMap::new();
    for call in calls {
        members.entry(call.group).or_default().insert(call.rank);
    }
    for (group, ranks) in group_ranks {
        if let Some(known) = members.get_mut(group) {
            known.extend(ranks.iter().filter(|rank| recorded.contains(rank)));
        }
    }
    members
}
