//! Arrow batches as rows, in formats for people, spreadsheets and programs.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use trace_advisor::{arrow, ingest};

use crate::args::RowFormat;
use crate::diagnostics::with_help;
use crate::render::sanitize::{sanitize, sanitize_json, sanitize_lines};
use crate::render::value::thousands;

/// Maximum number of rows of an aligned table; the rest is counted.
const MAX_ROWS: usize = 1_000;
/// Maximum number of characters of a cell of an aligned table.
const MAX_CELL: usize = 72;

/// Writes the rows of `batches`, at least one batch, in `format`.
pub(crate) fn write(
    batches: &[RecordBatch],
    format: RowFormat,
    out: &mut (dyn Write + Send),
    is_terminal: bool,
) -> anyhow::Result<()> {
    let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    if format.is_binary() && is_terminal {
        return Err(with_help(
            "refusing to write binary data to a terminal",
            "write to a file with -o FILE",
        ));
    }
    match format {
        RowFormat::Table => table(batches, &schema, out)?,
        RowFormat::Csv if is_terminal => {
            let mut text = Vec::new();
            csv(batches, &mut text)?;
            out.write_all(sanitize_lines(&String::from_utf8_lossy(&text)).as_bytes())?;
        }
        RowFormat::Csv => csv(batches, out)?,
        RowFormat::Json if is_terminal => {
            let mut text = Vec::new();
            json(batches, &mut text)?;
            out.write_all(sanitize_json(&String::from_utf8_lossy(&text)).as_bytes())?;
        }
        RowFormat::Json => json(batches, out)?,
        RowFormat::Parquet => {
            ingest::write_parquet(batches, &schema, out).context("cannot write Parquet")?;
        }
        RowFormat::Arrow => {
            let mut writer = arrow::ipc::writer::FileWriter::try_new(out, &schema)?;
            for batch in batches {
                writer.write(batch)?;
            }
            writer.finish()?;
        }
    }
    Ok(())
}

fn csv(batches: &[RecordBatch], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(out);
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(())
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

fn table(batches: &[RecordBatch], schema: &Schema, out: &mut dyn Write) -> anyhow::Result<()> {
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(schema.fields().iter().map(|f| sanitize(f.name()).into_owned()));
    let options = FormatOptions::default().with_null("-");
    let mut left = MAX_ROWS;
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows().min(left) {
            let cells = columns.iter().map(|c| c.value(row).try_to_string());
            table.add_row(
                cells.map(|text| text.map(|t| shortened(&t))).collect::<Result<Vec<_>, _>>()?,
            );
        }
        left = left.saturating_sub(batch.num_rows());
    }
    for (i, field) in schema.fields().iter().enumerate() {
        if is_number(field.data_type())
            && let Some(column) = table.column_mut(i)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // The first column has no left padding.
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    if total > MAX_ROWS {
        let more = thousands((total - MAX_ROWS) as i64);
        writeln!(out, "... and {more} more rows (--format csv writes all rows)")?;
    }
    if total == 0 {
        writeln!(out, "no rows")?;
    }
    Ok(())
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn shortened(text: &str) -> Cell {
    let text = sanitize(text);
    if text.chars().count() <= MAX_CELL {
        return Cell::new(text);
    }
    let start: String = text.chars().take(MAX_CELL - 3).collect();
    Cell::new(format!("{start}..."))
}
