//! `advisor analyze`: the rows of one built-in view.

use std::path::Path;

use trace_advisor::analyses::catalog;

use crate::args::Analyze;
use crate::failure::helped;
use crate::render::rows;
use crate::run::{open, print_timings, print_warnings};
use crate::suggest::nearest;
use crate::{Console, Exit, output};

pub(crate) fn run(args: &Analyze, console: &mut Console) -> anyhow::Result<Exit> {
    let (path, name) = match (&args.path, &args.name) {
        (Some(path), None) if is_view(path) => {
            return Err(helped(
                format!("{} of which run?", path.display()),
                format!("advisor analyze PATH {}", path.display()),
            ));
        }
        // Nothing is read for a list that is the same for every run.
        (None, _) | (Some(_), None) => return list(console),
        // The other order says as much.
        (Some(name), Some(path)) if is_view(name) => (Path::new(path), name.display().to_string()),
        (Some(path), Some(name)) => (path.as_path(), name.clone()),
    };
    if catalog().find(&name).is_none() {
        let names = catalog().modules().iter().map(|m| m.name.as_str());
        let help = match nearest(&name, names) {
            Some(near) => format!("did you mean `{near}`? `advisor analyze` lists all analyses"),
            None => "`advisor analyze` lists the analyses".to_owned(),
        };
        return Err(helped(format!("there is no analysis `{name}`"), help));
    }
    let run = open(path, &args.reading, console)?;
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
    print_timings(&run, &args.reading, console)?;
    Ok(Exit::Clean)
}

/// Whether a first argument names a view and no file.
fn is_view(path: &Path) -> bool {
    path.to_str().is_some_and(|name| catalog().find(name).is_some()) && !path.exists()
}

fn list(console: &mut Console) -> anyhow::Result<Exit> {
    let mut modules: Vec<_> =
        catalog().modules().iter().filter(|m| m.area() != "prelude").collect();
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    let width = modules.iter().map(|m| m.name.len()).max().unwrap_or(0);
    for module in &modules {
        writeln!(console.out, "{:width$}  {}", module.name, module.row)?;
        for param in &module.params {
            let (name, default, doc) = (&param.name, &param.default, &param.doc);
            writeln!(console.out, "{:width$}    --set {name}={default}  {doc}", "")?;
        }
    }
    writeln!(
        console.out,
        "\nadvisor analyze PATH NAME prints one; advisor tables NAME describes its columns"
    )?;
    Ok(Exit::Clean)
}
