//! The streams that the program writes to: results on one side, everything else on the other.

use std::fmt;
use std::io::Write;

/// Output and error streams. Colors are written as escapes, which the streams drop where they are not wanted.
pub struct Console {
    /// Results as text.
    pub out: Box<dyn Write + Send>,
    /// The same destination for results that programs read: no byte is changed on the way.
    pub raw: Box<dyn Write + Send>,
    /// Warnings, errors, timings.
    pub err: Box<dyn Write + Send>,
    /// Whether `out` is a terminal.
    pub out_is_terminal: bool,
    /// Whether `err` is a terminal.
    pub err_is_terminal: bool,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("out_is_terminal", &self.out_is_terminal)
            .field("err_is_terminal", &self.err_is_terminal)
            .finish_non_exhaustive()
    }
}
