//! The code that records what a recording lacks, as text.

use std::io::{self, Write};

use trace_advisor::Report;

use super::phrases;
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize_lines;

/// Writes the code that records what the recording lacks. Lines are not wrapped, so that they can be copied.
pub(super) fn write_instructions(
    report: &Report,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(instructions) = phrases::instructions(report) else { return Ok(()) };
    let title = format!("To record what is missing ({}):", instructions.framework);
    writeln!(out)?;
    for line in layout.wrapped(&title, 0) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for line in sanitize_lines(&instructions.code).lines() {
        if line.is_empty() {
            writeln!(out)?;
            continue;
        }
        writeln!(out, "    {line}")?;
    }
    Ok(())
}
