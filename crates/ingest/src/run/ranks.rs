//! The rank of each trace, and the profile cycle that is read of each rank.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{SPLIT_RANK, Warning};

use super::rank_from_name;
use super::rank_trace::RankTrace;
use crate::error::Error;
use crate::timeline::placement::Timeline;
use crate::warnings::{SECOND_COPY, run_warning};

/// Gives each trace its rank: as the trace states it, else as the file name does, else in order of file names,
/// skipping ranks in use.
pub(crate) fn assign_ranks<T: Timeline>(
    traces: Vec<(String, T)>,
    warnings: &mut Vec<Warning>,
) -> Vec<RankTrace<T>> {
    let mut used: BTreeSet<i32> = BTreeSet::new();
    let known: Vec<Option<(i32, &'static str)>> = traces
        .iter()
        .map(|(file, trace)| {
            trace.rank().or_else(|| {
                rank_from_name::rank_from_file_name(file).map(|rank| (rank, "file name"))
            })
        })
        .collect();
    used.extend(known.iter().flatten().map(|&(rank, _)| rank));

    // A number at the end of a worker name may be a rank or a process id: numbers count as ranks only if all of
    // them together look like ranks.
    let unknown: BTreeSet<&str> = traces
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|((file, _), _)| rank_from_name::worker_name(file))
        .collect();
    let numbers: Option<Vec<i32>> =
        unknown.iter().map(|w| rank_from_name::trailing_number(w)).collect();
    let numbers = numbers.filter(|numbers| {
        let distinct: BTreeSet<_> = numbers.iter().collect();
        let max = numbers.iter().copied().max().unwrap_or(0) as usize;
        distinct.len() == numbers.len()
            && max < numbers.len() * 4
            && numbers.iter().all(|n| !used.contains(n))
            && !continue_each_other(&traces, &known)
    });
    let mut by_worker: BTreeMap<String, (i32, &'static str)> = BTreeMap::new();
    let mut next = 0;
    for (i, worker) in unknown.iter().enumerate() {
        let rank = numbers.as_ref().map_or_else(
            || {
                while used.contains(&next) {
                    next += 1;
                }
                used.insert(next);
                (next, "order")
            },
            |numbers| (numbers[i], "file name"),
        );
        by_worker.insert((*worker).to_owned(), rank);
    }
    let guessed = by_worker.values().filter(|(_, from)| *from == "order").count();
    if guessed > 1 {
        warnings.push(Warning {
            code: "guessed-rank".into(),
            file: String::new(),
            message:
                "no rank in the trace or the file name: ranks were assigned in order of file names"
                    .to_owned(),
            count: guessed as u64,
        });
    }
    traces
        .into_iter()
        .zip(known)
        .map(|((file, trace), known)| {
            let (rank, rank_from) = known
                .or_else(|| by_worker.get(rank_from_name::worker_name(&file)).copied())
                .unwrap_or((0, "order"));
            RankTrace::new(trace, file, rank, rank_from)
        })
        .collect()
}

/// Time between two parts of one recording, at most.
const MAX_GAP_OF_PARTS_NS: i64 = 1_000_000_000;

/// A file that may be a part of a recording: its worker, and its first and last moment in ns since 1970.
type Part<'a> = (&'a str, (i64, i64));

/// Returns whether files of several workers whose rank is unknown hold events of one process, one after the other: the parts of
/// one recording, whatever numbers are in their names. At the same time, ranks in containers may have the same process id.
/// Files without absolute times do not tell which one is first.
fn continue_each_other<T: Timeline>(
    traces: &[(String, T)],
    known: &[Option<(i32, &'static str)>],
) -> bool {
    let unknown = traces.iter().zip(known).filter(|(_, known)| known.is_none());
    let mut by_process: BTreeMap<String, Vec<Part<'_>>> = BTreeMap::new();
    for ((file, trace), _) in unknown {
        if let (Some(process), Some(span)) = (trace.identity().process, span(trace)) {
            by_process.entry(process).or_default().push((rank_from_name::worker_name(file), span));
        }
    }
    by_process.values_mut().any(|parts| {
        parts.sort_by_key(|(_, span)| *span);
        let follows = |pair: &[Part<'_>]| {
            let gap_ns = pair[1].1.0.saturating_sub(pair[0].1.1);
            pair[0].0 != pair[1].0 && (0..=MAX_GAP_OF_PARTS_NS).contains(&gap_ns)
        };
        parts.windows(2).any(follows)
    })
}

/// From the first event to the end of the last, in ns since 1970.
fn span<T: Timeline>(trace: &T) -> Option<(i64, i64)> {
    let base = trace.base_time_ns()?;
    let (start, end) = trace.extent();
    Some((base.saturating_add(start), base.saturating_add(end)))
}

/// A last cycle with less than this share of the events of the largest one is the rest that a profiler writes when the program
/// ends.
const MIN_CYCLE_SHARE: f64 = 0.1;

/// Number of cycles of a rank without a rest at the end.
fn whole_cycles<T: Timeline>(cycles: &[RankTrace<T>]) -> usize {
    let events = |trace: &RankTrace<T>| trace.trace.events();
    let most = cycles.iter().map(events).max().unwrap_or(0);
    let is_whole = |trace: &RankTrace<T>| events(trace) as f64 >= MIN_CYCLE_SHARE * most as f64;
    cycles.iter().rposition(is_whole).map_or(cycles.len(), |last| last + 1)
}

/// Keeps one profile cycle of each rank: number `cycle` (from 1), or the last whole one that all ranks recorded.
///
/// # Errors
/// If a rank has no cycle of this number.
pub(crate) fn choose_cycles<T: Timeline>(
    traces: Vec<RankTrace<T>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<RankTrace<T>>, Error> {
    let mut by_rank: BTreeMap<i32, Vec<RankTrace<T>>> = BTreeMap::new();
    for trace in traces {
        by_rank.entry(trace.rank).or_default().push(trace);
    }
    let by_rank: Vec<(i32, Vec<RankTrace<T>>)> =
        by_rank.into_iter().map(|(rank, files)| (rank, cycles(rank, files, warnings))).collect();
    let start = |trace: &RankTrace<T>| Some(trace.base_time_ns()? + trace.trace.extent().0);
    // A rank that stopped early has fewer cycles: the last ones of all ranks would be of different times.
    let last_start = by_rank
        .iter()
        .filter_map(|(_, cycles)| start(cycles[..whole_cycles(cycles)].last()?))
        .min();
    by_rank
        .into_iter()
        .map(|(rank, cycles)| {
            let distance = |trace| last_start.zip(start(trace)).map(|(a, b)| a.abs_diff(b));
            let whole = 0..whole_cycles(&cycles);
            let common = whole.rev().min_by_key(|&at| distance(&cycles[at]));
            choose_cycle(rank, cycles, cycle.or(common.map(|at| at + 1)), warnings)
        })
        .collect()
}

/// Orders the traces of one rank by time. Traces that follow each other are cycles; of traces that overlap, only
/// the first is kept.
pub(crate) fn cycles<T: Timeline>(
    rank: i32,
    mut files: Vec<RankTrace<T>>,
    warnings: &mut Vec<Warning>,
) -> Vec<RankTrace<T>> {
    let time = |m: &RankTrace<T>| {
        let base = m.trace.base_time_ns().unwrap_or(0);
        let (start, end) = m.trace.extent();
        (base.saturating_add(start), base.saturating_add(end))
    };
    files.sort_by(|a, b| (time(a), &a.file).cmp(&(time(b), &b.file)));
    let mut cycles: Vec<RankTrace<T>> = Vec::new();
    for trace in files {
        match cycles.last() {
            Some(last) if time(&trace).0 < time(last).1 || time(&trace) == time(last) => {
                warnings.push(skipped(rank, &trace, last));
            }
            _ => cycles.push(trace),
        }
    }
    cycles
}

/// Removes traces in Perfetto's format that overlap with a JSON trace of the same rank: of two exports of one recording, JSON has
/// more data.
pub(crate) fn without_second_copies<T: Timeline>(
    traces: Vec<RankTrace<T>>,
    warnings: &mut Vec<Warning>,
) -> Vec<RankTrace<T>> {
    let is_second = |trace: &RankTrace<T>| trace.trace.format() == "perfetto";
    let (second, mut kept): (Vec<_>, Vec<_>) = traces.into_iter().partition(is_second);
    let mut json: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (at, trace) in kept.iter().enumerate().filter(|(_, t)| t.trace.format() == "kineto") {
        json.entry(trace.rank).or_default().push(at);
    }
    for trace in second {
        let is_at_once = |at: &usize| {
            let spans = span(&trace.trace).zip(span(&kept[*at].trace));
            // Times since boot cannot be compared, so they count as overlapping.
            spans.is_none_or(|(a, b)| a.0 < b.1 && b.0 < a.1)
        };
        let of_rank = json.get(&trace.rank).into_iter().flatten();
        let Some(read) = of_rank.copied().find(is_at_once) else {
            kept.push(trace);
            continue;
        };
        let message = format!(
            "skipped: in Perfetto's format, holds rank {} at the same time as {}, which was read because JSON holds more",
            trace.rank, kept[read].file
        );
        warnings.push(run_warning(SECOND_COPY, trace.file, message));
    }
    kept
}

/// The warning about a trace that is skipped because `read`, of the same rank, overlaps with it.
fn skipped<T: Timeline>(rank: i32, trace: &RankTrace<T>, read: &RankTrace<T>) -> Warning {
    let (identity, identity_read) = (trace.trace.identity(), read.trace.identity());
    let is_same_process = identity.process.is_some() && identity.process == identity_read.process;
    let advice =
        format!("parts of one recording are not joined, so record rank {rank} into one file");
    let (code, message) = if let Some(activities) = identity.activities_beyond(&identity_read) {
        let message = format!(
            "skipped: holds {activities} of rank {rank}, and {}, which is read for the same time, holds none; {advice}",
            read.file
        );
        (SPLIT_RANK, message)
    } else if is_same_process {
        let message = format!(
            "skipped: holds events of the process of {} at the same time; {advice}",
            read.file
        );
        ("duplicate-rank", message)
    } else {
        let message =
            format!("skipped: also states rank {rank}, and overlaps in time with {}", read.file);
        ("duplicate-rank", message)
    };
    run_warning(code, trace.file.clone(), message)
}

/// Files of other cycles that the warning names.
const MAX_OTHER_NAMES: usize = 3;

/// Picks cycle number `cycle` (from 1) of a rank, or the last one. There is at least one cycle.
///
/// # Errors
/// If there is no cycle of this number.
pub(crate) fn choose_cycle<T: Timeline>(
    rank: i32,
    mut cycles: Vec<RankTrace<T>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Result<RankTrace<T>, Error> {
    let count = cycles.len();
    let cycle = cycle.unwrap_or(count);
    let Some(chosen) = cycle.checked_sub(1).filter(|&chosen| chosen < count) else {
        return Err(Error::NoCycle { rank, cycle, count });
    };
    if count > 1 {
        let file = cycles[chosen].file.clone();
        let others = cycles.iter().enumerate().filter(|(at, _)| *at != chosen);
        let mut aside: Vec<&str> = others.map(|(_, trace)| trace.file.as_str()).collect();
        let more = aside.len().saturating_sub(MAX_OTHER_NAMES);
        aside.truncate(MAX_OTHER_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "rank {rank} has {count} profile cycles: cycle {} was read (--cycle chooses another), {}{more} set aside",
            chosen + 1,
            aside.join(", ")
        );
        warnings.push(run_warning("several-cycles", file, message));
    }
    Ok(cycles.swap_remove(chosen))
}

/// Warns if the job had more ranks than there are traces.
pub(crate) fn check_world<T: Timeline>(traces: &[RankTrace<T>], warnings: &mut Vec<Warning>) {
    let Some(world) = traces.iter().filter_map(|m| m.trace.world_size()).max() else { return };
    let present = traces.len();
    if usize::try_from(world).is_ok_and(|world| world > present) {
        let message = format!(
            "the run has traces of {present} of the job's {world} ranks: the other ranks are not analyzed"
        );
        warnings.push(run_warning("missing-ranks", String::new(), message));
    }
}
