//! What the command line selects, what rule files say about it, and the file to start from.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::Place;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Codes of the findings, and the report.
fn check(place: &Place, args: &[&str]) -> (Vec<String>, Value) {
    let mut all = vec!["check", "run", "--format", "json"];
    all.extend(args);
    let output = place.run(&all);
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    (findings.iter().map(|f| f["code"].as_str().unwrap().to_owned()).collect(), report)
}

fn code(place: &Place, args: &[&str]) -> Option<i32> {
    place.run(args).status.code()
}

#[test]
fn the_command_line_selects_rules() {
    let place = Place::with_run();
    let (all, _) = check(&place, &[]);
    assert!(all.contains(&"IN001".to_owned()) && all.contains(&"GU001".to_owned()), "{all:?}");
    assert_eq!(check(&place, &["--select", "dataloader-wait"]).0, ["IN001"]);
    let (area, report) = check(&place, &["--select", "gpu-util,IN", "--ignore", "IN001"]);
    assert!(area.contains(&"GU001".to_owned()) && !area.contains(&"IN001".to_owned()), "{area:?}");
    let judged = |list: &str| report[list].as_array().unwrap().clone();
    let unknown = judged("unknown").into_iter().map(|u| u["code"].clone());
    for code in judged("passed").into_iter().chain(unknown) {
        let code = code.as_str().unwrap();
        assert!(code.starts_with("GU") || code.starts_with("IN"), "{code} was not selected");
    }
    let wrong = place.run(&["check", "run", "--select", "IN01,memroy", "--ignore", "XX"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = text(&wrong.stderr);
    assert!(
        message.contains("`memroy` is not a code") && message.contains("did you mean `memory`?"),
        "{message}"
    );
    assert!(message.contains("`XX` is not a code"), "all at once: {message}");
    let none = place.run(&["check", "run", "--select", "IN001", "--ignore", "IN"]);
    assert_eq!(none.status.code(), Some(2), "nothing judged is not a pass");
    assert!(text(&none.stderr).contains("no rule is left"), "{}", text(&none.stderr));
    // Rules about comparisons do not judge runs.
    assert_eq!(code(&place, &["check", "run", "--select", "RG"]), Some(2));
}

#[test]
fn only_what_selected_rules_need_is_computed() {
    let place = Place::with_run();
    let views = |args: &[&str]| {
        let mut all = vec!["check", "run", "--timings", "--fail-on", "never"];
        all.extend(args);
        let output = place.run(&all);
        let line =
            text(&output.stderr).lines().find(|l| l.starts_with("views")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let (all, one) = (views(&[]), views(&["--select", "TQ001"]));
    assert!(one < all / 2.0, "{one} ms of {all} ms");
}

#[test]
fn exit_codes_follow_findings_and_policy() {
    let place = Place::with_run();
    place.write("high.toml", "[policy]\nfail_on = \"critical\"\nselect = [\"IN001\"]\n");
    assert_eq!(code(&place, &["check", "run"]), Some(1));
    assert_eq!(code(&place, &["check", "run", "--exit-zero"]), Some(0));
    assert_eq!(code(&place, &["check", "nowhere", "--exit-zero"]), Some(2));
    assert_eq!(code(&place, &["check", "run", "--rules", "high.toml"]), Some(0));
    assert_eq!(
        code(&place, &["check", "run", "--rules", "high.toml", "--fail-on", "high"]),
        Some(1)
    );
    assert_eq!(code(&place, &["check", "run", "--select", "MM"]), Some(0), "unknown is no finding");
    assert_eq!(code(&place, &["check", "run", "--exit-zero", "--fail-on", "low"]), Some(2));
    assert_eq!(code(&place, &["rules", "test"]), Some(0));
    place.write("wrong.toml", "[policy]\nfail = 1\n");
    assert_eq!(code(&place, &["rules", "test", "wrong.toml"]), Some(2));
    place.write(
        "failing.toml",
        "[rule.too-few-steps]\ntests = [{ step_count = 9, expect = \"low\" }]\n",
    );
    assert_eq!(code(&place, &["rules", "test", "failing.toml"]), Some(1));
    for other in [&["tables"][..], &["rules", "list"], &["explain", "RG001"], &["analyze"]] {
        assert_eq!(code(&place, other), Some(0), "{other:?}");
    }
}

#[test]
fn small_gains_are_hidden_and_counted() {
    let place = Place::with_run();
    let (all, _) = check(&place, &["--select", "IN001,GU001"]);
    assert_eq!(all.len(), 2);
    let (few, report) = check(&place, &["--select", "IN001,GU001", "--min-gain", "99%"]);
    assert!(few.is_empty());
    assert_eq!(report["below_min_gain"].as_array().unwrap().len(), 2);
    let output = place.run(&["check", "run", "--select", "IN001,GU001", "--min-gain", "99"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains("no findings, 2 below the least gain"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn rules_that_do_not_judge_are_marked() {
    let place = Place::with_run();
    place.write(
        "own.toml",
        "[rule.step-jitter]\nenabled = false\n[ignore.HB]\nreason = \"known\"\n",
    );
    let list = place
        .run(&["rules", "list", "--rules", "own.toml", "--ignore", "MM001,VA", "--select", "ALL"]);
    let list = text(&list.stdout);
    let line = |code: &str| list.lines().find(|l| l.starts_with(code)).unwrap();
    assert!(line("MM001").ends_with("(ignored by policy)"), "{list}");
    assert!(line("VA001").ends_with("(switched off)"), "{list}");
    assert!(line("RG001").contains("diff_step_time.change_ratio"), "{list}");
    assert!(list.contains("ignored: HB (HB"), "{list}");
    let page = place.run(&["explain", "VA001", "--rules", "own.toml"]);
    assert!(
        text(&page.stdout).starts_with("# VA001"),
        "a rule that is off has its page all the same"
    );
}

#[test]
fn the_starter_passes_its_own_tests_and_judges() {
    let place = Place::with_run();
    let made = place.run(&["init", "project"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    assert_eq!(text(&made.stdout).trim(), "project/advisor.toml");
    let again = place.run(&["init", "project"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force overwrites it"), "{}", text(&again.stderr));
    assert_eq!(code(&place, &["init", "project", "--force"]), Some(0));
    let file = "project/advisor.toml";
    let tested = place.run(&["rules", "test", file]);
    assert_eq!(tested.status.code(), Some(0), "{}{}", text(&tested.stdout), text(&tested.stderr));
    let own =
        place.run(&["check", "run", "--rules", file, "--select", "MY", "--ignore", "", "--all"]);
    assert_eq!(own.status.code(), Some(0), "{}{}", text(&own.stdout), text(&own.stderr));
    assert_eq!(
        code(&place, &["check", "run", "--rules", file]),
        Some(1),
        "the loader is too slow there"
    );
    let (_, report) = check(&place, &["--rules", file]);
    let passed = report["passed"].as_array().unwrap();
    assert!(
        passed.iter().any(|c| c == "MY001") && passed.iter().any(|c| c == "MY002"),
        "{passed:?}"
    );
}

#[test]
fn queries_are_planned_before_a_run_is_read() {
    let place = Place::with_run();
    let rule = |name: &str, code: &str, sql: &str, message: &str| {
        format!(
            "[rule.{name}]\ncode = \"{code}\"\ncategory = \"own\"\nsql = {sql}\ncolumn = \"most_bytes\"\nunit = \"bytes\"\n\
             scope = \"rank\"\nhigh = \"> 1 GiB\"\ntitle = \"T\"\nmessage = \"{message}\"\nadvice = [\"a\"]\nwhy = \"w\"\n"
        )
    };
    let fine = "\"\"\"\nSELECT rank, max(bytes) AS most_bytes, count(*) AS copies\nFROM memcpys GROUP BY rank\"\"\"";
    place.write(
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
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        for message in [
            "there is no table or view `memcpies`",
            "did you mean `memcpys`?",
            "No field named byte",
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
        // The line of the query, not of its first quote.
        assert!(told.contains("own.toml:20:1"), "{told}");
    }
}
