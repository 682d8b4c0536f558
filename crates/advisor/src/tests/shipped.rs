//! The shipped rules: they load, pass their own tests, and the committed schema is that of the code.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{MetricTable, RunInfo, Unit, Value};

use super::{metrics, source, view, with_default};
use crate::evaluation::selftest;
use crate::language::expr;
use crate::{
    RuleSet, Text, TextPart, ViewNotes, evaluate, explain, report_schema_json, rule_schema_json,
    shipped_rules,
};

#[test]
fn shipped_rules_pass_their_own_tests() {
    let rules = with_default(&[]);
    let result = rules.test();
    let failures: Vec<String> = result.failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, [""; 0]);
    assert_eq!(result.untested, [""; 0]);
}

#[test]
fn shipped_rules_have_tests_for_all_verdicts() {
    for rule in with_default(&[]).rules() {
        let verdicts: Vec<&str> = rule.tests.iter().map(|t| t.expect.as_str()).collect();
        for verdict in ["pass", "unknown"] {
            assert!(verdicts.contains(&verdict), "{} has no test for {verdict}", rule.code);
        }
        for check in &rule.checks {
            for (severity, _) in &check.thresholds {
                assert!(
                    verdicts.contains(&severity.as_str()),
                    "{}: no test for {severity}",
                    rule.code
                );
            }
        }
    }
}

/// A fix that needs nothing of the hardware or the program says why.
#[test]
fn shipped_fixes_state_what_they_require() {
    for fix in with_default(&[]).fixes() {
        let is_stated = !fix.requires.is_empty() || fix.unconditional.is_some();
        assert!(is_stated, "{} has neither `requires` nor `unconditional`", fix.name);
    }
}

#[test]
fn shipped_codes_and_thresholds_are_reviewed() {
    let lines: Vec<String> = with_default(&[])
        .rules()
        .iter()
        .map(|rule| {
            let thresholds: Vec<String> = rule
                .checks
                .iter()
                .flat_map(|c| {
                    c.thresholds.iter().map(move |(s, t)| format!("{} {s} {}", c.column, t.text))
                })
                .collect();
            format!("{} {} [{}] {}", rule.code, rule.name, rule.metric.view, thresholds.join("; "))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// The query of KN001's advice has rows: the roofline holds operators of a known kind only.
#[test]
fn the_roofline_is_queried_for_operators_that_it_holds() {
    let rules = with_default(&[]);
    let rule = rules.rules().iter().find(|rule| rule.code == "KN001").unwrap();
    let findings =
        rule.tests.iter().filter_map(|test| Some((test, selftest::finding(rule, test)?)));
    let mut kinds = BTreeSet::new();
    for (test, finding) in findings {
        let has_kind = test.columns.contains_key("kind");
        let has_query = finding.advice.iter().any(|advice| advice.contains("FROM op_roofline"));
        assert_eq!(has_query, has_kind, "{:?}", finding.advice);
        kinds.insert(has_kind);
    }
    assert_eq!(kinds.len(), 2);
}

/// A placeholder for a column that a self-test leaves out.
fn placeholder(name: &str, unit: Unit) -> Value {
    let is_flag = ["is_", "has_", "uses_"].iter().any(|start| name.starts_with(start));
    match unit {
        Unit::None if is_flag => Value::Bool(true),
        Unit::None if ["rank", "device", "step", "stream", "snapshot"].contains(&name) => {
            Value::Int(0)
        }
        Unit::None => Value::Text(name.to_uppercase()),
        Unit::Ratio => Value::Float(0.5),
        _ => Value::Int(7),
    }
}

/// Columns that tell the rows of a view apart, and therefore have a value in each.
const KEYS: [&str; 5] = ["rank", "device", "agent", "memory", "worst_step"];

/// A view may have no value in a column. No text then says `None`, and texts of rules about memory and about modes work without the name.
#[test]
fn shipped_texts_name_no_missing_value() {
    let env = expr::environment();
    let mut failures = BTreeSet::new();
    for rule in with_default(&[]).rules() {
        let advice =
            rule.advice.iter().flat_map(|part| Text { parts: vec![part.clone()] }.reads(&env));
        let read: BTreeSet<String> = rule
            .title
            .reads(&env)
            .into_iter()
            .chain(rule.message.reads(&env))
            .chain(advice)
            .collect();
        let columns: Vec<&(String, Unit)> =
            rule.metric.columns.iter().filter(|(name, _)| read.contains(name)).collect();
        let does_without_names =
            rule.code.starts_with("MM") || ["OP018", "OP017"].contains(&rule.code.as_str());
        let on_purpose = words_for_nothing(&rule.title.source())
            + words_for_nothing(&rule.message.source())
            + rule.advice.iter().map(|part| words_for_nothing(&part.source())).sum::<usize>();
        for test in &rule.tests {
            let mut filled = test.clone();
            for (name, unit) in &columns {
                filled.columns.entry(name.clone()).or_insert_with(|| placeholder(name, *unit));
            }
            for (name, unit) in &columns {
                // Numbers that are absent together appear in a text only if all are present. Every row has its keys.
                if *unit != Unit::None || KEYS.contains(&name.as_str()) {
                    continue;
                }
                for mut row in [test.clone(), filled.clone()] {
                    row.columns.insert(name.clone(), Value::Null);
                    let Some(finding) = selftest::finding(rule, &row) else { continue };
                    let text = [finding.title, finding.message].into_iter().chain(finding.advice);
                    let text = text.collect::<Vec<_>>().join(" ");
                    let names_nothing = does_without_names && text.contains(expr::NO_VALUE);
                    if words_for_nothing(&text) > on_purpose || names_nothing {
                        failures.insert(format!("{} without {name}: {text}", rule.code));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// How often a text has a word that programs use for a missing value. Some texts do on purpose, as in `p.grad = None`.
fn words_for_nothing(text: &str) -> usize {
    // Conditions of templates are no text.
    let plain = text.split("{%").map(|part| part.split_once("%}").map_or(part, |(_, rest)| rest));
    let words = plain.flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
    words
        .filter(|word| ["none", "null", "nan"].contains(&word.to_ascii_lowercase().as_str()))
        .count()
}

#[test]
fn explain_page_is_complete() {
    let view = ViewNotes {
        row: "one rank: its mean step".to_owned(),
        columns: vec![("dataloader_idle_ratio".to_owned(), "share of step time".to_owned())],
        params: vec![("slow_us".to_owned(), "10".to_owned(), "what is slow".to_owned())],
        when_empty: "there are no steps".to_owned(),
        recorded_with: vec![("steps".to_owned(), "`prof.step()`".to_owned())],
    };
    insta::assert_snapshot!(explain(with_default(&[]).find("dataloader-wait").unwrap(), &view));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn schemas_are_up_to_date() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (file, schema) in [
        ("rules/rules.schema.json", rule_schema_json()),
        ("docs/report.schema.json", report_schema_json()),
    ] {
        let path = format!("{folder}/{file}");
        if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
            std::fs::write(&path, &schema).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == schema, "{file} is stale: run the tests with UPDATE=1");
    }
}

#[test]
fn default_file_includes_all_others() {
    let shipped = shipped_rules();
    let (last, others) = shipped.split_last().unwrap();
    assert_eq!(last.name, "rules/default.toml");
    let others: Vec<&str> = others.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(last.includes(), others);
    let problems = RuleSet::load(std::slice::from_ref(last), &metrics()).unwrap_err();
    assert_eq!(problems.len(), others.len());
    let message = "`rules/GU.toml` is included, but is not among the rule files";
    assert_eq!(problems[0].message, message);
}

/// Each file is named after the code prefix of its rules, so the code of a rule shows which file contains the rule.
#[test]
fn shipped_files_are_named_after_their_codes_and_small() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for rule in with_default(&[]).rules() {
        let file = rule.at.split(':').next().unwrap();
        let name = file.strip_prefix("rules/").and_then(|name| name.strip_suffix(".toml")).unwrap();
        let prefix = name.split('-').next().unwrap();
        assert_eq!(rule.code.trim_end_matches(|c: char| c.is_ascii_digit()), prefix, "{file}");
        *counts.entry(file.to_owned()).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count <= 15), "{counts:?}");
}

/// TQ006 lists the rules that need the missing data from the loaded rules: its text contains no list of codes.
#[test]
fn tq006_lists_the_rules_that_need_what_is_missing() {
    const OWN: &str = r#"
        category = "test"
        metric = "gpu_utilization.busy_ratio"
        high = "< 50 %"
        title = "Idle"
        message = "Idle."
        advice = ["Work."]
        why = "Because."
        requires = [{ needs = "operator_shapes" }]
    "#;
    let own = ["XX001", "XX002", "XX003", "XX005", "XY001", "XY002"];
    let own =
        own.map(|code| format!("[rule.own-{}]\ncode = '{code}'\n{OWN}", code.to_ascii_lowercase()));
    let between = OWN.replace("operator_shapes", "steps");
    let between = format!("[rule.between]\ncode = 'XX004'\n{between}");
    let advice = |policy: &str| {
        let file = format!("{policy}\n{}\n{between}", own.join("\n"));
        let rules = with_default(&[source("own.toml", &file)]);
        let row = [
            ("rank", Value::Int(0)),
            ("missing_count", Value::Int(1)),
            ("missing", Value::Text("input shapes".to_owned())),
            ("step_count", Value::Int(3)),
            ("has_host", Value::Bool(true)),
            ("has_device", Value::Bool(true)),
            ("has_shapes", Value::Bool(false)),
            ("has_stacks", Value::Bool(true)),
            ("has_memory", Value::Bool(true)),
            ("has_device_properties", Value::Bool(true)),
        ];
        let report =
            evaluate(&rules, &[view("run_configuration", &[&row])], &RunInfo::default(), &[]);
        let note = report.findings.iter().find(|finding| finding.code == "TQ006").unwrap();
        assert_eq!(note.advice.len(), 1, "{:?}", note.advice);
        note.advice[0].clone()
    };
    let text = advice("[policy]\nselect = ['TQ006', 'XX', 'XY']");
    assert!(
        text.contains("needed by these rules: XX001 to XX003, XX005, XY001, XY002. "),
        "{text}"
    );
    let text = advice("[policy]\nselect = ['TQ006']");
    assert!(text.contains("needed by these rules: none of those selected. "), "{text}");
}

/// A reader of a rule's page finds the rules that its text names. Texts of shipped rules contain no codes that could go stale.
#[test]
fn tq006_names_no_codes() {
    let rules = with_default(&[]);
    let advice = rules.find("TQ006").unwrap().advice.iter().map(TextPart::source);
    let advice = advice.collect::<Vec<_>>().join(" ");
    let is_code = |word: &str| {
        word.len() == 5
            && word[..2].chars().all(|c| c.is_ascii_uppercase())
            && word[2..].chars().all(|c| c.is_ascii_digit())
    };
    let words = advice.split(|c: char| !c.is_ascii_alphanumeric());
    assert_eq!(words.filter(|word| is_code(word)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn later_file_changes_only_stated_keys() {
    let own = source("own.toml", "[rule.dataloader-wait]\nhigh = '> 30 %'\nmedium = 'never'\n");
    let rules = with_default(&[own]);
    let rule = rules.find("IN001").unwrap();
    let thresholds: Vec<(&str, &str)> =
        rule.checks[0].thresholds.iter().map(|(_, t)| (t.text.as_str(), t.at.as_str())).collect();
    assert_eq!(thresholds[..2], [("> 30 %", "own.toml:2"), ("never", "own.toml:3")]);
    let (low, low_at) = thresholds[2];
    assert!(low == "> 5 %" && low_at.starts_with("rules/IN.toml:"), "{low} at {low_at}");
    assert!(rule.at.starts_with("rules/IN.toml:"));
    let result = rules.test();
    assert_eq!(result.untested, ["IN001"], "its tests were for the thresholds it no longer has");
    assert!(result.failures.is_empty());
}

#[test]
fn disabled_rule_needs_no_view() {
    let off = source("own.toml", "[rule.straggler-rank]\nenabled = false\n");
    let rules = with_default(&[off]);
    assert!(rules.find("CM003").is_none());
    assert!(!rules.views().contains(&"comm_straggler_causes"));
    assert!(with_default(&[]).views().contains(&"comm_straggler_causes"));
}

/// A rule that looks at the run needs its traits; others do not pay for them.
#[test]
fn traits_are_requested_only_by_rules_that_read_them() {
    const RULE: &str = r#"
        code = "XX001"
        category = "test"
        metric = "gpu_utilization.busy_ratio"
        high = "< 50 %"
        title = "Idle"
        advice = ["Work."]
        why = "Because."
    "#;
    let own = |text: &str| {
        let file = format!("[policy]\nselect = ['XX001']\n[rule.own]\n{RULE}message = '{text}'\n");
        with_default(&[source("own.toml", &file)])
    };
    assert!(!own("{{ busy_ratio|pct }}").views().contains(&"run_traits"));
    let rules = own("{{ busy_ratio|pct }} on {{ run.vendor|default(\"?\") }}");
    assert!(rules.views().contains(&"run_traits"));

    let busy =
        view("gpu_utilization", &[&[("rank", Value::Int(0)), ("busy_ratio", Value::Float(0.2))]]);
    let traits = view("run_traits", &[&[("vendor", Value::Text("amd".to_owned()))]]);
    let message = |tables: &[MetricTable]| {
        evaluate(&rules, tables, &RunInfo::default(), &[]).findings[0].message.clone()
    };
    assert_eq!(message(&[busy.clone(), traits]), "20 % on amd");
    assert_eq!(message(&[busy]), "20 % on ?");
}

#[test]
fn rule_with_sql_is_loaded_and_tested() {
    let own = source(
        "own.toml",
        r#"
        [rule.big-copies]
        code = "XX001"
        category = "memory"
        sql = "SELECT rank, max(bytes) AS largest_bytes FROM memcpys GROUP BY rank"
        column = "largest_bytes"
        unit = "bytes"
        scope = "rank"
        high = "> 1 GiB"
        title = "A copy is very large"
        message = "{{ largest_bytes|bytes }} at once."
        advice = ["Split it."]
        why = "It blocks the link."
        tests = [
            { largest_bytes = 2_147_483_648, expect = "high" },
            { largest_bytes = 1024, expect = "pass" },
            { rank = 0, expect = "unknown" },
        ]
        "#,
    );
    let rules = with_default(&[own]);
    let queries = rules.queries();
    assert_eq!((queries.len(), queries[0].name.as_str()), (1, "big-copies"));
    assert!(rules.test().failures.is_empty(), "{:?}", rules.test().failures);
    assert!(!rules.views().contains(&"big-copies"));
}

#[test]
fn failing_rule_test_is_reported() {
    let own = source(
        "own.toml",
        "[rule.too-few-steps]\nlow = '< 30'\nmedium = '< 10'\ntests = [{ found_step_count = 9, expect = 'pass' }]\n",
    );
    let failures = with_default(&[own]).test().failures;
    assert_eq!(failures.len(), 1);
    assert!(
        failures[0]
            .to_string()
            .starts_with("own.toml:4: TQ001 too-few-steps: expected pass, got medium")
    );
}
