//! Lists tables, views and functions for a terminal.

use std::io::Write;

use trace_advisor::analyses::catalog;
use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::trace_model::tables::TABLES;

use crate::commands::tables::{describe, write_index, write_names};
use crate::diagnostics::with_help;

/// Lists all tables and views, without a description: it fits a screen or two.
pub(super) fn list(columns: usize, out: &mut dyn Write) -> anyhow::Result<()> {
    write_index(columns, out)?;
    writeln!(out, "\n`\\d NAME` describes one, `\\d WORD` lists those with a word in their name.")?;
    Ok(())
}

/// Describes the table or view of a name, or lists those whose name contains it.
pub(super) fn find(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = name.to_lowercase();
    let tables = TABLES.iter().map(|table| (table.name, table.row));
    let views = catalog().views().iter().map(|view| (view.name.as_str(), view.row.as_str()));
    let mut all: Vec<(&str, &str)> = tables.chain(views).collect();
    if all.iter().any(|(known, _)| *known == name) {
        return describe(&name, out);
    }
    if let Some(near) = nearest(&name, all.iter().map(|(known, _)| *known))
        && !all.iter().any(|(known, _)| known.contains(&name))
    {
        let message = format!("there is no table or view `{name}`");
        return Err(with_help(message, format!("did you mean `{near}`?")));
    }
    all.retain(|(known, _)| known.contains(&name));
    if all.is_empty() {
        let message = format!("no table or view has `{name}` in its name");
        return Err(with_help(message, "`\\d` lists tables and views"));
    }
    all.sort_unstable();
    let width = all.iter().map(|(known, _)| known.len()).max().unwrap_or(0);
    for (known, row) in all {
        writeln!(out, "{known:width$}  {row}")?;
    }
    Ok(())
}

/// Lists the functions whose name contains a word.
pub(super) fn functions(
    names: &[String],
    word: &str,
    columns: usize,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let word = word.to_lowercase();
    let found: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.contains(&word)).collect();
    if found.is_empty() {
        let message = format!("no function has `{word}` in its name");
        return Err(with_help(message, "`\\df` lists the functions"));
    }
    write_names(found, columns, out)
}

#[cfg(test)]
mod tests {
    use super::{find, list};

    fn text(write: impl FnOnce(&mut dyn std::io::Write) -> anyhow::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn list_fits_the_width_and_has_every_name_once() {
        let text = text(|out| list(60, out));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(text.split_whitespace().filter(|word| *word == "gpu_utilization").count(), 1);
    }

    #[test]
    fn find_describes_lists_or_suggests() {
        assert!(text(|out| find("KERNELS", out)).starts_with("kernels: one row is"));
        let listed = text(|out| find("utilization", out));
        assert!(listed.contains("gpu_utilization  "), "{listed}");
        let unknown = find("kernles", &mut Vec::new()).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no table or view `kernles`");
    }
}
