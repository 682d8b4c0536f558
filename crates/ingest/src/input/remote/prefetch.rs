//! Small objects are fetched before their turn, so that many of them take no longer than a large one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use super::object::Object;
use crate::Progress;

/// Objects on their way before their turn; each of a part's length at most.
const OBJECTS_AHEAD: usize = 16;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// The numbers of objects in their order, those that follow being fetched meanwhile.
pub(crate) fn ahead(objects: Vec<&Object>) -> impl Iterator<Item = usize> + Send + '_ {
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

/// Does work, and tells how many bytes came from the store of an object meanwhile.
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
        let _end = End { done: &done, watcher: watcher.thread() };
        work()
    })
}

/// Ends the watching when it goes.
struct End<'a> {
    done: &'a AtomicBool,
    watcher: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.unpark();
    }
}
