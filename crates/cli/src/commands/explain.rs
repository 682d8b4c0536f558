//! `advisor explain`: the page of a rule, as Markdown or for a terminal.

use trace_advisor::advisor::Rule;
use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::{RuleSet, explain};

use crate::args::ExplainArgs;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::render::sanitize::sanitize_lines;
use crate::render::terminal_markdown;
use crate::rule_files;

pub(crate) fn run(args: &ExplainArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules, console)?;
    let page = explain(find_rule(&args.rule, &rules)?);
    let page = sanitize_lines(&page);
    let page = match console.out_terminal {
        Some(terminal) => terminal_markdown::for_terminal(&page, terminal).into(),
        None => page,
    };
    write!(console.out, "{page}")?;
    Ok(Exit::Clean)
}

/// The rule with this code or name.
pub(crate) fn find_rule<'r>(wanted: &str, rules: &'r RuleSet) -> anyhow::Result<&'r Rule> {
    let found = rules
        .all()
        .iter()
        .find(|r| r.code.eq_ignore_ascii_case(wanted) || r.name.eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| unknown_rule(wanted, rules))
}

fn unknown_rule(wanted: &str, rules: &RuleSet) -> anyhow::Error {
    let names = rules.all().iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
    let help = match nearest(wanted, names) {
        Some(near) => format!("did you mean `{near}`? `advisor rules list` lists all rules"),
        None => "`advisor rules list` lists all rules".to_owned(),
    };
    with_help(format!("unknown rule `{wanted}`"), help)
}
