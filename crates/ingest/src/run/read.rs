//! Several files become one run: ranks, profile cycles, one clock.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rayon::prelude::*;
use trace_model::{Dataset, RunInfo, Source, TableSet, Warning};

use crate::companions::{self, Companion};
use crate::composer_files;
use crate::discover::{self, Candidate, Found};
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
use crate::timeline::{self, Placement, Timeline};
use crate::warnings;
use crate::{Options, Progress};

/// The files of a run, found but not read.
#[derive(Debug)]
pub(crate) struct Run {
    /// As the user gave it.
    pub(crate) name: String,
    pub(crate) found: Found,
    /// It is one file, not a folder.
    pub(crate) is_file: bool,
}

/// Finds the files of a run.
pub(crate) fn find(run: &Location, options: &Options) -> Result<Run, Error> {
    let name = run.to_string();
    let place = run.place(options.timeout)?;
    let is_file = matches!(place, Place::File { .. });
    let found = discover::discover(place, &name)?;
    Ok(Run { name, found, is_file })
}

impl Run {
    fn begin(&self, progress: &dyn Progress) {
        let traces = &self.found.traces;
        progress.begin(traces.len(), traces.iter().map(|candidate| candidate.bytes).sum());
    }

    fn has(&self, format: Format) -> bool {
        self.found.traces.iter().any(|candidate| candidate.format == format)
    }
}

/// A timeline that was read, with the rank it was given.
pub(crate) struct Member<T = Trace> {
    pub(crate) trace: T,
    pub(crate) file: String,
    pub(crate) rank: i32,
    /// The files that the trace was made of; `shift_ns` is what was added to times already.
    pub(crate) sources: Vec<Source>,
    /// What puts its clock on that of the lowest rank.
    pub(crate) adjust_ns: i64,
    /// The clock was compared with those of other ranks.
    pub(crate) is_synchronised: bool,
}

impl<T: Timeline> Member<T> {
    pub(crate) fn new(trace: T, file: String, rank: i32, rank_from: &'static str) -> Self {
        let source = Source {
            file: file.clone(),
            format: "kineto",
            rank,
            rank_from,
            json_bytes: trace.json_bytes(),
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
enum Content<T = Trace> {
    Timeline(Box<T>),
    Composer(Box<composer::Recording>),
    ExecutionTrace(Box<Recording>),
    Memory(Memory),
    Metrics(Box<Metrics>),
}

/// The files of a run, by what they are.
struct Files<T> {
    traces: Vec<(String, T)>,
    composer: Vec<composer::Recording>,
    recordings: Vec<(String, Recording)>,
    memory: Vec<(String, Memory)>,
    metrics: Vec<(String, Metrics)>,
    /// There is nothing but metrics.
    only_metrics: bool,
    warnings: Vec<Warning>,
}

/// Reads the traces of a run, all of them at once.
pub(crate) fn read(run: Run, options: &Options, progress: &dyn Progress) -> Result<Dataset, Error> {
    run.begin(progress);
    // PyTorch's traces beside Composer's are complete only with those: they are enriched later.
    let is_joined = run.has(Format::Composer);
    let limit = Limit { max_json_bytes: options.max_json_bytes };
    let read = |is_joined| {
        read_files(&run.found.traces, progress, |candidate| {
            read_file(candidate, is_joined, limit, progress)
        })
    };
    let mut results = read(is_joined);
    let is_composers = |result: &Result<Content, Lost>| matches!(result, Ok(Content::Composer(_)));
    let is_late = !is_joined && results.iter().any(is_composers);
    if is_late {
        // Composer's files that do not look it from their start.
        results = read(true);
    }
    let is_joined = is_joined || is_late;

    let name = run.name.clone();
    let mut files = sort(run, results)?;
    let warnings = &mut files.warnings;
    let members = assign_ranks(files.traces, warnings);
    let (joined, members) = composer_files::join(files.composer, members, options.cycle, warnings);
    let mut members = choose_cycles(members, options.cycle, warnings);
    if is_joined {
        members.extend(joined);
        members.sort_by_key(|member| member.rank);
        members = members
            .into_par_iter()
            .map(|member| Member { trace: member.trace.enrich(), ..member })
            .collect();
    }
    check_world(&members, warnings);
    let companions = companions::assign(files.recordings, &members, warnings);
    let memory = memory_files::assign(files.memory, &members, warnings);
    let trial = match metrics_files::assign(files.metrics, &members, options.trial, warnings) {
        Ok(trial) => trial,
        Err(nothing) if files.only_metrics => return Err(nothing.error(&name)),
        Err(nothing) => {
            warnings.push(nothing.warning());
            None
        }
    };
    let beside = Beside { companions, memory, trial };
    let place = |members: Vec<(Trace, Placement)>| {
        let parts: Vec<TableSet> = members
            .into_par_iter()
            .map(|(trace, placement)| timeline::tables(trace, placement))
            .collect();
        let mut tables = TableSet::default();
        for (name, batches) in parts.iter().flat_map(TableSet::iter) {
            for batch in batches {
                tables.push(name, batch.clone());
            }
        }
        tables
    };
    Ok(assemble(name, members, place, beside, files.warnings))
}

/// Whether timelines of these formats can be read one after the other, none of them needing another.
pub(crate) fn is_separable(run: &Run) -> bool {
    run.found.traces.iter().all(|candidate| {
        matches!(candidate.format, Format::Kineto | Format::MemorySnapshot | Format::MemoryTimeline)
    })
}

/// Reads the traces of a run one after the other; each is handed to `put_away` as soon as it is read, and what that
/// makes of it to `place` at the end. `None` if they turn out to need each other. See [`is_separable`].
pub(crate) fn read_apart<T: Timeline>(
    run: Run,
    options: &Options,
    progress: &dyn Progress,
    put_away: impl Fn(usize, &str, Trace) -> Result<T, Error> + Sync,
    place: impl FnOnce(Vec<(T, Placement)>) -> TableSet,
) -> Result<Option<Dataset>, Error> {
    run.begin(progress);
    let limit = Limit { max_json_bytes: options.max_json_bytes };
    let read = |at: usize| {
        let candidate = &run.found.traces[at];
        Ok(match read_file(candidate, false, limit, progress)? {
            Content::Timeline(trace) => {
                let away = put_away(at, &candidate.file, *trace).map_err(Lost::Fatal)?;
                Content::Timeline(Box::new(away))
            }
            Content::Memory(memory) => Content::Memory(memory),
            Content::Composer(_) | Content::ExecutionTrace(_) | Content::Metrics(_) => {
                return Err(Lost::Entangled);
            }
        })
    };
    let stored: Vec<&storage::File> = run.found.traces.iter().map(|c| &c.stored).collect();
    let results = storage::reading(&stored, progress, |begun| {
        let mut begun = begun.peekable();
        let mut results: Vec<Result<Content<T>, Lost>> = Vec::with_capacity(stored.len());
        loop {
            let some = next_few(&mut begun, |at| run.found.traces[at].json_bytes);
            if some.is_empty() {
                return results;
            }
            results.par_extend(some.into_par_iter().map(&read));
            if results.iter().any(|r| matches!(r, Err(Lost::Fatal(_) | Lost::Entangled))) {
                return results;
            }
        }
    });
    if results.iter().any(|result| matches!(result, Err(Lost::Entangled))) {
        return Ok(None);
    }
    let name = run.name.clone();
    let mut files = sort(run, results)?;
    let warnings = &mut files.warnings;
    let members = assign_ranks(files.traces, warnings);
    let members = choose_cycles(members, options.cycle, warnings);
    check_world(&members, warnings);
    let memory = memory_files::assign(files.memory, &members, warnings);
    let beside = Beside { companions: Vec::new(), memory, trial: None };
    Ok(Some(assemble(name, members, place, beside, files.warnings)))
}

/// Files to read side by side: many small ones or one large one, so that what is in memory at a time is bounded.
fn next_few(
    begun: &mut std::iter::Peekable<impl Iterator<Item = usize>>,
    json_bytes: impl Fn(usize) -> u64,
) -> Vec<usize> {
    const JSON_AT_ONCE: u64 = 96 << 20;
    let mut some = Vec::new();
    let mut sum = 0;
    while let Some(&at) = begun.peek() {
        sum += json_bytes(at);
        if !some.is_empty() && sum > JSON_AT_ONCE {
            break;
        }
        some.extend(begun.next());
    }
    some
}

/// Sorts what was read by what it is; errors if that is nothing.
fn sort<T>(run: Run, results: Vec<Result<Content<T>, Lost>>) -> Result<Files<T>, Error> {
    let Run { name, found, is_file } = run;
    let mut files = Files {
        traces: Vec::new(),
        composer: Vec::new(),
        recordings: Vec::new(),
        memory: Vec::new(),
        metrics: Vec::new(),
        only_metrics: false,
        warnings: Vec::new(),
    };
    for (candidate, result) in found.traces.into_iter().zip(results) {
        match result {
            Ok(Content::Timeline(trace)) => files.traces.push((candidate.file, *trace)),
            Ok(Content::Composer(recording)) => files.composer.push(*recording),
            Ok(Content::ExecutionTrace(nodes)) => files.recordings.push((candidate.file, *nodes)),
            Ok(Content::Memory(content)) => files.memory.push((candidate.file, content)),
            Ok(Content::Metrics(content)) => files.metrics.push((candidate.file, *content)),
            Err(Lost::Fatal(error)) => return Err(error),
            Err(Lost::Outage(error) | Lost::Unreadable(error)) if is_file => {
                return Err(Error::read(name, error));
            }
            Err(Lost::Outage(error)) => {
                return Err(Error::read(format!("{name}: {}", candidate.file), error));
            }
            Err(lost) => {
                let reason = lost.reason();
                files.warnings.push(run_warning("unreadable-file", candidate.file, reason));
            }
        }
    }
    files.only_metrics = files.traces.is_empty()
        && files.composer.is_empty()
        && files.recordings.is_empty()
        && files.memory.is_empty();
    if files.only_metrics && files.metrics.is_empty() {
        let first = files.warnings.into_iter().next();
        return Err(first.map_or_else(
            || Error::NoTrace { path: name.into(), skipped: found.skipped.clone() },
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
        files.warnings.push(Warning { code: "skipped-file", file: String::new(), message, count });
    }
    files.warnings.extend(metrics_files::aside(&found.aside));
    Ok(files)
}

/// Why a file gives nothing.
enum Lost {
    /// Its content is of no use.
    Unusable(String),
    /// It could not be read.
    Unreadable(io::Error),
    /// The store could not be asked: what the other files say would be half the truth.
    Outage(io::Error),
    /// Something else than the file: there is no point in going on.
    Fatal(Error),
    /// It can only be read together with others.
    Entangled,
}

impl Lost {
    fn reason(&self) -> String {
        match self {
            Self::Unusable(reason) => reason.clone(),
            Self::Unreadable(error) | Self::Outage(error) => format!("cannot be read: {error}"),
            Self::Fatal(error) => error.to_string(),
            Self::Entangled => "belongs to other files".to_owned(),
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
    progress: &dyn Progress,
    read: impl Fn(&Candidate) -> Result<Content, Lost> + Sync + Send,
) -> Vec<Result<Content, Lost>> {
    if !files.iter().any(|candidate| candidate.stored.is_far()) {
        return files.par_iter().map(read).collect();
    }
    let stored: Vec<&storage::File> = files.iter().map(|candidate| &candidate.stored).collect();
    storage::reading(&stored, progress, |begun| {
        let mut results: Vec<(usize, Result<Content, Lost>)> =
            begun.par_bridge().map(|at| (at, read(&files[at]))).collect();
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
fn assign_ranks<T: Timeline>(
    traces: Vec<(String, T)>,
    warnings: &mut Vec<Warning>,
) -> Vec<Member<T>> {
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
fn choose_cycles<T: Timeline>(
    members: Vec<Member<T>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Vec<Member<T>> {
    let mut by_rank: BTreeMap<i32, Vec<Member<T>>> = BTreeMap::new();
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
pub(crate) fn cycles<T: Timeline>(
    rank: i32,
    mut files: Vec<Member<T>>,
    warnings: &mut Vec<Warning>,
) -> Vec<Member<T>> {
    let time = |m: &Member<T>| {
        let base = m.trace.base_time_ns().unwrap_or(0);
        let (start, end) = m.trace.extent();
        (base.saturating_add(start), base.saturating_add(end))
    };
    files.sort_by(|a, b| (time(a), &a.file).cmp(&(time(b), &b.file)));
    let mut cycles: Vec<Member<T>> = Vec::new();
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
pub(crate) fn choose_cycle<T: Timeline>(
    rank: i32,
    mut cycles: Vec<Member<T>>,
    cycle: Option<usize>,
    warnings: &mut Vec<Warning>,
) -> Member<T> {
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
fn check_world<T: Timeline>(members: &[Member<T>], warnings: &mut Vec<Warning>) {
    let Some(world) = members.iter().filter_map(|m| m.trace.world_size()).max() else { return };
    let present = members.len();
    if usize::try_from(world).is_ok_and(|world| world > present) {
        let message = format!(
            "traces of {present} of the job's {world} ranks are here: what the others did is not known"
        );
        warnings.push(run_warning("missing-ranks", String::new(), message));
    }
}

/// What a run has beside its timelines.
struct Beside {
    companions: Vec<Companion>,
    memory: Vec<Placed>,
    trial: Option<Trial>,
}

/// Puts all ranks on one clock and builds the tables; those of the timelines are what `place` makes of them.
fn assemble<T: Timeline>(
    path: String,
    members: Vec<Member<T>>,
    place: impl FnOnce(Vec<(T, Placement)>) -> TableSet,
    beside: Beside,
    mut warnings: Vec<Warning>,
) -> Dataset {
    let has_timeline = !members.is_empty();
    let single = members.len() == 1;
    let start = |m: &Member<T>| m.trace.extent().0;
    let absolute = |m: &Member<T>| m.base_time_ns().map(|base| base + start(m));
    let zero = members.iter().filter_map(absolute).min();
    let all_absolute = members.iter().all(|m| m.base_time_ns().is_some());
    // Without absolute times, traces that overlap as written probably share a clock.
    let first = members.iter().map(start).min().unwrap_or(0);
    let overlap =
        members.iter().map(start).max() < members.iter().map(|m| m.trace.extent().1).min();

    let placement = |member: &Member<T>| {
        let (shift_ns, base_time_ns, clock) = match (member.base_time_ns(), zero) {
            (Some(base), Some(zero)) => {
                let clock = match (single, member.is_synchronised) {
                    (true, _) => "single",
                    (false, true) => "synchronised",
                    (false, false) => "absolute",
                };
                (base - zero, Some(zero), clock)
            }
            _ if single => (-start(member), None, "single"),
            _ if overlap && zero.is_none() => (-first, None, "relative"),
            _ => (-start(member), None, "relative"),
        };
        Placement { rank: member.rank, shift_ns, base_time_ns, clock }
    };

    let mut info = RunInfo { path, ..RunInfo::default() };
    for member in &members {
        warnings.extend(member.trace.warnings());
        info.ranks.push(member.rank);
        info.steps = info.steps.max(member.trace.steps());
        let shift_ns = placement(member).shift_ns;
        info.wall_ns = info.wall_ns.max(member.trace.extent().1 + shift_ns);
        info.sources.extend(member.sources.iter().cloned().map(|source| {
            let shift_ns = source.shift_ns + shift_ns;
            Source { shift_ns, ..source }
        }));
    }
    let members: Vec<(T, Placement)> = members
        .into_iter()
        .map(|member| {
            let placement = placement(&member);
            (member.trace, placement)
        })
        .collect();
    let mut tables = place(members);
    if has_timeline && !single && !all_absolute {
        warnings.push(run_warning(
            "unaligned-clocks",
            String::new(),
            "the traces do not say when they were recorded: times of different ranks cannot be compared".to_owned(),
        ));
    }
    let Beside { companions, memory, trial } = beside;
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
