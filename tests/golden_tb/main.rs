//! Our views against what the PyTorch TensorBoard profiler plugin (last source) computed on the corpus.
//!
//! One module a view of the plugin. What differs on purpose is listed in its `EXCEPTIONS` with the reason;
//! an exception that is no longer one fails too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod diff;
mod distributed;
mod kernel;
mod memory;
mod module;
mod operator;
mod overview;
mod recommendations;
#[path = "../support/corpus.rs"]
mod support;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use query::{Params, Range, Selection, Session};
use serde_json::Value as Json;
use support::corpus;

/// The plugin holds times as doubles of microseconds.
pub(crate) const RELATIVE: f64 = 2e-6;
pub(crate) const SLACK_US: f64 = 0.6;

/// One view of the plugin.
struct Area {
    /// What is compared, by a name that exceptions use.
    comparisons: &'static [(&'static str, Compare)],
    /// `(trace, comparison, reason)`.
    exceptions: &'static [(&'static str, &'static str, &'static str)],
    /// At least so many values are compared, or the test proves nothing.
    at_least: usize,
}

enum Compare {
    /// Trace by trace.
    Worker(fn(&Worker, &mut Differences)),
    /// All ranks of a run together.
    Run(fn(&Run, &mut Differences)),
}

/// A folder of the corpus that the plugin could load.
struct Run {
    trace: String,
    /// The traces.
    folder: PathBuf,
    /// The plugin's numbers.
    golden: PathBuf,
}

impl Run {
    /// A file of golden numbers; null if there is none.
    fn golden(&self, file: &str) -> Json {
        let text = std::fs::read(self.golden.join(file)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The workers whose trace is in the corpus. One file a worker, and `|2` is a second file of the same
    /// worker: the corpus may hold only the first.
    fn workers(&self) -> Vec<Worker> {
        let overview = self.golden("overview.json");
        let Some(workers) = overview.as_object() else { return Vec::new() };
        workers
            .iter()
            .filter_map(|(name, worker)| {
                let file = find(&self.folder, worker["trace_file"].as_str()?)?;
                let golden = self.golden.clone();
                let (session, whole) = (OnceCell::new(), OnceCell::new());
                Some(Worker {
                    trace: self.trace.clone(),
                    name: name.clone(),
                    file,
                    golden,
                    session,
                    whole,
                })
            })
            .collect()
    }
}

/// One trace file.
struct Worker {
    trace: String,
    /// The plugin's name of it: `worker0|1`.
    name: String,
    file: PathBuf,
    golden: PathBuf,
    session: OnceCell<Session>,
    whole: OnceCell<Session>,
}

impl Worker {
    /// What a file of golden numbers says about this worker; null if nothing.
    fn golden(&self, file: &str) -> Json {
        let text = std::fs::read(self.golden.join(file)).unwrap_or_default();
        let mut all: Json = serde_json::from_slice(&text).unwrap_or_default();
        all.get_mut(&self.name).map(Json::take).unwrap_or_default()
    }

    fn session(&self) -> &Session {
        self.session.get_or_init(|| session(&self.file))
    }

    /// Without the rule that leaves the last step out: the plugin has no such rule.
    fn whole(&self) -> &Session {
        self.whole.get_or_init(|| {
            let options = ingest::Options::default();
            let dataset = ingest::read_run(&self.file, &options, &ingest::NoProgress).unwrap();
            let everything = Range { first: i64::MIN, last: i64::MAX };
            let selection = Selection { between: Some(everything), ..Selection::default() };
            let tables = selection.apply(&dataset.tables).unwrap();
            Session::new(analyses::catalog(), tables, &Params::default()).unwrap()
        })
    }
}

/// What was compared and what differs.
#[derive(Default)]
struct Differences {
    compared: usize,
    lines: Vec<String>,
}

impl Differences {
    /// `ours` and `theirs` agree within `slack`, or both are absent.
    fn close(&mut self, what: &str, ours: Option<f64>, theirs: Option<f64>, slack: f64) {
        self.check(
            match (ours, theirs) {
                (Some(a), Some(b)) => (a - b).abs() <= slack,
                (a, b) => a.is_none() && b.is_none(),
            },
            || format!("{what}: ours {ours:?}, theirs {theirs:?}"),
        );
    }

    fn check(&mut self, agree: bool, line: impl FnOnce() -> String) {
        self.compared += 1;
        if !agree {
            self.lines.push(line());
        }
    }
}

/// Reads a file or folder. The plugin leaves no step out of its tables.
fn session(path: &Path) -> Session {
    let dataset = ingest::read_run(path, &ingest::Options::default(), &ingest::NoProgress).unwrap();
    let mut params = Params::default();
    params.set("include_last_step", true);
    Session::new(analyses::catalog(), dataset.tables, &params).unwrap()
}

#[test]
fn overview() {
    compare(&overview::AREA);
}

#[test]
fn diff() {
    let Some(corpus) = corpus() else { return };
    let (found, obsolete) = diff::compare(&corpus);
    assert!(found.compared > 2000, "only {} values compared", found.compared);
    let shown = &found.lines[..found.lines.len().min(40)];
    assert!(found.lines.is_empty(), "{} differences: {shown:#?}", found.lines.len());
    assert!(obsolete.is_empty(), "agree now, remove the exceptions: {obsolete:?}");
}

#[test]
fn memory() {
    compare(&memory::AREA);
}

#[test]
fn operators() {
    compare(&operator::AREA);
}

#[test]
fn modules() {
    compare(&module::AREA);
}

#[test]
fn kernel() {
    compare(&kernel::AREA);
}

#[test]
fn recommendations() {
    compare(&recommendations::AREA);
}

#[test]
fn distributed() {
    compare(&distributed::AREA);
}

fn compare(area: &Area) {
    let Some(corpus) = corpus() else { return };
    let mut compared = 0;
    let mut differences: Vec<(String, &str, String)> = Vec::new();
    for run in runs(&corpus) {
        let workers = run.workers();
        for (name, compare) in area.comparisons {
            let mut found = Differences::default();
            match compare {
                Compare::Worker(compare) => {
                    for worker in &workers {
                        compare(worker, &mut found);
                    }
                }
                Compare::Run(compare) => compare(&run, &mut found),
            }
            compared += found.compared;
            let lines = found.lines.into_iter();
            differences.extend(lines.map(|line| (run.trace.clone(), *name, line)));
        }
    }
    assert!(compared >= area.at_least, "only {compared} values compared: is the corpus complete?");

    let excused: BTreeSet<(&str, &str)> = area.exceptions.iter().map(|&(t, v, _)| (t, v)).collect();
    let found: BTreeSet<(&str, &str)> =
        differences.iter().map(|(t, v, _)| (t.as_str(), *v)).collect();
    let unexpected: Vec<_> =
        differences.iter().filter(|(t, v, _)| !excused.contains(&(t.as_str(), *v))).collect();
    let shown = &unexpected[..unexpected.len().min(40)];
    assert!(unexpected.is_empty(), "{} differences: {shown:#?}", unexpected.len());
    let obsolete: Vec<_> = excused.difference(&found).collect();
    assert!(obsolete.is_empty(), "agree now, remove the exceptions: {obsolete:?}");
}

/// Folders that hold the plugin's numbers and whose traces are there; not those of the released wheel.
fn runs(corpus: &Path) -> Vec<Run> {
    let golden = corpus.join("golden/tb_plugin");
    let mut found = Vec::new();
    let mut folders = vec![golden.clone()];
    while let Some(folder) = folders.pop() {
        if folder.join("gpu_metrics.json").is_file() {
            let trace = folder.strip_prefix(&golden).unwrap().to_string_lossy().into_owned();
            let traces = corpus.join("traces").join(&trace);
            if traces.is_dir() {
                found.push(Run { trace, folder: traces, golden: folder });
            }
            continue;
        }
        let entries = std::fs::read_dir(&folder).unwrap();
        folders.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.is_dir()));
    }
    found.sort_by(|a, b| a.trace.cmp(&b.trace));
    found
}

/// The trace of a worker. The plugin was given some traces under names it accepts.
fn find(run: &Path, file: &str) -> Option<PathBuf> {
    let exact = run.join(file);
    if exact.is_file() {
        return Some(exact);
    }
    let files: Vec<PathBuf> = std::fs::read_dir(run).ok()?.map(|e| e.unwrap().path()).collect();
    match files.as_slice() {
        [only] if !file.contains("worker0.16") => Some(only.clone()),
        _ => None,
    }
}
