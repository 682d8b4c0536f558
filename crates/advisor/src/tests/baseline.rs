//! Comparison of a report with a baseline.

use trace_model::MetricTable;

use super::report::{phases, rows, run, tables, utilization};
use super::{source, with_default};
use crate::{Baseline, BaselineState, Policy, Report, RuleSet, Severity, evaluate};

fn report(rules: &RuleSet, tables: &[MetricTable]) -> Report {
    evaluate(rules, tables, &run(), &[])
}

fn baseline(report: &Report) -> Baseline {
    Baseline::parse(&serde_json::to_string(report).unwrap()).unwrap()
}

/// The report of some tables against that of others.
fn held(now: &[MetricTable], then: &[MetricTable]) -> Report {
    let rules = with_default(&[]);
    let old = baseline(&report(&rules, then));
    let mut new = report(&rules, now);
    new.apply_baseline(old.of("run/", 0, 1).unwrap(), "old.json", &rules);
    new
}

fn state(report: &Report, code: &str) -> BaselineState {
    let finding = report.findings.iter().find(|f| f.code == code);
    finding.unwrap_or_else(|| panic!("no {code}")).baseline_state.unwrap()
}

fn with(view: &str, replaced: MetricTable) -> Vec<MetricTable> {
    let mut tables = tables();
    let at = tables.iter().position(|t| t.view == view).unwrap();
    tables[at] = replaced;
    tables
}

fn loading(ratio: f64) -> Vec<MetricTable> {
    with(
        "step_phases",
        rows("step_phases", &[phases(0, 0.05, 0.01), phases(1, ratio, ratio - 0.005)]),
    )
}

#[test]
fn apply_baseline_marks_the_same_run_unchanged() {
    let same = held(&tables(), &tables());
    assert!(same.findings.iter().all(|f| f.baseline_state == Some(BaselineState::Unchanged)));
    assert_eq!(same.worst(), None, "nothing new or worse");
    let against = same.baseline.as_ref().unwrap();
    assert_eq!((against.new, against.worse, against.gone.len()), (0, 0, 0));
    assert_eq!(against.unchanged, same.advice().count());
    assert_eq!(against.run_path, "run/");
}

#[test]
fn apply_baseline_ignores_changes_within_noise() {
    for (then, now, expected) in [
        (0.285, 0.30, BaselineState::Unchanged), // 5 % of itself
        (0.285, 0.40, BaselineState::Worse),
        (0.40, 0.285, BaselineState::Better),
    ] {
        let report = held(&loading(now), &loading(then));
        assert_eq!(state(&report, "IN001"), expected, "{then} -> {now}");
        assert_eq!(report.worst() == Some(Severity::High), expected == BaselineState::Worse);
    }
    // 11 % of itself, but less than a point of step time.
    let small = held(&loading(0.0601), &loading(0.054));
    assert_eq!(state(&small, "IN001"), BaselineState::Unchanged);
}

#[test]
fn apply_baseline_compares_in_the_direction_of_the_threshold() {
    let busy = |share: f64| {
        with(
            "gpu_utilization",
            rows("gpu_utilization", &[utilization(0, 0.9), utilization(1, share)]),
        )
    };
    assert_eq!(state(&held(&busy(0.40), &busy(0.58)), "GU001"), BaselineState::Worse);
    assert_eq!(state(&held(&busy(0.70), &busy(0.58)), "GU001"), BaselineState::Better);
    assert_eq!(state(&held(&busy(0.56), &busy(0.58)), "GU001"), BaselineState::Unchanged);
}

#[test]
fn apply_baseline_distinguishes_gone_from_still_unknown() {
    let cured = held(&loading(0.01), &tables());
    let against = cured.baseline.as_ref().unwrap();
    assert_eq!(against.gone.len(), 1);
    let gone = &against.gone[0];
    assert_eq!((gone.code.as_str(), gone.severity), ("IN001", Severity::High));
    assert!(gone.gain_high_pct.unwrap() > 20.0 && gone.title.starts_with("Steps wait"));

    let blind = held(&with("step_phases", rows("step_phases", &[])), &tables());
    let against = blind.baseline.as_ref().unwrap();
    assert!(against.gone.is_empty());
    assert_eq!(against.still_unknown[0].was.code, "IN001");
    assert!(against.still_unknown[0].reason.contains("nothing for step_phases"));

    // Silenced or not asked: not gone either.
    let old = baseline(&report(&with_default(&[]), &tables()));
    let silenced = with_default(&[source("o.toml", "[ignore.IN001]\nreason = 'later'\n")]);
    let select = Policy { select: Some(vec!["MM".to_owned()]), ..Policy::default() };
    let elsewhere = with_default(&[]).with_policy(&select).unwrap();
    for (rules, reason) in
        [(silenced, "it is ignored: later"), (elsewhere, "the rule was not evaluated")]
    {
        let mut now = report(&rules, &tables());
        now.apply_baseline(&old.reports[0], "old.json", &rules);
        let told = now.baseline.unwrap().still_unknown;
        let told = told.iter().find(|u| u.was.code == "IN001").unwrap();
        assert_eq!(told.reason, reason);
    }
}

#[test]
fn apply_baseline_lists_new_findings_that_were_unknown_before() {
    let new = held(&tables(), &loading(0.01));
    assert_eq!(state(&new, "IN001"), BaselineState::New);
    assert_eq!(new.worst(), Some(Severity::High));
    assert!(new.baseline.as_ref().unwrap().unknown_before.is_empty());
    let first = held(&tables(), &with("step_phases", rows("step_phases", &[])));
    let unjudged = &first.baseline.as_ref().unwrap().unknown_before;
    assert_eq!(unjudged[0].code, "IN001");
    assert!(unjudged[0].reason.contains("nothing for step_phases"));
}

#[test]
fn apply_baseline_matches_a_finding_on_other_ranks() {
    let both = rows("step_phases", &[phases(0, 0.285, 0.28), phases(1, 0.285, 0.28)]);
    let report = held(&with("step_phases", both), &tables());
    assert_eq!(state(&report, "IN001"), BaselineState::Unchanged);
    // The order of rows is no matter.
    let turned = rows("step_phases", &[phases(1, 0.285, 0.28), phases(0, 0.05, 0.01)]);
    let (a, b) = (held(&with("step_phases", turned), &tables()), held(&tables(), &tables()));
    let print = |r: &Report| r.findings.iter().map(|f| f.fingerprint.clone()).collect::<Vec<_>>();
    assert_eq!(print(&a), print(&b));
}

#[test]
fn baseline_of_finds_runs_by_path_then_by_index() {
    let rules = with_default(&[]);
    let mut other = report(&rules, &tables());
    other.run.path = "other/".to_owned();
    let two = serde_json::to_string(&[report(&rules, &tables()), other]).unwrap();
    let two = Baseline::parse(&two).unwrap();
    let path = |report: Option<&crate::BaselineReport>| report.map(|r| r == &two.reports[1]);
    assert_eq!(path(two.of("other/", 0, 2)), Some(true));
    assert_eq!(path(two.of("new/", 1, 2)), Some(true), "as many runs: by place");
    assert_eq!(path(two.of("new/", 0, 1)), None, "which of the two is not known");
}

#[test]
fn baseline_parse_rejects_other_files() {
    let fails = |text: &str| Baseline::parse(text).unwrap_err();
    assert!(fails("").starts_with("it is not JSON"));
    assert_eq!(fails("[]"), "it has no report");
    for other in [
        "{}",
        "7",
        "null",
        "[1]",
        r#"{"version":"2.1.0","runs":[]}"#,
        r#"{"schema_version":1,"rows":[]}"#,
    ] {
        assert_eq!(fails(other), "it does not contain reports", "{other}");
    }
    assert_eq!(
        fails(r#"{"schema_version":4,"findings":[]}"#),
        "it has schema_version 4, and this program reads versions 1 to 3"
    );
    let damaged = r#"{"schema_version":1,"run":{"path":"x"},"findings":[{"code":"IN001"}]}"#;
    assert!(fails(damaged).starts_with("a report in it is invalid"));
}

#[test]
fn baseline_parse_reads_reports_of_schema_version_1() {
    let rules = with_default(&[]);
    let mut now = report(&rules, &tables());
    let mut old = serde_json::to_value(&now).unwrap();
    old["schema_version"] = 1.into();
    for finding in old["findings"].as_array_mut().unwrap() {
        let finding = finding.as_object_mut().unwrap();
        let position = finding.remove("position").unwrap();
        finding.insert("rank".to_owned(), position);
    }
    let old = Baseline::parse(&old.to_string()).unwrap();
    now.apply_baseline(old.of("run/", 0, 1).unwrap(), "old.json", &rules);
    assert!(now.findings.iter().all(|f| f.baseline_state == Some(BaselineState::Unchanged)));
}
