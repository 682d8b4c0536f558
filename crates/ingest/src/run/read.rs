//! Reads the traces of a run, in batches of bounded size, into a sink.

use std::any::Any;
use std::collections::BTreeSet;

use rayon::prelude::*;
use trace_model::{Dataset, RunInfo, TableSet, Warning};

use super::attachment::{AttachedFiles, Attachment, AttachmentKind, RunBuilder, RunContext};
use super::clock;
use super::discover::{FoundRun, InputFile, nested_metrics_warning, second_copies_warning};
use super::distinct_runs::distinct_runs;
use super::graph_captures::GraphCaptures;
use super::parse::parse_file;
use super::plan::ReadPlan;
use super::rank_trace::RankData;
use super::ranks;
use super::sink::RankSink;
use crate::enrich::enrich;
use crate::error::Error;
use crate::formats::IMPORTERS;
use crate::formats::importer::{Content, FileError};
use crate::input::decompress::Limit;
use crate::input::storage;
use crate::options::{FileWork, Options, Progress};
use crate::timeline::capabilities::push_capabilities;
use crate::timeline::placement::Timeline;
use crate::timeline::trace::Trace;
use crate::warnings::{self, run_warning};

/// Skipped files that the warning names.
const MAX_SKIPPED_NAMES: usize = 8;

/// Reads the files of a run. Each trace goes to `sink` as soon as it is complete; rows of all other files end up in
/// the tables of the result.
pub(crate) fn read<S: RankSink>(
    run: FoundRun,
    options: &Options,
    progress: &dyn Progress,
    sink: &mut S,
) -> Result<Dataset, Error> {
    let files = &run.files.traces;
    progress.begin(FileWork {
        files: files.len(),
        file_bytes: files.iter().map(|file| file.bytes).sum(),
        json_bytes: files.iter().map(|file| file.json_bytes).sum(),
    });
    let limit = Limit { max_json_bytes: options.max_json_bytes };
    let mut plan = ReadPlan::new(files);
    let all: Vec<usize> = (0..files.len()).collect();
    let mut results = Reader { files, plan, limit, progress, sink: &*sink }.read_new(&all);
    let attached = |result: &Result<Loaded, FileError>| match result {
        Ok(Loaded::Attached(kind, _)) => Some(*kind),
        _ => None,
    };
    let after_reading = results.iter().filter_map(attached).fold(plan, ReadPlan::with);
    if after_reading.keeps_as_written() && !plan.keeps_as_written() {
        // The first bytes of a trace of Composer may not show that Composer wrote it. The traces are needed as they were
        // written.
        plan = after_reading;
        let is_timeline = |at: &usize| matches!(results[*at], Ok(Loaded::Timeline(_)));
        let timelines: Vec<usize> = all.iter().copied().filter(is_timeline).collect();
        let reader = Reader { files, plan, limit, progress, sink: &*sink };
        for (at, result) in timelines.iter().zip(reader.read(&timelines)) {
            results[*at] = result;
        }
    }
    let first_unused_number = files.len();

    let (path, run_root) = (run.name.clone(), run.root.clone());
    let FilesByKind { mut traces, mut attachments, mut warnings } = group_by_kind(run, results)?;
    let has_other_files = !traces.is_empty() || attachments.len() > 1;
    let context = RunContext { options, name: &path, has_other_files };
    let captures = GraphCaptures::take_from(&mut traces);
    let traces = ranks::assign_ranks(traces, &mut warnings);
    let mut traces = ranks::without_second_copies(traces, &mut warnings);
    if !plan.keeps_as_written()
        && let Some(runs) = distinct_runs(&traces)
    {
        return Err(Error::SeveralRuns { path, folder: run_root, runs });
    }
    let mut joined = Vec::new();
    for attachment in &mut attachments {
        let (own, others) = attachment.join(traces, options, &mut warnings)?;
        joined.extend(own);
        traces = others;
    }
    let mut traces = ranks::choose_cycles(traces, options.cycle, &mut warnings)?;
    traces.extend(joined);
    traces.sort_by_key(|trace| trace.rank);
    if plan.keeps_as_written() {
        traces = traces.into_par_iter().map(|trace| trace.map(enrich_pending)).collect();
    }
    captures.link(&mut traces, &mut warnings);
    ranks::check_world(&traces, &mut warnings);
    for attachment in &mut attachments {
        attachment.assign(&traces, context, &mut warnings)?;
    }

    let traces = traces
        .into_par_iter()
        .enumerate()
        .map(|(at, trace)| {
            let number = first_unused_number + at;
            let file = trace.file.clone();
            trace.try_map(|data| match data {
                RankData::Pending(trace) => sink.store(number, &file, *trace),
                RankData::Stored(stored) => Ok(from_sink::<S>(stored)),
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let mut builder = RunBuilder {
        info: RunInfo { path: path.clone(), ..RunInfo::default() },
        tables: TableSet::default(),
        warnings,
        timelines: Vec::new(),
        has_clock: false,
        zero_ns: None,
        capabilities: BTreeSet::new(),
    };
    let placed = clock::place(traces, &mut builder);
    builder.tables = sink.place(placed)?;
    for attachment in attachments {
        attachment.add_to(&mut builder);
    }
    let RunBuilder { mut info, mut tables, warnings, capabilities, .. } = builder;
    push_capabilities(&mut tables, capabilities);
    info.ranks.sort_unstable();
    tables.push("reading_warnings", warnings::table(&warnings, &info.sources));
    Ok(Dataset { tables, run: info, warnings })
}

fn enrich_pending(data: RankData) -> RankData {
    match data {
        RankData::Pending(trace) => RankData::Pending(Box::new(enrich(*trace))),
        stored @ RankData::Stored(_) => stored,
    }
}

/// A timeline in the type in which the sink stores it.
fn from_sink<S: RankSink>(stored: Box<dyn Timeline>) -> S::Stored {
    let stored: Box<dyn Any> = stored;
    *stored.downcast().expect("a sink stores timelines of one type")
}

/// The content of a file; a timeline is in the sink where that is possible already.
enum Loaded {
    Timeline(RankData),
    Attached(&'static AttachmentKind, Box<dyn Any + Send>),
}

struct Reader<'a, S> {
    files: &'a [InputFile],
    plan: ReadPlan,
    limit: Limit,
    progress: &'a dyn Progress,
    sink: &'a S,
}

impl<S: RankSink> Reader<'_, S> {
    /// Reads those of these files whose traces are not in the sink yet. The results are those of all, in the same order.
    fn read_new(&self, numbers: &[usize]) -> Vec<Result<Loaded, FileError>> {
        let new: Vec<usize> = numbers.iter().copied().filter(|&at| !self.sink.has(at)).collect();
        let mut read = self.read(&new).into_iter();
        let result = |&number: &usize| {
            let Some(stored) = self.sink.take(number) else { return read.next() };
            let file = &self.files[number];
            self.progress.advance(file.json_bytes);
            self.progress.file_done(&file.file);
            Some(Ok(Loaded::Timeline(RankData::stored(stored))))
        };
        numbers.iter().filter_map(result).collect()
    }

    /// Reads these files, in order, several side by side. The results are in the same order.
    fn read(&self, numbers: &[usize]) -> Vec<Result<Loaded, FileError>> {
        let stored: Vec<&storage::File> =
            numbers.iter().map(|&at| &self.files[at].stored).collect();
        let budget = S::JSON_BYTES_AT_ONCE.filter(|_| self.plan.reads_ranks_alone());
        storage::with_prefetch(&stored, self.progress, |positions| {
            let Some(budget) = budget else {
                let mut results: Vec<_> = positions
                    .par_bridge()
                    .map(|position| (position, self.load(numbers[position])))
                    .collect();
                results.sort_unstable_by_key(|(position, _)| *position);
                return results.into_iter().map(|(_, result)| result).collect();
            };
            let mut positions = positions.peekable();
            let mut results: Vec<Result<Loaded, FileError>> = Vec::new();
            let json_bytes = |position: usize| self.files[numbers[position]].json_bytes;
            loop {
                let batch = next_batch_within_budget(&mut positions, json_bytes, budget);
                if batch.is_empty() {
                    return results;
                }
                results
                    .par_extend(batch.into_par_iter().map(|position| self.load(numbers[position])));
                if results.iter().any(|result| matches!(result, Err(FileError::Sink(_)))) {
                    return results;
                }
            }
        })
    }

    fn load(&self, number: usize) -> Result<Loaded, FileError> {
        let file = &self.files[number];
        Ok(match parse_file(file, self.limit, self.progress, S::DETAIL)? {
            Content::Timeline(trace) => Loaded::Timeline(self.load_timeline(number, trace)?),
            Content::Attached(kind, content) => Loaded::Attached(kind, content),
        })
    }

    fn load_timeline(&self, number: usize, trace: Box<Trace>) -> Result<RankData, FileError> {
        if self.plan.keeps_as_written() {
            return Ok(RankData::Pending(trace));
        }
        let trace = enrich(*trace);
        if !self.plan.reads_ranks_alone() {
            return Ok(RankData::Pending(Box::new(trace)));
        }
        let stored = self.sink.store(number, &self.files[number].file, trace);
        Ok(RankData::stored(stored.map_err(FileError::Sink)?))
    }
}

/// Takes files to read side by side, many small ones or one large one, so that memory is bounded.
fn next_batch_within_budget(
    positions: &mut std::iter::Peekable<impl Iterator<Item = usize>>,
    json_bytes: impl Fn(usize) -> u64,
    budget: u64,
) -> Vec<usize> {
    let mut batch = Vec::new();
    let mut sum = 0;
    while let Some(&position) = positions.peek() {
        sum += json_bytes(position);
        if !batch.is_empty() && sum > budget {
            break;
        }
        batch.extend(positions.next());
    }
    batch
}

/// The files of a run that could be read.
struct FilesByKind {
    traces: Vec<(String, RankData)>,
    /// One for each kind that has files, in the order of [`IMPORTERS`].
    attachments: Vec<Box<dyn Attachment>>,
    warnings: Vec<Warning>,
}

/// Groups the files by their content; an error if there is none that can be used.
fn group_by_kind(
    run: FoundRun,
    results: Vec<Result<Loaded, FileError>>,
) -> Result<FilesByKind, Error> {
    let FoundRun { name, files, is_file, .. } = run;
    let mut traces = Vec::new();
    let mut kinds: Vec<(&'static AttachmentKind, AttachedFiles)> = Vec::new();
    for kind in IMPORTERS.iter().filter_map(|importer| importer.attachment()) {
        if kinds.iter().all(|(known, _)| !known.is(kind)) {
            kinds.push((kind, AttachedFiles::default()));
        }
    }
    let mut warnings = Vec::new();
    for (file, result) in files.traces.into_iter().zip(results) {
        match result {
            Ok(Loaded::Timeline(trace)) => traces.push((file.file, trace)),
            Ok(Loaded::Attached(kind, content)) => {
                if let Some((_, own)) = kinds.iter_mut().find(|(known, _)| known.is(kind)) {
                    own.push(file.file, content);
                }
            }
            Err(FileError::Sink(error)) => return Err(error),
            Err(FileError::StoreUnavailable(error) | FileError::Unreadable(error)) if is_file => {
                return Err(Error::read(name, error));
            }
            Err(FileError::StoreUnavailable(error)) => {
                return Err(Error::read(format!("{name}: {}", file.file), error));
            }
            Err(error) => {
                warnings.push(run_warning("unreadable-file", file.file, error.reason()));
            }
        }
    }
    kinds.retain(|(_, files)| !files.is_empty());
    if traces.is_empty() && kinds.is_empty() {
        let first = warnings.into_iter().next();
        return Err(first.map_or_else(
            || Error::NoTrace { path: name.into(), skipped: files.skipped.clone() },
            |warning| Error::Unusable { file: warning.file, reason: warning.message },
        ));
    }
    warnings.extend(skipped_warning(&files.skipped));
    warnings.extend(nested_metrics_warning(&files.nested_metrics));
    warnings.extend(second_copies_warning(&files.second_copies));
    let attachments = kinds.into_iter().map(|(kind, files)| (kind.create)(files)).collect();
    Ok(FilesByKind { traces, attachments, warnings })
}

/// Names the files that are not part of the run.
fn skipped_warning(skipped: &[String]) -> Option<Warning> {
    if skipped.is_empty() {
        return None;
    }
    let shown = skipped[..skipped.len().min(MAX_SKIPPED_NAMES)].join(", ");
    let more = if skipped.len() > MAX_SKIPPED_NAMES { ", ..." } else { "" };
    let message = format!("not traces, skipped: {shown}{more}");
    let warning = run_warning("skipped-file", String::new(), message);
    Some(Warning { count: skipped.len() as u64, ..warning })
}
