//! `advisor analyze`: the rows of one built-in view.

use std::path::Path;

use trace_advisor::analyses::{TOPICS, catalog};
use trace_advisor::ingest::Location;
use trace_advisor::trace_model::suggest::nearest;

use crate::args::Analyze;
use crate::failure::helped;
use crate::render::rows;
use crate::run::{finish, open_for, print_warnings};
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Analyze, console: &mut Console) -> anyhow::Result<Exit> {
    let (name, path) = match (&args.name, &args.path) {
        // Nothing is read for a list that is the same for every run.
        _ if args.list => return list(console),
        (None, _) => return list(console),
        (Some(only), None) if is_path(only) => return list(console),
        (Some(name), None) => {
            return Err(helped(
                format!("{name} of which run?"),
                format!("advisor analyze {name} PATH"),
            ));
        }
        // The other order says as much.
        (Some(path), Some(name)) if is_path(path) => (name.display().to_string(), Path::new(path)),
        (Some(name), Some(path)) => (name.clone(), path.as_path()),
    };
    if catalog().find(&name).is_none() {
        let names = catalog().modules().iter().map(|m| m.name.as_str());
        let help = match nearest(&name, names) {
            Some(near) => format!("did you mean `{near}`? `advisor analyze` lists all analyses"),
            None => "`advisor analyze` lists the analyses".to_owned(),
        };
        return Err(helped(format!("there is no analysis `{name}`"), help));
    }
    let run = open_for(Some(name.clone()), path, &args.reading, console)?;
    print_warnings(&run, console)?;
    let batches = run.analyze(&name)?;
    output::to(&args.rows.to, args.rows.format.reader(), console, |out, terminal| {
        rows::write(&batches, args.rows.format, out, terminal)
    })?;
    if let Some(module) = catalog().find(&name)
        && !module.when_empty.is_empty()
        && batches.iter().all(|b| b.num_rows() == 0)
    {
        console.out.flush()?;
        writeln!(console.err, "no rows: {}", module.when_empty)?;
    }
    finish(&run, &args.reading, console)?;
    Ok(Exit::Clean)
}

/// Whether a first argument is a file and not the name of a view.
fn is_path(argument: &str) -> bool {
    let is_there = || Path::new(argument).exists() || Location::is_address(argument);
    catalog().find(argument).is_none() && is_there()
}

/// The table of contents.
fn list(console: &mut Console) -> anyhow::Result<Exit> {
    let names = TOPICS.iter().flat_map(|topic| topic.modules(catalog()));
    let width = names.map(|module| module.name.len()).max().unwrap_or(0);
    for topic in TOPICS {
        match topic.formerly {
            Some(view) => writeln!(console.out, "{}  (TensorBoard: {view})", topic.title)?,
            None => writeln!(console.out, "{}", topic.title)?,
        }
        for module in topic.modules(catalog()) {
            writeln!(console.out, "  {:width$}  {}", module.name, module.row)?;
        }
        writeln!(console.out)?;
    }
    writeln!(
        console.out,
        "advisor analyze NAME PATH prints one; advisor tables NAME describes its columns and parameters"
    )?;
    Ok(Exit::Clean)
}
