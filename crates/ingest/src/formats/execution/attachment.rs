//! Execution traces of a run: the rank of each, and its links to the timeline of that rank.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::tables::{Rank, Ranks};
use trace_model::{Capability, Source, TableSet, Warning};

use super::link::{HostEvents, Links, link};
use crate::error::Error;
use crate::formats::execution::Recording;
use crate::run::attachment::{
    Attachment, AttachmentKind, RunBuilder, RunContext, TimelineState, rank_of_file,
};
use crate::run::rank_from_name::rank_from_file_name;
use crate::run::rank_trace::{RankData, RankTrace};
use crate::warnings::run_warning;

/// The execution traces of a run.
pub(crate) struct ExecutionTraces {
    files: Vec<(String, Recording)>,
    assigned: Vec<AssignedTrace>,
}

/// An execution trace with the rank it was given.
struct AssignedTrace {
    recording: Recording,
    file: String,
    rank: i32,
    rank_from: &'static str,
    /// Result of linking; `None` if there is no timeline of this rank.
    links: Option<Links>,
}

/// The attachment that joins execution traces with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "execution traces",
    needs: TimelineState::InMemory,
    adds_rows_by_rank: true,
    create: |files| Box::new(ExecutionTraces { files: files.contents(), assigned: Vec::new() }),
};

impl Attachment for ExecutionTraces {
    /// Gives each execution trace its rank and links it. Of several per rank, the one with the most links is kept;
    /// files without a rank are skipped.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        _: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let files = std::mem::take(&mut self.files);
        let stated: BTreeSet<i32> =
            files.iter().filter_map(|(file, _)| rank_from_file_name(file)).collect();
        let mut unused = (0..).filter(|rank| !stated.contains(rank));
        let mut by_rank: BTreeMap<i32, AssignedTrace> = BTreeMap::new();
        for (file, mut recording) in files {
            warnings.extend(recording.warnings(&file));
            let rank = find_rank(&file, recording.pid, traces).or_else(|| {
                traces.is_empty().then(|| unused.next().map(|rank| (rank, "order"))).flatten()
            });
            let Some((rank, rank_from)) = rank else {
                let message = "skipped: the rank of this execution trace is unknown (put rank<N> into its \
                               name)";
                warnings.push(run_warning("unassigned-execution-trace", file, message.to_owned()));
                continue;
            };
            let timeline = traces.iter().find(|trace| trace.rank == rank);
            let links = timeline
                .and_then(|trace| trace.trace.pending())
                .map(|trace| link(&mut recording, &HostEvents::new(&trace.columns)));
            let assigned = AssignedTrace { recording, file, rank, rank_from, links };
            let duplicate = match by_rank.get(&rank) {
                Some(other) if other.link_count() >= assigned.link_count() => assigned,
                _ => match by_rank.insert(rank, assigned) {
                    Some(other) => other,
                    None => continue,
                },
            };
            let message = format!(
                "skipped: also an execution trace of rank {rank}, of which {} was read",
                by_rank[&rank].file
            );
            warnings.push(run_warning("duplicate-rank", duplicate.file, message));
        }
        self.assigned = by_rank.into_values().collect();
        warnings.extend(self.assigned.iter().filter_map(AssignedTrace::link_warning));
        if traces.is_empty() && !self.assigned.is_empty() {
            let message = "the run has only execution traces: they hold operators and their arguments, but no \
                           times; add the profiler's trace of the same run to analyze time";
            warnings.push(run_warning("no-timeline", String::new(), message.to_owned()));
        }
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        let has_timeline = run.has_timeline();
        for trace in self.assigned {
            run.info.sources.push(trace.source());
            run.capabilities.insert((trace.rank, Capability::ExecutionTrace));
            if !has_timeline {
                run.info.ranks.push(trace.rank);
            }
            trace.into_tables(&mut run.tables, !has_timeline);
        }
    }
}

/// The rank that the file name states, else that of the only timeline, else that of the timeline of the same
/// process.
fn find_rank(
    file: &str,
    pid: Option<i64>,
    traces: &[RankTrace<RankData>],
) -> Option<(i32, &'static str)> {
    if let Some(rank) = rank_of_file(file, traces) {
        return Some(rank);
    }
    let pid = pid?;
    let is_same = |trace: &&RankTrace<RankData>| {
        trace.trace.pending().is_some_and(|trace| trace.has_process(pid))
    };
    let mut same = traces.iter().filter(is_same);
    match (same.next(), same.next()) {
        (Some(trace), None) => Some((trace.rank, "process id")),
        _ => None,
    }
}

impl AssignedTrace {
    fn link_count(&self) -> usize {
        self.links.filter(Links::believable).map_or(0, |links| links.same_name)
    }

    /// Explains why nodes have no event.
    fn link_warning(&self) -> Option<Warning> {
        let warn = |code: &'static str, message, count: usize| {
            Some(Warning {
                code: code.into(),
                file: self.file.clone(),
                message,
                count: count as u64,
            })
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

    fn source(&self) -> Source {
        Source {
            file: self.file.clone(),
            format: "execution trace".into(),
            is_timeline: false,
            rank: self.rank,
            rank_from: self.rank_from.into(),
            json_bytes: self.recording.json_bytes,
            events: self.recording.nodes.len() as u64,
            shift_ns: 0,
        }
    }

    /// Adds the rows of the execution trace; with `with_rank` also the row of `ranks` that otherwise the timeline
    /// provides.
    fn into_tables(self, tables: &mut TableSet, with_rank: bool) {
        let Self { recording: Recording { mut nodes, mut strings, .. }, file, rank, .. } = self;
        if with_rank {
            let mut ranks = Ranks::default();
            ranks.push(Rank {
                rank,
                file: strings.intern(&file),
                vendor: strings.intern("cpu"),
                clock: strings.intern("relative"),
                ..Rank::null_row()
            });
            tables.push("ranks", ranks.into_batch(&strings));
        }
        nodes.rank.0.fill(rank);
        tables.push("execution_nodes", nodes.into_batch(&strings));
    }
}
