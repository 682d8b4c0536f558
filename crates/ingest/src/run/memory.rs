//! Memory snapshots and memory timelines of a run: which rank each belongs to, and where its times lie on
//! the run's clock.

use std::collections::BTreeMap;

use trace_model::column::NULL_I64;
use trace_model::tables::{Rank, Ranks};
use trace_model::{RunInfo, Source, Strings, TableSet, Warning};

use crate::discover;
use crate::formats::memory_timeline::Curve;
use crate::formats::snapshot::Dump;
use crate::run::{Member, run_warning};

/// What such a file holds.
pub(crate) enum Memory {
    Snapshot(Box<Dump>),
    Timeline(Box<Curve>),
}

/// A file with the rank it was given.
pub(crate) struct Placed {
    memory: Memory,
    file: String,
    rank: i32,
    rank_from: &'static str,
}

impl Memory {
    fn extent(&self) -> Option<(i64, i64)> {
        match self {
            Self::Snapshot(dump) => dump.extent,
            Self::Timeline(curve) => curve.extent(),
        }
    }

    fn is_snapshot(&self) -> bool {
        matches!(self, Self::Snapshot(_))
    }
}

/// Gives each file its rank: as its name says, else that of the only trace, else the first one.
pub(crate) fn assign<T>(
    files: Vec<(String, Memory)>,
    members: &[Member<T>],
    warnings: &mut Vec<Warning>,
) -> Vec<Placed> {
    let only = match members {
        [only] => Some((only.rank, "the only trace")),
        _ => None,
    };
    let first = members.iter().map(|member| member.rank).min().unwrap_or(0);
    let mut guessed = Vec::new();
    let placed = files
        .into_iter()
        .map(|(file, memory)| {
            warnings.extend(match &memory {
                Memory::Snapshot(dump) => dump.warnings(&file),
                Memory::Timeline(curve) => curve.warnings(&file),
            });
            let stated = discover::stated_rank(&file).map(|rank| (rank, "file name"));
            let (rank, rank_from) = stated.or(only).unwrap_or_else(|| {
                guessed.push(memory.is_snapshot());
                (first, "order")
            });
            Placed { memory, file, rank, rank_from }
        })
        .collect();
    // One file of a kind without a rank is that of a run of one process, most likely.
    let snapshots = guessed.iter().filter(|&&is_snapshot| is_snapshot).count();
    if members.len() > 1 && !guessed.is_empty() || snapshots > 1 || guessed.len() - snapshots > 1 {
        let message = format!(
            "nothing says which rank these memory snapshots or timelines belong to: taken as rank \
             {first} (put rank<N> into their names)"
        );
        let count = guessed.len() as u64;
        warnings.push(Warning { count, ..run_warning("guessed-rank", String::new(), message) });
    }
    placed
}

/// Turns the files into tables. `zero_ns` is the absolute time of zero on the run's clock, where the
/// timelines tell it; `covered` are the ranks that have a row already.
pub(crate) fn into_tables(
    mut files: Vec<Placed>,
    has_timeline: bool,
    zero_ns: Option<i64>,
    info: &mut RunInfo,
    tables: &mut TableSet,
    warnings: &mut Vec<Warning>,
) {
    let start = |file: &Placed| file.memory.extent().map(|(start, _)| start);
    let zero_ns = if has_timeline { zero_ns } else { files.iter().filter_map(start).min() };
    if !has_timeline && !files.is_empty() {
        add_ranks(&files, zero_ns, info, tables);
        let message = "only memory snapshots or memory timelines are here: they tell what held memory, \
                       but nothing about time spent; add the profiler's traces of the same run to ask \
                       about that";
        warnings.push(run_warning("no-timeline", String::new(), message.to_owned()));
    }
    let all_timed =
        files.iter().filter(|file| file.memory.is_snapshot()).all(|file| start(file).is_some());
    files.sort_by_cached_key(|file| {
        let end = file.memory.extent().filter(|_| all_timed && file.memory.is_snapshot());
        (file.rank, end.map(|(_, end)| end), file.file.clone())
    });
    let mut numbers: BTreeMap<(i32, bool), i32> = BTreeMap::new();
    for Placed { memory, file, rank, rank_from } in files {
        let number = numbers.entry((rank, memory.is_snapshot())).or_default();
        let key = (rank, *number);
        *number += 1;
        let shift_ns = match (memory.extent(), zero_ns) {
            (Some(_), Some(zero)) => -zero,
            (Some((start, _)), None) => {
                let message = "the traces do not say when they were recorded: times of this file begin \
                               at its own first event";
                warnings.push(run_warning("unaligned-clocks", file.clone(), message.to_owned()));
                -start
            }
            (None, _) => 0,
        };
        let (format, bytes, events) = match &memory {
            Memory::Snapshot(dump) => ("memory snapshot", dump.bytes, dump.event_count()),
            Memory::Timeline(curve) => ("memory timeline", curve.json_bytes, curve.entries()),
        };
        info.sources.push(Source {
            file: file.clone(),
            format,
            rank,
            rank_from,
            json_bytes: bytes,
            events,
            shift_ns,
        });
        match memory {
            Memory::Snapshot(dump) => dump.into_tables(tables, key, &file, shift_ns),
            Memory::Timeline(curve) => curve.into_tables(tables, key, &file, shift_ns),
        }
    }
}

/// Rows of `ranks` for runs without a timeline.
fn add_ranks(files: &[Placed], zero_ns: Option<i64>, info: &mut RunInfo, tables: &mut TableSet) {
    let mut by_rank: BTreeMap<i32, Vec<&Placed>> = BTreeMap::new();
    for file in files {
        by_rank.entry(file.rank).or_default().push(file);
    }
    let single = by_rank.len() == 1;
    for (rank, files) in by_rank {
        if info.ranks.contains(&rank) {
            continue; // an execution trace speaks for it
        }
        info.ranks.push(rank);
        let extents = || files.iter().filter_map(|file| file.memory.extent());
        let zero = zero_ns.unwrap_or(0);
        let start_ns = extents().map(|(start, _)| start - zero).min().unwrap_or(0);
        let end_ns = extents().map(|(_, end)| end - zero).max().unwrap_or(0);
        info.wall_ns = info.wall_ns.max(end_ns);
        let events = files.iter().map(|file| match &file.memory {
            Memory::Snapshot(dump) => dump.event_count(),
            Memory::Timeline(curve) => curve.entries(),
        });
        let mut strings = Strings::default();
        let mut ranks = Ranks::default();
        ranks.push(Rank {
            rank,
            file: strings.intern(&files[0].file),
            start_ns,
            end_ns,
            base_time_ns: zero_ns.unwrap_or(NULL_I64),
            clock: strings.intern(match (single, zero_ns) {
                (true, _) => "single",
                (false, Some(_)) => "absolute",
                (false, None) => "relative",
            }),
            event_count: events.sum::<u64>() as i64,
            ..Rank::absent()
        });
        tables.push("ranks", ranks.into_batch(&strings));
    }
}
