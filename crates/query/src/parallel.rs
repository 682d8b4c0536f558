//! Work on threads of its own. It may wait for views, unlike work in rayon's pool: once all threads of that pool wait for a
//! view, none is left to compute what the view needs.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Applies `compute` to each item on all cores; the results are in the order of the items.
pub fn per_item<I: Send, T: Send>(items: Vec<I>, compute: impl Fn(I) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    per_item_on(cores, items, compute)
}

/// As [`per_item`], on at most so many threads.
pub fn per_item_on<I: Send, T: Send>(
    threads: usize,
    items: Vec<I>,
    compute: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(items.len());
    if threads <= 1 {
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
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    results.into_iter().flatten().collect()
}

/// Computes two things at the same time, the second one on this thread.
pub fn both<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| resume_unwind(panic)), second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7, 100] {
            let squares = per_item_on(threads, (0..20).collect(), |item: u32| item * item);
            assert_eq!(squares, (0..20).map(|item| item * item).collect::<Vec<_>>(), "{threads}");
        }
    }

    #[test]
    fn a_panic_on_another_thread_is_a_panic_here() {
        let caught = std::panic::catch_unwind(|| both(|| panic!("first"), || 2));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
        assert_eq!(both(|| 1, || 2), (1, 2));
    }
}
