//! What the time of a step is spent on.

mod breakdown;
mod spans;

use super::Native;

/// `step_breakdown_by_step`.
pub(super) const BREAKDOWN: Native =
    Native::by_rank("step_breakdown_by_step", breakdown::READS, breakdown::compute);
