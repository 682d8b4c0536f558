//! Data loading as the training loop sees it: the wait for each batch.

mod fetches;
pub(super) mod pattern;

use query::rust_view::RustView;

/// `loader_fetches`.
pub(super) const FETCHES: RustView =
    RustView::new("loader_fetches", fetches::INPUTS, fetches::by_rank);
/// `loader_fetches_by_step`.
pub(super) const FETCHES_BY_STEP: RustView =
    RustView::new("loader_fetches_by_step", fetches::INPUTS, fetches::by_step);
