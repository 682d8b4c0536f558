//! Rules that need kinds of data: verdicts, reasons, and what to record.

use trace_model::{Capability, MetricTable, RunInfo, Value};

use super::{metrics, source, view};
use crate::{Report, RuleSet, Subject, evaluate};

/// Rules on the same rows: the requirements, doubts and subject of each.
const RULES: [(&str, &str); 6] = [
    ("XX001", "requires = [{ needs = ['operator_shapes', 'python_stacks'] }]"),
    (
        "XX002",
        "requires = [{ expr = 'step_count > 9', needs = 'steps', reason = 'few steps' }]\nsubject = 'gpu'",
    ),
    ("XX003", "requires = [{ expr = 'step_count > 9', needs = 'python_stacks' }]"),
    ("XX004", "doubts = [{ expr = 'step_count < 9', needs = 'python_stacks', reason = 'unsure' }]"),
    (
        "XX005",
        "requires = [{ expr = 'occupancy_ratio > 0', needs = ['python_stacks', 'operator_shapes'] }]",
    ),
    ("XX006", "requires = [{ needs = 'several_ranks' }]\nsubject = ['memory_snapshot', 'gpu']"),
];

fn rules() -> RuleSet {
    let rule = |(code, fields): &(&str, &str)| {
        format!(
            "[rule.own-{}]\ncode = '{code}'\ncategory = 'test'\nmetric = 'gpu_utilization.busy_ratio'\n\
             high = '< 50 %'\ntitle = 'Idle'\nmessage = 'Idle.'\nadvice = ['Work.']\nwhy = 'Because.'\n{fields}\n",
            code.to_ascii_lowercase()
        )
    };
    let text: String = RULES.iter().map(rule).collect();
    RuleSet::load(&[source("own.toml", &text)], &metrics()).unwrap()
}

fn capabilities(rows: &[(Option<i64>, &str)]) -> MetricTable {
    let rows: Vec<Vec<(&str, Value)>> = rows
        .iter()
        .map(|(rank, name)| {
            let rank = rank.map_or(Value::Null, Value::Int);
            vec![("rank", rank), ("capability", Value::Text((*name).to_owned()))]
        })
        .collect();
    view("run_capabilities", &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// The report on two ranks that both exceed the threshold of all rules.
fn report(tables: &[MetricTable]) -> Report {
    let row = |rank: i64| {
        [
            ("rank", Value::Int(rank)),
            ("busy_ratio", Value::Float(0.2)),
            ("step_count", Value::Int(6)),
        ]
    };
    let mut all = vec![view("gpu_utilization", &[&row(0), &row(1)])];
    all.extend_from_slice(tables);
    evaluate(&rules(), &all, &RunInfo::default(), &[])
}

fn unknown<'r>(report: &'r Report, code: &str) -> (&'r str, &'r [Capability]) {
    let rule = report.unknown.iter().find(|rule| rule.code == code).unwrap();
    (&rule.reason, &rule.needs)
}

#[test]
fn needs_are_checked_on_the_rank_of_the_row() {
    use Capability::{OperatorShapes, PythonStacks};
    let held = [
        (Some(0), "operator_shapes"),
        (Some(0), "steps"),
        (Some(1), "operator_shapes"),
        (Some(1), "python_stacks"),
        (None, "several_ranks"),
    ];
    let report = report(&[capabilities(&held)]);
    // It fires for rank 1, whose data is there, and for a capability of the run as a whole.
    let fired: Vec<(&str, usize, usize)> = report
        .findings
        .iter()
        .map(|finding| (finding.code.as_str(), finding.affected.fired, finding.affected.unknown))
        .collect();
    assert_eq!(fired, [("XX001", 1, 1), ("XX006", 2, 0)]);
    // Nothing is missing for the steps: there are few.
    assert_eq!(unknown(&report, "XX002"), ("few steps", &[][..]));
    let stacks = "Python stacks were not recorded: with_stack=True";
    assert_eq!(unknown(&report, "XX003"), (stacks, &[PythonStacks][..]));
    assert_eq!(unknown(&report, "XX004"), ("unsure", &[PythonStacks][..]));
    assert_eq!(unknown(&report, "XX005"), (stacks, &[PythonStacks][..]));
    let options = report.missing_options();
    assert_eq!(options.len(), 1);
    assert_eq!((options[0].option, options[0].rules), ("with_stack=True", 3));

    let held = [(Some(0), "python_stacks"), (Some(1), "timeline")];
    let report = self::report(&[capabilities(&held)]);
    let shapes = "shapes of operators were not recorded: record_shapes=True";
    assert_eq!(unknown(&report, "XX001"), (shapes, &[OperatorShapes][..]));
    assert_eq!(unknown(&report, "XX005"), (shapes, &[OperatorShapes][..]));
    let several = "only one rank's trace was given: give at least 2";
    assert_eq!(unknown(&report, "XX006"), (several, &[Capability::SeveralRanks][..]));
}

/// A run with one rank lacks other ranks first.
#[test]
fn rules_that_compare_ranks_ask_one_rank_for_no_options() {
    let rule = |code: &str, subject: &str| {
        format!(
            "[rule.own]\ncode = '{code}'\ncategory = 'test'\nmetric = 'gpu_utilization.busy_ratio'\n\
             high = '< 50 %'\ntitle = 'Idle'\nmessage = 'Idle.'\nadvice = ['Work.']\nwhy = 'Because.'\n\
             subject = {subject}\nrequires = [{{ needs = 'python_stacks' }}]\n"
        )
    };
    let tables = [
        view("gpu_utilization", &[&[("rank", Value::Int(0)), ("busy_ratio", Value::Float(0.2))]]),
        capabilities(&[(Some(0), "timeline")]),
    ];
    let options = |subject: &str, ranks: Vec<i32>| {
        let text = rule("XX001", subject);
        let rules = RuleSet::load(&[source("own.toml", &text)], &metrics()).unwrap();
        let run = RunInfo { ranks, ..RunInfo::default() };
        evaluate(&rules, &tables, &run, &[]).missing_options().len()
    };
    assert_eq!(options("'ranks'", vec![0]), 0);
    assert_eq!(options("'ranks'", vec![0, 1]), 1);
    assert_eq!(options("['ranks', 'gpu']", vec![0]), 1);
}

/// An option that decides nothing but infos, or not alone, is not worth recording again.
#[test]
fn options_are_listed_if_they_decide_more_than_infos() {
    let options = |severity: &str, needs: &str| {
        let text = format!(
            "[rule.own]\ncode = 'XX001'\ncategory = 'test'\nmetric = 'gpu_utilization.busy_ratio'\n\
             {severity} = '< 50 %'\ntitle = 'Idle'\nmessage = 'Idle.'\nadvice = ['Work.']\nwhy = 'Because.'\n\
             requires = [{{ needs = {needs} }}]\n"
        );
        let rules = RuleSet::load(&[source("own.toml", &text)], &metrics()).unwrap();
        let row = [("rank", Value::Int(0)), ("busy_ratio", Value::Float(0.2))];
        let tables = [view("gpu_utilization", &[&row]), capabilities(&[(Some(0), "timeline")])];
        evaluate(&rules, &tables, &RunInfo::default(), &[]).missing_options().len()
    };
    assert_eq!(options("low", "'python_stacks'"), 1);
    assert_eq!(options("info", "'python_stacks'"), 0);
    assert_eq!(options("low", "['python_stacks', 'machine_metrics']"), 0);
}

/// Of a recording of which it is not known what it holds, nothing is assumed.
#[test]
fn unknown_capabilities_are_no_pass() {
    use Capability::{OperatorShapes, PythonStacks, Steps};
    for tables in [&[][..], &[capabilities(&[])]] {
        let report = report(tables);
        assert_eq!(report.unknown.len(), RULES.len());
        assert_eq!(unknown(&report, "XX001").1, [OperatorShapes, PythonStacks]);
        assert_eq!(unknown(&report, "XX002"), ("few steps", &[Steps][..]));
    }
}

#[test]
fn views_with_capabilities_are_read_only_if_a_rule_has_needs() {
    assert!(rules().views().contains(&"run_capabilities"));
    let text = "[policy]\nselect = ['XX007']\n[rule.own]\ncode = 'XX007'\ncategory = 'test'\nhigh = '< 50 %'\n\
                metric = 'gpu_utilization.busy_ratio'\ntitle = 'I'\nmessage = 'I'\nadvice = ['W']\nwhy = 'B'\n";
    let rules = RuleSet::load(&[source("own.toml", text)], &metrics()).unwrap();
    assert!(!rules.views().contains(&"run_capabilities"));
}

/// An empty view needs what its header requires, as far as the recording lacks it.
#[test]
fn empty_views_need_what_they_require() {
    let mut metrics = metrics();
    for metric in metrics.iter_mut().filter(|metric| metric.view == "gpu_utilization") {
        metric.requires = vec![Capability::DeviceActivity, Capability::LaunchLinks];
    }
    let text = "[rule.own]\ncode = 'XX001'\ncategory = 'test'\nmetric = 'gpu_utilization.busy_ratio'\nhigh = '< 50 %'\n\
                title = 'I'\nmessage = 'I'\nadvice = ['W']\nwhy = 'B'\n";
    let rules = RuleSet::load(&[source("own.toml", text)], &metrics).unwrap();
    let tables = [
        view("gpu_utilization", &[]),
        capabilities(&[(Some(0), "launch_links"), (Some(0), "host_operators")]),
    ];
    let report = evaluate(&rules, &tables, &RunInfo::default(), &[]);
    let nothing = "the trace has nothing for gpu_utilization";
    assert_eq!(unknown(&report, "XX001"), (nothing, &[Capability::DeviceActivity][..]));
}

#[test]
fn reports_name_needs_and_subjects() {
    let report = report(&[]);
    let json = serde_json::to_value(&report.unknown).unwrap();
    assert_eq!(json[0]["needs"], serde_json::json!(["operator_shapes", "python_stacks"]));
    assert_eq!(
        json[0]["record_with"],
        serde_json::json!(["record_shapes=True", "with_stack=True"])
    );
    assert_eq!(json[5].get("record_with"), None, "the profiler has no option for more ranks");
    assert_eq!(json[0]["subject"], serde_json::json!(["run"]));
    assert_eq!(json[5]["subject"], serde_json::json!(["memory_snapshot", "gpu"]));
    assert_eq!(report.unknown[1].subject, [Subject::Gpu]);
}

/// A test of a rule states what the recording lacks.
#[test]
fn tests_of_rules_state_what_is_missing() {
    let test = |expect: &str| {
        let tests = format!(
            "tests = [{{ busy_ratio = 0.2, expect = 'high' }}, \
             {{ busy_ratio = 0.2, lacks = 'operator_shapes', expect = '{expect}' }}]"
        );
        let text = format!(
            "[rule.own]\ncode = 'XX001'\ncategory = 'test'\nmetric = 'gpu_utilization.busy_ratio'\nhigh = '< 50 %'\n\
             title = 'I'\nmessage = 'I'\nadvice = ['W']\nwhy = 'B'\nrequires = [{{ needs = 'operator_shapes' }}]\n{tests}"
        );
        RuleSet::load(&[source("own.toml", &text)], &metrics()).unwrap().test().failures
    };
    assert_eq!(test("unknown"), []);
    let failures = test("high");
    assert_eq!(failures.len(), 1);
    assert!(failures[0].message.contains("got unknown (shapes of operators"), "{failures:?}");
}
