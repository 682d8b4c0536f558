//! The interactive SQL shell. Its history is not saved.

use rustyline::Config;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use trace_advisor::Run;

use crate::args::RowOutputArgs;
use crate::commands::query::print_query;
use crate::commands::{statements, tables};
use crate::console::Console;
use crate::diagnostics::print_error;
use crate::exit::Exit;

const HELP: &str = "  \\d         list tables and views
  \\d NAME    describe a table or view
  \\h         show this help
  \\q         quit
Anything else is SQL: a query ends with `;` and may span several lines.";

pub(crate) fn run(run: &Run, args: &RowOutputArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let mut editor: Editor<(), MemHistory> =
        Editor::with_history(Config::default(), MemHistory::new())?;
    let info = run.info();
    writeln!(console.out, "{} ranks, {} steps. Type \\h for help.", info.ranks.len(), info.steps)?;
    let mut pending = String::new();
    loop {
        console.out.flush()?;
        let prompt = if pending.trim().is_empty() { "sql> " } else { "...> " };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                pending.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(Exit::Clean),
            Err(error) => return Err(error.into()),
        };
        if pending.trim().is_empty() && line.trim_start().starts_with('\\') {
            editor.add_history_entry(line.trim())?;
            if !run_backslash_command(line.trim(), console)? {
                return Ok(Exit::Clean);
            }
            continue;
        }
        pending.push_str(&line);
        pending.push('\n');
        let (complete, rest) = statements::take_complete(&pending);
        pending = rest;
        for query in complete.iter().filter(|q| !q.is_empty()) {
            editor.add_history_entry(format!("{query};"))?;
            // The shell goes on after a query that fails.
            if let Err(error) = print_query(run, query, args, console) {
                console.out.flush()?;
                print_error(&error, console)?;
            }
        }
    }
}

/// Runs a backslash command. Returns false to quit.
fn run_backslash_command(line: &str, console: &mut Console) -> anyhow::Result<bool> {
    let (verb, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (verb, argument.trim()) {
        ("\\q" | "\\quit" | "\\exit", _) => return Ok(false),
        ("\\d" | "\\dt", "") => tables::overview(&mut console.out)?,
        ("\\d", name) => {
            if let Err(error) = tables::describe(name, &mut console.out) {
                print_error(&error, console)?;
            }
        }
        ("\\h" | "\\?" | "\\help", _) => writeln!(console.out, "{HELP}")?,
        (other, _) => writeln!(console.err, "unknown command {other}; \\h lists the commands")?,
    }
    Ok(true)
}
