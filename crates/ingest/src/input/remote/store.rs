//! A store, asked from threads that wait for the answer.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use futures::StreamExt as _;
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::{Builder, Runtime};

use super::error::StoreError;
use super::object::Object;
use crate::error::{Error, StoreProblem};
use crate::storage::{Entry, File};

/// A folder with more objects than this is not a run.
const MAX_OBJECTS: usize = 20_000;

/// A store, and the threads that talk to it.
pub(crate) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// Bytes that came so far.
    received: AtomicU64,
    /// Parts of large objects on their way.
    pub(super) parts: AtomicUsize,
    /// There until the end.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waits for nobody, so that it may be dropped anywhere.
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
                // Nobody waits any more if it cannot be sent.
                let _ = send.send(work.await);
            })
        });
        Pending { receive, abort: task.map(|task| task.abort_handle()) }
    }

    pub(super) fn count(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that came so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// Work that was started; given up if nobody wants it any more.
#[derive(Debug)]
pub(super) struct Pending<T> {
    receive: mpsc::Receiver<Result<T, StoreError>>,
    abort: Option<tokio::task::AbortHandle>,
}

impl<T> Pending<T> {
    /// Waits for what comes of it.
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

/// A folder in a store.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(super) store: Arc<Store>,
    pub(super) path: Path,
    /// Its address, without secrets.
    pub(super) shown: String,
}

impl Folder {
    /// The objects and folders in a folder of this one, in order of their names.
    pub(crate) fn list(&self, folder: &Self) -> Result<(Vec<Entry>, Vec<Self>), Error> {
        let (objects, path) = (self.store.objects.clone(), folder.path.clone());
        let listed =
            self.store.start(async move { Ok(objects.list_with_delimiter(Some(&path)).await?) });
        let listed = listed.wait().map_err(|error| error.at(self.shown.clone()))?;
        // An object of the name of the folder stands for it in some stores.
        let mut metas: Vec<_> =
            listed.objects.into_iter().filter(|meta| meta.location != folder.path).collect();
        if metas.len() > MAX_OBJECTS {
            let message =
                format!("the folder has {} objects: give the folder of one run", metas.len());
            return Err(StoreError::new(StoreProblem::Unsupported, message).at(self.shown.clone()));
        }
        if metas.is_empty() && listed.common_prefixes.is_empty() && folder.path == self.path {
            let message = "there is neither an object nor a folder of this name";
            return Err(StoreError::new(StoreProblem::NotFound, message).at(self.shown.clone()));
        }
        metas.sort_by(|a, b| a.location.cmp(&b.location));
        let below = self.path.as_ref();
        let files = metas.into_iter().map(|meta| {
            let key = meta.location.as_ref();
            let name = key.strip_prefix(below).unwrap_or(key).trim_start_matches('/').to_owned();
            let object = Object::listed(&self.store, meta.location, meta.size);
            Entry { file: File::Remote(object), name, bytes: meta.size }
        });
        let folder = |path| Self { store: self.store.clone(), path, shown: self.shown.clone() };
        Ok((files.collect(), listed.common_prefixes.into_iter().map(folder).collect()))
    }

    /// An object of this folder, by its name below it.
    pub(crate) fn object(&self, name: &str) -> Result<Object, Error> {
        let shown = || format!("{}/{name}", self.shown.trim_end_matches('/'));
        let key = format!("{}/{name}", self.path);
        let path = Path::parse(key)
            .map_err(|e| StoreError::new(StoreProblem::Unsupported, e.to_string()).at(shown()))?;
        Object::open(&self.store, &path).map_err(|error| error.at(shown()))
    }
}

/// Several pieces of work at once; what comes of them, in their order.
pub(super) fn all<T: Send + 'static>(
    store: &Store,
    work: Vec<impl Future<Output = T> + Send + 'static>,
) -> Result<Vec<T>, StoreError> {
    let at_once = work.len().max(1);
    store
        .start(async move { Ok(futures::stream::iter(work).buffered(at_once).collect().await) })
        .wait()
}
