//! `comm_matches`, `comm_arrivals` and `comm_clocks`.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::load::{
    COLLECTIVES, MatchedCollectives, PHASE_TOTALS, RANKS, attribute, load_collectives,
};
use super::matches::{CollectiveMatch, MatchStatus, RankCall};
use super::phases;
use super::wait_attribution::{Attribution, LastRankEvidence, RankShare, largest_excess};
use query::BatchBuilder;
use query::rust_view::{RustView, ViewInputs};

pub(crate) const MATCHES: RustView =
    RustView::new("comm_matches", &[COLLECTIVES, RANKS, PHASE_TOTALS], matches);
pub(crate) const ARRIVALS: RustView =
    RustView::new("comm_arrivals", &[COLLECTIVES, RANKS, PHASE_TOTALS], arrivals);
pub(crate) const CLOCKS: RustView = RustView::new("comm_clocks", &[COLLECTIVES, RANKS], clocks);

struct MatchRow<'a> {
    number: i64,
    found: &'a CollectiveMatch,
    first: usize,
    attribution: Option<&'a Attribution>,
    message_bytes: Option<i64>,
    missing: Option<String>,
    /// The first call whose name differs from that of most.
    divergent: Option<usize>,
    last_rank: Option<i64>,
}

fn matches(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let collectives = load_collectives(inputs)?;
    let (attributions, _) = attribute(inputs, &collectives)?;
    let rows: Vec<MatchRow<'_>> = collectives
        .matches
        .iter()
        .zip(&attributions)
        .enumerate()
        .map(|(number, (found, attribution))| MatchRow {
            number: number as i64,
            found,
            first: found.calls[0],
            attribution: attribution.as_ref(),
            message_bytes: message_bytes(&collectives, found),
            missing: missing(found),
            divergent: divergent_call(&collectives.calls, found),
            last_rank: attribution
                .map(|attribution| collectives.calls[found.calls[attribution.last]].rank),
        })
        .collect();
    let group = |row: &MatchRow<'_>| collectives.group(row.first);
    BatchBuilder::of(&rows)
        .int("match", |r| Some(r.number))
        .text("name", |r| Some(collectives.name(r.first)))
        .text("group_name", |r| collectives.group(r.first).name.as_deref())
        .text("group_description", |r| collectives.group(r.first).description.as_deref())
        .text("group_ranks", |r| collectives.group(r.first).ranks.as_deref())
        .int("group_size", |r| group(r).size)
        .int("sequence", |r| Some(r.found.sequence))
        .text("sequence_from", |r| Some(if r.found.from_metadata { "metadata" } else { "order" }))
        .text("status", |r| Some(r.found.status.as_str()))
        .int("divergent_rank", |r| Some(collectives.calls[r.divergent?].rank))
        .text("divergent_name", |r| Some(collectives.name(r.divergent?)))
        .int("step", |r| collectives.calls[r.first].step)
        .text("phase", |r| collectives.phases.get(r.first))
        .int("rank_count", |r| Some(r.found.calls.len() as i64))
        .int("lowest_rank", |r| Some(collectives.calls[r.first].rank))
        .int("highest_rank", |r| Some(collectives.calls[*r.found.calls.last()?].rank))
        .int("missing_count", |r| Some(r.found.missing_count as i64))
        .text("missing_ranks", |r| r.missing.as_deref())
        .int("message_bytes", |r| r.message_bytes)
        .int("first_arrival_ns", |r| Some(r.attribution?.arrivals_ns?.0))
        .int("last_arrival_ns", |r| Some(r.attribution?.arrivals_ns?.1))
        .int("spread_ns", |r| r.attribution?.arrivals_ns.map(|(first, last)| last - first))
        .int("last_rank", |r| r.last_rank)
        .text("last_by", |r| Some(evidence_name(r.attribution?.evidence)))
        .int("cause_rank", |r| Some(r.attribution?.cause))
        .int("transfer_ns", |r| Some(r.attribution?.transfer_ns))
        .int("others_wait_ns", |r| Some(r.attribution?.others_wait_ns))
        .finish()
}

/// The message size, if all ranks agree on it.
fn message_bytes(collectives: &MatchedCollectives, found: &CollectiveMatch) -> Option<i64> {
    let bytes = |at| collectives.message_bytes.get(at);
    let first = bytes(found.calls[0]);
    first.filter(|_| found.calls.iter().all(|&at| bytes(at) == first))
}

/// The call of the lowest rank whose name is not the most frequent one; among equally frequent ones, that of the lowest
/// rank counts as such.
fn divergent_call(calls: &[RankCall], found: &CollectiveMatch) -> Option<usize> {
    if found.status != MatchStatus::NameMismatch {
        return None;
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for &at in &found.calls {
        *counts.entry(calls[at].name).or_default() += 1;
    }
    let most = counts.values().max()?;
    let usual = found.calls.iter().map(|&at| calls[at].name).find(|name| counts[name] == *most)?;
    found.calls.iter().copied().find(|&at| calls[at].name != usual)
}

fn missing(found: &CollectiveMatch) -> Option<String> {
    if found.missing.is_empty() {
        return None;
    }
    let named: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    let more = if found.missing_count > named.len() { ", ..." } else { "" };
    Some(format!("{}{more}", named.join(", ")))
}

fn evidence_name(evidence: LastRankEvidence) -> &'static str {
    match evidence {
        LastRankEvidence::Arrival => "arrival",
        LastRankEvidence::Duration => "duration",
    }
}

struct ArrivalRow<'a> {
    number: i64,
    call: usize,
    attribution: &'a Attribution,
    share: &'a RankShare,
    is_last: bool,
    is_complete: bool,
}

fn arrivals(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let collectives = load_collectives(inputs)?;
    let (attributions, shares) = attribute(inputs, &collectives)?;
    let mut rows: Vec<ArrivalRow<'_>> = Vec::new();
    for (number, (found, (attribution, shares))) in
        collectives.matches.iter().zip(attributions.iter().zip(&shares)).enumerate()
    {
        let Some(attribution) = attribution else { continue };
        let is_complete = found.calls.iter().all(|&at| collectives.calls[at].is_complete);
        rows.extend(found.calls.iter().zip(shares).enumerate().map(|(at, (&call, share))| {
            let (number, is_last) = (number as i64, at == attribution.last);
            ArrivalRow { number, call, attribution, share, is_last, is_complete }
        }));
    }
    let call = |row: &ArrivalRow<'_>| &collectives.calls[row.call];
    let interval = |row: &ArrivalRow<'_>| call(row).interval;
    BatchBuilder::of(&rows)
        .int("rank", |r| Some(call(r).rank))
        .int("collective", |r| Some(call(r).number))
        .int("match", |r| Some(r.number))
        .text("name", |r| Some(collectives.name(r.call)))
        .text("group_name", |r| collectives.group(r.call).name.as_deref())
        .int("step", |r| call(r).step)
        .int("ts_ns", |r| Some(interval(r)?.0))
        .int("dur_ns", |r| call(r).dur_ns())
        .int("arrival_ns", |r| r.share.arrival_ns)
        .int("late_ns", |r| r.share.late_ns)
        .int("transfer_ns", |r| Some(r.attribution.transfer_ns))
        .int("wait_ns", |r| Some(call(r).dur_ns()? - r.attribution.transfer_ns))
        .int("waited_ns", |r| Some(r.share.waited_ns))
        .flag("is_last", |r| r.is_last)
        .text("last_by", |r| Some(evidence_name(r.attribution.evidence)))
        .flag("is_cause", |r| call(r).rank == r.attribution.cause)
        .int("cause_rank", |r| Some(r.attribution.cause))
        .int("gap_ns", |r| r.share.gap_ns)
        .int("delay_ns", |r| r.share.delay_ns)
        .text("delay_phase", |r| {
            r.share.delay_ns.filter(|&lost| lost > 0)?;
            largest_excess(&r.share.excess).map(|kind| phases::PHASES[kind])
        })
        .flag("is_complete", |r| r.is_complete)
        .finish()
}

struct ClockRow<'a> {
    rank: i64,
    clock_source: &'a str,
}

fn clocks(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let collectives = load_collectives(inputs)?;
    // Without a second rank there is nothing to compare.
    let rows: Vec<ClockRow<'_>> = collectives
        .clock_sources
        .iter()
        .filter(|_| collectives.clock_sources.len() > 1)
        .map(|(&rank, clock_source)| ClockRow { rank, clock_source })
        .collect();
    let clocks = &collectives.clocks;
    let found = |row: &ClockRow<'_>| clocks.offsets.get(&row.rank).filter(|clock| clock.count > 0);
    let share = |share: usize, of: usize| (of > 0).then(|| share as f64 / of as f64);
    BatchBuilder::of(&rows)
        .int("rank", |r| Some(r.rank))
        .text("clock", |r| Some(r.clock_source))
        .text("aligned_by", |r| {
            Some(match (clocks.is_measured(r.rank), clocks.offset(r.rank)) {
                (true, Some(offset)) if offset != 0 || !clocks.is_shared => "collectives",
                (_, Some(_)) if clocks.is_shared => "wall clock",
                _ => "nothing",
            })
        })
        .int("collective_count", |r| Some(found(r).map_or(0, |clock| clock.count as i64)))
        .int("ahead_ns", |r| found(r).map(|clock| clock.ahead_ns))
        .int("offset_ns", |r| clocks.offset(r.rank))
        .int("error_ns", |r| {
            let (clock, offset) = (found(r)?, clocks.offset(r.rank)?);
            Some(clock.error_ns + (clock.ahead_ns - offset).abs())
        })
        .float("misaligned_ratio", |r| {
            found(r).and_then(|c| share(c.recorded_apart_count, c.kernel_count))
        })
        .float("unaligned_ratio", |r| found(r).and_then(|c| share(c.apart_count, c.kernel_count)))
        .finish()
}
