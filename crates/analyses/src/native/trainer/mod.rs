//! Trainers' own marks: the steps of Composer and Determined.

pub(super) mod marks;
pub(super) mod steps;

use super::Native;

/// `trainer_steps`.
pub(super) const STEPS: Native =
    Native { view: "trainer_steps", reads: steps::READS, compute: steps::compute };
