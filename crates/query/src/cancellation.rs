//! Ends queries before they are done.

use std::future::Future;

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
