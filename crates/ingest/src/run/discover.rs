//! Which files of a folder are traces, by content, and what their names say about ranks.

use std::io;

use crate::error::Error;
use crate::export::manifest;
use crate::formats::{Format, Recognised, recognise};
use crate::source;
use crate::storage::{self, Entry, File, Folder, Place};

/// Enough text to see what a file is, metadata in front included.
pub(crate) const PREFIX: usize = 64 << 10;
/// Folders nested deeper than this are not searched.
const MAX_DEPTH: usize = 4;

/// The files of a run.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Traces of all formats, by path.
    pub(crate) traces: Vec<Candidate>,
    /// Other files, with what they are.
    pub(crate) skipped: Vec<String>,
    /// Metrics below folders with metrics.
    pub(crate) aside: Vec<String>,
    /// The folder and its manifest, if it is an export: then there is nothing else.
    pub(crate) export: Option<(Folder, File)>,
    manifest: Option<File>,
    /// The first that could not be looked at, and why.
    refused: Option<(String, io::Error)>,
}

/// A file that looks like a trace.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) format: Format,
    pub(crate) stored: File,
    /// Path relative to the run.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Bytes of its text, about.
    pub(crate) json_bytes: u64,
}

/// What is looked for in folders at one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// All but metrics: folders further up hold some.
    Traces,
    /// Metrics only: folders further up hold timelines.
    Metrics,
}

impl Wanted {
    fn takes(self, format: Format) -> bool {
        let is_metrics = matches!(format, Format::Determined(_));
        match self {
            Self::All => true,
            Self::Traces => !is_metrics,
            Self::Metrics => is_metrics,
        }
    }
}

/// Finds the traces of a run: the file itself, or the files of the folder. Folders below are searched too:
/// * for timelines, and what goes with them, if no folder further up holds a trace of PyTorch's (Composer's files
///   lie in several folders side by side, and its merged traces above them);
/// * for Determined's metrics, if no folder further up holds metrics, but no deeper than one folder below the
///   timelines. People save them as `run/metrics/`, or put traces into `run/traces/` and metrics beside that
///   folder; what lies deeper below metrics is most likely the same once more, in another form.
///
/// `name` is what the run is called in errors.
pub(crate) fn discover(run: Place, name: &str) -> Result<Found, Error> {
    let mut found = Found::default();
    let root = match run {
        Place::File { file: stored, name: file } => {
            let io = |e| Error::read(name, e);
            let bytes = stored.bytes().map_err(io)?;
            // A file that was named is read: if it is none of ours, the reader says why.
            let head = stored.head(PREFIX).map_err(io)?;
            let json_bytes = source::text_bytes(&stored, bytes, &head);
            let head = source::prefix(head, PREFIX);
            let format = match head.as_deref().map(recognise) {
                Some(Recognised::Trace(format)) => format,
                Some(Recognised::Other(what)) if !what.starts_with("JSON") => {
                    return Err(Error::Unusable { file, reason: what.to_owned() });
                }
                _ => Format::Kineto,
            };
            found.traces.push(Candidate { format, stored, file, bytes, json_bytes });
            return Ok(found);
        }
        Place::Folder(root) => root,
    };
    let mut folders = vec![root.clone()];
    let mut wanted = Wanted::All;
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for folder in &folders {
            let (files, more) = root.list(folder)?;
            below.extend(more);
            storage::look_into(files, PREFIX, |entry, head| {
                look_at(entry, head, wanted, &mut found)
            })?;
        }
        if let Some(manifest) = found.manifest.take() {
            found.export = Some((root, manifest));
            return Ok(found);
        }
        let has_timeline = found.traces.iter().any(|t| t.format == Format::Kineto);
        let has_metrics = found.traces.iter().any(|t| Wanted::Metrics.takes(t.format));
        wanted = match (has_timeline, has_metrics) {
            _ if below.is_empty() || wanted == Wanted::Metrics => break,
            (true, true) => break,
            (true, false) => Wanted::Metrics,
            (false, true) => Wanted::Traces,
            (false, false) => Wanted::All,
        };
        folders = below;
    }
    if found.traces.is_empty() {
        if let Some((file, error)) = found.refused {
            return Err(Error::read(format!("{}/{file}", name.trim_end_matches('/')), error));
        }
        return Err(Error::NoTrace { path: name.into(), skipped: found.skipped });
    }
    Ok(found)
}

fn look_at(
    entry: Entry,
    head: io::Result<Vec<u8>>,
    wanted: Wanted,
    found: &mut Found,
) -> Result<(), Error> {
    let Entry { file: stored, name: file, bytes } = entry;
    if let Ok(head) = &head
        && manifest::is_manifest(&file, head)
    {
        found.manifest = Some(stored);
        return Ok(());
    }
    let text_bytes = |head: &[u8]| source::text_bytes(&stored, bytes, head);
    let json_bytes = head.as_deref().map_or(bytes, text_bytes);
    let what = match head.map(|head| source::prefix(head, PREFIX)) {
        Err(error) if storage::is_outage(&error) => return Err(Error::read(file, error)),
        Err(_) | Ok(None) if wanted == Wanted::Metrics => return Ok(()),
        Err(error) => {
            found.skipped.push(format!("{file} (cannot be read: {error})"));
            found.refused.get_or_insert((file, error));
            return Ok(());
        }
        Ok(None) => {
            found.skipped.push(format!("{file} (damaged gzip)"));
            return Ok(());
        }
        Ok(Some(prefix)) => recognise(&prefix),
    };
    match what {
        Recognised::Trace(format) if wanted.takes(format) => {
            found.traces.push(Candidate { format, stored, file, bytes, json_bytes });
        }
        _ if wanted == Wanted::Metrics => {}
        Recognised::Trace(_) => found.aside.push(file),
        Recognised::Other(what) => found.skipped.push(format!("{file} ({what})")),
        Recognised::Unknown => found.skipped.push(file),
    }
    Ok(())
}

/// The rank a file name states outright: `rank-3`, `rank_3`, `rank3`, or, as Determined marks what it
/// uploads, `worker#3.1619.pt.trace.json`.
pub(crate) fn stated_rank(file: &str) -> Option<i32> {
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

/// The worker of a name as TensorBoard's handler writes it, `<worker>.<time>.pt.trace.json`: files of
/// one worker are profile cycles of one rank. Other names: the whole name.
pub(crate) fn worker(file: &str) -> &str {
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    let stem = stem.strip_suffix(".pt.trace.json").unwrap_or(stem);
    match stem.rsplit_once('.') {
        Some((worker, time)) if !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit()) => {
            worker
        }
        _ => stem,
    }
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
    fn ranks_in_names() {
        assert_eq!(stated_rank("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"), Some(34));
        assert_eq!(stated_rank("sub/rank0_iter16.json"), Some(0));
        assert_eq!(stated_rank("sampled_rank-1.json.gz"), Some(1));
        assert_eq!(stated_rank("rank_not_found.json"), None);
        assert_eq!(stated_rank("frank.json"), None);
    }

    #[test]
    fn ranks_that_determined_marks() {
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
                assert_eq!(stated_rank(&name), Some(rank), "{name}");
            }
        }
        assert_eq!(stated_rank("events.out.tfevents.123.host"), None);
        assert_eq!(stated_rank("a#3/host.json"), None);
        assert_eq!(stated_rank("issue#12"), None);
        assert_eq!(stated_rank("a#b3.json"), None);
        assert_eq!(stated_rank("a#.json"), None);
        assert_eq!(stated_rank("a#99999999999.json"), None);
    }

    #[test]
    fn workers_in_names() {
        assert_eq!(worker("worker0.1623143089861.pt.trace.json.gz"), "worker0");
        assert_eq!(worker("node0_3.17952.pt.trace.json"), "node0_3");
        assert_eq!(worker("eager_trace.json"), "eager_trace.json");
        assert_eq!(trailing_number("node0_3"), Some(3));
        assert_eq!(trailing_number("host"), None);
    }
}
