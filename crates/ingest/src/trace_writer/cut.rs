//! Cuts a time range out of a trace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{Source, Warning};

use super::source::refuse_sources;
use super::splice::{self, EventFilter, Failure};
use crate::enrich::begin_end::{Match, match_partners};
use crate::error::{Error, Unreadable};
use crate::formats::kineto::arg::Arg;
use crate::formats::kineto::classify::{Kind, classify};
use crate::formats::kineto::event::Event;
use crate::formats::kineto::event_columns::{LEGACY_DEVICE, LEGACY_HOST};
use crate::input::decompress::{self, Limit};
use crate::input::location::Location;
use crate::json::lexer::RawStr;
use crate::json::{number, time};
use crate::options::Progress;
use crate::output::OutputFile;
use crate::run::outline::RunOutline;
use crate::run::reach::RunReach;
use crate::timeline::outline::Outline;

/// Categories of the arrows from calls to what they launch; their ids are those of the launches.
const LAUNCH_ARROWS: [&[u8]; 4] = [b"ac2g", b"async_cpu_to_gpu", b"async_gpu", b"async"];

/// A cut to make.
#[derive(Debug, Clone)]
pub struct Cut<'a> {
    /// Location of the run.
    pub run: &'a Location,
    /// The files that are read as part of the run: a part is never one of them.
    pub reach: &'a RunReach,
    /// The outline of the run.
    pub outline: &'a RunOutline,
    /// The file of the run to cut.
    pub source: &'a Source,
    /// Begin and end of the time range, on the clock of the run, in nanoseconds.
    pub window_ns: (i64, i64),
    /// Folder to write to, under the name that the source has in the run, compressed.
    pub folder: &'a Path,
    /// Overwrite an existing file.
    pub overwrite: bool,
}

/// A part of a trace that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CutOut {
    /// The file; `None` if no event is in the time range, and no file was written.
    pub path: Option<PathBuf>,
    /// Events that were kept.
    pub kept_events: u64,
    /// Entries of the event list of the source.
    pub events: u64,
    /// Start of the first event that was kept and counts for the start of a recording, on the clock of the run.
    pub first_ns: Option<i64>,
    /// Bytes written.
    pub bytes: u64,
    /// Parts of the source that could not be read.
    pub warnings: Vec<Warning>,
}

/// Writes the events of a trace that overlap a time range, with their text unchanged, in memory that does not grow with
/// the trace. Kept are:
///
/// * events with a duration, and begin and end events, that overlap the range: those that begin before it or end after
///   it are kept whole; instants and counters within it;
/// * launches: if a call or something that it launched overlaps the range, the call and all that it launched are kept;
/// * arrows of which both ends are in the range, or belong to a launch that is kept;
/// * names and sort indexes of processes and threads, and everything outside the event list.
///
/// # Errors
/// If the source has changed since it was read, or the part would be part of the run or cannot be written; a file is
/// complete or does not exist.
pub fn cut(cut: &Cut<'_>, progress: &dyn Progress) -> Result<CutOut, Error> {
    let from = cut.run.file(&cut.source.file)?;
    let io_error = |e| Error::read(format!("{}: {}", cut.run, cut.source.file), e);
    let to = cut.folder.join(file_name(&cut.source.file));
    refuse_sources(std::slice::from_ref(&from), &to)?;
    cut.reach.refuse_trace(&to)?;
    let mut selector = Selector::new(cut).map_err(|e| Error::read(std::env::temp_dir(), e))?;
    // The limit is the size that was read: a longer file has changed.
    let limit = Limit { max_json_bytes: cut.source.json_bytes };
    let stream = decompress::stream(&from, limit).map_err(io_error)?;
    let failure = stream.failure();

    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::write(folder, e))?;
    }
    let mut file = OutputFile::create(&to, cut.overwrite)?;
    let mut out = GzEncoder::new(&mut file, Compression::default());
    let advance = |bytes| progress.advance(bytes);
    let copied = splice::copy_some(stream, &mut out, &advance, &mut selector);
    let copied = copied.and_then(|issues| {
        out.finish()?;
        Ok(issues)
    });
    progress.file_done(&cut.source.file);
    if let Some(error) = failure.take() {
        return Err(io_error(error));
    }
    let issues = copied.map_err(|why| {
        let reason = match why {
            Failure::Write(source) => return Error::write(&to, source),
            Failure::Unreadable(Unreadable::TooLong) => "it has grown since it was read",
            Failure::Unreadable(why) => why.reason(),
        };
        Error::Unusable { file: cut.source.file.clone(), reason: reason.to_owned() }
    })?;
    let bytes = if selector.has_events { file.complete()? } else { 0 };
    Ok(CutOut {
        path: selector.has_events.then_some(to),
        kept_events: selector.kept_events,
        events: selector.events,
        first_ns: selector.first_ns().map(|ns| ns + cut.source.shift_ns),
        bytes,
        warnings: issues.warnings(&cut.source.file),
    })
}

/// Selects the events of a cut.
struct Selector {
    /// The time range on the clock of the file.
    window: Window,
    /// Ids of launches that are kept.
    launches: FxHashSet<i64>,
    /// Positions of begin and end events that are kept.
    range_ends: FxHashSet<i64>,
    kinds: Kinds,
    arrows: Arrows,
    kept_events: u64,
    events: u64,
    /// Start of the first event that was kept, of those that count for the start of a recording, and of other ranges, which
    /// count if there are only such.
    first_starts_ns: [Option<i64>; 2],
    /// An event other than the profiler's own is in the time range.
    has_events: bool,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    first_ns: i64,
    last_ns: i64,
}

impl Window {
    fn contains(self, ns: i64) -> bool {
        (self.first_ns..=self.last_ns).contains(&ns)
    }

    /// Events that only touch the range do not overlap it: one step ends where the next begins.
    fn overlaps(self, start_ns: i64, end_ns: i64) -> bool {
        start_ns < self.last_ns && end_ns > self.first_ns
            || self.contains(start_ns) && self.contains(end_ns)
    }
}

impl Selector {
    fn new(cut: &Cut<'_>) -> io::Result<Self> {
        let shift = |ns: i64| ns.saturating_sub(cut.source.shift_ns);
        let window = Window { first_ns: shift(cut.window_ns.0), last_ns: shift(cut.window_ns.1) };
        let rank = cut.source.rank;
        let outline = cut.outline.ranks.iter().find(|(of, _)| *of == rank);
        let mut launches = FxHashSet::default();
        let mut range_ends = FxHashSet::default();
        if let Some((_, Outline { links, begin_end_events, .. })) = outline {
            links.for_each(|link| {
                if window.overlaps(link.ts_ns, link.end_ns) {
                    launches.insert(link.id);
                }
            })?;
            match_partners(begin_end_events.clone(), |matched| match matched {
                Match::Range(begin, end) => {
                    if window.overlaps(begin.ts_ns, end.ts_ns) {
                        range_ends.extend([begin.event_id, end.event_id]);
                    }
                }
                Match::Alone(event) => {
                    if window.contains(event.ts_ns) {
                        range_ends.insert(event.event_id);
                    }
                }
            });
        }
        Ok(Self {
            window,
            launches,
            range_ends,
            kinds: Kinds::default(),
            arrows: Arrows::default(),
            kept_events: 0,
            events: 0,
            first_starts_ns: [None; 2],
            has_events: false,
        })
    }

    fn is_selected(&mut self, position: i64, text: &[u8], event: &Event<'_>) -> bool {
        match event.phase {
            b'M' => true,
            b'X' => self.is_in(event),
            b'B' | b'E' | b'b' | b'e' | b'S' | b'F' => {
                let is_kept = self.range_ends.contains(&position);
                if let Some(start_ns) = start(event).filter(|_| is_kept && event.phase == b'B') {
                    self.note(event, start_ns, true);
                }
                self.has_events |= is_kept;
                is_kept
            }
            b's' | b't' | b'f' => {
                if self.is_arrow_in(event) {
                    self.arrows.hold(text, event);
                }
                false
            }
            _ => start(event).is_some_and(|ns| self.window.contains(ns)),
        }
    }

    /// Returns true if an event with a duration is kept. The reader drops those without readable times.
    fn is_in(&mut self, event: &Event<'_>) -> bool {
        let (Some(start_ns), Some(dur_ns)) = (start(event), event.dur.and_then(time::duration_ns))
        else {
            return false;
        };
        if dur_ns < 0 {
            return false;
        }
        let end_ns = start_ns + dur_ns;
        let overlaps = self.window.overlaps(start_ns, end_ns);
        if !overlaps && !self.is_of_kept_launch(event) {
            return false;
        }
        self.note(event, start_ns, overlaps);
        true
    }

    /// Takes note of an event that is kept.
    fn note(&mut self, event: &Event<'_>, start_ns: i64, overlaps: bool) {
        let is_profiler = event.category.is_some_and(|category| category.bytes == b"Trace");
        self.has_events |= overlaps && !is_profiler;
        let kind = self.kinds.of(event);
        let is_other = matches!(kind, Kind::Span | Kind::DeviceSync | Kind::ProfilerRange);
        let first = &mut self.first_starts_ns[usize::from(is_other)];
        *first = Some(first.map_or(start_ns, |first| first.min(start_ns)));
    }

    fn first_ns(&self) -> Option<i64> {
        let [of_program, of_others] = self.first_starts_ns;
        of_program.or(of_others)
    }

    fn is_of_kept_launch(&mut self, event: &Event<'_>) -> bool {
        let id = event.args.get(Arg::Correlation).and_then(number::id);
        id.is_some_and(|id| self.launches.contains(&id))
            && matches!(
                self.kinds.of(event),
                Kind::RuntimeCall | Kind::Kernel | Kind::Memcpy | Kind::Memset | Kind::DeviceSync
            )
    }

    fn is_arrow_in(&self, event: &Event<'_>) -> bool {
        let is_launch =
            event.category.is_some_and(|category| LAUNCH_ARROWS.contains(&category.bytes));
        let id = event.id.filter(|_| is_launch).and_then(number::id);
        id.is_some_and(|id| self.launches.contains(&id))
            || start(event).is_some_and(|ns| self.window.contains(ns))
    }
}

impl EventFilter for Selector {
    fn keep(&mut self, position: i64, text: &[u8], event: &Event<'_>) -> bool {
        self.events += 1;
        let is_kept = self.is_selected(position, text, event);
        self.kept_events += u64::from(is_kept);
        is_kept
    }

    fn held_back(&mut self) -> Vec<Vec<u8>> {
        let texts = self.arrows.take_whole();
        self.kept_events += texts.len() as u64;
        texts
    }
}

fn start(event: &Event<'_>) -> Option<i64> {
    event.ts.and_then(time::time_ns)
}

/// The kinds of categories, which are few.
#[derive(Default)]
struct Kinds(Vec<(Vec<u8>, Kind)>);

impl Kinds {
    fn of(&mut self, event: &Event<'_>) -> Kind {
        let Some(RawStr { bytes, .. }) = event.category else {
            let is_legacy = [LEGACY_HOST, LEGACY_DEVICE].contains(&event.pid);
            return if is_legacy { Kind::CpuOp } else { Kind::Span };
        };
        if let Some((_, kind)) = self.0.iter().find(|(category, _)| category == bytes) {
            return *kind;
        }
        let kind = classify(&String::from_utf8_lossy(bytes));
        self.0.push((bytes.to_vec(), kind));
        kind
    }
}

/// Ends of arrows, until it is known which arrows are whole.
#[derive(Default)]
struct Arrows {
    by_id: FxHashMap<Vec<u8>, usize>,
    arrows: Vec<Arrow>,
}

#[derive(Default)]
struct Arrow {
    has_start: bool,
    has_end: bool,
    texts: Vec<Vec<u8>>,
}

impl Arrows {
    fn hold(&mut self, text: &[u8], event: &Event<'_>) {
        let bytes = |text: Option<RawStr<'_>>| text.map_or(&b""[..], |text| text.bytes).to_vec();
        let id = event.id.unwrap_or_default().to_vec();
        let id = [bytes(event.category), bytes(event.name), id].join(&b'"');
        let next = self.arrows.len();
        let at = *self.by_id.entry(id).or_insert(next);
        if at == next {
            self.arrows.push(Arrow::default());
        }
        let arrow = &mut self.arrows[at];
        arrow.has_start |= event.phase == b's';
        arrow.has_end |= event.phase != b's';
        arrow.texts.push(text.to_vec());
    }

    /// The texts of all arrows of which both ends were found.
    fn take_whole(&mut self) -> Vec<Vec<u8>> {
        self.by_id.clear();
        let arrows = std::mem::take(&mut self.arrows).into_iter();
        arrows.filter(|arrow| arrow.has_start && arrow.has_end).flat_map(|a| a.texts).collect()
    }
}

/// The name of a part: that of the source, as a compressed trace, so that it is read as part of a run.
fn file_name(file: &str) -> String {
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    let stem = stem.strip_suffix(".json").unwrap_or(stem);
    format!("{stem}.json.gz")
}

#[cfg(test)]
mod tests {
    use super::{Window, file_name};

    #[test]
    fn file_name_is_that_of_a_compressed_trace() {
        for file in ["a/rank0.pt.trace.json", "a/rank0.pt.trace.json.gz", "a/rank0.pt.trace"] {
            assert_eq!(file_name(file), "a/rank0.pt.trace.json.gz");
        }
        assert_eq!(file_name("stdin"), "stdin.json.gz");
    }

    #[test]
    fn window_does_not_overlap_what_only_touches_it() {
        let window = Window { first_ns: 10, last_ns: 20 };
        for (start, end) in [(0, 11), (10, 10), (20, 20), (15, 15), (19, 40), (0, 40), (10, 20)] {
            assert!(window.overlaps(start, end), "{start}..{end}");
        }
        for (start, end) in [(0, 10), (20, 30), (9, 9), (21, 21)] {
            assert!(!window.overlaps(start, end), "{start}..{end}");
        }
    }
}
