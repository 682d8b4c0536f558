//! The report in one sentence: the findings, and what a step takes with all fixes.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::number::plural;
use trace_model::time::{human, human_range};

use crate::language::expr::decimals;
use crate::language::rule::MEMORY;
use crate::language::severity::{GainMethod, Severity};
use crate::report::breakdown::{Breakdown, BreakdownPart, OUTSIDE_OPERATORS};
use crate::report::finding::{Finding, Range, round4};
use crate::report::plan::{Plan, PlannedFix, TimedSpan};
use crate::report::recording::RecordingKind;

/// The report in one sentence, and its numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// The sentence.
    pub text: String,
    /// Number of findings, without notes about the trace and infos.
    pub findings: usize,
    /// Code of the finding to start with, or, where no saving is predicted, to try first; of one that does other harm than to make
    /// steps longer, if that comes before. Null if there is none.
    pub first: Option<String>,
    /// How many fixes of the plan, from the first on, the predicted step is with: all, or, where the range of the whole plan
    /// spans more than a factor of two, those up to which it does not.
    pub predicted_fixes: usize,
    /// Percent of step time that these fixes save: the ends of an 80 % interval. Null without a plan.
    pub gain_low_pct: Option<f64>,
    /// The upper end.
    pub gain_high_pct: Option<f64>,
    /// Mean step time of the slowest rank as recorded, in milliseconds; null without steps.
    pub step_ms: Option<f64>,
    /// Step time without the profiler, in milliseconds; null without steps or without re-timing.
    pub unprofiled_step_ms: Option<Range>,
    /// Step time with these fixes, in milliseconds; null without steps, or if nothing is saved.
    pub predicted_step_ms: Option<Range>,
    /// Speedup of a step with these fixes; null if nothing is saved.
    pub speedup: Option<f64>,
}

/// `IN001 dataloader-wait`.
fn named(finding: &Finding) -> String {
    format!("{} {}", finding.code, finding.name)
}

/// Whether a finding comes before one that saves time, because it harms in another way.
fn is_urgent(finding: &Finding) -> bool {
    finding.severity >= Severity::High
}

/// What to do about a finding without a predicted saving: try a fix and measure.
fn attempt(finding: &Finding) -> String {
    if finding.has_harmful_fixes() {
        return format!(
            "without a predicted saving: the fix of {} takes longer here",
            named(finding)
        );
    }
    // The program may already use a fix that was not timed or changes nothing in the recording: the advice says more.
    let what = match finding.fixes.first() {
        Some(fix) => format!("\"{}\" ({})", fix.title, named(finding)),
        None => format!("what {} advises", named(finding)),
    };
    let measure = if finding.category == MEMORY { "compare the peaks" } else { "measure" };
    format!("without a predicted saving: try {what} and {measure} (`advisor diff`)")
}

/// Returns true if all findings that count are low and their fixes are predicted to save nothing.
fn is_healthy(counted: &[&Finding]) -> bool {
    let is_harmless = |finding: &&Finding| {
        finding.severity <= Severity::Low
            && !finding.fixes.is_empty()
            && finding.gain.unknown.is_none()
            && finding.unpredicted_pct <= 0.0
            && !finding.is_predicted()
    };
    counted.iter().all(is_harmless)
}

/// Returns true if a plan saves too little for the headline to state it.
fn saves_little(plan: &Plan, stated: &PlannedFix) -> bool {
    stated.after_ms.mid > (1.0 - MIN_SAVED_PCT / 100.0) * plan.unprofiled_ms.mid
}

/// Percent of the time that a plan must save for the headline to state it.
const MIN_SAVED_PCT: f64 = 1.0;

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
    /// The limit of a recording that shows too little of the program to predict gains.
    pub(crate) severe_limit: Option<RecordingKind>,
    /// Recorded step time of the slowest rank.
    pub(crate) step_ns: Option<f64>,
    /// Numbers of rules that passed, and without a verdict.
    pub(crate) passed: usize,
    pub(crate) unknown: usize,
    /// True if at least one rule about time has a verdict.
    pub(crate) is_judged: bool,
    /// True if the run holds memory snapshots alone: no time can be saved.
    pub(crate) shows_memory_only: bool,
    /// The peak of a memory snapshot, who holds most of it, and what would shrink it; without a full stop.
    pub(crate) memory_headline: Option<&'a str>,
    /// The sentence about what takes the time, as in the description of the recording.
    pub(crate) time_summary: Option<&'a str>,
}

pub(crate) fn headline(input: &HeadlineInput<'_>) -> Headline {
    let HeadlineInput {
        findings,
        plan,
        breakdown,
        severe_limit,
        step_ns,
        passed,
        unknown,
        is_judged,
        shows_memory_only,
        memory_headline,
        time_summary,
    } = *input;
    let counted: Vec<&Finding> = findings.iter().filter(|f| counts(f)).collect();
    let saving = plan.and_then(|plan| Some((plan, plan.stated()?)));
    // If the recording was timed again and no fix is in the plan, no fix saves enough to mention.
    let is_predicted = |f: &&&Finding| {
        f.is_predicted() && (saving.is_some() || f.gain.method == GainMethod::Measured)
    };
    let predicted = counted.iter().find(is_predicted);
    let is_tried = |f: &&&Finding| !f.has_harmful_fixes();
    // The finding about most of the time comes first even if its gain is unknown.
    let is_unknown = |f: &&&Finding| f.gain.unknown.is_some() || f.unpredicted_pct > 0.0;
    let unknown_gain = counted.first().filter(is_unknown);
    let first =
        unknown_gain.or(predicted).or_else(|| counted.iter().find(is_tried)).or(counted.first());
    // What the program does is not known then, or start-up only.
    let idle = breakdown.filter(|_| severe_limit.is_none()).and_then(mostly_idle);
    // A finding that is listed before the first one does other harm than to make steps longer.
    let harm = counted.first().zip(first).filter(|(f, first)| f.code != first.code && is_urgent(f));
    let harm = harm.map(|(harm, _)| harm);
    let text = match (severe_limit, first) {
        (Some(limit), _) => of_severe_limit(limit, &counted, is_judged),
        (None, None) if !is_judged => {
            "Nothing could be judged: no rule about time has a verdict.".to_owned()
        }
        (None, None) => match (unknown, passed) {
            (0, 1) => "Nothing to report: the rule passed.".to_owned(),
            (0, _) => "Nothing to report: all rules passed.".to_owned(),
            (1, _) => "Nothing to report, but one rule has no verdict.".to_owned(),
            (unknown, passed) => {
                let share = if unknown > passed { "most" } else { "some" };
                format!("Nothing to report, but {share} rules have no verdict.")
            }
        },
        // In a healthy run, the sentence about what takes the time is the answer.
        (None, Some(_)) if time_summary.is_some() && is_healthy(&counted) => {
            let count = plural(counted.len(), "low finding");
            format!("{count}, whose fixes are predicted to save nothing.")
        }
        (None, Some(first)) => {
            let count = plural(counted.len(), "finding");
            let start = format!("start with {}", named(first));
            let start = match harm {
                Some(harm) => format!("look at {}, then {start}", named(harm)),
                None => start,
            };
            match saving {
                Some((plan, stated)) if predicted.is_some() && saves_little(plan, stated) => {
                    format!(
                        "{count}: the fixes of the plan save less than 1 % of the time; {start}."
                    )
                }
                Some((plan, stated)) if predicted.is_some() => {
                    format!("{count}: {}; {start}.", prediction(plan, stated))
                }
                None if shows_memory_only => format!("{count} about memory: {start}."),
                _ if predicted.is_some() => {
                    format!("{count}, without a prediction of a whole step: {start}.")
                }
                _ => format!("{count}, {}.", attempt(first)),
            }
        }
    };
    let text = idle.map_or(text.clone(), |idle| format!("{idle} {text}"));
    let is_silent = severe_limit.is_none() && is_judged && is_healthy(&counted);
    let subject = match memory_headline {
        Some(memory) if shows_memory_only => Some(format!("{memory}.")),
        _ => time_summary.filter(|_| is_silent).map(str::to_owned),
    };
    let text = subject.map_or(text.clone(), |subject| format!("{subject} {text}"));
    let saving = saving.filter(|_| first.is_some());
    let of_step = |plan: &&Plan| plan.timed == TimedSpan::Step;
    let saved_pct = |plan: &Plan, ms: f64| round4(100.0 * (1.0 - ms / plan.unprofiled_ms.mid));
    let saved = saving.map(|(plan, fix)| match fix.position {
        1 => (fix.saves_pct.low, fix.saves_pct.high),
        _ => (saved_pct(plan, fix.after_ms.high), saved_pct(plan, fix.after_ms.low)),
    });
    Headline {
        text,
        findings: counted.len(),
        first: harm.or(first).map(|f| f.code.clone()),
        gain_low_pct: saved.map(|(low, _)| low.max(0.0)),
        gain_high_pct: saved.map(|(_, high)| high),
        predicted_fixes: saving.map_or(0, |(_, fix)| fix.position),
        step_ms: plan
            .filter(of_step)
            .map(|plan| round4(plan.recorded_ms))
            .or(step_ns.map(|ns| round4(trace_model::time::ns_to_ms(ns)))),
        unprofiled_step_ms: plan.filter(of_step).map(|plan| plan.unprofiled_ms),
        predicted_step_ms: saving.filter(|(plan, _)| of_step(plan)).map(|(_, fix)| fix.after_ms),
        speedup: saving.map(|(plan, fix)| round4(plan.unprofiled_ms.mid / fix.after_ms.mid)),
    }
}

/// The sentence for a recording that shows too little of the program to predict gains.
fn of_severe_limit(limit: RecordingKind, findings: &[&Finding], is_judged: bool) -> String {
    if limit == RecordingKind::OtherTool {
        return "No rule applies to traces of other tools.".to_owned();
    }
    let shows = match limit {
        RecordingKind::WarmUp => Some("start-up"),
        RecordingKind::ProfilerOverhead => Some("the profiler at work"),
        _ => None,
    };
    if let Some(shows) = shows {
        let findings = match findings {
            [] => String::new(),
            [first, ..] => {
                let count = plural(findings.len(), "finding");
                format!(" {count} without a predicted saving, first {} {}.", first.code, first.name)
            }
        };
        return format!(
            "Record again after warm-up: this recording shows mostly {shows}.{findings}"
        );
    }
    match findings {
        [] if is_judged => {
            "Record it again: this recording shows too little for a rule to judge.".to_owned()
        }
        [] => "Nothing could be judged: record it again.".to_owned(),
        [first, ..] => {
            let count = plural(findings.len(), "finding");
            format!(
                "Record it again: this recording shows too little to be sure. {count}, first {} {}.",
                first.code, first.name
            )
        }
    }
}

/// The sentence for a recording in which the GPU is almost never busy, or the host thread does nothing that has a name;
/// `None` for other recordings.
fn mostly_idle(breakdown: &Breakdown) -> Option<String> {
    let is_busy = |part: &&BreakdownPart| {
        if breakdown.is_of_host() { part.cause != OUTSIDE_OPERATORS } else { part.is_busy }
    };
    let busy_pct =
        100.0 * breakdown.parts.iter().filter(is_busy).map(|part| part.ratio).sum::<f64>();
    (busy_pct < MOSTLY_IDLE_PCT).then(|| {
        let busy = decimals(busy_pct.max(0.0), 1);
        let worker = if breakdown.is_of_host() { "operators run" } else { "the GPU is busy" };
        format!("This recording is mostly idle: {worker} for {busy} % of the time.")
    })
}

/// A device that is busy for less than this percentage of its window is called mostly idle.
const MOSTLY_IDLE_PCT: f64 = 10.0;

/// `a step takes 155 ms (104 to 122 ms without the profiler) and could take 30 to 41 ms`.
fn prediction(plan: &Plan, stated: &PlannedFix) -> String {
    let subject = match plan.timed {
        TimedSpan::Step => "a step takes",
        TimedSpan::Recording => "the recorded work takes",
    };
    let now = human(plan.recorded_ms * 1e6);
    let slowed = plan.recorded_ms > 1.02 * plan.unprofiled_ms.mid;
    let of_ms = |ms: Range| human_range(ms.low * 1e6, ms.high * 1e6);
    let unprofiled = if slowed {
        format!(" ({} without the profiler)", of_ms(plan.unprofiled_ms))
    } else {
        String::new()
    };
    let after = of_ms(stated.after_ms);
    format!("{subject} {now}{unprofiled} and could take {after}{}", plan.stated_fixes())
}
