//! Arrow batches as rows, in formats for people, spreadsheets and programs.

mod cells;
mod table;

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use trace_advisor::query::ViewDef;
use trace_advisor::{arrow, ingest};

use crate::args::RowFormat;
use crate::console::Terminal;
use crate::diagnostics::with_help;
use crate::render::sanitize::{sanitize_json, sanitize_lines};

/// Rows that a terminal shows unless a limit is given.
pub(crate) const TERMINAL_ROWS: usize = 40;

/// How rows are printed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowOptions<'a> {
    /// Number of rows, 0 for all. Without it, a terminal shows some, and everything else gets all rows.
    pub(crate) limit: Option<usize>,
    /// The view that the rows come from: its columns are documented.
    pub(crate) view: Option<&'a ViewDef>,
    /// Whether columns are chosen by name, so that none may be left out.
    pub(crate) has_chosen_columns: bool,
    /// Whether a table shows each row as a list of its columns, with whole values.
    pub(crate) is_expanded: bool,
    /// Whether a table has every name and column whole, however long its lines get.
    pub(crate) is_wide: bool,
}

impl RowOptions<'_> {
    /// Whether the view is about this column: its rows are sorted by it.
    fn is_measure(&self, column: &str) -> bool {
        self.view.is_some_and(|view| view.sort.iter().any(|name| name == column))
    }
}

/// Cuts texts to `width` characters in the middle, so that different texts still differ.
pub(crate) fn shorten(texts: &[String], width: usize, terminal: Option<Terminal>) -> Vec<String> {
    crate::render::shorten::shorten(texts, width, ellipsis(terminal))
}

/// Cuts texts to `width` characters at the left, after their indentation.
fn keep_ends(texts: &[String], width: usize, terminal: Option<Terminal>) -> Vec<String> {
    let cut = |text: &String| crate::render::shorten::keep_end(text, width, ellipsis(terminal));
    texts.iter().map(cut).collect()
}

fn ellipsis(terminal: Option<Terminal>) -> &'static str {
    let has_unicode = terminal.is_some_and(|terminal| terminal.has_unicode);
    if has_unicode { "…" } else { "..." }
}

/// Writes the rows of `batches` in `format`, with whole names unless a terminal shows them.
pub(crate) fn write(
    batches: &[RecordBatch],
    format: RowFormat,
    out: &mut (dyn Write + Send),
    terminal: Option<Terminal>,
) -> anyhow::Result<()> {
    let options = RowOptions { is_wide: terminal.is_none(), ..RowOptions::default() };
    write_with(batches, format, options, out, terminal)
}

/// Writes the rows of `batches` in `format`, as `options` say.
pub(crate) fn write_with(
    batches: &[RecordBatch],
    format: RowFormat,
    options: RowOptions<'_>,
    out: &mut (dyn Write + Send),
    terminal: Option<Terminal>,
) -> anyhow::Result<()> {
    let is_terminal = terminal.is_some();
    let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    if format.is_binary() && is_terminal {
        return Err(with_help(
            "refusing to write binary data to a terminal",
            "write to a file with -o FILE",
        ));
    }
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let default_limit = (format == RowFormat::Table && is_terminal).then_some(TERMINAL_ROWS);
    let limit = options.limit.or(default_limit).filter(|&rows| rows > 0);
    let shown = limit.map_or(total, |limit| limit.min(total));
    let first = || first_rows(batches, shown);
    match format {
        RowFormat::Table => {
            table::write(&concat_batches(&schema, batches)?, shown, options, out, terminal)?;
        }
        RowFormat::Csv if is_terminal => {
            let mut text = Vec::new();
            csv(&first(), &mut text)?;
            out.write_all(sanitize_lines(&String::from_utf8_lossy(&text)).as_bytes())?;
        }
        RowFormat::Csv => csv(&first(), out)?,
        RowFormat::Json if is_terminal => {
            let mut text = Vec::new();
            json(&first(), &mut text)?;
            out.write_all(sanitize_json(&String::from_utf8_lossy(&text)).as_bytes())?;
        }
        RowFormat::Json => json(&first(), out)?,
        RowFormat::Parquet => {
            ingest::write_parquet(&first(), &schema, out).context("cannot write Parquet")?;
        }
        RowFormat::Arrow => {
            let mut writer = arrow::ipc::writer::FileWriter::try_new(out, &schema)?;
            for batch in first() {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
    }
    Ok(())
}

/// The first `count` rows. All batches remain, since CSV takes its header from the first one.
fn first_rows(batches: &[RecordBatch], count: usize) -> Vec<RecordBatch> {
    let mut left = count;
    let mut taken = |batch: &RecordBatch| {
        let rows = batch.num_rows().min(left);
        left -= rows;
        batch.slice(0, rows)
    };
    batches.iter().map(&mut taken).collect()
}

fn csv(batches: &[RecordBatch], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut out = FailureKeeper { out, failure: None };
    let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(&mut out);
    let written = batches.iter().try_for_each(|batch| writer.write(batch));
    drop(writer);
    match (out.failure, written) {
        (Some(kind), _) => Err(io::Error::from(kind).into()),
        (None, written) => Ok(written?),
    }
}

/// Keeps why writing failed, such as a closed pipe: the errors of CSV only have it as text.
struct FailureKeeper<'a> {
    out: &'a mut dyn Write,
    failure: Option<io::ErrorKind>,
}

impl Write for FailureKeeper<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        if let Err(error) = &written
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failure = Some(error.kind());
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn json(batches: &[RecordBatch], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::JsonArray>(&mut *out);
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    writeln!(out)?;
    Ok(())
}
