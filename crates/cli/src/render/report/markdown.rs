//! Markdown for pull request comments. Names are escaped: they cannot create links, mentions or markup.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Severity};

use super::context::ReportContext;
use super::phrases;
use crate::render::sanitize::{sanitize, sanitize_lines};

/// Number of findings shown with details; the size of a comment is limited.
const MAX_DETAILED: usize = 25;

/// The sections of all runs.
pub(super) fn comment(reports: &[Report], context: &ReportContext<'_>) -> String {
    let sections: Vec<String> = reports.iter().map(|r| section(r, context)).collect();
    sections.join("\n---\n\n")
}

fn section(report: &Report, context: &ReportContext<'_>) -> String {
    let mut text = format!(
        "### Trace Advisor: {}\n\n{}: {}\n",
        prose(&report.headline.text),
        code(&report.run.path),
        prose(&phrases::run_summary(&report.run))
    );
    if let Some((first, fixes)) = phrases::plan(report).split_first() {
        let _ = write!(text, "\n{}\n\n", prose(first));
        for fix in fixes {
            let _ = writeln!(text, "{}", prose(fix));
        }
    }
    let shown: Vec<&Finding> = context.shown(report).collect();
    if !shown.is_empty() {
        text.push_str("\n| severity | finding | | saves | where |\n|---|---|---|---|---|\n");
        for finding in &shown {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                phrases::severity_label(finding),
                link(finding, context),
                prose(&finding.title),
                prose(&phrases::gain(finding)),
                finding.source.first().map(|s| code(s)).unwrap_or_default()
            );
        }
    }
    for finding in shown.iter().take(MAX_DETAILED) {
        text.push('\n');
        text.push_str(&details(report, finding, context));
    }
    if shown.len() > MAX_DETAILED {
        let _ = write!(
            text,
            "\nDetails of the first {MAX_DETAILED} findings only; `advisor check` prints all.\n"
        );
    }
    text.push('\n');
    text.push_str(&rest(report, context));
    text
}

/// The code of a finding, with a link to the page of a built-in rule.
fn link(finding: &Finding, context: &ReportContext<'_>) -> String {
    let url = phrases::find_rule(context.rules, &finding.code).and_then(phrases::docs_url);
    match url {
        Some(url) => format!("[{}]({url})", prose(&finding.code)),
        None => prose(&finding.code),
    }
}

fn details(report: &Report, finding: &Finding, context: &ReportContext<'_>) -> String {
    let mut text = format!(
        "<details><summary><b>{}</b> {}</summary>\n\n{}\n\n",
        prose(&phrases::tag(finding)),
        prose(&finding.title),
        prose(&finding.message)
    );
    let mut item = |label: &str, value: &str| {
        let _ = writeln!(text, "- **{label}**: {}", prose(value));
    };
    item("where", &phrases::affected(finding, 3));
    item("limit", &phrases::threshold(finding));
    if !finding.source.is_empty() {
        let lines: Vec<String> = finding.source.iter().map(|line| format!("`{line}`")).collect();
        item("source", &lines.join(", "));
    }
    if let Some(seen) = phrases::occurrences(finding) {
        item("seen", &seen);
    }
    for fix in phrases::fixes(finding) {
        item("fix", &fix);
    }
    let notes = [phrases::confidence_note(finding), phrases::related_findings(finding)];
    for note in notes.into_iter().flatten() {
        item("note", &note);
    }
    if !finding.advice.is_empty() {
        text.push_str("\nWhat to do:\n\n");
        for advice in &finding.advice {
            let _ = writeln!(text, "1. {}", prose(advice));
        }
    }
    for (subject, command) in context
        .query_options
        .as_ref()
        .map(|options| phrases::query_commands(report, finding, options))
        .unwrap_or_default()
    {
        let _ = write!(text, "\nQuery for the {subject}:\n\n{}", block(&command));
    }
    text.push_str("\n</details>\n");
    text
}

/// The part after the findings: counts, ignored and hidden findings, rules with an unknown verdict.
fn rest(report: &Report, context: &ReportContext<'_>) -> String {
    let mut text = format!("{}\n", prose(&phrases::counts(report, context.show_all)));
    for ignored in &report.ignored {
        let _ = write!(
            text,
            "\n- ignored {}: {} ({})",
            prose(&ignored.code),
            prose(&ignored.reason),
            prose(&ignored.at)
        );
    }
    if !report.ignored.is_empty() {
        text.push('\n');
    }
    let infos = |f: &&Finding| f.is_note() || f.severity == Severity::Info;
    let hidden: Vec<&Finding> =
        report.findings.iter().filter(infos).filter(|_| !context.show_all).collect();
    if !hidden.is_empty() {
        text.push_str("\n<details><summary>Info findings and notes</summary>\n\n");
        for finding in hidden {
            let (tag, title) = (prose(&phrases::tag(finding)), prose(&finding.title));
            let _ = writeln!(text, "- {tag}: {title}");
        }
        text.push_str("\n</details>\n");
    }
    let unknown = phrases::unknown_by_reason(report);
    if !unknown.is_empty() {
        text.push_str("\n<details><summary>Rules with an unknown verdict</summary>\n\n");
        for (codes, reason) in unknown {
            let _ = writeln!(text, "- {}: {}", prose(&codes), prose(reason));
        }
        text.push_str("\n</details>\n");
    }
    text
}

/// Text outside of code. Text between backticks becomes code; everything else is escaped.
fn prose(text: &str) -> String {
    let text = sanitize(text);
    let parts: Vec<&str> = text.split('`').collect();
    let mut safe = String::new();
    for (i, part) in parts.iter().enumerate() {
        // The last part is prose even if its backtick is never closed.
        let is_code = i % 2 == 1 && i + 1 < parts.len();
        if is_code {
            safe.push_str(&code(part));
        } else {
            if i % 2 == 1 {
                safe.push_str("&#96;");
            }
            escape(part, &mut safe);
        }
    }
    safe
}

/// A name as code.
fn code(text: &str) -> String {
    let mut safe = "<code>".to_owned();
    escape(&sanitize(text), &mut safe);
    safe.push_str("</code>");
    safe
}

/// Replaces characters that Markdown or HTML could interpret by their numbers. Characters that turn what follows
/// into a link are also separated from it by a zero-width space. Most punctuation inside of words is harmless
/// and kept.
fn escape(text: &str, safe: &mut String) {
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_marker = match c {
            '<' => {
                safe.push_str("&lt;");
                before = c;
                continue;
            }
            '>' => {
                safe.push_str("&gt;");
                before = c;
                continue;
            }
            // Addresses and `:emoji:`.
            ':' => !(next == ' ' || next.is_ascii_digit()),
            '_' => !(before.is_alphanumeric() && next.is_alphanumeric()),
            // Addresses without a scheme.
            '.' => before.eq_ignore_ascii_case(&'w'),
            // Lists and horizontal rules, at the start.
            '-' | '=' | '+' => safe.is_empty(),
            c => c.is_ascii_punctuation() && !",;()%/'?".contains(c),
        };
        if is_marker {
            let _ = write!(safe, "&#{};", u32::from(c));
        } else {
            safe.push(c);
        }
        if matches!(c, '@' | '#') && next.is_alphanumeric() {
            safe.push('\u{200b}');
        }
        before = c;
    }
}

/// Text as a code block, with a fence longer than any run of backticks in the text.
fn block(text: &str) -> String {
    let text = sanitize_lines(text);
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{text}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::{block, code, prose};

    #[test]
    fn prose_and_code_escape_markup() {
        assert_eq!(prose("a `num_workers=4` b"), "a <code>num_workers=4</code> b");
        assert_eq!(prose("<b>|*x*"), "&lt;b&gt;&#124;&#42;x&#42;");
        assert_eq!(prose("half `open"), "half &#96;open");
        assert_eq!(prose("@team #12"), "&#64;\u{200b}team &#35;\u{200b}12");
        assert_eq!(prose("https://x.y www.z"), "https&#58;//x.y www&#46;z");
        assert_eq!(prose("one: aten::mm __x__"), "one: aten&#58;&#58;mm &#95;&#95;x&#95;&#95;");
        assert_eq!(code("a`b"), "<code>a&#96;b</code>");
        assert_eq!(prose("33.1 %, 2.35 ms/step (1)"), "33.1 %, 2.35 ms/step (1)");
        assert!(block("a ``` b").starts_with("````sh\n"));
    }
}
