//! Times runs again under fixes: each fix alone, each after those before it, and all together.

use std::collections::{BTreeMap, BTreeSet};

use query::rust_view::Result;
use query::{Session, both, per_item, view_error};
use trace_model::RecordBatch;
use trace_model::retiming::{
    FixEdits, FixEffect, FollowingTime, Interval, PathLimit, PredictionError, Retiming,
    RetimingRequest, UnknownEffect,
};

use super::edits::{EdgeIndex, EffectLevel, RankClaims};
use super::graph::{EdgeKind, Graph};
use super::input::{LoadedRanks, RankTrace};
use super::memo::Memo;
use super::model::{RankEvents, TimeClass};
use super::overhead::{HostOverhead, OverheadLevel};
use super::replay::{Weights, path_classes, replay};
use super::what_if::StepClock;

/// Time between two kernels of a stream that were both launched in time, if the recording has no shorter one.
const STREAM_GAP_NS: i64 = 1_000;

/// A prediction that is larger than its evidence is lowered to it; the lower end of its interval is at least this share lower.
const CLIPPED_RATIO: f64 = 0.15;

/// Samples of the effects of a plan: they are timed in batches, until the interval of the step changes by less than
/// [`MAX_CHANGE_RATIO`] of a step.
const SAMPLE_BATCH: usize = 8;
const MAX_BATCHES: usize = 2;
const MAX_CHANGE_RATIO: f64 = 0.01;

/// Device work takes up to one part in twenty longer while it is recorded: `gpt` of the fitted pairs.
const FLOOR_RATIO: f64 = 0.95;

/// A fix that saves less than this share of a step after those before it is not part of the plan.
const MIN_PLANNED_RATIO: f64 = 0.005;

/// A fix that is expected to save this share of a step is part of the plan, even if it may save nothing and others that come
/// before it for that reason save next to nothing.
const MIN_UNSURE_RATIO: f64 = 0.05;

/// Time of another kind that follows from a fix is named from this percentage of the critical path on.
const MIN_FOLLOWING_PCT: f64 = 1.0;

/// If the effect of a fix is unknown for a larger share of the device time that it targets, its saving is unknown.
const MAX_UNKNOWN_RATIO: f64 = 0.25;

/// A run that was timed again.
#[derive(Debug)]
pub struct Retimed {
    /// The outcome.
    pub retiming: Retiming,
    /// Names of fixes that were left out, because the query of an edit failed.
    pub left_out: Vec<(String, query::Error)>,
}

/// First launches, start-up and the profiler's own work take time that a fix cannot save. Compiling has fixes.
const WARM_UP: &str =
    "SELECT rank, thread, ts_ns, end_ns FROM host_warmups WHERE kind <> 'compiling'";

/// The queries of [`retime`], besides those of edits.
pub fn retiming_queries() -> impl Iterator<Item = &'static str> {
    super::INPUTS.iter().map(|(_, sql)| *sql).chain([WARM_UP])
}

/// Ranks that are ready to be timed again, under any fixes.
#[derive(Debug)]
pub struct RetimingRanks {
    ranks: Vec<RankModel>,
    /// Rows of [`WARM_UP`].
    warm_up: RecordBatch,
}

/// The graph of a rank, as it was recorded and without the profiler.
#[derive(Debug)]
struct RankModel {
    events: RankEvents,
    graph: Graph,
    clock: StepClock,
    overhead: HostOverhead,
    recorded: Weights,
    /// Without the profiler: lower end, estimate and upper end of its overhead.
    unprofiled: [Weights; 3],
    /// Steps in the window.
    window_step_count: usize,
    /// Indexes of the device activities by device and start.
    activities_by_start: Vec<u32>,
}

impl RetimingRanks {
    /// Reads ranks of the run of `session`; all of them if `ranks` is empty.
    ///
    /// # Errors
    /// If a view fails.
    pub fn load(session: &Session, ranks: &[i64]) -> query::Result<Self> {
        let loaded = session.compute(super::INPUTS, ranks, LoadedRanks::new)?;
        let warm_up = session.rows_of_ranks(WARM_UP, ranks)?;
        Ok(Self { ranks: per_item(loaded.ranks, RankModel::new), warm_up })
    }
}

impl RankModel {
    fn new(rank: RankTrace) -> Self {
        let graph = rank.graph();
        let events = rank.events;
        let clock = || StepClock::new(&graph, &events);
        let (clock, overhead) = both(clock, || HostOverhead::new(&graph, &events));
        let mut recorded = Weights::recorded(&graph);
        recorded.keep_stream_gaps(&graph, STREAM_GAP_NS);
        let level = |position| OverheadLevel { position, ..OverheadLevel::EXPECTED };
        let unprofiled = [0, 1, 2].map(|position| overhead.without(&recorded, level(position)));
        let window_step_count = clock.window_step_count();
        let mut activities_by_start: Vec<u32> = (0..events.activities.len() as u32).collect();
        activities_by_start.sort_unstable_by_key(|&at| {
            let activity = &events.activities[at as usize];
            (activity.device, activity.ts_ns)
        });
        Self {
            events,
            graph,
            clock,
            overhead,
            recorded,
            unprofiled,
            window_step_count,
            activities_by_start,
        }
    }

    /// Returns the edges that each fix changes.
    fn claims(
        &self,
        request: &RetimingRequest,
        rows: &[Vec<Option<RecordBatch>>],
        warm_up: &RecordBatch,
    ) -> Result<Vec<RankClaims>> {
        let index = EdgeIndex::new(&self.graph, &self.events);
        let warm_up = index.warm_up(&self.events, warm_up)?;
        let fixes: Vec<_> = request.fixes.iter().zip(rows).collect();
        let claims = per_item(fixes, |(fix, rows)| {
            let mut claims = index.claims(&self.events, fix, rows)?;
            claims.leave_out(&warm_up);
            Ok(claims)
        });
        claims.into_iter().collect()
    }
}

/// Times the run of `session` again. `ranks` returns the ranks of the request; it runs beside the queries of edits.
///
/// # Errors
/// If a view fails, the query of an edit lacks a column, or an edit names an unknown class of host time.
pub fn retime(
    session: &Session,
    request: &RetimingRequest,
    ranks: impl FnOnce() -> query::Result<RetimingRanks>,
) -> query::Result<Retimed> {
    let fix_rows = |fix: &FixEdits| {
        let edits = fix.edits.iter();
        edits
            .map(|edit| {
                let sql = edit.target.query();
                sql.map(|sql| session.rule_rows_of_ranks(sql, &request.ranks)).transpose()
            })
            .collect::<query::Result<Vec<_>>>()
    };
    let (rows, loaded) = both(|| per_item(request.fixes.iter().collect(), fix_rows), ranks);
    let loaded = loaded?;
    let mut request = request.clone();
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (fix, rows) in std::mem::take(&mut request.fixes).into_iter().zip(rows) {
        match rows {
            Ok(rows) => {
                request.fixes.push(fix);
                kept.push(rows);
            }
            Err(query::Error::Canceled) => return Err(query::Error::Canceled),
            Err(error) => left_out.push((fix.name, error)),
        }
    }
    let retimed = session.compute(&[], &[], |_| retime_ranks(loaded, &request, &kept));
    Ok(Retimed { retiming: retimed?, left_out })
}

/// A rank, and the edges that each fix changes.
struct RankReplay {
    model: RankModel,
    claims: Vec<RankClaims>,
}

/// One assumption about the profiler's overhead and the effect of the last of several fixes; the others have the expected effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Assumption {
    effect: EffectLevel,
    overhead: usize,
}

impl Assumption {
    const EXPECTED: Self = Self { effect: EffectLevel::Expected, overhead: 1 };
    const MOST: Self = Self { effect: EffectLevel::Most, overhead: 1 };
    const LEAST: Self = Self { effect: EffectLevel::Least, overhead: 1 };
}

/// One assumption about everything that is uncertain in a plan.
#[derive(Debug, Clone)]
struct Sample {
    overhead: usize,
    /// Position of the effect of each fix.
    positions: Vec<f64>,
    /// Factor of the step: what the model does not describe.
    error: f64,
}

impl RankReplay {
    /// Mean step, or the window without steps.
    fn step_ns(&self, weights: &Weights) -> f64 {
        let replay = replay(&self.model.graph, weights);
        self.model
            .clock
            .mean(|node| replay.times[node as usize])
            .unwrap_or((replay.end_ns - self.model.graph.window.begin_ns) as f64)
    }

    fn weights(&self, fixes: &[usize], assumption: Assumption) -> Weights {
        let base = &self.model.unprofiled[assumption.overhead];
        let mut weights = base.clone();
        for (at, &fix) in fixes.iter().enumerate() {
            let is_last = at + 1 == fixes.len();
            let effect = if is_last { assumption.effect } else { EffectLevel::Expected };
            self.claims[fix].apply(base, &mut weights, effect);
        }
        weights
    }

    /// The least time of a step under fixes: what is left of its device activities, whatever the host does.
    fn floor_ns(&self, fixes: &[usize]) -> f64 {
        let base = &self.model.unprofiled[1];
        let mut weights = base.clone();
        for &fix in fixes {
            self.claims[fix].apply(base, &mut weights, EffectLevel::Most);
        }
        for (at, edge) in self.model.graph.edges.iter().enumerate() {
            if edge.class.host_kind().is_some() || edge.class == TimeClass::DataLoading {
                weights.set_edge(at, 0);
            }
        }
        self.step_ns(&weights)
    }

    /// The most that fixes can save after others, as a share of a step: all time that they may shorten. The profiler lengthens host
    /// time and hides device time behind it, so the larger of the shares with and without the profiler counts.
    fn evidence_ratio(&self, before: &[usize], fixes: &[usize]) -> f64 {
        let kernels_ns = self.kept_work_ns(before.iter().chain(fixes));
        let saved_ratio = |base: &Weights| {
            let step_ns = self.step_ns(base);
            let mut weights = base.clone();
            for &fix in before {
                self.claims[fix].apply(base, &mut weights, EffectLevel::Expected);
            }
            let before_ns = self.step_ns(&weights);
            for &fix in fixes {
                self.claims[fix].take_out(base, &mut weights);
            }
            (before_ns - self.step_ns(&weights).max(kernels_ns)) / step_ns.max(1.0)
        };
        let [.., shortest] = &self.model.unprofiled;
        saved_ratio(&self.model.recorded).max(saved_ratio(shortest)).max(0.0)
    }

    /// Time of a step in which a device works on what none of these fixes shortens; of the device with most. Whatever else gets
    /// faster, kernels take their time one after the other; copies and collectives may move behind them where a fix removes waits.
    fn kept_work_ns<'f>(&self, fixes: impl Iterator<Item = &'f usize>) -> f64 {
        let events = &self.model.events;
        let mut is_shortened = vec![false; events.activities.len()];
        let mut removes_waits = false;
        for &fix in fixes {
            removes_waits |= self.claims[fix].removes_waits();
            for edge in self.claims[fix].shortened() {
                let edge = &self.model.graph.edges[edge];
                if matches!(edge.kind, EdgeKind::Activity | EdgeKind::Crowded) {
                    is_shortened[edge.subject as usize] = true;
                }
            }
        }
        let window = &self.model.graph.window;
        let (begin_ns, end_ns) =
            (self.model.clock.devices_begin_ns(&self.model.graph), window.end_ns);
        let within = |ns: i64| ns.clamp(begin_ns, end_ns.max(begin_ns));
        let mut busy_ns: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
        for &at in &self.model.activities_by_start {
            let activity = &events.activities[at as usize];
            let is_kept = !is_shortened[at as usize]
                && (activity.class == TimeClass::Kernel || !removes_waits);
            if !is_kept {
                continue;
            }
            let (begin_ns, end_ns) = (within(activity.ts_ns), within(activity.end_ns));
            let (sum_ns, until_ns) = busy_ns.entry(activity.device).or_insert((0, i64::MIN));
            *sum_ns += (end_ns - begin_ns.max(*until_ns)).max(0);
            *until_ns = end_ns.max(*until_ns);
        }
        let busy_ns = busy_ns.values().map(|(sum_ns, _)| *sum_ns).max().unwrap_or(0);
        busy_ns as f64 / (end_ns - begin_ns).max(1) as f64 * self.step_ns(&self.model.recorded)
    }

    /// The least time that the hardware needs for a step under fixes; 0 where no limit is known.
    fn least_ns(&self, fixes: &[usize]) -> f64 {
        let claims: Vec<&RankClaims> = fixes.iter().map(|&fix| &self.claims[fix]).collect();
        let least = RankClaims::least(&claims, &self.model.unprofiled[1]);
        least.map_or(0.0, |weights| self.step_ns(&weights))
    }

    /// A step under fixes whose effects lie at these positions in the ranges of their edits.
    fn step_ns_at(&self, fixes: &[usize], positions: &[f64], overhead: usize) -> f64 {
        let base = &self.model.unprofiled[overhead];
        let mut weights = base.clone();
        let mut workers_ns = 0.0_f64;
        for (&fix, &position) in fixes.iter().zip(positions) {
            self.claims[fix].apply_at(base, &mut weights, position);
            workers_ns = workers_ns.max(self.claims[fix].workers_ns_at(position));
        }
        self.step_ns(&weights).max(workers_ns / self.model.window_step_count.max(1) as f64)
    }

    /// Time that the threads to which fixes move host time need for a step.
    fn workers_ns(&self, fixes: &[usize], level: EffectLevel) -> f64 {
        let of_fix = |(at, &fix): (usize, &usize)| {
            let is_last = at + 1 == fixes.len();
            self.claims[fix].workers_ns(if is_last { level } else { EffectLevel::Expected })
        };
        let all: f64 = fixes.iter().enumerate().map(of_fix).fold(0.0, f64::max);
        all / self.model.window_step_count.max(1) as f64
    }

    /// Time on the critical path under fixes, by what limits it.
    fn path_limits(&self, fixes: &[usize]) -> Vec<(&'static str, i64)> {
        let weights = self.weights(fixes, Assumption::EXPECTED);
        let replay = replay(&self.model.graph, &weights);
        let classes = path_classes(&self.model.graph, &weights, &replay);
        let mut by_limit: Vec<(&str, i64)> = Vec::new();
        for class in TimeClass::ALL {
            let name = class.bound_by();
            match by_limit.iter_mut().find(|(known, _)| *known == name) {
                Some((_, ns)) => *ns += classes[class as usize],
                None => by_limit.push((name, classes[class as usize])),
            }
        }
        by_limit
    }

    /// The limits that the edges which this fix may shorten belong to, as in [`PathLimit::bound_by`].
    fn claimed_limits(&self, fix: usize) -> BTreeSet<&'static str> {
        let edges = &self.model.graph.edges;
        self.claims[fix].shortened().map(|at| edges[at].class.bound_by()).collect()
    }

    /// The time of another kind that a fix also takes from the critical path, in percent of it, if that is at least
    /// [`MIN_FOLLOWING_PCT`]: the kind with most.
    fn following(&self, fix: usize, before: &[(&str, i64)]) -> Option<FollowingTime> {
        let after = self.path_limits(&[fix]);
        let claimed = self.claimed_limits(fix);
        let sum: i64 = before.iter().map(|(_, ns)| ns).sum();
        let ns_after =
            |name: &str| after.iter().find(|(of, _)| *of == name).map_or(0, |(_, ns)| *ns);
        let others = before.iter().filter(|(name, _)| !claimed.contains(*name));
        let (name, ns) = others
            .map(|(name, ns)| (*name, ns - ns_after(name)))
            .rev()
            .max_by_key(|&(_, ns)| ns)?;
        let pct = 100.0 * ns as f64 / sum.max(1) as f64;
        (pct >= MIN_FOLLOWING_PCT).then(|| FollowingTime { kind: name.to_owned(), pct })
    }

    fn limit(&self, fixes: &[usize]) -> PathLimit {
        let by_limit = self.path_limits(fixes);
        let sum: i64 = by_limit.iter().map(|(_, ns)| ns).sum();
        let largest = by_limit.into_iter().rev().max_by_key(|&(_, ns)| ns);
        let (bound_by, ns) = largest.unwrap_or(("other", 0));
        PathLimit { bound_by: bound_by.to_owned(), ratio: ns as f64 / sum.max(1) as f64 }
    }
}

/// The score at a quantile of the distribution of prediction errors: logistic, with a tenth of it beyond each of `scores`.
fn score_at(quantile: f64, scores: [f64; 2]) -> f64 {
    let tenths = (quantile / (1.0 - quantile)).ln() / 9.0_f64.ln();
    if tenths < 0.0 { -tenths * scores[0] } else { tenths * scores[1] }
}

/// The `index`-th point of a sequence that fills the unit cube of `dimensions` evenly: multiples of powers of a number that has
/// no small fractions near it (Roberts' generalization of the golden ratio).
fn even_point(index: usize, dimensions: usize) -> Vec<f64> {
    let mut ratio = 2.0_f64;
    for _ in 0..32 {
        ratio = (1.0 + ratio).powf(1.0 / (dimensions as f64 + 1.0));
    }
    let step = |at: usize| ratio.powi(-(at as i32 + 1));
    (0..dimensions).map(|at| (0.5 + (index as f64 + 1.0) * step(at)).fract()).collect()
}

/// The value at a quantile of sorted values, interpolated.
fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    let at = quantile * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// What is saved, if the evidence takes `evidence` percent. An estimate above it becomes the evidence, and the upper end stays
/// below its margin.
fn at_most(saved: Interval, evidence: f64) -> Interval {
    let Interval { low, mid, high } = saved;
    let most = PredictionError::margin_pct(evidence);
    let low = if mid <= evidence { low } else { low.min(evidence * (1.0 - CLIPPED_RATIO)) };
    Interval { low, mid: mid.min(evidence), high: high.min(most) }
}

/// Returns true if a plan can contain only one of the two fixes.
fn excludes(one: &FixEdits, other: &FixEdits) -> bool {
    one.instead_of.contains(&other.name) || other.instead_of.contains(&one.name)
}

/// All ranks, of which the slowest sets the pace.
struct RunReplay {
    ranks: Vec<RankReplay>,
    /// Times of a step.
    steps_ns: Memo<(Vec<usize>, Assumption)>,
    /// The longest floor of a rank under fixes.
    floors_ns: Memo<Vec<usize>>,
    /// The longest time that the hardware needs under fixes.
    least_ns: Memo<Vec<usize>>,
}

impl RunReplay {
    fn step_ns(&self, fixes: &[usize], assumption: Assumption) -> f64 {
        // Without a fix, effects do not matter.
        let effect = if fixes.is_empty() { EffectLevel::Expected } else { assumption.effect };
        let assumption = Assumption { effect, ..assumption };
        let key = (fixes.to_vec(), assumption);
        self.steps_ns.get_or(key, || self.replayed_step_ns(fixes, assumption))
    }

    /// Times a step under all assumptions on all cores; [`Self::step_ns`] then knows the results. Returns what limits the
    /// step.
    fn time_in_advance(&self, fixes: &[usize]) -> PathLimit {
        let assumptions = vec![Assumption::EXPECTED, Assumption::MOST, Assumption::LEAST];
        let steps_ns = || per_item(assumptions, |assumption| self.step_ns(fixes, assumption));
        both(|| self.limit(fixes), steps_ns).0
    }

    fn replayed_step_ns(&self, fixes: &[usize], assumption: Assumption) -> f64 {
        let of_rank = |rank: &RankReplay| {
            let workers_ns = rank.workers_ns(fixes, assumption.effect);
            rank.step_ns(&rank.weights(fixes, assumption)).max(workers_ns)
        };
        self.pacing(fixes).map(of_rank).fold(0.0, f64::max)
    }

    /// The least time of a step under fixes: the larger of what the hardware needs, see [`RankReplay::least_ns`], and what is
    /// left for the devices, see [`RankReplay::floor_ns`], minus once more the time that the fixes take from them: a fix may
    /// save time that it does not claim.
    fn floor_ns(&self, fixes: &[usize]) -> f64 {
        let of_ranks = |fixes: &[usize]| {
            let longest_ns =
                || self.pacing(fixes).map(|rank| rank.floor_ns(fixes)).fold(0.0, f64::max);
            self.floors_ns.get_or(fixes.to_vec(), longest_ns)
        };
        let left_ns = of_ranks(fixes);
        let floor_ns = FLOOR_RATIO * (left_ns - (of_ranks(&[]) - left_ns).max(0.0)).max(0.0);
        floor_ns.max(self.least_ns(fixes))
    }

    fn least_ns(&self, fixes: &[usize]) -> f64 {
        let longest_ns = || self.pacing(fixes).map(|rank| rank.least_ns(fixes)).fold(0.0, f64::max);
        self.least_ns.get_or(fixes.to_vec(), longest_ns)
    }

    /// The most that fixes can save after others, in percent of a step. No prediction is larger than this evidence, although fixes may
    /// take other time with them. A rank that becomes as fast as
    /// the others may save more than they wait for it, but no error of the model is larger than a quarter of the estimate.
    fn evidence_pct(&self, before: &[usize], fixes: &[usize]) -> f64 {
        let after: Vec<usize> = before.iter().chain(fixes).copied().collect();
        if self.bring_ranks_up(&after) {
            let least_ns = 0.25 * self.step_ns(&after, Assumption::EXPECTED);
            return (100.0 * (1.0 - least_ns / self.recorded_ns().max(1.0))).max(0.0);
        }
        let of_rank = |rank: &RankReplay| rank.evidence_ratio(before, fixes);
        100.0 * self.pacing(&after).map(of_rank).fold(0.0, f64::max)
    }

    /// What a fix saves alone at each of the positions, see [`FixEffect::curve_pct`].
    fn curve_pct(&self, fix: usize, positions: &[f64]) -> Vec<f64> {
        let now_ns = self.step_ns(&[], Assumption::EXPECTED);
        let saved_pct = |position: &f64| {
            let of_rank = |rank: &RankReplay| rank.step_ns_at(&[fix], &[*position], 1);
            let after_ns = self.pacing(&[fix]).map(of_rank).fold(0.0, f64::max);
            100.0 * (now_ns - after_ns) / now_ns.max(1.0)
        };
        positions.iter().map(saved_pct).collect()
    }

    /// What a fix can save alone at most, see [`FixEffect::most_pct`].
    fn most_pct(&self, fix: usize) -> f64 {
        let now_ns = self.step_ns(&[], Assumption::EXPECTED);
        let floor_ns = if self.bring_ranks_up(&[fix]) { 0.0 } else { self.floor_ns(&[fix]) };
        let left_pct = 100.0 * (now_ns - floor_ns) / now_ns.max(1.0);
        left_pct.min(PredictionError::margin_pct(self.evidence_pct(&[], &[fix])))
    }

    /// The lower end of what `fix` saves after others, in percent of the unprofiled step. Only the estimate is timed: its ratio to the
    /// lower end is the ratio of the fix alone. A fix that may save nothing alone is timed with its least effect.
    fn least_saved_pct(&self, before: &[usize], fix: usize, alone: Interval) -> f64 {
        if before.is_empty() {
            return alone.low;
        }
        let after: Vec<usize> = before.iter().copied().chain([fix]).collect();
        let now_ns = self.step_ns(&[], Assumption::EXPECTED).max(1.0);
        let step_ns = |fixes: &[usize], assumption| self.step_ns(fixes, assumption);
        let before_ns = step_ns(before, Assumption::EXPECTED);
        if alone.low > 0.0 {
            let saved_ns = before_ns - step_ns(&after, Assumption::EXPECTED);
            return 100.0 * saved_ns / now_ns * (alone.low / alone.mid).min(1.0);
        }
        100.0 * (before_ns - step_ns(&after, Assumption::LEAST)) / now_ns
    }

    /// What `fix` saves after others, in percent of the unprofiled step: the interval in which four of five measured savings lie.
    fn saved_pct(&self, before: &[usize], fix: usize, request: &RetimingRequest) -> Interval {
        let after: Vec<usize> = before.iter().copied().chain([fix]).collect();
        let now_ns = self.step_ns(&[], Assumption::EXPECTED).max(1.0);
        let before_ns = self.step_ns(before, Assumption::EXPECTED).max(1.0);
        let log_left = |assumption| (self.step_ns(&after, assumption).max(1.0) / before_ns).ln();
        let expected = log_left(Assumption::EXPECTED);
        let half_range = (log_left(Assumption::LEAST) - log_left(Assumption::MOST)).abs() / 2.0;
        let effect = request.fixes[fix].effect;
        let [high, mid, low] = request
            .error
            .log_left_interval(effect, expected, half_range)
            .map(|log_left| 100.0 * before_ns * (1.0 - log_left.exp()) / now_ns);
        let interval = Interval { low, mid, high };
        // No step is shorter than what is left for the devices.
        let floor_ns = if self.bring_ranks_up(&after) { 0.0 } else { self.floor_ns(&after) };
        let most_pct = 100.0 * (before_ns - floor_ns) / now_ns;
        Interval { high: interval.high.min(most_pct.max(interval.mid)), ..interval }
    }

    /// Whether one of these fixes makes a rank as fast as the others. The others then wait less in their collectives, so the work
    /// that was recorded on their devices is no limit.
    fn bring_ranks_up(&self, fixes: &[usize]) -> bool {
        self.ranks.iter().any(|rank| fixes.iter().any(|&fix| rank.claims[fix].brings_rank_up))
    }

    /// A step as recorded.
    fn recorded_ns(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.step_ns(&rank.model.recorded)).fold(0.0, f64::max)
    }

    /// Why the saving of a fix is unknown: the reason for most of the time, if that is a large share of its targets.
    fn unknown(&self, fix: usize) -> Option<UnknownEffect> {
        let mut by_reason: BTreeMap<&str, i64> = BTreeMap::new();
        for (reason, ns) in self.ranks.iter().flat_map(|rank| &rank.claims[fix].unknown_ns) {
            *by_reason.entry(reason).or_default() += ns;
        }
        let unknown_ns: i64 = by_reason.values().sum();
        let targeted_ns: i64 = self.ranks.iter().map(|rank| rank.claims[fix].targeted_ns).sum();
        let window_ns = |rank: &RankReplay| {
            let window = &rank.model.graph.window;
            (window.end_ns - window.begin_ns).max(0)
        };
        let windows_ns: i64 = self.ranks.iter().map(window_ns).sum();
        if unknown_ns as f64 <= MAX_UNKNOWN_RATIO * targeted_ns as f64 {
            return None;
        }
        let (reason, _) = by_reason.into_iter().rev().max_by_key(|&(_, ns)| ns)?;
        let time_pct = 100.0 * unknown_ns as f64 / windows_ns.max(1) as f64;
        Some(UnknownEffect { reason: reason.to_owned(), time_pct })
    }

    /// The slowest rank under fixes.
    fn slowest(&self, fixes: &[usize]) -> Option<&RankReplay> {
        let step_ns = |rank: &&RankReplay| rank.step_ns(&rank.weights(fixes, Assumption::EXPECTED));
        self.pacing(fixes).max_by(|a, b| step_ns(a).total_cmp(&step_ns(b)))
    }

    /// The ranks that may set the pace: without those that a fix makes like the others, if there are others.
    fn pacing(&self, fixes: &[usize]) -> impl Iterator<Item = &RankReplay> {
        let is_mended = |rank: &RankReplay| fixes.iter().any(|&fix| rank.claims[fix].is_mended);
        let all_mended = self.ranks.iter().all(is_mended);
        let fixes = fixes.to_vec();
        self.ranks
            .iter()
            .filter(move |rank| all_mended || !fixes.iter().any(|&fix| rank.claims[fix].is_mended))
    }

    /// A step without the profiler.
    fn unprofiled_ns(&self) -> Interval {
        let [most, expected, least] = [0, 1, 2]
            .map(|overhead| self.step_ns(&[], Assumption { overhead, ..Assumption::EXPECTED }));
        Interval {
            low: most.min(expected).min(least),
            mid: expected,
            high: most.max(expected).max(least),
        }
    }

    /// A step under the fixes of a plan. All that is uncertain varies at the same time: the effects of the fixes, the time that
    /// recording adds, and what the model does not describe. `log_left` is the logarithm of the share that each fix leaves.
    fn sampled_step_ns(
        &self,
        fixes: &[usize],
        log_left: &[f64],
        request: &RetimingRequest,
    ) -> Interval {
        let sample = |index: usize| {
            let point = even_point(index, 1 + 2 * fixes.len());
            let (mut positions, mut log_error) = (Vec::new(), 0.0);
            for (at, &fix) in fixes.iter().enumerate() {
                let effect = request.fixes[fix].effect;
                let score = |coordinate: usize| score_at(point[coordinate], effect.scores);
                // Half a range to both sides makes the half range of the scale.
                let shift = 0.5 * request.error.of_range * score(1 + 2 * at);
                positions.push(effect.position + shift);
                log_error += request.error.model_scale(log_left[at]) * score(2 + 2 * at);
            }
            // The three levels stand for three, four and three tenths of their distribution.
            let overhead = if point[0] < 0.3 { 0 } else { 1 + usize::from(point[0] >= 0.7) };
            Sample { overhead, positions, error: log_error.exp() }
        };
        let floor_ns = if self.bring_ranks_up(fixes) { 0.0 } else { self.floor_ns(fixes) };
        let mid = self.step_ns(fixes, Assumption::EXPECTED);
        let least_ns = floor_ns.max(0.25 * mid).min(mid);
        let step_ns = |sample: Sample| {
            let of_rank = |r: &RankReplay| r.step_ns_at(fixes, &sample.positions, sample.overhead);
            let step_ns = self.pacing(fixes).map(of_rank).fold(0.0, f64::max);
            (step_ns * sample.error).max(least_ns)
        };
        let now_ns = self.step_ns(&[], Assumption::EXPECTED);
        let mut times: Vec<f64> = Vec::new();
        let mut ends = [f64::NAN; 2];
        for batch in 0..MAX_BATCHES {
            let batch = (batch * SAMPLE_BATCH..(batch + 1) * SAMPLE_BATCH).map(sample).collect();
            times.extend(per_item(batch, step_ns));
            times.sort_by(f64::total_cmp);
            let before = ends;
            ends = [0.1, 0.9].map(|share| quantile(&times, share));
            let change_ns = (ends[0] - before[0]).abs().max((ends[1] - before[1]).abs());
            if change_ns < MAX_CHANGE_RATIO * now_ns {
                break;
            }
        }
        Interval { low: ends[0].min(mid), mid, high: ends[1].max(mid) }
    }

    fn limit(&self, fixes: &[usize]) -> PathLimit {
        let Some(rank) = self.slowest(fixes) else { return PathLimit::default() };
        let workers_ns = rank.workers_ns(fixes, EffectLevel::Expected);
        let step_ns = || rank.step_ns(&rank.weights(fixes, Assumption::EXPECTED));
        if workers_ns > 0.0 && workers_ns > step_ns() {
            return PathLimit { bound_by: "workers".to_owned(), ratio: 1.0 };
        }
        rank.limit(fixes)
    }
}

fn retime_ranks(
    loaded: RetimingRanks,
    request: &RetimingRequest,
    rows: &[Vec<Option<RecordBatch>>],
) -> Result<Retiming> {
    let RetimingRanks { ranks, warm_up } = loaded;
    if ranks.is_empty() {
        return Ok(Retiming::default());
    }
    let numbers = ranks.iter().map(|model| i64::from(model.events.rank)).collect();
    let replays = per_item(ranks, |model| {
        let claims = model.claims(request, rows, &warm_up)?;
        Ok(RankReplay { model, claims })
    });
    let mut run = RunReplay {
        ranks: replays.into_iter().collect::<Result<_>>()?,
        steps_ns: Memo::default(),
        floors_ns: Memo::default(),
        least_ns: Memo::default(),
    };
    if let Some(step_ns) = request.step_time_ns {
        run.fit_overhead(step_ns as f64)?;
    }
    let recorded_ns = run.recorded_ns();
    let limit = run.time_in_advance(&[]);
    let unprofiled_ns = run.unprofiled_ns();
    let step_count = run.ranks.iter().map(|rank| rank.model.clock.count()).min().unwrap_or(0);
    let overhead_ns = run.slowest(&[]).map_or(0.0, |rank| {
        rank.model.overhead.sum_ns() / rank.model.window_step_count.max(1) as f64
    });
    let fixes = run.effects(request);
    Ok(Retiming {
        ranks: numbers,
        step_count,
        recorded_ns,
        unprofiled_ns,
        overhead_ns,
        limit,
        fixes,
    })
}

impl RunReplay {
    /// Scales the overhead of recording so that a step takes what the user says that it takes without the profiler.
    fn fit_overhead(&mut self, step_ns: f64) -> Result<()> {
        let recorded_ns = self.recorded_ns();
        if step_ns <= 0.0 {
            return Err(view_error!("the step time must be positive"));
        }
        let at = |scale: f64, ranks: &[RankReplay]| {
            let level = OverheadLevel { position: 1, scale };
            let step =
                |r: &RankReplay| r.step_ns(&r.model.overhead.without(&r.model.recorded, level));
            ranks.iter().map(step).fold(0.0, f64::max)
        };
        let (mut low, mut high) = (0.0, 16.0);
        if step_ns < recorded_ns {
            for _ in 0..16 {
                let scale = f64::midpoint(low, high);
                if at(scale, &self.ranks) > step_ns { low = scale } else { high = scale }
            }
        } else {
            high = 0.0;
        }
        let level = OverheadLevel { position: 1, scale: f64::midpoint(low, high) };
        for rank in &mut self.ranks {
            let weights = rank.model.overhead.without(&rank.model.recorded, level);
            rank.model.unprofiled = [weights.clone(), weights.clone(), weights];
        }
        Ok(())
    }

    /// The effects of all fixes: those of the plan in order, then the others.
    fn effects(&self, request: &RetimingRequest) -> Vec<FixEffect> {
        let fixes: Vec<usize> = (0..request.fixes.len()).collect();
        let unknown: Vec<Option<UnknownEffect>> =
            fixes.iter().map(|&fix| self.unknown(fix)).collect();
        let claims_anything = |fix: usize| {
            unknown[fix].is_none() && self.ranks.iter().any(|r| !r.claims[fix].is_empty())
        };
        let timed: Vec<(Interval, f64)> = per_item(fixes.clone(), |fix| {
            if !claims_anything(fix) {
                return (Interval::default(), 0.0);
            }
            let evidence_pct = self.evidence_pct(&[], &[fix]);
            (at_most(self.saved_pct(&[], fix, request), evidence_pct), evidence_pct)
        });
        let (alone, evidence_pct_alone): (Vec<Interval>, Vec<f64>) = timed.into_iter().unzip();
        let mut left: Vec<usize> = fixes;
        left.retain(|&fix| claims_anything(fix));
        let mut planned: Vec<usize> = Vec::new();
        let mut effects = Vec::new();
        let now_ns = self.step_ns(&[], Assumption::EXPECTED);
        let unprofiled_ns = self.unprofiled_ns();
        let mut log_left: Vec<f64> = Vec::new();
        while !left.is_empty() {
            // The next fix is the one that surely saves most after those before it, by weight.
            let before_ns = self.step_ns(&planned, Assumption::EXPECTED);
            let scores: Vec<f64> = per_item(left.clone(), |fix| {
                self.least_saved_pct(&planned, fix, alone[fix]) * request.fixes[fix].weight
            });
            let best = |among: &[usize]| {
                among.iter().rev().copied().max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
            };
            let expected_ratio = |fix: usize| {
                let with: Vec<usize> = planned.iter().copied().chain([fix]).collect();
                let steps = [&planned, &with].map(|f| self.step_ns(f, Assumption::EXPECTED));
                (steps[0] - steps[1]) / now_ns.max(1.0)
            };
            let places: Vec<usize> = (0..left.len()).collect();
            let Some(mut place) = best(&places) else { break };
            // A fix that saves next to nothing does not end the plan before one that may save much.
            if expected_ratio(left[place]) < MIN_PLANNED_RATIO {
                let ratios: Vec<f64> = per_item(left.clone(), expected_ratio);
                let is_large = |&at: &usize| ratios[at] >= MIN_UNSURE_RATIO;
                let large: Vec<usize> = places.into_iter().filter(is_large).collect();
                let Some(large) = best(&large) else { break };
                place = large;
            }
            let fix = left[place];
            let with: Vec<usize> = planned.iter().copied().chain([fix]).collect();
            let limit = self.time_in_advance(&with);
            let next_pct = self.saved_pct(&planned, fix, request);
            if next_pct.mid < 100.0 * MIN_PLANNED_RATIO {
                break;
            }
            left.remove(place);
            left.retain(|&other| !excludes(&request.fixes[fix], &request.fixes[other]));
            let expected_ns = self.step_ns(&with, Assumption::EXPECTED);
            log_left.push((expected_ns.max(1.0) / before_ns.max(1.0)).ln());
            let step_ns = self.sampled_step_ns(&with, &log_left, request);
            let next_pct = at_most(next_pct, self.evidence_pct(&planned, &[fix]));
            // All fixes of the plan together save no more than their evidence either.
            let evidence_pct = self.evidence_pct(&[], &with);
            let saved_pct = |ns: f64| 100.0 * (now_ns - ns) / now_ns.max(1.0);
            let Interval { low, mid, high } = step_ns;
            let saved =
                Interval { low: saved_pct(high), mid: saved_pct(mid), high: saved_pct(low) };
            let saved = at_most(saved, evidence_pct);
            let left_ns = |pct: f64| now_ns * (1.0 - pct / 100.0);
            // What saves time moves neither end up: samples of other fixes are other samples.
            let before = effects.last().map_or(unprofiled_ns, |effect: &FixEffect| effect.step_ns);
            let step_ns = Interval {
                low: left_ns(saved.high).min(before.low),
                mid: left_ns(saved.mid),
                high: left_ns(saved.low).min(before.high).max(left_ns(saved.mid)),
            };
            planned = with;
            effects.push(FixEffect {
                name: request.fixes[fix].name.clone(),
                alone_pct: alone[fix],
                next_pct,
                step_ns,
                limit,
                is_planned: true,
                ..FixEffect::default()
            });
        }
        let rest = (0..request.fixes.len()).filter(|fix| !planned.contains(fix));
        let rest = rest.map(|fix| {
            if let Some(reason) = &unknown[fix] {
                let (name, unknown) = (request.fixes[fix].name.clone(), Some(reason.clone()));
                return FixEffect { name, unknown, ..FixEffect::default() };
            }
            let excluded =
                planned.iter().any(|&other| excludes(&request.fixes[fix], &request.fixes[other]));
            if excluded {
                let name = request.fixes[fix].name.clone();
                return FixEffect { name, alone_pct: alone[fix], ..FixEffect::default() };
            }
            let with: Vec<usize> = planned.iter().copied().chain([fix]).collect();
            // It saves next to nothing: the estimate is enough.
            let step_ns = |fixes: &[usize]| self.step_ns(fixes, Assumption::EXPECTED);
            let after_ns = step_ns(&with);
            let mid = 100.0 * (step_ns(&planned) - after_ns) / now_ns.max(1.0);
            FixEffect {
                name: request.fixes[fix].name.clone(),
                alone_pct: alone[fix],
                next_pct: Interval { low: mid.min(0.0), mid, high: mid.max(0.0) },
                step_ns: Interval { low: after_ns, mid: after_ns, high: after_ns },
                ..FixEffect::default()
            }
        });
        effects.extend(rest.collect::<Vec<_>>());
        let slowest = self.slowest(&[]).map(|rank| (rank, rank.path_limits(&[])));
        for effect in &mut effects {
            let fix = request.fixes.iter().position(|fix| fix.name == effect.name);
            if let Some(fix) = fix.filter(|&fix| claims_anything(fix)) {
                if let Some((rank, now)) = &slowest
                    && effect.alone_pct.mid >= MIN_FOLLOWING_PCT
                {
                    effect.following = rank.following(fix, now);
                    if let Some(time) = &mut effect.following {
                        time.pct = time.pct.min(effect.alone_pct.mid);
                    }
                }
                effect.evidence_pct = evidence_pct_alone[fix];
                if !request.curve_positions.is_empty() {
                    effect.curve_pct = self.curve_pct(fix, &request.curve_positions);
                    effect.most_pct = self.most_pct(fix);
                }
            }
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use trace_model::retiming::Interval;

    use super::{at_most, even_point, quantile, score_at};

    #[test]
    fn a_tenth_of_the_errors_is_beyond_each_score() {
        let scores = [-1.8, 1.3];
        assert!((score_at(0.1, scores) + 1.8).abs() < 1e-9);
        assert!((score_at(0.9, scores) - 1.3).abs() < 1e-9);
        assert!(score_at(0.5, scores).abs() < 1e-9);
    }

    #[test]
    fn points_fill_every_side_of_the_cube_evenly() {
        for dimensions in [1, 3, 9] {
            for side in 0..dimensions {
                let below = (0..64).filter(|&at| even_point(at, dimensions)[side] < 0.5).count();
                assert!((24..=40).contains(&below), "{below} in dimension {side} of {dimensions}");
            }
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        for (share, expected) in [(0.0, 1.0), (0.1, 1.4), (0.5, 3.0), (1.0, 5.0)] {
            assert!((quantile(&sorted, share) - expected).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn nothing_is_saved_beyond_the_evidence() {
        let saved = Interval { low: 57.0, mid: 73.0, high: 89.0 };
        assert_eq!(at_most(saved, 90.0), saved);
        let clipped = at_most(saved, 80.0);
        assert_eq!((clipped.low, clipped.mid), (saved.low, saved.mid));
        assert!((clipped.high - 84.3).abs() < 0.1, "{clipped:?}");
        // The error of the model stays below an estimate that is too large.
        let clipped = at_most(saved, 64.0);
        assert!((clipped.mid - 64.0).abs() < 1e-9, "{clipped:?}");
        assert!((clipped.high - 69.1).abs() < 0.1, "{clipped:?}");
        assert!((clipped.low - 54.4).abs() < 1e-9, "{clipped:?}");
        assert_eq!(at_most(saved, 0.0), Interval::default());
        // What takes longer stays so.
        let slower = Interval { low: -20.0, mid: -10.0, high: 5.0 };
        assert_eq!(at_most(slower, 0.0), Interval { high: 0.0, ..slower });
    }
}
