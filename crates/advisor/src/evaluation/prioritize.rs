//! The order of findings, and how they contain each other.

use std::collections::BTreeMap;

use crate::language::rule::Rule;
use crate::language::severity::Severity;
use crate::report::finding::Finding;

/// Links findings that contain each other, sorts all findings and numbers them.
///
/// Order: causes by what their fix surely saves after the fixes before it, times confidence; then findings that
/// contain causes or detail them; then notes about the trace; then infos. Ties are broken by severity, share and code. Harm
/// that is not time has a fixed priority.
pub(crate) fn prioritize(findings: &mut [Finding], rules: &[Rule]) {
    // Lists of related findings are in the order of codes, whatever order the findings come in.
    findings.sort_by(|a, b| a.code.cmp(&b.code));
    let rule = |code: &str| rules.iter().find(|r| r.code == code);
    let codes: Vec<String> = findings.iter().map(|f| f.code.clone()).collect();
    for finding in findings.iter_mut() {
        let within = ancestors(&finding.code, rules);
        finding.gain.within = within.into_iter().filter(|code| codes.contains(code)).collect();
    }
    let within: BTreeMap<String, Vec<String>> =
        findings.iter().map(|f| (f.code.clone(), f.gain.within.clone())).collect();
    for finding in findings.iter_mut() {
        let contains = within.iter().filter(|(_, w)| w.contains(&finding.code));
        finding.gain.contains = contains.map(|(code, _)| code.clone()).collect();
        let fixed = rule(&finding.code).and_then(|r| r.fixed_priority_pct).unwrap_or(0.0);
        let weight = finding.confidence.weight();
        finding.priority_pct = weight * priority_pct(finding).max(fixed);
    }
    keep_order_of_plan(findings);
    let counts = |f: &Finding| f.severity > Severity::Info && !f.is_note;
    // A detail stands for its parent where that has no other cause; a parent is a cause where it has no child.
    let is_cause = |f: &Finding| {
        let is_detail = |f: &Finding| rule(&f.code).is_some_and(|r| r.refines);
        let names_cause =
            |o: &Finding| f.gain.contains.contains(&o.code) && counts(o) && !is_detail(o);
        f.plan_position.is_some() || (!is_detail(f) && !findings.iter().any(names_cause))
    };
    let causes: Vec<String> =
        findings.iter().filter(|f| is_cause(f)).map(|f| f.code.clone()).collect();
    let tier = |f: &Finding| match f.severity {
        Severity::Info => 3,
        _ if f.is_note => 2,
        _ => u8::from(!causes.contains(&f.code)),
    };
    findings.sort_by(|a, b| {
        let place = |f: &Finding| f.plan_position.unwrap_or(usize::MAX);
        let share = |f: &Finding| f.gain.share_pct.unwrap_or(0.0);
        tier(a)
            .cmp(&tier(b))
            .then_with(|| b.priority_pct.total_cmp(&a.priority_pct))
            .then_with(|| place(a).cmp(&place(b)))
            .then_with(|| b.severity.cmp(&a.severity))
            .then_with(|| share(b).total_cmp(&share(a)))
            .then_with(|| a.code.cmp(&b.code))
    });
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.position = i + 1;
        finding.is_cause = tier(finding) == 0;
    }
}

/// Share of what it saves alone that a finding without a place in the plan is prioritized as: below all of the plan, above
/// findings without a prediction.
const UNPLANNED_SHARE: f64 = 0.01;

/// The least priority of a finding of the plan that surely saves nothing, as a share of its estimate; and of a finding whose
/// fixes have an unknown saving, as a share of the time that these fixes concern.
const UNSURE_SHARE: f64 = 0.05;

/// A fix may bring more once those before it are made. The finding of a fix before it is never below that of one after
/// it.
fn keep_order_of_plan(findings: &mut [Finding]) {
    let mut planned: Vec<&mut Finding> =
        findings.iter_mut().filter(|f| f.plan_position.is_some()).collect();
    planned.sort_by_key(|f| std::cmp::Reverse(f.plan_position));
    let mut highest = 0.0_f64;
    for finding in planned {
        highest = highest.max(finding.priority_pct);
        finding.priority_pct = highest;
    }
}

/// The percent of step time that a finding is prioritized as: what is surely saved next. A finding whose fix another
/// one stands for, or saves nothing after the fixes of the plan, has next to none. Without re-timing, the lower estimate; where
/// the rule knows why no fix can be predicted, the time that was measured: the main cause comes first all the same.
fn priority_pct(finding: &Finding) -> f64 {
    if finding.fixes.is_empty() {
        // An unknown saving may be all or none of the time that the fix concerns.
        let unknown_pct = finding.unknown_fixes.first().map_or(0.0, |fix| fix.time_pct);
        let unsure_pct = finding.unpredicted_pct.max(UNSURE_SHARE * unknown_pct);
        return finding.gain.low_pct.unwrap_or(0.0).max(unsure_pct);
    }
    match finding.plan_position {
        Some(_) => {
            let next_pct = finding.fixes.first().map_or(0.0, |fix| fix.next_pct.mid);
            finding.gain.next_low_pct.unwrap_or(0.0).max(UNSURE_SHARE * next_pct)
        }
        None => UNPLANNED_SHARE * finding.gain.low_pct.unwrap_or(0.0),
    }
}

/// Codes of the rules that contain a rule, nearest first.
fn ancestors(code: &str, rules: &[Rule]) -> Vec<String> {
    let parent = |code: &str| rules.iter().find(|r| r.code == code).and_then(|r| r.within.clone());
    std::iter::successors(parent(code), |code| parent(code)).collect()
}
