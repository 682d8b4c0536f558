//! Output that is kept as text.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use trace_advisor::trace_model::RecordBatch;

use crate::args::RowFormat;
use crate::console::{Console, Terminal};
use crate::render::rows::{self, RowOptions};

/// Layout and color of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether text has ANSI escapes.
    pub has_color: bool,
    /// The terminal that text is for; `None` for a file.
    pub terminal: Option<Terminal>,
}

impl Style {
    /// The text without escapes, unless they are wanted.
    pub(super) fn apply(self, text: Vec<u8>) -> anyhow::Result<String> {
        let text = String::from_utf8(text)?;
        Ok(if self.has_color { text } else { anstream::adapter::strip_str(&text).to_string() })
    }
}

/// A table of the first `limit` rows, as the program prints it.
///
/// # Errors
/// If a column cannot be shown as text.
pub fn text_of_rows(rows: &[RecordBatch], limit: usize, style: Style) -> anyhow::Result<String> {
    let mut text = Vec::new();
    let options = RowOptions { limit: Some(limit), ..RowOptions::default() };
    rows::write_with(rows, RowFormat::Table, options, &mut text, style.terminal)?;
    style.apply(text)
}

/// The texts that a command wrote.
#[derive(Debug, Clone, Default)]
pub(super) struct Output {
    out: Buffer,
    errors: Buffer,
}

impl Output {
    /// Returns the text written to stdout.
    pub(super) fn out(&self, style: Style) -> anyhow::Result<String> {
        style.apply(self.out.take())
    }

    /// The errors, without escapes.
    pub(super) fn errors(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors.take()).into_owned();
        anstream::adapter::strip_str(&text).to_string()
    }
}

/// A console that keeps results and errors, and drops warnings and notes.
pub(super) fn buffered(terminal: Option<Terminal>) -> (Console, Output) {
    let output = Output::default();
    let console = Console {
        out: Box::new(output.out.clone()),
        raw: Box::new(output.out.clone()),
        err: Box::new(io::sink()),
        errors: Box::new(output.errors.clone()),
        out_terminal: terminal,
        has_progress: false,
        handles_signals: false,
        runs: Vec::new(),
    };
    (console, output)
}

/// Bytes that several writers append to.
#[derive(Debug, Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
