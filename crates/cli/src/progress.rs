//! A progress line on stderr: only on a terminal, and only for work that takes more than a second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use trace_advisor::ingest::Progress;

use crate::render::sanitize::sanitize;

/// Time that passes before progress is shown.
const DELAY: Duration = Duration::from_secs(1);

/// Shows the progress of reading a run.
pub(crate) struct ReadProgress {
    line: ProgressBar,
    started: Instant,
    shown: OnceLock<()>,
    is_enabled: bool,
    /// Size of all files as stored.
    file_bytes: AtomicU64,
}

impl ReadProgress {
    /// A progress line that stays hidden unless `is_enabled`.
    pub(crate) fn new(is_enabled: bool) -> Self {
        let style = ProgressStyle::with_template(
            "{spinner} reading {msg}: {bytes} of JSON, {bytes_per_sec}{prefix}",
        )
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let file_bytes = AtomicU64::new(0);
        Self { line, started: Instant::now(), shown: OnceLock::new(), is_enabled, file_bytes }
    }

    /// Removes the line for good, so that other output can follow.
    pub(crate) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

impl Drop for ReadProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress for ReadProgress {
    fn begin(&self, files: usize, file_bytes: u64) {
        self.file_bytes.store(file_bytes, Ordering::Relaxed);
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        self.line.set_message(files);
    }

    fn advance(&self, json_bytes: u64) {
        self.line.inc(json_bytes);
        if self.is_enabled && self.started.elapsed() >= DELAY {
            self.shown.get_or_init(|| self.line.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }

    fn file_done(&self, file: &str) {
        self.line.set_message(sanitize(file).into_owned());
    }

    fn received(&self, bytes: u64) {
        let of = self.file_bytes.load(Ordering::Relaxed);
        // The start of each file is read before the whole file, so slightly more may arrive.
        let text = format!("; {} of {} downloaded", HumanBytes(bytes.min(of)), HumanBytes(of));
        self.line.set_prefix(text);
        self.advance(0);
    }
}
