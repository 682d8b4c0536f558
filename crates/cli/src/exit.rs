//! Exit codes. The README lists under "In CI" which command exits with which code.

use std::process::ExitCode;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// 0: success, and nothing that fails a check.
    Clean,
    /// 1: findings at or above `--fail-on`, a verdict that `--fail-on` names, or failing rule tests.
    Findings,
    /// 2: an error.
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
