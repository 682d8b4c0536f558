//! Our views against what the PyTorch TensorBoard profiler plugin (last source) computed on the corpus.
//!
//! One module per view of the plugin. Intended differences are listed in its exceptions with the reason; a test
//! whose exception is not needed any more fails too.

mod diff;
mod distributed;
mod kernel;
mod memory;
mod module;
mod operator;
mod overview;
mod recommendations;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::harness::{self, Case, first_lines};
use crate::runs::{self, SharedRun, Views};
use crate::support::corpus::corpus;

/// The plugin holds times as doubles of microseconds.
pub(crate) const RELATIVE: f64 = 2e-6;
pub(crate) const SLACK_US: f64 = 0.6;

/// One view of the plugin.
struct Area {
    /// Its name in the names of tests.
    name: &'static str,
    /// The plugin's numbers.
    golden: &'static str,
    /// The comparisons, by a name that exceptions use.
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

const AREAS: [&Area; 7] = [
    &distributed::AREA,
    &kernel::AREA,
    &memory::AREA,
    &module::AREA,
    &operator::AREA,
    &overview::AREA,
    &recommendations::AREA,
];

/// A folder of the corpus that the plugin could load.
#[derive(Clone)]
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
                Some(Worker {
                    trace: self.trace.clone(),
                    name: name.clone(),
                    path: run_of(&file),
                    file,
                    golden: self.golden.clone(),
                    run: OnceLock::new(),
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
    /// The path by which the trace is opened, see [`run_of`].
    path: PathBuf,
    golden: PathBuf,
    run: OnceLock<Arc<SharedRun>>,
}

impl Worker {
    /// The part of a file of golden numbers about this worker; null if there is none.
    fn golden(&self, file: &str) -> Json {
        let text = std::fs::read(self.golden.join(file)).unwrap_or_default();
        let mut all: Json = serde_json::from_slice(&text).unwrap_or_default();
        all.get_mut(&self.name).map(Json::take).unwrap_or_default()
    }

    fn run(&self) -> &SharedRun {
        self.run.get_or_init(|| runs::open_path(&self.path))
    }

    /// The plugin leaves no step out of its tables.
    fn views(&self) -> &Views {
        self.run().views_with_last_step()
    }

    /// Views over the whole recording: in some tables the plugin does not look at steps at all.
    fn views_of_recording(&self) -> &Views {
        self.run().views_of_recording()
    }
}

/// The path by which a trace is opened: that of its folder if there is nothing else in it, so that all suites
/// share the run.
fn run_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap();
    let is_alone = std::fs::read_dir(folder).unwrap().count() == 1;
    if is_alone { folder.to_owned() } else { file.to_owned() }
}

/// The number of compared values, and the differences.
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

/// One test per trace and view of the plugin.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = diff::cases();
    let mut names = BTreeSet::new();
    for run in folders(&corpus()) {
        for area in AREAS {
            if run.golden(area.golden).is_null() {
                continue;
            }
            names.insert((run.trace.clone(), area.name));
            let of = run.clone();
            cases.push(Case::of_trace(&run.trace, area.name, move || compare(&of, area)));
        }
    }
    for area in AREAS {
        harness::require(&compared(area.name), area.at_least);
    }
    cases.push(Case::new("exceptions_name_existing_tests", move || {
        for area in AREAS {
            for (trace, name, _) in area.exceptions {
                let is_compared = area.comparisons.iter().any(|(comparison, _)| comparison == name);
                let is_test = is_compared && names.contains(&((*trace).to_owned(), area.name));
                let area = area.name;
                assert!(
                    is_test,
                    "no test compares {name} in {trace}::{area}: remove the exception"
                );
            }
        }
    }));
    cases
}

fn compared(area: &str) -> String {
    format!("tensorboard: {area}")
}

fn compare(run: &Run, area: &Area) {
    let workers = run.workers();
    let trace = &run.trace;
    let mut report = String::new();
    for (name, compare) in area.comparisons {
        let mut found = Differences::default();
        match compare {
            Compare::Worker(compare) => {
                for worker in &workers {
                    compare(worker, &mut found);
                }
            }
            Compare::Run(compare) => compare(run, &mut found),
        }
        harness::count(&compared(area.name), found.compared);
        let is_excused = area.exceptions.iter().any(|(t, n, _)| t == trace && n == name);
        match (found.lines.len(), is_excused) {
            (0, true) => {
                writeln!(report, "{trace} {name} agrees now: remove the exception").unwrap();
            }
            (0, false) | (_, true) => {}
            (count, false) => {
                let lines = first_lines(&found.lines);
                write!(report, "{trace} {name}, {count} differences:\n{lines}").unwrap();
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// Folders that hold the plugin's numbers and whose traces are there; not those of the released wheel.
fn folders(corpus: &Path) -> Vec<Run> {
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
