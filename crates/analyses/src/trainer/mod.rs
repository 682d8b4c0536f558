//! Trainers' own marks: the steps of Composer and Determined.

pub(super) mod marks;
mod rebuilt;
pub(super) mod steps;

use super::Native;

/// `trainer_steps`.
pub(super) const STEPS: Native = Native::by_rank("trainer_steps", steps::READS, steps::compute);
/// `trainer_steps_rebuilt`.
pub(super) const STEPS_REBUILT: Native =
    Native::by_rank("trainer_steps_rebuilt", rebuilt::READS, rebuilt::compute);
