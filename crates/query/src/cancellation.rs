//! Ends queries before they are done.

use std::future::Future;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

/// Cancels the queries that it is passed to. Clones cancel the same queries.
#[derive(Debug, Clone)]
pub struct Cancellation(watch::Sender<bool>);

impl Cancellation {
    /// One that has not been requested yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Cancels the queries, those that start later included.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether the queries are to end.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the queries are to end.
    pub(crate) fn requested(&self) -> impl Future<Output = ()> + use<> {
        let sender = self.0.clone();
        async move {
            // It cannot fail: the sender lives as long as this future.
            let _ = sender.subscribe().wait_for(|is_requested| *is_requested).await;
        }
    }
}

impl Default for Cancellation {
    fn default() -> Self {
        Self::new()
    }
}

/// Cancels a query after a while. A thread of its own keeps the time: all others may be busy.
pub(crate) struct Timer {
    pub(crate) expiry: Cancellation,
    /// Ends the thread when it is dropped.
    _stop: mpsc::Sender<()>,
}

impl Timer {
    pub(crate) fn start(after: Duration) -> io::Result<Self> {
        Self::start_for(Cancellation::new(), after)
    }

    /// As [`Timer::start`], for a query that others may cancel, too.
    pub(crate) fn start_for(expiry: Cancellation, after: Duration) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let expired = expiry.clone();
        thread::Builder::new().name("timer".to_owned()).spawn(move || {
            if stopped.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                expired.cancel();
            }
        })?;
        Ok(Self { expiry, _stop: stop })
    }
}
