//! Rule files from disk to a checked rule set.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use trace_advisor::advisor::{Date, Policy, RuleSource, shipped_rules};
use trace_advisor::{RuleSet, load_only};

use crate::args::{RuleArgs, RuleFileArgs};
use crate::console::Console;
use crate::diagnostics::{FileProblems, with_help};
use crate::render::sanitize::sanitize;
use crate::text_file;

/// Name of the rule file of a project.
pub(crate) const PROJECT_FILE: &str = "advisor.toml";

/// Loads the built-in rules, unless they are left out, and on top of them the given files, or that of the project.
pub(crate) fn load(args: &RuleFileArgs, console: &mut Console) -> anyhow::Result<RuleSet> {
    parse(read_texts(args, console)?)
}

/// The texts of rule files.
#[derive(Debug, Clone)]
pub(crate) struct RuleTexts {
    /// The built-in files, unless they are left out, then those of the user or the project.
    pub(crate) sources: Vec<RuleSource>,
    /// The names of the latter.
    names: Vec<String>,
}

/// Checks rule files.
pub(crate) fn parse(texts: RuleTexts) -> anyhow::Result<RuleSet> {
    let RuleTexts { sources, names } = texts;
    match load_only(&sources) {
        Ok(rules) => Ok(rules.with_date(today()).with_files(names)),
        Err(problems) => Err(FileProblems { kind: "rule files", sources, problems }.into()),
    }
}

/// Reads the built-in rule files, unless they are left out, and the given files or that of the project. The latter is
/// named on stderr.
pub(crate) fn read_texts(args: &RuleFileArgs, console: &mut Console) -> anyhow::Result<RuleTexts> {
    let files = files(args);
    if args.files.is_empty() {
        for file in &files {
            writeln!(console.err, "rules: {}", sanitize(&file.display().to_string()))?;
        }
    }
    let mut sources = if args.no_default_rules { Vec::new() } else { shipped_rules() };
    let mut names = Vec::new();
    for file in &files {
        names.push(file.display().to_string());
        sources.extend(read(file)?);
    }
    Ok(RuleTexts { sources, names })
}

/// The given rule files, else that of the project, if there is one.
pub(crate) fn files(args: &RuleFileArgs) -> Vec<PathBuf> {
    if args.files.is_empty() && !args.no_config {
        project_file().into_iter().collect()
    } else {
        args.files.clone()
    }
}

/// The rule file of the project, as a path from the current directory.
fn project_file() -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?;
    let levels = find_up(&current, dirs::home_dir().as_deref())?;
    Some(std::iter::repeat_n("..", levels).chain([PROJECT_FILE]).collect())
}

/// The number of directories from `current` up to the nearest one that holds the rule file of a project. The search
/// ends at the root of the repository or the home directory. Outside of both, directories above may belong to others,
/// and only `current` is searched.
fn find_up(current: &Path, home: Option<&Path>) -> Option<usize> {
    let is_last = |folder: &Path| folder.join(".git").exists() || Some(folder) == home;
    let last = current.ancestors().position(is_last).unwrap_or(0);
    current.ancestors().take(last + 1).position(|folder| folder.join(PROJECT_FILE).is_file())
}

/// Loads the rules that the command line selects.
pub(crate) fn load_selected(args: &RuleArgs, console: &mut Console) -> anyhow::Result<RuleSet> {
    load_with_policy(args, &Policy::default(), console)
}

/// Loads the rules that the command line selects, with more of a policy.
pub(crate) fn load_with_policy(
    args: &RuleArgs,
    policy: &Policy,
    console: &mut Console,
) -> anyhow::Result<RuleSet> {
    // An empty selector overrides the list of a rule file with an empty one.
    let selectors = |list: &Option<Vec<String>>| {
        let list = list.as_ref()?.iter().map(|selector| selector.trim().to_owned());
        Some(list.filter(|selector| !selector.is_empty()).collect())
    };
    let (select, ignore) = (selectors(&args.select), selectors(&args.ignore));
    let preview = args.preview.then_some(true);
    let policy = Policy { select, ignore, preview, ..policy.clone() };
    let rules = load(&args.files, console)?;
    rules.with_policy(&policy).map_err(|unknown| {
        let messages: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let mut help: Vec<&str> = unknown.iter().map(|u| u.help.as_str()).collect();
        help.dedup();
        with_help(messages.join("; "), help.join("; "))
    })
}

/// The options that load the same rules, for commands that are printed for the user to run.
pub(crate) fn command_line_options(args: &RuleArgs) -> Vec<String> {
    let mut options = Vec::new();
    for file in &args.files.files {
        options.extend(["--rules".to_owned(), file.display().to_string()]);
    }
    if args.files.no_config {
        options.push("--no-config".to_owned());
    }
    if args.files.no_default_rules {
        options.push("--no-default-rules".to_owned());
    }
    if args.preview {
        options.push("--preview".to_owned());
    }
    for (name, list) in [("--select", &args.select), ("--ignore", &args.ignore)] {
        options.extend(list.iter().flat_map(|list| [name.to_owned(), list.join(",")]));
    }
    options
}

/// Reads a rule file, and before it the files that it includes.
fn read(file: &Path) -> anyhow::Result<Vec<RuleSource>> {
    let shown = file.display().to_string();
    let text = |name: &str| {
        // The name of a path that is not Unicode text does not lead back to it.
        let path = if name == shown { file } else { Path::new(name) };
        text_file::read(path, "rule file", text_file::MAX_WRITTEN_BYTES)
    };
    RuleSource::read_with_includes(&shown, &text)
}

/// Today's date (UTC), by which ignore entries expire.
fn today() -> Date {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Date::from_unix(now.map_or(0, |d| d.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PROJECT_FILE, find_up};

    #[test]
    fn find_up_stops_at_repository_and_home() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let below = root.join("repository/a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(root.join(PROJECT_FILE), "").unwrap();
        // Who wrote a file above, outside of a repository and of home, is unknown.
        assert_eq!(find_up(&below, None), None);
        assert_eq!(find_up(root, None), Some(0));
        assert_eq!(find_up(&below, Some(root)), Some(3));
        fs::create_dir(root.join("repository/.git")).unwrap();
        assert_eq!(find_up(&below, Some(root)), None);
        fs::write(root.join("repository").join(PROJECT_FILE), "").unwrap();
        assert_eq!(find_up(&below, Some(root)), Some(2));
        fs::write(below.join(PROJECT_FILE), "").unwrap();
        assert_eq!(find_up(&below, Some(root)), Some(0));
    }
}
