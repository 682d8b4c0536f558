//! The `advisor` program: passes the arguments on and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os()).into()
}
