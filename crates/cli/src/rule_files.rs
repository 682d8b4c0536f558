//! Rule files from disk to a checked rule set.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use trace_advisor::advisor::{Date, Policy, RuleSource, shipped_rules};
use trace_advisor::{RuleSet, load_only};

use crate::args::RuleChoice;
use crate::failure::{RuleProblems, helped};

/// The shipped rules, unless `only`, and on top of them the given files.
pub(crate) fn load(files: &[PathBuf], only: bool) -> anyhow::Result<RuleSet> {
    let mut sources = if only { Vec::new() } else { shipped_rules() };
    for file in files {
        sources.push(read(file)?);
    }
    match load_only(&sources) {
        Ok(rules) => Ok(rules.with_date(today())),
        Err(problems) => Err(RuleProblems { kind: "rule files", sources, problems }.into()),
    }
}

/// The rules that the command line asks for.
pub(crate) fn choose(choice: &RuleChoice) -> anyhow::Result<RuleSet> {
    choose_with(choice, &Policy::default())
}

/// The same, with more of a policy.
pub(crate) fn choose_with(choice: &RuleChoice, policy: &Policy) -> anyhow::Result<RuleSet> {
    // An empty word says that nothing is selected, or nothing ignored: what a file says no longer holds.
    let words = |list: &Option<Vec<String>>| {
        let list = list.as_ref()?.iter().map(|word| word.trim().to_owned());
        Some(list.filter(|word| !word.is_empty()).collect())
    };
    let (select, ignore) = (words(&choice.select), words(&choice.ignore));
    let policy = Policy { select, ignore, ..policy.clone() };
    let rules = load(&choice.files.files, choice.files.no_default_rules)?;
    rules.with_policy(&policy).map_err(|unknown| {
        let messages: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let mut help: Vec<&str> = unknown.iter().map(|u| u.help.as_str()).collect();
        help.dedup();
        helped(messages.join("; "), help.join("; "))
    })
}

fn read(file: &Path) -> anyhow::Result<RuleSource> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the rule file {}", file.display()))?;
    Ok(RuleSource { name: file.display().to_string(), text })
}

/// Silenced rules expire by this clock.
fn today() -> Date {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Date::from_unix(now.map_or(0, |d| d.as_secs()))
}
