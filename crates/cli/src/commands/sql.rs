//! `advisor sql`: queries over the tables and views of a run.

use std::io::{self, IsTerminal, Read as _};

use trace_advisor::Run;

use crate::args::{RowOutputArgs, SqlArgs};
use crate::commands::query::print_query;
use crate::commands::statements;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::print_warnings;
use crate::run::{finish, open_for_query};

pub(crate) fn run(args: &SqlArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let is_shell = args.query.is_none() && io::stdin().is_terminal();
    let has_file = args.rows.output.file.is_some();
    if is_shell && has_file {
        return Err(with_help("-o FILE needs a query", "advisor sql PATH QUERY -o FILE"));
    }
    let queries = match &args.query {
        _ if is_shell => Vec::new(),
        Some(query) => statements::split(query),
        None => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            statements::split(&text)
        }
    };
    if !is_shell && queries.is_empty() {
        return Err(with_help("the query is empty", "advisor sql PATH \"SELECT * FROM ranks\""));
    }
    if has_file && queries.len() > 1 {
        return Err(with_help(
            "-o FILE takes the rows of one query, but there are several",
            "run the queries one by one",
        ));
    }
    let hint = (!is_shell).then(|| queries.join("\n"));
    let run = open_for_query(hint, &args.run.path, &args.read, console)?;
    print_warnings(run.warnings(), console)?;
    if is_shell {
        return shell(&run, &args.rows, console);
    }
    for query in &queries {
        print_query(&run, query, &args.rows, console)?;
    }
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

#[cfg(feature = "shell")]
fn shell(run: &Run, args: &RowOutputArgs, console: &mut Console) -> anyhow::Result<Exit> {
    crate::commands::shell::run(run, args, console)
}

#[cfg(not(feature = "shell"))]
fn shell(_: &Run, _: &RowOutputArgs, _: &mut Console) -> anyhow::Result<Exit> {
    Err(with_help("this build has no interactive shell", "advisor sql PATH QUERY"))
}
