//! `advisor explain`: the page of a rule, as Markdown or for a terminal, or the list of rules.

use trace_advisor::explain;

use super::rules::{find_rule, list};
use crate::args::ExplainArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::render::sanitize::sanitize_lines;
use crate::render::terminal_markdown;
use crate::rule_files;

pub(crate) fn run(args: &ExplainArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules, console)?;
    let Some(rule) = &args.rule else {
        list(&rules, false, console)?;
        writeln!(console.out, "\n`advisor explain CODE` explains a rule.")?;
        return Ok(Exit::Clean);
    };
    let page = explain(find_rule(rule, &rules)?);
    let page = sanitize_lines(&page);
    let page = match console.out_terminal {
        Some(terminal) => terminal_markdown::for_terminal(&page, terminal).into(),
        None => page,
    };
    write!(console.out, "{page}")?;
    Ok(Exit::Clean)
}
