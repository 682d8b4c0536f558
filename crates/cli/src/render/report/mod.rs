//! Reports, one file per format. Phrases that several formats share are in `phrases`.

mod context;
mod csv;
mod finding_text;
mod findings_list;
mod first_screen;
pub(crate) mod github;
mod instructions;
mod json;
pub(crate) mod junit;
pub(crate) mod markdown;
mod phrases;
mod relative_paths;
mod runs_table;
mod sarif;
mod text;
mod tree;

#[cfg(test)]
mod tests;

use std::io::Write;

use trace_advisor::Report;

use crate::args::ReportFormat;
use crate::render::layout::Layout;

pub(crate) use context::ReportContext;
pub(crate) use finding_text::{Detail, write_finding};
pub(crate) use relative_paths::relative_path;
pub(crate) use runs_table::write_runs;
pub(crate) use text::{write_body, write_header};

/// Writes the reports. Formats for programs contain no control characters, even if they are not written to a
/// terminal.
pub(crate) fn write(
    reports: &[Report],
    context: &ReportContext<'_>,
    format: ReportFormat,
    layout: Layout,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let relative = || relative_paths::relative_to(&context.folder, reports);
    let text = match format {
        // The page shows more than the reports: `check` writes it, while it has the runs.
        ReportFormat::Html => return Ok(()),
        ReportFormat::Text => return Ok(text::write(reports, context, layout, out)?),
        ReportFormat::Json => json::document(reports)?,
        ReportFormat::Jsonl => json::lines(reports)?,
        ReportFormat::Markdown => markdown::comment(&relative(), context),
        ReportFormat::Sarif => sarif::log(&relative(), context)?,
        ReportFormat::Github => github::annotations(&relative(), context),
        ReportFormat::Junit => junit::suites(&relative(), context),
        ReportFormat::Csv => csv::rows(reports)?,
    };
    Ok(out.write_all(text.as_bytes())?)
}
