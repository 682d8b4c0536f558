//! Finds the files of a run by content.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use trace_model::Warning;

use super::attachment::TimelineState;
use super::rank_from_name::recording_name;
use crate::error::Error;
use crate::formats::head::Head;
use crate::formats::importer::{Importer, SearchScope};
use crate::formats::recognize::{Recognized, importer_of_any_file, recognize};
use crate::formats::unsupported::UnsupportedFormat;
use crate::input::decompress;
use crate::input::limits::HEAD_BYTES;
use crate::input::location::Location;
use crate::input::pattern::Pattern;
use crate::input::storage::{self, Entry, File, Folder, Place};
use crate::options::Options;
use crate::parquet::manifest;
use crate::warnings::{SECOND_COPY, run_warning};

/// Maximum files that a warning names.
const SHOWN_FILES: usize = 3;

/// Files whose first bytes are read to find a timeline among them.
const HEADS_AT_ONCE: usize = 16;

/// Folders nested deeper than this are not searched.
const MAX_DEPTH: usize = 4;

/// The files of a run, found but not read.
#[derive(Debug)]
pub(crate) struct FoundRun {
    /// Path or address as the user gave it, without secrets.
    pub(crate) name: String,
    /// Path or address of the folder or file.
    pub(crate) root: String,
    pub(crate) files: DiscoveredFiles,
    /// The run is one file, not a folder.
    pub(crate) is_file: bool,
}

/// Finds the files of a run.
pub(crate) fn find(run: &Location, options: &Options) -> Result<FoundRun, Error> {
    let name = run.to_string();
    let place = run.place(options)?;
    let is_file = matches!(place, Place::File { .. });
    let files = discover(place, &name, run.pattern())?;
    Ok(FoundRun { name, root: run.root().to_string(), files, is_file })
}

/// Finds a part of the timelines of a run: `select` gets name and length of each file that may be one, and says which
/// belong to the part. Only the first bytes of these files are read, and of few others.
pub(crate) fn find_part(
    run: &Location,
    options: &Options,
    select: impl FnOnce(&[(&str, u64)]) -> Vec<bool>,
) -> Result<FoundRun, Error> {
    let place = run.place(options)?;
    let files = match place {
        Place::Folder(root) => files_beside_timelines(&root, run.pattern())?,
        Place::File { .. } => None,
    };
    if let Some(files) = files {
        let names: Vec<(&str, u64)> = files.iter().map(|f| (f.name.as_str(), f.bytes)).collect();
        let is_selected = select(&names);
        let selected = files.into_iter().zip(is_selected).filter(|(_, is)| *is);
        let selected: Vec<Entry> = selected.map(|(file, _)| file).collect();
        let listed = paths(&selected);
        let mut found = DiscoveredFiles::default();
        storage::read_heads(selected, HEAD_BYTES, |entry, head| {
            classify_file(entry, head, &listed, SearchedFiles::All, &mut found)
        })?;
        leave_out_second_copies(&mut found);
        let (name, root) = (run.to_string(), run.root().to_string());
        return Ok(FoundRun { name, root, files: found, is_file: false });
    }
    let mut found = find(run, options)?;
    let is_timeline = |file: &InputFile| file.is_rank_timeline();
    let timelines = found.files.traces.iter().filter(|file| is_timeline(file));
    let names: Vec<(&str, u64)> = timelines.map(|file| (file.file.as_str(), file.bytes)).collect();
    let mut is_selected = select(&names).into_iter();
    let is_kept = |file: &InputFile| !is_timeline(file) || is_selected.next().unwrap_or_default();
    found.files.traces.retain(is_kept);
    Ok(found)
}

/// All files of the folders in which [`discover`] finds timelines. `None` if the first bytes of all files decide whether
/// timelines can be read one by one, or there are none.
fn files_beside_timelines(
    root: &Folder,
    pattern: Option<&Pattern>,
) -> Result<Option<Vec<Entry>>, Error> {
    let mut folders = vec![root.clone()];
    for _ in 0..MAX_DEPTH {
        let (files, below) = list_all(root, &folders, pattern)?;
        let needs_all =
            |entry: &Entry| entry.name == manifest::FILE || may_hold_captures(&entry.name);
        if files.iter().any(needs_all) {
            return Ok(None);
        }
        let listed = paths(&files);
        let mut rest = files.into_iter();
        let (mut seen, mut importers) = (Vec::new(), Vec::<&'static dyn Importer>::new());
        loop {
            let some: Vec<Entry> = rest.by_ref().take(HEADS_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            storage::read_heads(some, HEAD_BYTES, |entry, head| {
                match head.map(|head| recognize_stored(head, &entry.name, &listed)) {
                    Ok(Recognized::Known(importer)) => importers.push(importer),
                    Err(error) if storage::is_outage(&error) => {
                        return Err(Error::read(entry.name, error));
                    }
                    Ok(_) | Err(_) => {}
                }
                seen.push(entry);
                Ok(())
            })?;
            let waits = |importer: &&dyn Importer| {
                importer.attachment().is_some_and(|kind| kind.needs > TimelineState::Stored)
            };
            if importers.iter().any(waits) {
                return Ok(None);
            }
            let search = |importer: &&dyn Importer| importer.descriptor().search;
            if importers.iter().any(|importer| search(importer) == SearchScope::Timelines) {
                seen.extend(rest);
                return Ok(Some(seen));
            }
        }
        folders = below;
    }
    Ok(None)
}

/// The content of a folder.
#[derive(Debug, Default)]
pub(crate) struct DiscoveredFiles {
    /// Files of all formats that can be read, by path.
    pub(crate) traces: Vec<InputFile>,
    /// Other files, with their descriptions.
    pub(crate) skipped: Vec<String>,
    /// Metrics in folders below other metrics.
    pub(crate) nested_metrics: Vec<String>,
    /// Traces in Perfetto's format of recordings that the run also contains as JSON.
    pub(crate) second_copies: Vec<String>,
    /// The folder and its manifest, if it is an export: then there is nothing else.
    pub(crate) export: Option<(Folder, File)>,
    manifest: Option<File>,
    /// Files that are searched for in the run's folder, in folders in it, and so on: also in folders that do not exist yet.
    scopes: Vec<SearchedFiles>,
    /// The first file that could not be opened, and the error.
    unreadable: Option<(String, io::Error)>,
}

/// A file that looks like a trace.
pub(crate) struct InputFile {
    pub(crate) importer: &'static dyn Importer,
    pub(crate) stored: File,
    /// Path relative to the run.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Bytes of its text, about.
    pub(crate) json_bytes: u64,
}

impl std::fmt::Debug for InputFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = self.importer.descriptor().name;
        let mut fields = f.debug_struct("InputFile");
        fields.field("file", &self.file).field("format", &format).finish_non_exhaustive()
    }
}

impl InputFile {
    /// Returns whether the file is the timeline of a rank, complete in itself.
    pub(crate) fn is_rank_timeline(&self) -> bool {
        self.importer.descriptor().search == SearchScope::Timelines
    }
}

/// Files that are searched for in folders of one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchedFiles {
    All,
    /// All but metrics: folders further up hold some.
    NoMetrics,
    /// Files that may lie below timelines, and captures of graphs: folders further up hold timelines.
    BelowTimelines,
}

impl SearchedFiles {
    fn includes(self, importer: &dyn Importer, file: &str) -> bool {
        let scope = importer.descriptor().search;
        match self {
            Self::All => true,
            Self::NoMetrics => scope != SearchScope::Metrics,
            Self::BelowTimelines => match scope {
                SearchScope::Metrics | SearchScope::BesideOrBelow => true,
                // Captures of graphs lie below the timelines that replay them.
                SearchScope::Timelines => may_hold_captures(file),
                SearchScope::SpreadTimelines | SearchScope::Beside => false,
            },
        }
    }
}

/// Returns whether the name of a file, or of a folder around it, says that it holds captures of graphs, as in
/// `capture_traces/graph_capture_rank_0.pt.trace.json.gz`.
pub(crate) fn may_hold_captures(file: &str) -> bool {
    file.to_ascii_lowercase().contains("capture")
}

/// Returns whether a file on this machine is the timeline of a rank, complete in itself, and no capture of graphs. `folder` is the
/// folder of its run. Beside such a file, a run has no timelines in folders below: those are of other runs.
///
/// # Errors
/// If the file cannot be read.
pub fn is_timeline_of_rank(folder: &Path, file: &Path) -> io::Result<bool> {
    let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy();
    let head = File::Local(file.to_owned()).head(HEAD_BYTES)?;
    let is_timeline = match recognize_stored(head, &name, &[]) {
        Recognized::Known(importer) => importer.descriptor().search == SearchScope::Timelines,
        Recognized::Unsupported(_) | Recognized::Unknown => false,
    };
    Ok(is_timeline && !may_hold_captures(&name))
}

/// Finds the files of a run: the file itself, or those of the folder. Folders below are searched too:
/// * for timelines, and files that belong to them, if no folder further up holds a trace of PyTorch's (Composer's
///   files lie in several folders side by side, and its merged traces above them);
/// * for Determined's metrics, if no folder further up holds metrics, but no deeper than one folder below the
///   timelines. Users save them as `run/metrics/`, or put traces into `run/traces/` and metrics beside that
///   folder; files deeper below metrics most likely hold the same data in another form. The same folders are searched
///   for logs of torch.compile, which `TORCH_TRACE` puts into a folder of their own, for dumps of the Flight Recorder, and
///   for captures of graphs.
///
/// `name` is the name of the run in errors. Of a folder, only files that the pattern selects are looked at.
fn discover(run: Place, name: &str, pattern: Option<&Pattern>) -> Result<DiscoveredFiles, Error> {
    let mut found = DiscoveredFiles::default();
    let root = match run {
        Place::File { file: stored, name: file } => {
            let io = |e| Error::read(name, e);
            let bytes = stored.bytes().map_err(io)?;
            // A file that the user named is read in any case: the reader reports the problem.
            let head = stored.head(HEAD_BYTES).map_err(io)?;
            let json_bytes = decompress::text_bytes(&stored, bytes, &head);
            let importer = match recognize_stored(head, &file, &[]) {
                Recognized::Known(importer) => importer,
                Recognized::Unknown | Recognized::Unsupported(UnsupportedFormat::OtherJson) => {
                    importer_of_any_file()
                }
                Recognized::Unsupported(format) => {
                    return Err(Error::Unusable { file, reason: format.description() });
                }
            };
            found.traces.push(InputFile { importer, stored, file, bytes, json_bytes });
            return Ok(found);
        }
        Place::Folder(root) => root,
    };
    let mut folders = vec![root.clone()];
    let mut scope = SearchedFiles::All;
    for _ in 0..MAX_DEPTH {
        found.scopes.push(scope);
        let (files, below) = list_all(&root, &folders, pattern)?;
        let listed = paths(&files);
        storage::read_heads(files, HEAD_BYTES, |entry, head| {
            classify_file(entry, head, &listed, scope, &mut found)
        })?;
        if let Some(manifest) = found.manifest.take() {
            found.export = Some((root, manifest));
            return Ok(found);
        }
        let has = |scope| found.traces.iter().any(|t| t.importer.descriptor().search == scope);
        let (has_timeline, has_metrics) = (has(SearchScope::Timelines), has(SearchScope::Metrics));
        scope = match (has_timeline, has_metrics) {
            _ if scope == SearchedFiles::BelowTimelines => break,
            (true, true) => break,
            (true, false) => SearchedFiles::BelowTimelines,
            (false, true) => SearchedFiles::NoMetrics,
            (false, false) => SearchedFiles::All,
        };
        folders = below;
    }
    leave_out_second_copies(&mut found);
    if found.traces.is_empty() {
        if let Some((file, error)) = found.unreadable {
            return Err(Error::read(format!("{}/{file}", name.trim_end_matches('/')), error));
        }
        return Err(Error::NoTrace { path: name.into(), skipped: found.skipped });
    }
    Ok(found)
}

/// The files in these folders that the pattern selects, and the folders in them.
fn list_all(
    root: &Folder,
    folders: &[Folder],
    pattern: Option<&Pattern>,
) -> Result<(Vec<Entry>, Vec<Folder>), Error> {
    let (mut files, mut below) = (Vec::new(), Vec::new());
    for folder in folders {
        let (of_folder, more) = root.list(folder)?;
        files.extend(of_folder);
        below.extend(more);
    }
    files.retain(|entry| pattern.is_none_or(|pattern| pattern.matches(&entry.name)));
    Ok((files, below))
}

impl DiscoveredFiles {
    /// Returns whether a file that begins with `head` would be read as part of the run, if it had this name in its folder.
    pub(crate) fn would_include(&self, file: &str, head: Vec<u8>) -> bool {
        let scope = self.scopes.get(file.matches('/').count());
        match recognize_stored(head, file, &[]) {
            Recognized::Known(importer) => {
                scope.is_some_and(|scope| scope.includes(importer, file))
            }
            _ => false,
        }
    }
}

fn classify_file(
    entry: Entry,
    head: io::Result<Vec<u8>>,
    listed: &[String],
    scope: SearchedFiles,
    found: &mut DiscoveredFiles,
) -> Result<(), Error> {
    let Entry { file: stored, name: file, bytes } = entry;
    if let Ok(head) = &head
        && manifest::is_manifest(&file, head)
    {
        found.manifest = Some(stored);
        return Ok(());
    }
    let text_bytes = |head: &[u8]| decompress::text_bytes(&stored, bytes, head);
    let json_bytes = head.as_deref().map_or(bytes, text_bytes);
    let recognized = match head {
        Err(error) if storage::is_outage(&error) => return Err(Error::read(file, error)),
        Err(_) if scope == SearchedFiles::BelowTimelines => return Ok(()),
        Err(error) => {
            found.skipped.push(format!("{file} (cannot be read: {error})"));
            found.unreadable.get_or_insert((file, error));
            return Ok(());
        }
        Ok(head) => recognize_stored(head, &file, listed),
    };
    match recognized {
        Recognized::Known(importer) if scope.includes(importer, &file) => {
            found.traces.push(InputFile { importer, stored, file, bytes, json_bytes });
        }
        _ if scope == SearchedFiles::BelowTimelines => {}
        Recognized::Known(_) => found.nested_metrics.push(file),
        Recognized::Unsupported(format) => {
            found.skipped.push(format!("{file} ({})", format.description()));
        }
        Recognized::Unknown => found.skipped.push(file),
    }
    Ok(())
}

/// Recognizes a file by its first bytes as they are stored, else by its name. `listed`: the paths of the files that were
/// listed with it.
fn recognize_stored(head: Vec<u8>, file: &str, listed: &[String]) -> Recognized {
    let recognized = match decompress::prefix(head, HEAD_BYTES) {
        Some(bytes) => recognize(&Head::new(file, &bytes).with_listing(listed)),
        None => Recognized::Unsupported(UnsupportedFormat::DamagedGzip),
    };
    match (recognized, UnsupportedFormat::of_name(file)) {
        (Recognized::Unknown, Some(format)) => Recognized::Unsupported(format),
        (recognized, _) => recognized,
    }
}

fn paths(files: &[Entry]) -> Vec<String> {
    files.iter().map(|entry| entry.name.clone()).collect()
}

/// Removes traces in Perfetto's format if the folder contains the same recording as JSON, which has more data: `a.pftrace` beside
/// `a.json.gz`.
fn leave_out_second_copies(found: &mut DiscoveredFiles) {
    let is_of = |file: &InputFile, format| file.importer.descriptor().name == format;
    let as_json: BTreeSet<String> = found
        .traces
        .iter()
        .filter(|file| is_of(file, "kineto"))
        .map(|file| recording_name(&file.file).to_owned())
        .collect();
    let is_second =
        |file: &InputFile| is_of(file, "perfetto") && as_json.contains(recording_name(&file.file));
    let (second, kept) = std::mem::take(&mut found.traces).into_iter().partition(is_second);
    found.traces = kept;
    let second: Vec<InputFile> = second;
    found.second_copies.extend(second.into_iter().map(|file| file.file));
}

/// Returns a warning that names traces that were not read because the run contains the same recordings as JSON.
pub(crate) fn second_copies_warning(files: &[String]) -> Option<Warning> {
    let reason = "traces in Perfetto's format beside the same recording as JSON, which was read because it holds more";
    left_out_warning(SECOND_COPY, reason, files)
}

/// Names metrics that were not read because folders above them hold metrics too.
pub(crate) fn nested_metrics_warning(files: &[String]) -> Option<Warning> {
    let reason = "metrics in folders below other metrics were not read, because they most likely hold the same data";
    left_out_warning("metrics-below", reason, files)
}

/// Returns a warning that names the first of the files that were not read; `None` without files.
fn left_out_warning(code: &'static str, reason: &str, files: &[String]) -> Option<Warning> {
    if files.is_empty() {
        return None;
    }
    let more = if files.len() > SHOWN_FILES { ", ..." } else { "" };
    let shown = files[..files.len().min(SHOWN_FILES)].join(", ");
    let warning = run_warning(code, String::new(), format!("{reason}: {shown}{more}"));
    Some(Warning { count: files.len() as u64, ..warning })
}
