//! Resolves references between the tables of rule files: codes, selectors, ignore entries and the policy.

use std::collections::BTreeMap;

use toml::Spanned;

use crate::language::ignore::{Date, Ignore};
use crate::language::policy::{self, Policy};
use crate::language::problem::{Problems, Span, SpannedStr, did_you_mean};
use crate::language::rule::Rule;
use crate::language::rule_files::ParsedFiles;

/// Checks that codes are unique, and resolves the references between rules.
pub(crate) fn link(rules: &mut [Rule], files: &ParsedFiles, problems: &mut Problems<'_>) {
    let mut codes: BTreeMap<&str, &str> = BTreeMap::new();
    for rule in rules.iter() {
        if let Some(first) = codes.insert(&rule.code, &rule.name) {
            let merged = &files.rules[&rule.name];
            let message = format!("the code `{}` belongs to rule `{first}`", rule.code);
            problems.add(&merged.span, message, None);
        }
    }
    let known: Vec<(String, String)> =
        rules.iter().map(|r| (r.code.clone(), r.name.clone())).collect();
    for rule in rules.iter_mut() {
        let merged = &files.rules[&rule.name];
        rule.within = merged.within().and_then(|t| resolve(&t, &known, files, problems));
        for prefix in merged.weakens() {
            if known.iter().any(|(code, _)| code.starts_with(prefix.text)) {
                rule.weakens.push(prefix.text.to_owned());
            } else {
                let message = format!("no rule code starts with `{}`", prefix.text);
                problems.add(&prefix.span, message, None);
            }
        }
    }
    for rule in rules.iter_mut() {
        rule.fixes = linked_fixes(rule, files, problems);
    }
    let parents: BTreeMap<&str, &str> =
        rules.iter().filter_map(|r| Some((r.code.as_str(), r.within.as_deref()?))).collect();
    for rule in rules.iter() {
        let mut seen = vec![rule.code.as_str()];
        while let Some(&parent) = parents.get(seen[seen.len() - 1]) {
            if parent == rule.code {
                seen.push(parent);
                let message = format!("`within` is circular: {}", seen.join(" in "));
                if let Some(within) = files.rules[&rule.name].within() {
                    problems.add(&within.span, message, None);
                }
                break;
            }
            if seen.contains(&parent) {
                break; // reported at the rules of the cycle
            }
            seen.push(parent);
        }
    }
}

/// The names of the fixes of a rule, each of which must exist; so must those that the rule has titles for.
fn linked_fixes(rule: &Rule, files: &ParsedFiles, problems: &mut Problems<'_>) -> Vec<String> {
    let merged = &files.rules[&rule.name];
    let stated = merged.texts(|t| t.fixes.as_ref());
    let names: Vec<String> = stated.iter().map(|text| text.text.to_owned()).collect();
    let titles = merged.last(|t| t.fix_titles.as_ref()).into_iter();
    let titled = titles.flat_map(|(file, titles)| {
        let text = move |(name, title): (&'_ String, &'_ Spanned<_>)| {
            (Span { file, bytes: title.span() }, name.clone())
        };
        titles.iter().map(text)
    });
    let named = stated.iter().map(|text| (text.span.clone(), text.text.to_owned()));
    for (span, name) in named.chain(titled) {
        if !files.fixes.contains_key(&name) {
            let help = did_you_mean(&name, files.fixes.keys().map(String::as_str));
            problems.add(&span, format!("there is no fix `{name}`"), help);
        }
    }
    names
}

/// Resolves a code or name to the code of a rule.
fn resolve(
    text: &SpannedStr<'_>,
    known: &[(String, String)],
    files: &ParsedFiles,
    problems: &mut Problems<'_>,
) -> Option<String> {
    if let Some((code, _)) =
        known.iter().find(|(code, name)| code == text.text || name == text.text)
    {
        return Some(code.clone());
    }
    // It may be the code of a rule that could not be read.
    if files.malformed.is_empty() {
        let names = known.iter().flat_map(|(code, name)| [code.as_str(), name.as_str()]);
        let help = did_you_mean(text.text, names);
        problems.add(&text.span, format!("there is no rule `{}`", text.text), help);
    }
    None
}

/// Resolves the ignore entries of the files.
pub(crate) fn resolve_ignores(
    files: &ParsedFiles,
    rules: &[Rule],
    problems: &mut Problems<'_>,
) -> Vec<Ignore> {
    let mut ignores: Vec<Ignore> = Vec::new();
    for (span, name) in &files.malformed_ignores {
        resolve_selector(&SpannedStr { span: span.clone(), text: name }, rules, files, problems);
    }
    for (span, name, table) in &files.ignores {
        let codes = resolve_selector(
            &SpannedStr { span: span.clone(), text: name },
            rules,
            files,
            problems,
        );
        if table.reason.get_ref().trim().is_empty() {
            let span = Span { file: span.file, bytes: table.reason.span() };
            problems.add(&span, "the reason is empty", None);
        }
        let until = table.until.as_ref().and_then(|until| {
            let date = Date::parse(until.get_ref());
            if date.is_none() {
                let span = Span { file: span.file, bytes: until.span() };
                let help = "a date such as `2027-01-01`".to_owned();
                problems.add(&span, format!("`{}` is not a date", until.get_ref()), Some(help));
            }
            date
        });
        if let Some(codes) = codes {
            let reason = table.reason.get_ref().trim().to_owned();
            // A later file overrides an earlier one.
            ignores.retain(|i| i.selector != *name);
            let at = problems.place(span);
            ignores.push(Ignore { selector: name.clone(), codes, reason, until, at });
        }
    }
    ignores
}

/// The codes that a selector in a file matches; `None` with a problem if it matches none.
fn resolve_selector(
    text: &SpannedStr<'_>,
    rules: &[Rule],
    files: &ParsedFiles,
    problems: &mut Problems<'_>,
) -> Option<Vec<String>> {
    match policy::resolve_selector(text.text, rules) {
        Ok(codes) => Some(codes),
        Err(error) => {
            // It may match a rule that could not be read.
            if files.malformed.is_empty() {
                problems.add(&text.span, error.to_string(), Some(error.help));
            }
            None
        }
    }
}

/// The policy of all files; later files override earlier ones.
pub(crate) fn resolve_policy(
    files: &ParsedFiles,
    rules: &[Rule],
    problems: &mut Problems<'_>,
) -> Policy {
    let mut policy = Policy::default();
    for (file, table) in &files.policies {
        let mut selectors = |list: &Option<Vec<Spanned<String>>>| {
            let list = list.as_ref()?;
            for text in list {
                resolve_selector(&SpannedStr::new(*file, text), rules, files, problems);
            }
            Some(list.iter().map(|t| t.get_ref().clone()).collect())
        };
        let (select, ignore) = (selectors(&table.select), selectors(&table.ignore));
        let min_gain_pct = table.min_gain.as_ref().and_then(|text| {
            let percent = policy::percent(text.get_ref());
            if percent.is_none() {
                let text = SpannedStr::new(*file, text);
                let message = format!("`{}` is not a percentage of step time", text.text);
                problems.add(&text.span, message, Some("for example `1 %`".to_owned()));
            }
            percent
        });
        let (preview, fail_on) = (table.preview, table.fail_on);
        policy = Policy { select, ignore, preview, min_gain_pct, fail_on }.or(&policy);
    }
    policy
}
