//! `advisor analyze`: the rows of one built-in view.

use std::path::Path;

use trace_advisor::analyses::{TOPICS, catalog};
use trace_advisor::ingest::Location;
use trace_advisor::trace_model::suggest::nearest;

use crate::args::AnalyzeArgs;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::print_warnings;
use crate::output::write_output;
use crate::render::rows;
use crate::run::{finish, open_for_query};

pub(crate) fn run(args: &AnalyzeArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let (name, path) = match (&args.name, &args.path) {
        // The list is the same for every run, so nothing is read.
        _ if args.list => return list(console),
        (None, _) => return list(console),
        (Some(only), None) if is_path(only) => return list(console),
        (Some(name), None) => {
            return Err(with_help(
                format!("missing PATH: the run to analyze with {name}"),
                format!("advisor analyze {name} PATH"),
            ));
        }
        // Both orders are accepted.
        (Some(path), Some(name)) if is_path(path) => (name.display().to_string(), Path::new(path)),
        (Some(name), Some(path)) => (name.clone(), path.as_path()),
    };
    if catalog().find(&name).is_none() {
        let names = catalog().views().iter().map(|m| m.name.as_str());
        let help = match nearest(&name, names) {
            Some(near) => format!("did you mean `{near}`? `advisor analyze` lists all analyses"),
            None => "`advisor analyze` lists all analyses".to_owned(),
        };
        return Err(with_help(format!("unknown analysis `{name}`"), help));
    }
    let run = open_for_query(Some(name.clone()), path, &args.read, console)?;
    print_warnings(run.warnings(), console)?;
    let batches = run.analyze(&name)?;
    let format = args.rows.format;
    write_output(&args.rows.output, format.audience(), console, |out, is_terminal| {
        rows::write(&batches, format, out, is_terminal)
    })?;
    if let Some(module) = catalog().find(&name)
        && !module.when_empty.is_empty()
        && batches.iter().all(|b| b.num_rows() == 0)
    {
        console.out.flush()?;
        writeln!(console.err, "no rows: {}", module.when_empty)?;
    }
    finish(&run, &args.read, console)?;
    Ok(Exit::Clean)
}

/// Whether an argument names a run, not a view.
fn is_path(argument: &str) -> bool {
    let exists = || Path::new(argument).exists() || Location::is_address(argument);
    catalog().find(argument).is_none() && exists()
}

/// Prints all analyses by topic.
fn list(console: &mut Console) -> anyhow::Result<Exit> {
    let names = TOPICS.iter().flat_map(|topic| topic.views(catalog()));
    let width = names.map(|module| module.name.len()).max().unwrap_or(0);
    for topic in TOPICS {
        match topic.formerly {
            Some(view) => writeln!(console.out, "{}  (TensorBoard: {view})", topic.title)?,
            None => writeln!(console.out, "{}", topic.title)?,
        }
        for module in topic.views(catalog()) {
            writeln!(console.out, "  {:width$}  {}", module.name, module.row)?;
        }
        writeln!(console.out)?;
    }
    writeln!(
        console.out,
        "`advisor analyze NAME PATH` prints an analysis, `advisor tables NAME` describes its columns and parameters."
    )?;
    Ok(Exit::Clean)
}
