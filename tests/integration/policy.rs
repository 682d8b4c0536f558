//! Selecting rules on the command line and in rule files, and the starter file.

use serde_json::Value;

use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Codes of the findings, and the report.
fn check(sandbox: &Sandbox, args: &[&str]) -> (Vec<String>, Value) {
    let mut all = vec!["check", "run", "--format", "json"];
    all.extend(args);
    let output = sandbox.run(&all);
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    (findings.iter().map(|f| f["code"].as_str().unwrap().to_owned()).collect(), report)
}

fn code(sandbox: &Sandbox, args: &[&str]) -> Option<i32> {
    sandbox.run(args).status.code()
}

#[test]
fn select_and_ignore_choose_rules() {
    let sandbox = Sandbox::with_run();
    let (all, _) = check(&sandbox, &[]);
    assert!(all.contains(&"IN001".to_owned()) && all.contains(&"GU001".to_owned()), "{all:?}");
    assert_eq!(check(&sandbox, &["--select", "dataloader-wait"]).0, ["IN001"]);
    let (area, report) = check(&sandbox, &["--select", "gpu-util,IN", "--ignore", "IN001"]);
    assert!(area.contains(&"GU001".to_owned()) && !area.contains(&"IN001".to_owned()), "{area:?}");
    let judged = |list: &str| report[list].as_array().unwrap().clone();
    let unknown = judged("unknown").into_iter().map(|u| u["code"].clone());
    for code in judged("passed").into_iter().chain(unknown) {
        let code = code.as_str().unwrap();
        assert!(code.starts_with("GU") || code.starts_with("IN"), "{code} was not selected");
    }
    let wrong = sandbox.run(&["check", "run", "--select", "IN01,memroy", "--ignore", "XX"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = text(&wrong.stderr);
    assert!(
        message.contains("`memroy` is not a code") && message.contains("did you mean `memory`?"),
        "{message}"
    );
    assert!(message.contains("`XX` is not a code"), "all at once: {message}");
    let none = sandbox.run(&["check", "run", "--select", "IN001", "--ignore", "IN"]);
    assert_eq!(none.status.code(), Some(2), "nothing judged is not a pass");
    assert!(text(&none.stderr).contains("no rule is left"), "{}", text(&none.stderr));
    // Rules about comparisons do not judge runs.
    assert_eq!(code(&sandbox, &["check", "run", "--select", "RG"]), Some(2));
}

#[test]
fn select_computes_only_the_needed_views() {
    let sandbox = Sandbox::with_run();
    let views = |args: &[&str]| {
        let mut all = vec!["check", "run", "--timings", "--fail-on", "never"];
        all.extend(args);
        let output = sandbox.run(&all);
        let line =
            text(&output.stderr).lines().find(|l| l.starts_with("work for ")).unwrap().to_owned();
        line.split_whitespace().nth(2).unwrap().parse::<usize>().unwrap()
    };
    let (all, one) = (views(&[]), views(&["--select", "TQ001"]));
    assert!(2 * one < all, "{one} of {all} views");
}

/// A rule of a file of its own, which fires on each run.
fn rule_text(code: &str) -> String {
    format!(
        r#"
[rule.{name}]
code = "{code}"
category = "input"
metric = "run_traits.rank_count"
low = "> 0"
title = "There are ranks"
message = "{{{{ rank_count }}}} of them."
advice = ["Count them."]
why = "Tests."
"#,
        name = code.to_lowercase()
    )
}

#[test]
fn included_files_are_read_once_and_before_the_file_that_names_them() {
    let sandbox = Sandbox::with_run();
    std::fs::create_dir_all(sandbox.path("own/parts")).unwrap();
    let include = |paths: &str| format!("include = [{paths}]\n");
    sandbox
        .write("own/all.toml", &(include(r#""parts/one.toml", "two.toml""#) + &rule_text("XX003")));
    // Files that include each other end.
    sandbox.write("own/parts/one.toml", rule_text("XX001"));
    sandbox.write(
        "own/two.toml",
        &(include(r#""./parts/one.toml", "all.toml""#) + &rule_text("XX002")),
    );
    let only = ["--rules", "own/all.toml", "--no-default-rules"];
    assert_eq!(check(&sandbox, &only).0, ["XX001", "XX002", "XX003"]);
    // The later file wins.
    sandbox.write("own/all.toml", &(include(r#""two.toml""#) + "[rule.xx002]\nenabled = false\n"));
    assert_eq!(check(&sandbox, &only).0, ["XX001"]);

    let refused = |content: &str| {
        sandbox.write("own/all.toml", content);
        let output = sandbox.run(&["check", "run", "--rules", "own/all.toml"]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr).to_owned()
    };
    let missing = refused(&include(r#""gone.toml""#));
    assert!(missing.contains("own/gone.toml"), "{missing}");
    // A line of a secret file must not end up in an error.
    sandbox.write("secret.txt", "password");
    for outside in [r#""../secret.txt""#.to_owned(), format!("{:?}", sandbox.path("secret.txt"))] {
        let message = refused(&include(&outside));
        assert!(message.contains("is not below the folder of this file"), "{message}");
        assert!(!message.contains("password"), "{message}");
    }
    let message = refused("include = 3\n");
    assert!(message.contains("`include` is a list of paths"), "{message}");
}

#[test]
fn rules_in_preview_are_evaluated_only_if_asked_for() {
    let sandbox = Sandbox::with_run();
    sandbox
        .write("own.toml", &(rule_text("XX001") + "status = \"preview\"\n" + &rule_text("XX002")));
    let own = ["--rules", "own.toml", "--no-default-rules"];
    let with = |more: &[&str]| check(&sandbox, &[&own[..], more].concat()).0;
    assert_eq!(with(&[]), ["XX002"]);
    assert_eq!(with(&["--preview"]), ["XX001", "XX002"]);
    // An area of rules does not ask for those in preview; their code and their name do.
    assert_eq!(with(&["--select", "XX"]), ["XX002"]);
    assert_eq!(with(&["--select", "XX001"]), ["XX001"]);
    assert_eq!(with(&["--select", "xx001,XX002"]), ["XX001", "XX002"]);
    sandbox.write("policy.toml", "[policy]\npreview = true\n");
    assert_eq!(with(&["--rules", "policy.toml"]), ["XX001", "XX002"]);
    let list = sandbox.run(&["rules", "list", "--rules", "own.toml", "--no-default-rules"]);
    let list = text(&list.stdout);
    assert!(list.contains("XX001") && list.contains("preview"), "{list}");
    let page = sandbox.run(&["explain", "XX001", "--rules", "own.toml", "--no-default-rules"]);
    assert!(text(&page.stdout).contains("This rule is in preview"), "{}", text(&page.stdout));
}

#[test]
fn exit_codes_follow_findings_and_policy() {
    let sandbox = Sandbox::with_run();
    sandbox.write("high.toml", "[policy]\nfail_on = \"critical\"\nselect = [\"IN001\"]\n");
    assert_eq!(code(&sandbox, &["check", "run"]), Some(1));
    assert_eq!(code(&sandbox, &["check", "run", "--exit-zero"]), Some(0));
    assert_eq!(code(&sandbox, &["check", "nowhere", "--exit-zero"]), Some(2));
    assert_eq!(code(&sandbox, &["check", "run", "--rules", "high.toml"]), Some(0));
    assert_eq!(
        code(&sandbox, &["check", "run", "--rules", "high.toml", "--fail-on", "high"]),
        Some(1)
    );
    assert_eq!(
        code(&sandbox, &["check", "run", "--select", "MM"]),
        Some(0),
        "unknown is no finding"
    );
    assert_eq!(code(&sandbox, &["check", "run", "--exit-zero", "--fail-on", "low"]), Some(2));
    assert_eq!(code(&sandbox, &["rules", "test"]), Some(0));
    sandbox.write("wrong.toml", "[policy]\nfail = 1\n");
    assert_eq!(code(&sandbox, &["rules", "test", "wrong.toml"]), Some(2));
    sandbox.write(
        "failing.toml",
        "[rule.too-few-steps]\ntests = [{ step_count = 9, expect = \"low\" }]\n",
    );
    assert_eq!(code(&sandbox, &["rules", "test", "failing.toml"]), Some(1));
    for other in [&["tables"][..], &["rules", "list"], &["explain", "RG001"], &["analyze"]] {
        assert_eq!(code(&sandbox, other), Some(0), "{other:?}");
    }
}

#[test]
fn min_gain_hides_and_counts_findings() {
    let sandbox = Sandbox::with_run();
    let (all, _) = check(&sandbox, &["--select", "IN001,GU001"]);
    assert_eq!(all.len(), 2);
    let (few, report) = check(&sandbox, &["--select", "IN001,GU001", "--min-gain", "99%"]);
    assert!(few.is_empty());
    assert_eq!(report["below_min_gain"].as_array().unwrap().len(), 2);
    let output = sandbox.run(&["check", "run", "--select", "IN001,GU001", "--min-gain", "99"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains("no findings, 2 below minimum gain"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn rules_list_marks_rules_that_are_off() {
    let sandbox = Sandbox::with_run();
    sandbox.write(
        "own.toml",
        "[rule.step-jitter]\nenabled = false\n[ignore.HB]\nreason = \"known\"\n",
    );
    let options = ["--rules", "own.toml", "--ignore", "MM001,VA", "--select", "ALL"];
    let list = sandbox.run(&[&["rules", "list"][..], &options].concat());
    let list = text(&list.stdout);
    let line = |code: &str| list.lines().find(|l| l.starts_with(code)).unwrap();
    assert!(line("MM001").ends_with("(ignored by policy)"), "{list}");
    assert!(line("VA001").ends_with("(switched off)"), "{list}");
    assert!(line("RG001").ends_with("Steps are N % slower than before"), "{list}");
    assert!(list.contains("ignored: HB (HB"), "{list}");
    let list = sandbox.run(&[&["rules", "list", "--thresholds"][..], &options].concat());
    let list = text(&list.stdout);
    assert!(list.contains("diff_step_time.change_ratio: critical >= 20 %"), "{list}");
    let page = sandbox.run(&["explain", "VA001", "--rules", "own.toml"]);
    assert!(
        text(&page.stdout).starts_with("# VA001"),
        "a rule that is off has its page all the same"
    );
}

#[test]
fn rules_show_prints_all_definitions_of_a_rule() {
    let sandbox = Sandbox::with_run();
    sandbox.write("own.toml", "# Mine.\n\n[rule.step-jitter]\nhigh = \"> 50 %\"\n");
    let shown = sandbox.run(&["rules", "show", "va001", "--rules", "own.toml"]);
    let shown = text(&shown.stdout);
    let (built_in, own) = shown.split_once("\n\n# own.toml:3\n").expect(shown);
    assert!(built_in.starts_with("# rules/VA.toml:"), "{shown}");
    assert!(built_in.contains("\n[rule.step-jitter]\ncode     = \"VA001\"\n"), "{shown}");
    assert_eq!(built_in.matches("\n[").count(), 1, "{shown}");
    assert_eq!(own, "[rule.step-jitter]\nhigh = \"> 50 %\"\n");
    assert_eq!(code(&sandbox, &["rules", "show", "VA999"]), Some(2));
}

#[test]
fn rule_queries_are_planned_before_the_run_is_read() {
    let sandbox = Sandbox::with_run();
    let rule = |name: &str, code: &str, sql: &str, message: &str| {
        format!(
            "[rule.{name}]\ncode = \"{code}\"\ncategory = \"own\"\nsql = {sql}\ncolumn = \"most_bytes\"\nunit = \"bytes\"\n\
             scope = \"rank\"\nhigh = \"> 1 GiB\"\ntitle = \"T\"\nmessage = \"{message}\"\nadvice = [\"a\"]\nwhy = \"w\"\n"
        )
    };
    let fine = "\"\"\"\nSELECT rank, max(bytes) AS most_bytes, count(*) AS copies\nFROM memcpys GROUP BY rank\"\"\"";
    sandbox.write(
        "own.toml",
        [
            rule("fine", "XX001", fine, "{{ most_bytes|bytes }} in {{ copies }}"),
            rule("table", "XX002", &fine.replace("memcpys", "memcpies"), "x"),
            rule("column", "XX003", &fine.replace("(bytes)", "(byte)"), "x"),
            rule("template", "XX004", fine, "{{ most_byte|bytes }}"),
            rule("result", "XX005", "\"SELECT rank, 1 AS other FROM ranks\"", "x"),
            rule("words", "XX006", "\"SELECT rank, name AS most_bytes FROM memcpys\"", "x"),
            rule("write", "XX007", "\"DROP TABLE memcpys\"", "x"),
            rule("key", "XX008", fine, "x").replace("rank, max", "max"),
        ]
        .concat(),
    );
    for args in [&["rules", "test", "own.toml"][..], &["check", "nowhere", "--rules", "own.toml"]] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        for message in [
            "there is no table or view `memcpies`",
            "did you mean `memcpys`?",
            "there is no column `byte`",
            "the query of `template` has no column `most_byte`",
            "did you mean `most_bytes`?",
            "it has no column `most_bytes`; it returns rank, other",
            "`most_bytes` is not a number",
            "only queries are allowed here",
            "it has no column `rank`; it returns most_bytes, copies",
            "7 mistakes in rule files",
        ] {
            assert!(told.contains(message), "{message}:\n{told}");
        }
        // The place of the name in the query.
        assert!(told.contains("own.toml:20:6"), "{told}");
    }
}
