//! A progress line on stderr: only on a terminal, and only for work that takes more than a second.

use std::fmt::{self, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use trace_advisor::ingest::{FileWork, Progress};
use trace_advisor::query::ViewProgress;

/// Time that passes before progress is shown.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Time that a stage has to take before its end is estimated.
const MIN_ESTIMATED: Duration = Duration::from_millis(500);

/// A stage of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Files are read.
    Read,
    /// Files are converted to Parquet.
    Convert,
    /// Views are computed.
    Compute,
    /// Files are copied, with additions.
    Copy,
    /// Files are merged into one.
    Merge,
    /// Traces are generated.
    Generate,
    /// Runs are checked.
    Check,
}

impl Stage {
    /// Stages of commands that read a run and compute views.
    pub(crate) const QUERY: &'static [Self] = &[Self::Read, Self::Compute];

    /// Stages of commands that read two runs and compare them.
    pub(crate) const DIFF: &'static [Self] = &[Self::Read, Self::Read, Self::Compute];

    fn verb(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Convert => "converting",
            Self::Compute => "computing",
            Self::Copy => "copying",
            Self::Merge => "merging",
            Self::Generate => "generating",
            Self::Check => "checking",
        }
    }

    /// The items that the stage counts, singular and plural.
    fn items(self) -> (&'static str, &'static str) {
        match self {
            Self::Read | Self::Convert | Self::Copy | Self::Merge => ("file", "files"),
            Self::Compute => ("view", "views"),
            Self::Generate => ("trace", "traces"),
            Self::Check => ("run", "runs"),
        }
    }
}

/// What is being done, and how much of it is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// `reading`, `computing`, ...
    pub stage: &'static str,
    /// Items of the stage that are done.
    pub done: usize,
    /// Items of the stage; 0 if unknown.
    pub total: usize,
    /// The kind of items: `files`, `views`.
    pub unit: &'static str,
    /// The part of the stage that is done, from 0 to 1; `None` if nothing is known about it.
    pub ratio: Option<f64>,
}

/// A progress line, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    tracker: Arc<Tracker>,
    bar: ProgressBar,
    /// Shows the line after [`DELAY`], unless this is dropped first.
    starter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ProgressLine {
    /// A line for work in these stages. It stays hidden unless `is_enabled`.
    pub(crate) fn new(stages: &'static [Stage], is_enabled: bool) -> Self {
        let tracker = Arc::new(Tracker::new(stages));
        let shown = Arc::clone(&tracker);
        let text = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&shown.text());
        };
        let style = ProgressStyle::with_template("{spinner} {progress}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            .with_style(style.with_key("progress", text));
        let starter = is_enabled.then(|| {
            let (sender, receiver) = mpsc::channel();
            let bar = bar.clone();
            let start = move || {
                if receiver.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(FRAME);
                }
            };
            (sender, std::thread::spawn(start))
        });
        Self { tracker, bar, starter }
    }

    /// The receiver of progress with files.
    pub(crate) fn files(&self) -> &dyn Progress {
        self.tracker.as_ref()
    }

    /// The receiver of progress with views.
    pub(crate) fn views(&self) -> Arc<dyn ViewProgress> {
        Arc::clone(&self.tracker) as _
    }

    /// What is being done now; `None` before the first stage.
    pub(crate) fn current(&self) -> Option<Work> {
        let stage = self.tracker.stage()?;
        let state = *self.tracker.state();
        let (done, total) = (state.done.min(state.items), state.items);
        let unit = stage.items().1;
        Some(Work { stage: stage.verb(), done, total, unit, ratio: state.ratio() })
    }

    /// Starts a stage of which only items are counted.
    pub(crate) fn count(&self, stage: Stage, items: usize) {
        self.tracker.start(stage);
        self.tracker.state().items += items;
    }

    /// Starts a stage with files.
    pub(crate) fn start(&self, stage: Stage) {
        self.tracker.start(stage);
    }

    /// An item is done.
    pub(crate) fn item_done(&self) {
        self.tracker.state().done += 1;
    }

    /// Hides the line while something else is printed.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.starter.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Counts what is done.
#[derive(Debug)]
struct Tracker {
    stages: &'static [Stage],
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Position of the stage; `None` before the first one.
    stage: Option<usize>,
    started: Instant,
    items: usize,
    done: usize,
    /// Bytes of the text of all files, and of what was read of it. Zero in stages without files.
    text_bytes: u64,
    read_bytes: u64,
    /// Bytes of all files as stored, and of what was received over a network.
    file_bytes: u64,
    received_bytes: u64,
}

impl State {
    fn at(stage: Option<usize>) -> Self {
        Self {
            stage,
            started: Instant::now(),
            items: 0,
            done: 0,
            text_bytes: 0,
            read_bytes: 0,
            file_bytes: 0,
            received_bytes: 0,
        }
    }

    /// The part of the stage that is done; `None` if nothing is known about it.
    fn ratio(&self) -> Option<f64> {
        let (done, all) = if self.received_bytes > 0 {
            (self.received_bytes as f64, self.file_bytes as f64)
        } else if self.text_bytes > 0 {
            (self.read_bytes as f64, self.text_bytes as f64)
        } else {
            (self.done as f64, self.items as f64)
        };
        // The size of text may be an estimate: what is not done is never shown as done.
        let most = if self.done < self.items { 0.99 } else { 1.0 };
        (all > 0.0).then(|| (done / all).min(most))
    }
}

impl Tracker {
    fn new(stages: &'static [Stage]) -> Self {
        Self { stages, state: Mutex::new(State::at(None)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stage: the next one of this kind, else the last one.
    fn start(&self, stage: Stage) {
        let mut state = self.state();
        let next = state.stage.map_or(0, |at| at + 1);
        let found = self.stages.iter().enumerate().skip(next).find(|(_, s)| **s == stage);
        if let Some((at, _)) = found {
            *state = State::at(Some(at));
        }
    }

    fn stage(&self) -> Option<Stage> {
        self.state().stage.map(|at| self.stages[at])
    }

    fn text(&self) -> String {
        let state = *self.state();
        self.text_after(&state, state.started.elapsed())
    }

    /// `[1/2] reading 23 of 64 files, 45 %, 225 MiB/s, ETA 8 s`.
    fn text_after(&self, state: &State, elapsed: Duration) -> String {
        let Some(at) = state.stage else { return "working".to_owned() };
        let stage = self.stages[at];
        let mut text = match self.stages.len() {
            1 => String::new(),
            count => format!("[{}/{count}] ", at + 1),
        };
        text.push_str(stage.verb());
        let (one, many) = stage.items();
        let _ = match state.items {
            0 => Ok(()),
            1 => write!(text, " 1 {one}"),
            items => write!(text, " {} of {items} {many}", state.done.min(items)),
        };
        let ratio = state.ratio();
        let seconds = elapsed.as_secs_f64();
        if state.text_bytes > 0 {
            let percent = ratio.unwrap_or_default() * 100.0;
            let rate = (state.read_bytes as f64 / seconds.max(1e-3)) as u64;
            let _ = write!(text, ", {percent:.0} %, {}/s", HumanBytes(rate));
        }
        if state.received_bytes > 0 {
            // The start of each file is read before the whole file, so slightly more may arrive.
            let received = HumanBytes(state.received_bytes.min(state.file_bytes));
            let _ = write!(text, ", {received} of {} downloaded", HumanBytes(state.file_bytes));
        }
        if let Some(ratio) = ratio.filter(|ratio| *ratio > 0.01 && *ratio < 1.0)
            && elapsed >= MIN_ESTIMATED
        {
            let left = seconds * (1.0 - ratio) / ratio;
            let _ = write!(text, ", ETA {}", duration(left));
        }
        text
    }
}

/// `8 s`, `2 min 5 s`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

impl Progress for Tracker {
    fn begin(&self, work: FileWork) {
        // Files are read first, unless the command has started another stage.
        let is_started =
            self.stage().is_some_and(|stage| stage != Stage::Compute) && self.state().items == 0;
        if !is_started && let Some(first) = self.stages.first() {
            self.start(*first);
        }
        let FileWork { files, file_bytes, json_bytes } = work;
        let mut state = self.state();
        (state.items, state.file_bytes, state.text_bytes) = (files, file_bytes, json_bytes);
    }

    fn advance(&self, json_bytes: u64) {
        self.state().read_bytes += json_bytes;
    }

    fn file_done(&self, _: &str) {
        self.state().done += 1;
    }

    fn received(&self, bytes: u64) {
        self.state().received_bytes = bytes;
    }
}

impl ViewProgress for Tracker {
    fn planned(&self, views: usize) {
        if views > 0 && self.stage() != Some(Stage::Compute) {
            self.start(Stage::Compute);
        }
        if self.stage() == Some(Stage::Compute) {
            self.state().items += views;
        }
    }

    fn computed(&self, _: &str) {
        if self.stage() == Some(Stage::Compute) {
            self.state().done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tracker: &Tracker, seconds: u64) -> String {
        tracker.text_after(&tracker.state(), Duration::from_secs(seconds))
    }

    #[test]
    fn line_shows_count_percent_rate_and_eta() {
        let tracker = Tracker::new(Stage::QUERY);
        let work = FileWork { files: 64, file_bytes: 100 << 20, json_bytes: 4000 << 20 };
        tracker.begin(work);
        assert_eq!(text(&tracker, 0), "[1/2] reading 0 of 64 files, 0 %, 0 B/s");
        tracker.advance(1000 << 20);
        (0..23).for_each(|_| tracker.file_done("a"));
        let line = "[1/2] reading 23 of 64 files, 25 %, 250.00 MiB/s, ETA 12 s";
        assert_eq!(text(&tracker, 4), line);

        tracker.planned(80);
        assert_eq!(text(&tracker, 1), "[2/2] computing 0 of 80 views");
        (0..20).for_each(|_| tracker.computed("v"));
        tracker.planned(20);
        assert_eq!(text(&tracker, 30), "[2/2] computing 20 of 100 views, ETA 2 min 0 s");
    }

    #[test]
    fn line_of_remote_files_counts_what_was_received() {
        let tracker = Tracker::new(&[Stage::Convert]);
        tracker.begin(FileWork { files: 1, file_bytes: 40 << 20, json_bytes: 640 << 20 });
        tracker.received(10 << 20);
        tracker.advance(30 << 20);
        let line =
            "converting 1 file, 25 %, 15.00 MiB/s, 10.00 MiB of 40.00 MiB downloaded, ETA 6 s";
        assert_eq!(text(&tracker, 2), line);
        // Estimates of the size may be too low.
        tracker.received(50 << 20);
        assert!(text(&tracker, 2).contains(", 99 %, "), "{}", text(&tracker, 2));
    }

    #[test]
    fn stages_follow_each_other() {
        let work = FileWork { files: 2, file_bytes: 0, json_bytes: 10 };
        let tracker = Tracker::new(&[Stage::Read, Stage::Read, Stage::Compute]);
        for stage in ["[1/3] reading", "[2/3] reading"] {
            tracker.begin(work);
            assert!(text(&tracker, 0).starts_with(stage), "{}", text(&tracker, 0));
        }
        // A run that is read from the cache has no files to report.
        let tracker = Tracker::new(&[Stage::Read, Stage::Compute, Stage::Copy]);
        tracker.planned(3);
        assert_eq!(text(&tracker, 0), "[2/3] computing 0 of 3 views");
        tracker.start(Stage::Copy);
        tracker.begin(work);
        tracker.planned(1);
        assert_eq!(text(&tracker, 0), "[3/3] copying 0 of 2 files, 0 %, 0 B/s");
    }

    #[test]
    fn hidden_line_ends_without_waiting() {
        let started = Instant::now();
        drop(ProgressLine::new(Stage::QUERY, true));
        assert!(started.elapsed() < DELAY);
    }
}
