//! The rows of one query, for `advisor sql` and its shell.

use std::time::{Duration, Instant};

use anstyle::{Effects, Style};
use trace_advisor::Run;
use trace_advisor::trace_model::{RecordBatch, time};

use crate::args::{RowFormat, RowOutputArgs};
use crate::console::Console;
use crate::output::write_output;
use crate::progress::ProgressLine;
use crate::render::rows::{self, RowOptions};
use crate::render::value::plural;

const DIM: Style = Style::new().effects(Effects::DIMMED);

/// Runs a query and writes its rows, with their number and the time that it took below a table on a terminal. The line of
/// progress is hidden meanwhile.
pub(crate) fn print_query(
    run: &Run,
    query: &str,
    args: &RowOutputArgs,
    progress: &ProgressLine,
    console: &mut Console,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let batches = run.sql(query)?;
    let elapsed = start.elapsed();
    progress.suspend(|| {
        write_rows(&batches, args, console)?;
        let is_shown = args.output.file.is_none() && console.out_terminal.is_some();
        if is_shown && args.format() == RowFormat::Table {
            writeln!(console.out, "{}", row_count_line(row_count(&batches), Some(elapsed)))?;
        }
        Ok(())
    })
}

/// Writes the rows of a query.
pub(crate) fn write_rows(
    batches: &[RecordBatch],
    args: &RowOutputArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let options = RowOptions { limit: args.limit, is_wide: args.wide, ..RowOptions::default() };
    let format = args.format();
    write_output(&args.output, format.audience(), console, |out, terminal| {
        rows::write_with(batches, format, options, out, terminal)
    })
}

/// Number of rows of a result.
pub(crate) fn row_count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The line below a table: `(12 rows, 34.1 ms)`.
pub(crate) fn row_count_line(rows: usize, elapsed: Option<Duration>) -> String {
    let rows = plural(rows, "row");
    let elapsed = elapsed.map(|elapsed| format!(", {}", time::human(elapsed.as_nanos() as f64)));
    format!("{DIM}({rows}{}){DIM:#}", elapsed.unwrap_or_default())
}
