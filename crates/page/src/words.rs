//! Small phrases of the page; those that it shares with other formats are in `advisor::phrases`.

use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::value;

/// `12.3 %` of a ratio.
pub(crate) fn percent(ratio: f64) -> String {
    value(ratio, Unit::Ratio)
}

/// The text with a capital first letter and a period.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let text = format!("{first}{}", chars.as_str());
    if text.ends_with(['.', '!', '?']) || text.is_empty() { text } else { format!("{text}.") }
}
