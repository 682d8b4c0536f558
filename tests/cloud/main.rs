//! Runs in object stores: real servers on this machine, and a web server that misbehaves. What needs the
//! former is skipped where `.ci/storage` has not installed them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod faults;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod web;

use std::process::{Command, Output};

use serde_json::Value;
use support::Place;

/// The program, with nothing in its environment that speaks of stores.
fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(args);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        let is_ours = ["AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "SERVICE_ACCOUNT"]
            .iter()
            .any(|prefix| text.starts_with(prefix));
        if is_ours || text.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    command
}

/// What `check` says of a run, without the path.
fn report(place: &Place, run: &str, env: &[(&str, &str)]) -> Value {
    let args = ["check", run, "--format", "json", "--fail-on", "never"];
    let output = command(place, &args).envs(env.iter().copied()).output().unwrap();
    let mut report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| {
        panic!("{run}: {}", String::from_utf8_lossy(&output.stderr));
    });
    report["run"]["path"] = Value::Null;
    report
}

/// What the program says when it gives up.
fn error(place: &Place, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = command(place, args).envs(env.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
