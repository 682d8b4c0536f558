//! Small phrases of the page; those that it shares with other formats are in `advisor::phrases`.

use trace_advisor::advisor::phrases;
use trace_advisor::compare::owner_phrase;
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

/// A value of a column whose values are names of ours: `op_dispatch` of `cause`. `None` for other columns.
pub(crate) fn value_in_words(column: &str, value: &str) -> Option<String> {
    let words = match column {
        "cause" => idle_cause(value),
        "bound_by" => phrases::limit(value),
        "stored_in" => table(value),
        "owner" => return Some(owner_phrase(value)),
        "frames" => return Some(without_folders(value)),
        "phase" | "delay_phase" | "origin" | "bound" => value,
        _ => return None,
    };
    Some(words.replace('_', " "))
}

/// A call stack whose files are named without their folders: `linear.py:125 forward < model.py:17 forward`.
fn without_folders(stack: &str) -> String {
    let frame = |frame: &str| {
        let (path, function) = frame.split_at(frame.find(' ').unwrap_or(frame.len()));
        format!("{}{function}", path.rsplit(['/', '\\']).next().unwrap_or(path))
    };
    stack.split(" < ").map(frame).collect::<Vec<_>>().join(" < ")
}

/// A cause of an idle gap, see the view `idle_gap_causes`.
fn idle_cause(cause: &str) -> &str {
    match cause {
        "python" => "Python",
        "op_dispatch" => "operator before the launch",
        "cpu_compute" => "CPU operator",
        "startup" => "start-up",
        "launch_api" => "launch call",
        "copy_api" => "copy call",
        "dependency" => "gap between kernels",
        "other_stream" => "waits for another stream",
        "collective" => "waits for a collective",
        "unlinked" => "unknown: launch not recorded",
        "graph_replay" => "unknown: kernels of a graph not recorded",
        "unrecorded_work" => "unknown: earlier work not recorded",
        "recording_end" => "end of the recording",
        "no_host_events" => "unknown: host not recorded",
        other => other,
    }
}

/// Returns the noun for a row of a table.
fn table(name: &str) -> &str {
    match name {
        "cpu_ops" => "operator",
        "annotations" => "range",
        "python_frames" => "Python function",
        "runtime_calls" => "call",
        "kernels" => "kernel",
        "memcpys" => "copy",
        "memsets" => "fill",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::value_in_words;

    #[test]
    fn stacks_name_files_without_folders() {
        let stack = r"/opt/x/torch/nn/modules/linear.py:125 forward < C:\work\model.py:17 forward < at::_ops::div::call(x)";
        assert_eq!(
            value_in_words("frames", stack).as_deref(),
            Some("linear.py:125 forward < model.py:17 forward < at::_ops::div::call(x)")
        );
    }
}
