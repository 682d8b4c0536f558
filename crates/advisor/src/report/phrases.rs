//! Phrases about reports and findings, for everything that shows them to people.

use trace_model::Unit;
use trace_model::number::{plural, thousands, value};
use trace_model::time::{human, human_range};

use crate::language::severity::Confidence;
use crate::report::finding::{Affected, Finding, FindingFix, Range, UnknownFix};
use crate::report::plan::{MeasuredPredictions, Plan, TimedSpan};
use crate::report::report::Run;

/// `2 ranks, 6 steps, 43.0 ms, 13,918 events; only ranks 0`.
pub fn run_summary(run: &Run) -> String {
    let ranks = plural(run.ranks.len(), "rank");
    let steps = if run.steps == 0 { "no steps".to_owned() } else { plural(run.steps, "step") };
    let wall = human(run.wall_ns as f64);
    let events = thousands(run.sources.iter().map(|s| s.events).sum::<u64>() as i64);
    let selection = match run.selection.as_str() {
        "" => String::new(),
        selection => format!("; only {selection}"),
    };
    format!("{ranks}, {steps}, {wall}, {events} events{selection}")
}

/// The steps of a mean, of all in the run: `mean of 5 of 6 steps`.
pub fn mean_of(counted: i64, all: usize) -> String {
    match usize::try_from(counted) {
        Ok(1) if all <= 1 => "1 step".to_owned(),
        Ok(counted) if counted < all => format!("mean of {counted} of {}", plural(all, "step")),
        _ => format!("mean of {counted} steps"),
    }
}

/// The gain without its milliseconds, `18.0 to 33.1 %`; empty without an estimate.
pub fn gain_share(finding: &Finding) -> String {
    let gain = &finding.gain;
    let high = gain.high_pct.filter(|pct| *pct >= 0.05);
    high.map(|high| percent_range(gain.low_pct.unwrap_or(0.0), high)).unwrap_or_default()
}

/// `18.0 to 33.1 %`, `up to 33.1 %` if the lower end is nothing.
pub fn percent_range(low: f64, high: f64) -> String {
    let high_text = value(high / 100.0, Unit::Ratio);
    if low < 0.05 {
        return format!("up to {high_text}");
    }
    let low_text = value(low / 100.0, Unit::Ratio);
    if low_text == high_text {
        high_text
    } else {
        format!("{} to {high_text}", low_text.trim_end_matches(" %"))
    }
}

/// What a fix saves alone: `18.0 to 33.1 %`, `nothing`, or, where it probably adds time, `probably slower, by 17.7 %`, and why.
pub fn fix_effect(fix: &FindingFix) -> String {
    match &fix.alone_pct {
        Range { mid, .. } if fix.alone_pct.is_slower() => {
            let why = fix.slower_because.as_deref().map(|why| format!(" ({why})"));
            format!(
                "probably slower, by {}{}",
                value(-mid / 100.0, Unit::Ratio),
                why.unwrap_or_default()
            )
        }
        Range { high, .. } if *high < 0.05 => "nothing".to_owned(),
        Range { low, high, .. } => percent_range(*low, *high),
    }
}

/// Why the saving of a fix is unknown: `what it saves is unknown: replayed kernels have no shapes`.
pub fn unknown_effect(fix: &UnknownFix) -> String {
    format!("what it saves is unknown: {}", fix.reason)
}

/// `30.1 to 41.0 ms`; one time if both ends read the same.
pub fn ms_range(range: &Range) -> String {
    human_range(range.low * 1e6, range.high * 1e6)
}

/// The class of time that limits a step, in words.
pub fn limit(bound_by: &str) -> &str {
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
pub fn timed_span(plan: &Plan) -> &'static str {
    match plan.timed {
        TimedSpan::Step => "step",
        TimedSpan::Recording => "recording",
    }
}

/// `2 of 8 ranks, over 5 steps`.
pub fn extent(affected: &Affected) -> String {
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

/// The confidence and its caveats, `medium confidence: the trace has few steps`; `None` if it is high and has none.
pub fn confidence_note(finding: &Finding) -> Option<String> {
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

/// The findings whose time includes that of this one, or is included in it.
pub fn related_findings(finding: &Finding) -> Option<String> {
    let gain = &finding.gain;
    if gain.contains.is_empty() {
        return gain.within.first().map(|parent| format!("part of {parent}"));
    }
    Some(format!("includes {}", gain.contains.join(", ")))
}

/// What the ranges of predictions are: 80 % intervals only where fixes were measured on such devices.
pub fn kind_of_ranges(measured: &MeasuredPredictions) -> String {
    if measured.is_calibrated() {
        return "80 % intervals".to_owned();
    }
    let on = measured.families.join(" and ");
    let here = measured.family.as_deref().map_or_else(
        || "the recording does not name the GPU".to_owned(),
        |family| format!("not on {family}"),
    );
    format!("ranges of fixes measured on {on}, {here}")
}
