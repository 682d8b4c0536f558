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
    /// The exit code of the program that the command ran.
    OfProgram(u8),
}

impl Exit {
    /// The code as a number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Failed => 2,
            Self::OfProgram(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
