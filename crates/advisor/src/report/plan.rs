//! The plan: what to fix in which order, and what a step then takes.

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::retiming::{FixEffect, Interval, PathLimit, Retiming};
use trace_model::time::ns_to_ms;

use crate::evaluation::effects::HeldCount;
use crate::language::fix::Fix;
use crate::language::ruleset::RuleSet;
use crate::language::severity::{Confidence, Effort, GainMethod, Severity};
use crate::report::finding::{Finding, FindingFix, FollowingTimePct, Range, UnknownFix, round4};

/// The order in which fixes bring most, from timing the recording again under each.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// The span that times are of: a step, or the whole recording if it has no steps.
    pub timed: TimedSpan,
    /// Time as recorded, in ms; of the slowest rank.
    pub recorded_ms: f64,
    /// Time without the profiler, in ms.
    pub unprofiled_ms: Range,
    /// The class of time that takes most of the critical path: `kernel`, `host`, `data_loading`, ...
    pub limit: String,
    /// Its percent of the critical path.
    pub limit_pct: f64,
    /// The fixes in order.
    pub fixes: Vec<PlannedFix>,
    /// Why the first fix comes first, as half a sentence; empty without fixes.
    pub first_reason: String,
    /// The measured fixes behind the ranges of this plan.
    pub measured: MeasuredPredictions,
}

/// The measured fixes that say how far predictions are off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MeasuredPredictions {
    /// Generation of the devices of the run: `Hopper`; `CPU` without a device. Null if the recording does not say.
    pub family: Option<String>,
    /// Predictions for measured programs on devices of this generation, each by effects that were fitted without the program.
    pub on_family: HeldCount,
    /// The generations on which fixes were measured.
    pub families: Vec<String>,
}

impl MeasuredPredictions {
    pub(crate) fn new(rules: &RuleSet, family: Option<&str>) -> Self {
        let mut all = Self {
            family: family.map(str::to_owned),
            families: rules.prediction().families.clone(),
            ..Self::default()
        };
        for held in rules.fixes().iter().flat_map(|fix| &fix.held) {
            if family == Some(held.family.as_str()) {
                all.on_family += held.count;
            }
        }
        all
    }

    /// Whether fixes were measured on devices of this generation: ranges are then 80 % intervals.
    pub fn is_calibrated(&self) -> bool {
        self.on_family.of > 0
    }
}

/// The predictions of a fix on devices of a generation.
fn measured_on(fix: &Fix, family: Option<&str>) -> Option<HeldCount> {
    fix.held.iter().find(|held| Some(held.family.as_str()) == family).map(|held| held.count)
}

/// The span of time that a plan predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimedSpan {
    /// The mean step.
    Step,
    /// The whole recording.
    Recording,
}

/// One fix of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedFix {
    /// Position in the plan, from 1.
    pub position: usize,
    /// Name of the fix.
    pub fix: String,
    /// The action, in a few words.
    pub title: String,
    /// Effort.
    pub effort: Effort,
    /// Codes of the findings that it mends.
    pub codes: Vec<String>,
    /// Percent of the unprofiled time that it saves after the fixes before it.
    pub saves_pct: Range,
    /// Time after it, in ms.
    pub after_ms: Range,
    /// The class of time that then takes most of the critical path.
    pub limit: String,
    /// Its percent of the critical path.
    pub limit_pct: f64,
}

/// A rule measures all steps, and the longest run of steps is timed again: a gain up to this multiple of the share that the rule
/// measured is cut to that share: it covers other steps, or has the margin of its evidence. A larger gain includes other time that
/// the fix saves, which the report names.
const BASE_FACTOR: f64 = 1.2;

fn ms(interval: Interval) -> Range {
    Interval {
        low: ns_to_ms(interval.low),
        mid: ns_to_ms(interval.mid),
        high: ns_to_ms(interval.high),
    }
    .into()
}

/// A fix that saves nothing is listed if it lengthens the unprofiled time by at least this percentage.
const SLOWER_PCT: f64 = 0.5;

/// Whether fixes of the finding are part of the plan: notes and infos are not.
pub(crate) fn is_planned(finding: &Finding) -> bool {
    finding.severity > Severity::Info && !finding.is_note()
}

/// The weight of a fix whose findings are all doubtful.
const DOUBTFUL_WEIGHT: f64 = 0.001;

/// What the saving of a fix is weighed by in the choice of the next fix of the plan. A fix surely saves nothing if all its findings
/// were doubtful before notes about the trace lowered their confidence.
pub(crate) fn weight(fix: &Fix, findings: &[Finding]) -> Option<f64> {
    let own = || findings.iter().filter(|f| is_planned(f) && fix.rules.contains(&f.code));
    let confidence = own().map(|f| f.confidence).max()?;
    let is_doubtful = own().all(|f| f.own_confidence == Confidence::Low);
    Some(if is_doubtful { DOUBTFUL_WEIGHT } else { confidence.weight() * fix.effort.weight() })
}

/// Writes the effects of the fixes into the findings, and returns the plan. `is_detail` returns true for codes of rules that
/// detail another rule.
pub(crate) fn apply(
    findings: &mut [Finding],
    fixes: &[Fix],
    retiming: &Retiming,
    measured: MeasuredPredictions,
    is_detail: impl Fn(&str) -> bool,
) -> Plan {
    let is_step = retiming.step_count > 0;
    let family = measured.family.as_deref();
    let limit = |limit: &PathLimit| (limit.bound_by.clone(), round4(100.0 * limit.ratio));
    let mut planned: Vec<PlannedFix> = Vec::new();
    for finding in findings.iter_mut() {
        finding.fixes.clear();
        finding.unknown_fixes.clear();
    }
    for effect in &retiming.fixes {
        let Some(fix) = fixes.iter().find(|fix| fix.name == effect.name) else { continue };
        let position = effect.is_planned.then_some(planned.len() + 1);
        let mut codes = Vec::new();
        for code in &fix.rules {
            let Some(finding) = findings.iter_mut().find(|f| f.code == *code && is_planned(f))
            else {
                continue;
            };
            codes.push(code.clone());
            if let Some(unknown) = &effect.unknown {
                finding.unknown_fixes.push(UnknownFix {
                    fix: fix.name.clone(),
                    title: finding.title_of(fix),
                    effort: fix.effort,
                    reason: unknown.reason.clone(),
                    time_pct: round4(unknown.time_pct),
                });
                continue;
            }
            // A fix that changes nothing in the recording is left out. A fix that makes the run slower is listed.
            let saves_nothing = effect.alone_pct.high < 0.005 && effect.next_pct.high < 0.005;
            if saves_nothing && effect.alone_pct.mid > -SLOWER_PCT {
                continue;
            }
            finding.fixes.push(FindingFix {
                fix: fix.name.clone(),
                title: finding.title_of(fix),
                effort: fix.effort,
                alone_pct: effect.alone_pct.into(),
                next_pct: effect.next_pct.into(),
                plan_position: position,
                following: effect.following.as_ref().map(|time| FollowingTimePct {
                    kind: time.kind.clone(),
                    pct: round4(time.pct),
                }),
                shortens_pct: Some(round4(effect.evidence_pct)),
                measured: measured_on(fix, family),
                slower_because: fix
                    .slower_because
                    .clone()
                    .filter(|_| Range::from(effect.alone_pct).is_slower()),
            });
        }
        if let Some(position) = position {
            lead_with_largest_share(&mut codes, findings, &is_detail);
            let (limit, limit_pct) = limit(&effect.limit);
            let lead = codes.first().and_then(|code| findings.iter().find(|f| f.code == *code));
            planned.push(PlannedFix {
                position,
                fix: fix.name.clone(),
                title: lead.map_or_else(|| fix.title.clone(), |f| f.title_of(fix)),
                effort: fix.effort,
                codes,
                saves_pct: effect.next_pct.into(),
                after_ms: ms(effect.step_ns),
                limit,
                limit_pct,
            });
        }
    }
    for finding in findings.iter_mut() {
        set_gain(finding, &planned, retiming);
    }
    agree_with_findings(&mut planned, findings, retiming.unprofiled_ns);
    let (limit, limit_pct) = limit(&retiming.limit);
    Plan {
        timed: if is_step { TimedSpan::Step } else { TimedSpan::Recording },
        recorded_ms: round4(ns_to_ms(retiming.recorded_ns)),
        unprofiled_ms: ms(retiming.unprofiled_ns),
        limit,
        limit_pct,
        first_reason: first_reason(&planned, &retiming.fixes, fixes),
        fixes: planned,
        measured,
    }
}

/// Lets the first fix of the plan save what it saves alone by its findings, and the time after it follow from that: the ends of both
/// ranges belong together.
fn agree_with_findings(planned: &mut [PlannedFix], findings: &[Finding], unprofiled: Interval) {
    let Some((first, others)) = planned.split_first_mut() else { return };
    let of_first = |fix: &&FindingFix| fix.plan_position == Some(first.position);
    let alone = findings.iter().flat_map(|finding| &finding.fixes).filter(of_first);
    let Some(most_pct) = alone.map(|fix| fix.alone_pct.high).max_by(f64::total_cmp) else { return };
    let Range { low, mid, high } = first.saves_pct;
    let [low, mid, high] = [low, mid, high].map(|pct| pct.min(most_pct));
    first.saves_pct = Range { low, mid, high };
    let left = |ns: f64, saved_pct: f64| ns * (1.0 - saved_pct / 100.0);
    first.after_ms = ms(Interval {
        low: left(unprofiled.low, high),
        mid: left(unprofiled.mid, mid),
        high: left(unprofiled.high, low.max(0.0)),
    });
    let mut before = first.after_ms;
    for fix in others {
        fix.after_ms.low = fix.after_ms.low.min(before.low);
        fix.after_ms.mid = fix.after_ms.mid.min(before.mid);
        fix.after_ms.high = fix.after_ms.high.min(before.high);
        before = fix.after_ms;
    }
}

/// How many times the share of the most specific finding another one must take to come before it.
const LEADING_SHARE: f64 = 2.0;

/// Moves the findings of the category with the largest share of the time to the front: a fix that helps several findings
/// mostly serves the one that takes most time, as `torch.compile` serves kernels or launches. Within a category, findings
/// keep the order of the fix, most specific first, unless one of them takes [`LEADING_SHARE`] times the share of the first.
/// Findings of rules that detail another rule lead only findings of their category.
fn lead_with_largest_share(
    codes: &mut Vec<String>,
    findings: &[Finding],
    is_detail: impl Fn(&str) -> bool,
) {
    let finding = |code: &String| findings.iter().find(|f| f.code == *code);
    let share = |code: &String| finding(code).and_then(|f| f.gain.share_pct).unwrap_or(0.0);
    let largest = |codes: &mut dyn Iterator<Item = &String>| {
        codes.max_by(|a, b| share(a).total_cmp(&share(b))).cloned()
    };
    let cause = largest(&mut codes.iter().rev().filter(|code| !is_detail(code)));
    let Some(cause) = cause.or_else(|| largest(&mut codes.iter().rev())) else { return };
    let Some(category) = finding(&cause).map(|f| f.category.clone()) else { return };
    let is_of_category = |code: &String| finding(code).is_some_and(|f| f.category == category);
    let (mut lead, others): (Vec<String>, Vec<String>) =
        std::mem::take(codes).into_iter().partition(is_of_category);
    let largest = largest(&mut lead.iter().rev()).unwrap_or(cause);
    if share(&largest) >= LEADING_SHARE * share(&lead[0]) {
        lead.retain(|code| *code != largest);
        lead.insert(0, largest);
    }
    codes.extend(lead);
    codes.extend(others);
}

/// Sets the gain of a finding to the gain of its first fix in the plan. If several findings share that fix, the finding with
/// the largest share of the time takes the place in the order of findings.
fn set_gain(finding: &mut Finding, planned: &[PlannedFix], retiming: &Retiming) {
    finding.fixes.sort_by_key(|fix| fix.plan_position.unwrap_or(usize::MAX));
    let gain = &mut finding.gain;
    if let (Some(fix), Some(share_pct)) = (finding.fixes.first_mut(), gain.share_pct)
        && gain.method == GainMethod::Measured
        && (share_pct..=BASE_FACTOR * share_pct).contains(&fix.alone_pct.high)
    {
        let Range { low, mid, high } = fix.alone_pct;
        let [low, mid, high] = [low, mid, high].map(|pct| pct.min(share_pct));
        fix.alone_pct = Range { low, mid, high };
    }
    // Only a saving that the finding does not explain needs the time of the fix.
    let explained_pct = BASE_FACTOR * gain.share_pct.unwrap_or(f64::INFINITY);
    for fix in &mut finding.fixes {
        let saves_more = fix.alone_pct.high > explained_pct && fix.following.is_none();
        fix.shortens_pct = fix.shortens_pct.filter(|pct| saves_more && *pct > explained_pct);
    }
    // What a finding with low confidence names may not be there: its fix may save nothing. The fix itself is timed in the same way
    // whichever rules are evaluated.
    if finding.own_confidence == Confidence::Low {
        for fix in &mut finding.fixes {
            for range in [&mut fix.alone_pct, &mut fix.next_pct] {
                range.low = range.low.min(0.0);
            }
        }
    }
    let Some(fix) = finding.fixes.first() else {
        gain.promise_nothing();
        gain.unknown = finding.unknown_fixes.first().map(|fix| fix.reason.clone());
        return;
    };
    let expected_ns = retiming.unprofiled_ns.mid * fix.alone_pct.mid.max(0.0) / 100.0;
    // A fix that probably makes the run slower is promised nothing, even if it helps after others.
    let high_pct = if fix.alone_pct.mid < 0.0 { 0.0 } else { fix.alone_pct.high.max(0.0) };
    gain.low_pct = Some(fix.alone_pct.low.max(0.0));
    gain.high_pct = Some(high_pct);
    gain.next_low_pct = Some(fix.next_pct.low.max(0.0));
    gain.next_high_pct = Some(fix.next_pct.high.max(0.0));
    gain.ms_per_step = (retiming.step_count > 0).then(|| round4(ns_to_ms(expected_ns)));
    gain.method = GainMethod::Retimed;
    let takes_place = fix
        .plan_position
        .is_some_and(|position| planned[position - 1].codes.first() == Some(&finding.code));
    finding.plan_position = fix.plan_position.filter(|_| takes_place);
}

/// The largest ratio of the ends of a range that is worth stating for several fixes.
const MAX_STATED_SPAN: f64 = 2.0;

impl Plan {
    /// The fix up to which the plan is stated in one range: the last one; where the range after it spans more than a factor of
    /// two, the last one after which it does not, or the first. Once these fixes are applied, a new recording narrows the rest.
    pub fn stated(&self) -> Option<&PlannedFix> {
        let is_narrow = |fix: &&PlannedFix| fix.after_ms.high <= MAX_STATED_SPAN * fix.after_ms.low;
        self.fixes.iter().rev().find(is_narrow).or(self.fixes.first())
    }

    /// What follows a range that is not of the whole plan: ` with the first 2 fixes of the plan`.
    pub fn stated_fixes(&self) -> String {
        match self.stated() {
            Some(stated) if stated.position < self.fixes.len() => match stated.position {
                1 => " with the first fix of the plan".to_owned(),
                count => format!(" with the first {count} fixes of the plan"),
            },
            _ => String::new(),
        }
    }
}

/// Why the first fix of the plan is the first, as half a sentence: by its least saving, effort, and confidence.
fn first_reason(planned: &[PlannedFix], fixes: &[FixEffect], all: &[Fix]) -> String {
    let Some(first) = planned.first() else { return String::new() };
    let least = |effect: &&FixEffect| effect.alone_pct.low;
    let known = fixes.iter().filter(|effect| effect.unknown.is_none());
    let largest = known.rev().max_by(|a, b| least(a).total_cmp(&least(b)));
    let own = fixes.iter().find(|effect| effect.name == first.fix);
    let (Some(largest), Some(own)) = (largest, own) else { return String::new() };
    let other = all.iter().find(|fix| fix.name == largest.name);
    match other {
        Some(other) if least(&largest) > least(&own) => {
            let reason =
                if other.effort > first.effort { "is more work" } else { "is less certain" };
            format!("it saves most for its effort; \"{}\" may save more, but {reason}", other.title)
        }
        _ => "it saves most for certain".to_owned(),
    }
}
