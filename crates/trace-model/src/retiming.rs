//! Fixes as edits of a recording, and the step times that re-timing the recording under them gives.
//!
//! `advisor` states the request, `analyses` answers it.

use serde::{Deserialize, Serialize};

/// A request to time a run again under fixes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetimingRequest {
    /// The fixes, in an order that ties are broken by.
    pub fixes: Vec<FixEdits>,
    /// Ranks to time again; all ranks if empty.
    pub ranks: Vec<i64>,
    /// Duration of a step without the profiler, if the user states it or the recorder timed it.
    pub step_time_ns: Option<i64>,
    /// The scale of prediction errors.
    pub error: PredictionError,
    /// Positions in the range of each edit for which [`FixEffect::curve_pct`] is computed.
    pub curve_positions: Vec<f64>,
}

/// A fix: what it changes in the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct FixEdits {
    /// Name of the fix.
    pub name: String,
    /// The changes.
    pub edits: Vec<Edit>,
    /// Factor of the gain in the choice of the next fix of the plan, 0 to 1.
    pub weight: f64,
    /// Whether the fix surely has an effect; if not, the lower end of its interval is none.
    pub is_certain: bool,
    /// Names of fixes that it is an alternative to.
    pub instead_of: Vec<String>,
    /// Where in the ranges of the edits the effect is expected, and how far predictions are off.
    pub effect: FittedEffect,
}

/// The effect of a fix, fitted on measured pairs of recordings.
///
/// A prediction of the share that is left of a step, `left`, is off by a score times the scale
/// `sqrt(base^2 + (of_saving * ln(left))^2 + (of_range * h)^2)` in `ln(left)`, where `h` is half the difference of `ln(left)` between
/// the positions `position - 0.5` and `position + 0.5`. See [`PredictionError`] for the three constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FittedEffect {
    /// Expected position in the range of [`Edit::left`]: 0 is the lower end, where the fix saves most, and 1 the upper end.
    pub position: f64,
    /// The scores between which the measured savings of four of five fixes lie; the first one is negative.
    pub scores: [f64; 2],
}

impl FittedEffect {
    /// The position half a range before the expected one, where the fix saves more, the expected one, and the one half a range
    /// after it.
    pub fn positions(self) -> [f64; 3] {
        [self.position - 0.5, self.position, self.position + 0.5]
    }
}

impl Default for FittedEffect {
    fn default() -> Self {
        Self { position: 0.5, scores: [-1.0, 1.0] }
    }
}

/// The constants of the scale of prediction errors, see [`FittedEffect`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictionError {
    /// Error of any prediction.
    pub base: f64,
    /// Error in proportion to what is saved.
    pub of_saving: f64,
    /// Error in proportion to the ranges of the edits.
    pub of_range: f64,
}

impl PredictionError {
    /// The scale of the error of a prediction: `log_left` is the logarithm of the share that is left of a step, and `log_half_range`
    /// half the difference that the range of the effect makes to it.
    pub fn scale(self, log_left: f64, log_half_range: f64) -> f64 {
        self.model_scale(log_left).hypot(self.of_range * log_half_range)
    }

    /// The logarithm of the share that is left where the fix saves most, the expected one, and the one where it saves least: four of
    /// five measured savings lie between the first and the last.
    pub fn log_left_interval(
        self,
        effect: FittedEffect,
        log_left: f64,
        log_half_range: f64,
    ) -> [f64; 3] {
        let scale = self.scale(log_left, log_half_range);
        let [more, less] = effect.scores;
        [log_left + more * scale, log_left, log_left + less * scale]
    }

    /// The most that fixes save whose evidence takes `evidence_pct` percent of a step. Measured fixes also saved time that their
    /// recordings do not show as theirs: the logarithm of what is left was up to 15 % larger.
    pub fn margin_pct(evidence_pct: f64) -> f64 {
        100.0 * (1.0 - (1.0 - evidence_pct.clamp(0.0, 100.0) / 100.0).powf(1.15))
    }

    /// The part of the scale that does not come from the ranges of the edits.
    pub fn model_scale(self, log_left: f64) -> f64 {
        self.base.hypot(self.of_saving * log_left)
    }
}

impl Default for PredictionError {
    fn default() -> Self {
        Self { base: 0.02, of_saving: 0.2, of_range: 0.5 }
    }
}

/// One change of the recording.
///
/// A query of device activities may return NULL in `left_low_ns` or `left_high_ns`: what the fix leaves of such an activity is
/// unknown, and a column `unknown` says why. It may return `least_ns`, see [`Edit::least`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// The part of the recording that changes.
    pub target: EditTarget,
    /// Share of the time that is left: the lower and the upper end of an 80 % interval, up to [`Edit::MAX_LEFT`]. Columns
    /// of the query take its place: `left_low_ns` and `left_high_ns` of activities, `left_low` and `left_high` of host
    /// time.
    pub left: [f64; 2],
    /// Least share of the time that the limits of the hardware allow, even if the fix saves more than it claims. Columns of the
    /// query override it: `least_ns` of activities, `least` of host time.
    pub least: Option<f64>,
    /// Share that is left of the device activities launched in the host time; they stay as they are if `None`.
    pub launched: Option<[f64; 2]>,
    /// The time moves to this many other threads, which work at the same time.
    pub workers: Option<u32>,
    /// Factor of the time that the work takes there: the ends of an 80 % interval.
    pub slowdown: [f64; 2],
}

impl Edit {
    /// A fix may also add time: this many times what there was, at most.
    pub const MAX_LEFT: f64 = 4.0;
}

/// The part of a recording that an edit changes. Queries return `rank` and the columns named here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EditTarget {
    /// Durations of device activities: `event_id`.
    Device(String),
    /// Time of host threads: `thread`, `ts_ns`, `dur_ns`. Where nothing may be left, calls no longer wait for the device.
    Host(String),
    /// All time of the host in these classes: `operator`, `runtime_call`, `python`, `annotation`, `gap`.
    HostTime(Vec<String>),
    /// Host calls that no longer wait for the device: `event_id`.
    Waits(String),
    /// Device activities that other streams no longer wait for: `event_id`.
    StreamWaits(String),
    /// Gaps between device activities and those before them on their streams: `event_id`.
    StreamGaps(String),
    /// Ranks that take as long as the others.
    Ranks(String),
}

impl EditTarget {
    /// The query, if there is one.
    pub fn query(&self) -> Option<&str> {
        match self {
            Self::Device(sql)
            | Self::Host(sql)
            | Self::Waits(sql)
            | Self::StreamWaits(sql)
            | Self::StreamGaps(sql)
            | Self::Ranks(sql) => Some(sql),
            Self::HostTime(_) => None,
        }
    }
}

/// An 80 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Estimate.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
}

/// The times of a run under fixes. Times are those of a step of the slowest rank; of the analyzed window if the run has
/// no steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Retiming {
    /// Ranks that were timed again.
    pub ranks: Vec<i64>,
    /// Steps of the rank with the fewest; 0 if times are those of the window.
    pub step_count: usize,
    /// Time as recorded, in ns.
    pub recorded_ns: f64,
    /// Time without the profiler, in ns.
    pub unprofiled_ns: Interval,
    /// Time of the host that recording adds in a step, in ns.
    pub overhead_ns: f64,
    /// The class of time that takes most of the critical path now.
    pub limit: PathLimit,
    /// All fixes: first those of the plan in order, then those that save nothing after them.
    pub fixes: Vec<FixEffect>,
}

/// What one fix saves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FixEffect {
    /// Name of the fix.
    pub name: String,
    /// Percent of the unprofiled time that it saves alone, limited to the evidence: the percent of the recorded time that the fix
    /// may shorten.
    pub alone_pct: Interval,
    /// Percent of the unprofiled time that it saves after the fixes before it, limited in the same way.
    pub next_pct: Interval,
    /// Time with this fix and all before it, in ns.
    pub step_ns: Interval,
    /// The class of time that then takes most of the critical path.
    pub limit: PathLimit,
    /// Whether it is part of the plan.
    pub is_planned: bool,
    /// Percent of the unprofiled time that it saves alone if its effect lies at each of the positions of the request.
    #[serde(default)]
    pub curve_pct: Vec<f64>,
    /// Its evidence: percent of a step that passes in what it may shorten, and in the waiting that re-timing shows to follow.
    #[serde(default)]
    pub evidence_pct: f64,
    /// Percent of the unprofiled time that it can save at most: its evidence with [`PredictionError::margin_pct`], and no more than
    /// what the devices leave.
    #[serde(default)]
    pub most_pct: f64,
    /// Time that the fix does not shorten itself, but also takes from the critical path: the kind with most of it.
    #[serde(default)]
    pub following: Option<FollowingTime>,
    /// Why the saving is unknown; the intervals are then zero, and mean nothing.
    pub unknown: Option<UnknownEffect>,
}

/// Time that a fix takes from the critical path without shortening it: it passes beside other work then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowingTime {
    /// Its kind, as in [`PathLimit::bound_by`].
    pub kind: String,
    /// Percent of the unprofiled time.
    pub pct: f64,
}

/// Why the saving of a fix is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnknownEffect {
    /// The fact that is missing.
    pub reason: String,
    /// Percent of the recorded time for which the fact is missing: device activities that the fix would change.
    pub time_pct: f64,
}

/// The class of time that takes most of the critical path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathLimit {
    /// `kernel`, `host`, `communication`, `copy`, `data_loading`, `workers`, ...
    pub bound_by: String,
    /// Its share of the path.
    pub ratio: f64,
}
