//! Mistakes in rule files: all of them, with place and help.

use super::{metrics, source};
use crate::{Problem, RuleSet, RuleSource};

fn problems(sources: &[RuleSource]) -> Vec<Problem> {
    RuleSet::load(sources, &metrics()).expect_err("mistakes")
}

fn text(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A rule without mistakes, with `changes` made to its lines.
fn rule(name: &str, changes: &[(&str, &str)]) -> String {
    let lines = [
        ("code", r#""XX001""#),
        ("category", r#""test""#),
        ("metric", r#""gpu_utilization.busy_ratio""#),
        ("high", r#""< 50 %""#),
        ("title", r#""Idle""#),
        ("message", r#""{{ busy_ratio|pct }}""#),
        ("advice", r#"["Work."]"#),
        ("why", r#""Because.""#),
    ];
    let mut text = format!("[rule.{name}]\n");
    let added = changes.iter().filter(|(key, _)| !lines.iter().any(|(k, _)| k == key));
    for (key, value) in lines.iter().chain(added) {
        let value = changes.iter().find(|(k, _)| k == key).map_or(*value, |(_, v)| v);
        if !value.is_empty() {
            text.extend([key, " = ", value, "\n"]);
        }
    }
    text
}

#[test]
fn the_template_of_these_tests_has_no_mistakes() {
    assert!(RuleSet::load(&[source("a.toml", &rule("fine", &[]))], &metrics()).is_ok());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let file = [
        rule("shape", &[("advise", "[\"typo\"]"), ("high", "50"), ("confidence", "\"hihg\"")]),
        rule(
            "meaning",
            &[
                ("code", "\"X1\""),
                ("high", "\"< 50 us\""),
                ("message", "\"{{ busy_ration|pct }} {{ busy_ratio|percent }}\""),
                ("requires", "[{ expr = \"window_ns >\", reason = \"none\" }]"),
                ("gain", "{ of = \"idle_ratoi\", method = \"measured\", low = 0.9, high = 0.5 }"),
                ("tests", "[{ busy = 1.0, expect = \"hgih\" }]"),
            ],
        ),
        rule(
            "unknown-metric",
            &[("code", "\"XX003\""), ("metric", "\"gpu_utilisation.busy_ratio\"")],
        ),
        rule("no-text", &[("code", "\"XX004\""), ("title", ""), ("why", "\" \""), ("advice", "")]),
        rule("order", &[("code", "\"XX005\""), ("medium", "\"< 40 %\"")]),
        rule("first", &[("code", "\"XX006\""), ("within", "\"second\"")]),
        rule("second", &[("code", "\"XX007\""), ("within", "\"XX006\"")]),
        rule("same-code", &[("code", "\"XX007\"")]),
        "[rule.datalaoder]\nhigh = \"> 1 %\"\n".to_owned(),
        "[ignore.XX005]\nuntil = \"soon\"\n".to_owned(),
        "[ignore.XX006]\nreason = \"later\"\nuntil = \"2027-02-30\"\n".to_owned(),
        "[rules.plural]\n".to_owned(),
    ];
    insta::assert_snapshot!(text(&problems(&[source("my/rules.toml", &file.join("\n"))])));
}

#[test]
fn a_file_that_is_no_toml_does_not_hide_the_next() {
    let broken = source("broken.toml", "[rule.a\ncode = = 3\n");
    let wrong = source("wrong.toml", &rule("wrong", &[("high", "\"< 50\"")]));
    insta::assert_snapshot!(text(&problems(&[broken, wrong])));
}

#[test]
fn spans_cover_what_is_wrong() {
    let text = rule("wrong", &[("high", "\"< 50 us\"")]);
    let problems = problems(&[source("a.toml", &text)]);
    assert_eq!(problems.len(), 1);
    assert_eq!(&text[problems[0].span.clone()], "\"< 50 us\"");
    assert_eq!((problems[0].line, problems[0].column), (5, 8));
}

#[test]
fn references_to_rules_that_do_not_exist() {
    let file = [
        rule("a", &[("within", "\"b\""), ("overlaps", "[\"XX009\"]"), ("weakens", "[\"ZZ\"]")]),
        "[ignore.a-rule]\nreason = \"x\"\n".to_owned(),
    ];
    insta::assert_snapshot!(text(&problems(&[source("a.toml", &file.join("\n"))])));
}

#[test]
fn a_query_needs_column_unit_and_scope() {
    let query = ("sql", "\"SELECT 1 AS x\"");
    let file = [
        rule("both", &[query]),
        rule("bare", &[("code", "\"XX002\""), ("metric", ""), query]),
        rule(
            "words",
            &[
                ("code", "\"XX003\""),
                ("metric", ""),
                query,
                ("column", "\"x\""),
                ("unit", "\"byte\""),
                ("scope", "\"ranks\""),
            ],
        ),
    ];
    insta::assert_snapshot!(text(&problems(&[source("a.toml", &file.join("\n"))])));
}

#[test]
fn only_metrics_of_lines_say_where_a_finding_is() {
    let text = "[rule.dataloader-wait]\nsource = \"gpu_utilization.busy_ratio\"\n";
    let mut files = crate::shipped_rules();
    files.push(source("mine.toml", text));
    let found = problems(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("no metric of lines"), "{found:?}");
}
