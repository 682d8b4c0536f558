//! `comm_matches`, `comm_arrivals` and `comm_clocks`: what was found, as tables.

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::judge::{By, Part, Verdict, most};
use super::load::{COLLECTIVES, Loaded, RANKS, SPENT, judged, load};
use super::matches::Match;
use super::phases;
use query::BatchBuilder;
use query::rust_view::{RustView, ViewInputs};

pub(crate) const MATCHES: RustView =
    RustView::new("comm_matches", &[COLLECTIVES, RANKS, SPENT], matches);
pub(crate) const ARRIVALS: RustView =
    RustView::new("comm_arrivals", &[COLLECTIVES, RANKS, SPENT], arrivals);
pub(crate) const CLOCKS: RustView = RustView::new("comm_clocks", &[COLLECTIVES, RANKS], clocks);

struct MatchRow<'a> {
    number: i64,
    found: &'a Match,
    first: usize,
    verdict: Option<&'a Verdict>,
    message_bytes: Option<i64>,
    missing: Option<String>,
    last_rank: Option<i64>,
}

fn matches(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = load(inputs)?;
    let (verdicts, _) = judged(inputs, &loaded)?;
    let rows: Vec<MatchRow<'_>> = loaded
        .matches
        .iter()
        .zip(&verdicts)
        .enumerate()
        .map(|(number, (found, verdict))| MatchRow {
            number: number as i64,
            found,
            first: found.calls[0],
            verdict: verdict.as_ref(),
            message_bytes: message_bytes(&loaded, found),
            missing: missing(found),
            last_rank: verdict.map(|verdict| loaded.calls[found.calls[verdict.last]].rank),
        })
        .collect();
    let group = |row: &MatchRow<'_>| loaded.group(row.first);
    BatchBuilder::of(&rows)
        .int("match", |r| Some(r.number))
        .text("name", |r| Some(loaded.name(r.first)))
        .text("group_name", |r| loaded.group(r.first).name.as_deref())
        .text("group_description", |r| loaded.group(r.first).description.as_deref())
        .text("group_ranks", |r| loaded.group(r.first).ranks.as_deref())
        .int("group_size", |r| group(r).size)
        .int("sequence", |r| Some(r.found.sequence))
        .text("sequence_from", |r| Some(if r.found.from_metadata { "metadata" } else { "order" }))
        .text("status", |r| Some(r.found.status.as_str()))
        .int("step", |r| loaded.calls[r.first].step)
        .text("phase", |r| loaded.phases[r.first].as_deref())
        .int("rank_count", |r| Some(r.found.calls.len() as i64))
        .int("missing_count", |r| Some(r.found.missing_count as i64))
        .text("missing_ranks", |r| r.missing.as_deref())
        .int("message_bytes", |r| r.message_bytes)
        .int("first_arrival_ns", |r| Some(r.verdict?.arrivals_ns?.0))
        .int("last_arrival_ns", |r| Some(r.verdict?.arrivals_ns?.1))
        .int("spread_ns", |r| r.verdict?.arrivals_ns.map(|(first, last)| last - first))
        .int("last_rank", |r| r.last_rank)
        .text("last_by", |r| Some(by(r.verdict?.by)))
        .int("cause_rank", |r| Some(r.verdict?.cause))
        .int("transfer_ns", |r| Some(r.verdict?.transfer_ns))
        .int("others_wait_ns", |r| Some(r.verdict?.others_wait_ns))
        .finish()
}

/// The size that all ranks agree on.
fn message_bytes(loaded: &Loaded, found: &Match) -> Option<i64> {
    let first = loaded.message_bytes[found.calls[0]];
    first.filter(|_| found.calls.iter().all(|&at| loaded.message_bytes[at] == first))
}

fn missing(found: &Match) -> Option<String> {
    if found.missing.is_empty() {
        return None;
    }
    let named: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    let more = if found.missing_count > named.len() { ", ..." } else { "" };
    Some(format!("{}{more}", named.join(", ")))
}

fn by(by: By) -> &'static str {
    match by {
        By::Arrival => "arrival",
        By::Duration => "duration",
    }
}

struct ArrivalRow<'a> {
    number: i64,
    call: usize,
    verdict: &'a Verdict,
    part: &'a Part,
    is_last: bool,
    is_complete: bool,
}

fn arrivals(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = load(inputs)?;
    let (verdicts, parts) = judged(inputs, &loaded)?;
    let mut rows: Vec<ArrivalRow<'_>> = Vec::new();
    for (number, (found, (verdict, parts))) in
        loaded.matches.iter().zip(verdicts.iter().zip(&parts)).enumerate()
    {
        let Some(verdict) = verdict else { continue };
        let is_complete = found.calls.iter().all(|&at| loaded.calls[at].is_complete);
        rows.extend(found.calls.iter().zip(parts).enumerate().map(|(at, (&call, part))| {
            let (number, is_last) = (number as i64, at == verdict.last);
            ArrivalRow { number, call, verdict, part, is_last, is_complete }
        }));
    }
    let call = |row: &ArrivalRow<'_>| &loaded.calls[row.call];
    let interval = |row: &ArrivalRow<'_>| call(row).interval;
    BatchBuilder::of(&rows)
        .int("rank", |r| Some(call(r).rank))
        .int("collective", |r| Some(call(r).number))
        .int("match", |r| Some(r.number))
        .text("name", |r| Some(loaded.name(r.call)))
        .text("group_name", |r| loaded.group(r.call).name.as_deref())
        .int("step", |r| call(r).step)
        .int("ts_ns", |r| Some(interval(r)?.0))
        .int("dur_ns", |r| call(r).dur_ns())
        .int("arrival_ns", |r| r.part.arrival_ns)
        .int("late_ns", |r| r.part.late_ns)
        .int("transfer_ns", |r| Some(r.verdict.transfer_ns))
        .int("wait_ns", |r| Some(call(r).dur_ns()? - r.verdict.transfer_ns))
        .int("waited_ns", |r| Some(r.part.waited_ns))
        .flag("is_last", |r| r.is_last)
        .text("last_by", |r| Some(by(r.verdict.by)))
        .flag("is_cause", |r| call(r).rank == r.verdict.cause)
        .int("cause_rank", |r| Some(r.verdict.cause))
        .int("gap_ns", |r| r.part.gap_ns)
        .int("delay_ns", |r| r.part.delay_ns)
        .text("delay_phase", |r| {
            r.part.delay_ns.filter(|&lost| lost > 0)?;
            most(&r.part.excess).map(|kind| phases::NAMES[kind])
        })
        .flag("is_complete", |r| r.is_complete)
        .finish()
}

struct ClockRow<'a> {
    rank: i64,
    stated: &'a str,
}

fn clocks(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = load(inputs)?;
    // Without a second rank there is nothing to compare.
    let rows: Vec<ClockRow<'_>> = loaded
        .stated
        .iter()
        .filter(|_| loaded.stated.len() > 1)
        .map(|(&rank, stated)| ClockRow { rank, stated })
        .collect();
    let clocks = &loaded.clocks;
    let found = |row: &ClockRow<'_>| clocks.found.get(&row.rank).filter(|clock| clock.count > 0);
    let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
    BatchBuilder::of(&rows)
        .int("rank", |r| Some(r.rank))
        .text("clock", |r| Some(r.stated))
        .text("aligned_by", |r| {
            Some(match (clocks.is_measured(r.rank), clocks.offset(r.rank)) {
                (true, Some(offset)) if offset != 0 || !clocks.shared => "collectives",
                (_, Some(_)) if clocks.shared => "wall clock",
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
        .float("misaligned_ratio", |r| found(r).and_then(|c| share(c.apart_as_recorded, c.kernels)))
        .float("unaligned_ratio", |r| found(r).and_then(|c| share(c.apart, c.kernels)))
        .finish()
}
