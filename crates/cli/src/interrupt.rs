//! What Ctrl-C, or a signal that ends the program, does: it removes unfinished output and temporary files, or cancels the
//! query of the SQL shell.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use trace_advisor::ingest::remove_unfinished_outputs;

use crate::console::Console;

/// Exit code of a program that Ctrl-C ended, by convention of shells.
pub(crate) const INTERRUPTED: i32 = 130;

/// Runs on an interrupt instead of ending the program.
static INSTEAD: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Removes output that is not complete, and temporary files, if the program is interrupted from now on.
pub(crate) fn remove_output_if_interrupted(console: &Console) {
    if console.handles_signals {
        // Otherwise, the next output to the same place removes what is left.
        let _ = handle_signals();
    }
}

/// Does something else if the program is interrupted from now on: Ctrl-C no longer ends it.
#[cfg(feature = "shell")]
pub(crate) fn do_instead(action: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    // There is one SQL shell in a process.
    let _ = INSTEAD.set(Box::new(action));
    handle_signals()
}

/// Calls [`handle`] if the program is interrupted from now on. Only the first call has an effect.
fn handle_signals() -> io::Result<()> {
    static HAS_HANDLER: AtomicBool = AtomicBool::new(false);
    if HAS_HANDLER.swap(true, Ordering::SeqCst) { Ok(()) } else { set_handler() }
}

#[cfg(unix)]
fn set_handler() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    // A program that was started by `nohup` outlives its terminal.
    let hangup = if ignores_hangups() { None } else { Some(SIGHUP) };
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
    let wait = move || {
        for _ in signals.forever() {
            handle();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

#[cfg(not(unix))]
fn set_handler() -> io::Result<()> {
    ctrlc::set_handler(handle).map_err(io::Error::other)
}

fn handle() {
    if let Some(action) = INSTEAD.get() {
        return action();
    }
    remove_unfinished_outputs();
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "the handler of a signal that ends the program"
    )]
    std::process::exit(INTERRUPTED);
}

/// Returns whether the program was started with SIGHUP ignored, where the system tells.
#[cfg(unix)]
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
