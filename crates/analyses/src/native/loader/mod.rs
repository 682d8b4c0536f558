//! The loader as the training loop sees it: how long each batch lets it wait.

mod fetches;
pub(super) mod pattern;

use super::Native;

/// `loader_fetches`.
pub(super) const FETCHES: Native =
    Native { view: "loader_fetches", reads: fetches::READS, compute: fetches::by_rank };
/// `loader_fetches_by_step`.
pub(super) const FETCHES_BY_STEP: Native =
    Native { view: "loader_fetches_by_step", reads: fetches::READS, compute: fetches::by_step };
