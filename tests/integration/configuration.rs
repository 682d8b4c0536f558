//! `advisor.toml`: how it is found, what `advisor init` writes, and the environment variables.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::sandbox::Sandbox;

/// A rule file that leaves one rule, whose findings do not fail a check.
const ONE_RULE: &str = "[policy]\nselect = [\"IN001\"]\nfail_on = \"never\"\n";

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the program in a folder of the sandbox.
fn run_in(sandbox: &Sandbox, folder: &str, args: &[&str]) -> Output {
    sandbox.command(args).current_dir(sandbox.path(folder)).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

#[test]
fn rule_file_of_the_project_is_found_and_named() {
    let sandbox = Sandbox::with_run();
    let check = ["check", "run", "--format", "json"];
    let plain = sandbox.run(&check);
    assert_eq!(plain.status.code(), Some(1));
    assert_eq!(report(&plain)["rule_files"], serde_json::json!([]));

    sandbox.write("advisor.toml", ONE_RULE);
    let found = sandbox.run(&check);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert_eq!(text(&found.stderr), "rules: advisor.toml\n");
    assert_eq!(report(&found)["rule_files"], serde_json::json!(["advisor.toml"]));
    assert_eq!(report(&found)["findings"].as_array().unwrap().len(), 1);
    assert_eq!(text(&sandbox.run(&["check", "run", "-f", "json", "--quiet"]).stderr), "");

    // Without it, and with another file.
    for option in [&["--no-config"][..], &["--rules", "other.toml"]] {
        sandbox.write("other.toml", "");
        let output = sandbox.run(&[&check, option].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""), "{option:?}");
    }
    let mut command = sandbox.command(&check);
    assert_eq!(command.env("ADVISOR_NO_CONFIG", "1").output().unwrap().stdout, plain.stdout);

    // Other commands that take rules.
    for args in [
        &["rules", "list"][..],
        &["rules", "test"],
        &["explain", "IN001"],
        &["diff", "run", "run"],
        &["augment", "run", "-o", "out"],
    ] {
        let output = sandbox.run(args);
        let told = text(&output.stderr);
        assert!(told.starts_with("rules: advisor.toml\n"), "{args:?}: {told}");
    }
    sandbox.write("advisor.toml", "[policy]\nselect = 7\n");
    let broken = sandbox.run(&["rules", "test"]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(text(&broken.stderr).contains("advisor.toml:2"), "{}", text(&broken.stderr));
}

#[test]
fn rule_file_is_found_in_parents_up_to_the_repository() {
    let sandbox = Sandbox::with_run();
    std::fs::create_dir_all(sandbox.path("a/b")).unwrap();
    sandbox.write("advisor.toml", ONE_RULE);
    let check = ["check", "../../run", "--format", "json", "--exit-zero"];
    let told = |output: &Output| text(&output.stderr).to_owned();
    assert_eq!(told(&run_in(&sandbox, "a/b", &check)), "", "directories above may be of others");
    std::fs::create_dir(sandbox.path(".git")).unwrap();
    let found = run_in(&sandbox, "a/b", &check);
    assert_eq!(told(&found), "rules: ../../advisor.toml\n");
    assert_eq!(report(&found)["rule_files"], serde_json::json!(["../../advisor.toml"]));
    std::fs::create_dir(sandbox.path("a/.git")).unwrap();
    assert_eq!(told(&run_in(&sandbox, "a/b", &check)), "", "another repository");
}

#[test]
fn init_changes_nothing() {
    let sandbox = Sandbox::with_run();
    let check = ["check", "run", "--all"];
    let before = sandbox.run(&check);
    let made = sandbox.run(&["init"]);
    assert_eq!((made.status.code(), text(&made.stdout)), (Some(0), "./advisor.toml\n"));
    let after = sandbox.run(&check);
    assert_eq!(text(&after.stderr), "rules: advisor.toml\n");
    assert_eq!(text(&before.stdout), text(&after.stdout));
    assert_eq!(before.status.code(), after.status.code());

    let again = sandbox.run(&["init"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    assert_eq!(sandbox.run(&["init", "--force"]).status.code(), Some(0));
    assert_eq!(sandbox.run(&["init", "project"]).status.code(), Some(0));
    assert!(sandbox.path("project/advisor.toml").is_file());
}

#[test]
fn examples_of_init_are_valid() {
    let sandbox = Sandbox::with_run();
    sandbox.run(&["init"]);
    let template = std::fs::read_to_string(sandbox.path("advisor.toml")).unwrap();
    // Explanations begin with `# `, settings with `#`.
    let uncommented = template.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') || setting.starts_with("    {") => setting,
        _ => line,
    });
    let uncommented: Vec<&str> = uncommented.collect();
    assert!(uncommented.contains(&"[policy]"), "{uncommented:?}");
    sandbox.write("advisor.toml", uncommented.join("\n"));
    let tested = sandbox.run(&["rules", "test"]);
    assert_eq!(tested.status.code(), Some(0), "{}{}", text(&tested.stdout), text(&tested.stderr));
    let checked = sandbox.run(&["check", "run", "--select", "MY", "--ignore", "", "-f", "json"]);
    assert_eq!(report(&checked)["passed"], serde_json::json!(["MY001", "MY002"]));
    let listed = sandbox.run(&["rules", "list", "--thresholds"]);
    let listed = text(&listed.stdout);
    let rule = |code: &str| listed.lines().find(|line| line.starts_with(code)).unwrap().to_owned();
    assert!(rule("IN001").contains("high > 30 %"), "{}", rule("IN001"));
    assert!(listed.contains("ignored: OP001 until 2099-12-31"), "{listed}");
}

#[test]
fn variables_set_options() {
    let sandbox = Sandbox::with_run();
    let run = |name: &str, value: &str, args: &[&str]| {
        let output = sandbox.command(args).env(name, value).output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let sql = ["sql", "run", "SELECT 1 AS one"];
    let (code, told) = run("ADVISOR_MEMORY_LIMIT", "4", &sql);
    assert_eq!(code, Some(2));
    assert!(told.contains("4 bytes are too few for any trace: write 4GiB"), "{told}");
    assert_eq!(run("ADVISOR_MEMORY_LIMIT", "4GiB", &sql), (Some(0), String::new()));
    assert_eq!(run("ADVISOR_TIMEOUT", "soon", &sql).0, Some(2));
    // An option overrides its variable.
    let forced = ["sql", "run", "SELECT 1 AS one", "--memory-limit", "4GiB"];
    assert_eq!(run("ADVISOR_MEMORY_LIMIT", "4", &forced).0, Some(0));
    assert_eq!(
        run("ADVISOR_CACHE_DIR", "there", &["sql", "run", "SELECT 1", "--no-cache"]).0,
        Some(0)
    );
    assert!(!Path::new(&sandbox.path("there")).exists());
}
