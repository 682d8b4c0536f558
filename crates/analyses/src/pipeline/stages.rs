//! Finds pipelines and the order of their stages from the messages between ranks.
//!
//! Ranks that exchange messages belong together. In a step, the first message between two of them carries activations
//! in every schedule, so its sender computes the earlier stage. The cost is near linear in the number of pairs of ranks.

use std::collections::{BTreeMap, BTreeSet};

/// The first messages between a rank and one other, over all steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FirstMessages {
    /// Steps in which the rank sends first.
    pub(super) sent: i64,
    /// Steps in which it receives first.
    pub(super) received: i64,
}

/// The messages of one rank and the names of its passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RankTraffic {
    /// By the other rank.
    pub(super) peers: BTreeMap<i64, FirstMessages>,
    /// With any other rank.
    pub(super) any: FirstMessages,
    /// Ranks of the group that the messages are sent in, if it is known to be that of the pipeline, or nothing else is.
    pub(super) group: Vec<i64>,
    /// Stages that the names of ranges give.
    pub(super) named: BTreeSet<i64>,
    /// Ranges have the names of passes.
    pub(super) has_names: bool,
}

/// The evidence for the ranks of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RanksFrom {
    Messages,
    Group,
    Run,
}

/// The evidence for the order of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StageFrom {
    Name,
    Messages,
    RankOrder,
}

/// One stage on one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StageRow {
    pub(super) rank: i64,
    pub(super) pipeline: i64,
    pub(super) stage: i64,
    pub(super) stage_count: i64,
    pub(super) rank_count: i64,
    pub(super) read_count: i64,
    pub(super) chunk_count: i64,
    pub(super) stage_from: StageFrom,
    pub(super) ranks_from: RanksFrom,
}

/// All stages of the ranks that were read, sorted by rank and stage.
pub(super) fn stages(traffic: &BTreeMap<i64, RankTraffic>) -> Vec<StageRow> {
    let mut rows = Vec::new();
    for (members, ranks_from) in pipelines(traffic) {
        let read: Vec<i64> = members.iter().copied().filter(|r| traffic.contains_key(r)).collect();
        let (Some(&pipeline), false) = (members.first(), read.is_empty()) else { continue };
        let is_named = read.iter().all(|rank| !traffic[rank].named.is_empty());
        let (stages, stage_from): (Vec<(i64, i64)>, StageFrom) = if is_named {
            let named = read.iter().flat_map(|&r| traffic[&r].named.iter().map(move |&s| (r, s)));
            (named.collect(), StageFrom::Name)
        } else {
            let (order, from) = match order_of_messages(&members, traffic) {
                Some(order) => (order, StageFrom::Messages),
                // Without some of the ranks, the chain has gaps.
                None if read.len() < members.len()
                    || read.iter().all(|rank| traffic[rank].has_names)
                    || is_led(&read, traffic) =>
                {
                    (members.clone(), StageFrom::RankOrder)
                }
                // Messages in a ring, such as those of ring attention.
                None => continue,
            };
            let placed = (0..).zip(order).map(|(stage, rank)| (rank, stage));
            (placed.filter(|(rank, _)| traffic.contains_key(rank)).collect(), from)
        };
        let last = stages.iter().map(|&(_, stage)| stage).max().unwrap_or(0);
        // Of ranks that were not read, as many stages are assumed as the others have.
        let most = read.iter().map(|rank| traffic[rank].named.len()).max().unwrap_or(0).max(1);
        let stage_count = (last + 1).max((members.len() * if is_named { most } else { 1 }) as i64);
        rows.extend(stages.into_iter().map(|(rank, stage)| StageRow {
            rank,
            pipeline,
            stage,
            stage_count,
            rank_count: members.len() as i64,
            read_count: read.len() as i64,
            chunk_count: if is_named { traffic[&rank].named.len() as i64 } else { 1 },
            stage_from,
            ranks_from,
        }));
    }
    rows.sort_by_key(|row| (row.rank, row.stage));
    rows
}

/// The ranks of each pipeline, sorted.
fn pipelines(traffic: &BTreeMap<i64, RankTraffic>) -> Vec<(Vec<i64>, RanksFrom)> {
    let mut sets = DisjointSets::default();
    let mut from: BTreeMap<i64, RanksFrom> = BTreeMap::new();
    let mut unknown = None;
    for (&rank, own) in traffic {
        sets.add(rank);
        for &other in own.peers.keys().chain(&own.group) {
            sets.join(rank, other);
        }
        let source = if !own.peers.is_empty() {
            RanksFrom::Messages
        } else if !own.group.is_empty() {
            RanksFrom::Group
        } else {
            sets.join(rank, *unknown.get_or_insert(rank));
            RanksFrom::Run
        };
        from.insert(rank, source);
    }
    let mut members: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for rank in sets.ranks() {
        members.entry(sets.root(rank)).or_default().push(rank);
    }
    members
        .into_values()
        .filter(|ranks| ranks.len() > 1)
        .map(|ranks| {
            let source = ranks.iter().find_map(|rank| from.get(rank)).copied();
            (ranks, source.unwrap_or(RanksFrom::Run))
        })
        .collect()
}

/// Returns whether one rank sends first and all others receive first, as in a pipeline, and nothing else is known.
fn is_led(read: &[i64], traffic: &BTreeMap<i64, RankTraffic>) -> bool {
    let sends_first = |own: &RankTraffic| own.any.sent > own.any.received;
    read.iter().all(|rank| traffic[rank].peers.is_empty())
        && read.iter().filter(|rank| sends_first(&traffic[*rank])).count() == 1
}

/// The ranks in the order in which activations pass them; `None` if the messages do not tell it.
fn order_of_messages(members: &[i64], traffic: &BTreeMap<i64, RankTraffic>) -> Option<Vec<i64>> {
    let mut next: BTreeMap<i64, i64> = BTreeMap::new();
    let mut has_previous: BTreeSet<i64> = BTreeSet::new();
    for rank in members {
        let Some(own) = traffic.get(rank) else { continue };
        for (&peer, first) in &own.peers {
            let (before, after) = match first.sent.cmp(&first.received) {
                std::cmp::Ordering::Greater => (*rank, peer),
                std::cmp::Ordering::Less => (peer, *rank),
                std::cmp::Ordering::Equal => return None,
            };
            // Both ranks of a pair say the same, or the order is unknown; so it is where activations fork.
            if next.insert(before, after).is_some_and(|known| known != after) {
                return None;
            }
            has_previous.insert(after);
        }
    }
    if next.is_empty() && members.len() == 2 {
        let sends_first = |rank: &i64| traffic.get(rank).map(|own| own.any.sent > own.any.received);
        return match (sends_first(&members[0])?, sends_first(&members[1])?) {
            (true, false) => Some(vec![members[0], members[1]]),
            (false, true) => Some(vec![members[1], members[0]]),
            _ => None,
        };
    }
    let mut order = vec![*members.iter().find(|rank| !has_previous.contains(rank))?];
    while let Some(&rank) = order.last().and_then(|rank| next.get(rank)) {
        if order.len() == members.len() {
            return None;
        }
        order.push(rank);
    }
    (order.len() == members.len()).then_some(order)
}

/// Ranks that belong together, with the lowest as the root.
#[derive(Debug, Default)]
struct DisjointSets {
    parents: BTreeMap<i64, i64>,
}

impl DisjointSets {
    fn add(&mut self, rank: i64) {
        self.parents.entry(rank).or_insert(rank);
    }

    fn root(&mut self, rank: i64) -> i64 {
        let mut root = rank;
        while let Some(&parent) = self.parents.get(&root).filter(|&&parent| parent != root) {
            root = parent;
        }
        // Shorten the path, so that later searches are short.
        let mut at = rank;
        while at != root {
            at = self.parents.insert(at, root).unwrap_or(root);
        }
        root
    }

    fn join(&mut self, a: i64, b: i64) {
        self.add(a);
        self.add(b);
        let (a, b) = (self.root(a), self.root(b));
        self.parents.insert(a.max(b), a.min(b));
    }

    fn ranks(&self) -> Vec<i64> {
        self.parents.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{FirstMessages, RankTraffic, RanksFrom, StageFrom, stages};

    const SENDS: FirstMessages = FirstMessages { sent: 3, received: 0 };
    const RECEIVES: FirstMessages = FirstMessages { sent: 0, received: 3 };

    fn chain(order: &[i64]) -> BTreeMap<i64, RankTraffic> {
        let mut traffic: BTreeMap<i64, RankTraffic> = BTreeMap::new();
        for pair in order.windows(2) {
            traffic.entry(pair[0]).or_default().peers.insert(pair[1], SENDS);
            traffic.entry(pair[1]).or_default().peers.insert(pair[0], RECEIVES);
        }
        traffic
    }

    fn placed(traffic: &BTreeMap<i64, RankTraffic>) -> Vec<(i64, i64, i64)> {
        stages(traffic).iter().map(|row| (row.rank, row.pipeline, row.stage)).collect()
    }

    #[test]
    fn stages_follow_activations_not_ranks() {
        let mut traffic = chain(&[3, 1, 0]);
        traffic.append(&mut chain(&[5, 4]));
        assert_eq!(placed(&traffic), [(0, 0, 2), (1, 0, 1), (3, 0, 0), (4, 4, 1), (5, 4, 0)]);
        assert!(stages(&traffic).iter().all(|row| row.stage_from == StageFrom::Messages));
    }

    #[test]
    fn stages_count_ranks_that_were_not_read() {
        let mut traffic = chain(&[0, 1, 2, 3]);
        traffic.remove(&0);
        traffic.remove(&3);
        let rows = stages(&traffic);
        assert_eq!(placed(&traffic), [(1, 0, 1), (2, 0, 2)]);
        assert_eq!((rows[0].stage_count, rows[0].rank_count, rows[0].read_count), (4, 4, 2));
    }

    #[test]
    fn stages_of_a_ring_need_names_of_passes() {
        let mut traffic = chain(&[0, 1, 2, 3]);
        traffic.get_mut(&3).unwrap().peers.insert(0, SENDS);
        traffic.get_mut(&0).unwrap().peers.insert(3, RECEIVES);
        assert!(stages(&traffic).is_empty());
        for own in traffic.values_mut() {
            own.has_names = true;
        }
        let rows = stages(&traffic);
        assert_eq!(placed(&traffic), [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3)]);
        assert!(rows.iter().all(|row| row.stage_from == StageFrom::RankOrder));
    }

    #[test]
    fn stages_are_those_that_names_give() {
        let mut traffic = chain(&[0, 1]);
        traffic.get_mut(&0).unwrap().named = BTreeSet::from([0, 3]);
        traffic.get_mut(&1).unwrap().named = BTreeSet::from([1, 2]);
        let rows = stages(&traffic);
        assert_eq!(placed(&traffic), [(0, 0, 0), (0, 0, 3), (1, 0, 1), (1, 0, 2)]);
        assert_eq!((rows[0].stage_count, rows[0].chunk_count), (4, 2));
        assert_eq!(rows[0].stage_from, StageFrom::Name);
    }

    #[test]
    fn stages_of_messages_without_peers_take_the_first_direction_of_two_ranks() {
        let own = |any| RankTraffic { any, ..RankTraffic::default() };
        let traffic = BTreeMap::from([(0, own(RECEIVES)), (1, own(SENDS))]);
        let rows = stages(&traffic);
        assert_eq!(placed(&traffic), [(0, 0, 1), (1, 0, 0)]);
        assert_eq!((rows[0].ranks_from, rows[0].stage_from), (RanksFrom::Run, StageFrom::Messages));
    }

    #[test]
    fn stages_of_a_group_without_peers_are_in_rank_order() {
        let own = |any| RankTraffic { any, group: vec![0, 4, 8], ..RankTraffic::default() };
        let traffic = BTreeMap::from([(0, own(SENDS)), (4, own(RECEIVES)), (8, own(RECEIVES))]);
        let rows = stages(&traffic);
        assert_eq!(placed(&traffic), [(0, 0, 0), (4, 0, 1), (8, 0, 2)]);
        assert_eq!(
            (rows[0].ranks_from, rows[0].stage_from),
            (RanksFrom::Group, StageFrom::RankOrder)
        );
    }
}
