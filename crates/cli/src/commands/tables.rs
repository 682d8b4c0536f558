//! `advisor tables`: what tables and views mean, and what was read into them.

use std::io::Write;
use std::path::Path;

use trace_advisor::Run;
use trace_advisor::analyses::{DEVICES, Module, catalog};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::datatypes::Int64Type;
use trace_advisor::ingest::Location;
use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::trace_model::tables::{self, TABLES};
use trace_advisor::trace_model::{TableSpec, Unit};

use crate::args::{RowFormat, Tables};
use crate::failure::helped;
use crate::render::clean::clean;
use crate::render::rows;
use crate::render::value::thousands;
use crate::run::{finish, open, print_warnings};
use crate::{Console, Exit};

pub(crate) fn run(args: &Tables, console: &mut Console) -> anyhow::Result<Exit> {
    match &args.what {
        None if args.device_table => write!(console.out, "{DEVICES}")?,
        Some(what) if args.sql => query(&what.display().to_string(), &mut console.out)?,
        None if args.all => {
            for (i, table) in TABLES.iter().enumerate() {
                separate(i, console)?;
                describe_table(table, &mut console.out)?;
            }
            for module in catalog().modules() {
                separate(1, console)?;
                describe_view(module, &mut console.out)?;
            }
        }
        None => overview(&mut console.out)?,
        Some(what) if what.exists() || Location::is_address(what) => of_run(what, args, console)?,
        Some(what) => describe(&what.display().to_string(), &mut console.out)?,
    }
    Ok(Exit::Clean)
}

fn separate(i: usize, console: &mut Console) -> std::io::Result<()> {
    if i > 0 { writeln!(console.out) } else { Ok(()) }
}

/// All tables and views with what a row is.
pub(crate) fn overview(out: &mut dyn Write) -> anyhow::Result<()> {
    let views = catalog().modules();
    let names = TABLES.iter().map(|t| t.name).chain(views.iter().map(|m| m.name.as_str()));
    let width = names.map(str::len).max().unwrap_or(0);
    writeln!(out, "Tables")?;
    for table in TABLES {
        writeln!(out, "  {:width$}  {}", table.name, table.row)?;
    }
    writeln!(out, "\nViews")?;
    let mut views: Vec<&Module> = views.iter().collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    for module in views {
        writeln!(out, "  {:width$}  {}", module.name, module.row)?;
    }
    writeln!(
        out,
        "\nadvisor tables NAME describes the columns; advisor tables PATH says what a run holds"
    )?;
    Ok(())
}

/// The query that a view is.
fn query(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    if tables::find(name).is_some() {
        let help = format!("`advisor tables {name}` describes it");
        return Err(helped(format!("{name} is a table: it is read from the traces"), help));
    }
    if catalog().find(name).is_none() {
        return describe(name, out);
    }
    let text = catalog().unfolded(name).map_err(trace_advisor::Error::from)?;
    Ok(write!(out, "{text}")?)
}

/// One table or view with its columns.
pub(crate) fn describe(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(table) = tables::find(name) {
        return describe_table(table, out);
    }
    if let Some(module) = catalog().find(name) {
        return describe_view(module, out);
    }
    let names =
        TABLES.iter().map(|t| t.name).chain(catalog().modules().iter().map(|m| m.name.as_str()));
    let help = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`advisor tables` lists tables and views".to_owned(),
    };
    Err(helped(format!("{name} is neither a table, nor a view, nor a file"), help))
}

fn describe_table(table: &TableSpec, out: &mut dyn Write) -> anyhow::Result<()> {
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
    lines(&columns, out)
}

fn describe_view(module: &Module, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}: one row is {}", module.name, module.row)?;
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
    lines(&columns, out)?;
    for param in &module.params {
        writeln!(out, "  --set {}={}  {}", param.name, param.default, param.doc)?;
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

fn lines(columns: &[Line<'_>], out: &mut dyn Write) -> anyhow::Result<()> {
    let width = |f: &dyn Fn(&Line<'_>) -> usize| columns.iter().map(f).max().unwrap_or(0);
    let (name, kind) = (width(&|c| c.name.len()), width(&|c| c.kind.len()));
    let unit = width(&|c| c.unit.as_str().len());
    for c in columns {
        writeln!(
            out,
            "  {:name$}  {:kind$}  {:unit$}  {}",
            c.name,
            c.kind,
            c.unit.as_str(),
            c.doc
        )?;
    }
    Ok(())
}

/// What was read from a run, and what became of it.
fn of_run(path: &Path, args: &Tables, console: &mut Console) -> anyhow::Result<()> {
    let run = open(path, &args.reading, console)?;
    files(&run, &mut console.out)?;
    links(&run, console)?;
    writeln!(console.out, "\nRows")?;
    let width = TABLES.iter().map(|t| t.name.len()).max().unwrap_or(0);
    for table in TABLES {
        let count = run.rows(table.name);
        if count > 0 || args.all {
            writeln!(console.out, "  {:width$}  {:>12}", table.name, thousands(count as i64))?;
        }
    }
    event_kinds(&run, args.all, console)?;
    console.out.flush()?;
    print_warnings(&run, console)?;
    finish(&run, &args.reading, console)?;
    Ok(())
}

/// How many events of which kind there were. Composer's markers have a category each: the most frequent kinds
/// are shown, and all that were set aside.
fn event_kinds(run: &Run, all: bool, console: &mut Console) -> anyhow::Result<()> {
    const SHOWN: usize = 24;
    writeln!(console.out, "\nEvents by kind, all files")?;
    let shown = if all { usize::MAX >> 1 } else { SHOWN };
    let kinds = "SELECT phase, category, sum(event_count) AS events, stored_in \
                 FROM event_counts GROUP BY phase, category, stored_in";
    let batches = run.sql(&format!(
        "SELECT phase, category, events, coalesce(stored_in, 'set aside') AS stored_in \
         FROM (SELECT *, row_number() OVER ( \
                   PARTITION BY stored_in IS NULL ORDER BY events DESC, phase, category) AS place \
               FROM ({kinds})) \
         WHERE place <= {shown} OR stored_in IS NULL \
         ORDER BY stored_in = 'set aside', events DESC, phase, category",
    ))?;
    rows::write(&batches, RowFormat::Table, &mut console.out, console.out_is_terminal)?;
    let count =
        run.sql(&format!("SELECT count(*) AS kinds FROM ({kinds}) WHERE stored_in IS NOT NULL"))?;
    let kinds =
        count.first().map_or(0, |batch| batch.column(0).as_primitive::<Int64Type>().value(0));
    let hidden = usize::try_from(kinds).unwrap_or(0).saturating_sub(shown);
    if hidden > 0 {
        writeln!(console.out, "... and {hidden} more kinds: --all shows them")?;
    }
    Ok(())
}

/// How execution traces go with the timelines of their ranks.
fn links(run: &Run, console: &mut Console) -> anyhow::Result<()> {
    if run.rows("execution_nodes") == 0 {
        return Ok(());
    }
    writeln!(console.out, "\nExecution traces, linked to host events by record-function id")?;
    let batches = run.sql(
        "SELECT rank, count(*) AS nodes, count(rf_id) AS with_id, count(event_id) AS linked \
         FROM execution_nodes GROUP BY rank ORDER BY rank",
    )?;
    rows::write(&batches, RowFormat::Table, &mut console.out, console.out_is_terminal)?;
    Ok(())
}

fn files(run: &Run, out: &mut dyn Write) -> anyhow::Result<()> {
    const SHOWN: usize = 16;
    let sources = &run.info().sources;
    writeln!(out, "Files")?;
    let shown = &sources[..sources.len().min(SHOWN)];
    let width = shown.iter().map(|s| clean(&s.file).chars().count()).max().unwrap_or(0);
    for source in shown {
        writeln!(
            out,
            "  {:width$}  rank {} (from {}), {}, {} {}, {:.1} MB of {}",
            clean(&source.file),
            source.rank,
            source.rank_from,
            source.format,
            thousands(source.events as i64),
            match source.format.as_ref() {
                "execution trace" => "nodes",
                "memory timeline" => "entries",
                "determined metrics" => "samples",
                _ => "events",
            },
            source.json_bytes as f64 / 1e6,
            match source.format.as_ref() {
                "memory snapshot" => "pickle",
                "determined metrics" => "text",
                _ => "JSON",
            }
        )?;
    }
    if sources.len() > SHOWN {
        writeln!(out, "  and {} more", sources.len() - SHOWN)?;
    }
    Ok(())
}
