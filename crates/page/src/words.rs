//! Small phrases of the page; those that it shares with other formats are in `advisor::phrases`.

use trace_advisor::advisor::phrases;
use trace_advisor::compare::owner_phrase;
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::value;

/// `12.3 %` of a ratio.
pub(crate) fn percent(ratio: f64) -> String {
    value(ratio, Unit::Ratio)
}

/// The text with numbers that no line break separates from their units.
pub(crate) fn unbroken(text: &str) -> String {
    let mut pieces = text.split(' ');
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let unit = piece.trim_end_matches(['.', ',', ';', ':', ')']);
        let is_unit = ["%", "ns", "us", "ms", "s", "KiB", "MiB", "GiB", "TiB"].contains(&unit);
        let follows_number = joined.ends_with(|last: char| last.is_ascii_digit());
        joined.push(if is_unit && follows_number { '\u{a0}' } else { ' ' });
        joined.push_str(piece);
    }
    joined
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
        "frames" => return Some(stack(value)),
        "user_frame" => return Some(function_first(value)),
        "phase" | "delay_phase" | "origin" | "bound" => value,
        _ => return None,
    };
    Some(words.replace('_', " "))
}

/// A call stack: `forward linear.py:125 < forward model.py:17`, without the frames that recorded it.
fn stack(stack: &str) -> String {
    let frames = stack.split(" < ").filter(|text| !is_unwinder(text)).map(frame);
    frames.collect::<Vec<_>>().join(" < ")
}

/// A frame of a stack, whose file is named without its folders: `forward linear.py:125`.
pub(crate) fn frame(text: &str) -> String {
    match place_and_function(text) {
        Some((place, function)) => {
            format!("{function} {}", place.rsplit(['/', '\\']).next().unwrap_or(place))
        }
        None => text.to_owned(),
    }
}

/// As [`frame`], with the folders of the file.
fn function_first(text: &str) -> String {
    place_and_function(text)
        .map_or_else(|| text.to_owned(), |(place, function)| format!("{function} {place}"))
}

/// The parts of `/opt/x/linear.py:125 forward`; `None` of a frame without a line.
fn place_and_function(frame: &str) -> Option<(&str, &str)> {
    let ends_in_line = |place: &str| {
        let line = place.rsplit_once(':').map(|(_, line)| line);
        line.is_some_and(|line| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()))
    };
    let ends = frame.match_indices(' ').map(|(at, _)| frame.split_at(at));
    let (place, function) = ends.into_iter().find(|(place, _)| ends_in_line(place))?;
    Some((place, function.trim_start())).filter(|(_, function)| !function.is_empty())
}

/// Returns true if a native frame belongs to the code that recorded the stack.
pub(crate) fn is_unwinder(frame: &str) -> bool {
    frame.contains("torch::unwind::") || frame.contains("CapturedTraceback")
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
    use super::{frame, unbroken, value_in_words};

    #[test]
    fn numbers_stay_with_their_units() {
        assert_eq!(
            unbroken("175 ms -> 126 ms (-28.0 %; 5 steps) in s"),
            "175\u{a0}ms -> 126\u{a0}ms (-28.0\u{a0}%; 5 steps) in s"
        );
    }

    #[test]
    fn stacks_name_functions_then_files_without_folders() {
        let stack = r"/opt/x/torch/nn/modules/linear.py:125 forward < C:\work\model.py:17 forward < at::_ops::div::call(x)";
        assert_eq!(
            value_in_words("frames", stack).as_deref(),
            Some("forward linear.py:125 < forward model.py:17 < at::_ops::div::call(x)")
        );
        assert_eq!(
            value_in_words("frames", "torch::unwind::unwind() < /a b/c.py:3 <module>").as_deref(),
            Some("<module> c.py:3")
        );
        assert_eq!(
            value_in_words("user_frame", "/a/c.py:3 step").as_deref(),
            Some("step /a/c.py:3")
        );
        assert_eq!(frame("stack not recorded"), "stack not recorded");
    }
}
