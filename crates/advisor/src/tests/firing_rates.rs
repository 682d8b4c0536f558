//! Counting of verdicts over runs.

use std::collections::BTreeMap;

use trace_model::{MetricTable, RunInfo, Value};

use super::{metrics, source};
use crate::{FiringRates, RuleSet, Severity, evaluate};

const RULE: &str = r#"
    [rule.slow]
    code = "XX001"
    category = "variability"
    sql = "SELECT 1"
    column = "value"
    unit = "number"
    scope = "run"
    high = "> 2"
    info = "> 1"
    title = "Slow"
    message = "Slow."
    advice = ["Hurry."]
    why = "Time passes."
"#;

#[test]
fn share_is_of_evaluated_runs() {
    let rules = RuleSet::load(&[source("own.toml", RULE)], &metrics()).unwrap();
    let report = |value: Value| {
        let columns = vec![("value".to_owned(), trace_model::Unit::Number)];
        let rows = vec![vec![value]];
        let table = MetricTable { view: "slow".into(), columns, rows, when_empty: String::new() };
        evaluate(&rules, &[table], &RunInfo::default(), &[])
    };
    let mut rates = FiringRates::new(&rules);
    rates.add(&report(Value::Float(3.0)), false);
    rates.add(&report(Value::Float(3.0)), true);
    rates.add(&report(Value::Float(1.5)), true);
    rates.add(&report(Value::Float(0.5)), true);
    rates.add(&report(Value::Null), true);

    let rule = &rates.rules[0];
    assert_eq!((rates.runs, rates.healthy_runs), (5, 4));
    assert_eq!(rule.fired, BTreeMap::from([(Severity::Info, 1), (Severity::High, 2)]));
    assert_eq!((rule.passed, rule.unknown, rule.ignored), (1, 1, 0));
    assert_eq!((rule.above_info(), rule.evaluated()), (2, 4));
    assert_eq!((rule.healthy_fired, rule.healthy), (1, 3));
    assert!((rule.share().unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(FiringRates::new(&rules).rules[0].share(), None);
}
