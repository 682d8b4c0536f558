//! Finds the files of a run by content, and ranks in their names.

use std::io;
use std::path::Path;

use memchr::memmem;

use crate::error::Error;
use crate::formats::guess::{Format, FormatGuess, guess_format};
use crate::formats::unsupported::UnsupportedFormat;
use crate::input::decompress;
use crate::input::limits::HEAD_BYTES;
use crate::input::location::Location;
use crate::input::pattern::Pattern;
use crate::input::storage::{self, Entry, File, Folder, Place};
use crate::options::Options;
use crate::parquet::manifest;

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
    let place = run.place(options.timeout)?;
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
    let place = run.place(options.timeout)?;
    let files = match place {
        Place::Folder(root) => files_beside_timelines(&root, run.pattern())?,
        Place::File { .. } => None,
    };
    if let Some(files) = files {
        let names: Vec<(&str, u64)> = files.iter().map(|f| (f.name.as_str(), f.bytes)).collect();
        let is_selected = select(&names);
        let selected = files.into_iter().zip(is_selected).filter(|(_, is)| *is);
        let mut found = DiscoveredFiles::default();
        storage::read_heads(
            selected.map(|(file, _)| file).collect(),
            HEAD_BYTES,
            |entry, head| classify_file(entry, head, SearchScope::All, &mut found),
        )?;
        let (name, root) = (run.to_string(), run.root().to_string());
        return Ok(FoundRun { name, root, files: found, is_file: false });
    }
    let mut found = find(run, options)?;
    let is_timeline = |file: &InputFile| file.format == Format::Kineto;
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
        let mut rest = files.into_iter();
        let (mut seen, mut formats) = (Vec::new(), Vec::new());
        loop {
            let some: Vec<Entry> = rest.by_ref().take(HEADS_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            storage::read_heads(some, HEAD_BYTES, |entry, head| {
                match head.map(|head| guess_stored(head, &entry.name)) {
                    Ok(FormatGuess::Known(format)) => formats.push(format),
                    Err(error) if storage::is_outage(&error) => {
                        return Err(Error::read(entry.name, error));
                    }
                    Ok(_) | Err(_) => {}
                }
                seen.push(entry);
                Ok(())
            })?;
            if formats.iter().any(|f| matches!(f, Format::Composer | Format::ExecutionTrace)) {
                return Ok(None);
            }
            if formats.contains(&Format::Kineto) {
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
    /// The folder and its manifest, if it is an export: then there is nothing else.
    pub(crate) export: Option<(Folder, File)>,
    manifest: Option<File>,
    /// What is searched for in the run's folder, in folders in it, and so on: also in folders that do not exist yet.
    scopes: Vec<SearchScope>,
    /// The first file that could not be opened, and the error.
    unreadable: Option<(String, io::Error)>,
}

/// A file that looks like a trace.
#[derive(Debug)]
pub(crate) struct InputFile {
    pub(crate) format: Format,
    pub(crate) stored: File,
    /// Path relative to the run.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Bytes of its text, about.
    pub(crate) json_bytes: u64,
}

/// Files that are searched for in folders of one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchScope {
    All,
    /// All but metrics: folders further up hold some.
    Traces,
    /// Metrics, logs of torch.compile, dumps of the Flight Recorder, and captures of graphs: folders further up hold timelines.
    Metrics,
}

impl SearchScope {
    fn includes(self, format: Format, file: &str) -> bool {
        let is_metrics = matches!(format, Format::Determined(_));
        match self {
            Self::All => true,
            Self::Traces => !is_metrics,
            // Captures of graphs lie below the timelines that replay them.
            Self::Metrics => {
                is_metrics
                    || matches!(format, Format::TorchTrace | Format::FlightRecorder(_))
                    || (format == Format::Kineto && may_hold_captures(file))
            }
        }
    }
}

/// Returns whether the name of a file, or of a folder around it, says that it holds captures of graphs, as in
/// `capture_traces/graph_capture_rank_0.pt.trace.json.gz`.
pub(crate) fn may_hold_captures(file: &str) -> bool {
    file.to_ascii_lowercase().contains("capture")
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
            let format = match guess_stored(head, &file) {
                FormatGuess::Known(format) => format,
                FormatGuess::Unknown | FormatGuess::Unsupported(UnsupportedFormat::OtherJson) => {
                    Format::Kineto
                }
                FormatGuess::Unsupported(format) => {
                    return Err(Error::Unusable { file, reason: format.description() });
                }
            };
            found.traces.push(InputFile { format, stored, file, bytes, json_bytes });
            return Ok(found);
        }
        Place::Folder(root) => root,
    };
    let mut folders = vec![root.clone()];
    let mut scope = SearchScope::All;
    for _ in 0..MAX_DEPTH {
        found.scopes.push(scope);
        let (files, below) = list_all(&root, &folders, pattern)?;
        storage::read_heads(files, HEAD_BYTES, |entry, head| {
            classify_file(entry, head, scope, &mut found)
        })?;
        if let Some(manifest) = found.manifest.take() {
            found.export = Some((root, manifest));
            return Ok(found);
        }
        let has_timeline = found.traces.iter().any(|t| t.format == Format::Kineto);
        let has_metrics = found.traces.iter().any(|t| matches!(t.format, Format::Determined(_)));
        scope = match (has_timeline, has_metrics) {
            _ if scope == SearchScope::Metrics => break,
            (true, true) => break,
            (true, false) => SearchScope::Metrics,
            (false, true) => SearchScope::Traces,
            (false, false) => SearchScope::All,
        };
        folders = below;
    }
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
        match guess_stored(head, file) {
            FormatGuess::Known(format) => scope.is_some_and(|scope| scope.includes(format, file)),
            _ => false,
        }
    }
}

fn classify_file(
    entry: Entry,
    head: io::Result<Vec<u8>>,
    scope: SearchScope,
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
    let guess = match head {
        Err(error) if storage::is_outage(&error) => return Err(Error::read(file, error)),
        Err(_) if scope == SearchScope::Metrics => return Ok(()),
        Err(error) => {
            found.skipped.push(format!("{file} (cannot be read: {error})"));
            found.unreadable.get_or_insert((file, error));
            return Ok(());
        }
        Ok(head) => guess_stored(head, &file),
    };
    match guess {
        FormatGuess::Known(format) if scope.includes(format, &file) => {
            found.traces.push(InputFile { format, stored, file, bytes, json_bytes });
        }
        _ if scope == SearchScope::Metrics => {}
        FormatGuess::Known(_) => found.nested_metrics.push(file),
        FormatGuess::Unsupported(format) => {
            found.skipped.push(format!("{file} ({})", format.description()));
        }
        FormatGuess::Unknown => found.skipped.push(file),
    }
    Ok(())
}

/// Guesses a format from the first bytes of a file as it is stored, else from its name.
fn guess_stored(head: Vec<u8>, file: &str) -> FormatGuess {
    let guess = match decompress::prefix(head, HEAD_BYTES) {
        Some(text) => guess_format(&text),
        None => FormatGuess::Unsupported(UnsupportedFormat::DamagedGzip),
    };
    match (guess, UnsupportedFormat::of_name(file)) {
        (FormatGuess::Unknown, Some(format)) => FormatGuess::Unsupported(format),
        (guess, _) => guess,
    }
}

/// The rank that a trace on this machine states in front of its events, else that of its file name. Reads the first bytes
/// of the file.
///
/// # Errors
/// If the file cannot be read.
pub fn stated_rank(file: &Path) -> io::Result<Option<i32>> {
    let head = File::Local(file.to_owned()).head(HEAD_BYTES)?;
    let head = decompress::prefix(head, HEAD_BYTES).unwrap_or_default();
    let value_of = |text: &[u8], key: &[u8]| -> Option<usize> {
        let at = memmem::find(text, key)? + key.len();
        Some(at + memchr::memchr(b':', &text[at..])? + 1)
    };
    let in_head = || {
        let info = &head[value_of(&head, b"\"distributedInfo\"")?..];
        let text = info[value_of(info, b"\"rank\"")?..].trim_ascii_start();
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
    };
    Ok(in_head().or_else(|| rank_from_file_name(&file.to_string_lossy())))
}

/// The rank that a file name states: `rank-3`, `rank_3`, `rank3`, or, as Determined marks what it
/// uploads, `worker#3.1619.pt.trace.json`.
pub(crate) fn rank_from_file_name(file: &str) -> Option<i32> {
    let name = file.rsplit('/').next()?.to_ascii_lowercase();
    let marked = name.rsplit_once('#').and_then(|(_, rest)| {
        let (digits, _) = rest.split_once('.')?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    });
    if marked.is_some() {
        return marked;
    }
    name.match_indices("rank").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['-', '_', '.']);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest[..digits].parse().ok()
    })
}

/// The worker of a name as TensorBoard's handler writes it, `<worker>.<time>.pt.trace.json`, or ours,
/// `<worker>_cycle<number>.pt.trace.json`: files of one worker are profile cycles of one rank. Other names: the whole
/// name.
pub(crate) fn worker_name(file: &str) -> &str {
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    let stem = stem.strip_suffix(".pt.trace.json").unwrap_or(stem);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = stem.rsplit_once('.').or_else(|| stem.rsplit_once("_cycle"));
    parts.filter(|(_, number)| is_number(number)).map_or(stem, |(worker, _)| worker)
}

/// The number at the end of a worker name: `node0_3` is 3. It may be a rank or a process id.
pub(crate) fn trailing_number(worker: &str) -> Option<i32> {
    let digits = worker.len() - worker.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    worker[worker.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_from_file_name_reads_common_patterns() {
        assert_eq!(rank_from_file_name("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"), Some(34));
        assert_eq!(rank_from_file_name("sub/rank0_iter16.json"), Some(0));
        assert_eq!(rank_from_file_name("sampled_rank-1.json.gz"), Some(1));
        assert_eq!(rank_from_file_name("rank_not_found.json"), None);
        assert_eq!(rank_from_file_name("frank.json"), None);
    }

    #[test]
    fn rank_from_file_name_reads_marks_of_determined() {
        let marked = |rank: i32| {
            [
                format!("host_1234#{rank}.1619499959628.pt.trace.json"),
                format!("host_1234#{rank}.1619499959628.pt.trace.json.gz"),
                format!("worker0#{rank}.pt.trace.json"),
                format!("2022_05_13_15_25_41/ip-172-31-8-212#{rank}.input_pipeline.pb"),
                format!("a/b/host_7#{rank}.trace.json.gz"),
                format!("rank9#{rank}.json"),
            ]
        };
        for rank in [0, 3] {
            for name in marked(rank) {
                assert_eq!(rank_from_file_name(&name), Some(rank), "{name}");
            }
        }
        assert_eq!(rank_from_file_name("events.out.tfevents.123.host"), None);
        assert_eq!(rank_from_file_name("a#3/host.json"), None);
        assert_eq!(rank_from_file_name("issue#12"), None);
        assert_eq!(rank_from_file_name("a#b3.json"), None);
        assert_eq!(rank_from_file_name("a#.json"), None);
        assert_eq!(rank_from_file_name("a#99999999999.json"), None);
    }

    #[test]
    fn worker_name_strips_time_and_suffixes() {
        assert_eq!(worker_name("worker0.1623143089861.pt.trace.json.gz"), "worker0");
        assert_eq!(worker_name("node0_3.17952.pt.trace.json"), "node0_3");
        assert_eq!(worker_name("rank3_cycle12.pt.trace.json.gz"), "rank3");
        assert_eq!(worker_name("motor_cycle.pt.trace.json"), "motor_cycle");
        assert_eq!(worker_name("eager_trace.json"), "eager_trace.json");
        assert_eq!(trailing_number("node0_3"), Some(3));
        assert_eq!(trailing_number("host"), None);
    }
}
