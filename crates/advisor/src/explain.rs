//! A rule as a Markdown page: the same text in `advisor explain` and in the published docs.

use std::fmt::Write as _;

use crate::expr::in_words;
use crate::rule::Rule;
use crate::table::GainMethod;

/// The page of a rule.
pub fn explain(rule: &Rule) -> String {
    let mut page = format!("# {} {}\n\n", rule.code, rule.name);
    // Writing to a String cannot fail.
    let mut line = |text: String| {
        let _ = writeln!(page, "{text}");
    };
    line(format!("Category: {}. Best confidence: {}.\n", rule.category, rule.confidence));
    if rule.is_trace_quality() {
        line("A note about the trace: it never counts as advice.\n".to_owned());
    }
    line("## What is measured\n".to_owned());
    line(format!(
        "`{}`, one value a {}: {}\n",
        rule.metric.name(),
        rule.metric.scope,
        rule.metric.doc
    ));
    if let Some(sql) = &rule.sql {
        line(format!("```sql\n{}\n```\n", sql.trim()));
    }
    for check in &rule.checks {
        line(format!("| `{}` | severity | defined at |", check.column));
        line("|---|---|---|".to_owned());
        for (severity, threshold) in &check.thresholds {
            line(format!("| {} | {severity} | {} |", threshold.text, threshold.at));
        }
        line(String::new());
    }
    if let Some(expr) = &rule.only_if {
        line(format!("Speaks only where `{expr}`.\n"));
    }
    if !rule.requires.is_empty() || !rule.doubts.is_empty() {
        line("The verdict is *unknown*\n".to_owned());
        for c in &rule.requires {
            line(format!("- unless `{}`: {}", c.expr, c.reason));
        }
        for c in &rule.doubts {
            line(format!("- if it would fire and `{}`: {}", c.expr, c.reason));
        }
        line(String::new());
    }
    line("## What could come back\n".to_owned());
    line(gain(rule));
    for lower in &rule.lower_confidence {
        let left = lower.to.map_or("one level lower".to_owned(), |to| format!("at most {to}"));
        line(format!("- Confidence is {left} if `{}`: {}", lower.when, lower.reason));
    }
    if !rule.lower_confidence.is_empty() {
        line(String::new());
    }
    line("## Why\n".to_owned());
    line(format!("{}\n", rule.why));
    line("## What to do\n".to_owned());
    for advice in &rule.advice {
        line(format!("- {}", as_choice(advice)));
    }
    if !rule.links.is_empty() {
        line("\n## Links\n".to_owned());
        for link in &rule.links {
            line(format!("- <{link}>"));
        }
    }
    page
}

fn gain(rule: &Rule) -> String {
    let mut text = match (&rule.gain.of, rule.gain.method) {
        (None, _) | (_, GainMethod::None) => "No estimate in step time.".to_owned(),
        (Some(of), method) => {
            let from = match method {
                GainMethod::Measured => "measured",
                GainMethod::Roofline => "from a model of the hardware",
                _ => "a rule of thumb",
            };
            let (low, high) = (
                in_words(rule.gain.low, trace_model::Unit::Ratio),
                in_words(rule.gain.high, trace_model::Unit::Ratio),
            );
            format!("{low} to {high} of `{}` (a share of step time; {from}).", of.trim())
        }
    };
    if rule.gain.floor > 0.0 {
        let floor = in_words(rule.gain.floor, trace_model::Unit::Ratio);
        let _ = write!(text, " Below {floor} of step time the finding is only an info.");
    }
    if let Some(rank) = rule.fixed_rank {
        let _ = write!(text, " Ranks as {rank} % of step time.");
    }
    if let Some(parent) = &rule.within {
        let closer = if rule.refines { "A closer look at" } else { "Part of the time of" };
        let _ = write!(text, " {closer} {parent}.");
    }
    if !rule.overlaps.is_empty() {
        let _ = write!(text, " May be the same time as {}.", rule.overlaps.join(", "));
    }
    text.push('\n');
    text
}

/// Advice that depends on the row, without the template's machinery: all alternatives in a row.
fn as_choice(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find("{%") {
        text.push_str(&rest[..start]);
        let Some(end) = rest[start..].find("%}") else { break };
        let block = rest[start + 2..start + end].trim();
        if let Some(condition) = block.strip_prefix("if ") {
            let _ = write!(text, "(if `{}`) ", condition.trim());
        } else if let Some(condition) = block.strip_prefix("elif ") {
            let _ = write!(text, " (if `{}`) ", condition.trim());
        } else if block == "else" {
            text.push_str(" (else) ");
        }
        rest = &rest[start + end + 2..];
    }
    text.push_str(rest);
    text.trim().to_owned()
}
