//! A store with blocking requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use futures::StreamExt as _;
use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};

use crate::error::{StoreError, StoreProblem};

/// Bytes requested at a time.
pub(super) const PART_BYTES: u64 = 8 << 20;

/// A store, and the threads that run its requests.
pub(crate) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// Bytes received so far.
    received: AtomicU64,
    /// Parts of large objects in flight.
    pub(super) parts: AtomicUsize,
    /// Present until the store is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Does not wait, so that a store may be dropped on any thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store {
    pub(super) fn new(objects: Arc<dyn ObjectStore>) -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(|e| StoreError::new(StoreProblem::Other, e.to_string()))?;
        Ok(Self {
            objects,
            received: AtomicU64::new(0),
            parts: AtomicUsize::new(0),
            runtime: Some(runtime),
        })
    }

    /// Starts work on the threads of the store.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<T> {
        let (send, receive) = mpsc::sync_channel(1);
        let task = self.runtime.as_ref().map(|runtime| {
            runtime.spawn(async move {
                // If sending fails, the receiver was dropped.
                let _ = send.send(work.await);
            })
        });
        Pending { receive, abort: task.map(|task| task.abort_handle()) }
    }

    pub(super) fn count(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// Work that was started; aborted when dropped.
#[derive(Debug)]
pub(super) struct Pending<T> {
    receive: mpsc::Receiver<Result<T, StoreError>>,
    abort: Option<tokio::task::AbortHandle>,
}

impl<T> Pending<T> {
    /// Waits for the result.
    pub(super) fn wait(self) -> Result<T, StoreError> {
        self.receive
            .recv()
            .unwrap_or_else(|_| Err(StoreError::new(StoreProblem::Other, "reading was given up")))
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }
}

/// Runs several requests at once; their results are in the same order.
pub(super) fn all<T: Send + 'static>(
    store: &Store,
    work: Vec<impl Future<Output = T> + Send + 'static>,
) -> Result<Vec<T>, StoreError> {
    let at_once = work.len().max(1);
    store
        .start(async move { Ok(futures::stream::iter(work).buffered(at_once).collect().await) })
        .wait()
}
