//! Composer's files of a run: the recording that is read of each rank, and its join with PyTorch's traces.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{Capability, Source, Warning};

use crate::error::Error;
use crate::formats::composer::part::Part;
use crate::formats::composer::{self, Recording, markers};
use crate::options::Options;
use crate::run::attachment::{
    Attachment, AttachmentKind, RankTraces, RunBuilder, RunContext, TimelineState,
};
use crate::run::rank_trace::{RankData, RankTrace};
use crate::run::ranks::{choose_cycle, cycles};
use crate::timeline::columns::Columns;
use crate::timeline::metadata::Metadata;
use crate::timeline::trace::Trace;
use crate::warnings::run_warning;

/// Cycles follow each other. Files that overlap by more than one part in this many of the shorter one are copies.
const OVERLAP: i64 = 10;

/// Timelines that are not enriched yet.
type Timelines = Vec<RankTrace<Trace>>;

/// Events of one process in one file.
struct Piece {
    part: Part,
    file: String,
    json_bytes: u64,
    /// The file holds other ranks too.
    is_merged: bool,
}

/// Composer's files of a run.
pub(crate) struct ComposerFiles {
    recordings: Vec<Recording>,
}

/// The attachment that joins traces of Composer's profiler with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "traces of Composer's profiler",
    needs: TimelineState::AsWritten,
    adds_rows_by_rank: true,
    create: |files| {
        let recordings = files.contents().into_iter().map(|(_, recording)| recording);
        Box::new(ComposerFiles { recordings: recordings.collect() })
    },
};

impl Attachment for ComposerFiles {
    fn join(
        &mut self,
        traces: RankTraces,
        options: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Result<(RankTraces, RankTraces), Error> {
        let is_pending = |trace: &RankTrace<RankData>| trace.trace.pending().is_some();
        let (pending, mut others): (RankTraces, RankTraces) =
            traces.into_iter().partition(is_pending);
        let in_memory = |data| match data {
            RankData::Pending(trace) => Ok(*trace),
            RankData::Stored(_) => Err(()),
        };
        let pending = pending.into_iter().filter_map(|trace| trace.try_map(in_memory).ok());
        let recordings = std::mem::take(&mut self.recordings);
        let (joined, unjoined) = join(recordings, pending.collect(), options.cycle, warnings)?;
        let repend = |trace: RankTrace<Trace>| trace.map(|t| RankData::Pending(Box::new(t)));
        others.extend(unjoined.into_iter().map(repend));
        Ok((joined.into_iter().map(repend).collect(), others))
    }

    fn assign(
        &mut self,
        _: &[RankTrace<RankData>],
        _: RunContext<'_>,
        _: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn add_to(self: Box<Self>, _: &mut RunBuilder) {}
}

/// Joins the files of each rank that Composer recorded into one timeline: its files of all cycles, one after the
/// other, together with PyTorch's traces of the same process. Returns these timelines, and the traces of all other
/// ranks.
fn join(
    recordings: Vec<Recording>,
    mut traces: Vec<RankTrace<Trace>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Result<(Timelines, Timelines), Error> {
    let pieces = pieces(recordings, warnings);
    let mut by_rank: BTreeMap<i32, BTreeMap<String, Vec<Piece>>> = BTreeMap::new();
    for piece in pieces {
        let processes = by_rank.entry(piece.part.rank).or_default();
        processes.entry(piece.part.process.clone()).or_default().push(piece);
    }
    let mut members: Vec<RankTrace<Trace>> = Vec::new();
    let mut syncs: Vec<Option<i64>> = Vec::new();
    for (rank, processes) in by_rank {
        let (process, pieces) = choose_process(rank, processes, warnings);
        let pieces = without_copies(pieces, warnings);
        let sync = pieces.iter().filter_map(|piece| piece.part.sync_ns).next_back();
        let (own, others): (Vec<RankTrace<Trace>>, Vec<RankTrace<Trace>>) =
            traces.into_iter().partition(|member| member.rank == rank);
        traces = others;
        let own = of_process(own, &process, &pieces, warnings);
        members.push(one(rank, &process, pieces, own, cycle, warnings)?);
        syncs.push(sync);
    }
    align(&mut members, &syncs);
    Ok((members, traces))
}

/// All parts of all files, without merged files whose parts are also in files of single ranks.
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
    let message =
        "a merged trace, skipped because the run has the files that it was made of".to_owned();
    run_warning("merged-trace", file, message)
}

fn copy(file: String, of: &str, rank: i32) -> Warning {
    let message = format!("skipped: covers the same time of rank {rank} as {of}");
    run_warning("duplicate-rank", file, message)
}

/// The recording of a rank. Of several processes, the one with the most marked batches; of equals, the latest.
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
        let skipped: Vec<&str> =
            processes.values().flatten().map(|piece| piece.file.as_str()).collect();
        let message = format!(
            "recordings of {} processes state rank {rank}: that of process {best}, with the most marked \
             batches, was read; skipped: {}",
            processes.len() + 1,
            skipped.join(", ")
        );
        warnings.push(run_warning("several-runs", pieces[0].file.clone(), message));
    }
    (best, pieces)
}

/// The files of one process in order of time. Of files that cover the same time, the shorter ones are kept if together
/// they have as many events: files of single cycles are not rewritten.
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

/// PyTorch's traces of this process, else those of the same time; all others are skipped.
fn of_process(
    traces: Vec<RankTrace<Trace>>,
    process: &str,
    pieces: &[Piece],
    warnings: &mut Vec<Warning>,
) -> Vec<RankTrace<Trace>> {
    let extents = || pieces.iter().filter_map(|piece| piece.part.extent());
    let recorded = (extents().map(|e| e.0).min(), extents().map(|e| e.1).max());
    let (same, others): (Vec<RankTrace<Trace>>, Vec<RankTrace<Trace>>) =
        traces.into_iter().partition(|member| member.trace.has_lane_of(process));
    let others_overlap = |member: &RankTrace<Trace>| {
        let base = member.trace.base_time_ns();
        base.is_some_and(|base| {
            Some(base + member.trace.start_ns) <= recorded.1
                && recorded.0 <= Some(base + member.trace.end_ns)
        })
    };
    let (at_that_time, others): (Vec<RankTrace<Trace>>, Vec<RankTrace<Trace>>) =
        others.into_iter().partition(|member| same.is_empty() && others_overlap(member));
    for member in others {
        let message = format!(
            "skipped: a trace of another process than that of Composer's files of rank {}",
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
    traces: Vec<RankTrace<Trace>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Result<RankTrace<Trace>, Error> {
    let mut traces = cycles(rank, traces, warnings);
    let is_original = !traces.is_empty();
    if !is_original {
        for piece in &mut pieces {
            let Some(torch) = piece.part.torch.take() else { continue };
            let trace = Trace::new("composer", &piece.file, torch, Metadata::default(), 0);
            traces.push(RankTrace::new(trace, piece.file.clone(), rank, "global_rank"));
        }
    }
    // Between cycles a device is not recorded, which would look like idle time: so only one cycle is read. Without
    // device activity, all cycles are.
    if traces.iter().any(|member| member.trace.has_device_work()) && traces.len() > 1 {
        traces = vec![choose_cycle(rank, traces, cycle, warnings)?];
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
            part.drop_torch();
        }
        sources.push(Source {
            file: file.clone(),
            format: "composer".into(),
            is_timeline: true,
            rank,
            rank_from: "global_rank".into(),
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
    columns.declared.insert_if(!columns.annotations.is_empty(), Capability::TrainerMarkers);
    columns.declared.insert_if(!columns.counters.is_empty(), Capability::MachineMetrics);
    Ok(match member {
        None => {
            let mut trace = Trace::new("composer", &file, columns, Metadata::default(), 0);
            trace.is_profiled = false;
            let member = RankTrace::new(trace, file, rank, "global_rank");
            RankTrace { sources, ..member }
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
    })
}

/// Puts a PyTorch trace on Unix time, like Composer's events.
fn make_absolute(member: &mut RankTrace<Trace>, pieces: &[Piece], warnings: &mut Vec<Warning>) {
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
        let message = "does not state when it was recorded, and its times do not match Composer's files: not on \
                       their clock";
        warnings.push(run_warning("unaligned-clocks", member.file.clone(), message.to_owned()));
    }
}

/// Puts all ranks on the clock of the lowest one, by the barrier that all passed at the same time.
fn align(members: &mut [RankTrace<Trace>], syncs: &[Option<i64>]) {
    let Some(Some(reference)) = syncs.first().copied() else { return };
    let distinct: BTreeSet<i64> = syncs.iter().flatten().copied().collect();
    if distinct.len() < 2 {
        return;
    }
    for (member, sync) in members.iter_mut().zip(syncs) {
        if let Some(sync) = sync {
            member.adjust_ns = reference - sync;
            member.is_synchronized = true;
        }
    }
}
