//! Phrases about findings and reports that several formats share.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) use trace_advisor::advisor::phrases::{
    confidence_note, extent, fix_effect, gain_share, kind_of_ranges, limit, mean_of, ms_range,
    percent_range, related_findings, run_summary, timed_span, unknown_effect,
};
use trace_advisor::advisor::{
    AffectedRow, BaselineComparison, Effort, Finding, FindingFix, GoneFinding,
    RecordingInstructions, Rule, Severity, shipped_rules,
};
use trace_advisor::analyses::catalog;
use trace_advisor::trace_model::command_line::shell_words;
use trace_advisor::trace_model::time::{human, time_range};
use trace_advisor::trace_model::{Unit, Value};
use trace_advisor::{Report, RuleSet};

use crate::render::value::{cell, plural, thousands, value};

/// Address of the folder of built-in rules.
const RULE_FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// The address of the file of a rule, if it is a built-in rule.
pub(super) fn docs_url(rule: &Rule) -> Option<String> {
    let (file, _) = rule.at.rsplit_once(':')?;
    shipped_rules().iter().any(|s| s.name == file).then(|| format!("{RULE_FILES}{file}"))
}

/// `IN001 dataloader-wait`.
pub(super) fn tag(finding: &Finding) -> String {
    format!("{} {}", finding.code, finding.name)
}

/// The severity, or `note` for findings about the trace.
pub(super) fn severity_label(finding: &Finding) -> &'static str {
    if finding.is_note() { "note" } else { finding.severity.as_str() }
}

/// The summary of the recording, and what takes the time if no finding says so.
pub(super) fn recording(report: &Report) -> Option<String> {
    let recording = report.recording.as_ref()?;
    let texts = [recording.summary.as_str()].into_iter().chain(report.time_summary());
    Some(texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "))
}

/// How to record what the recording lacks.
pub(super) fn instructions(report: &Report) -> Option<&RecordingInstructions> {
    report.recording.as_ref()?.instructions.as_ref()
}

/// The gain, `18.0 to 33.1 %, 2.35 ms/step`; empty without an estimate.
pub(super) fn gain(finding: &Finding) -> String {
    match (gain_share(finding), finding.gain.ms_per_step) {
        (share, Some(ms)) if !share.is_empty() => {
            format!("{share}, about {}/step", human(ms * 1e6))
        }
        (share, _) => share,
    }
}

/// The gain of a finding beside others of the same report: whether one of them saves the same time.
pub(super) fn gain_beside(finding: &Finding, shown: &[&Finding]) -> String {
    let gain = gain(finding);
    let fix = |f: &Finding| f.fixes.first().map(|fix| fix.fix.clone());
    let before = shown.iter().take_while(|f| f.position < finding.position);
    let same =
        before.filter(|_| !gain.is_empty()).find(|f| fix(f).is_some() && fix(f) == fix(finding));
    let outer = finding.gain.within.iter().find(|code| shown.iter().any(|f| f.code == **code));
    let relation = match (same, outer) {
        (Some(same), _) => format!("same fix as {}", same.code),
        (None, Some(outer)) => format!("part of {outer}"),
        (None, None) => String::new(),
    };
    [gain, relation].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The file and line of a source line, without the start of its path if it is longer than `max_chars`.
pub(super) fn short_location(source: &str, max_chars: usize) -> String {
    let mut short = source;
    while short.chars().count() > max_chars
        && let Some((_, rest)) = short.split_once('/')
    {
        short = rest;
    }
    if short.len() == source.len() { short.to_owned() } else { format!(".../{short}") }
}

/// How the plan was predicted, from what step, and why its first fix comes first. None without a plan.
pub(super) fn plan_basis(report: &Report) -> Option<String> {
    let plan = report.plan.as_ref().filter(|plan| !plan.fixes.is_empty())?;
    let span = timed_span(plan);
    Some(format!(
        "The plan comes from timing the recording again ({}). A {span} without the profiler takes {}, limited by {}. Fix 1 comes \
         first because {}.",
        kind_of_ranges(&plan.measured),
        ms_range(&plan.unprofiled_ms),
        limit(&plan.limit),
        plan.first_reason
    ))
}

/// What else a fix saves, and how often its predictions held.
fn grounds(fix: &FindingFix) -> String {
    let following = fix.following.as_ref().map(|time| {
        let kind = if time.kind == "host" { "host work" } else { limit(&time.kind) };
        let share = value(time.pct / 100.0, Unit::Ratio);
        format!("; includes {share} of the time ({kind}) that then overlaps with other work")
    });
    let measured = fix.measured.map(|count| {
        format!(
            "; predictions held in {} of {} of other programs",
            count.held,
            plural(count.of, "measured pair")
        )
    });
    let shortened = fix.shortens_pct.map(|pct| {
        let share = value(pct / 100.0, Unit::Ratio);
        format!("; shortens {share} of the time, more than this finding names")
    });
    following.into_iter().chain(shortened).chain(measured).collect()
}

/// Fixes that a report has described, with the code of the finding that did.
#[derive(Debug, Default)]
pub(crate) struct DescribedFixes(BTreeMap<String, String>);

/// The fixes of a finding: what each saves alone, and its place in the plan. A fix is described once in a report.
pub(super) fn fixes(finding: &Finding, described: &mut DescribedFixes) -> Vec<String> {
    let mut earlier = |fix: &str, title: &str, effort: Effort| {
        let first = described.0.entry(fix.to_owned()).or_insert_with(|| finding.code.clone());
        let effort = effort.as_str();
        (*first != finding.code).then(|| format!("{title} ({effort} effort): as for {first}"))
    };
    let mut fix = |fix: &FindingFix| {
        if let Some(text) = earlier(&fix.fix, &fix.title, fix.effort) {
            return text;
        }
        let alone = fix_effect(fix);
        if fix.plan_position == Some(1) {
            let effort = fix.effort.as_str();
            return format!("{} ({effort} effort): 1 in the plan{}", fix.title, grounds(fix));
        }
        let place = match fix.plan_position {
            Some(position) => {
                let next = percent_range(fix.next_pct.low, fix.next_pct.high);
                format!("{position} in the plan, saves {next} there")
            }
            None => "saves nothing after the plan".to_owned(),
        };
        let effort = fix.effort.as_str();
        format!("{} ({effort} effort): alone {alone}; {place}{}", fix.title, grounds(fix))
    };
    let mut texts: Vec<String> = finding.fixes.iter().map(&mut fix).collect();
    texts.extend(finding.unknown_fixes.iter().map(|fix| {
        earlier(&fix.fix, &fix.title, fix.effort).unwrap_or_else(|| {
            format!("{} ({} effort): {}", fix.title, fix.effort.as_str(), unknown_effect(fix))
        })
    }));
    texts
}

/// The worst rows, at most `max_rows`, with what is measured, and counts:
/// `rank 1: dataloader 36.0 %; rank 0: 35.7 % (2 of 2 ranks, over 5 steps)`.
pub(super) fn affected(finding: &Finding, max_rows: usize) -> String {
    let affected = &finding.affected;
    let unit = Unit::parse(&finding.unit).unwrap_or(Unit::None);
    let rows = &affected.worst[..max_rows.min(affected.worst.len())];
    let measure = finding.measure();
    let row = |(i, row): (usize, &AffectedRow)| {
        let measure = if i == 0 { measure.as_str() } else { "" };
        let number = format!("{measure} {}", value(row.value, unit));
        format!("{}: {}", row.label, number.trim_start())
    };
    let mut text = rows.iter().enumerate().map(row).collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        text = format!("{measure} {}", value(finding.value, unit));
    }
    let more = affected.fired.saturating_sub(rows.len());
    if more > 0 {
        let _ = write!(text, " and {} more", thousands(more as i64));
    }
    let extent = extent(affected);
    if !extent.is_empty() {
        let _ = write!(text, " ({extent})");
    }
    text
}

/// The threshold and where it is defined: `> 20 % (rules/default.toml:114)`.
pub(super) fn threshold(finding: &Finding) -> String {
    format!("{} ({})", finding.threshold, finding.threshold_at)
}

/// The longest time range that shows the finding: `310..361 ms on rank 0 (+11 more, 283 ms in total)`.
pub(super) fn occurrences(finding: &Finding) -> Option<String> {
    if let Some(seen) = &finding.occurrences {
        let first = seen.longest.first()?;
        let of = |name: &str| first.columns.0.iter().find(|(column, _)| column == name);
        let rank = of("rank").map(|(_, rank)| format!(" on rank {rank}")).unwrap_or_default();
        let step = of("step").map(|(_, step)| format!(" in step {step}"));
        let name = of("name").map(|(_, name)| format!(" in `{name}`"));
        let place = name.or(step).unwrap_or_default();
        let more = match seen.count {
            0 | 1 => String::new(),
            count => format!(
                " (+{} more, {} in total)",
                thousands(count as i64 - 1),
                human(seen.sum_ns as f64)
            ),
        };
        return Some(format!("{}{rank}{place}{more}", time_range(first.ts_ns, first.dur_ns)));
    }
    let mut ranges = finding.evidence.iter().filter_map(|e| Some((e.ts_ns?, e.dur_ns?)));
    let (ts_ns, dur_ns) = ranges.next()?;
    let more = match finding.affected.fired {
        0 | 1 => String::new(),
        fired => format!(" (+{} more)", thousands(fired as i64 - 1)),
    };
    Some(format!("{}{more}", time_range(ts_ns, dur_ns)))
}

/// The rows that are evidence of the finding: `gpu_utilization: rank 0, busy_ratio 45 %`.
pub(super) fn evidence_rows(finding: &Finding) -> Vec<String> {
    let row = |view: &str, columns: &[(String, Value)]| {
        let declared = catalog().find(view);
        let unit = |name: &str| {
            declared.map_or_else(|| Unit::of_undeclared(name), |view| view.unit_of(name))
        };
        let cells: Vec<String> =
            columns.iter().map(|(name, v)| format!("{name} {}", cell(v, unit(name)))).collect();
        format!("{view}: {}", cells.join(", "))
    };
    let mut rows: Vec<String> =
        finding.evidence.iter().map(|e| row(&e.view, &e.columns.0)).collect();
    let longest = finding.occurrences.iter().flat_map(|seen| &seen.longest);
    rows.extend(longest.map(|m| row(&time_range(m.ts_ns, m.dur_ns), &m.columns.0)));
    rows
}

/// The codes of rules with an unknown verdict, grouped by reason.
pub(super) fn unknown_by_reason(report: &Report) -> Vec<(String, &str)> {
    let (mut unknown, _) = report.unknown_rules();
    unknown.sort_by_key(|rule| Reverse((!rule.record_with.is_empty(), rule.worst_severity)));
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for unknown in unknown {
        match reasons.iter_mut().find(|(reason, _)| *reason == unknown.reason) {
            Some((_, codes)) => codes.push(&unknown.code),
            None => reasons.push((&unknown.reason, vec![&unknown.code])),
        }
    }
    reasons.into_iter().map(|(reason, codes)| (codes.join(", "), reason)).collect()
}

/// Counts of findings and verdicts: `1 high, 2 info hidden, 15 unknown, 14 passed`.
pub(super) fn counts(report: &Report, show_all: bool) -> String {
    let (unknown, not_applicable) = report.unknown_rules();
    let verdicts = [
        (unknown.len(), "unknown"),
        (not_applicable.len(), "not applicable"),
        (report.passed.len(), "passed"),
    ];
    let verdicts = verdicts.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{n} {state}"));
    std::iter::once(finding_counts(report, show_all)).chain(verdicts).collect::<Vec<_>>().join(", ")
}

/// Counts of findings, with those that are not shown: `1 high, 2 info hidden (--all shows them), 1 ignored`.
pub(super) fn finding_counts(report: &Report, show_all: bool) -> String {
    let mut parts: Vec<String> = Severity::WORST_FIRST
        .into_iter()
        .filter(|s| *s > Severity::Info)
        .filter_map(|severity| {
            let count = report.advice().filter(|f| f.severity == severity).count();
            (count > 0).then(|| format!("{count} {severity}"))
        })
        .collect();
    if parts.is_empty() {
        parts.push("no findings".to_owned());
    }
    let infos = report.advice().filter(|f| f.severity == Severity::Info).count();
    let notes = report.notes().count();
    let mut hidden = Vec::new();
    if infos > 0 {
        hidden.push(format!("{infos} info"));
    }
    if notes > 0 {
        hidden.push(plural(notes, "note"));
    }
    if !hidden.is_empty() {
        let state = if show_all { "" } else { " hidden (--all shows them)" };
        parts.push(format!("{}{state}", hidden.join(" and ")));
    }
    let rest =
        [(report.ignored.len(), "ignored"), (report.below_min_gain.len(), "below minimum gain")];
    parts.extend(rest.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{n} {state}")));
    parts.join(", ")
}

/// The findings hidden by the minimum gain of the policy, each with its gain.
pub(super) fn below_min_gain(report: &Report) -> Vec<String> {
    let hidden = report.below_min_gain.iter();
    hidden
        .map(|f| format!("{} {} ({})", f.code, f.name, value(f.gain_high_pct / 100.0, Unit::Ratio)))
        .collect()
}

/// The findings and rules of the baseline that have no counterpart in this report, each as a label and a text.
pub(super) fn baseline_changes(baseline: &BaselineComparison) -> Vec<(&'static str, String)> {
    let was = |old: &GoneFinding| {
        let unit = Unit::parse(&old.unit).unwrap_or(Unit::None);
        let number = old.value.map(|v| format!(", {}", value(v, unit))).unwrap_or_default();
        format!("{} {} ({}{number}): {}", old.code, old.name, old.severity, old.title)
    };
    let gone = baseline.gone.iter().map(|gone| ("gone", was(gone)));
    let undecided = baseline.still_unknown.iter();
    let undecided = undecided
        .map(|u| ("undetermined", format!("{}; no verdict now: {}", was(&u.was), u.reason)));
    let before = baseline.unknown_before.iter();
    let before =
        before.map(|rule| ("not evaluated before", format!("{}: {}", rule.code, rule.reason)));
    gone.chain(undecided).chain(before).collect()
}

/// The numbers of new, worse, ... findings compared with the baseline.
pub(super) fn baseline_counts(baseline: &BaselineComparison) -> String {
    let counts = [
        (baseline.new, "new"),
        (baseline.worse, "worse"),
        (baseline.better, "better"),
        (baseline.unchanged, "unchanged"),
        (baseline.gone.len(), "gone"),
        (baseline.still_unknown.len(), "undetermined"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if counts.is_empty() {
        counts.push("no findings before or now".to_owned());
    }
    format!("compared with {}: {}", baseline.path, counts.join(", "))
}

/// The queries behind the numbers of a finding: what each returns, and the command that runs it.
pub(super) fn query_commands(
    report: &Report,
    finding: &Finding,
    options: &[String],
) -> Vec<(&'static str, String)> {
    let sql = &finding.sql;
    let queries = [
        ("numbers", Some(&sql.value)),
        ("source lines", sql.source.as_ref()),
        ("time ranges", sql.occurrences.as_ref()),
    ];
    let command = |query: &String| {
        let words = ["advisor", "sql", report.run.path.as_str(), query.as_str()];
        shell_words(words.into_iter().chain(options.iter().map(String::as_str)))
    };
    queries.into_iter().filter_map(|(subject, query)| Some((subject, command(query?)))).collect()
}

/// The command that gives the report again.
pub(super) fn check_command(report: &Report, options: &[String]) -> String {
    let arguments = ["advisor", "check", report.run.path.as_str()];
    shell_words(arguments.into_iter().chain(options.iter().map(String::as_str)))
}

/// Splits `train.py:112` into file and line.
pub(super) fn split_location(source: &str) -> (&str, Option<u64>) {
    let parts = source.rsplit_once(':');
    match parts.and_then(|(file, line)| Some((file, line.parse::<u64>().ok()?))) {
        Some((file, line)) if !file.is_empty() && line > 0 => (file, Some(line)),
        _ => (source, None),
    }
}

/// The rule with a code.
pub(super) fn find_rule<'r>(rules: &'r RuleSet, code: &str) -> Option<&'r Rule> {
    rules.rules().iter().find(|r| r.code == code)
}

#[cfg(test)]
mod tests {
    use super::{split_location, time_range};

    #[test]
    fn time_range_has_digits_that_show_its_length() {
        assert_eq!(time_range(310_000_000, 51_000_000), "310..361 ms");
        assert_eq!(time_range(3_100_000_000, 61_000_000), "3.100..3.161 s");
        assert_eq!(time_range(1_500, 20), "1.500..1.520 us");
        assert_eq!(time_range(0, 7), "0..7 ns");
        assert_eq!(time_range(2_000_000, 0), "2.000000 ms");
        assert_eq!(time_range(i64::MAX, i64::MAX).split(' ').next_back(), Some("s"));
    }

    #[test]
    fn split_location_separates_file_and_line() {
        assert_eq!(split_location("train.py:112"), ("train.py", Some(112)));
        assert_eq!(split_location(r"C:\x\train.py:3"), (r"C:\x\train.py", Some(3)));
        assert_eq!(split_location("<string>"), ("<string>", None));
        assert_eq!(split_location("C:0"), ("C:0", None));
    }
}
