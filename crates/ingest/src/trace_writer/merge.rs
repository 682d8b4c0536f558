//! Merges the traces of all ranks into one, as Composer does with its own: on one clock, with the rank as process id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{RunInfo, Source, TableSet, Warning};

use super::events;
use super::source::refuse_sources;
use super::splice::Failure;
use crate::error::Error;
use crate::error::Unreadable;
use crate::formats::composer::{TORCH_INSTANTS, repaired_base};
use crate::formats::kineto::event::Event;
use crate::input::decompress::{self, Limit};
use crate::input::location::Location;
use crate::json::{number, time};
use crate::options::{FileWork, Progress};
use crate::output::OutputFile;
use crate::run::reach::RunReach;
use crate::timeline::trace::EPOCH_NS;

/// Sort index of threads that Composer does not describe: viewers show them below the training loop.
const LAST: i64 = 99_999;
/// Event that identifies the thread of autograd, which viewers show right below the training loop.
const BACKWARD: &[u8] = b"MulBackward0";
/// Bits of the ids of arrows that stay as written. The higher bits distinguish files.
const ID_BITS: u32 = 32;

/// A merge to make.
#[derive(Debug, Clone)]
pub struct Merge<'a> {
    /// Location of the run.
    pub run: &'a Location,
    /// The run that was read from there.
    pub info: &'a RunInfo,
    /// Its tables.
    pub tables: &'a TableSet,
    /// File to write; it is compressed if its name ends in `.gz`.
    pub to: &'a Path,
    /// Overwrite an existing file.
    pub overwrite: bool,
}

/// Summary of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Events written, names of processes and threads included.
    pub events: u64,
    /// Files that were read.
    pub files: usize,
    /// Ranks that they are of.
    pub ranks: usize,
    /// Problems while reading.
    pub warnings: Vec<Warning>,
}

/// Writes the timelines of all ranks into one file, one event per line, in bounded memory.
///
/// Times are on the clock of the lowest rank, exact to the nanosecond: microseconds since 1970 in an array, as
/// Composer writes them (since the first event of the run if the traces do not state when they were recorded). If
/// some times are finer than a microsecond, all are relative to the base that the file states (`baseTimeNanoseconds`,
/// as in PyTorch's traces): viewers hold times in doubles, which since 1970 are precise to a quarter of a microsecond,
/// and drop events that then overlap. `pid` is the rank; ids of arrows get the number of their file, so that arrows of
/// different ranks do not mix. Everything else is unchanged. As in Composer's merge, events without a thread and the profiler's own
/// ranges are left out.
///
/// # Errors
/// If there is no timeline, a source has changed since it was read, or the file would be part of the run or cannot be
/// written; it is complete or not there.
pub fn merge(merge: &Merge<'_>, progress: &dyn Progress) -> Result<Merged, Error> {
    let sources = &merge.info.sources;
    let timelines =
        || sources.iter().filter(|s| matches!(s.format.as_ref(), "kineto" | "composer"));
    if timelines().next().is_none() {
        return Err(Error::Unusable {
            file: merge.run.to_string(),
            reason: "there is no timeline to merge".to_owned(),
        });
    }
    let files: Result<Vec<_>, Error> = timelines().map(|s| merge.run.file(&s.file)).collect();
    refuse_sources(&files?, merge.to)?;
    RunReach::of(merge.run, merge.to)?.refuse_trace(merge.to)?;
    let write_error = |source| Error::write(merge.to, source);
    if let Some(folder) = merge.to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(write_error)?;
    }
    let mut file = OutputFile::create(merge.to, merge.overwrite)?;
    let is_packed = merge.to.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    let merged = if is_packed {
        let mut out = GzEncoder::new(&mut file, Compression::default());
        let merged = write(merge, progress, &mut out)?;
        out.finish().map_err(write_error)?;
        merged
    } else {
        write(merge, progress, &mut file)?
    };
    file.complete()?;
    Ok(merged)
}

fn write(merge: &Merge<'_>, progress: &dyn Progress, out: &mut dyn Write) -> Result<Merged, Error> {
    let write_error = |source| Error::write(merge.to, source);
    let run = RunFacts::read(merge.info, merge.tables);
    let mut writer = Writer {
        out,
        run: &run,
        merged: Merged::default(),
        threads: FxHashSet::default(),
        autograd: FxHashSet::default(),
        line: Vec::new(),
    };
    let head = match run.base_ns {
        0 => "[".to_owned(),
        base => format!(
            r#"{{"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": {base}, "traceEvents": ["#
        ),
    };
    writer.out.write_all(head.as_bytes()).map_err(write_error)?;
    let mut files: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for source in &merge.info.sources {
        if matches!(source.format.as_ref(), "kineto" | "composer") {
            let of_file = files.entry(&source.file).or_default();
            if of_file.is_empty() {
                order.push(&source.file);
            }
            of_file.push(source);
        }
    }
    let described: BTreeSet<i32> = merge
        .info
        .sources
        .iter()
        .filter(|source| source.format == "composer")
        .map(|source| source.rank)
        .collect();
    writer.describe(&described).map_err(write_error)?;
    let json_bytes = files.values().map(|sources| sources[0].json_bytes).sum();
    progress.begin(FileWork { files: order.len(), file_bytes: 0, json_bytes });
    for (number, file) in order.iter().enumerate() {
        let sources = &files[file];
        let stored = merge.run.file(file)?;
        let io_error = |e| Error::read(format!("{}: {file}", merge.run), e);
        // The limit is the size that was read: a longer file has changed.
        let limit = Limit { max_json_bytes: sources[0].json_bytes };
        let stream = decompress::stream(&stored, limit).map_err(io_error)?;
        let failure = stream.failure();
        let originals = run.has_original(sources[0].rank);
        let advance = |bytes| progress.advance(bytes);
        let issues = events::for_each(stream, &advance, |text, event| {
            writer.add(text, event, sources, number, originals)
        });
        progress.file_done(file);
        if let Some(error) = failure.take() {
            return Err(io_error(error));
        }
        match issues {
            Ok(issues) => writer.merged.warnings.extend(issues.warnings(file)),
            Err(Failure::Write(source)) => return Err(write_error(source)),
            Err(Failure::Unreadable(why)) => {
                let reason = match why {
                    Unreadable::TooLong => "it has grown since it was read",
                    why => why.reason(),
                };
                return Err(Error::Unusable {
                    file: (*file).to_owned(),
                    reason: reason.to_owned(),
                });
            }
        }
    }
    writer.merged.files = order.len();
    writer.merged.ranks = run.ranks.len();
    let merged = writer.merged;
    out.write_all(if run.base_ns == 0 { b"\n]\n" } else { b"\n]}\n" }).map_err(write_error)?;
    Ok(merged)
}

/// Properties of the run that the merge needs.
struct RunFacts {
    ranks: Vec<i32>,
    /// Absolute time of zero; 0 if unknown.
    zero_ns: i64,
    /// Base of the written times.
    base_ns: i64,
    /// The rank of a thread id, if only one has it.
    of_thread: FxHashMap<String, Option<i32>>,
    /// A thread of each rank.
    thread_of: BTreeMap<i32, String>,
    /// First and last moment.
    wall: (i64, i64),
    /// Ranks with traces of PyTorch's own.
    original: BTreeSet<i32>,
}

impl RunFacts {
    fn read(info: &RunInfo, tables: &TableSet) -> Self {
        let mut of_thread: FxHashMap<String, Option<i32>> = FxHashMap::default();
        let mut thread_of = BTreeMap::new();
        for batch in tables.get("threads") {
            let (Some(rank), Some(tid)) = (ints(batch, "rank"), texts(batch, "tid")) else {
                continue;
            };
            for (row, tid) in tid.into_iter().enumerate() {
                let rank = rank.value(row);
                let known = of_thread.entry(tid.clone()).or_insert(Some(rank));
                if *known != Some(rank) {
                    *known = None;
                }
                thread_of.entry(rank).or_insert(tid);
            }
        }
        let base = tables.get("ranks").iter().find_map(|batch| {
            let base = batch.column_by_name("base_time_ns")?.as_primitive::<Int64Type>();
            (0..base.len()).find(|&row| base.is_valid(row)).map(|row| base.value(row))
        });
        let zero_ns = base.unwrap_or(0);
        let sources = &info.sources;
        let original = sources.iter().filter(|s| s.format == "kineto").map(|s| s.rank).collect();
        let day = 86_400_000_000_000;
        let wall = (zero_ns - day, zero_ns + info.wall_ns + day);
        // An hour early, since files may hold events from before the run's first one.
        let hour = 3_600_000_000_000;
        let base_ns = if zero_ns > EPOCH_NS && has_fine_times(tables, zero_ns) {
            zero_ns - zero_ns % 1_000_000_000 - hour
        } else {
            0
        };
        Self { ranks: info.ranks.clone(), zero_ns, of_thread, thread_of, wall, base_ns, original }
    }

    fn has_original(&self, rank: i32) -> bool {
        self.original.contains(&rank)
    }
}

/// Returns whether a time is not a multiple of a microsecond.
fn has_fine_times(tables: &TableSet, zero_ns: i64) -> bool {
    const TIMED: [&str; 8] = [
        "annotations",
        "cpu_ops",
        "kernels",
        "memcpys",
        "memsets",
        "python_frames",
        "runtime_calls",
        "spans",
    ];
    let is_fine = |batch: &RecordBatch, column: &str, zero_ns: i64| {
        let column = batch.column_by_name(column).and_then(|c| c.as_primitive_opt::<Int64Type>());
        column.is_some_and(|column| column.values().iter().any(|ns| (ns + zero_ns) % 1000 != 0))
    };
    TIMED
        .into_iter()
        .flat_map(|table| tables.get(table))
        .any(|batch| is_fine(batch, "ts_ns", zero_ns) || is_fine(batch, "dur_ns", 0))
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a arrow_array::Int32Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Int32Type>()
}

fn texts(batch: &RecordBatch, name: &str) -> Option<Vec<String>> {
    let column = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
    let values = column.downcast_dict::<arrow_array::StringArray>()?;
    Some(values.into_iter().map(|text| text.unwrap_or_default().to_owned()).collect())
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    run: &'a RunFacts,
    merged: Merged,
    /// Threads whose sort index is written.
    threads: FxHashSet<(i32, Vec<u8>)>,
    /// Threads of autograd whose sort index is written.
    autograd: FxHashSet<(i32, Vec<u8>)>,
    line: Vec<u8>,
}

impl Writer<'_> {
    /// Names the ranks that Composer does not, so that the merged trace can be read again.
    fn describe(&mut self, described: &BTreeSet<i32>) -> io::Result<()> {
        let ts = us(self.run.zero_ns - self.run.base_ns);
        let sync = us(self.run.zero_ns);
        for &rank in self.run.ranks.iter().filter(|rank| !described.contains(rank)) {
            let Some(tid) = self.run.thread_of.get(&rank) else { continue };
            let tid =
                if tid.parse::<i64>().is_ok() { tid.clone() } else { serde_json::to_string(tid)? };
            for (name, args) in [
                ("process_name", format!(r#"{{"name": "Rank {rank} training loop process"}}"#)),
                ("process_sort_index", format!(r#"{{"sort_index": {rank}}}"#)),
                ("global_rank", format!(r#"{{"value": {rank}}}"#)),
                ("clock_sync_timestamp_us", format!(r#"{{"value": {sync}}}"#)),
            ] {
                let line = format!(
                    r#"{{"name": "{name}", "cat": "", "ph": "M", "ts": {ts}, "pid": {rank}, "tid": {tid}, "args": {args}}}"#
                );
                self.write(line.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes one event of a file, unless the merge leaves it out.
    fn add(
        &mut self,
        text: &[u8],
        event: &Event<'_>,
        sources: &[&Source],
        number: usize,
        has_original: bool,
    ) -> io::Result<()> {
        if event.pid.is_empty() || event.tid.is_empty() || contains(event.tid, b"PyTorch Profiler")
        {
            return Ok(());
        }
        let source = sources[0];
        let is_composer = source.format == "composer";
        let ts_ns = event.ts.and_then(time::time_ns);
        if is_composer && has_original && is_copied(event, ts_ns) {
            return Ok(());
        }
        let Some(rank) = self.rank(event, sources) else { return Ok(()) };
        if !is_composer && event.phase == b'M' && is_name_of_process(event) {
            return Ok(());
        }
        let time = ts_ns.map(|ts_ns| {
            let copied = if is_composer && ts_ns < EPOCH_NS && self.run.zero_ns > EPOCH_NS {
                repaired_base((ts_ns, ts_ns), self.run.wall).unwrap_or(0)
            } else {
                0
            };
            ts_ns + copied + source.shift_ns + self.run.zero_ns
        });
        self.place_thread(rank, event)?;
        let mut edits: Vec<(usize, usize, String)> = Vec::with_capacity(3);
        let mut edit = |old: &[u8], new: String| {
            let start = old.as_ptr() as usize - text.as_ptr() as usize;
            edits.push((start, start + old.len(), new));
        };
        edit(event.pid, rank.to_string());
        if let (Some(old), Some(ns)) = (event.ts, time) {
            edit(old, us(ns - self.run.base_ns));
        }
        if let (Some(old), true) = (event.id, number > 0)
            && let Some(id) = number::id(old)
            && (0..1 << ID_BITS).contains(&id)
        {
            edit(old, ((number as i64) << ID_BITS | id).to_string());
        }
        edits.sort_unstable();
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let mut at = 0;
        for (start, end, new) in &edits {
            copy_flat(&text[at..*start], &mut line);
            line.extend_from_slice(new.as_bytes());
            at = *end;
        }
        copy_flat(&text[at..], &mut line);
        let written = self.write(&line);
        self.line = line;
        written
    }

    /// The rank of an event: that of its file, or in a merged file that of its thread.
    fn rank(&self, event: &Event<'_>, sources: &[&Source]) -> Option<i32> {
        if let [only] = sources {
            return Some(only.rank);
        }
        let text = |raw: &[u8]| String::from_utf8_lossy(raw).trim_matches('"').to_owned();
        let of_thread = self.run.of_thread.get(&text(event.tid)).copied().flatten();
        of_thread.or_else(|| {
            let pid = text(event.pid).parse().ok()?;
            sources.iter().any(|source| source.rank == pid).then_some(pid)
        })
    }

    /// Writes the sort index of a thread before its first event. The thread of autograd comes right below the training
    /// loop.
    fn place_thread(&mut self, rank: i32, event: &Event<'_>) -> io::Result<()> {
        let key = || (rank, event.tid.to_vec());
        let is_autograd = event.name.is_some_and(|name| contains(name.bytes, BACKWARD));
        let index = if is_autograd && !self.autograd.contains(&key()) {
            self.autograd.insert(key());
            self.threads.insert(key());
            1
        } else if self.threads.insert(key()) {
            LAST
        } else {
            return Ok(());
        };
        let mut line =
            format!(r#"{{"name": "thread_sort_index", "ph": "M", "pid": {rank}, "tid": "#)
                .into_bytes();
        line.extend_from_slice(event.tid);
        line.extend_from_slice(format!(r#", "args": {{"sort_index": {index}}}}}"#).as_bytes());
        self.write(&line)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.out.write_all(if self.merged.events == 0 { b"\n" } else { b",\n" })?;
        self.merged.events += 1;
        self.out.write_all(line)
    }
}

/// Whether an event of a Composer file comes from PyTorch's trace.
fn is_copied(event: &Event<'_>, ts_ns: Option<i64>) -> bool {
    match event.phase {
        b'B' | b'E' | b'C' => false,
        b'M' => ts_ns.is_none_or(|ts| ts < EPOCH_NS),
        b'i' => {
            let name = event.name.map_or(&b""[..], |name| name.bytes);
            ts_ns.is_none_or(|ts| ts < EPOCH_NS)
                || name == b"[memory]"
                || TORCH_INSTANTS.iter().any(|known| known.as_bytes() == name)
        }
        _ => true,
    }
}

/// Returns whether an event names a process. Such names would hide those of ranks, because all processes of a rank
/// share one id.
fn is_name_of_process(event: &Event<'_>) -> bool {
    event.name.is_some_and(|name| name.bytes.starts_with(b"process_"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// Microseconds as text, exact.
fn us(ns: i64) -> String {
    let (us, rest) = (ns.div_euclid(1000), ns.rem_euclid(1000));
    if rest == 0 { us.to_string() } else { format!("{us}.{rest:03}") }
}

/// Copies text without its line breaks and indentation, which are outside of strings.
fn copy_flat(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\n', rest) {
        out.extend_from_slice(rest[..at].trim_ascii_end());
        out.push(b' ');
        rest = rest[at..].trim_ascii_start();
    }
    out.extend_from_slice(rest);
}
