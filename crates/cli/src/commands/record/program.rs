//! Running the program: its signals and its exit code.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};

use super::injection::Injection;
use super::signals::Signals;
use crate::exit::Exit;

/// Exit codes of shells for programs that cannot be started.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// A program that could not be run.
#[derive(Debug)]
pub(super) struct NotRun {
    name: OsString,
    error: io::Error,
}

impl NotRun {
    /// The exit code of a shell in this case.
    pub(super) fn exit(&self) -> Exit {
        let is_missing = self.error.kind() == io::ErrorKind::NotFound;
        Exit::OfProgram(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE })
    }
}

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot run {}", self.name.display())
    }
}

impl std::error::Error for NotRun {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Runs a program until it ends.
pub(super) fn run(command: &[OsString], injection: &Injection) -> Result<Exit, NotRun> {
    let not_run = |error| NotRun { name: command[0].clone(), error };
    let variables = injection.variables().map_err(|error| not_run(io::Error::other(error)))?;
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).envs(variables);
    // Signals that arrive while the program starts must not end this one, which would leave the other running.
    let signals = Signals::hold().map_err(not_run)?;
    let mut child = program.spawn().map_err(not_run)?;
    let signals = signals.pass_to(&child).map_err(not_run)?;
    let status = child.wait();
    signals.stop();
    status.map(exit_of).map_err(not_run)
}

/// The exit code of a program, as shells report it.
fn exit_of(status: ExitStatus) -> Exit {
    #[cfg(unix)]
    let code = {
        use std::os::unix::process::ExitStatusExt as _;
        status.code().or_else(|| Some(128 + status.signal()?))
    };
    #[cfg(not(unix))]
    let code = status.code();
    Exit::OfProgram(code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(u8::MAX))
}
