//! Where the program speaks to: the result on one side, everything else on the other.

use std::fmt;
use std::io::Write;

/// Output and error streams. Colours are written as escapes; the streams drop them where they are
/// not wanted.
pub struct Console {
    /// The result as text.
    pub out: Box<dyn Write + Send>,
    /// The same place for results that programs read: not a byte is changed on the way.
    pub raw: Box<dyn Write + Send>,
    /// Warnings, errors, timings.
    pub err: Box<dyn Write + Send>,
    /// Whether a person looks at the result directly.
    pub out_is_terminal: bool,
    /// Whether a person looks at the errors directly.
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
