//! The `advisor` program: passes the arguments on and returns the exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use cli::Console;

fn main() -> ExitCode {
    let mut console = Console {
        out_is_terminal: io::stdout().is_terminal(),
        err_is_terminal: io::stderr().is_terminal(),
        out: Box::new(io::BufWriter::new(anstream::stdout())),
        raw: Box::new(io::BufWriter::new(io::stdout())),
        err: Box::new(anstream::stderr()),
    };
    cli::run(std::env::args_os(), &mut console).into()
}
