//! The report in one sentence: the findings, and what a step takes with all fixes.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::time::human;

use crate::finding::{Finding, Range, round4};
use crate::plan::{Plan, TimedSpan};
use crate::severity::Severity;

/// The report in one sentence, and its numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// The sentence.
    pub text: String,
    /// Number of findings, without notes about the trace and infos.
    pub findings: usize,
    /// Code of the finding to start with; null if there is none.
    pub first: Option<String>,
    /// Percent of step time that all fixes of the plan save: the ends of an 80 % interval. Null without a plan.
    pub gain_low_pct: Option<f64>,
    /// The upper end.
    pub gain_high_pct: Option<f64>,
    /// Mean step time of the slowest rank as recorded, in milliseconds; null without steps.
    pub step_ms: Option<f64>,
    /// Step time without the profiler, in milliseconds; null without steps or without re-timing.
    pub unprofiled_step_ms: Option<Range>,
    /// Step time with all fixes, in milliseconds; null without steps, or if nothing is saved.
    pub predicted_step_ms: Option<Range>,
    /// Speedup of a step with all fixes; null if nothing is saved.
    pub speedup: Option<f64>,
}

/// Whether the finding counts: infos and notes do not.
fn counts(finding: &Finding) -> bool {
    finding.severity > Severity::Info && !finding.is_note
}

/// `step_ns`: recorded step time of the slowest rank.
pub(crate) fn headline(
    findings: &[Finding],
    plan: Option<&Plan>,
    step_ns: Option<f64>,
    unknown: usize,
) -> Headline {
    let counted: Vec<&Finding> = findings.iter().filter(|f| counts(f)).collect();
    let first = counted.first();
    let saving = plan.and_then(|plan| Some((plan, plan.after_ms()?)));
    let text = match first {
        None if unknown > 0 => {
            format!("Nothing to report, but {unknown} {} no verdict.", rules_have(unknown))
        }
        None => "Nothing to report: every rule has a verdict.".to_owned(),
        Some(first) => {
            let count = match counted.len() {
                1 => "1 finding".to_owned(),
                n => format!("{n} findings"),
            };
            let start = format!("start with {} {}", first.code, first.name);
            match saving {
                Some((plan, after)) => format!("{count}: {}; {start}.", prediction(plan, after)),
                None => {
                    format!("{count}, without a prediction of what fixing them saves: {start}.")
                }
            }
        }
    };
    let saving = saving.filter(|_| first.is_some());
    let of_step = |plan: &&Plan| plan.timed == TimedSpan::Step;
    let saved_pct = |plan: &Plan, ms: f64| round4(100.0 * (1.0 - ms / plan.unprofiled_ms.mid));
    Headline {
        text,
        findings: counted.len(),
        first: first.map(|f| f.code.clone()),
        gain_low_pct: saving.map(|(plan, after)| saved_pct(plan, after.high).max(0.0)),
        gain_high_pct: saving.map(|(plan, after)| saved_pct(plan, after.low)),
        step_ms: step_ns.map(|ns| round4(trace_model::time::ns_to_ms(ns))),
        unprofiled_step_ms: plan.filter(of_step).map(|plan| plan.unprofiled_ms),
        predicted_step_ms: saving.filter(|(plan, _)| of_step(plan)).map(|(_, after)| after),
        speedup: saving.map(|(plan, after)| round4(plan.unprofiled_ms.mid / after.mid)),
    }
}

/// `a step takes 155 ms (113 ms without the profiler) and could take 30 to 41 ms`.
fn prediction(plan: &Plan, after: Range) -> String {
    let subject = match plan.timed {
        TimedSpan::Step => "a step takes",
        TimedSpan::Recording => "the recorded work takes",
    };
    let now = human(plan.recorded_ms * 1e6);
    let slowed = plan.recorded_ms > 1.02 * plan.unprofiled_ms.mid;
    let unprofiled = if slowed {
        format!(" (about {} without the profiler)", human(plan.unprofiled_ms.mid * 1e6))
    } else {
        String::new()
    };
    format!("{subject} {now}{unprofiled} and could take {}", time_range(after))
}

/// `30.1 to 41.0 ms`; one number if both ends read the same.
fn time_range(range: Range) -> String {
    let (low, high) = (human(range.low * 1e6), human(range.high * 1e6));
    if low == high {
        return low;
    }
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn rules_have(count: usize) -> &'static str {
    if count == 1 { "rule has" } else { "rules have" }
}
