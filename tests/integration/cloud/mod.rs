//! Runs in object stores: real servers on this machine, which `.ci/storage` installs, and a web server that
//! misbehaves.

mod busy;
mod faults;
mod stores;
mod web;

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::sandbox::Sandbox;

/// The program, with nothing in its environment that speaks of stores.
fn command(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.command(args);
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

/// The report of `check` on a run, without the path.
fn report(sandbox: &Sandbox, run: &str, env: &[(&str, &str)]) -> Value {
    let args = ["check", run, "--format", "json", "--fail-on", "never"];
    let output = command(sandbox, &args).envs(env.iter().copied()).output().unwrap();
    let mut report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| {
        panic!("{run}: {}", String::from_utf8_lossy(&output.stderr));
    });
    report["run"]["path"] = Value::Null;
    // Commands in advice name the run.
    for finding in report["findings"].as_array_mut().unwrap() {
        let advice = finding["advice"].as_array_mut().unwrap();
        advice.retain(|text| !text.as_str().unwrap().contains("`advisor "));
    }
    report
}

/// The error output of a command that fails.
fn error(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = command(sandbox, args).envs(env.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
