//! Steps of Composer and Determined, from their own marks.

pub(super) mod marks;
mod reconstructed_steps;
pub(super) mod steps;

use query::rust_view::RustView;

/// `trainer_steps`.
pub(super) const STEPS: RustView = RustView::new("trainer_steps", steps::INPUTS, steps::compute);
/// `trainer_steps_reconstructed`.
pub(super) const STEPS_RECONSTRUCTED: RustView = RustView::new(
    "trainer_steps_reconstructed",
    reconstructed_steps::INPUTS,
    reconstructed_steps::compute,
);
