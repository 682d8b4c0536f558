//! Computes parts of the page at the same time; one by one if the run is not in memory, where each may use all of it.

use std::panic::resume_unwind;
use std::thread::{ScopedJoinHandle, scope};

use trace_advisor::{Error, Run};

/// A part of the page.
pub(crate) type Task<'a, T> = Box<dyn FnOnce() -> Result<T, Error> + Send + 'a>;

/// The results of all tasks in their order, or the first error.
pub(crate) fn all<'a, T: Send + 'a>(
    run: &Run,
    tasks: impl IntoIterator<Item = Task<'a, T>>,
) -> Result<Vec<T>, Error> {
    if !run.is_in_memory() {
        return tasks.into_iter().map(|task| task()).collect();
    }
    scope(|scope| {
        let handles: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        handles.into_iter().map(finished).collect()
    })
}

/// The results of two tasks, or the first error.
pub(crate) fn both<A: Send, B>(
    run: &Run,
    a: impl FnOnce() -> Result<A, Error> + Send,
    b: impl FnOnce() -> Result<B, Error>,
) -> Result<(A, B), Error> {
    if !run.is_in_memory() {
        return Ok((a()?, b()?));
    }
    scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        Ok((finished(a)?, b?))
    })
}

fn finished<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}
