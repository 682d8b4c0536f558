//! JUnit XML: suites of test cases.

use std::fmt::Write as _;

use crate::render::sanitize::sanitize;

use super::xml::{xml_escaped, xml_text};

/// The test cases of one run or comparison.
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
    /// What the suite says as a whole, in lines.
    pub(crate) output: Vec<String>,
}

/// A test case.
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// The outcome of a test case.
pub(crate) enum Outcome {
    /// With what there is to say, in lines.
    Passed(Vec<String>),
    Failed {
        kind: String,
        message: String,
        details: Vec<String>,
    },
    /// With the reason.
    Skipped(String),
}

impl Suite {
    fn count(&self, is: fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.outcome)).count()
    }

    fn failures(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed { .. }))
    }

    fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
    }
}

/// The document of all suites. `name` is the command.
pub(crate) fn document(name: &str, suites: &[Suite]) -> String {
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
        sum(|s| s.cases.len()),
        sum(Suite::failures),
        sum(Suite::skipped)
    );
    for suite in suites {
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">",
            xml_text(&suite.name),
            suite.cases.len(),
            suite.failures(),
            suite.skipped()
        );
        for case in &suite.cases {
            write_case(case, &mut text);
        }
        if !suite.output.is_empty() {
            let _ = writeln!(text, "    <system-out>{}</system-out>", content(&suite.output));
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn write_case(case: &Case, text: &mut String) {
    let (class, name) = (xml_text(&case.class), xml_text(&case.name));
    let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{name}\"");
    let _ = match &case.outcome {
        Outcome::Passed(output) if output.is_empty() => return text.push_str("/>\n"),
        Outcome::Passed(output) => {
            write!(text, ">\n      <system-out>{}</system-out>", content(output))
        }
        Outcome::Failed { kind, message, details } => write!(
            text,
            ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>",
            xml_text(kind),
            xml_text(message),
            content(details)
        ),
        Outcome::Skipped(reason) => {
            write!(text, ">\n      <skipped message=\"{}\"/>", xml_text(reason))
        }
    };
    text.push_str("\n    </testcase>\n");
}

/// Lines between tags.
fn content(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| sanitize(line)).collect();
    xml_escaped(&lines.join("\n"))
}
