//! What the program writes: nothing of the user's is overwritten, a link leads nowhere, and an output is complete or
//! absent, whenever the program ends.

mod exports;
mod files;
mod inside_the_run;
#[cfg(unix)]
mod killed;

use std::path::Path;
use std::process::Output;

use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries.map(|e| name(e).into_string().unwrap()).collect();
    names.sort();
    names
}

/// The names of the traces of a run.
fn traces(sandbox: &Sandbox, run: &str) -> Vec<String> {
    names(&sandbox.path(run))
}

fn succeeds(sandbox: &Sandbox, args: &[&str]) -> Output {
    let output = sandbox.run(args);
    // Findings are a success, too.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {}", text(&output.stderr));
    output
}

/// Runs a command that must fail; returns what it says.
fn fails(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    said.to_owned()
}
