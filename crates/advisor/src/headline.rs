//! The report in one sentence: the findings, and what a step takes with all fixes.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::number::plural;
use trace_model::time::human;

use crate::breakdown::Breakdown;
use crate::expr::decimals;
use crate::finding::{Finding, Range, round4};
use crate::plan::{Plan, TimedSpan};
use crate::recording::{Recording, RecordingKind};
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

/// The parts of a report that its headline sums up.
pub(crate) struct HeadlineInput<'a> {
    /// Sorted.
    pub(crate) findings: &'a [Finding],
    pub(crate) plan: Option<&'a Plan>,
    pub(crate) breakdown: Option<&'a Breakdown>,
    pub(crate) recording: Option<&'a Recording>,
    /// Recorded step time of the slowest rank.
    pub(crate) step_ns: Option<f64>,
    /// Numbers of rules that passed, and without a verdict.
    pub(crate) passed: usize,
    pub(crate) unknown: usize,
    /// True if at least one rule about time has a verdict.
    pub(crate) is_judged: bool,
}

pub(crate) fn headline(input: &HeadlineInput<'_>) -> Headline {
    let HeadlineInput { findings, plan, breakdown, recording, step_ns, .. } = *input;
    let HeadlineInput { passed, unknown, is_judged, .. } = *input;
    let counted: Vec<&Finding> = findings.iter().filter(|f| counts(f)).collect();
    let first = counted.first();
    let saving = plan.and_then(|plan| Some((plan, plan.after_ms()?)));
    let limit = recording.filter(|recording| recording.kind.is_severe()).map(|r| r.kind);
    // What the program does is not known then, or start-up only.
    let idle = breakdown.filter(|_| limit.is_none()).and_then(mostly_idle);
    let text = match first {
        _ if limit.is_some() => of_severe_limit(limit, &counted, is_judged),
        None if !is_judged => {
            format!("Nothing could be judged: {} no verdict.", rules_have(unknown))
        }
        None if unknown > 0 => {
            format!("Nothing to report, but {} no verdict.", rules_have(unknown))
        }
        None => match passed {
            1 => "Nothing to report: the rule passed.".to_owned(),
            passed => format!("Nothing to report: all {passed} rules passed."),
        },
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
    let text = idle.map_or(text.clone(), |idle| format!("{idle} {text}"));
    let saving = saving.filter(|_| first.is_some());
    let of_step = |plan: &&Plan| plan.timed == TimedSpan::Step;
    let saved_pct = |plan: &Plan, ms: f64| round4(100.0 * (1.0 - ms / plan.unprofiled_ms.mid));
    Headline {
        text,
        findings: counted.len(),
        first: first.map(|f| f.code.clone()),
        gain_low_pct: saving.map(|(plan, after)| saved_pct(plan, after.high).max(0.0)),
        gain_high_pct: saving.map(|(plan, after)| saved_pct(plan, after.low)),
        step_ms: plan
            .filter(of_step)
            .map(|plan| round4(plan.recorded_ms))
            .or(step_ns.map(|ns| round4(trace_model::time::ns_to_ms(ns)))),
        unprofiled_step_ms: plan.filter(of_step).map(|plan| plan.unprofiled_ms),
        predicted_step_ms: saving.filter(|(plan, _)| of_step(plan)).map(|(_, after)| after),
        speedup: saving.map(|(plan, after)| round4(plan.unprofiled_ms.mid / after.mid)),
    }
}

/// The sentence for a recording that hardly shows what the program does.
fn of_severe_limit(limit: Option<RecordingKind>, findings: &[&Finding], is_judged: bool) -> String {
    let again = match limit {
        Some(RecordingKind::OtherTool) => {
            return "No rule applies to traces of other tools.".to_owned();
        }
        Some(RecordingKind::NoProfilerTrace) => "record a profile",
        _ => "record it again",
    };
    match findings {
        [] if is_judged => format!("Nothing to report from such a recording: {again}."),
        [] => format!("Nothing could be judged: {again}."),
        [first, ..] => {
            let count = plural(findings.len(), "finding");
            format!(
                "{count} from a recording that shows little, first {} {}: {again}.",
                first.code, first.name
            )
        }
    }
}

/// The sentence for a recording in which the GPU is almost never busy; `None` for other recordings.
fn mostly_idle(breakdown: &Breakdown) -> Option<String> {
    let busy = breakdown.parts.iter().filter(|part| part.is_busy).map(|part| part.ratio);
    let busy_pct = 100.0 * busy.sum::<f64>();
    (busy_pct < MOSTLY_IDLE_PCT).then(|| {
        let busy = decimals(busy_pct.max(0.0), 1);
        format!("This recording is mostly idle: the GPU is busy for {busy} % of the time.")
    })
}

/// A device that is busy for less than this percentage of its window is called mostly idle.
const MOSTLY_IDLE_PCT: f64 = 10.0;

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

/// `1 rule has`, `12 rules have`.
fn rules_have(count: usize) -> String {
    if count == 1 { "1 rule has".to_owned() } else { format!("{count} rules have") }
}
