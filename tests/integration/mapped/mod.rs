//! `advisor map` and `check --from`: a run that is put together from shards gives the report of the run itself, whatever
//! happened to the workers.

#[cfg(unix)]
mod cluster;
mod damage;
mod shards;
mod workers;

use std::process::Output;

use trace_demo::{Bottleneck, Options, write_run};

use crate::support::sandbox::Sandbox;

/// A sandbox with a run of this many ranks, of which the last is slow.
fn with_ranks(ranks: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    let bottleneck = if ranks > 1 { Bottleneck::Straggler } else { Bottleneck::Sync };
    let options = Options { bottleneck, ranks, steps: 4, layers: 1, ..Options::default() };
    write_run(&options, &sandbox.path("run")).unwrap();
    sandbox
}

fn succeeds(sandbox: &Sandbox, args: &[&str]) -> Output {
    let output = sandbox.run(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    output
}

fn fails(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// What `check` prints about the run, on both channels.
fn check(sandbox: &Sandbox, more: &[&str]) -> (String, String) {
    let args = [&["check", "run", "--exit-zero", "--format", "json"], more].concat();
    let output = succeeds(sandbox, &args);
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Maps a shard. Returns what is printed about it.
fn map(sandbox: &Sandbox, shard: &str) -> String {
    let output = succeeds(sandbox, &["map", "run", "--shard", shard, "--to", "mapped"]);
    String::from_utf8(output.stderr).unwrap()
}

/// The folders of groups.
fn groups(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let entries = sandbox.path("mapped").read_dir().unwrap();
    let mut groups: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    groups.sort();
    groups
}
