//! Rule files from disk to a checked rule set.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use trace_advisor::advisor::{Date, Policy, RuleSource, shipped_rules};
use trace_advisor::{RuleSet, load_only};

use crate::args::RuleArgs;
use crate::diagnostics::{FileProblems, with_help};

/// Loads the built-in rules, unless `only_files`, and on top of them the given files.
pub(crate) fn load(files: &[PathBuf], only_files: bool) -> anyhow::Result<RuleSet> {
    let mut sources = if only_files { Vec::new() } else { shipped_rules() };
    for file in files {
        sources.push(read(file)?);
    }
    match load_only(&sources) {
        Ok(rules) => Ok(rules.with_date(today())),
        Err(problems) => Err(FileProblems { kind: "rule files", sources, problems }.into()),
    }
}

/// Loads the rules that the command line selects.
pub(crate) fn load_selected(args: &RuleArgs) -> anyhow::Result<RuleSet> {
    load_with_policy(args, &Policy::default())
}

/// Loads the rules that the command line selects, with more of a policy.
pub(crate) fn load_with_policy(args: &RuleArgs, policy: &Policy) -> anyhow::Result<RuleSet> {
    // An empty selector overrides the list of a rule file with an empty one.
    let selectors = |list: &Option<Vec<String>>| {
        let list = list.as_ref()?.iter().map(|selector| selector.trim().to_owned());
        Some(list.filter(|selector| !selector.is_empty()).collect())
    };
    let (select, ignore) = (selectors(&args.select), selectors(&args.ignore));
    let policy = Policy { select, ignore, ..policy.clone() };
    let rules = load(&args.files.files, args.files.no_default_rules)?;
    rules.with_policy(&policy).map_err(|unknown| {
        let messages: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let mut help: Vec<&str> = unknown.iter().map(|u| u.help.as_str()).collect();
        help.dedup();
        with_help(messages.join("; "), help.join("; "))
    })
}

fn read(file: &Path) -> anyhow::Result<RuleSource> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the rule file {}", file.display()))?;
    Ok(RuleSource { name: file.display().to_string(), text })
}

/// Today's date (UTC), by which ignore entries expire.
fn today() -> Date {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Date::from_unix(now.map_or(0, |d| d.as_secs()))
}
