//! Evaluates all rules on one run and builds the report.

use std::collections::BTreeMap;

use minijinja::Environment;
use rayon::prelude::*;
use trace_model::number::plural;
use trace_model::{FailedTable, MetricTable, RunInfo, Warning, damage};

use crate::evaluation::evaluate_rule::{RuleVerdict, StepTimes, evaluate_rule};
use crate::evaluation::run_traits::RunTraits;
use crate::language::ignore::{Date, Ignore};
use crate::language::rule::Rule;
use crate::language::rules_needing;
use crate::language::ruleset::RuleSet;
use crate::language::severity::{Confidence, Severity};
use crate::report::breakdown::{Breakdown, breakdown};
use crate::report::finding::{Finding, FindingLeftOutFix};
use crate::report::recording::{Recording, RecordingKind};
use crate::report::report::{
    DamagedFile, HiddenFinding, IgnoredFinding, Report, ReportWarning, RunTotals, UnknownRule,
};

/// Evaluates the rules on a run.
///
/// `tables` are the rows of [`RuleSet::views`] and the results of [`RuleSet::queries`]; a rule whose
/// table is missing is *unknown*. [`Report::follow_ups`] names the rows that the findings need
/// besides, [`Report::attach`] adds them.
pub fn evaluate(
    rules: &RuleSet,
    tables: &[MetricTable],
    run: &RunInfo,
    warnings: &[Warning],
) -> Report {
    evaluate_without(rules, tables, &[], run, warnings)
}

/// Like [`evaluate`], but without the tables in `failed`. Rules that need one of them are *unknown* with its reason,
/// and the report has a warning.
pub fn evaluate_without(
    rules: &RuleSet,
    tables: &[MetricTable],
    failed: &[FailedTable],
    run: &RunInfo,
    warnings: &[Warning],
) -> Report {
    let env = rules_needing::environment(rules);
    let steps = StepTimes::read(tables);
    let traits = RunTraits::read(tables, run);
    let evaluated = evaluate_rules(rules.run_rules(), rules, tables, &steps, &traits, &env);
    let EvaluatedRules { mut findings, passed, mut unknown, ignored, .. } = evaluated;
    let damaged = damage::damaged_files(run, warnings);
    let formats: Vec<&str> = run.sources.iter().map(|source| source.format.as_ref()).collect();
    let recording = Recording::read(tables, &formats, warnings);
    let mut warnings: Vec<ReportWarning> = warnings.iter().map(ReportWarning::from).collect();
    warnings.extend(evaluated.warnings);
    warnings.extend(explain_failures(&mut unknown, rules, failed));

    let caveat_rules = rules.caveat_rules();
    let hidden_notes =
        evaluate_rules(caveat_rules.iter(), rules, tables, &steps, &traits, &env).findings;
    apply_caveats(&mut findings, rules.rules().iter().chain(caveat_rules), &hidden_notes);
    if recording.as_ref().is_some_and(|r| r.kind == RecordingKind::WarmUp) {
        limit_to_medium(&mut findings);
    }
    let below_min_gain = drop_below_min_gain(&mut findings, rules.policy().min_gain_pct);
    let (mut fixes, mut left_out) = (Vec::new(), Vec::new());
    for fix in rules.fixes() {
        match fix.for_run(&traits, &env) {
            Ok(fix) => fixes.push(fix),
            Err(reason) => left_out.push(reason),
        }
    }
    for finding in &mut findings {
        let of_finding = left_out.iter().filter(|fix| fix.rules.contains(&finding.code));
        finding.left_out_fixes = of_finding.map(FindingLeftOutFix::from).collect();
    }
    let totals = RunTotals {
        slowest_step_ns: steps.slowest(),
        ranks: steps.slowest_ranks(),
        fixes,
        memory_headline: Recording::memory_headline(tables),
        device_family: traits.device_family(),
        unprofiled_step_ns: traits.unprofiled_step_ns(),
    };
    let mut report = Report::new(run, totals);
    report.breakdown = breakdown(tables, steps.slowest_rank())
        .map(|breakdown| Breakdown { is_slowest: steps.differ(), ..breakdown });
    report.recording = recording;
    report.rule_files = rules.files().to_vec();
    report.findings = findings;
    report.passed = passed;
    report.unknown = unknown;
    report.ignored = ignored;
    report.below_min_gain = below_min_gain;
    report.warnings = warnings;
    report.damaged_files = damaged.iter().map(DamagedFile::from).collect();
    report.prioritize(rules);
    report
}

/// Sets the reason of each unknown rule that needs a failed table. Returns one warning per reason.
fn explain_failures(
    unknown: &mut [UnknownRule],
    rules: &RuleSet,
    failed: &[FailedTable],
) -> Vec<ReportWarning> {
    let mut rules_by_reason: BTreeMap<&str, usize> = BTreeMap::new();
    for FailedTable { view, reason } in failed {
        let count = rules_by_reason.entry(reason).or_default();
        let needs = |code: &str| rules.rules().iter().any(|r| r.code == code && r.table() == view);
        for rule in unknown.iter_mut().filter(|rule| needs(&rule.code)) {
            rule.failed(reason);
            *count += 1;
        }
    }
    let warning = |(reason, count): (&str, usize)| ReportWarning {
        code: "view-failed".to_owned(),
        file: String::new(),
        message: match count {
            0 => format!("{reason}; the report omits its results"),
            1 => format!("{reason}; one rule has no verdict"),
            count => format!("{reason}; {} have no verdict", plural(count, "rule")),
        },
        count: 1,
    };
    rules_by_reason.into_iter().map(warning).collect()
}

/// Outcomes of several rules, each evaluated on its own.
#[derive(Default)]
pub(crate) struct EvaluatedRules {
    pub(crate) findings: Vec<Finding>,
    pub(crate) passed: Vec<String>,
    pub(crate) unknown: Vec<UnknownRule>,
    pub(crate) ignored: Vec<IgnoredFinding>,
    pub(crate) warnings: Vec<ReportWarning>,
}

/// Evaluates `selected`, rules of the set, and moves findings that the set ignores to `ignored`.
pub(crate) fn evaluate_rules<'r>(
    selected: impl Iterator<Item = &'r Rule>,
    rules: &'r RuleSet,
    tables: &[MetricTable],
    steps: &StepTimes,
    traits: &RunTraits,
    env: &Environment<'r>,
) -> EvaluatedRules {
    let mut all = EvaluatedRules::default();
    // Ignore entries that match any of these rules, with whether they suppress a finding.
    let mut entries: BTreeMap<usize, bool> = BTreeMap::new();
    // Views of many ranks have many rows.
    let selected: Vec<&Rule> = selected.collect();
    let evaluated = selected.into_par_iter().map(|rule| {
        let table = tables.iter().find(|t| t.view == rule.table());
        (rule, evaluate_rule(rule, table, steps, traits, env))
    });
    let verdicts: Vec<(&Rule, RuleVerdict)> = evaluated.collect();
    for (rule, verdict) in verdicts {
        let matching: Vec<_> =
            rules.ignores().iter().enumerate().filter(|(_, i)| i.matches(&rule.code)).collect();
        for (at, _) in &matching {
            entries.entry(*at).or_default();
        }
        let active = matching.into_iter().rev().find(|(_, i)| !i.is_expired(rules.today()));
        match verdict {
            RuleVerdict::Fired(finding) => match active {
                Some((at, ignore)) => {
                    entries.insert(at, true);
                    all.ignored.push(IgnoredFinding::new(*finding, ignore));
                }
                None => all.findings.push(*finding),
            },
            RuleVerdict::Unknown { reason, needs } => {
                all.unknown.push(UnknownRule::new(rule, reason, needs));
            }
            RuleVerdict::Passed => all.passed.push(rule.code.clone()),
        }
    }
    for (at, is_used) in entries {
        let ignore = &rules.ignores()[at];
        if ignore.is_expired(rules.today()) {
            all.warnings.push(ignore_warning(
                "ignore-expired",
                ignore,
                "has expired",
                ignore.until,
            ));
        } else if !is_used {
            let what = "matches no finding in this run";
            all.warnings.push(ignore_warning("ignore-unused", ignore, what, None));
        }
    }
    all
}

/// Removes findings whose gain is below `min_pct` of step time; findings without an estimate are kept.
pub(crate) fn drop_below_min_gain(
    findings: &mut Vec<Finding>,
    min_pct: Option<f64>,
) -> Vec<HiddenFinding> {
    let Some(min_pct) = min_pct else { return Vec::new() };
    let small = findings
        .extract_if(.., |f| !f.is_note() && f.gain.high_pct.is_some_and(|high| high < min_pct));
    small
        .filter_map(|f| {
            let gain_high_pct = f.gain.high_pct?;
            Some(HiddenFinding { code: f.code, name: f.name, gain_high_pct })
        })
        .collect()
}

/// Lowers the confidence of findings that a note about the trace casts doubt on: findings of the
/// areas in its `weakens` that share a rank with the note. A note of severity info says that nothing is wrong, so it
/// casts none. `hidden_notes` are not in the report.
fn apply_caveats<'r>(
    findings: &mut [Finding],
    rules: impl Iterator<Item = &'r Rule>,
    hidden_notes: &[Finding],
) {
    let notes: Vec<(&Rule, String, Vec<i64>)> = rules
        .filter(|r| !r.weakens.is_empty())
        .filter_map(|r| {
            let mut notes = findings.iter().chain(hidden_notes);
            let note = notes.find(|f| f.code == r.code && f.severity > Severity::Info)?;
            Some((r, note.title.clone(), note.affected.ranks.clone()))
        })
        .collect();
    for finding in findings {
        for (rule, title, ranks) in &notes {
            let is_weakened = finding.code != rule.code
                && rule.weakens.iter().any(|prefix| finding.code.starts_with(prefix.as_str()));
            let own = &finding.affected.ranks;
            let shares_rank =
                own.is_empty() || ranks.is_empty() || own.iter().any(|r| ranks.contains(r));
            if is_weakened && shares_rank {
                finding.confidence = Confidence::lowered(finding.confidence);
                finding.caveats.push(format!("{} ({})", within_sentence(title), rule.code));
            }
        }
    }
}

/// Limits the severity of findings in a recording of start-up: what they measure may not recur.
fn limit_to_medium(findings: &mut [Finding]) {
    for finding in findings {
        finding.severity = finding.severity.min(Severity::Medium);
    }
}

/// A title as a part of a sentence: its first letter is small, unless it begins with an abbreviation.
fn within_sentence(title: &str) -> String {
    let mut letters = title.chars();
    match (letters.next(), letters.as_str()) {
        (Some(first), rest) if rest.starts_with(|c: char| c.is_lowercase() || c == ' ') => {
            format!("{}{rest}", first.to_lowercase())
        }
        _ => title.to_owned(),
    }
}

fn ignore_warning(kind: &str, ignore: &Ignore, what: &str, until: Option<Date>) -> ReportWarning {
    let day = until.map(|d| format!(" ({d})")).unwrap_or_default();
    ReportWarning {
        code: kind.to_owned(),
        file: ignore.at.clone(),
        message: format!("the entry that ignores {} {what}{day}: remove it", ignore.label()),
        count: 1,
    }
}
