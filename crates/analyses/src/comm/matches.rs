//! The same collective on several ranks: by process group and sequence number, not by position.
//!
//! Where the trace gives no number, collectives count by group, name, and size where all ranks have the
//! same: the nth of one rank is the nth of another if all have equally many. If not, they count from the
//! start of each step, and steps in which ranks have different counts are ambiguous.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::names;

/// A collective of one rank, as far as matching needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) rank: i64,
    /// Number on its rank.
    pub(super) number: i64,
    /// Index of its name; equal names have equal indices.
    pub(super) name: u32,
    pub(super) kind: Kind,
    /// Index of its group; equal groups have equal indices.
    pub(super) group: u32,
    /// The trace says which group it is.
    pub(super) has_group: bool,
    /// From the trace's own numbering.
    pub(super) sequence: Option<i64>,
    pub(super) elements: Option<i64>,
    pub(super) step: Option<i64>,
    /// Start of the call on the host, or of the work.
    pub(super) at_ns: i64,
    /// When it ran, where that is known.
    pub(super) interval: Option<(i64, i64)>,
    pub(super) on_device: bool,
    pub(super) is_complete: bool,
}

/// What matters of a collective's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) is_point_to_point: bool,
    pub(super) same_size_everywhere: bool,
    pub(super) ends_together: bool,
}

impl Kind {
    pub(super) fn of(name: &str) -> Self {
        Self {
            is_point_to_point: names::is_point_to_point(name),
            same_size_everywhere: names::same_size_everywhere(name),
            ends_together: names::ends_together(name),
        }
    }
}

impl Call {
    pub(super) fn dur_ns(&self) -> Option<i64> {
        self.interval.map(|(start, end)| end - start)
    }
}

/// What became of a collective when its counterparts were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    /// Every rank of the run that belongs to the group has it.
    Matched,
    /// Only one recorded rank has it, and none is known to lack it.
    Alone,
    /// Some rank of the group lacks it.
    Missing,
    /// Ranks have different collectives under the same number.
    Mixed,
    /// Ranks have different counts in this step and no numbers.
    Ambiguous,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Alone => "one rank",
            Self::Missing => "missing ranks",
            Self::Mixed => "different names",
            Self::Ambiguous => "ambiguous order",
        }
    }
}

/// Missing ranks that are named: with many ranks, all of them would be ranks times ranks.
const NAMED: usize = 16;

/// One collective across ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) group: u32,
    pub(super) sequence: i64,
    pub(super) from_metadata: bool,
    pub(super) status: Status,
    /// Positions among the calls, one a rank, in order of ranks.
    pub(super) calls: Vec<usize>,
    /// How many recorded ranks of the group lack it.
    pub(super) missing_count: usize,
    /// The first of these.
    pub(super) missing: Vec<i64>,
}

/// Matches of all collectives but messages between two ranks. `listed` are the ranks that a group names.
pub(super) fn matches(calls: &[Call], listed: &BTreeMap<u32, Vec<i64>>) -> Vec<Match> {
    let members = members(calls, listed);
    let mut keyed: Vec<(Key, i64, usize)> = keys(calls)
        .into_iter()
        .enumerate()
        .filter_map(|(at, key)| Some((key?, calls[at].rank, at)))
        .collect();
    keyed.sort_unstable();
    let mut found = Vec::new();
    for same in keyed.chunk_by(|a, b| a.0 == b.0) {
        let key = same[0].0;
        let mut of_rank: Vec<usize> = same.iter().map(|&(_, _, at)| at).collect();
        // A number that a rank has twice: the first counts.
        of_rank.dedup_by_key(|at| calls[*at].rank);
        // Who belongs to a group without a name is not known: whoever has the like of it.
        let is_known = calls[of_rank[0]].has_group || key.kind.is_none();
        let expected = members.get(&key.group).filter(|_| is_known);
        let missing_count = expected.map_or(0, |all| all.len().saturating_sub(of_rank.len()));
        let has_it = |rank: &i64| of_rank.binary_search_by_key(rank, |&at| calls[at].rank).is_ok();
        let missing: Vec<i64> = expected
            .filter(|_| missing_count > 0)
            .map(|all| all.iter().filter(|rank| !has_it(rank)).take(NAMED).copied().collect())
            .unwrap_or_default();
        let name = calls[of_rank[0]].name;
        let status = if key.is_ambiguous {
            Status::Ambiguous
        } else if of_rank.iter().any(|&at| calls[at].name != name) {
            Status::Mixed
        } else if missing_count > 0 {
            Status::Missing
        } else if of_rank.len() < 2 {
            Status::Alone
        } else {
            Status::Matched
        };
        found.push(Match {
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

/// What calls that belong together have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: u32,
    /// Name and elements; none where the trace numbers collectives.
    kind: Option<(u32, Option<i64>)>,
    step: Option<i64>,
    sequence: i64,
    is_ambiguous: bool,
}

/// Positions of calls by rank.
type ByRank = BTreeMap<i64, Vec<usize>>;

/// The key of each call; none for messages between two ranks.
fn keys(calls: &[Call]) -> Vec<Option<Key>> {
    let mut keys = vec![None; calls.len()];
    let mut unnumbered: BTreeMap<(u32, u32, Option<i64>), ByRank> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| !call.kind.is_point_to_point) {
        if let Some(sequence) = call.sequence {
            let (kind, step, is_ambiguous) = (None, None, false);
            keys[at] = Some(Key { group: call.group, kind, step, sequence, is_ambiguous });
        } else {
            let elements = call.elements.filter(|_| call.kind.same_size_everywhere);
            let kind = (call.group, call.name, elements);
            unnumbered.entry(kind).or_default().entry(call.rank).or_default().push(at);
        }
    }
    for ((group, name, elements), mut ranks) in unnumbered {
        for of_rank in ranks.values_mut() {
            of_rank.sort_by_key(|&at| (calls[at].at_ns, calls[at].number));
        }
        let key = |sequence, step, is_ambiguous| {
            Some(Key { group, kind: Some((name, elements)), step, sequence, is_ambiguous })
        };
        if even(ranks.values().map(Vec::len)) {
            for of_rank in ranks.values() {
                for (nth, &at) in of_rank.iter().enumerate() {
                    keys[at] = key(nth as i64, None, false);
                }
            }
            continue;
        }
        let mut steps: BTreeMap<Option<i64>, ByRank> = BTreeMap::new();
        for (&rank, of_rank) in &ranks {
            for &at in of_rank {
                let of_step = steps.entry(calls[at].step).or_default();
                of_step.entry(rank).or_default().push(at);
            }
        }
        for (step, of_step) in steps {
            // Outside of steps, and where counts differ, the first of one rank need not be the other's.
            let is_ambiguous = step.is_none() || !even(of_step.values().map(Vec::len));
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

fn even(mut counts: impl Iterator<Item = usize>) -> bool {
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}

/// Recorded ranks of each group: those it lists, else those that use it.
fn members(calls: &[Call], listed: &BTreeMap<u32, Vec<i64>>) -> HashMap<u32, BTreeSet<i64>> {
    let recorded: BTreeSet<i64> = calls.iter().map(|call| call.rank).collect();
    let mut members: HashMap<u32, BTreeSet<i64>> = HashMap::new();
    for call in calls {
        members.entry(call.group).or_default().insert(call.rank);
    }
    for (group, ranks) in listed {
        if let Some(known) = members.get_mut(group) {
            known.extend(ranks.iter().filter(|rank| recorded.contains(rank)));
        }
    }
    members
}
