//! Ctrl-C cancels the query that runs, not the shell.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use trace_advisor::query::Cancellation;

use crate::interrupt::do_instead;

/// Time that a query runs before the shell says so.
const DELAY: Duration = Duration::from_secs(1);

/// Passes Ctrl-C on to what runs. At the prompt, Ctrl-C is a key like any other.
pub(super) struct Interrupts {
    running: Arc<Mutex<Option<Cancellation>>>,
}

impl Interrupts {
    /// From now on, Ctrl-C no longer ends the process.
    pub(super) fn install() -> anyhow::Result<Self> {
        let running = Arc::new(Mutex::new(None::<Cancellation>));
        let interrupted = Arc::clone(&running);
        do_instead(move || {
            if let Some(query) = &*interrupted.lock().unwrap_or_else(PoisonError::into_inner) {
                query.cancel();
            }
        })
        .context("cannot handle Ctrl-C")?;
        Ok(Self { running })
    }

    /// Runs something that Ctrl-C cancels.
    pub(super) fn cancel_during<T>(&self, run: impl FnOnce(&Cancellation) -> T) -> T {
        let cancellation = Cancellation::new();
        self.set_running(Some(cancellation.clone()));
        let outcome = run(&cancellation);
        self.set_running(None);
        outcome
    }

    fn set_running(&self, cancellation: Option<Cancellation>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = cancellation;
    }
}

/// Runs a query, and says so on stderr if it takes long.
pub(super) fn show_while_running<T>(run: impl FnOnce() -> T) -> T {
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Nothing is sent: the sender is dropped when the query ends.
            if end.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                let line = progress_line();
                let _ = end.recv();
                line.finish_and_clear();
            }
        });
        let outcome = run();
        drop(ended);
        outcome
    })
}

fn progress_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} running for {elapsed}; Ctrl-C cancels");
    let line = ProgressBar::new_spinner();
    line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let line = line.with_elapsed(DELAY);
    line.enable_steady_tick(Duration::from_millis(100));
    line
}
