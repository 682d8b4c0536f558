//! Rule files from disk to a checked rule set.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use trace_advisor::RuleSet;
use trace_advisor::advisor::{Date, RuleSource, shipped_rules};
use trace_advisor::analyses::catalog;

use crate::failure::RuleProblems;

/// The shipped rules, unless `only`, and on top of them the given files.
pub(crate) fn load(files: &[PathBuf], only: bool) -> anyhow::Result<RuleSet> {
    let mut sources = if only { Vec::new() } else { shipped_rules() };
    for file in files {
        sources.push(read(file)?);
    }
    match RuleSet::load(&sources, &catalog().metrics()) {
        Ok(rules) => Ok(rules.on(today())),
        Err(problems) => Err(RuleProblems { kind: "rule files", sources, problems }.into()),
    }
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
