//! The program `advisor-cluster`: passes the arguments on and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    cluster::run(std::env::args_os()).into()
}
