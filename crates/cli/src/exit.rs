//! Exit codes. `docs/ci.md` lists which command exits with which code.

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
    /// 141: the reader of the output closed it, as in `advisor check run/ | head -1`. That is 128 + SIGPIPE, the code of
    /// other programs, and no success: a missing verdict must not look like a good one.
    Unread,
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
            Self::Unread => 141,
            Self::OfProgram(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
