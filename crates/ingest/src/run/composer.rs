//! Composer's files of a run: which recording of a rank is read, and its join with PyTorch's traces.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{Source, Warning};

use crate::formats::composer::{self, Part, Recording, markers};
use crate::formats::kineto::columns::Columns;
use crate::formats::kineto::{Metadata, Trace};
use crate::run::{Member, choose_cycle, cycles, run_warning};

/// Cycles follow each other; an overlap of more than this share of the shorter one is no accident.
const OVERLAP: i64 = 10;

/// What one process wrote into one file.
struct Piece {
    part: Part,
    file: String,
    json_bytes: u64,
    /// The file holds other ranks too.
    is_merged: bool,
}

/// Gives each rank that Composer speaks of one timeline: its files of all cycles, one after the other, together
/// with PyTorch's traces of the same process. Traces of other ranks are handed back.
pub(crate) fn join(
    recordings: Vec<Recording>,
    mut traces: Vec<Member>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> (Vec<Member>, Vec<Member>) {
    let pieces = pieces(recordings, warnings);
    let mut by_rank: BTreeMap<i32, BTreeMap<String, Vec<Piece>>> = BTreeMap::new();
    for piece in pieces {
        let processes = by_rank.entry(piece.part.rank).or_default();
        processes.entry(piece.part.process.clone()).or_default().push(piece);
    }
    let mut members: Vec<Member> = Vec::new();
    let mut syncs: Vec<Option<i64>> = Vec::new();
    for (rank, processes) in by_rank {
        let (process, pieces) = choose_process(rank, processes, warnings);
        let pieces = without_copies(pieces, warnings);
        let sync = pieces.iter().filter_map(|piece| piece.part.sync_ns).next_back();
        let (own, others): (Vec<Member>, Vec<Member>) =
            traces.into_iter().partition(|member| member.rank == rank);
        traces = others;
        let own = of_process(own, &process, &pieces, warnings);
        members.push(one(rank, &process, pieces, own, cycle, warnings));
        syncs.push(sync);
    }
    align(&mut members, &syncs);
    (members, traces)
}

/// All parts of all files; of merged files only what the files of ranks do not hold.
fn pieces(recordings: Vec<Recording>, warnings: &mut Vec<Warning>) -> Vec<Piece> {
    let mut single: BTreeMap<(i32, String), usize> = BTreeMap::new();
    for recording in recordings.iter().filter(|recording| recording.parts.len() == 1) {
        for part in &recording.parts {
            *single.entry((part.rank, part.process.clone())).or_default() += part.own_len();
        }
    }
    let mut pieces = Vec::new();
    for mut recording in recordings {
        let is_merged = recording.parts.len() > 1;
        let file_warnings = recording.take_warnings();
        let is_known = |part: &Part| {
            single
                .get(&(part.rank, part.process.clone()))
                .is_some_and(|&events| events >= part.own_len())
        };
        if is_merged && recording.parts.iter().all(is_known) {
            warnings.push(merged(recording.file));
            continue;
        }
        warnings.extend(file_warnings);
        let (file, json_bytes) = (recording.file, recording.json_bytes);
        pieces.extend(recording.parts.into_iter().map(|part| Piece {
            part,
            file: file.clone(),
            json_bytes,
            is_merged,
        }));
    }
    pieces
}

fn merged(file: String) -> Warning {
    let message = "a merged trace: set aside, since the files it was made of are here".to_owned();
    run_warning("merged-trace", file, message)
}

fn copy(file: String, of: &str, rank: i32) -> Warning {
    let message = format!("holds the same time of rank {rank} as {of}: set aside");
    run_warning("duplicate-rank", file, message)
}

/// One recording of a rank: of several processes the one that marks most batches, the latest of equals.
fn choose_process(
    rank: i32,
    mut processes: BTreeMap<String, Vec<Piece>>,
    warnings: &mut Vec<Warning>,
) -> (String, Vec<Piece>) {
    let score = |pieces: &[Piece]| {
        let batches: usize = pieces.iter().map(|piece| piece.part.batches()).sum();
        let end = pieces.iter().filter_map(|piece| piece.part.extent()).map(|(_, end)| end).max();
        (batches, end)
    };
    let best = processes
        .iter()
        .max_by_key(|(_, pieces)| score(pieces))
        .map(|(process, _)| process.clone())
        .unwrap_or_default();
    let pieces = processes.remove(&best).unwrap_or_default();
    if !processes.is_empty() {
        let set_aside: Vec<&str> =
            processes.values().flatten().map(|piece| piece.file.as_str()).collect();
        let message = format!(
            "recordings of {} processes say they are rank {rank}: that of process {best} was read, which \
             marks most batches; set aside: {}",
            processes.len() + 1,
            set_aside.join(", ")
        );
        warnings.push(run_warning("several-runs", pieces[0].file.clone(), message));
    }
    (best, pieces)
}

/// The files of one process in order of time. Where files hold the same stretch, the shorter ones stay if
/// together they hold as much: those of single cycles are not rewritten.
fn without_copies(mut pieces: Vec<Piece>, warnings: &mut Vec<Warning>) -> Vec<Piece> {
    let rank = pieces.first().map_or(0, |piece| piece.part.rank);
    let extent = |piece: &Piece| piece.part.extent().unwrap_or((0, 0));
    pieces.sort_by(|a, b| {
        let length = |piece: &Piece| extent(piece).1 - extent(piece).0;
        (length(a), a.is_merged, &a.file).cmp(&(length(b), b.is_merged, &b.file))
    });
    let mut kept: Vec<Piece> = Vec::new();
    for piece in pieces {
        let (start, end) = extent(&piece);
        let overlaps = |other: &Piece| {
            let (other_start, other_end) = extent(other);
            let common = end.min(other_end) - start.max(other_start);
            let shorter = (end - start).min(other_end - other_start).max(1);
            common > 0 && common > shorter / OVERLAP
        };
        let (same, rest): (Vec<Piece>, Vec<Piece>) = kept.into_iter().partition(overlaps);
        kept = rest;
        let events: usize = same.iter().map(|piece| piece.part.own_len()).sum();
        if same.is_empty() {
            kept.push(piece);
        } else if piece.part.own_len() > events {
            warnings.extend(same.into_iter().map(|other| copy(other.file, &piece.file, rank)));
            kept.push(piece);
        } else {
            warnings.push(match same.as_slice() {
                [only] => copy(piece.file, &only.file, rank),
                _ => merged(piece.file),
            });
            kept.extend(same);
        }
    }
    kept.sort_by(|a, b| (extent(a), &a.file).cmp(&(extent(b), &b.file)));
    kept
}

/// PyTorch's traces of this process, or at least of this time; the others are set aside.
fn of_process(
    traces: Vec<Member>,
    process: &str,
    pieces: &[Piece],
    warnings: &mut Vec<Warning>,
) -> Vec<Member> {
    let extents = || pieces.iter().filter_map(|piece| piece.part.extent());
    let recorded = (extents().map(|e| e.0).min(), extents().map(|e| e.1).max());
    let (same, others): (Vec<Member>, Vec<Member>) =
        traces.into_iter().partition(|member| member.trace.has_lane_of(process));
    let others_overlap = |member: &Member| {
        let base = member.trace.base_time_ns();
        base.is_some_and(|base| {
            Some(base + member.trace.start_ns) <= recorded.1
                && recorded.0 <= Some(base + member.trace.end_ns)
        })
    };
    let (at_that_time, others): (Vec<Member>, Vec<Member>) =
        others.into_iter().partition(|member| same.is_empty() && others_overlap(member));
    for member in others {
        let message = format!(
            "a trace of another process than that of Composer's files of rank {}: set aside",
            member.rank
        );
        warnings.push(run_warning("several-runs", member.file, message));
    }
    if same.is_empty() { at_that_time } else { same }
}

/// The timeline of one rank.
fn one(
    rank: i32,
    process: &str,
    mut pieces: Vec<Piece>,
    traces: Vec<Member>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Member {
    let mut traces = cycles(rank, traces, warnings);
    let is_original = !traces.is_empty();
    if !is_original {
        for piece in &mut pieces {
            let Some(torch) = piece.part.torch.take() else { continue };
            let trace = Trace::new(&piece.file, torch, Metadata::default(), 0);
            traces.push(Member::new(trace, piece.file.clone(), rank, "global_rank"));
        }
    }
    // Between cycles a device is not idle, it is not watched: then only one cycle has a window. The host's
    // events of several cycles do not get in each other's way.
    if traces.iter().any(|member| member.trace.has_device_work()) && traces.len() > 1 {
        traces = vec![choose_cycle(rank, traces, cycle, warnings)];
    }
    let mut traces = traces.into_iter();
    let mut member = traces.next();
    if let Some(member) = &mut member {
        make_absolute(member, &pieces, warnings);
        for mut other in traces {
            make_absolute(&mut other, &pieces, warnings);
            member.trace.join(&other.file, other.trace.into_columns());
            member.sources.append(&mut other.sources);
        }
    }
    let mut own: Option<(Columns, String)> = None;
    let mut sources = Vec::new();
    for piece in pieces {
        let Piece { mut part, file, json_bytes, .. } = piece;
        if is_original {
            part.set_torch_aside();
        }
        sources.push(Source {
            file: file.clone(),
            format: "composer",
            rank,
            rank_from: "global_rank",
            json_bytes,
            events: part.events,
            shift_ns: 0,
        });
        match &mut own {
            Some((columns, _)) => columns.append(part.own),
            None => own = Some((part.own, file)),
        }
    }
    let (mut columns, file) = own.unwrap_or_default();
    markers::pair(&mut columns);
    match member {
        None => {
            let mut trace = Trace::new(&file, columns, Metadata::default(), 0);
            trace.is_profiled = false;
            let member = Member::new(trace, file, rank, "global_rank");
            Member { sources, ..member }
        }
        Some(mut member) => {
            if is_original {
                columns.rename_process(process);
                member.sources.append(&mut sources);
            } else {
                member.sources = sources;
            }
            member.trace.join(&file, columns);
            member
        }
    }
}

/// Puts a PyTorch trace on Unix time, as Composer's events are.
fn make_absolute(member: &mut Member, pieces: &[Piece], warnings: &mut Vec<Warning>) {
    let extents = || pieces.iter().filter_map(|piece| piece.part.extent());
    let base = member.trace.base_time_ns().or_else(|| {
        let composer = (extents().map(|e| e.0).min()?, extents().map(|e| e.1).max()?);
        composer::repaired_base((member.trace.start_ns, member.trace.end_ns), composer)
    });
    if let Some(base) = base {
        member.trace.make_absolute(base);
        for source in &mut member.sources {
            source.shift_ns = base;
        }
    } else {
        let message = "does not say when it was recorded, nor does its time fit Composer's files: not on \
                       their clock";
        warnings.push(run_warning("unaligned-clocks", member.file.clone(), message.to_owned()));
    }
}

/// Puts all ranks on the clock of the lowest, by the barrier that all passed at the same time.
fn align(members: &mut [Member], syncs: &[Option<i64>]) {
    let Some(Some(reference)) = syncs.first().copied() else { return };
    let distinct: BTreeSet<i64> = syncs.iter().flatten().copied().collect();
    if distinct.len() < 2 {
        return;
    }
    for (member, sync) in members.iter_mut().zip(syncs) {
        if let Some(sync) = sync {
            member.adjust_ns = reference - sync;
            member.is_synchronised = true;
        }
    }
}
