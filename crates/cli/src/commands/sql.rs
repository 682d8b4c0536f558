//! `advisor sql`: queries over the tables and views of a run.

use std::io::{self, IsTerminal};

use anyhow::Context as _;
use trace_advisor::Run;
use trace_advisor::ingest::Location;

use crate::args::{RowFormat, RowOutputArgs, SqlArgs};
use crate::commands::query::{print_query, write_rows};
use crate::commands::rows_of_runs::RowsOfRuns;
use crate::commands::statements;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::print_warnings;
use crate::run::{finish, open_for_query};
use crate::runs::{note_left_out_below, query_each_run};
use crate::text_file;

pub(crate) fn run(args: &SqlArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if args.query.is_none() && Location::is_stdin(&args.run.path) {
        let help = "the trace is read from stdin: advisor sql - QUERY";
        return Err(with_help("missing QUERY", help));
    }
    let is_shell = args.query.is_none() && io::stdin().is_terminal();
    let has_file = args.rows.output.file.is_some();
    if is_shell && has_file {
        return Err(with_help("-o FILE needs a query", "advisor sql PATH QUERY -o FILE"));
    }
    let queries = match &args.query {
        _ if is_shell => Vec::new(),
        Some(query) => statements::split(query),
        None => {
            let text = text_file::read_from(io::stdin(), text_file::MAX_SQL_BYTES);
            statements::split(&text.context("cannot read the queries from stdin")?)
        }
    };
    if !is_shell && queries.is_empty() {
        return Err(with_help("the query is empty", "advisor sql PATH \"SELECT * FROM ranks\""));
    }
    if queries.len() > 1 && (has_file || args.rows.format() != RowFormat::Table) {
        let subject = if has_file { "-o FILE" } else { "this format" };
        return Err(with_help(
            format!("{subject} takes the rows of one query, but there are {}", queries.len()),
            "run the queries one by one",
        ));
    }
    if args.each.each {
        if is_shell {
            return Err(with_help("--each needs a query", "advisor sql PATH --each QUERY"));
        }
        return query_each(args, &queries, console);
    }
    note_left_out_below(&args.run.path, console)?;
    let hint = (!is_shell).then(|| queries.join("\n"));
    let (run, progress) = open_for_query(hint, &args.run.path, &args.read, console)?;
    if is_shell {
        drop(progress);
        print_warnings(run.warnings(), console)?;
        return shell(&run, &args.rows, console);
    }
    for (i, query) in queries.iter().enumerate() {
        if i > 0 {
            progress.suspend(|| writeln!(console.out))?;
        }
        print_query(&run, query, &args.rows, &progress, console)?;
    }
    drop(progress);
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

/// Runs the queries on each run at or below the path, and prints the rows of each query together.
fn query_each(args: &SqlArgs, queries: &[String], console: &mut Console) -> anyhow::Result<Exit> {
    let mut results: Vec<RowsOfRuns> = queries.iter().map(|_| RowsOfRuns::default()).collect();
    let hint = queries.join("\n");
    let read = query_each_run(&args.run.path, Some(&hint), &args.read, console, |path, run| {
        queries
            .iter()
            .zip(&mut results)
            .try_for_each(|(query, rows)| rows.add(path, &run.sql(query)?))
    })?;
    for (i, rows) in results.into_iter().enumerate() {
        if i > 0 {
            writeln!(console.out)?;
        }
        write_rows(&rows.into_batches(), &args.rows, console)?;
    }
    Ok(read.finish(console)?)
}

#[cfg(feature = "shell")]
fn shell(run: &Run, args: &RowOutputArgs, console: &mut Console) -> anyhow::Result<Exit> {
    crate::commands::shell::run(run, args, console)
}

#[cfg(not(feature = "shell"))]
fn shell(_: &Run, _: &RowOutputArgs, _: &mut Console) -> anyhow::Result<Exit> {
    Err(with_help("this build has no interactive shell", "advisor sql PATH QUERY"))
}
