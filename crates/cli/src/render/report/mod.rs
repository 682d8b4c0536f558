//! Reports, one file per format. Phrases that several formats share are in `phrases`.

mod context;
mod csv;
mod github;
mod json;
mod junit;
mod markdown;
mod phrases;
mod sarif;
mod text;

#[cfg(test)]
mod tests;

use std::io::Write;

use trace_advisor::Report;

use crate::args::ReportFormat;

pub(crate) use context::ReportContext;
pub(crate) use text::{write_body, write_finding, write_header};

/// Writes the reports. Formats for programs contain no control characters, even if they are not written to a
/// terminal.
pub(crate) fn write(
    reports: &[Report],
    context: &ReportContext<'_>,
    format: ReportFormat,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let text = match format {
        ReportFormat::Text => return Ok(text::write(reports, context, out)?),
        ReportFormat::Json => json::document(reports)?,
        ReportFormat::Jsonl => json::lines(reports)?,
        ReportFormat::Markdown => markdown::comment(reports, context),
        ReportFormat::Sarif => sarif::log(reports, context)?,
        ReportFormat::Github => github::annotations(reports, context),
        ReportFormat::Junit => junit::suites(reports, context),
        ReportFormat::Csv => csv::rows(reports)?,
    };
    Ok(out.write_all(text.as_bytes())?)
}
