//! What several formats say of a finding, in the same words.

use std::borrow::Cow;
use std::fmt::Write as _;

use trace_advisor::advisor::{
    BaselineComparison, Confidence, Finding, GoneFinding, Rule, Run, Severity, page_name,
    shipped_rules,
};
use trace_advisor::trace_model::time::human;
use trace_advisor::trace_model::{Unit, Value};
use trace_advisor::{Report, RuleSet};

use crate::render::value::{cell, thousands, value};

/// Where the pages of shipped rules are.
const PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/rules/");

/// The page of a shipped rule.
pub(super) fn docs_url(rule: &Rule) -> Option<String> {
    let file = rule.at.rsplit_once(':').map_or("", |(file, _)| file);
    shipped_rules().iter().any(|s| s.name == file).then(|| format!("{PAGES}{}", page_name(rule)))
}

/// `IN001 dataloader-wait`.
pub(super) fn tag(finding: &Finding) -> String {
    format!("{} {}", finding.code, finding.name)
}

/// The severity; `note` for findings about the trace.
pub(super) fn level(finding: &Finding) -> &'static str {
    if finding.is_note() { "note" } else { finding.severity.as_str() }
}

/// `2 ranks, 6 steps, 43.0 ms, 13,918 events; only ranks 0`.
pub(super) fn extent(run: &Run) -> String {
    let ranks = plural(run.ranks.len(), "rank");
    let steps = if run.steps == 0 { "no steps".to_owned() } else { plural(run.steps, "step") };
    let wall = human(run.wall_ns as f64);
    let events = thousands(run.sources.iter().map(|s| s.events).sum::<u64>() as i64);
    let part = match run.selection.as_str() {
        "" => String::new(),
        part => format!("; only {part}"),
    };
    format!("{ranks}, {steps}, {wall}, {events} events{part}")
}

/// `up to 33.1 %, 2.35 ms/step`; empty without an estimate.
pub(super) fn gain(finding: &Finding) -> String {
    let Some(high) = finding.gain.high_pct.filter(|pct| *pct >= 0.05) else { return String::new() };
    let share = value(high / 100.0, Unit::Ratio);
    match finding.gain.ms_per_step {
        Some(ms) => format!("up to {share}, {}/step", human(ms * 1e6)),
        None => format!("up to {share}"),
    }
}

/// `rank 1 (36.0 %); rank 0 (35.7 %): 2 of 2 ranks, over 5 steps`: the worst rows, and how many there are.
pub(super) fn affected(finding: &Finding, named: usize) -> String {
    let affected = &finding.affected;
    let unit = Unit::parse(&finding.unit).unwrap_or(Unit::None);
    let rows = &affected.worst[..named.min(affected.worst.len())];
    let mut text = rows
        .iter()
        .map(|row| format!("{} ({})", row.label, value(row.value, unit)))
        .collect::<Vec<_>>()
        .join("; ");
    if text.is_empty() {
        text = value(finding.value, unit);
    }
    let more = affected.fired.saturating_sub(rows.len());
    if more > 0 {
        let _ = write!(text, " and {} more", thousands(more as i64));
    }
    let mut counts = Vec::new();
    if affected.of_ranks > 1 {
        counts.push(format!("{} of {} ranks", affected.ranks.len(), affected.of_ranks));
    }
    match (affected.steps, affected.of_steps) {
        (Some(steps), Some(of)) => counts.push(format!("{steps} of {}", plural(of, "step"))),
        (None, Some(of)) => counts.push(format!("over {}", plural(of, "step"))),
        _ => {}
    }
    if !counts.is_empty() {
        text.push_str(": ");
        text.push_str(&counts.join(", "));
    }
    text
}

/// `> 20 % (rules/default.toml:114)`.
pub(super) fn limit(finding: &Finding) -> String {
    format!("{} ({})", finding.threshold, finding.threshold_at)
}

/// `310..361 ms on rank 0 (+11 more, 283 ms together)`: the longest moment that shows it.
pub(super) fn seen(finding: &Finding) -> Option<String> {
    if let Some(seen) = &finding.occurrences {
        let first = seen.longest.first()?;
        let of = |name: &str| first.columns.0.iter().find(|(column, _)| column == name);
        let rank = of("rank").map(|(_, rank)| format!(" on rank {rank}")).unwrap_or_default();
        let step = of("step").map(|(_, step)| format!(" in step {step}"));
        let what = of("name").map(|(_, name)| format!(" in `{name}`")).or(step).unwrap_or_default();
        let more = match seen.count {
            0 | 1 => String::new(),
            count => format!(
                " (+{} more, {} together)",
                thousands(count as i64 - 1),
                human(seen.sum_ns as f64)
            ),
        };
        return Some(format!("{}{rank}{what}{more}", range(first.ts_ns, first.dur_ns)));
    }
    let mut moments = finding.evidence.iter().filter_map(|e| Some((e.ts_ns?, e.dur_ns?)));
    let (ts_ns, dur_ns) = moments.next()?;
    let more = match finding.affected.fired {
        0 | 1 => String::new(),
        fired => format!(" (+{} more)", thousands(fired as i64 - 1)),
    };
    Some(format!("{}{more}", range(ts_ns, dur_ns)))
}

/// `310..361 ms`: with as many digits as show the length.
pub(super) fn range(ts_ns: i64, dur_ns: i64) -> String {
    let end_ns = ts_ns.saturating_add(dur_ns);
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fits = units.into_iter().find(|(scale, _)| end_ns.unsigned_abs() >= *scale);
    let (scale, unit) = fits.unwrap_or((1, "ns"));
    let (mut digits, mut step) = (0, scale);
    while step > 1 && dur_ns.unsigned_abs() < 10 * step {
        step /= 10;
        digits += 1;
    }
    let time = |ns: i64| format!("{:.digits$}", ns as f64 / scale as f64);
    if dur_ns == 0 {
        return format!("{} {unit}", time(ts_ns));
    }
    format!("{}..{} {unit}", time(ts_ns), time(end_ns))
}

/// `medium confidence: the trace has few steps`; `None` where nothing speaks against it.
pub(super) fn doubts(finding: &Finding) -> Option<String> {
    if finding.confidence == Confidence::High && finding.caveats.is_empty() {
        return None;
    }
    let mut text = format!("{} confidence", finding.confidence);
    if !finding.caveats.is_empty() {
        text.push_str(": ");
        text.push_str(&finding.caveats.join("; "));
    }
    Some(text)
}

/// What the second estimate of the gain says.
pub(super) fn second_opinion(finding: &Finding) -> Option<String> {
    let pct = finding.gain.what_if_pct?;
    let share = value(pct / 100.0, Unit::Ratio);
    Some(format!("second opinion: without it the critical path is {share} shorter"))
}

/// How its time goes with that of other findings.
pub(super) fn relations(finding: &Finding) -> Option<String> {
    let gain = &finding.gain;
    if gain.contains.is_empty() {
        return gain.within.first().map(|parent| format!("part of {parent}"));
    }
    let rest = gain
        .unattributed_pct
        // As much as the whole: what it contains only looks closer.
        .filter(|pct| gain.high_pct.is_some_and(|high| *pct < high) && *pct >= 0.05)
        .map(|pct| format!(", which leaves {} without a cause", value(pct / 100.0, Unit::Ratio)))
        .unwrap_or_default();
    Some(format!("contains {}{rest}", gain.contains.join(", ")))
}

/// Rows that show it: `gpu_utilization: rank 0, busy_ratio 45 %`.
pub(super) fn evidence(finding: &Finding) -> Vec<String> {
    let row = |view: &str, columns: &[(String, Value)]| {
        let cells: Vec<String> =
            columns.iter().map(|(name, v)| format!("{name} {}", cell(name, v))).collect();
        format!("{view}: {}", cells.join(", "))
    };
    let mut rows: Vec<String> =
        finding.evidence.iter().map(|e| row(&e.view, &e.columns.0)).collect();
    let moments = finding.occurrences.iter().flat_map(|seen| &seen.longest);
    rows.extend(moments.map(|m| row(&range(m.ts_ns, m.dur_ns), &m.columns.0)));
    rows
}

/// Rules that could not judge: those with the same reason together.
pub(super) fn unknown(report: &Report) -> Vec<(String, &str)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for unknown in &report.unknown {
        match reasons.iter_mut().find(|(reason, _)| *reason == unknown.reason) {
            Some((_, codes)) => codes.push(&unknown.code),
            None => reasons.push((&unknown.reason, vec![&unknown.code])),
        }
    }
    reasons.into_iter().map(|(reason, codes)| (codes.join(", "), reason)).collect()
}

/// Counts of findings and verdicts: `1 high, 2 info hidden, 15 unknown, 14 passed`.
pub(super) fn counts(report: &Report, all: bool) -> String {
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
        let how = if all { "" } else { " hidden (--all shows them)" };
        parts.push(format!("{}{how}", hidden.join(" and ")));
    }
    let rest = [
        (report.ignored.len(), "ignored"),
        (report.below_min_gain.len(), "below the least gain"),
        (report.unknown.len(), "unknown"),
        (report.passed.len(), "passed"),
    ];
    parts.extend(rest.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join(", ")
}

/// Findings that the policy hides for what they would bring: each, and that.
pub(super) fn below_min_gain(report: &Report) -> Vec<String> {
    let hidden = report.below_min_gain.iter();
    hidden
        .map(|f| format!("{} {} ({})", f.code, f.name, value(f.gain_high_pct / 100.0, Unit::Ratio)))
        .collect()
}

/// What became of an earlier report's findings: a label and a text each.
pub(super) fn against(baseline: &BaselineComparison) -> Vec<(&'static str, String)> {
    let was = |old: &GoneFinding| {
        let unit = Unit::parse(&old.unit).unwrap_or(Unit::None);
        let number = old.value.map(|v| format!(", {}", value(v, unit))).unwrap_or_default();
        format!("{} {} ({}{number}): {}", old.code, old.name, old.severity, old.title)
    };
    let gone = baseline.gone.iter().map(|gone| ("gone", was(gone)));
    let undecided = baseline.still_unknown.iter();
    let undecided =
        undecided.map(|u| ("cannot tell", format!("{}; now {}", was(&u.was), u.reason)));
    let before = baseline.unknown_before.iter();
    let before =
        before.map(|rule| ("not judged before", format!("{}: {}", rule.code, rule.reason)));
    gone.chain(undecided).chain(before).collect()
}

/// How many findings are new, worse, ... since the baseline.
pub(super) fn against_counts(baseline: &BaselineComparison) -> String {
    let counts = [
        (baseline.new, "new"),
        (baseline.worse, "worse"),
        (baseline.better, "better"),
        (baseline.unchanged, "unchanged"),
        (baseline.gone.len(), "gone"),
        (baseline.still_unknown.len(), "cannot be told"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if counts.is_empty() {
        counts.push("no findings then and now".to_owned());
    }
    format!("against {}: {}", baseline.path, counts.join(", "))
}

/// The queries behind the numbers of a finding, as commands: what each gives, and how to ask.
pub(super) fn commands(
    report: &Report,
    finding: &Finding,
    options: &[String],
) -> Vec<(&'static str, String)> {
    let sql = &finding.sql;
    let queries = [
        ("numbers", Some(&sql.value)),
        ("second opinion", sql.what_if.as_ref()),
        ("lines", sql.source.as_ref()),
        ("moments", sql.occurrences.as_ref()),
    ];
    let command = |query: &String| {
        let words = ["advisor", "sql", report.run.path.as_str(), query.as_str()];
        let words = words.into_iter().chain(options.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    };
    queries.into_iter().filter_map(|(what, query)| Some((what, command(query?)))).collect()
}

/// A word as a shell reads it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        Cow::Borrowed(word)
    } else if word.contains(['"', '$', '`', '\\', '!']) {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    } else {
        Cow::Owned(format!("\"{word}\""))
    }
}

/// `train.py:112` in file and line.
pub(super) fn place(source: &str) -> (&str, Option<u64>) {
    let parts = source.rsplit_once(':');
    match parts.and_then(|(file, line)| Some((file, line.parse::<u64>().ok()?))) {
        Some((file, line)) if !file.is_empty() && line > 0 => (file, Some(line)),
        _ => (source, None),
    }
}

/// The rule of a finding.
pub(super) fn rule_of<'r>(rules: &'r RuleSet, code: &str) -> Option<&'r Rule> {
    rules.rules().iter().find(|r| r.code == code)
}

/// `1 step`, `2 steps`.
pub(super) fn plural(count: usize, word: &str) -> String {
    let count_text = thousands(count as i64);
    if count == 1 { format!("{count_text} {word}") } else { format!("{count_text} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::{place, quoted, range};

    #[test]
    fn ranges_have_the_digits_that_show_their_length() {
        assert_eq!(range(310_000_000, 51_000_000), "310..361 ms");
        assert_eq!(range(3_100_000_000, 61_000_000), "3.100..3.161 s");
        assert_eq!(range(1_500, 20), "1.500..1.520 us");
        assert_eq!(range(0, 7), "0..7 ns");
        assert_eq!(range(2_000_000, 0), "2.000000 ms");
        assert_eq!(range(i64::MAX, i64::MAX).split(' ').next_back(), Some("s"));
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        assert_eq!(quoted("runs/a-1"), "runs/a-1");
        assert_eq!(quoted("my run"), "\"my run\"");
        assert_eq!(quoted("WHERE name = 'a'"), "\"WHERE name = 'a'\"");
        assert_eq!(quoted("name = '$(rm)'"), r"'name = '\''$(rm)'\'''");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("a;b"), "\"a;b\"");
    }

    #[test]
    fn sources_are_taken_apart() {
        assert_eq!(place("train.py:112"), ("train.py", Some(112)));
        assert_eq!(place(r"C:\x\train.py:3"), (r"C:\x\train.py", Some(3)));
        assert_eq!(place("<string>"), ("<string>", None));
        assert_eq!(place("C:0"), ("C:0", None));
    }
}
