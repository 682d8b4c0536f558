//! The `advisor` program: passes the arguments on and returns the exit code.

use std::process::ExitCode;

use allocator::{SizedAllocator, keep_freed_memory};

#[global_allocator]
static ALLOCATOR: SizedAllocator = SizedAllocator;

fn main() -> ExitCode {
    keep_freed_memory();
    cli::run(std::env::args_os()).into()
}
