//! What the recording cannot say, and what to record.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::UnknownRule;

use crate::clean::{html, html_with_code};
use crate::words::capitalized;

/// Writes the section.
pub(crate) fn write(report: &Report, id: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "<section id=\"{id}\" aria-label=\"What this recording cannot say\">\n<h2>What this recording cannot say</h2>"
    );
    let limits = report.recording.iter().flat_map(|recording| &recording.limits);
    let limits: Vec<&str> = limits.map(|limit| limit.text.as_str()).collect();
    if !limits.is_empty() {
        out.push_str("<ul class=\"limits\">\n");
        for limit in limits {
            let _ = writeln!(out, "<li>{}</li>", html_with_code(limit));
        }
        out.push_str("</ul>\n");
    }
    let instructions = report.recording.as_ref().and_then(|r| r.instructions.as_ref());
    if let Some(instructions) = instructions {
        let _ = writeln!(
            out,
            "<h3>To record what is missing ({})</h3>\n<div class=\"code\"><button type=\"button\" class=\"quiet copy\">Copy code</button><pre tabindex=\"0\" role=\"region\" aria-label=\"Code\"><code>{}</code></pre></div>",
            html(&instructions.framework),
            html(&instructions.code)
        );
    }
    write_notes(report, out);
    write_unknown(report, out);
    write_rest(report, out);
    out.push_str("</section>\n");
}

fn write_notes(report: &Report, out: &mut String) {
    let mut notes = report.notes().peekable();
    if notes.peek().is_none() {
        return;
    }
    out.push_str("<h3>Notes about the trace</h3>\n<dl class=\"notes\">\n");
    for note in notes {
        let _ = writeln!(
            out,
            "<dt><span class=\"code-tag\">{}</span> {}</dt><dd>{}{}</dd>",
            html(&note.code),
            html_with_code(&note.title),
            html_with_code(&note.message),
            note.advice.iter().fold(String::new(), |mut text, advice| {
                let _ = write!(text, " {}", html_with_code(&capitalized(advice)));
                text
            })
        );
    }
    out.push_str("</dl>\n");
}

/// Writes the rules without a verdict, by reason: those with most rules first.
fn write_unknown(report: &Report, out: &mut String) {
    if report.unknown.is_empty() {
        out.push_str("<p>Every rule has a verdict.</p>\n");
        return;
    }
    let (missing, never) = report.unknown_rules();
    if missing.is_empty() {
        out.push_str("<p>Every rule that applies has a verdict.</p>\n");
    } else {
        let _ = writeln!(
            out,
            "<h3>Rules without a verdict <span class=\"n\">{}</span></h3>",
            missing.len()
        );
        write_by_reason(&missing, out);
    }
    if !never.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>Rules that do not apply to this kind of run <span class=\"n\">{}</span></summary>",
            never.len()
        );
        write_by_reason(&never, out);
        out.push_str("</details>\n");
    }
}

fn write_by_reason(unknown: &[&UnknownRule], out: &mut String) {
    let mut by_reason: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for rule in unknown {
        by_reason.entry(&rule.reason).or_default().push((&rule.code, &rule.name));
    }
    let mut reasons: Vec<_> = by_reason.into_iter().collect();
    reasons.sort_by_key(|(reason, rules)| (std::cmp::Reverse(rules.len()), *reason));
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rules without a verdict\"><table class=\"unknown\">\n<thead><tr><th scope=\"col\">Reason</th><th scope=\"col\">Rules</th></tr></thead>\n<tbody>"
    );
    for (reason, rules) in reasons {
        let names: Vec<String> = rules
            .iter()
            .map(|(code, name)| format!("<abbr title=\"{}\">{}</abbr>", html(name), html(code)))
            .collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"codes\">{}</td></tr>",
            html_with_code(&capitalized(reason)),
            names.join(" ")
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Writes what else did not become a finding: ignored, too small, warnings; and how many rules passed.
fn write_rest(report: &Report, out: &mut String) {
    let mut list = |title: &str, rows: Vec<(String, String)>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "<details><summary>{title} <span class=\"n\">{}</span></summary>\n<dl class=\"notes\">",
            rows.len()
        );
        for (name, text) in rows {
            let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(&name), html_with_code(&text));
        }
        out.push_str("</dl></details>\n");
    };
    let ignored = report.ignored.iter();
    list(
        "Ignored by rule files",
        ignored
            .map(|f| {
                (
                    format!("{} {}", f.code, f.name),
                    format!("{} Ignored: {} ({})", f.message, f.reason, f.at),
                )
            })
            .collect(),
    );
    let hidden = report.below_min_gain.iter();
    list(
        "Below the minimum gain",
        hidden
            .map(|f| (format!("{} {}", f.code, f.name), format!("up to {:.1} %", f.gain_high_pct)))
            .collect(),
    );
    let warnings = report.warnings.iter();
    list(
        "Warnings about the input",
        warnings
            .map(|w| {
                (if w.file.is_empty() { w.code.clone() } else { w.file.clone() }, w.message.clone())
            })
            .collect(),
    );
    let passed = report.passed.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    if !passed.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>Rules that passed <span class=\"n\">{}</span></summary><p class=\"codes\">{}</p></details>",
            report.passed.len(),
            html(&passed)
        );
    }
}
