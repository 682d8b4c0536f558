//! Edits of a recording, as what they leave of the edges of a graph.

use std::collections::BTreeMap;

use arrow::array::{Array, Float64Array};
use query::columns::{Names, floats, get, ints, names};
use query::rust_view::Result;
use query::view_error;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;
use trace_model::retiming::{Edit, EditTarget, FittedEffect, FixEdits};

use super::graph::{Edge, EdgeKind, Graph};
use super::model::{NO_INDEX, RankEvents, RuntimeCallIndex, TimeClass};
use super::replay::Weights;
use query::id_index::IdIndex;

/// What one fix leaves of the edges of a rank's graph. An edge owns the time of its weight; where several fixes claim
/// one edge, the one that leaves least counts.
#[derive(Debug, Default)]
pub(crate) struct RankClaims {
    edges: Vec<EdgeClaim>,
    /// Edges that no longer constrain their target.
    removed: Vec<u32>,
    moved: Vec<MovedTime>,
    /// Whether the fix may have no effect at all.
    is_uncertain: bool,
    effect: FittedEffect,
    /// The rank will take as long as the others.
    pub(crate) is_mended: bool,
    /// The fix is about ranks that will take as long as the others, also if none of them is timed again.
    pub(crate) brings_rank_up: bool,
    /// Time of the device activities that the queries of the fix return, and the part on which the effect is unknown, by reason.
    pub(crate) targeted_ns: i64,
    pub(crate) unknown_ns: BTreeMap<String, i64>,
}

/// Host time that moves to other threads.
#[derive(Debug, Clone, Copy)]
struct MovedTime {
    /// Of all steps.
    ns: i64,
    workers: u32,
    /// Factor of the time that the work takes there: the ends of an 80 % interval.
    slowdown: [f64; 2],
}

impl MovedTime {
    /// The time that each of the threads is busy.
    fn worker_ns(&self, position: f64) -> f64 {
        let slowdown = between(self.slowdown, position).max(0.0);
        self.ns as f64 * slowdown / f64::from(self.workers.max(1))
    }
}

/// Shares of an edge's weight that are left: the ends of an 80 % interval.
#[derive(Debug, Clone, Copy)]
struct EdgeClaim {
    edge: u32,
    left_low: f64,
    left_high: f64,
    /// The least time that is left, even if the fix saves more than it claims; `None` without a limit.
    least: Option<f64>,
}

/// A point of the range of each edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EffectLevel {
    /// Half a range before the expected position: the fix saves more.
    Most,
    /// The expected position.
    Expected,
    /// Half a range after it: the fix saves less.
    Least,
}

/// The value at a position between two ends, or beyond them.
fn between([low, high]: [f64; 2], position: f64) -> f64 {
    low + (high - low) * position
}

impl EdgeClaim {
    fn left(&self, position: f64) -> f64 {
        let left = between([self.left_low, self.left_high], position);
        left.clamp(self.least.unwrap_or(0.0), Edit::MAX_LEFT)
    }
}

impl RankClaims {
    /// Changes `weights` to what this fix leaves of `base`. Of what an earlier fix reduces, the smaller rest counts.
    pub(crate) fn apply(&self, base: &Weights, weights: &mut Weights, level: EffectLevel) {
        self.apply_at(base, weights, self.position(level));
    }

    /// The position of the effect in the ranges of the edits.
    fn position(&self, level: EffectLevel) -> f64 {
        let [most, expected, least] = self.effect.positions();
        match level {
            EffectLevel::Most => most,
            EffectLevel::Expected => expected,
            EffectLevel::Least => least,
        }
    }

    /// The same as [`Self::apply`] for an effect at `position` in the ranges of the edits. The range of a fix that may have no
    /// effect ends at none.
    pub(crate) fn apply_at(&self, base: &Weights, weights: &mut Weights, position: f64) {
        if self.is_uncertain && position >= 1.0 {
            return;
        }
        for claim in &self.edges {
            let edge = claim.edge as usize;
            let left = if self.is_uncertain {
                between([claim.left_low, 1.0], position.max(0.0))
            } else {
                claim.left(position)
            };
            let (before, now) = (base.edge(edge), weights.edge(edge));
            let left = (before as f64 * left).round() as i64;
            let adds_time = left > before && now >= before;
            weights.set_edge(edge, if adds_time { left.max(now) } else { left.min(now) });
        }
        for &edge in &self.removed {
            weights.remove_edge(edge as usize);
        }
    }

    /// The least time that is left of each edge under several fixes, if one fix states a limit of the hardware for the edge;
    /// 0 for all other edges. `None` if no fix states a limit.
    pub(crate) fn least(fixes: &[&Self], base: &Weights) -> Option<Weights> {
        let states_limit = |claims: &Self| claims.edges.iter().any(|claim| claim.least.is_some());
        if !fixes.iter().copied().any(states_limit) {
            return None;
        }
        let mut shares: FxHashMap<u32, (f64, bool)> = FxHashMap::default();
        for claims in fixes {
            for claim in &claims.edges {
                let (share, is_limited) = shares.entry(claim.edge).or_insert((1.0, false));
                *share *= claim.least.unwrap_or(claim.left_low).min(1.0);
                *is_limited |= claim.least.is_some();
            }
        }
        shares.retain(|_, (_, is_limited)| *is_limited);
        let mut weights = base.without_time();
        #[expect(clippy::iter_over_hash_type, reason = "each edge is set once")]
        for (edge, (share, _)) in shares {
            let edge = edge as usize;
            weights.set_edge(edge, (base.edge(edge) as f64 * share) as i64);
        }
        for edge in fixes.iter().flat_map(|claims| &claims.removed) {
            weights.remove_edge(*edge as usize);
        }
        Some(weights)
    }

    /// Takes all time that this fix may save out of `weights`, which are `base` under other fixes: the evidence of the fix.
    /// Time that it adds stays out.
    pub(crate) fn take_out(&self, base: &Weights, weights: &mut Weights) {
        for claim in self.edges.iter().filter(|claim| claim.left_low < 1.0) {
            let edge = claim.edge as usize;
            let left = (base.edge(edge) as f64 * claim.least.unwrap_or(0.0)).round() as i64;
            weights.set_edge(edge, left.min(weights.edge(edge)));
        }
        for &edge in &self.removed {
            weights.remove_edge(edge as usize);
        }
    }

    /// Whether someone no longer waits for a device.
    pub(crate) fn removes_waits(&self) -> bool {
        !self.removed.is_empty()
    }

    /// The edges that the fix may shorten.
    pub(crate) fn shortened(&self) -> impl Iterator<Item = usize> {
        let claims = self.edges.iter().filter(|claim| claim.left_low < 1.0);
        claims.map(|claim| claim.edge as usize)
    }

    /// The time that the threads which host time moves to need for all steps.
    pub(crate) fn workers_ns(&self, level: EffectLevel) -> f64 {
        self.workers_ns_at(self.position(level))
    }

    /// The same as [`Self::workers_ns`] for an effect at `position`.
    pub(crate) fn workers_ns_at(&self, position: f64) -> f64 {
        self.moved.iter().map(|moved| moved.worker_ns(position)).sum()
    }

    /// Gives up claims on these edges, sorted.
    pub(crate) fn leave_out(&mut self, edges: &[u32]) {
        self.edges.retain(|claim| edges.binary_search(&claim.edge).is_err());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.edges.is_empty() && self.removed.is_empty() && !self.is_mended
    }
}

/// The edges that stand for parts of a recording.
pub(crate) struct EdgeIndex<'g> {
    graph: &'g Graph,
    /// Edges of each host thread by time: begin, end, edge.
    host: Vec<Vec<(i64, i64, u32)>>,
    activity_ids: IdIndex,
    /// `(activity, edge)`: edges whose weight is time of a device activity.
    activity_edges: Vec<(u32, u32)>,
    /// `(activity, edge)`: waits of other streams for an activity.
    stream_waits: Vec<(u32, u32)>,
    /// `(activity, edge)`: the order of activities on their streams.
    stream_gaps: Vec<(u32, u32)>,
    call_ids: FxHashMap<i64, u32>,
    /// `(call, edge)`: waits of the host.
    host_waits: Vec<(u32, u32)>,
    /// The call that launched each activity; [`NO_INDEX`] if it is unknown.
    launches: Vec<u32>,
}

impl<'g> EdgeIndex<'g> {
    pub(crate) fn new(graph: &'g Graph, events: &RankEvents) -> Self {
        let mut host = vec![Vec::new(); graph.host.timelines.len()];
        let mut activity_edges = Vec::new();
        let mut stream_waits = Vec::new();
        let mut stream_gaps = Vec::new();
        let mut host_waits = Vec::new();
        for target in 0..graph.nodes.len() {
            for at in graph.edge_range(target) {
                let edge = &graph.edges[at];
                let source = &graph.nodes[edge.source as usize];
                match edge.kind {
                    EdgeKind::Host => {
                        let span = (source.ts_ns, graph.nodes[target].ts_ns, at as u32);
                        host[edge.subject as usize].push(span);
                    }
                    EdgeKind::Activity | EdgeKind::Crowded => {
                        activity_edges.push((edge.subject, at as u32));
                    }
                    EdgeKind::StreamWait | EdgeKind::InferredWait => {
                        stream_waits.push((source.subject, at as u32));
                    }
                    EdgeKind::Sync | EdgeKind::QueueFull => {
                        if edge.kind == EdgeKind::Sync {
                            host_waits.push((edge.subject, at as u32));
                        }
                        if edge.weight > 0 && source.on_device {
                            activity_edges.push((source.subject, at as u32));
                        }
                    }
                    EdgeKind::StreamOrder | EdgeKind::GraphOrder => {
                        stream_gaps.push((graph.nodes[target].subject, at as u32));
                    }
                    EdgeKind::Launch | EdgeKind::Thread | EdgeKind::Data => {}
                }
            }
        }
        for spans in &mut host {
            spans.sort_unstable();
        }
        for index in [&mut activity_edges, &mut stream_waits, &mut stream_gaps, &mut host_waits] {
            index.sort_unstable();
        }
        let calls = RuntimeCallIndex::new(events);
        let ids = events.activities.iter().zip(0..).map(|(a, i)| (a.id, i));
        let call_ids =
            host_waits.iter().map(|&(call, _)| (events.host[call as usize].id, call)).collect();
        Self {
            graph,
            host,
            activity_ids: IdIndex::of(ids),
            activity_edges,
            stream_waits,
            stream_gaps,
            call_ids,
            host_waits,
            launches: (0..events.activities.len())
                .map(|at| calls.of(at).unwrap_or(NO_INDEX))
                .collect(),
        }
    }

    /// The host edges that mostly consist of first launches, start-up and work of the profiler: no fix of the program makes them
    /// shorter.
    /// `rows`: `rank`, `thread`, `ts_ns`, `end_ns`.
    pub(crate) fn warm_up(&self, events: &RankEvents, rows: &RecordBatch) -> Result<Vec<u32>> {
        let (rank, thread) = (ints(rows, "rank")?, ints(rows, "thread")?);
        let (ts_ns, end_ns) = (ints(rows, "ts_ns")?, ints(rows, "end_ns")?);
        let mut edges = Vec::new();
        for row in 0..rows.num_rows() {
            let (of_rank, lane) = (rank.value(row), thread.value(row));
            let timelines = &self.graph.host.timelines;
            let found = timelines.binary_search_by_key(&lane, |t| i64::from(t.lane));
            let Some(k) = found.ok().filter(|_| of_rank == i64::from(events.rank)) else {
                continue;
            };
            let (from, to) = (ts_ns.value(row), end_ns.value(row));
            let first = self.host[k].partition_point(|&(_, end_ns, _)| end_ns <= from);
            let spans = self.host[k][first..].iter().take_while(|&&(begin_ns, ..)| begin_ns < to);
            let inside = spans.filter(|&&(begin_ns, end_ns, _)| {
                2 * (end_ns.min(to) - begin_ns.max(from)) > end_ns - begin_ns
            });
            edges.extend(inside.map(|&(.., edge)| edge));
        }
        edges.sort_unstable();
        Ok(edges)
    }

    /// What the edits of a fix leave. `rows` are the rows of each edit's query.
    pub(crate) fn claims(
        &self,
        events: &RankEvents,
        fix: &FixEdits,
        rows: &[Option<RecordBatch>],
    ) -> Result<RankClaims> {
        let mut claims = RankClaims {
            is_uncertain: !fix.is_certain,
            effect: fix.effect,
            ..RankClaims::default()
        };
        // Edges that ranges mostly cover: `host_time` does not apply to them.
        let mut in_ranges: Vec<u32> = Vec::new();
        let mut targets = DeviceTargets::default();
        for (edit, rows) in fix.edits.iter().zip(rows) {
            match (&edit.target, rows) {
                (EditTarget::Device(_), Some(rows)) => {
                    self.claim_activities(events, edit, rows, &mut claims, &mut targets)?;
                }
                (EditTarget::Host(_), Some(rows)) => {
                    self.claim_host_ranges(events, edit, rows, &mut claims, &mut in_ranges)?;
                }
                (EditTarget::Waits(_), Some(rows)) => {
                    for id in ids_of_rank(rows, events.rank, "event_id")? {
                        if let Some(&call) = self.call_ids.get(&id) {
                            claims.removed.extend(of(&self.host_waits, call));
                        }
                    }
                }
                (EditTarget::StreamWaits(_), Some(rows)) => {
                    for id in ids_of_rank(rows, events.rank, "event_id")? {
                        if let Some(activity) = self.activity_ids.get(id) {
                            claims.removed.extend(of(&self.stream_waits, activity));
                        }
                    }
                }
                (EditTarget::StreamGaps(_), Some(rows)) => {
                    let [left_low, left_high] = edit.left;
                    for id in ids_of_rank(rows, events.rank, "event_id")? {
                        let Some(activity) = self.activity_ids.get(id) else { continue };
                        let gaps = of(&self.stream_gaps, activity);
                        let least = None;
                        let claims_of = |edge| EdgeClaim { edge, left_low, left_high, least };
                        claims.edges.extend(gaps.map(claims_of));
                    }
                }
                (EditTarget::Ranks(_), Some(rows)) => {
                    claims.is_mended |= !ids_of_rank(rows, events.rank, "rank")?.is_empty();
                    claims.brings_rank_up = true;
                }
                (EditTarget::HostTime(_), _) | (_, None) => {}
            }
        }
        targets.sum_up(events, &mut claims);
        in_ranges.sort_unstable();
        for edit in &fix.edits {
            if let EditTarget::HostTime(classes) = &edit.target {
                self.claim_host_time(edit, classes, &in_ranges, &mut claims)?;
            }
        }
        // Several edits of one fix may claim an edge: the best counts.
        claims
            .edges
            .sort_by(|a, b| a.edge.cmp(&b.edge).then_with(|| a.left_high.total_cmp(&b.left_high)));
        claims.edges.dedup_by(|b, a| {
            let same = a.edge == b.edge;
            if same {
                a.left_low = a.left_low.min(b.left_low);
                a.least = a.least.zip(b.least).map(|(a, b)| a.min(b));
            }
            same
        });
        Ok(claims)
    }

    fn claim_host_time(
        &self,
        edit: &Edit,
        classes: &[String],
        in_ranges: &[u32],
        claims: &mut RankClaims,
    ) -> Result<()> {
        for name in classes {
            let known = TimeClass::ALL.into_iter().any(|class| class.host_kind() == Some(name));
            if !known {
                return Err(view_error!("there is no class of host time `{name}`"));
            }
        }
        let is_claimed = |edge: &Edge| {
            let kind = edge.class.host_kind();
            kind.is_some_and(|kind| classes.iter().any(|class| class == kind))
        };
        for spans in &self.host {
            for &(_, _, at) in spans {
                let edge = &self.graph.edges[at as usize];
                let is_in_range = || in_ranges.binary_search(&at).is_ok();
                if edge.weight > 0 && is_claimed(edge) && !is_in_range() {
                    let [left_low, left_high] = edit.left;
                    let least = edit.least.map(|share| share.min(left_low));
                    claims.edges.push(EdgeClaim { edge: at, left_low, left_high, least });
                }
            }
        }
        Ok(())
    }

    fn claim_activities(
        &self,
        events: &RankEvents,
        edit: &Edit,
        rows: &RecordBatch,
        claims: &mut RankClaims,
        targets: &mut DeviceTargets,
    ) -> Result<()> {
        let (rank, id) = (ints(rows, "rank")?, ints(rows, "event_id")?);
        let (low, high) = (optional(rows, "left_low_ns")?, optional(rows, "left_high_ns")?);
        let least = optional(rows, "least_ns")?;
        let has_reasons = rows.schema_ref().column_with_name("unknown").is_some();
        let reasons: Option<Names> = has_reasons.then(|| names(rows, "unknown")).transpose()?;
        for row in 0..rows.num_rows() {
            if rank.value(row) != i64::from(events.rank) {
                continue;
            }
            let Some(activity) = get(&id, row).and_then(|id| self.activity_ids.get(id)) else {
                continue;
            };
            let a = &events.activities[activity as usize];
            if [&low, &high].into_iter().flatten().any(|column| column.is_null(row)) {
                let reason = reasons.as_ref().and_then(|reasons| reasons.get(row));
                targets.unknown.push((activity, reason.unwrap_or(NO_REASON).to_owned()));
                continue;
            }
            targets.known.push(activity);
            let dur_ns = (a.end_ns - a.ts_ns) as f64;
            let share = |column: &Option<Float64Array>, default: f64| {
                let ns = column.as_ref().map(|c| c.value(row));
                ns.filter(|_| dur_ns > 0.0)
                    .map_or(default, |ns| (ns / dur_ns).clamp(0.0, Edit::MAX_LEFT))
            };
            let (left_low, left_high) = (share(&low, edit.left[0]), share(&high, edit.left[1]));
            let stated = least.as_ref().filter(|column| column.is_valid(row) && dur_ns > 0.0);
            let least = stated.map(|column| column.value(row) / dur_ns).or(edit.least);
            let least = least.map(|share| share.clamp(0.0, left_low));
            for edge in of(&self.activity_edges, activity) {
                claims.edges.push(EdgeClaim { edge, left_low, left_high, least });
            }
        }
        Ok(())
    }

    fn claim_host_ranges(
        &self,
        events: &RankEvents,
        edit: &Edit,
        rows: &RecordBatch,
        claims: &mut RankClaims,
        in_ranges: &mut Vec<u32>,
    ) -> Result<()> {
        let (rank, thread) = (ints(rows, "rank")?, ints(rows, "thread")?);
        let (ts_ns, dur_ns) = (ints(rows, "ts_ns")?, ints(rows, "dur_ns")?);
        let (low, high) = (optional(rows, "left_low")?, optional(rows, "left_high")?);
        let least = optional(rows, "least")?;
        let timelines = &self.graph.host.timelines;
        let mut ranges: Vec<Vec<HostRange>> = vec![Vec::new(); self.host.len()];
        for row in 0..rows.num_rows() {
            if rank.value(row) != i64::from(events.rank) {
                continue;
            }
            let (Some(lane), Some(begin_ns)) = (get(&thread, row), get(&ts_ns, row)) else {
                continue;
            };
            let Ok(k) = timelines.binary_search_by_key(&lane, |t| i64::from(t.lane)) else {
                continue;
            };
            let end_ns = begin_ns.saturating_add(dur_ns.value(row).max(0));
            let share = |column: &Option<Float64Array>, default: f64| {
                column.as_ref().map_or(default, |c| c.value(row)).clamp(0.0, Edit::MAX_LEFT)
            };
            let left = [share(&low, edit.left[0]), share(&high, edit.left[1])];
            let stated = least.as_ref().filter(|column| column.is_valid(row));
            let least = stated.map(|column| column.value(row)).or(edit.least);
            let least = least.map_or(0.0, |share| share.clamp(0.0, left[0]));
            ranges[k].push(HostRange { begin_ns, end_ns, left, least });
        }
        let mut moved_ns = 0;
        for (ranges, spans) in ranges.iter_mut().zip(&self.host) {
            *ranges = merged(std::mem::take(ranges));
            let mut next = 0;
            for &(begin_ns, end_ns, at) in spans {
                while ranges.get(next).is_some_and(|range| range.end_ns <= begin_ns) {
                    next += 1;
                }
                let edge = &self.graph.edges[at as usize];
                if edge.weight == 0 {
                    continue;
                }
                let length = (end_ns - begin_ns) as f64;
                let (mut inside_ns, mut gone) = (0, [0.0; 2]);
                // What may go in the ranges; the rest of the edge is no time of the fix.
                let mut most_gone = 0.0;
                for range in ranges[next..].iter().take_while(|range| range.begin_ns < end_ns) {
                    let overlap_ns = range.end_ns.min(end_ns) - range.begin_ns.max(begin_ns);
                    inside_ns += overlap_ns;
                    for (gone, left) in gone.iter_mut().zip(range.left) {
                        *gone += overlap_ns as f64 / length * (1.0 - left);
                    }
                    most_gone += overlap_ns as f64 / length * (1.0 - range.least);
                }
                if inside_ns > 0 {
                    moved_ns += inside_ns;
                    let [left_low, left_high] = gone.map(|gone| 1.0 - gone);
                    let least = Some(1.0 - most_gone).filter(|least| *least > 1e-9);
                    claims.edges.push(EdgeClaim { edge: at, left_low, left_high, least });
                    if 2 * inside_ns > end_ns - begin_ns {
                        in_ranges.push(at);
                    }
                }
            }
        }
        let range_at = |lane: i32, ts_ns: i64| {
            let k = timelines.binary_search_by_key(&lane, |t| t.lane).ok()?;
            let next = ranges[k].partition_point(|range| range.begin_ns <= ts_ns);
            ranges[k].get(next.checked_sub(1)?).filter(|range| ts_ns < range.end_ns)
        };
        for &(call, edge) in &self.host_waits {
            let call = &events.host[call as usize];
            if range_at(call.lane, call.ts_ns).is_some_and(|range| range.left[0] == 0.0) {
                claims.removed.push(edge);
            }
        }
        if let Some([left_low, left_high]) = edit.launched {
            for (activity, call) in self.launches.iter().enumerate() {
                let Some(call) = events.host.get(*call as usize) else { continue };
                if range_at(call.lane, call.ts_ns).is_some() {
                    for edge in of(&self.activity_edges, activity as u32) {
                        claims.edges.push(EdgeClaim { edge, left_low, left_high, least: None });
                    }
                }
            }
        }
        if let Some(workers) = edit.workers {
            let slowdown = edit.slowdown;
            claims.moved.push(MovedTime { ns: moved_ns, workers, slowdown });
        }
        Ok(())
    }
}

/// The reason of a query that states none.
const NO_REASON: &str = "the recording does not tell";

/// The device activities that the queries of one fix return, with and without what is left of them.
#[derive(Debug, Default)]
struct DeviceTargets {
    known: Vec<u32>,
    unknown: Vec<(u32, String)>,
}

impl DeviceTargets {
    /// Adds the time of these activities to `claims`. An activity is unknown only if no edit knows what is left of it.
    fn sum_up(mut self, events: &RankEvents, claims: &mut RankClaims) {
        let dur_ns = |activity: u32| {
            let activity = &events.activities[activity as usize];
            activity.end_ns - activity.ts_ns
        };
        self.known.sort_unstable();
        self.known.dedup();
        self.unknown.sort();
        self.unknown.dedup_by_key(|(activity, _)| *activity);
        claims.targeted_ns = self.known.iter().map(|&activity| dur_ns(activity)).sum();
        for (activity, reason) in self.unknown {
            if self.known.binary_search(&activity).is_err() {
                claims.targeted_ns += dur_ns(activity);
                *claims.unknown_ns.entry(reason).or_default() += dur_ns(activity);
            }
        }
    }
}

/// A stretch of host time, and the shares of it that are left.
#[derive(Debug, Clone, Copy)]
struct HostRange {
    begin_ns: i64,
    end_ns: i64,
    left: [f64; 2],
    /// Least share that can be left.
    least: f64,
}

/// A column of numbers, if the query returns it.
fn optional(rows: &RecordBatch, name: &str) -> Result<Option<Float64Array>> {
    let has = rows.schema_ref().column_with_name(name).is_some();
    if has { floats(rows, name).map(Some) } else { Ok(None) }
}

/// Values of an id column in the rows of one rank.
fn ids_of_rank(rows: &RecordBatch, of_rank: i32, column: &str) -> Result<Vec<i64>> {
    let (rank, id) = (ints(rows, "rank")?, ints(rows, column)?);
    let own = (0..rows.num_rows()).filter(|&row| rank.value(row) == i64::from(of_rank));
    Ok(own.filter_map(|row| get(&id, row)).collect())
}

/// The edges of a subject in a sorted index.
fn of(index: &[(u32, u32)], subject: u32) -> impl Iterator<Item = u32> {
    let first = index.partition_point(|&(s, _)| s < subject);
    index[first..].iter().take_while(move |&&(s, _)| s == subject).map(|&(_, edge)| edge)
}

/// The union of ranges, in order. Where ranges overlap, the first counts.
fn merged(mut ranges: Vec<HostRange>) -> Vec<HostRange> {
    ranges.sort_by_key(|range| (range.begin_ns, std::cmp::Reverse(range.end_ns)));
    let mut until_ns = i64::MIN;
    ranges.retain_mut(|range| {
        range.begin_ns = range.begin_ns.max(until_ns);
        until_ns = until_ns.max(range.end_ns);
        range.begin_ns < range.end_ns
    });
    ranges
}
