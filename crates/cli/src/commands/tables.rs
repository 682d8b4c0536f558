//! `advisor tables`: descriptions of tables and views, and what was read from a run.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use trace_advisor::Run;
use trace_advisor::analyses::{DEVICES, catalog};
use trace_advisor::arrow::array::{ArrayRef, StringArray};
use trace_advisor::ingest::Location;
use trace_advisor::query::{ViewDef, query_table};
use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::trace_model::tables::{self, TABLES};
use trace_advisor::trace_model::{Capability, RecordBatch, TableSpec, Unit};

use super::questions;
use crate::args::{RowFormat, TablesArgs};
use crate::console::{Console, Terminal};
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::render::rows;
use crate::render::sanitize::sanitize;
use crate::render::value::thousands;
use crate::run::{finish, open, open_for_query};
use crate::runs::{for_each_run, note_left_out_below, print_run_heading};

/// Names that an error lists.
const MAX_LISTED: usize = 6;
/// Shorter words are part of too many names.
const MIN_PART: usize = 3;

pub(crate) fn run(args: &TablesArgs, console: &mut Console) -> anyhow::Result<Exit> {
    match subjects(args) {
        _ if args.capabilities => capabilities(args.format, console)?,
        _ if args.device_table => write!(console.out, "{DEVICES}")?,
        (_, Some(name)) if args.sql => print_sql(&name, &mut console.out)?,
        (Some(path), None) if args.sql => print_sql(&path.display().to_string(), &mut console.out)?,
        (Some(path), name) if args.each.each => {
            let mut is_first = true;
            let queue = for_each_run(path, console, |path, console| {
                let run = open_run(path, name.as_deref(), args, console)?;
                print_run_heading(path, std::mem::take(&mut is_first), &mut console.out)?;
                show(&run, name.as_deref(), args, console)
            })?;
            return Ok(queue.print_failures(console)?);
        }
        (Some(path), name) => {
            note_left_out_below(path, console)?;
            let run = open_run(path, name.as_deref(), args, console)?;
            show(&run, name.as_deref(), args, console)?;
        }
        (None, Some(name)) => describe(&name, &mut console.out)?,
        (None, None) if args.all => {
            for (i, table) in TABLES.iter().enumerate() {
                separate(i, console)?;
                describe_table(table, &[], &mut console.out)?;
            }
            for module in catalog().views() {
                separate(1, console)?;
                describe_view(module, &[], &mut console.out)?;
            }
        }
        (None, None) => overview(console)?,
    }
    Ok(Exit::Clean)
}

/// The run and the table or view that the arguments name, in either order.
fn subjects(args: &TablesArgs) -> (Option<&Path>, Option<String>) {
    let is_run =
        |path: &&Path| path.exists() || Location::is_address(path) || Location::is_stdin(path);
    let text = |name: &Path| name.display().to_string();
    match (args.subject.as_deref(), args.name.as_deref()) {
        (Some(name), Some(path)) if !is_run(&name) && is_run(&path) => {
            (Some(path), Some(text(name)))
        }
        (Some(path), Some(name)) => (Some(path), Some(text(name))),
        (Some(only), None) if is_run(&only) => (Some(only), None),
        (Some(name), _) => (None, Some(text(name))),
        (None, _) => (None, None),
    }
}

fn separate(i: usize, console: &mut Console) -> std::io::Result<()> {
    if i > 0 { writeln!(console.out) } else { Ok(()) }
}

/// Prints the views to start with, then the names of all views by question, and of all tables.
fn overview(console: &mut Console) -> anyhow::Result<()> {
    let terminal = console.out_terminal;
    questions::print_start(terminal, &mut console.out)?;
    write_index(Terminal::columns_of(terminal), &mut console.out)?;
    writeln!(
        console.out,
        "\n`advisor tables NAME` describes the columns, `advisor tables PATH` shows what was read from a run,\n\
         `advisor tables PATH NAME` both, `advisor tables --all` describes everything. `advisor analyze --list`\n\
         has the question of each view, and `advisor analyze --list WORD` searches."
    )?;
    Ok(())
}

/// Lists the names of all views by the question that they answer, and of all tables.
pub(crate) fn write_index(columns: usize, out: &mut dyn Write) -> anyhow::Result<()> {
    for (title, views) in questions::topics_and_blocks(|_| true) {
        writeln!(out, "{title}")?;
        write_names(views.iter().map(|view| view.name.as_str()), columns, out)?;
        writeln!(out)?;
    }
    writeln!(out, "Tables, as they were recorded")?;
    write_names(TABLES.iter().map(|table| table.name), columns, out)
}

/// Writes names beside each other, in lines of at most `columns` characters.
pub(crate) fn write_names<'a>(
    names: impl IntoIterator<Item = &'a str>,
    columns: usize,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut line = String::new();
    for name in names {
        if !line.is_empty() && line.len() + 2 + name.len() > columns {
            writeln!(out, "{line}")?;
            line.clear();
        }
        line.push_str("  ");
        line.push_str(name);
    }
    Ok(writeln!(out, "{line}")?)
}

/// Prints the SQL of a view.
fn print_sql(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    if tables::find(name).is_some() {
        let help = format!("`advisor tables {name}` describes it");
        return Err(with_help(format!("{name} is a table read from the traces, not a view"), help));
    }
    if catalog().find(name).is_none() {
        return describe(name, out);
    }
    let text = catalog().inlined_sql(name).map_err(trace_advisor::Error::from)?;
    Ok(write!(out, "{text}")?)
}

/// Lists the kinds of data that a recording can hold, with what records each.
fn capabilities(format: RowFormat, console: &mut Console) -> anyhow::Result<()> {
    let text = |text: fn(Capability) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(Capability::ALL.iter().map(|&c| text(c))))
    };
    let list = RecordBatch::try_from_iter([
        ("capability", text(|capability| capability.as_str().to_owned())),
        ("what_it_is", text(|capability| capability.doc().to_owned())),
        ("recorded_with", text(|capability| capability.provider().to_string())),
    ])?;
    rows::write(&[list], format, &mut console.out, console.out_terminal)
}

/// Describes one table or view with its columns.
pub(crate) fn describe(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    describe_in_run(name, &[], out)
}

/// Describes one table or view, and marks the columns in `empty`.
fn describe_in_run(name: &str, empty: &[&str], out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(table) = tables::find(name) {
        return describe_table(table, empty, out);
    }
    if let Some(module) = catalog().find(name) {
        return describe_view(module, empty, out);
    }
    Err(unknown(name))
}

/// The error for a name that no table or view has.
fn unknown(name: &str) -> anyhow::Error {
    let tables = || TABLES.iter().map(|table| table.name);
    let views = catalog().views().iter().map(|view| view.name.as_str());
    let about = tables().filter(|table| name.len() >= MIN_PART && table.contains(name));
    let about = about.chain(questions::views_about(name).map(|view| view.name.as_str()));
    let about: Vec<&str> = about.take(MAX_LISTED).collect();
    let help = match nearest(name, tables().chain(views)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if !about.is_empty() => format!("there are {}", about.join(", ")),
        None => "`advisor tables` lists tables and views".to_owned(),
    };
    with_help(format!("there is no table, view or file `{name}`"), help)
}

fn describe_table(table: &TableSpec, empty: &[&str], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}: one row is {}", table.name, table.row)?;
    let columns: Vec<Line<'_>> = table
        .columns
        .iter()
        .map(|c| Line {
            name: c.name,
            kind: if c.nullable {
                format!("{}?", c.column_type.as_str())
            } else {
                c.column_type.as_str().to_owned()
            },
            unit: c.unit,
            doc: c.doc,
        })
        .collect();
    lines(&columns, empty, out)
}

fn describe_view(module: &ViewDef, empty: &[&str], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}: {}", module.name, module.question)?;
    writeln!(out, "  one row is {}", module.row)?;
    if let Some(window) = module.window {
        writeln!(out, "  counts {}", window.doc())?;
    }
    if !module.sort.is_empty() {
        writeln!(out, "  as a table sorted by {}, largest first", module.sort.join(", then "))?;
    }
    writeln!(out, "  reads {}; defined in {}", module.needs.join(", "), module.path)?;
    let columns: Vec<Line<'_>> = module
        .columns
        .iter()
        .map(|c| Line {
            name: &c.name,
            kind: c.metric.map(|scope| format!("metric/{scope}")).unwrap_or_default(),
            unit: c.unit,
            doc: &c.doc,
        })
        .collect();
    lines(&columns, empty, out)?;
    for param in &module.params {
        writeln!(out, "  --set {}={}  {}", param.name, param.default, param.doc)?;
    }
    if !module.requires.is_empty() {
        let names: Vec<&str> = module.requires.iter().map(|need| need.as_str()).collect();
        writeln!(out, "  needs {}", names.join(", "))?;
    }
    if !module.when_empty.is_empty() {
        writeln!(out, "  no rows: {}", module.when_empty)?;
    }
    Ok(())
}

struct Line<'a> {
    name: &'a str,
    kind: String,
    unit: Unit,
    doc: &'a str,
}

/// Prints a line per column. Those in `empty` are marked.
fn lines(columns: &[Line<'_>], empty: &[&str], out: &mut dyn Write) -> anyhow::Result<()> {
    let width = |f: &dyn Fn(&Line<'_>) -> usize| columns.iter().map(f).max().unwrap_or(0);
    let (name, kind) = (width(&|c| c.name.len()), width(&|c| c.kind.len()));
    let unit = width(&|c| c.unit.as_str().len());
    for c in columns {
        let mark = if empty.contains(&c.name) { "[no values] " } else { "" };
        writeln!(
            out,
            "  {:name$}  {:kind$}  {:unit$}  {mark}{}",
            c.name,
            c.kind,
            c.unit.as_str(),
            c.doc
        )?;
    }
    Ok(())
}

/// Opens a run with all of its tables, or with those that a table or view needs.
fn open_run(
    path: &Path,
    name: Option<&str>,
    args: &TablesArgs,
    console: &mut Console,
) -> anyhow::Result<Run> {
    let (run, progress) = match name {
        Some(name) => open_for_query(Some(Counts::of(name)?.query), path, &args.read, console)?,
        None => open(path, &args.read, console)?,
    };
    drop(progress);
    Ok(run)
}

/// Shows what was read from a run, or one of its tables or views.
fn show(
    run: &Run,
    name: Option<&str>,
    args: &TablesArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    match name {
        Some(name) => show_relation(run, name, args, console),
        None => show_run(run, args, console),
    }
}

/// The name of the count of all rows: no column has it.
const ALL_ROWS: &str = "count(*)";

/// Counts the rows of a table or view, and the values in each of its columns.
struct Counts {
    columns: Vec<&'static str>,
    query: String,
}

impl Counts {
    fn of(name: &str) -> anyhow::Result<Self> {
        let columns: Vec<&str> = match (tables::find(name), catalog().find(name)) {
            (Some(table), _) => table.columns.iter().map(|column| column.name).collect(),
            (_, Some(view)) => view.columns.iter().map(|column| column.name.as_str()).collect(),
            (None, None) => return Err(unknown(name)),
        };
        let counts: Vec<String> =
            columns.iter().map(|name| format!("count(\"{name}\") AS \"{name}\"")).collect();
        let counts = counts.join(", ");
        let query = format!("SELECT count(*) AS \"{ALL_ROWS}\", {counts} FROM {name}");
        Ok(Self { columns, query })
    }
}

/// Describes a table or view of a run, with its rows and the columns without values.
fn show_relation(
    run: &Run,
    name: &str,
    args: &TablesArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let Counts { columns, query } = Counts::of(name)?;
    let table = query_table(name, &run.sql(&query)?)?;
    let count = |column: &str| table.first_row().map_or(0, |row| row.count(column));
    let rows = count(ALL_ROWS);
    let empty: Vec<&str> =
        columns.into_iter().filter(|column| rows > 0 && count(column) == 0).collect();
    describe_in_run(name, &empty, &mut console.out)?;
    writeln!(console.out, "  {} rows in this run", thousands(rows))?;
    finish(run, &args.read, console)
}

/// Shows what was read from a run, and where it went.
fn show_run(run: &Run, args: &TablesArgs, console: &mut Console) -> anyhow::Result<()> {
    files(run, &mut console.out)?;
    links(run, console)?;
    held_capabilities(run, console)?;
    writeln!(console.out, "\nRows")?;
    let width = TABLES.iter().map(|t| t.name.len()).max().unwrap_or(0);
    for table in TABLES {
        let count = run.rows(table.name);
        if count > 0 || args.all {
            writeln!(console.out, "  {:width$}  {:>12}", table.name, thousands(count as i64))?;
        }
    }
    event_kinds(run, args.all, console)?;
    finish(run, &args.read, console)?;
    Ok(())
}

/// Shows the number of events of each kind. Each of Composer's markers has a category of its own, so only the
/// most frequent kinds are shown, and all kinds that were skipped.
fn event_kinds(run: &Run, all: bool, console: &mut Console) -> anyhow::Result<()> {
    const SHOWN: usize = 24;
    writeln!(console.out, "\nEvents by kind, all files")?;
    let shown = if all { usize::MAX >> 1 } else { SHOWN };
    let kinds = "SELECT phase, category, sum(event_count) AS events, stored_in \
                 FROM event_counts GROUP BY phase, category, stored_in";
    let batches = run.sql(&format!(
        "SELECT phase, category, events, coalesce(stored_in, 'skipped') AS stored_in \
         FROM (SELECT *, row_number() OVER ( \
                   PARTITION BY stored_in IS NULL ORDER BY events DESC, phase, category) AS place \
               FROM ({kinds})) \
         WHERE place <= {shown} OR stored_in IS NULL \
         ORDER BY stored_in = 'skipped', events DESC, phase, category",
    ))?;
    rows::write(&batches, RowFormat::Table, &mut console.out, console.out_terminal)?;
    let count =
        run.sql(&format!("SELECT count(*) AS kinds FROM ({kinds}) WHERE stored_in IS NOT NULL"))?;
    let kinds = query_table("kinds", &count)?.first_row().map_or(0, |row| row.count("kinds"));
    let hidden = usize::try_from(kinds).unwrap_or(0).saturating_sub(shown);
    if hidden > 0 {
        writeln!(console.out, "... and {hidden} more kinds (--all shows them)")?;
    }
    Ok(())
}

/// Shows how many nodes of execution traces were linked to the timelines of their ranks.
fn links(run: &Run, console: &mut Console) -> anyhow::Result<()> {
    if run.rows("execution_nodes") == 0 {
        return Ok(());
    }
    writeln!(console.out, "\nExecution traces, linked to host events by record-function id")?;
    let batches = run.sql(
        "SELECT rank, count(*) AS nodes, count(rf_id) AS with_id, count(event_id) AS linked \
         FROM execution_nodes GROUP BY rank ORDER BY rank",
    )?;
    rows::write(&batches, RowFormat::Table, &mut console.out, console.out_terminal)?;
    Ok(())
}

/// Shows the kinds of data that the run holds.
fn held_capabilities(run: &Run, console: &mut Console) -> anyhow::Result<()> {
    // Tables that were stored before capabilities were have none.
    if run.rows("capabilities") == 0 {
        return Ok(());
    }
    writeln!(console.out, "\nKinds of data (`advisor tables --capabilities` explains them)")?;
    let batches = run.sql(
        "SELECT capability, count(rank) AS rank_count FROM capabilities GROUP BY capability ORDER BY capability",
    )?;
    rows::write(&batches, RowFormat::Table, &mut console.out, console.out_terminal)
}

fn files(run: &Run, out: &mut dyn Write) -> anyhow::Result<()> {
    const SHOWN: usize = 16;
    let sources = &run.info().sources;
    writeln!(out, "Files")?;
    let shown = &sources[..sources.len().min(SHOWN)];
    let width = shown.iter().map(|s| sanitize(&s.file).chars().count()).max().unwrap_or(0);
    for source in shown {
        writeln!(
            out,
            "  {:width$}  rank {} (from {}), {}, {} {}, {:.1} MB of {}",
            sanitize(&source.file),
            source.rank,
            source.rank_from,
            source.format,
            thousands(source.events as i64),
            match source.format.as_ref() {
                "execution trace" => "nodes",
                "memory timeline" => "entries",
                "determined metrics" => "samples",
                "torch.compile log" | "flight recorder" | "flight recorder JSON" => "records",
                _ => "events",
            },
            source.json_bytes as f64 / 1e6,
            match source.format.as_ref() {
                "memory snapshot" | "flight recorder" => "pickle",
                "determined metrics" | "torch.compile log" => "text",
                _ => "JSON",
            }
        )?;
    }
    if sources.len() > SHOWN {
        writeln!(out, "  and {} more", sources.len() - SHOWN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{unknown, write_names};
    use crate::diagnostics::help;

    #[test]
    fn names_wrap_at_the_width() {
        let mut out = Vec::new();
        write_names(["one", "two", "three"], 12, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  one  two\n  three\n");
    }

    #[test]
    fn parts_of_names_suggest_whole_ones() {
        let help = |name: &str| help(&unknown(name)).unwrap();
        assert!(
            help("gpu_util").starts_with("there are gpu_utilization, "),
            "{}",
            help("gpu_util")
        );
        assert_eq!(help("kernles"), "did you mean `kernels`?");
        assert_eq!(help("nonsense"), "`advisor tables` lists tables and views");
    }
}
