//! Several files become one run: ranks, profile cycles, one clock.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rayon::prelude::*;
use trace_model::{Dataset, RunInfo, Source, TableSet, Warning};

use crate::companions::{self, Companion};
use crate::composer_files;
use crate::discover::{self, Candidate};
use crate::error::Error;
use crate::formats::composer;
use crate::formats::determined::{self, Metrics};
use crate::formats::execution::{self, Recording};
use crate::formats::kineto::{self, Trace};
use crate::formats::{Format, Unreadable};
use crate::formats::{memory_timeline, snapshot};
use crate::location::Location;
use crate::memory_files::{self, Memory, Placed};
use crate::metrics_files::{self, Trial};
use crate::source::{self, Input, Limit};
use crate::storage::{self, Place};
use crate::warnings;
use crate::{Options, Progress};

/// A timeline that was read, with the rank it was given.
pub(crate) struct Member {
    pub(crate) trace: Trace,
    pub(crate) file: String,
    pub(crate) rank: i32,
    /// The files that the trace was made of; `shift_ns` is what was added to times already.
    pub(crate) sources: Vec<Source>,
    /// What puts its clock on that of the lowest rank.
    pub(crate) adjust_ns: i64,
    /// The clock was compared with those of other ranks.
    pub(crate) is_synchronised: bool,
}

impl Member {
    pub(crate) fn new(trace: Trace, file: String, rank: i32, rank_from: &'static str) -> Self {
        let source = Source {
            file: file.clone(),
            format: "kineto",
            rank,
            rank_from,
            json_bytes: trace.json_bytes,
            events: trace.events(),
            shift_ns: 0,
        };
        Self { trace, file, rank, sources: vec![source], adjust_ns: 0, is_synchronised: false }
    }

    /// What must be added to times as written to get nanoseconds since 1970, on the clock of the lowest rank
    /// where clocks were compared.
    pub(crate) fn base_time_ns(&self) -> Option<i64> {
        self.trace.base_time_ns().map(|base| base + self.adjust_ns)
    }
}

/// What a file turned out to be.
enum Content {
    Timeline(Box<Trace>),
    Composer(Box<composer::Recording>),
    ExecutionTrace(Box<Recording>),
    Memory(Memory),
    Metrics(Box<Metrics>),
}

/// Reads a run: a trace file, or a folder of them.
pub(crate) fn read(
    run: &Location,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Dataset, Error> {
    let name = run.to_string();
    let place = run.place(options.timeout)?;
    let is_file = matches!(place, Place::File { .. });
    let found = discover::discover(place, &name)?;
    progress.begin(found.traces.len(), found.traces.iter().map(|c| c.bytes).sum());
    let limit = Limit { max_json_bytes: options.max_json_bytes };
    // PyTorch's traces beside Composer's are complete only with those: they are enriched later.
    let is_joined = found.traces.iter().any(|candidate| candidate.format == Format::Composer);
    let mut results = read_files(&found.traces, is_joined, limit, progress);
    let is_composers = |result: &Result<Content, Lost>| matches!(result, Ok(Content::Composer(_)));
    let is_late = !is_joined && results.iter().any(is_composers);
    if is_late {
        // Composer's files that do not look it from their start.
        results = read_files(&found.traces, true, limit, progress);
    }
    let is_joined = is_joined || is_late;

    let mut warnings = Vec::new();
    let (mut traces, mut recordings, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let mut composer = Vec::new();
    let mut metrics = Vec::new();
    for (candidate, result) in found.traces.into_iter().zip(results) {
        match result {
            Ok(Content::Timeline(trace)) => traces.push((candidate.file, *trace)),
            Ok(Content::Composer(recording)) => composer.push(*recording),
            Ok(Content::ExecutionTrace(nodes)) => recordings.push((candidate.file, *nodes)),
            Ok(Content::Memory(content)) => memory.push((candidate.file, content)),
            Ok(Content::Metrics(content)) => metrics.push((candidate.file, *content)),
            Err(Lost::Outage(error) | Lost::Unreadable(error)) if is_file => {
                return Err(Error::read(name, error));
            }
            Err(Lost::Outage(error)) => {
                return Err(Error::read(format!("{name}: {}", candidate.file), error));
            }
            Err(lost) => {
                warnings.push(run_warning("unreadable-file", candidate.file, lost.reason()));
            }
        }
    }
    let only_metrics =
        traces.is_empty() && composer.is_empty() && recordings.is_empty() && memory.is_empty();
    if only_metrics && metrics.is_empty() {
        let first = warnings.into_iter().next();
        return Err(first.map_or_else(
            || Error::NoTrace { path: name.clone().into(), skipped: found.skipped.clone() },
            |w| Error::Unusable { file: w.file, reason: w.message },
        ));
    }
    if !found.skipped.is_empty() {
        let count = found.skipped.len() as u64;
        let mut message = format!(
            "not traces, skipped: {}",
            found.skipped[..found.skipped.len().min(8)].join(", ")
        );
        if found.skipped.len() > 8 {
            message.push_str(", ...");
        }
        warnings.push(Warning { code: "skipped-file", file: String::new(), message, count });
    }
    warnings.extend(metrics_files::aside(&found.aside));
    let members = assign_ranks(traces, &mut warnings);
    let (joined, members) = composer_files::join(composer, members, options.cycle, &mut warnings);
    let mut members = choose_cycles(members, options.cycle, &mut warnings);
    if is_joined {
        members.extend(joined);
        members.sort_by_key(|member| member.rank);
        members = members
            .into_par_iter()
            .map(|member| Member { trace: member.trace.enrich(), ..member })
            .collect();
    }
    check_world(&members, &mut warnings);
    let companions = companions::assign(recordings, &members, &mut warnings);
    let memory = memory_files::assign(memory, &members, &mut warnings);
    let trial = match metrics_files::assign(metrics, &members, options.trial, &mut warnings) {
        Ok(trial) => trial,
        Err(nothing) if only_metrics => return Err(nothing.error(&name)),
        Err(nothing) => {
            warnings.push(nothing.warning());
            None
        }
    };
    Ok(assemble(name, members, companions, memory, trial, warnings))
}

/// Why a file gives nothing.
enum Lost {
    /// Its content is of no use.
    Unusable(String),
    /// It could not be read.
    Unreadable(io::Error),
    /// The store could not be asked: what the other files say would be half the truth.
    Outage(io::Error),
}

impl Lost {
    fn reason(&self) -> String {
        match self {
            Self::Unusable(reason) => reason.clone(),
            Self::Unreadable(error) | Self::Outage(error) => format!("cannot be read: {error}"),
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        if storage::is_outage(&error) { Self::Outage(error) } else { Self::Unreadable(error) }
    }
}

/// Reads files side by side, begun in their order; what each turned out to be, in their order.
fn read_files(
    files: &[Candidate],
    is_joined: bool,
    limit: Limit,
    progress: &dyn Progress,
) -> Vec<Result<Content, Lost>> {
    if !files.iter().any(|candidate| candidate.stored.is_far()) {
        return files
            .par_iter()
            .map(|candidate| read_file(candidate, is_joined, limit, progress))
            .collect();
    }
    let stored: Vec<&storage::File> = files.iter().map(|candidate| &candidate.stored).collect();
    storage::reading(&stored, progress, |begun| {
        let mut results: Vec<(usize, Result<Content, Lost>)> = begun
            .par_bridge()
            .map(|at| (at, read_file(&files[at], is_joined, limit, progress)))
            .collect();
        results.sort_unstable_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    })
}

fn read_file(
    candidate: &Candidate,
    is_joined: bool,
    limit: Limit,
    progress: &dyn Progress,
) -> Result<Content, Lost> {
    let input = source::open(&candidate.stored, limit)?;
    let failure = match &input {
        Input::Whole(_) => None,
        Input::Stream(stream) => Some(stream.failure()),
    };
    let advance = |bytes| progress.advance(bytes);
    let unusable = |error: Unreadable| error.reason().to_owned();
    let content = match candidate.format {
        Format::Kineto => kineto::parse(&candidate.file, input, &advance)
            .map(|trace| match (trace.is_composers(), is_joined) {
                (true, _) => {
                    let recording = composer::Recording::new(&candidate.file, trace);
                    Content::Composer(Box::new(recording))
                }
                (false, true) => Content::Timeline(Box::new(trace)),
                (false, false) => Content::Timeline(Box::new(trace.enrich())),
            })
            .map_err(unusable),
        Format::Composer => composer::read(&candidate.file, input, &advance)
            .map(|recording| Content::Composer(Box::new(recording)))
            .map_err(unusable),
        Format::ExecutionTrace => execution::read(input, &advance)
            .map(|nodes| Content::ExecutionTrace(Box::new(nodes)))
            .map_err(unusable),
        Format::MemoryTimeline => memory_timeline::read(input, &advance)
            .map(|curve| Content::Memory(Memory::Timeline(Box::new(curve))))
            .map_err(unusable),
        Format::MemorySnapshot => snapshot::read(input, &advance)
            .map(|dump| Content::Memory(Memory::Snapshot(Box::new(dump)))),
        Format::Determined(form) => determined::read(form, input, &advance)
            .map(|metrics| Content::Metrics(Box::new(metrics)))
            .map_err(unusable),
    };
    progress.file_done(&candidate.file);
    if let Some(error) = failure.and_then(|f| f.take()) {
        return Err(error.into());
    }
    content.map_err(Lost::Unusable)
}

pub(crate) fn run_warning(code: &'static str, file: String, message: String) -> Warning {
    Warning { code, file, message, count: 1 }
}

/// Rank from the trace, else from the file name, else in order of names, skipping ranks in use.
fn assign_ranks(traces: Vec<(String, Trace)>, warnings: &mut Vec<Warning>) -> Vec<Member> {
    let mut used: BTreeSet<i32> = BTreeSet::new();
    let known: Vec<Option<(i32, &'static str)>> = traces
        .iter()
        .map(|(file, trace)| {
            trace.rank().or_else(|| discover::stated_rank(file).map(|rank| (rank, "file name")))
        })
        .collect();
    used.extend(known.iter().flatten().map(|&(rank, _)| rank));

    // Numbers at the end of worker names are ranks only if they look like it all together: process
    // ids do too, one by one.
    let unknown: BTreeSet<&str> = traces
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|((file, _), _)| discover::worker(file))
        .collect();
    let numbers: Option<Vec<i32>> = unknown.iter().map(|w| discover::trailing_number(w)).collect();
    let numbers = numbers.filter(|numbers| {
        let distinct: BTreeSet<_> = numbers.iter().collect();
        let max = numbers.iter().copied().max().unwrap_or(0) as usize;
        distinct.len() == numbers.len()
            && max < numbers.len() * 4
            && numbers.iter().all(|n| !used.contains(n))
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
            code: "guessed-rank",
            file: String::new(),
            message:
                "no rank in the trace or the file name: ranks were given in order of file names"
                    .to_owned(),
            count: guessed as u64,
        });
    }
    traces
        .into_iter()
        .zip(known)
        .map(|((file, trace), known)| {
            let (rank, rank_from) = known
                .or_else(|| by_worker.get(discover::worker(&file)).copied())
                .unwrap_or((0, "order"));
            Member::new(trace, file, rank, rank_from)
        })
        .collect()
}

/// Several files of one rank: one cycle is kept.
fn choose_cycles(
    members: Vec<Member>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Vec<Member> {
    let mut by_rank: BTreeMap<i32, Vec<Member>> = BTreeMap::new();
    for member in members {
        by_rank.entry(member.rank).or_default().push(member);
    }
    by_rank
        .into_iter()
        .map(|(rank, files)| {
            let cycles = cycles(rank, files, warnings);
            choose_cycle(rank, cycles, cycle, warnings)
        })
        .collect()
}

/// The files of one rank in order of time: cycles if they follow each other, duplicates if they overlap (the
/// first is kept).
pub(crate) fn cycles(
    rank: i32,
    mut files: Vec<Member>,
    warnings: &mut Vec<Warning>,
) -> Vec<Member> {
    let time = |m: &Member| {
        let base = m.trace.base_time_ns().unwrap_or(0);
        (base.saturating_add(m.trace.start_ns), base.saturating_add(m.trace.end_ns))
    };
    files.sort_by(|a, b| (time(a), &a.file).cmp(&(time(b), &b.file)));
    let mut cycles: Vec<Member> = Vec::new();
    for member in files {
        match cycles.last() {
            Some(last) if time(&member).0 < time(last).1 || time(&member) == time(last) => {
                let message = format!(
                    "also says it is rank {rank}, at the same time as {}: set aside",
                    last.file
                );
                warnings.push(run_warning("duplicate-rank", member.file, message));
            }
            _ => cycles.push(member),
        }
    }
    cycles
}

/// One of the cycles of a rank, of which there is at least one: the one that was asked for, else the last.
pub(crate) fn choose_cycle(
    rank: i32,
    mut cycles: Vec<Member>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Member {
    let count = cycles.len();
    let chosen = cycle.map_or(count, |c| c.clamp(1, count)) - 1;
    if count > 1 {
        let file = cycles[chosen].file.clone();
        let message = format!(
            "rank {rank} has {count} profile cycles: cycle {} was read (--cycle chooses another)",
            chosen + 1
        );
        warnings.push(run_warning("several-cycles", file, message));
    }
    cycles.swap_remove(chosen)
}

/// Says so when the traces speak of more ranks than there are files.
fn check_world(members: &[Member], warnings: &mut Vec<Warning>) {
    let Some(world) = members.iter().filter_map(|m| m.trace.world_size()).max() else { return };
    let present = members.len();
    if usize::try_from(world).is_ok_and(|world| world > present) {
        let message = format!(
            "traces of {present} of the job's {world} ranks are here: what the others did is not known"
        );
        warnings.push(run_warning("missing-ranks", String::new(), message));
    }
}

/// Puts all ranks on one clock and builds the tables.
fn assemble(
    path: String,
    members: Vec<Member>,
    companions: Vec<Companion>,
    memory: Vec<Placed>,
    trial: Option<Trial>,
    mut warnings: Vec<Warning>,
) -> Dataset {
    let has_timeline = !members.is_empty();
    let single = members.len() == 1;
    let absolute = |m: &Member| m.base_time_ns().map(|base| base + m.trace.start_ns);
    let zero = members.iter().filter_map(absolute).min();
    let all_absolute = members.iter().all(|m| m.base_time_ns().is_some());
    // Without absolute times, traces that overlap as written probably share a clock.
    let first = members.iter().map(|m| m.trace.start_ns).min().unwrap_or(0);
    let overlap = members.iter().map(|m| m.trace.start_ns).max()
        < members.iter().map(|m| m.trace.end_ns).min();

    // What is added to the times of a trace, the absolute time of zero, and how sure that is.
    let clock = |member: &Member| match (member.base_time_ns(), zero) {
        (Some(base), Some(zero)) => {
            let clock = match (single, member.is_synchronised) {
                (true, _) => "single",
                (false, true) => "synchronised",
                (false, false) => "absolute",
            };
            (base - zero, Some(zero), clock)
        }
        _ if single => (-member.trace.start_ns, None, "single"),
        _ if overlap && zero.is_none() => (-first, None, "relative"),
        _ => (-member.trace.start_ns, None, "relative"),
    };

    let mut info = RunInfo { path, ..RunInfo::default() };
    let parts: Vec<(TableSet, i64)> = {
        for member in &members {
            warnings.extend(member.trace.warnings());
            info.ranks.push(member.rank);
            info.steps = info.steps.max(member.trace.steps());
            let shift_ns = clock(member).0;
            info.sources.extend(member.sources.iter().cloned().map(|source| {
                let shift_ns = source.shift_ns + shift_ns;
                Source { shift_ns, ..source }
            }));
        }
        members
            .into_par_iter()
            .map(|member| {
                let (shift, base, clock) = clock(&member);
                let trace = member.trace;
                let end_ns = trace.end_ns + shift;
                let mut tables = TableSet::default();
                trace.into_tables(&mut tables, member.rank, shift, base, clock);
                (tables, end_ns)
            })
            .collect()
    };
    if has_timeline && !single && !all_absolute {
        warnings.push(run_warning(
            "unaligned-clocks",
            String::new(),
            "the traces do not say when they were recorded: times of different ranks cannot be compared".to_owned(),
        ));
    }
    let mut tables = TableSet::default();
    for (part, end_ns) in parts {
        info.wall_ns = info.wall_ns.max(end_ns);
        for (name, batches) in part.iter() {
            for batch in batches {
                tables.push(name, batch.clone());
            }
        }
    }
    for companion in companions {
        info.sources.push(companion.source());
        if !has_timeline {
            info.ranks.push(companion.rank);
        }
        companion.into_tables(&mut tables, !has_timeline);
    }
    let has_clock = has_timeline || trial.is_some();
    let zero = trial.map_or(zero, |trial| {
        let (info, tables, warnings) = (&mut info, &mut tables, &mut warnings);
        metrics_files::into_tables(&trial, has_timeline, zero, info, tables, warnings)
    });
    memory_files::into_tables(memory, has_clock, zero, &mut info, &mut tables, &mut warnings);
    info.ranks.sort_unstable();
    tables.push("reading_warnings", warnings::table(&warnings, &info.sources));
    Dataset { tables, run: info, warnings }
}
