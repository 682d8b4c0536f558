//! Removes unfinished output when the program is interrupted, by Ctrl-C or a signal that ends it.

use trace_advisor::ingest::remove_unfinished_outputs;

use crate::console::Console;

/// Exit code of a program that Ctrl-C ended, by convention of shells.
pub(crate) const INTERRUPTED: i32 = 130;

/// Removes output that is not complete if the program is interrupted from now on.
pub(crate) fn remove_output_if_interrupted(console: &Console) {
    if !console.handles_signals {
        return;
    }
    let end = || {
        remove_unfinished_outputs();
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "the handler of a signal that ends the program"
        )]
        std::process::exit(INTERRUPTED);
    };
    // Only the first call sets the handler, and none in the SQL shell, which has its own. Without it, the next output to
    // the same place removes what is left.
    let _ = ctrlc::set_handler(end);
}
