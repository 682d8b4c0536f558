//! The filter `rules_needing` of texts: the codes of the rules that need a kind of data, generated from the loaded rules.

use std::collections::BTreeMap;

use minijinja::{Environment, Value as Jinja};
use trace_model::Capability;

use crate::language::expr;
use crate::language::rule::Rule;
use crate::language::ruleset::RuleSet;
use crate::language::template_syntax::RULES_NEEDING;

/// An environment for texts about a run, in which `'operator_shapes'|rules_needing` is `CP004, IN001 to IN003`: the active
/// rules that have no verdict without that kind of data.
pub(crate) fn environment<'s>(rules: &RuleSet) -> Environment<'s> {
    let rules: Vec<&Rule> = rules.run_rules().collect();
    let texts: BTreeMap<&str, String> = Capability::ALL
        .iter()
        .map(|need| (need.as_str(), codes(&rules, |rule| rule.needs().any(|n| n == *need))))
        .filter(|(_, codes)| !codes.is_empty())
        .collect();
    let mut env = expr::environment();
    env.add_filter(RULES_NEEDING, move |name: Jinja| {
        let codes = texts.get(name.as_str().unwrap_or_default());
        codes.cloned().unwrap_or_else(|| "none of those selected".to_owned())
    });
    env
}

/// The codes of some of `rules`, which are sorted by code. Three and more in succession are a range.
fn codes(rules: &[&Rule], is_listed: impl Fn(&Rule) -> bool) -> String {
    let area = |code: &str| code.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let mut runs: Vec<Vec<&str>> = Vec::new();
    let mut is_after_listed = false;
    for rule in rules {
        let is_in_range = is_listed(rule);
        match runs.last_mut() {
            Some(run) if is_in_range && is_after_listed && area(run[0]) == area(&rule.code) => {
                run.push(&rule.code);
            }
            _ if is_in_range => runs.push(vec![&rule.code]),
            _ => {}
        }
        is_after_listed = is_in_range;
    }
    let texts = runs.iter().map(|run| match run.as_slice() {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.join(", "),
    });
    texts.collect::<Vec<_>>().join(", ")
}
