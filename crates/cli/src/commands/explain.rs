//! `advisor explain`: a rule's page.

use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::{RuleSet, explain};

use crate::args::Explain;
use crate::failure::helped;
use crate::render::clean::clean_lines;
use crate::{Console, Exit, rule_files};

pub(crate) fn run(args: &Explain, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules.files, args.rules.no_default_rules)?;
    let wanted = args.rule.as_str();
    let found = rules
        .all()
        .iter()
        .find(|r| r.code.eq_ignore_ascii_case(wanted) || r.name.eq_ignore_ascii_case(wanted));
    let Some(rule) = found else { return Err(unknown(wanted, &rules)) };
    write!(console.out, "{}", clean_lines(&explain(rule)))?;
    Ok(Exit::Clean)
}

fn unknown(wanted: &str, rules: &RuleSet) -> anyhow::Error {
    let names = rules.all().iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
    let help = match nearest(wanted, names) {
        Some(near) => format!("did you mean `{near}`? `advisor rules list` lists all rules"),
        None => "`advisor rules list` lists the rules".to_owned(),
    };
    helped(format!("there is no rule `{wanted}`"), help)
}
