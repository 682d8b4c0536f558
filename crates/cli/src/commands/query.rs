//! The rows of one query, for `advisor sql` and its shell.

use trace_advisor::Run;

use crate::args::RowOutputArgs;
use crate::console::Console;
use crate::output::write_output;
use crate::render::rows;

/// Runs a query and writes its rows.
pub(crate) fn print_query(
    run: &Run,
    query: &str,
    args: &RowOutputArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let batches = run.sql(query)?;
    write_output(&args.output, args.format.audience(), console, |out, is_terminal| {
        rows::write(&batches, args.format, out, is_terminal)
    })
}
