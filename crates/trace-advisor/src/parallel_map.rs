//! Work on several files side by side.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use query::per_item;

use crate::error::Error;

/// Applies `work` to all items on all cores. Results are in the order of the items; after an error, no further item is begun,
/// and the first error is returned.
pub(crate) fn parallel_map<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let has_failed = AtomicBool::new(false);
    let results = per_item(items.iter().collect(), |item| {
        let is_wanted = !has_failed.load(Relaxed);
        is_wanted.then(|| work(item).inspect_err(|_| has_failed.store(true, Relaxed)))
    });
    results.into_iter().flatten().collect()
}
