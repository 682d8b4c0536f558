//! Trainers' own marks: the steps of Composer and Determined.

pub(super) mod marks;
mod rebuilt;
pub(super) mod steps;

use super::Native;

/// `trainer_steps`.
pub(super) const STEPS: Native =
    Native { view: "trainer_steps", reads: steps::READS, compute: steps::compute };
/// `trainer_steps_rebuilt`.
pub(super) const STEPS_REBUILT: Native =
    Native { view: "trainer_steps_rebuilt", reads: rebuilt::READS, compute: rebuilt::compute };
