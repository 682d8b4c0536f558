//! Trainers' own marks: the steps of Composer and Determined.

pub(super) mod marks;
mod rebuilt;
pub(super) mod steps;

use query::rust_view::RustView;

/// `trainer_steps`.
pub(super) const STEPS: RustView = RustView::new("trainer_steps", steps::READS, steps::compute);
/// `trainer_steps_reconstructed`.
pub(super) const STEPS_REBUILT: RustView =
    RustView::new("trainer_steps_reconstructed", rebuilt::READS, rebuilt::compute);
