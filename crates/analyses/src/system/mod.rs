//! Sampled system metrics over intervals of the timeline.

mod sampled_series;
mod views;

use query::rust_view::RustView;

/// `system_metrics_by_step`.
pub(super) const BY_STEP: RustView =
    RustView::new("system_metrics_by_step", views::BY_STEP_INPUTS, views::by_step);
/// `system_input_limits`.
pub(super) const INPUT_LIMITS: RustView =
    RustView::new("system_input_limits", views::INPUT_LIMITS_INPUTS, views::limits);
