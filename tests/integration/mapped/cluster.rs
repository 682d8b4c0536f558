//! `--cluster` runs `advisor-cluster`; here, a script in its place. `crates/cluster` tests it with clusters.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use super::{check, with_ranks};
use crate::support::sandbox::Sandbox;

const CLUSTER: [&str; 4] = ["--from", "mapped", "--cluster", "df://scheduler:50050"];

/// Checks the run with a script as `advisor-cluster` on the PATH.
fn check_on_cluster(sandbox: &Sandbox, script: Option<&str>, more: &[&str]) -> Output {
    let check = ["check", "run", "--exit-zero", "--format", "json"];
    on_cluster(sandbox, script, &[&check[..], &CLUSTER, more].concat())
}

/// Runs `advisor` with a script as `advisor-cluster` on the PATH.
fn on_cluster(sandbox: &Sandbox, script: Option<&str>, args: &[&str]) -> Output {
    let folder = sandbox.path("programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("advisor-cluster");
    if let Some(script) = script {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Beside the program under test lies the real `advisor-cluster`, where that was built.
    let mut command = sandbox.command_alone(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn run_is_mapped_on_the_cluster_before_it_is_put_together() {
    let sandbox = with_ranks(3);
    let (report, _) = check(&sandbox, &["--timeout", "7"]);
    let script = format!(
        "echo \"$@\" > arguments; echo printed; exec {} map run --to mapped",
        env!("CARGO_BIN_EXE_advisor")
    );
    let output = check_on_cluster(&sandbox, Some(&script), &["--timeout", "7"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8(output.stdout).unwrap() == report, "the reports differ");
    let arguments = fs::read_to_string(sandbox.path("arguments")).unwrap();
    assert_eq!(arguments, "map run --to mapped --scheduler df://scheduler:50050 --timeout=7\n");
}

#[test]
fn queries_map_the_run_on_the_cluster_first() {
    let sandbox = with_ranks(2);
    let query = ["sql", "run", "SELECT rank, count(*) FROM kernels GROUP BY rank ORDER BY rank"];
    let expected = sandbox.run(&query);
    let script = format!("exec {} map run --to mapped", env!("CARGO_BIN_EXE_advisor"));
    let mapped = on_cluster(&sandbox, Some(&script), &[&query[..], &CLUSTER].concat());
    assert!(mapped.status.success(), "{}", stderr(&mapped));
    assert_eq!(String::from_utf8(mapped.stdout), String::from_utf8(expected.stdout));
    assert!(sandbox.path("mapped").exists());
    // Without the directory, there is nowhere to map to.
    let refused = on_cluster(&sandbox, None, &[&query[..], &CLUSTER[2..]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--from"), "{}", stderr(&refused));
}

#[test]
fn rules_of_the_command_are_those_that_are_mapped() {
    let sandbox = with_ranks(2);
    fs::write(sandbox.path("mine.toml"), "[policy]\nignore = [\"CM\"]\n").unwrap();
    let script = format!(
        "echo \"$@\" > arguments; exec {} map run --to mapped",
        env!("CARGO_BIN_EXE_advisor")
    );
    let arguments = |more: &[&str]| {
        let output = check_on_cluster(&sandbox, Some(&script), more);
        assert!(output.status.success(), "{}", stderr(&output));
        fs::read_to_string(sandbox.path("arguments")).unwrap()
    };
    let map = "map run --to mapped --scheduler df://scheduler:50050";
    assert_eq!(arguments(&["--rules", "mine.toml"]), format!("{map} --rules mine.toml\n"));
    assert_eq!(arguments(&[]), format!("{map}\n"));
    // The rule file of the project.
    fs::rename(sandbox.path("mine.toml"), sandbox.path("advisor.toml")).unwrap();
    assert_eq!(arguments(&[]), format!("{map} --rules advisor.toml\n"));
    assert_eq!(arguments(&["--no-config"]), format!("{map}\n"));
}

#[test]
fn cluster_that_fails_or_is_not_installed_is_an_error() {
    let sandbox = with_ranks(2);
    let missing = check_on_cluster(&sandbox, None, &[]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(
        stderr(&missing).contains("`advisor-cluster` is not installed"),
        "{}",
        stderr(&missing)
    );

    let failed = check_on_cluster(&sandbox, Some("echo 'error: no scheduler' >&2; exit 2"), &[]);
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    let errors = stderr(&failed);
    assert!(errors.contains("no scheduler") && errors.contains("could not map run"), "{errors}");
    assert!(failed.stdout.is_empty());
}
