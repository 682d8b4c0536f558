//! The streams that the program writes to: results on one side, everything else on the other.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::AutoStream;

use crate::args::GlobalArgs;
use crate::progress::{ProgressLine, Stage};

/// Output and error streams. Colors are written as escapes, which the streams drop where they are not wanted.
pub struct Console {
    /// Results as text.
    pub out: Box<dyn Write + Send>,
    /// The same destination for results that programs read: no byte is changed on the way.
    pub raw: Box<dyn Write + Send>,
    /// Warnings, notes and timings; nowhere with `--quiet`.
    pub err: Box<dyn Write + Send>,
    /// Errors.
    pub errors: Box<dyn Write + Send>,
    /// The terminal that shows `out`; `None` for a file or a pipe.
    pub out_terminal: Option<Terminal>,
    /// True if progress is shown on stderr.
    pub has_progress: bool,
    /// True if the program handles the signals of the process.
    pub handles_signals: bool,
    /// Paths of the runs that the command reads: no result is written where it would be read as part of them.
    pub runs: Vec<PathBuf>,
}

impl Console {
    /// The streams of the process.
    pub(crate) fn of_process(args: GlobalArgs) -> Self {
        let color = args.color.into();
        let stderr = || Box::new(AutoStream::new(io::stderr(), color));
        Self {
            out: Box::new(BufWriter::new(AutoStream::new(io::stdout(), color))),
            raw: Box::new(BufWriter::new(io::stdout())),
            err: if args.quiet { Box::new(io::sink()) } else { stderr() },
            errors: stderr(),
            out_terminal: io::stdout().is_terminal().then(Terminal::of_process),
            has_progress: io::stderr().is_terminal() && !args.quiet && !args.no_progress,
            handles_signals: true,
            runs: Vec::new(),
        }
    }

    /// From now on, results are written where warnings and notes are: stdout belongs to another program.
    pub(crate) fn move_results_to_stderr(&mut self) {
        let stream = std::mem::replace(&mut self.err, Box::new(io::sink()));
        let stream = SharedStream(Arc::new(Mutex::new(stream)));
        self.out = Box::new(stream.clone());
        self.raw = Box::new(stream.clone());
        self.err = Box::new(stream);
        self.out_terminal = io::stderr().is_terminal().then(Terminal::of_process);
    }

    /// Writes what is left of the result. Returns true if its reader is gone, which not all errors of writers say.
    pub(crate) fn is_unread(&mut self) -> bool {
        let is_closed = |result: io::Result<()>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        };
        is_closed(self.out.flush()) | is_closed(self.raw.flush())
    }

    /// A progress line for work in these stages; it is removed when it is dropped.
    pub(crate) fn progress(&self, stages: &'static [Stage]) -> ProgressLine {
        ProgressLine::new(stages, self.has_progress)
    }
}

/// A stream that several parts of a console write to.
#[derive(Clone)]
struct SharedStream(Arc<Mutex<Box<dyn Write + Send>>>);

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("out_terminal", &self.out_terminal)
            .field("has_progress", &self.has_progress)
            .finish_non_exhaustive()
    }
}

/// The capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Characters per line.
    pub columns: usize,
    /// True if it displays Unicode block characters.
    pub has_unicode: bool,
}

impl Terminal {
    /// Line width of text that no terminal shows.
    pub(crate) const DEFAULT_COLUMNS: usize = 100;
    /// Widths that texts adapt to; other terminals get the nearest one.
    pub(crate) const COLUMNS: std::ops::RangeInclusive<usize> = 40..=200;

    /// The terminal of the process, by its size (or `COLUMNS`) and the locale.
    pub(crate) fn of_process() -> Self {
        let variable = |name| std::env::var_os(name)?.into_string().ok().filter(|v| !v.is_empty());
        let set = variable("COLUMNS").and_then(|text| text.parse().ok());
        let size = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let columns = set.or_else(size).unwrap_or(Self::DEFAULT_COLUMNS);
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let is_utf8 =
            locale.is_some_and(|l| l.to_ascii_lowercase().replace('-', "").ends_with("utf8"));
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        Self {
            columns: columns.clamp(*Self::COLUMNS.start(), *Self::COLUMNS.end()),
            has_unicode: is_utf8 && !is_dumb,
        }
    }

    /// Line width of a text for this terminal, or for none.
    pub(crate) fn columns_of(terminal: Option<Self>) -> usize {
        terminal.map_or(Self::DEFAULT_COLUMNS, |terminal| terminal.columns)
    }
}
