//! A progress line on stderr: only on a terminal, and only for work that lasts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use trace_advisor::ingest::Progress;

use crate::render::clean::clean;

/// How long work may take before it is worth showing.
const QUIET: Duration = Duration::from_secs(1);

/// Shows how reading goes on.
pub(crate) struct Bar {
    line: ProgressBar,
    started: Instant,
    shown: OnceLock<()>,
    wanted: bool,
    /// Bytes of all files as they are stored.
    file_bytes: AtomicU64,
}

impl Bar {
    /// A bar that shows nothing unless `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        let style = ProgressStyle::with_template(
            "{spinner} reading {msg}: {bytes} of JSON, {bytes_per_sec}{prefix}",
        )
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let file_bytes = AtomicU64::new(0);
        let (started, shown) = (Instant::now(), OnceLock::new());
        Self { line, started, shown, wanted, file_bytes }
    }

    /// Removes the line, so that other output can follow.
    pub(crate) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begin(&self, files: usize, file_bytes: u64) {
        self.file_bytes.store(file_bytes, Ordering::Relaxed);
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        self.line.set_message(files);
    }

    fn advance(&self, json_bytes: u64) {
        self.line.inc(json_bytes);
        if self.wanted && self.started.elapsed() >= QUIET {
            self.shown.get_or_init(|| self.line.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }

    fn file_done(&self, file: &str) {
        self.line.set_message(clean(file).into_owned());
    }

    fn received(&self, bytes: u64) {
        let of = self.file_bytes.load(Ordering::Relaxed);
        // Beginnings are looked at before the whole, so there may be a little more.
        let text = format!("; {} of {} received", HumanBytes(bytes.min(of)), HumanBytes(of));
        self.line.set_prefix(text);
        self.advance(0);
    }
}
