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
fn rule_template_of_these_tests_is_valid() {
    assert!(RuleSet::load(&[source("a.toml", &rule("fine", &[]))], &metrics()).is_ok());
}

#[test]
fn load_reports_all_mistakes_at_once() {
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
fn invalid_toml_does_not_hide_the_next_file() {
    let broken = source("broken.toml", "[rule.a\ncode = = 3\n");
    let wrong = source("wrong.toml", &rule("wrong", &[("high", "\"< 50\"")]));
    insta::assert_snapshot!(text(&problems(&[broken, wrong])));
}

#[test]
fn problem_spans_cover_the_mistake() {
    let text = rule("wrong", &[("high", "\"< 50 us\"")]);
    let problems = problems(&[source("a.toml", &text)]);
    assert_eq!(problems.len(), 1);
    assert_eq!(&text[problems[0].span.clone()], "\"< 50 us\"");
    assert_eq!((problems[0].line, problems[0].column), (5, 8));
}

#[test]
fn references_to_missing_rules_are_reported() {
    let file = [
        rule("a", &[("within", "\"b\""), ("weakens", "[\"ZZ\"]")]),
        "[ignore.a-rule]\nreason = \"x\"\n".to_owned(),
    ];
    insta::assert_snapshot!(text(&problems(&[source("a.toml", &file.join("\n"))])));
}

#[test]
fn query_requires_column_unit_and_scope() {
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
fn source_requires_a_metric_of_scope_line() {
    let text = "[rule.dataloader-wait]\nsource = \"gpu_utilization.busy_ratio\"\n";
    let mut files = crate::shipped_rules();
    files.push(source("mine.toml", text));
    let found = problems(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("not a metric of scope line"), "{found:?}");
}

#[test]
fn rules_and_fixes_that_do_not_know_each_other_are_reported() {
    let fix = "[fix.y]\ntitle = \"Y\"\nunconditional = \"Always.\"\nleading_rules = [\"XX002\"]\n\
               edits = [{ host_time = [\"gap\"], left = [0.0, 0.5] }]\n";
    let file = rule("x", &[("fixes", r#"["y", "z"]"#)]) + fix;
    let text = text(&problems(&[source("a.toml", &file)]));
    assert!(text.contains("there is no fix `z`"), "{text}");
    assert!(text.contains("rule `XX002` does not name the fix `y`"), "{text}");
}

#[test]
fn unknown_traits_of_a_run_are_reported() {
    let file = rule(
        "traits",
        &[
            ("only_if", r#""run.vender == 'amd'""#),
            ("message", r#""{{ run.is_training }} on {{ run }}""#),
            ("advice", r#"[{ when = "run.uses_vllm", text = "Work{{ run.color }}." }]"#),
            ("tests", r#"[{ busy_ratio = 0.1, run = { vendors = "amd" }, expect = "high" }]"#),
        ],
    );
    let found = problems(&[source("a.toml", &file)]);
    let messages: Vec<(&str, &str)> =
        found.iter().map(|p| (p.message.as_str(), p.help.as_deref().unwrap_or_default())).collect();
    let [color, run, vendor, vendors] = ["color", "run", "vender", "vendors"].map(|name| {
        messages.iter().find(|(message, _)| message.contains(&format!("`{name}`"))).unwrap().1
    });
    assert!(color.starts_with("its traits: rank_count, world_size, vendor"), "{color}");
    assert_eq!(run, "name one of its traits: `run.vendor`");
    assert_eq!([vendor, vendors], ["did you mean `vendor`?"; 2]);
    assert_eq!(found.len(), 4, "{messages:?}");
}

#[test]
fn text_part_mistakes_have_places() {
    let file = rule(
        "parts",
        &[
            ("title", r#"[{ when = "busy_ratio <", text = "Idle" }, { text = "{{ busy }}" }]"#),
            ("message", r#"[7, { whem = "true", text = "a" }]"#),
            (
                "advice",
                r#"[
    { first_of = [{ when = "idle > 0", text = "Work." }, "{{ busy_ratio|percent }}"] },
    { when = "busy_ratio > 0" },
]"#,
            ),
            ("requires", r#"[{ expr = "window_ns > 0", reason = { text = "no window" } }]"#),
        ],
    );
    insta::assert_snapshot!(text(&problems(&[source("a.toml", &file)])));
}

#[test]
fn mistake_in_a_template_has_its_place() {
    let message = "\"\"\"\nIdle\n{% set a = 'x' %}{{ busy_ratio|pct }}\"\"\"";
    let text = rule("grows", &[("message", message)]);
    let problems = problems(&[source("a.toml", &text)]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(text[problems[0].span.clone()].starts_with("set a = 'x'"), "{problems:?}");
    assert!(problems[0].message.contains("`set` is not allowed in rules"), "{problems:?}");
    assert_eq!((problems[0].line, problems[0].column), (9, 4));
}

#[test]
fn mistakes_in_subjects_and_needs_have_places() {
    let file = [
        rule("a", &[("subject", r#""gpus""#), ("requires", r#"[{ needs = "operator_shape" }]"#)]),
        rule(
            "b",
            &[
                ("code", r#""XX002""#),
                ("subject", r#"["gpu", "snapshot", 3]"#),
                ("requires", r#"[{ needs = ["steps", "stacks"] }, { needs = [] }]"#),
                ("doubts", r#"[{ needs = "steps", reason = "few" }]"#),
            ],
        ),
        rule(
            "c",
            &[
                ("code", r#""XX003""#),
                ("requires", r#"[{ reason = "none" }, { expr = "busy_ratio > 0" }]"#),
                ("how", r#"" ""#),
                ("message", r#""{{ 'stack'|rules_needing }}""#),
            ],
        ),
    ];
    insta::assert_snapshot!(text(&problems(&[source("a.toml", &file.join("\n"))])));
}
