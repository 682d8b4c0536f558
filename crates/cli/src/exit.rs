//! The three ways to end. The README says in one table, under "In CI", which command ends how.

use std::process::ExitCode;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// 0: nothing to complain about.
    Clean,
    /// 1: findings at or above `--fail-on`, a verdict that `--fail-on` names, or failing rule tests.
    Findings,
    /// 2: the question could not be answered.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Clean => 0,
            Exit::Findings => 1,
            Exit::Failed => 2,
        })
    }
}
