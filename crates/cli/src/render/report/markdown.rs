//! Markdown for pull request comments: the answer first, then the findings that matter most, the rest folded.
//!
//! With a baseline, the findings that are new or worse come first, then those that are gone.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{BaselineState, Finding, Plan, Severity};

use super::context::ReportContext;
use super::phrases;
use super::tree::tree;
use crate::render::markup::markdown::{
    bar, block, block_of, cell, cell_code, code, folded, head, html, prose, row, unfolded,
};

/// Number of findings that are not folded.
const MAX_OPEN: usize = 5;
/// Number of folded findings with details; the size of a comment is limited.
const MAX_FOLDED: usize = 20;

/// The sections of all runs.
pub(super) fn comment(reports: &[Report], context: &ReportContext<'_>) -> String {
    let sections: Vec<String> = reports.iter().map(|r| section(r, context)).collect();
    sections.join("\n---\n\n")
}

fn section(report: &Report, context: &ReportContext<'_>) -> String {
    let mut text = format!(
        "### Trace Advisor: {}\n\n**{}**\n\n{}\n",
        code(&report.run.path),
        prose(&report.headline.text),
        prose(&phrases::run_summary(&report.run))
    );
    if let Some(recording) = phrases::recording(report) {
        let _ = write!(text, "\n{}\n", prose(&recording));
    }
    if let Some(instructions) = phrases::instructions(report) {
        let body = block_of(&instructions.language, instructions.code.trim_end());
        let title = format!("How to record it ({})", instructions.framework);
        let _ = write!(text, "\n{}", folded(&html(&title), &body));
    }
    if let Some(baseline) = &report.baseline {
        let _ = write!(text, "\n{}\n", prose(&phrases::baseline_counts(baseline)));
    }
    if let Some(plan) = report.plan.as_ref().filter(|plan| !plan.fixes.is_empty()) {
        text.push_str(&plan_table(plan));
    }
    let shown: Vec<&Finding> = context.shown(report).collect();
    let section = Findings { report, context, shown: &shown };
    if report.baseline.is_none() {
        section.write("Findings", "findings", &shown, &mut text);
    } else {
        let is_regression =
            |f: &&Finding| f.baseline_state.is_none_or(BaselineState::is_regression);
        let (first, rest): (Vec<&Finding>, Vec<&Finding>) =
            shown.iter().copied().partition(is_regression);
        if first.is_empty() {
            text.push_str("\n#### New and worse\n\nNo finding is new or worse.\n");
        }
        section.write("New and worse", "new or worse findings", &first, &mut text);
        text.push_str(&baseline_changes(report));
        section.write_folded("unchanged or better findings", &rest, &mut text);
    }
    text.push('\n');
    text.push_str(&rest(report, context));
    let command = phrases::check_command(report, &context.command_options);
    let _ = write!(text, "\nReproduce with {}\n", code(&command));
    text
}

/// What to fix in which order, and what a step then takes.
fn plan_table(plan: &Plan) -> String {
    let span = phrases::timed_span(plan);
    let whole = plan.unprofiled_ms.mid;
    let time = |ms: &trace_advisor::advisor::Range| {
        format!("{} {}", bar(ms.mid / whole), phrases::ms_range(ms))
    };
    let mut text = format!(
        "\n#### Plan\n\nPredicted by timing the recording again under each fix ({}). The first comes first because {}.\n\n{}",
        phrases::kind_of_ranges(&plan.measured),
        plan.first_reason,
        head(&[
            ("", false),
            ("fix", false),
            ("effort", false),
            ("saves", true),
            (&format!("a {span} takes"), false),
            ("limited by", false),
        ])
    );
    text.push_str(&row([
        "",
        "*none: as recorded, without the profiler*",
        "",
        "",
        &time(&plan.unprofiled_ms),
        phrases::limit(&plan.limit),
    ]));
    for fix in &plan.fixes {
        text.push_str(&row([
            fix.position.to_string(),
            cell(&format!("{} ({})", fix.title, fix.codes.join(", "))),
            fix.effort.as_str().to_owned(),
            phrases::percent_range(fix.saves_pct.low, fix.saves_pct.high),
            time(&fix.after_ms),
            phrases::limit(&fix.limit).to_owned(),
        ]));
    }
    text
}

/// The findings of a report, in sections.
struct Findings<'a> {
    report: &'a Report,
    context: &'a ReportContext<'a>,
    /// All that any section shows.
    shown: &'a [&'a Finding],
}

impl Findings<'_> {
    /// Writes a section of findings: the first ones open, the rest folded.
    fn write(&self, title: &str, noun: &str, findings: &[&Finding], text: &mut String) {
        let rows = tree(findings);
        let (open, rest) = rows.split_at(MAX_OPEN.min(rows.len()));
        if open.is_empty() {
            return;
        }
        let _ = write!(text, "\n#### {title}\n\n{}", self.table(open));
        for (_, finding) in open {
            let _ = write!(text, "\n{}", unfolded(&summary(finding), &self.details(finding)));
        }
        let rest: Vec<&Finding> = rest.iter().map(|(_, finding)| *finding).collect();
        self.write_folded(&format!("more {noun}"), &rest, text);
    }

    /// Writes findings that are folded as a whole.
    fn write_folded(&self, noun: &str, findings: &[&Finding], text: &mut String) {
        if findings.is_empty() {
            return;
        }
        let rows = tree(findings);
        let mut body = self.table(&rows);
        for (_, finding) in rows.iter().take(MAX_FOLDED) {
            let _ = write!(body, "\n{}", folded(&summary(finding), &self.details(finding)));
        }
        if rows.len() > MAX_FOLDED {
            let _ = write!(
                body,
                "\nDetails of {MAX_FOLDED} of these {} findings only; `advisor check` prints all.\n",
                rows.len()
            );
        }
        let count = findings.len();
        let noun = if count == 1 { noun.trim_end_matches('s') } else { noun };
        let _ = write!(text, "\n{}", folded(&format!("{count} {noun}"), &body));
    }

    fn table(&self, rows: &[(usize, &Finding)]) -> String {
        let has_states = self.report.baseline.is_some();
        let mut columns = vec![("", false), ("finding", false), ("saves", false), ("where", false)];
        if has_states {
            columns.insert(1, ("since the baseline", false));
        }
        let mut text = head(&columns);
        for (depth, finding) in rows {
            let indent =
                if *depth > 0 { format!("{}↳ ", "&emsp;".repeat(*depth)) } else { String::new() };
            let mut cells = vec![
                severity(finding),
                format!("{indent}{} {}", self.link(finding), cell(&finding.title)),
                cell(&phrases::gain_beside(finding, self.shown)),
                finding.source.first().map(|line| cell_code(line)).unwrap_or_default(),
            ];
            if has_states {
                let state = finding.baseline_state.map(BaselineState::as_str);
                cells.insert(1, state.unwrap_or_default().to_owned());
            }
            text.push_str(&row(cells));
        }
        text
    }

    /// The code of a finding, with a link to the file of a built-in rule.
    fn link(&self, finding: &Finding) -> String {
        let rule = phrases::find_rule(self.context.rules, &finding.code);
        match rule.and_then(phrases::docs_url) {
            Some(url) => format!("[{}]({url})", cell(&finding.code)),
            None => cell(&finding.code),
        }
    }

    fn details(&self, finding: &Finding) -> String {
        let mut text = body(finding);
        let options = self.context.query_options.as_deref();
        let queries = options.map(|options| phrases::query_commands(self.report, finding, options));
        for (subject, command) in queries.unwrap_or_default() {
            let _ = write!(text, "\nQuery for the {subject}:\n\n{}", block(&command));
        }
        text
    }
}

/// The body of a finding, below its title.
pub(crate) fn body(finding: &Finding) -> String {
    let mut text = format!("{}\n\n", prose(&finding.message));
    let mut item = |label: &str, value: &str| {
        let _ = writeln!(text, "- **{label}**: {value}");
    };
    item("where", &prose(&phrases::affected(finding, 3)));
    if !finding.source.is_empty() {
        let lines: Vec<String> = finding.source.iter().map(|line| code(line)).collect();
        item("source", &lines.join(", "));
    }
    if let Some(seen) = phrases::occurrences(finding) {
        item("seen", &prose(&seen));
    }
    for fix in phrases::fixes(finding, &mut phrases::DescribedFixes::default()) {
        item("fix", &prose(&fix));
    }
    let notes = [phrases::confidence_note(finding), phrases::related_findings(finding)];
    for note in notes.into_iter().flatten() {
        item("note", &prose(&note));
    }
    if !finding.advice.is_empty() {
        text.push_str("\nWhat to do:\n\n");
        for advice in &finding.advice {
            let _ = writeln!(text, "1. {}", prose(advice));
        }
    }
    text
}

/// The line of a finding that stays when its details are folded.
pub(crate) fn summary(finding: &Finding) -> String {
    format!(
        "{} <b>{}</b>: {}",
        severity(finding),
        html(&phrases::tag(finding)),
        html(&finding.title)
    )
}

/// The severity with an icon: `🔴 high`.
fn severity(finding: &Finding) -> String {
    let icon = match finding.severity {
        _ if finding.is_note() => "📝",
        Severity::Critical => "🟣",
        Severity::High => "🔴",
        Severity::Medium => "🟡",
        Severity::Low => "🔵",
        Severity::Info => "⚪",
    };
    format!("{icon} {}", phrases::severity_label(finding))
}

/// Findings of the baseline that are gone, and those without a verdict now.
fn baseline_changes(report: &Report) -> String {
    let changes = report.baseline.as_ref().map(phrases::baseline_changes).unwrap_or_default();
    let sections = [
        ("gone", "Fixed", "✅"),
        ("undetermined", "Undetermined", "❔"),
        ("not evaluated before", "New, but not evaluated before", "❔"),
    ];
    let mut text = String::new();
    for (label, title, icon) in sections {
        let lines: Vec<&String> =
            changes.iter().filter(|(of, _)| *of == label).map(|(_, line)| line).collect();
        if lines.is_empty() {
            continue;
        }
        let _ = write!(text, "\n#### {title}\n\n");
        for line in lines {
            let _ = writeln!(text, "- {icon} {}", prose(line));
        }
    }
    text
}

/// The part after the findings: counts, ignored and hidden findings, rules with an unknown verdict.
fn rest(report: &Report, context: &ReportContext<'_>) -> String {
    let mut text = format!("{}\n", prose(&phrases::counts(report, context.show_all)));
    let infos = |f: &&Finding| f.is_note() || f.severity == Severity::Info;
    let hidden = report.findings.iter().filter(infos).filter(|_| !context.show_all);
    let hidden = hidden.map(|f| {
        let state = f.baseline_state.map(|s| format!("{}: ", s.as_str())).unwrap_or_default();
        format!("{state}{}: {}", phrases::tag(f), f.title)
    });
    let hidden = hidden.collect();
    let ignored = report.ignored.iter();
    let ignored =
        ignored.map(|i| format!("{} {}: {} ({})", i.code, i.name, i.reason, i.at)).collect();
    let unknown = phrases::unknown_by_reason(report);
    let unknown = unknown.iter().map(|(codes, reason)| format!("{codes}: {reason}")).collect();
    let lists: [(&str, Vec<String>); 4] = [
        ("Info findings and notes", hidden),
        ("Ignored findings", ignored),
        ("Findings below the minimum gain", phrases::below_min_gain(report)),
        ("Rules with an unknown verdict", unknown),
    ];
    for (title, lines) in lists {
        if !lines.is_empty() {
            let lines: Vec<String> =
                lines.iter().map(|line| format!("- {}", prose(line))).collect();
            let _ = write!(text, "\n{}", folded(title, &lines.join("\n")));
        }
    }
    text
}
