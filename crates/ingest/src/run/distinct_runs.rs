//! Distinguishes the traces of one run from those of several runs that lie in one folder.
//!
//! Traces belong to one run if each process has a rank of its own, if they were recorded at the same time, and if they
//! agree on the size of the job, the devices and, roughly, the operators. Traces of one process that follow each other
//! are its profile cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use chrono::DateTime;
use rayon::prelude::*;
use trace_model::time::human;

use super::identity::TraceIdentity;
use super::rank_from_name::worker_name;
use super::rank_trace::RankTrace;
use crate::distinct_run::DistinctRun;
use crate::input::pattern::{self, common_prefix};
use crate::timeline::placement::Timeline;

/// Ranks of one job are recorded at most this far apart: clocks of machines differ, and not all ranks start to record
/// at the same moment.
const MAX_GAP_NS: i64 = 60_000_000_000;
/// Ranks of one job have at least this share of their operators in common. Stages of a pipeline differ.
const MIN_COMMON_OPERATORS_RATIO: f64 = 0.2;
/// The same, and the share of the shorter recording that overlaps, if nothing states the ranks.
const MIN_UNSTATED_RATIO: f64 = 0.5;

/// The profile cycles of one process.
struct Process<'a, T> {
    traces: Vec<&'a RankTrace<T>>,
    identity: TraceIdentity,
    /// From the first event to the end of the last, since 1970, where known.
    span: Option<(i64, i64)>,
    world_size: Option<i32>,
}

/// Processes of one run.
struct Group<'a, T> {
    processes: Vec<Process<'a, T>>,
    ranks: BTreeSet<i32>,
    span: Option<(i64, i64)>,
}

/// A reason why a process does not belong to a run.
enum Difference {
    Time { gap_ns: i64 },
    WorldSize(i32, i32),
    Devices(String, String),
    Rank(i32),
    Operators,
    UnknownRank,
    SameProcess,
}

/// The runs that the traces belong to, if they are several.
pub(crate) fn distinct_runs<T: Timeline>(traces: &[RankTrace<T>]) -> Option<Vec<DistinctRun>> {
    if traces.len() < 2 {
        return None;
    }
    let mut groups: Vec<(Group<'_, T>, Option<Difference>)> = Vec::new();
    for process in processes(traces) {
        let mut difference = None;
        let mut joined = None;
        for (at, (group, _)) in groups.iter().enumerate() {
            match group.difference(&process) {
                None => joined = Some(at),
                found => difference = difference.or(found),
            }
        }
        match joined {
            Some(at) => groups[at].0.add(process),
            None => groups.push((Group::new(process), difference)),
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let all: Vec<&str> = traces.iter().map(|trace| trace.file.as_str()).collect();
    groups.sort_by(|(a, _), (b, _)| a.first_file().cmp(b.first_file()));
    let runs = groups.into_iter().map(|(group, difference)| DistinctRun {
        name: name(&group.files(), &all),
        description: group.description(),
        difference: difference.map(|difference| difference.text()).unwrap_or_default(),
    });
    Some(runs.collect())
}

/// The processes, in order of time.
fn processes<T: Timeline>(traces: &[RankTrace<T>]) -> Vec<Process<'_, T>> {
    let mut by_key: BTreeMap<(i32, String), Process<'_, T>> = BTreeMap::new();
    let identities: Vec<TraceIdentity> =
        traces.par_iter().map(|trace| trace.trace.identity()).collect();
    // A cycle without an operator, as one that the program's end cut short, has no process: those of its worker tell it.
    let workers: BTreeMap<(i32, &str), &String> = traces
        .iter()
        .zip(&identities)
        .filter_map(|(trace, identity)| {
            Some(((trace.rank, worker_name(&trace.file)), identity.process.as_ref()?))
        })
        .collect();
    let keys: Vec<(i32, String)> = traces
        .iter()
        .zip(&identities)
        .map(|(trace, identity)| {
            let worker = worker_name(&trace.file);
            let process =
                identity.process.as_ref().or_else(|| workers.get(&(trace.rank, worker)).copied());
            (trace.rank, process.map_or_else(|| worker.to_owned(), Clone::clone))
        })
        .collect();
    for ((trace, identity), key) in traces.iter().zip(identities).zip(keys) {
        let (start, end) = trace.trace.extent();
        let span =
            trace.base_time_ns().map(|base| (base.saturating_add(start), base.saturating_add(end)));
        if let Some(process) = by_key.get_mut(&key) {
            process.span = union(process.span, span);
            process.traces.push(trace);
        } else {
            let world_size = trace.trace.world_size();
            by_key.insert(key, Process { traces: vec![trace], identity, span, world_size });
        }
    }
    let mut processes: Vec<_> = by_key.into_values().collect();
    processes.sort_by_key(|process| (process.span, process.rank()));
    processes
}

impl<T: Timeline> Process<'_, T> {
    fn rank(&self) -> i32 {
        self.traces[0].rank
    }

    /// Whether neither the trace nor its file name states the rank.
    fn has_unknown_rank(&self) -> bool {
        self.traces[0].sources.iter().any(|source| source.rank_from == "order")
    }
}

impl<'a, T: Timeline> Group<'a, T> {
    fn new(process: Process<'a, T>) -> Self {
        let mut group = Self { processes: Vec::new(), ranks: BTreeSet::new(), span: process.span };
        group.add(process);
        group
    }

    fn add(&mut self, process: Process<'a, T>) {
        self.ranks.insert(process.rank());
        self.span = union(self.span, process.span);
        self.processes.push(process);
    }

    /// Why the process does not belong to this run.
    fn difference(&self, process: &Process<'_, T>) -> Option<Difference> {
        let first = &self.processes[0];
        if let (Some(run), Some(span)) = (self.span, process.span) {
            let gap_ns = (span.0.saturating_sub(run.1)).max(run.0.saturating_sub(span.1));
            if gap_ns > MAX_GAP_NS {
                return Some(Difference::Time { gap_ns });
            }
        }
        if let (Some(ours), Some(theirs)) = (first.world_size, process.world_size)
            && ours != theirs
        {
            return Some(Difference::WorldSize(ours, theirs));
        }
        let (ours, theirs) = (&first.identity.devices, &process.identity.devices);
        if !ours.is_empty() && !theirs.is_empty() && ours.is_disjoint(theirs) {
            let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
            return Some(Difference::Devices(names(ours), names(theirs)));
        }
        if self.ranks.contains(&process.rank()) {
            return Some(Difference::Rank(process.rank()));
        }
        let common = first.identity.common_operators_ratio(&process.identity);
        if common.is_some_and(|ratio| ratio < MIN_COMMON_OPERATORS_RATIO) {
            return Some(Difference::Operators);
        }
        let is_stated = !first.has_unknown_rank() && !process.has_unknown_rank();
        if is_stated || looks_like_same_job(first, process) {
            return None;
        }
        let is_same = process.identity.process.is_some()
            && process.identity.process == first.identity.process;
        Some(if is_same { Difference::SameProcess } else { Difference::UnknownRank })
    }

    fn first_file(&self) -> &str {
        let files = self.processes.iter().flat_map(|process| &process.traces);
        files.map(|trace| trace.file.as_str()).min().unwrap_or_default()
    }

    fn files(&self) -> BTreeSet<&str> {
        let files = self.processes.iter().flat_map(|process| &process.traces);
        files.map(|trace| trace.file.as_str()).collect()
    }

    /// `2 ranks of 8, 6 steps, NVIDIA H100, 2024-03-01 12:31:05 UTC`.
    fn description(&self) -> String {
        let first = &self.processes[0];
        let count = |count: usize, noun: &str| {
            format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
        };
        let mut text = match (self.processes.len(), first.has_unknown_rank()) {
            (1, true) => "rank unknown".to_owned(),
            (1, false) => format!("rank {}", first.rank()),
            (ranks, _) => count(ranks, "rank"),
        };
        if let Some(size) = first.world_size.filter(|&size| size > 1) {
            let _ = write!(text, " of {size}");
        }
        let traces = self.processes.iter().flat_map(|process| &process.traces);
        let steps = traces.map(|trace| trace.trace.step_count()).max().unwrap_or(0);
        let _ = match steps {
            0 => write!(text, ", no steps"),
            steps => write!(text, ", {}", count(steps, "step")),
        };
        for device in &first.identity.devices {
            let _ = write!(text, ", {device}");
        }
        if let Some((start, _)) = self.span {
            let time = DateTime::from_timestamp_nanos(start).format("%Y-%m-%d %H:%M:%S");
            let _ = write!(text, ", {time} UTC");
        }
        text
    }
}

/// Whether processes without a rank are ranks of one job after all: different processes that communicate, run the same
/// operators, and were recorded at the same time.
fn looks_like_same_job<T>(a: &Process<'_, T>, b: &Process<'_, T>) -> bool {
    let (Some(ours), Some(theirs)) = (a.span, b.span) else { return false };
    let overlap_ns = ours.1.min(theirs.1) - ours.0.max(theirs.0);
    let shorter_ns = (ours.1 - ours.0).min(theirs.1 - theirs.0);
    let (a, b) = (&a.identity, &b.identity);
    let are_two = a.process.is_some() && b.process.is_some() && a.process != b.process;
    are_two
        && a.has_collectives
        && b.has_collectives
        && overlap_ns as f64 >= MIN_UNSTATED_RATIO * shorter_ns as f64
        && a.common_operators_ratio(b).is_none_or(|ratio| ratio >= MIN_UNSTATED_RATIO)
}

impl Difference {
    fn text(&self) -> String {
        match self {
            Self::Time { gap_ns } => format!("recorded {} later", human(*gap_ns as f64)),
            Self::WorldSize(ours, theirs) => format!("a job of {theirs} ranks, not {ours}"),
            Self::Devices(ours, theirs) => format!("ran on {theirs}, not {ours}"),
            Self::Rank(rank) => format!("another process with rank {rank}"),
            Self::Operators => "runs other operators".to_owned(),
            Self::UnknownRank => "no rank in the trace or the file name".to_owned(),
            Self::SameProcess => {
                "no rank of its own: more events of the same process, or of one with the same number".to_owned()
            }
        }
    }
}

fn union(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// The shortest path, relative to the folder with `all` files, that selects exactly these: a file, a folder, or a
/// pattern.
fn name(files: &BTreeSet<&str>, all: &[&str]) -> String {
    let (Some(first), Some(last)) = (files.first(), files.last()) else { return String::new() };
    if files.len() == 1 {
        return (*first).to_owned();
    }
    if let Some((folder, _)) = common_prefix(first, last).rsplit_once('/') {
        let is_below = |file: &str| file.strip_prefix(folder).is_some_and(|f| f.starts_with('/'));
        if all.iter().all(|file| is_below(file) == files.contains(file)) {
            return folder.to_owned();
        }
    }
    pattern::selecting(files, all.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn name_is_the_shortest_path_that_selects_the_files() {
        let named = |files: &[&str], others: &[&str]| {
            let all: Vec<&str> = files.iter().chain(others).copied().collect();
            name(&files.iter().copied().collect(), &all)
        };
        assert_eq!(named(&["a/x.json"], &["a/y.json"]), "a/x.json");
        assert_eq!(named(&["a/x.json", "a/y.json"], &["b/x.json"]), "a");
        assert_eq!(named(&["a1.json", "a2.json"], &["b1.json"]), "a*.json");
    }
}
