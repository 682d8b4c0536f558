//! Sampled metrics of machines over stretches of the timeline.

mod held;
mod views;

use super::Native;

/// `system_metrics_by_step`.
pub(super) const BY_STEP: Native =
    Native::by_rank("system_metrics_by_step", views::BY_STEP_READS, views::by_step);
/// `system_input_limits`.
pub(super) const INPUT_LIMITS: Native =
    Native::by_rank("system_input_limits", views::LIMITS_READS, views::limits);
