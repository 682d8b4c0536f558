//! Workflow commands of GitHub Actions: one annotation per line.

use crate::render::sanitize::sanitize;

/// The kind of an annotation. GitHub shows ten of each kind per step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Warning,
    Notice,
}

/// An annotation with properties such as `title` and `file`, and the lines of its message.
pub(crate) fn annotation(kind: Kind, properties: &[(&str, &str)], message: &[String]) -> String {
    let kind = match kind {
        Kind::Error => "error",
        Kind::Warning => "warning",
        Kind::Notice => "notice",
    };
    let properties: Vec<String> =
        properties.iter().map(|(name, value)| format!("{name}={}", property(value))).collect();
    let lines: Vec<String> = message.iter().map(|line| data(line)).collect();
    format!("::{kind} {}::{}\n", properties.join(","), lines.join("%0A"))
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
