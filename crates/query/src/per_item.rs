//! Work on all cores.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Applies `compute` to each item on all cores; the results are in the order of the items. It uses threads of its own:
/// callers may wait for a view on all threads of rayon's pool, and a task in that pool would then never start.
pub fn per_item<I: Send, T: Send>(items: Vec<I>, compute: impl Fn(I) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    if cores <= 1 {
        return items.into_iter().map(compute).collect();
    }
    let mut results: Vec<Option<T>> = items.iter().map(|_| None).collect();
    let work = Mutex::new(items.into_iter().zip(&mut results));
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let worker = || {
            while let Some((item, result)) = next() {
                *result = Some(compute(item));
            }
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    results.into_iter().flatten().collect()
}
