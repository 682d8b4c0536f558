//! Annotations for GitHub Actions: workflow commands, one per line.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Severity};

use super::context::ReportContext;
use super::phrases;
use crate::render::sanitize::sanitize;

/// One annotation per finding that formats for people show, at its source line if that is known, and one with
/// the headline of each run.
pub(super) fn annotations(reports: &[Report], context: &ReportContext<'_>) -> String {
    let mut text = String::new();
    for report in reports {
        for finding in context.shown(report) {
            text.push_str(&annotation(finding));
        }
        let title = property(&format!("Trace Advisor: {}", report.run.path));
        let _ = writeln!(text, "::notice title={title}::{}", data(&report.headline.text));
    }
    text
}

fn annotation(finding: &Finding) -> String {
    let command = match finding.severity {
        _ if finding.is_note() => "notice",
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Info => "notice",
    };
    let mut properties = Vec::new();
    if let Some(source) = finding.source.first() {
        let (file, line) = phrases::split_location(source);
        properties.push(format!("file={}", property(file)));
        properties.extend(line.map(|line| format!("line={line}")));
    }
    properties.push(format!(
        "title={}",
        property(&format!("{}: {}", phrases::tag(finding), finding.title))
    ));
    let mut lines = vec![finding.message.clone(), phrases::affected(finding, 3)];
    let gain = phrases::gain(finding);
    if !gain.is_empty() {
        lines.push(format!("saves {gain}"));
    }
    lines.extend(finding.advice.iter().map(|advice| format!("help: {advice}")));
    let lines: Vec<String> = lines.iter().map(|line| data(line)).collect();
    format!("::{command} {}::{}\n", properties.join(","), lines.join("%0A"))
}

/// The text of a message: on one line, and without escapes other than ours.
fn data(text: &str) -> String {
    sanitize(text).replace('%', "%25")
}

/// The value of a property, in which the characters that would end it are escaped.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn data_and_property_escape_what_ends_a_command() {
        assert_eq!(data("50 %\n::error::x"), "50 %25\\u{a}::error::x");
        assert_eq!(property("a,b: 1 %"), "a%2Cb%3A 1 %25");
    }
}
