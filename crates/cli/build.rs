//! Tells the program its long version: commit and date, where known, and target.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
    let (version, target) = (variable("CARGO_PKG_VERSION"), variable("TARGET"));
    // Debug builds leave out the commit: otherwise each commit would rebuild the program.
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    let commit = if is_release { commit() } else { None };
    let commit = commit.map_or_else(String::new, |commit| format!("{commit}, "));
    println!("cargo::rustc-env=ADVISOR_LONG_VERSION={version} ({commit}{target})");
}

/// Hash and date of the commit: the same for every build of it. `None` without git.
fn commit() -> Option<String> {
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file])?;
        println!("cargo::rerun-if-changed={path}");
    }
    git(&["show", "--no-patch", "--abbrev=10", "--format=%h %cs", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
