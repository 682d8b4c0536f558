//! `advisor sql`: queries over the tables and views of a run.

use std::io::{self, IsTerminal, Read as _};

use trace_advisor::Run;

use crate::args::{Rows, Sql};
use crate::commands::statements;
use crate::diagnostics::with_help;
use crate::render::rows;
use crate::run::{finish, open_for, print_warnings};
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Sql, console: &mut Console) -> anyhow::Result<Exit> {
    let is_shell = args.query.is_none() && io::stdin().is_terminal();
    if is_shell && args.rows.to.output.is_some() {
        return Err(with_help(
            "a file to write to, but no query",
            "advisor sql PATH QUERY -o FILE",
        ));
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
        return Err(with_help("there is no query", "advisor sql PATH \"SELECT * FROM ranks\""));
    }
    if args.rows.to.output.is_some() && queries.len() > 1 {
        return Err(with_help("several queries, but one file", "give one query with -o"));
    }
    let question = (!is_shell).then(|| queries.join("\n"));
    let run = open_for(question, &args.path, &args.reading, console)?;
    print_warnings(&run, console)?;
    if is_shell {
        return shell(&run, &args.rows, console);
    }
    for query in &queries {
        print(&run, query, &args.rows, console)?;
    }
    finish(&run, &args.reading, console)?;
    Ok(Exit::Clean)
}

/// Runs one query and writes its rows.
pub(crate) fn print(
    run: &Run,
    query: &str,
    args: &Rows,
    console: &mut Console,
) -> anyhow::Result<()> {
    let batches = run.sql(query)?;
    output::to(&args.to, args.format.reader(), console, |out, terminal| {
        rows::write(&batches, args.format, out, terminal)
    })
}

#[cfg(feature = "shell")]
fn shell(run: &Run, args: &Rows, console: &mut Console) -> anyhow::Result<Exit> {
    crate::commands::shell::run(run, args, console)
}

#[cfg(not(feature = "shell"))]
fn shell(_: &Run, _: &Rows, _: &mut Console) -> anyhow::Result<Exit> {
    Err(with_help("this program was built without the interactive shell", "advisor sql PATH QUERY"))
}
