//! The interactive SQL shell. History lives as long as the shell does.

use rustyline::Config;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use trace_advisor::Run;

use crate::args::Rows;
use crate::commands::{sql, statements, tables};
use crate::{Console, Exit, diagnostics};

const HELP: &str = "  \\d         list tables and views
  \\d NAME    describe one
  \\h         this help
  \\q         leave
  anything else is SQL; a query ends with `;` and may span lines";

pub(crate) fn run(run: &Run, args: &Rows, console: &mut Console) -> anyhow::Result<Exit> {
    let mut editor: Editor<(), MemHistory> =
        Editor::with_history(Config::default(), MemHistory::new())?;
    let info = run.info();
    writeln!(console.out, "{} ranks, {} steps. \\h for help.", info.ranks.len(), info.steps)?;
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
            if !command(line.trim(), console)? {
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
            // A mistake in a query is no reason to leave.
            if let Err(error) = sql::print(run, query, args, console) {
                console.out.flush()?;
                diagnostics::print_error(&error, console)?;
            }
        }
    }
}

/// Runs a backslash command; false if it is time to leave.
fn command(line: &str, console: &mut Console) -> anyhow::Result<bool> {
    let (verb, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (verb, argument.trim()) {
        ("\\q" | "\\quit" | "\\exit", _) => return Ok(false),
        ("\\d" | "\\dt", "") => tables::overview(&mut console.out)?,
        ("\\d", name) => {
            if let Err(error) = tables::describe(name, &mut console.out) {
                diagnostics::print_error(&error, console)?;
            }
        }
        ("\\h" | "\\?" | "\\help", _) => writeln!(console.out, "{HELP}")?,
        (other, _) => writeln!(console.err, "there is no command {other}; \\h lists them")?,
    }
    Ok(true)
}
