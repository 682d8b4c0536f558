//! `advisor explain`: the page of a rule.

use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::{RuleSet, explain};

use crate::args::ExplainArgs;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::render::sanitize::sanitize_lines;
use crate::rule_files;

pub(crate) fn run(args: &ExplainArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules.files, args.rules.no_default_rules)?;
    let wanted = args.rule.as_str();
    let found = rules
        .all()
        .iter()
        .find(|r| r.code.eq_ignore_ascii_case(wanted) || r.name.eq_ignore_ascii_case(wanted));
    let Some(rule) = found else { return Err(unknown_rule(wanted, &rules)) };
    write!(console.out, "{}", sanitize_lines(&explain(rule)))?;
    Ok(Exit::Clean)
}

fn unknown_rule(wanted: &str, rules: &RuleSet) -> anyhow::Error {
    let names = rules.all().iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
    let help = match nearest(wanted, names) {
        Some(near) => format!("did you mean `{near}`? `advisor rules list` lists all rules"),
        None => "`advisor rules list` lists all rules".to_owned(),
    };
    with_help(format!("unknown rule `{wanted}`"), help)
}
