//! The runs that paths on the command line stand for: one of several files, or one of several in a directory.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use anstyle::Style;
use anyhow::Context as _;
use trace_advisor::ingest::{Location, is_below, is_work_name, stated_rank};
use trace_advisor::trace_model::Warning;
use trace_advisor::{Error, Run};

use crate::args::ReadArgs;
use crate::console::Console;
use crate::diagnostics::{print_error, several_runs, with_help};
use crate::exit::Exit;
use crate::messages::print_warnings;
use crate::render::sanitize::sanitize;
use crate::run::{finish_without_warnings, open_for_query};

/// Directories that trainers create inside the directory of a run, one per kind of file.
const RUN_PARTS: [&str; 2] = ["composer_profiler", "torch_profiler"];

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

/// Refuses a directory among the runs below `root`: what is written there would be one of them.
pub(crate) fn require_outside(root: &Path, to: &Path) -> anyhow::Result<()> {
    let is_among = || is_below(to, root).is_ok_and(|is_below| is_below);
    if root.is_dir() && is_among() && each_below(root)? != [root] {
        let message =
            format!("{} would become one of the runs in {}", to.display(), root.display());
        return Err(with_help(message, "write to a directory outside of it"));
    }
    Ok(())
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

/// The directory below `output` for what is written about the run at `path`, which is at or below `root`.
pub(crate) fn output_of_run(output: &Path, root: &Path, path: &Path) -> PathBuf {
    let Ok(name) = path.strip_prefix(root) else { return output.to_owned() };
    let name = name.to_string_lossy();
    let stem = [".gz", ".json", ".jsonl"]
        .iter()
        .fold(&*name, |name, ending| name.strip_suffix(ending).unwrap_or(name));
    // A run may be a pattern of files.
    output.join(stem.replace(['*', '?', '[', ']'], "_"))
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
/// into which a trainer sorts them; everything below a run is part of it. Links to directories are not followed: they
/// would read runs twice, or never end.
///
/// # Errors
/// The first directory that cannot be listed.
pub fn runs_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut below = Vec::new();
        let mut is_run = false;
        let unreadable = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        };
        for entry in folder.read_dir().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if is_work_name(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if path.is_dir() {
                is_run |= RUN_PARTS.contains(&&*name);
                if !is_link {
                    below.push(path);
                }
            } else {
                is_run |= [".json", ".json.gz", ".jsonl"].iter().any(|end| name.ends_with(end));
            }
        }
        if is_run {
            runs.push(folder);
        } else {
            folders.extend(below);
        }
    }
    runs.sort();
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[test]
    fn runs_below_stops_at_directories_with_traces() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "a/rank0.json.gz",
            "a/old/rank0.json",
            "b/c/composer_profiler/ep0-ba1-rank0.json",
            "b/c/torch_profiler/rank0.json",
            "b/notes.txt",
            "d/metrics.jsonl",
            // An incomplete output.
            ".advisor-abcdefghijkl.partial/export/run.json",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let runs = runs_below(root.path()).unwrap();
        let names: Vec<_> = runs.iter().map(|r| r.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(
            names.iter().map(|n| n.to_str().unwrap()).collect::<Vec<_>>(),
            ["a", "b/c", "d"]
        );
    }
}
