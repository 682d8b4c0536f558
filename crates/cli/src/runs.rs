//! The runs that paths on the command line stand for: one of several files, or one of several in a directory.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use anstyle::Style;
use anyhow::Context as _;
use trace_advisor::ingest::{Location, is_below, is_timeline_of_rank, is_work_name, stated_rank};
use trace_advisor::trace_model::Warning;
use trace_advisor::{Error, Run};

use crate::args::ReadArgs;
use crate::console::Console;
use crate::diagnostics::{print_error, several_runs, with_help};
use crate::exit::Exit;
use crate::messages::{self, print_warnings};
use crate::render::sanitize::sanitize;
use crate::render::value::plural;
use crate::run::{finish_without_warnings, open_for_query};

/// Directories that trainers create inside the directory of a run, one per kind of file.
const RUN_PARTS: [&str; 2] = ["composer_profiler", "torch_profiler"];

/// Ends of the names of files that a run may consist of. The reader says how to decompress one that it cannot read.
const RUN_FILES: [&str; 5] = [".json", ".json.gz", ".json.zst", ".jsonl", ".pickle"];

/// Folders that are searched for runs which a command leaves out, at most: naming them must not take long.
const MAX_FOLDERS_TO_NAME_RUNS: usize = 1000;

/// Runs that a command reads one after the other.
pub(crate) struct RunQueue {
    paths: VecDeque<PathBuf>,
    /// The path that stands for files which were given one by one, and their number.
    joined: Option<(PathBuf, usize)>,
    /// Whether directories stand for the runs below them, as with `--each`.
    is_each: bool,
    /// Why runs were left out, with `--each`.
    failures: Vec<anyhow::Error>,
}

impl RunQueue {
    /// The runs at the paths. Files that state different ranks are taken for one run until they are read. `each`: a
    /// directory stands for the runs below it.
    pub(crate) fn new(paths: &[PathBuf], each: bool) -> anyhow::Result<Self> {
        let mut queue =
            Self { paths: VecDeque::new(), joined: None, is_each: each, failures: Vec::new() };
        if each {
            for path in paths {
                queue.paths.extend(each_below(path)?);
            }
            return Ok(queue);
        }
        let ranks: BTreeSet<&PathBuf> = files_of_ranks(paths);
        // A directory that cannot be listed: the files are read one by one, and errors reported there.
        let location = Location::of_files(&ranks).ok().flatten();
        queue.joined = location.map(|joined| (PathBuf::from(joined.to_string()), ranks.len()));
        let mut is_joined = false;
        for path in paths {
            match &queue.joined {
                Some((joined, _)) if ranks.contains(&path) => {
                    if !std::mem::replace(&mut is_joined, true) {
                        queue.paths.push_back(joined.clone());
                    }
                }
                _ => queue.paths.push_back(path.clone()),
            }
        }
        Ok(queue)
    }

    /// Number of runs that are left.
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Opens the next run; `None` after the last one. A path that holds several runs is replaced by them. With `--each`,
    /// a run that cannot be read is left out. `note` prints what happened.
    pub(crate) fn next<T>(
        &mut self,
        console: &mut Console,
        mut open: impl FnMut(&Path, &mut Console) -> anyhow::Result<T>,
        note: impl Fn(&str, &mut Console) -> io::Result<()>,
    ) -> anyhow::Result<Option<T>> {
        while let Some(path) = self.paths.pop_front() {
            if let Some(text) = (!self.is_each).then(|| left_out_below(&path)).flatten() {
                note(&text, console)?;
            }
            let error = match open(&path, console) {
                Ok(run) => {
                    if let Some((_, files)) = self.joined.take_if(|(joined, _)| *joined == path) {
                        note(&format!("{}: {files} files are one run", path.display()), console)?;
                    }
                    return Ok(Some(run));
                }
                Err(error) => error,
            };
            let Some((folder, runs)) = several_runs(&error) else {
                if self.is_each && is_about_files(&error) {
                    self.failures.push(error);
                    continue;
                }
                return Err(error);
            };
            if !self.is_each {
                let text = format!(
                    "{} holds {} runs, each of which is read separately",
                    path.display(),
                    runs.len()
                );
                note(&text, console)?;
            }
            for run in runs.iter().rev() {
                self.paths.push_front(PathBuf::from(run.path(folder)));
            }
        }
        Ok(None)
    }

    /// Prints why runs were left out. Returns the exit code: that of an error if any was.
    pub(crate) fn print_failures(&self, console: &mut Console) -> io::Result<Exit> {
        console.out.flush()?;
        for error in &self.failures {
            print_error(error, console)?;
        }
        Ok(if self.failures.is_empty() { Exit::Clean } else { Exit::Failed })
    }
}

/// Reads each run at or below `root` with `read`. Returns the queue, which knows the runs that could not be read.
pub(crate) fn for_each_run(
    root: &Path,
    console: &mut Console,
    mut read: impl FnMut(&Path, &mut Console) -> anyhow::Result<()>,
) -> anyhow::Result<RunQueue> {
    let mut queue = RunQueue::new(&[root.to_owned()], true)?;
    while queue.next(console, &mut read, |_, _| Ok(()))?.is_some() {}
    Ok(queue)
}

/// Says which runs below the one at `path` a command without `--each` leaves out.
pub(crate) fn note_left_out_below(path: &Path, console: &mut Console) -> io::Result<()> {
    left_out_below(path).map_or(Ok(()), |text| messages::note(&text, console))
}

/// Where the runs at or below a path are written: each to a directory of its own.
pub(crate) struct RunOutputs<'a> {
    root: &'a Path,
    to: &'a Path,
    /// The name of `root` as one of several runs.
    name_of_root: Option<OsString>,
}

impl<'a> RunOutputs<'a> {
    /// Refuses a directory `to` among the runs below `root`: what is written there would be one of them.
    pub(crate) fn new(root: &'a Path, to: &'a Path) -> anyhow::Result<Self> {
        let runs = each_below(root)?;
        let is_among = || is_below(to, root).is_ok_and(|is_below| is_below);
        if root.is_dir() && is_among() && runs != [root] {
            let message =
                format!("{} would become one of the runs in {}", to.display(), root.display());
            return Err(with_help(message, "write to a directory outside of it"));
        }
        // A name such as `.` says nothing.
        let name = || Some(root.canonicalize().ok()?.file_name()?.to_owned());
        let name_of_root = if runs.len() > 1 { name() } else { None };
        Ok(Self { root, to, name_of_root })
    }

    /// The directory for what is written about the run at `path`, which is at or below the root.
    pub(crate) fn of(&self, path: &Path) -> PathBuf {
        let Ok(name) = path.strip_prefix(self.root) else { return self.to.to_owned() };
        if name.as_os_str().is_empty() {
            return self.to.join(self.name_of_root.as_deref().unwrap_or_default());
        }
        let name = name.to_string_lossy();
        let stem = [".gz", ".json", ".jsonl"]
            .iter()
            .fold(&*name, |name, ending| name.strip_suffix(ending).unwrap_or(name));
        // A run may be a pattern of files.
        self.to.join(stem.replace(['*', '?', '[', ']'], "_"))
    }
}

/// What is left to print once a command has read each run.
pub(crate) struct EachRead {
    queue: RunQueue,
    warnings: Vec<Warning>,
}

/// Opens each run at or below `root` for `hint`, the queries to answer, and passes it to `query`.
pub(crate) fn query_each_run(
    root: &Path,
    hint: Option<&str>,
    args: &ReadArgs,
    console: &mut Console,
    mut query: impl FnMut(&Path, &Run) -> anyhow::Result<()>,
) -> anyhow::Result<EachRead> {
    let mut warnings = Vec::new();
    let queue = for_each_run(root, console, |path, console| {
        let (run, progress) = open_for_query(hint.map(str::to_owned), path, args, console)?;
        query(path, &run)?;
        drop(progress);
        warnings.extend_from_slice(run.warnings());
        finish_without_warnings(&run, args, console)
    })?;
    Ok(EachRead { queue, warnings })
}

impl EachRead {
    /// Prints the warnings of all runs, then why runs were left out. Returns the exit code.
    pub(crate) fn finish(&self, console: &mut Console) -> io::Result<Exit> {
        print_warnings(&self.warnings, console)?;
        self.queue.print_failures(console)
    }
}

/// Prints the path of a run above what is printed about it, after an empty line between runs.
pub(crate) fn print_run_heading(
    path: &Path,
    is_first: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    if !is_first {
        writeln!(out)?;
    }
    let style = Style::new().bold();
    writeln!(out, "{style}{}{style:#}", sanitize(&path.display().to_string()))
}

/// Whether an error is about the files of one run, so that others may be readable.
fn is_about_files(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Ingest(_)))
}

/// The files among several paths that state a rank, if they state different ones.
fn files_of_ranks(paths: &[PathBuf]) -> BTreeSet<&PathBuf> {
    if paths.len() < 2 {
        return BTreeSet::new();
    }
    let stated = |path: &PathBuf| path.is_file().then(|| stated_rank(path).ok().flatten())?;
    let (files, ranks): (BTreeSet<&PathBuf>, BTreeSet<i32>) =
        paths.iter().filter_map(|path| Some((path, stated(path)?))).unzip();
    if ranks.len() < 2 { BTreeSet::new() } else { files }
}

/// The runs below a directory; any other path itself.
fn each_below(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let runs = runs_below(path).with_context(|| format!("cannot list {}", path.display()))?;
    // The reader says what is wrong with a directory without traces.
    Ok(if runs.is_empty() { vec![path.to_owned()] } else { runs })
}

/// The directories from `root` down that are a run, ordered by path. A run contains traces, or the directories
/// into which a trainer sorts them. What the reader finds below a run is part of it; further traces there are runs of their
/// own. Links to directories are not followed: they would read runs twice, or never end.
///
/// # Errors
/// The first directory that cannot be listed.
pub fn runs_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    find_runs(root, usize::MAX)
}

/// As [`runs_below`], among the first folders.
fn find_runs(root: &Path, max_folders: usize) -> io::Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    // Each with the run around it.
    let mut folders: Vec<(PathBuf, Option<PathBuf>)> = vec![(root.to_owned(), None)];
    for _ in 0..max_folders {
        let Some((path, mut run)) = folders.pop() else { break };
        let folder = RunFolder::list(&path)?;
        let is_run = match &run {
            None => folder.has_parts || !folder.files.is_empty(),
            Some(run) => folder.has_parts || folder.holds_timelines_of(run),
        };
        if is_run {
            runs.push(path.clone());
            // Without timelines here, the reader takes those of folders below for parts of this run.
            if folder.below.is_empty() || !folder.holds_timelines_of(&path) {
                continue;
            }
            run = Some(path);
        }
        folders.extend(folder.below.into_iter().map(|below| (below, run.clone())));
    }
    runs.sort();
    Ok(runs)
}

/// Names the runs below the one at `path`, which its reader leaves out; `None` without any. What cannot be listed is not named.
fn left_out_below(path: &Path) -> Option<String> {
    const SHOWN: usize = 3;
    let folder = path.is_dir().then(|| RunFolder::list(path).ok())??;
    if folder.below.is_empty() || !folder.holds_timelines_of(path) {
        return None;
    }
    let mut runs = find_runs(path, MAX_FOLDERS_TO_NAME_RUNS).ok()?;
    runs.retain(|run| run != path);
    let names: Vec<_> = runs.iter().take(SHOWN).map(|run| run.display().to_string()).collect();
    let more = if runs.len() > SHOWN { ", ..." } else { "" };
    (!runs.is_empty()).then(|| {
        format!(
            "skipped: {} below {}, which holds traces itself: {}{more}; --each reads them, too",
            plural(runs.len(), "run"),
            path.display(),
            names.join(", ")
        )
    })
}

/// The content of a folder, as far as it tells runs.
#[derive(Debug, Default)]
struct RunFolder {
    /// Files that a run may consist of, by their names.
    files: Vec<PathBuf>,
    /// Folders, without links.
    below: Vec<PathBuf>,
    /// The folder contains the directories into which a trainer sorts its traces.
    has_parts: bool,
}

impl RunFolder {
    fn list(folder: &Path) -> io::Result<Self> {
        let unreadable = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        };
        let mut content = Self::default();
        for entry in folder.read_dir().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if is_work_name(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                content.has_parts |= RUN_PARTS.contains(&&*name);
                if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    content.below.push(path);
                }
            } else if RUN_FILES.iter().any(|end| name.ends_with(end)) {
                content.files.push(path);
            }
        }
        Ok(content)
    }

    /// Whether a file is the timeline of a rank. `run` is the folder of the run around it. The reader reports files that
    /// cannot be read.
    fn holds_timelines_of(&self, run: &Path) -> bool {
        self.files.iter().any(|file| is_timeline_of_rank(run, file).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::runs_below;

    #[test]
    #[cfg(unix)]
    fn runs_below_does_not_follow_links() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/rank0.json"), "").unwrap();
        for (link, to) in [("loop", "."), ("again", "."), ("latest", "a")] {
            std::os::unix::fs::symlink(to, root.path().join(link)).unwrap();
        }
        assert_eq!(runs_below(root.path()).unwrap(), [root.path().join("a")]);
    }

    /// Creates files with these contents, and returns the names of the runs among them.
    fn runs_among(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let runs = runs_below(root.path()).unwrap();
        let name = |run: &PathBuf| run.strip_prefix(root.path()).unwrap().display().to_string();
        runs.iter().map(name).collect()
    }

    #[test]
    fn runs_are_directories_with_traces_or_their_parts() {
        let files = [
            ("a/metrics.json.gz", ""),
            ("a/old/rank0.json", ""),
            ("b/c/composer_profiler/ep0-ba1-rank0.json", ""),
            ("b/c/torch_profiler/rank0.json", ""),
            ("b/notes.txt", ""),
            ("d/metrics.jsonl", ""),
            ("e/snapshot.pickle", ""),
            ("f/rank0.pt.trace.json.zst", ""),
            // An incomplete output.
            (".advisor-abcdefghijkl.partial/export/run.json", ""),
        ];
        assert_eq!(runs_among(&files), ["a", "b/c", "d", "e", "f"]);
    }

    #[test]
    fn traces_below_a_run_that_its_reader_leaves_out_are_runs() {
        const TRACE: &str = "{\"traceEvents\": []}";
        let files = [
            ("a/rank0.json", TRACE),
            ("a/capture_traces/rank0.json", TRACE),
            ("a/notes/notes.json", "{}"),
            ("a/notes/old/rank0.json", TRACE),
            ("a/old/rank0.json", TRACE),
            ("a/old/older/rank0.json", TRACE),
            ("a/old/trainer/torch_profiler/rank0.json", TRACE),
            // The reader finds them: the run has no other timelines.
            ("b/config.json", "{}"),
            ("b/traces/rank0.json", TRACE),
        ];
        let runs = ["a", "a/notes/old", "a/old", "a/old/older", "a/old/trainer", "b"];
        assert_eq!(runs_among(&files), runs);
    }
}
