//! Prefetches small objects, so that many of them take no longer than a large one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use super::object::Object;
use crate::options::Progress;

/// Objects that are prefetched; each at most one part long.
const OBJECTS_AHEAD: usize = 16;
/// Interval of progress notifications.
const TICK: Duration = Duration::from_millis(100);

/// Iterates over the positions of the objects, in order, and prefetches the next ones.
pub(crate) fn prefetch(objects: Vec<&Object>) -> impl Iterator<Item = usize> + Send + '_ {
    let mut started = 0;
    (0..objects.len()).inspect(move |at| {
        let end = (at + OBJECTS_AHEAD).min(objects.len());
        for object in &objects[started.max(*at)..end] {
            if object.is_small() {
                object.fetch_ahead();
            }
        }
        started = end;
    })
}

/// Does `work`, and meanwhile reports the bytes received from the store of `object`.
pub(crate) fn watch<T>(object: &Object, progress: &dyn Progress, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    let store = object.store();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                progress.received(store.received());
                thread::park_timeout(TICK);
            }
        });
        // Also if the work panics: the scope waits for the watcher.
        let _end = StopWatcher { done: &done, watcher: watcher.thread() };
        work()
    })
}

/// Stops the watcher when dropped.
struct StopWatcher<'a> {
    done: &'a AtomicBool,
    watcher: &'a Thread,
}

impl Drop for StopWatcher<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.unpark();
    }
}
