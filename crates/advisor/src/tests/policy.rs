//! Selection of rules by policy.

use trace_model::Value;

use super::report::{codes, rows, run, tables};
use super::{metrics, source, with_default};
use crate::{FailOn, Inactive, Policy, Report, Rule, RuleSet, evaluate};

fn policy(select: &[&str], ignore: &[&str]) -> Policy {
    let list = |words: &[&str]| Some(words.iter().map(|w| (*w).to_owned()).collect());
    Policy { select: list(select), ignore: list(ignore), ..Policy::default() }
}

fn chosen(select: &[&str], ignore: &[&str]) -> RuleSet {
    with_default(&[]).with_policy(&policy(select, ignore)).unwrap()
}

fn judging(rules: &RuleSet) -> Vec<&str> {
    rules.rules().iter().map(|r| r.code.as_str()).collect()
}

fn report(rules: &RuleSet) -> Report {
    evaluate(rules, &tables(), &run(), &[])
}

#[test]
fn selector_matches_code_prefix_name_or_category() {
    assert_eq!(judging(&chosen(&["IN001"], &[])), ["IN001"]);
    assert_eq!(judging(&chosen(&["dataloader-wait"], &[])), ["IN001"]);
    let areas = chosen(&["IN", "memory"], &["IN001"]);
    let meant = |r: &Rule| r.code.starts_with("IN") || r.category == "memory";
    assert!(areas.rules().iter().all(meant), "{:?}", judging(&areas));
    let areas = judging(&areas);
    assert!(areas.contains(&"MM002") && !areas.contains(&"IN001"), "{areas:?}");
    let all = with_default(&[]);
    assert_eq!(judging(&chosen(&[], &[])), judging(&all));
    assert_eq!(judging(&chosen(&["ALL"], &[])), judging(&all));
    assert!(judging(&chosen(&["IN001"], &["IN"])).is_empty(), "what is ignored is not selected");
}

#[test]
fn with_policy_reports_all_unknown_selectors() {
    let unknown =
        with_default(&[]).with_policy(&policy(&["in001", "memroy"], &["ZZ9"])).unwrap_err();
    let help: Vec<&str> = unknown.iter().map(|u| u.help.as_str()).collect();
    assert_eq!(help[..2], ["did you mean `IN001`?", "did you mean `memory`?"]);
    assert!(help[2].starts_with("code prefixes: CF, "), "{help:?}");
    assert!(unknown[0].to_string().starts_with("`in001` is not a code"));
}

#[test]
fn views_are_those_of_active_rules() {
    let views = [
        "comm_exposed",
        "flight_summary",
        "memory_timeline_summary",
        "run_capabilities",
        "run_traits",
        "step_time_summary",
        "system_hosts",
        "trace_host_time",
        "trace_recording",
    ];
    assert_eq!(chosen(&["CM001"], &["TQ"]).views(), views);
    let views = [
        "comm_straggler_causes",
        "flight_summary",
        "memory_timeline_summary",
        "run_capabilities",
        "run_traits",
        "step_time_summary",
        "system_hosts",
        "trace_host_time",
        "trace_recording",
    ];
    assert_eq!(chosen(&["CM003"], &["TQ"]).views(), views);
    let views = chosen(&["IN001"], &[]);
    let views = views.views();
    assert!(views.contains(&"step_phases") && views.contains(&"trace_quality"), "{views:?}");
    assert!(!views.contains(&"gpu_utilization") && !views.contains(&"memory_peak"), "{views:?}");
    let all = with_default(&[]);
    assert!(!all.views().iter().any(|v| trace_model::COMPARISON_VIEWS.contains(v)));
}

#[test]
fn caveats_of_deselected_rules_stay_and_of_ignored_rules_do_not() {
    let mut tables = tables();
    let quality =
        |steps: i64| vec![("rank", Value::Int(1)), ("found_step_count", Value::Int(steps))];
    tables[3] = rows("trace_quality", &[quality(1)]);
    let judge = |rules: &RuleSet| evaluate(rules, &tables, &run(), &[]);
    let selected = judge(&chosen(&["IN001"], &[]));
    assert_eq!(codes(&selected), ["IN001"], "the doubt itself is not shown");
    let caveats = selected.findings[0].caveats.join("; ");
    assert!(caveats.contains("the trace has only 1 step (TQ001)"), "{caveats}");
    let ignored = judge(&chosen(&["IN001"], &["TQ001"]));
    assert_eq!(ignored.findings[0].caveats, [""; 0]);
    assert!(ignored.findings[0].confidence > selected.findings[0].confidence);
}

#[test]
fn cause_without_active_parent_counts_by_itself() {
    let alone = report(&chosen(&["IN001"], &[]));
    assert!(alone.findings[0].gain.within.is_empty());
    let all = report(&with_default(&[]));
    let loader = all.findings.iter().find(|f| f.code == "IN001").unwrap();
    assert_eq!(loader.gain.within, ["GU001"]);
}

#[test]
fn policy_of_files_is_overridden_by_the_command_line() {
    let first = source(
        "a.toml",
        "[policy]\nselect = ['IN', 'GU']\nignore = ['IN010']\nmin_gain = '30 %'\nfail_on = 'high'\n",
    );
    let second = source("b.toml", "[policy]\nselect = ['GU001', 'IN001']\n");
    let rules = with_default(&[first, second]);
    assert_eq!(judging(&rules), ["GU001", "IN001"]);
    assert_eq!(rules.policy().fail_on, Some(FailOn::High));
    let hidden = report(&rules);
    assert_eq!(codes(&hidden), ["GU001"]);
    assert_eq!(hidden.below_min_gain[0].code, "IN001");
    let line = Policy { min_gain_pct: Some(0.0), ..policy(&["IN001"], &[]) };
    let rules = rules.with_policy(&line).unwrap();
    assert_eq!(judging(&rules), ["IN001"]);
    assert_eq!(codes(&report(&rules)), ["IN001"]);
}

#[test]
fn min_gain_keeps_findings_without_estimate() {
    let own = source(
        "own.toml",
        "[policy]\nmin_gain = '100 %'\n[rule.low-gpu-busy]\ngain = { method = 'none' }\n",
    );
    assert_eq!(codes(&report(&with_default(&[own]))), ["GU001", "TQ004"], "nor is a note");
}

#[test]
fn inactive_gives_the_reason() {
    let off = source("own.toml", "[rule.memory-at-limit]\nenabled = false\n");
    let rules = with_default(&[off]).with_policy(&policy(&["MM", "IN001"], &["MM002"])).unwrap();
    let why = |code: &str| rules.inactive(rules.all().iter().find(|r| r.code == code).unwrap());
    assert_eq!(why("MM001"), Some(Inactive::Disabled));
    assert_eq!(why("MM002"), Some(Inactive::Ignored));
    assert_eq!(why("GU001"), Some(Inactive::NotSelected));
    assert_eq!(why("IN001"), None);
}

#[test]
fn ignore_entry_matches_an_area() {
    let own = source(
        "own.toml",
        "[ignore.input-pipeline]\nreason = 'known'\n[ignore.HB]\nreason = 'idle'\nuntil = '2020-01-01'\n\
         [ignore.CM]\nreason = 'nothing here'\n",
    );
    let rules = with_default(&[own]).with_date(crate::Date::parse("2027-01-01").unwrap());
    assert!(rules.ignores()[0].codes.len() > 1);
    let report = report(&rules);
    assert!(report.ignored.iter().any(|i| i.code == "IN001" && i.reason == "known"));
    assert!(!codes(&report).contains(&"IN001"));
    let warnings: Vec<(&str, &str)> =
        report.warnings.iter().map(|w| (w.code.as_str(), w.message.as_str())).collect();
    assert!(
        warnings.contains(&(
            "ignore-unused",
            "the entry that ignores CM matches no finding in this run: remove it"
        )),
        "{warnings:?}"
    );
    assert!(
        warnings.contains(&(
            "ignore-expired",
            "the entry that ignores HB has expired (2020-01-01): remove it"
        )),
        "{warnings:?}"
    );
}

#[test]
fn policy_mistakes_are_reported_with_all_others() {
    let text = "[policy]\nselect = ['INN', 'memory']\nignore = 'GU'\nmin_gain = '1'\nfail_on = 'hihg'\nmax = 1\n\
                [ignore.memmory]\nreason = 'x'\nuntil = 2027-01-01\n";
    let mut sources = crate::shipped_rules();
    sources.push(source("own.toml", text));
    let problems = RuleSet::load(&sources, &metrics()).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
    // Those of its meaning are told beside those of its shape, here and in rules.
    assert!(lines.iter().any(|l| l.contains("`INN` is not a code")), "{lines:?}");
    assert!(lines.iter().any(|l| l.contains("`memmory` is not a code")), "{lines:?}");
    let text = "[rule.dataloader-wait]\nhigh = 50\nmedium = '> 5 us'\nmessage = '{{ nothing }}'\n\
                [rule.other]\nmetric = 'step_phases.x'\ncode = 1\nhigh = 3\n";
    sources.pop();
    sources.push(source("own.toml", text));
    let problems = RuleSet::load(&sources, &metrics()).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("mistakes_of_meaning_beside_those_of_shape", lines.join("\n"));
}
