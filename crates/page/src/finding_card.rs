//! One finding with its evidence.

use std::fmt::Write as _;

use trace_advisor::advisor::{AffectedRow, Finding, Severity, phrases};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::{thousands, value};
use trace_advisor::trace_model::time::human;

use crate::bar;
use crate::clean::{html, html_with_code};
use crate::document::numbered;
use crate::timeline::Picture;
use crate::words;

/// Affected rows that a finding lists.
const MAX_ROWS: usize = 3;
/// Ranks that the strip of ranks shows one by one.
const MAX_STRIP: usize = 128;
/// Findings whose evidence is open, whatever their severity.
const OPEN: usize = 3;

/// The ID of a finding. `number`: of the run on the page.
pub(crate) fn anchor(number: usize, code: &str) -> String {
    format!("{}-{code}", numbered("f", number))
}

/// Writes a finding. `number`: of the run on the page.
pub(crate) fn write_finding(
    finding: &Finding,
    number: usize,
    picture: Option<(usize, &Picture)>,
    out: &mut String,
) {
    let id = html(&anchor(number, &finding.code));
    let severity = if finding.is_note() { "note" } else { finding.severity.as_str() };
    let gain = phrases::gain_share(finding);
    let ms = finding.gain.ms_per_step.filter(|_| !gain.is_empty());
    let ms = ms.map(|ms| format!("{} a step", human(ms * 1e6))).unwrap_or_default();
    let _ = write!(
        out,
        "<article class=\"finding s-{severity}\" id=\"{id}\" aria-labelledby=\"{id}-t\">\n<div class=\"row\"><span class=\"sev\">{severity}</span><h3 id=\"{id}-t\"><a class=\"code-tag\" href=\"#{id}\">{}</a> {}</h3>",
        html(&finding.code),
        html_with_code(&finding.title),
    );
    if !gain.is_empty() {
        let _ = write!(
            out,
            "<p class=\"saves\"><strong>saves {}</strong><span>{}</span></p>",
            html(&gain),
            html(&ms)
        );
    }
    if let Some(state) = finding.baseline_state {
        let _ = write!(out, "<span class=\"state\">{}</span>", state.as_str());
    }
    let _ = writeln!(out, "</div>\n<p class=\"message\">{}</p>", html_with_code(&finding.message));
    if !finding.advice.is_empty() {
        out.push_str("<ul class=\"advice\" aria-label=\"Advice\">\n");
        for advice in &finding.advice {
            let _ = writeln!(out, "<li>{}</li>", html_with_code(advice));
        }
        out.push_str("</ul>\n");
    }
    // The first findings are open; the others have one line and their advice.
    let is_open = finding.position <= OPEN || finding.severity >= Severity::Medium;
    let open = if is_open { " open" } else { "" };
    let _ = writeln!(out, "<details class=\"evidence\"{open}><summary>Evidence</summary>");
    if let Some((at, picture)) = picture {
        let _ = writeln!(
            out,
            "<figure class=\"moment\" data-picture=\"{at}\"><figcaption>Timeline: {}</figcaption></figure>",
            html(&picture.caption)
        );
    }
    write_recurrence(finding, out);
    write_facts(finding, out);
    write_actions(finding, picture.map(|(at, _)| at), out);
    out.push_str("</details>\n</article>\n");
}

/// Writes when it occurs in the recording, and on which ranks.
fn write_recurrence(finding: &Finding, out: &mut String) {
    let timeline = finding.occurrences.as_ref().map(|seen| seen.timeline.as_slice());
    let timeline = timeline.filter(|parts| parts.iter().any(|part| *part > 0.0));
    let affected = &finding.affected;
    // Where all ranks are affected, the text says so.
    let has_ranks = affected.ranks.len() < affected.of_ranks && affected.of_ranks <= MAX_STRIP;
    if timeline.is_none() && !has_ranks {
        return;
    }
    out.push_str("<div class=\"recurs\">\n");
    if let Some(parts) = timeline {
        let label = format!(
            "When: {} of 32 parts of the recording",
            parts.iter().filter(|p| **p > 0.0).count()
        );
        out.push_str("<div><span class=\"label\">When</span>");
        bar::open(&label, 22, out);
        out.push_str("<line class=\"base\" x1=\"0\" x2=\"100%\" y1=\"21.5\" y2=\"21.5\"/>");
        for (i, part) in parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            let height = (part.clamp(0.0, 1.0) * 20.0).max(1.5);
            let _ = write!(
                out,
                "<rect class=\"when\" x=\"{:.3}%\" width=\"2.7%\" y=\"{:.1}\" height=\"{height:.1}\"><title>{} of this part of the recording</title></rect>",
                i as f64 * 3.125 + 0.2,
                21.5 - height,
                html(&words::percent(*part))
            );
        }
        out.push_str("</svg></div>\n");
    }
    if has_ranks {
        let label = format!("Ranks: {} of {}", affected.ranks.len(), affected.of_ranks);
        out.push_str("<div><span class=\"label\">Ranks</span>");
        bar::open(&label, 22, out);
        let width = 100.0 / affected.of_ranks as f64;
        for rank in 0..affected.of_ranks {
            let is_affected = affected.ranks.binary_search(&(rank as i64)).is_ok();
            let (class, state) =
                if is_affected { ("when", "affected") } else { ("not", "not affected") };
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{:.3}%\" width=\"{:.3}%\" y=\"4\" height=\"17\"><title>rank {rank}: {state}</title></rect>",
                rank as f64 * width,
                width * 0.86
            );
        }
        out.push_str("</svg></div>\n");
    }
    out.push_str("</div>\n");
}

/// Writes where it is, how sure it is, and what it has to do with other findings.
fn write_facts(finding: &Finding, out: &mut String) {
    let mut facts: Vec<(&str, String)> = Vec::new();
    let unit = Unit::parse(&finding.unit).unwrap_or(Unit::None);
    let affected = &finding.affected;
    let row = |row: &AffectedRow| format!("{}: {}", row.label, value(row.value, unit));
    let mut place: String =
        affected.worst.iter().take(MAX_ROWS).map(row).collect::<Vec<_>>().join("; ");
    let more = affected.fired.saturating_sub(MAX_ROWS.min(affected.worst.len()));
    if more > 0 && !place.is_empty() {
        let _ = write!(place, " and {} more", thousands(more as i64));
    }
    let extent = phrases::extent(affected);
    if !extent.is_empty() {
        let _ = write!(place, " ({extent})");
    }
    facts.push(("Where", place));
    facts.push(("Source", finding.source.join(", ")));
    if let Some(seen) = &finding.occurrences {
        let times = if seen.count == 1 {
            "once".to_owned()
        } else {
            format!("{} times", thousands(seen.count as i64))
        };
        facts.push(("Seen", format!("{times}, {} in total", human(seen.sum_ns as f64))));
    }
    facts.push((
        "Limit",
        format!("{} {} ({})", finding.measure(), finding.threshold, finding.threshold_at),
    ));
    for fix in &finding.fixes {
        let saves = alone(&phrases::fix_effect(fix), fix.alone_pct.is_slower());
        let place = match fix.plan_position {
            Some(position) => format!("{position} in the plan"),
            None if fix.alone_pct.high < 0.05 => "not in the plan".to_owned(),
            None => "not in the plan: others save this already".to_owned(),
        };
        let effort = fix.effort.as_str();
        facts.push(("Fix", format!("{} ({effort} effort): {saves}; {place}", fix.title)));
    }
    for fix in &finding.unknown_fixes {
        let (effort, unknown) = (fix.effort.as_str(), phrases::unknown_effect(fix));
        facts.push(("Fix", format!("{} ({effort} effort): {unknown}", fix.title)));
    }
    facts.push(("Confidence", phrases::confidence_note(finding).unwrap_or_default()));
    facts.push(("Related", phrases::related_findings(finding).unwrap_or_default()));
    out.push_str("<dl class=\"facts\">\n");
    for (name, text) in facts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", html_with_code(text));
    }
    out.push_str("</dl>\n");
}

/// The effect of a fix alone as a half sentence; `effect`: see [`phrases::fix_effect`].
fn alone(effect: &str, is_slower: bool) -> String {
    if is_slower { format!("alone {effect}") } else { format!("saves {effect} alone") }
}

/// Writes the buttons, and the queries.
fn write_actions(finding: &Finding, picture: Option<usize>, out: &mut String) {
    let queries = [
        ("The numbers", Some(&finding.sql.value)),
        ("Source lines", finding.sql.source.as_ref()),
        ("Time ranges", finding.sql.occurrences.as_ref()),
    ];
    let queries = queries.into_iter().filter_map(|(name, sql)| Some((name, sql?)));
    let queries: Vec<_> = queries.filter(|(_, sql)| !sql.is_empty()).collect();
    out.push_str("<div class=\"actions\">\n");
    if let Some(at) = picture {
        let _ = writeln!(
            out,
            "<button type=\"button\" class=\"quiet perfetto\" data-picture=\"{at}\" title=\"Hands a cut-out of the trace to ui.perfetto.dev, within this browser\">Open in Perfetto<span class=\"hidden\">: {}</span></button>",
            html(&finding.code)
        );
    }
    let _ = writeln!(
        out,
        "<span class=\"explain\"><code>advisor explain {}</code></span>",
        html(&finding.code)
    );
    out.push_str("</div>\n");
    if !queries.is_empty() {
        out.push_str("<details class=\"sql\"><summary>SQL</summary>\n");
        for (name, sql) in queries {
            let _ = writeln!(
                out,
                "<div class=\"code\"><p>{name}</p><button type=\"button\" class=\"quiet copy\">Copy SQL</button><pre tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><code>{}</code></pre></div>",
                html(sql)
            );
        }
        out.push_str("</details>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::{alone, anchor};

    #[test]
    fn effects_of_fixes_read_as_half_sentences() {
        assert_eq!(alone("18.0 to 33.1 %", false), "saves 18.0 to 33.1 % alone");
        assert_eq!(alone("probably slower, by 17.7 %", true), "alone probably slower, by 17.7 %");
    }

    #[test]
    fn anchors_of_later_runs_have_their_number() {
        assert_eq!([0, 1].map(|number| anchor(number, "IN001")), ["f-IN001", "f-2-IN001"]);
    }
}
