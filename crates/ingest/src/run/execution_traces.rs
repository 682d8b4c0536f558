//! Execution traces of a run: which rank each belongs to, and its links to that rank's timeline.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::tables::{Rank, Ranks};
use trace_model::{Source, TableSet, Warning};

use crate::discover;
use crate::enrich::execution::{HostEvents, Links, link};
use crate::formats::execution::Recording;
use crate::run::{Member, run_warning};

/// An execution trace with the rank it was given.
pub(crate) struct Companion {
    recording: Recording,
    file: String,
    pub(crate) rank: i32,
    rank_from: &'static str,
    /// What came of linking; `None` if there is no timeline of this rank.
    links: Option<Links>,
}

/// Gives each execution trace its rank and links it; one a rank is kept, the best linked. What cannot
/// be given a rank is set aside.
pub(crate) fn assign(
    recordings: Vec<(String, Recording)>,
    members: &[Member],
    warnings: &mut Vec<Warning>,
) -> Vec<Companion> {
    let stated: BTreeSet<i32> =
        recordings.iter().filter_map(|(file, _)| discover::stated_rank(file)).collect();
    let mut unused = (0..).filter(|rank| !stated.contains(rank));
    let mut kept: BTreeMap<i32, Companion> = BTreeMap::new();
    for (file, mut recording) in recordings {
        warnings.extend(recording.warnings(&file));
        let rank = rank(&file, recording.pid, members).or_else(|| {
            members.is_empty().then(|| unused.next().map(|rank| (rank, "order"))).flatten()
        });
        let Some((rank, rank_from)) = rank else {
            let message = "nothing says which rank this execution trace belongs to: set aside \
                           (put rank<N> into its name)";
            warnings.push(run_warning("unassigned-execution-trace", file, message.to_owned()));
            continue;
        };
        let links = members
            .iter()
            .find(|member| member.rank == rank)
            .map(|member| link(&mut recording, &HostEvents::new(member.trace.columns())));
        let companion = Companion { recording, file, rank, rank_from, links };
        let aside = match kept.get(&rank) {
            Some(other) if other.linked() >= companion.linked() => companion,
            _ => match kept.insert(rank, companion) {
                Some(other) => other,
                None => continue,
            },
        };
        let message = format!(
            "also an execution trace of rank {rank}: set aside, {} was read",
            kept[&rank].file
        );
        warnings.push(run_warning("duplicate-rank", aside.file, message));
    }
    let companions: Vec<Companion> = kept.into_values().collect();
    warnings.extend(companions.iter().filter_map(Companion::link_warning));
    if members.is_empty() && !companions.is_empty() {
        let message = "only execution traces are here: they tell which operators ran with which \
                       arguments, but not when; add the profiler's trace of the same run to ask \
                       about time";
        warnings.push(run_warning("no-timeline", String::new(), message.to_owned()));
    }
    companions
}

/// Rank of an execution trace: as its name says, else that of the timeline of the same process, else
/// that of the only timeline.
fn rank(file: &str, pid: Option<i64>, members: &[Member]) -> Option<(i32, &'static str)> {
    if let Some(rank) = discover::stated_rank(file) {
        return Some((rank, "file name"));
    }
    if let [only] = members {
        return Some((only.rank, "the only trace"));
    }
    let pid = pid?;
    let mut same = members.iter().filter(|member| member.trace.has_process(pid));
    match (same.next(), same.next()) {
        (Some(member), None) => Some((member.rank, "process id")),
        _ => None,
    }
}

impl Companion {
    fn linked(&self) -> usize {
        self.links.filter(Links::believable).map_or(0, |links| links.same_name)
    }

    /// Why nodes have no event.
    fn link_warning(&self) -> Option<Warning> {
        let warn = |code, message, count: usize| {
            Some(Warning { code, file: self.file.clone(), message, count: count as u64 })
        };
        let nodes = self.recording.nodes.len();
        let links = self.links?;
        if links.believable() {
            let message = "nodes share their id with an event of another name: not linked";
            let count = links.same_id - links.same_name;
            return (count > 0).then(|| warn("renamed-node", message.to_owned(), count)).flatten();
        }
        let why = match (links.node_ids, links.host_ids) {
            (None, _) => "its nodes carry no rf_id".to_owned(),
            (_, None) => "the profiler's events carry no ids".to_owned(),
            (Some((first, last)), Some((host_first, host_last))) if links.same_id == 0 => format!(
                "its nodes have the ids {first} to {last}, the profiler's events {host_first} to \
                 {host_last}: not recorded together"
            ),
            _ => format!(
                "of {} nodes with the id of an event only {} have its name: not recorded together",
                links.same_id, links.same_name
            ),
        };
        let message = format!("not linked to the profiler's trace of rank {}: {why}", self.rank);
        warn("unlinked-execution-trace", message, nodes)
    }

    pub(crate) fn source(&self) -> Source {
        Source {
            file: self.file.clone(),
            format: "execution trace",
            rank: self.rank,
            rank_from: self.rank_from,
            json_bytes: self.recording.json_bytes,
            events: self.recording.nodes.len() as u64,
            shift_ns: 0,
        }
    }

    /// Turns the execution trace into Arrow batches; with `with_rank` into a row of `ranks` too, which else
    /// the timeline fills.
    pub(crate) fn into_tables(self, tables: &mut TableSet, with_rank: bool) {
        let Self { recording: Recording { mut nodes, mut strings, .. }, file, rank, .. } = self;
        if with_rank {
            let mut ranks = Ranks::default();
            ranks.push(Rank {
                rank,
                file: strings.intern(&file),
                vendor: strings.intern("cpu"),
                clock: strings.intern("relative"),
                ..Rank::absent()
            });
            tables.push("ranks", ranks.into_batch(&strings));
        }
        nodes.rank.0.fill(rank);
        tables.push("execution_nodes", nodes.into_batch(&strings));
    }
}
