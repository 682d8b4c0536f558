//! `advisor analyze`: the rows of one built-in view, or an overview of the run.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::Schema;
use trace_advisor::Run;
use trace_advisor::analyses::catalog;
use trace_advisor::arrow;
use trace_advisor::ingest::Location;
use trace_advisor::query::ViewDef;
use trace_advisor::trace_model::suggest::{column_help, nearest, nearest_column};
use trace_advisor::trace_model::tables;

use super::rows_of_runs::RowsOfRuns;
use super::{overview, questions, window};
use crate::args::{AnalyzeArgs, RowFormat};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::output::write_output;
use crate::render::layout::wrapped_for;
use crate::render::rows::{self, RowOptions};
use crate::render::sanitize::sanitize;
use crate::run::{finish, open_for_query};
use crate::runs::{note_left_out_below, query_each_run};

pub(crate) fn run(args: &AnalyzeArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let (name, path) = match (&args.name, &args.path) {
        // The list is the same for every run, so nothing is read.
        _ if args.list.is_some() => {
            return questions::list(args.list.as_deref().unwrap_or_default(), console);
        }
        (None, _) => return questions::list("", console),
        (Some(only), None) if is_path(only) => {
            return overview::run(Path::new(only), args, console);
        }
        (Some(name), None) if catalog().find(name).is_some() => {
            return Err(with_help(
                format!("missing PATH: the run to analyze with {name}"),
                format!("advisor analyze {name} PATH"),
            ));
        }
        (Some(name), None) => return Err(unknown(name, Path::new("PATH"))),
        // Both orders are accepted.
        (Some(path), Some(name)) if is_path(path) => (name.display().to_string(), Path::new(path)),
        (Some(name), Some(path)) => (name.clone(), path.as_path()),
    };
    let Some(view) = catalog().find(&name) else { return Err(unknown(&name, path)) };
    let order = args.sort.as_deref().map(|text| Order::parse(text, view)).transpose()?;
    let columns = chosen_columns(args, view)?;
    let analysis = Analysis { view, order, columns, args };
    if args.each.each {
        return analysis.print_each(path, console);
    }
    note_left_out_below(path, console)?;
    let (run, progress) = open_for_query(Some(analysis.query_hint()), path, &args.read, console)?;
    let rows = analysis.rows(&run)?;
    drop(progress);
    analysis.print(&rows, console)?;
    print_notes(&run, view, &rows, args, console)?;
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

/// The view to print, and how.
struct Analysis<'a> {
    view: &'a ViewDef,
    /// The order that the user asked for.
    order: Option<Order>,
    /// Positions of the columns to print.
    columns: Vec<usize>,
    args: &'a AnalyzeArgs,
}

impl Analysis<'_> {
    fn query_hint(&self) -> String {
        window::query_hint(&self.view.name)
    }

    /// The rows of one run.
    fn rows(&self, run: &Run) -> anyhow::Result<Vec<RecordBatch>> {
        let batches = run.analyze(&self.view.name)?;
        let batches = match &self.order {
            Some(order) => vec![sorted(&batches, std::slice::from_ref(order))?],
            // Programs get the order that the view declares.
            None if self.args.rows.format() == RowFormat::Table => {
                vec![sorted(&batches, &Order::of_view(self.view))?]
            }
            None => batches,
        };
        batches.iter().map(|batch| Ok(batch.project(&self.columns)?)).collect()
    }

    fn print(&self, rows: &[RecordBatch], console: &mut Console) -> anyhow::Result<()> {
        let args = &self.args.rows;
        let format = args.format();
        let options = RowOptions {
            limit: args.limit,
            view: Some(self.view),
            has_chosen_columns: !self.args.columns.is_empty(),
            is_wide: args.wide,
            is_expanded: false,
        };
        write_output(&args.output, format.audience(), console, |out, terminal| {
            rows::write_with(rows, format, options, out, terminal)
        })
    }

    /// Prints the rows of each run at or below `root`, one run after the other.
    fn print_each(&self, root: &Path, console: &mut Console) -> anyhow::Result<Exit> {
        let mut all = RowsOfRuns::default();
        let mut notes = Vec::new();
        let hint = self.query_hint();
        let read = query_each_run(root, Some(&hint), &self.args.read, console, |path, run| {
            let rows = self.rows(run)?;
            all.add(path, &rows)?;
            let note = if rows.iter().all(|batch| batch.num_rows() == 0) {
                Some(format!("no rows: {}", self.view.when_empty))
            } else {
                window::of_run(run, self.view)?.map(|window| format!("window: {window}"))
            };
            notes.extend(note.map(|note| format!("{}: {note}", path.display())));
            Ok(())
        })?;
        self.print(&all.into_batches(), console)?;
        console.out.flush()?;
        for note in notes {
            writeln!(console.err, "{}", sanitize(&note))?;
        }
        Ok(read.finish(console)?)
    }
}

/// Prints what was counted: under a table on a terminal, else to stderr. Without rows, the table has said why; other
/// formats have not.
fn print_notes(
    run: &Run,
    view: &ViewDef,
    batches: &[RecordBatch],
    args: &AnalyzeArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    console.out.flush()?;
    let is_table = args.rows.format() == RowFormat::Table;
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        if !is_table && !view.when_empty.is_empty() {
            writeln!(console.err, "no rows: {}", view.when_empty)?;
        }
        return Ok(());
    }
    let Some(window) = window::of_run(run, view)? else { return Ok(()) };
    let caption = format!("window: {window}");
    match console.out_terminal.filter(|_| is_table && args.rows.output.file.is_none()) {
        None => writeln!(console.err, "{caption}")?,
        Some(terminal) => writeln!(console.out, "{}", wrapped_for(Some(terminal), &caption, 2))?,
    }
    Ok(())
}

/// Whether an argument names a run, not a view.
fn is_path(argument: &str) -> bool {
    let exists = || {
        Path::new(argument).exists()
            || Location::is_address(argument)
            || Location::is_stdin(argument)
    };
    catalog().find(argument).is_none() && exists()
}

/// The error for a name that no view has.
fn unknown(name: &str, path: &Path) -> anyhow::Error {
    let about: Vec<&str> =
        questions::views_about(name).map(|view| view.name.as_str()).take(4).collect();
    let path = path.display();
    let help = if tables::find(name).is_some() {
        let about = if about.is_empty() {
            String::new()
        } else {
            format!("; analyses of it: {}", about.join(", "))
        };
        format!("it is a table: advisor sql {path} \"SELECT * FROM {name} LIMIT 10\"{about}")
    } else {
        let names = catalog().views().iter().map(|view| view.name.as_str());
        match nearest(name, names) {
            Some(near) => {
                format!("did you mean `{near}`? `advisor analyze --list` lists all analyses")
            }
            None if !about.is_empty() => format!("analyses of that: {}", about.join(", ")),
            None => "`advisor analyze --list WORD` searches the analyses".to_owned(),
        }
    };
    with_help(format!("unknown analysis `{name}`"), help)
}

/// The position of a column of the view, or an error that suggests another one.
fn column_at(name: &str, view: &ViewDef) -> anyhow::Result<usize> {
    let names: Vec<&str> = view.columns.iter().map(|column| column.name.as_str()).collect();
    names.iter().position(|column| *column == name).ok_or_else(|| {
        let columns = column_help(name, nearest_column(name, &names), &names);
        let help = format!("{columns}: `advisor tables {}` describes them", view.name);
        with_help(format!("{} has no column `{name}`", view.name), help)
    })
}

/// The positions of the columns to print.
fn chosen_columns(args: &AnalyzeArgs, view: &ViewDef) -> anyhow::Result<Vec<usize>> {
    if args.columns.is_empty() || args.columns == ["all"] {
        return Ok((0..view.columns.len()).collect());
    }
    args.columns.iter().map(|name| column_at(name, view)).collect()
}

/// A column to sort by.
struct Order {
    column: usize,
    is_descending: bool,
}

impl Order {
    /// Parses `COLUMN`, `COLUMN:asc` or `COLUMN:desc`.
    fn parse(text: &str, view: &ViewDef) -> anyhow::Result<Self> {
        let (name, is_descending) = match text.rsplit_once(':') {
            Some((name, "asc")) => (name, false),
            Some((name, "desc")) => (name, true),
            _ => (text, true),
        };
        Ok(Self { column: column_at(name, view)?, is_descending })
    }

    /// The order of tables for people.
    fn of_view(view: &ViewDef) -> Vec<Self> {
        let position = |name: &String| view.columns.iter().position(|column| column.name == *name);
        let largest_first = |column| Self { column, is_descending: true };
        view.sort.iter().filter_map(position).map(largest_first).collect()
    }
}

/// The rows in another order, nulls last. Rows that are equal keep their order.
fn sorted(batches: &[RecordBatch], orders: &[Order]) -> anyhow::Result<RecordBatch> {
    let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    let rows = concat_batches(&schema, batches)?;
    if orders.is_empty() || rows.num_rows() == 0 {
        return Ok(rows);
    }
    let key = |order: &Order| SortColumn {
        values: Arc::clone(rows.column(order.column)),
        options: Some(SortOptions { descending: order.is_descending, nulls_first: false }),
    };
    let position: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows.num_rows() as u32));
    let last = SortColumn { values: position, options: None };
    let keys: Vec<SortColumn> = orders.iter().map(key).chain([last]).collect();
    Ok(take_record_batch(&rows, &lexsort_to_indices(&keys, None)?)?)
}
