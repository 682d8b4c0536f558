//! Cuts a part out of the traces of a run: small traces, for viewers that cannot open large ones.

use std::path::{Path, PathBuf};

use ingest::{FileWork, Location, Options, Progress, RunOutline, RunReach};
use query::{Range, Selection};
use trace_model::{Source, Warning};

use crate::error::Error;
use crate::parallel_map::parallel_map;

/// A part of a run to cut out.
#[derive(Debug, Clone)]
pub struct Cutting<'a> {
    /// Ranks, steps and time range to keep. Streams and names are not used: all of the time range is kept.
    pub selection: &'a Selection,
    /// Folder to write to; it is created if it does not exist.
    pub folder: &'a Path,
    /// Existing files are overwritten. The original traces never are.
    pub overwrite: bool,
}

/// The part of the trace of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutRank {
    /// Rank.
    pub rank: i32,
    /// The file that was written.
    pub path: PathBuf,
    /// Events that were kept, of those in the trace.
    pub kept_events: u64,
    /// Events in the trace.
    pub events: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Files and counts of a cut run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutRun {
    /// The ranks with events in the part, in order.
    pub ranks: Vec<CutRank>,
    /// Selected ranks that have none.
    pub empty_ranks: Vec<i32>,
    /// The time range as the written run counts time, from its own first event; `None` where that is not known.
    pub between: Option<Range>,
    /// Files of the run that are not PyTorch Profiler traces, and were left out.
    pub other_files: Vec<String>,
    /// Input that could not be read, or only in part.
    pub warnings: Vec<Warning>,
}

/// Writes the selected part of each trace of the run at a location, see [`ingest::cut`]. Memory does not grow with the
/// traces, unless steps are selected that nothing marks.
///
/// # Errors
/// If the run cannot be read, has no PyTorch Profiler trace or nothing in the part, a trace changes meanwhile, or a file
/// cannot be written.
pub fn cut(
    location: &Location,
    options: &Options,
    cutting: &Cutting<'_>,
    progress: &dyn Progress,
) -> Result<CutRun, Error> {
    let outline = ingest::outline(location, options, progress)?;
    let run = &outline.dataset.run;
    let windows = windows(location, options, &outline, cutting.selection, progress)?;
    let is_trace = |source: &&Source| source.format == "kineto";
    let window_of = |rank: i32| windows.iter().find(|(of, _)| *of == rank).map(|(_, w)| *w);
    let work: Vec<(&Source, Range)> = run
        .sources
        .iter()
        .filter(is_trace)
        .filter_map(|source| Some((source, window_of(source.rank)?)))
        .collect();
    if !run.sources.iter().any(|source| is_trace(&source)) {
        return Err(ingest::Error::NothingToCut { path: location.to_string() }.into());
    }
    progress.begin(FileWork {
        files: work.len(),
        file_bytes: 0,
        json_bytes: work.iter().map(|(source, _)| source.json_bytes).sum(),
    });
    let reach = RunReach::of(location, cutting.folder)?;
    let parts = parallel_map(&work, |&(source, window)| {
        let cut = ingest::Cut {
            run: location,
            reach: &reach,
            outline: &outline,
            source,
            window_ns: (window.first, window.last),
            folder: cutting.folder,
            overwrite: cutting.overwrite,
        };
        Ok(ingest::cut(&cut, progress)?)
    })?;
    let mut warnings = outline.dataset.warnings.clone();
    for warning in parts.iter().flat_map(|part| &part.warnings) {
        if !warnings.iter().any(|w| w.code == warning.code && w.file == warning.file) {
            warnings.push(warning.clone());
        }
    }
    let mut ranks = Vec::new();
    let mut empty_ranks = Vec::new();
    for ((source, _), part) in work.iter().zip(&parts) {
        match &part.path {
            Some(path) => ranks.push(CutRank {
                rank: source.rank,
                path: path.clone(),
                kept_events: part.kept_events,
                events: part.events,
                bytes: part.bytes,
            }),
            None => empty_ranks.push(source.rank),
        }
    }
    let selected = |rank: &i32| cutting.selection.ranks.as_ref().is_none_or(|r| r.contains(*rank));
    let is_missing = |rank: &i32| !windows.iter().any(|(of, _)| of == rank);
    empty_ranks.extend(run.ranks.iter().filter(|rank| selected(rank) && is_missing(rank)));
    empty_ranks.sort_unstable();
    if ranks.is_empty() {
        let reason = format!("no event is selected: {}", cutting.selection);
        return Err(Error::Empty(reason));
    }
    let others = run.sources.iter().filter(|source| !is_trace(source));
    Ok(CutRun {
        ranks,
        empty_ranks,
        between: own_range(&outline, &windows, &parts),
        other_files: others.map(|source| source.file.clone()).collect(),
        warnings,
    })
}

/// The time range of each rank. Steps that are only found in all events need those to be read.
fn windows(
    location: &Location,
    options: &Options,
    outline: &RunOutline,
    selection: &Selection,
    progress: &dyn Progress,
) -> Result<Vec<(i32, Range)>, Error> {
    if selection.steps.is_none() || outline.has_steps {
        return Ok(selection.windows(&outline.dataset.tables)?);
    }
    let whole = ingest::read_location(location, options, progress)?;
    Ok(selection.windows(&whole.tables)?)
}

/// The time range that all ranks share, counted from the first event that is kept, if the written traces are on one
/// clock.
fn own_range(
    outline: &RunOutline,
    windows: &[(i32, Range)],
    parts: &[ingest::CutOut],
) -> Option<Range> {
    let range = windows.first().map(|(_, window)| *window)?;
    let is_common = windows.iter().all(|(_, window)| *window == range);
    let is_absolute = outline.has_absolute_times() || parts.len() == 1;
    let first_ns = parts.iter().filter_map(|part| part.first_ns).min()?;
    let is_closed = range.first != i64::MIN && range.last != i64::MAX;
    (is_common && is_absolute && is_closed).then(|| Range {
        first: range.first.saturating_sub(first_ns).max(0),
        last: range.last.saturating_sub(first_ns),
    })
}
