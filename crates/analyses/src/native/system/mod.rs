//! Sampled metrics of machines over stretches of the timeline.

mod held;
mod views;

use super::Native;

/// `system_metrics_by_step`.
pub(super) const BY_STEP: Native =
    Native { view: "system_metrics_by_step", reads: views::BY_STEP_READS, compute: views::by_step };
/// `system_input_limits`.
pub(super) const INPUT_LIMITS: Native =
    Native { view: "system_input_limits", reads: views::LIMITS_READS, compute: views::limits };
