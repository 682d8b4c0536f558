//! Numbers and phrases of a report, in words.

use trace_advisor::advisor::{Affected, Confidence, Effort, Finding, Plan, Range, TimedSpan};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::{plural, thousands};
use trace_advisor::trace_model::time::{human, human_range};

/// A value with its unit, in three digits.
pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", without_zeros(&digits(value * 100.0))),
        Unit::Ns => human(value),
        Unit::Bytes => bytes(value),
        Unit::GbPerS => format!("{} GB/s", digits(value)),
        Unit::Count if value.fract() == 0.0 => thousands(value as i64),
        Unit::Count | Unit::Number | Unit::None => digits(value),
    }
}

/// `11.2 GiB`.
pub(crate) fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1024.0 {
            let number = if unit == "B" { format!("{value:.0}") } else { digits(value) };
            return format!("{number} {unit}");
        }
        value /= 1024.0;
    }
    format!("{} TiB", digits(value))
}

fn digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// `12.3 %` of a ratio.
pub(crate) fn percent(ratio: f64) -> String {
    value(ratio, Unit::Ratio)
}

/// `18.0 to 33.1 %`, `up to 33.1 %` if the lower end is nothing.
pub(crate) fn percent_range(low: f64, high: f64) -> String {
    let high_text = percent(high / 100.0);
    if low < 0.05 {
        return format!("up to {high_text}");
    }
    let low_text = percent(low / 100.0);
    if low_text == high_text {
        high_text
    } else {
        format!("{} to {high_text}", low_text.trim_end_matches(" %"))
    }
}

/// `30.1 to 41.0 ms`.
pub(crate) fn ms_range(range: &Range) -> String {
    human_range(range.low * 1e6, range.high * 1e6)
}

/// What a fix of the finding saves, `18.0 to 33.1 %`; empty without an estimate.
pub(crate) fn gain(finding: &Finding) -> String {
    let gain = &finding.gain;
    let high = gain.high_pct.filter(|pct| *pct >= 0.05);
    high.map(|high| percent_range(gain.low_pct.unwrap_or(0.0), high)).unwrap_or_default()
}

/// The class of time that limits a step, in words.
pub(crate) fn limit(bound_by: &str) -> &str {
    match bound_by {
        "kernel" => "GPU kernels",
        "host" => "the host",
        "data_loading" => "data loading",
        "copy" => "copies",
        "launch_delay" => "launch latency",
        "kernel_kernel_delay" => "gaps between kernels",
        "sync" => "waits for the GPU",
        "workers" => "loader workers",
        other => other,
    }
}

/// The span of time that a plan predicts.
pub(crate) fn timed_span(plan: &Plan) -> &'static str {
    match plan.timed {
        TimedSpan::Step => "step",
        TimedSpan::Recording => "recording",
    }
}

/// `low effort`.
pub(crate) fn effort(effort: Effort) -> String {
    format!("{} effort", effort.as_str())
}

/// `2 of 8 ranks, over 5 steps`.
pub(crate) fn extent(affected: &Affected) -> String {
    let mut counts = Vec::new();
    if affected.of_ranks > 1 {
        counts.push(format!("{} of {} ranks", affected.ranks.len(), affected.of_ranks));
    }
    match (affected.steps, affected.of_steps) {
        (Some(steps), Some(of)) => counts.push(format!("{steps} of {}", plural(of, "step"))),
        (None, Some(of)) => counts.push(format!("over {}", plural(of, "step"))),
        _ => {}
    }
    counts.join(", ")
}

/// The confidence with its caveats; `None` if it is high and has none.
pub(crate) fn confidence(finding: &Finding) -> Option<String> {
    if finding.confidence == Confidence::High && finding.caveats.is_empty() {
        return None;
    }
    let mut text = format!("{} confidence", finding.confidence);
    if !finding.caveats.is_empty() {
        text.push_str(": ");
        text.push_str(&finding.caveats.join("; "));
    }
    Some(text)
}

/// `310..361 ms`, with enough digits to show the length of the range.
pub(crate) fn time_range(ts_ns: i64, dur_ns: i64) -> String {
    let end_ns = ts_ns.saturating_add(dur_ns);
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fits = units.into_iter().find(|(scale, _)| end_ns.unsigned_abs() >= *scale);
    let (scale, unit) = fits.unwrap_or((1, "ns"));
    let (mut digits, mut step) = (0, scale);
    while step > 1 && dur_ns.unsigned_abs() < 10 * step {
        step /= 10;
        digits += 1;
    }
    let time = |ns: i64| format!("{:.digits$}", ns as f64 / scale as f64);
    if dur_ns == 0 {
        return format!("{} {unit}", time(ts_ns));
    }
    format!("{}..{} {unit}", time(ts_ns), time(end_ns))
}

/// The text with a capital first letter and a period.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let text = format!("{first}{}", chars.as_str());
    if text.ends_with(['.', '!', '?']) || text.is_empty() { text } else { format!("{text}.") }
}
