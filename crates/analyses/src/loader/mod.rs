//! The loader as the training loop sees it: how long each batch lets it wait.

mod fetches;
pub(super) mod pattern;

use query::rust_view::RustView;

/// `loader_fetches`.
pub(super) const FETCHES: RustView =
    RustView::new("loader_fetches", fetches::READS, fetches::by_rank);
/// `loader_fetches_by_step`.
pub(super) const FETCHES_BY_STEP: RustView =
    RustView::new("loader_fetches_by_step", fetches::READS, fetches::by_step);
