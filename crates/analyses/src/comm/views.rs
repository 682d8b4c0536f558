//! Views that compare ranks: `comm_matches`, `comm_arrivals`, `comm_stragglers` and `comm_clocks`. They are computed together:
//! matching holds all collectives of the run.

use std::collections::BTreeMap;

use query::rust_view::Result;
use query::{BatchBuilder, RustView, SharedComputation, ViewInputs, ViewOutputs};
use trace_model::RecordBatch;

use super::load::{
    COLLECTIVES, MatchDetails, MatchedCollectives, PHASE_TOTALS, RANKS, load_collectives,
    totals_since_previous,
};
use super::matches::{CollectiveMatch, MatchStatus, RankCall};
use super::phases;
use super::stragglers;
use super::wait_attribution::{
    Attribution, Attributions, LastRankEvidence, RankShare, attribute_waits,
};

static MATCHED_COLLECTIVES: SharedComputation =
    SharedComputation { name: "matched_collectives", compute };

pub(crate) const MATCHES: RustView =
    RustView::shared("comm_matches", &[COLLECTIVES, RANKS], &MATCHED_COLLECTIVES);
pub(crate) const ARRIVALS: RustView =
    RustView::shared("comm_arrivals", &[COLLECTIVES, RANKS, PHASE_TOTALS], &MATCHED_COLLECTIVES);
pub(crate) const STRAGGLERS: RustView = RustView::shared(
    "comm_stragglers",
    &[
        COLLECTIVES,
        RANKS,
        PHASE_TOTALS,
        ("overlap", "SELECT rank, exposed_ns, window_ns FROM comm_overlap ORDER BY rank"),
        (
            "windows",
            // Without unrecorded time between steps whose numbers are not consecutive.
            "SELECT rank, max(end_ns) - min(ts_ns)
                 - sum(CASE WHEN step > previous_step + 1 THEN greatest(ts_ns - previous_end_ns, 0) ELSE 0 END) AS window_ns
             FROM (
                 SELECT rank, step, ts_ns, end_ns,
                     lag(step) OVER (PARTITION BY rank ORDER BY ts_ns, step) AS previous_step,
                     lag(end_ns) OVER (PARTITION BY rank ORDER BY ts_ns, step) AS previous_end_ns
                 FROM device_steps
             )
             GROUP BY rank
             ORDER BY rank",
        ),
    ],
    &MATCHED_COLLECTIVES,
);
pub(crate) const CLOCKS: RustView =
    RustView::shared("comm_clocks", &[COLLECTIVES, RANKS], &MATCHED_COLLECTIVES);

fn compute(inputs: &ViewInputs<'_>, outputs: &mut ViewOutputs) -> Result<()> {
    let [wants_matches, wants_arrivals, wants_stragglers, wants_clocks] =
        [MATCHES, ARRIVALS, STRAGGLERS, CLOCKS].map(|view| outputs.is_requested(view.name));
    let collectives = load_collectives(inputs, wants_matches)?;
    if wants_clocks {
        outputs.write(CLOCKS.name, &clock_rows(&collectives)?)?;
    }
    if !(wants_matches || wants_arrivals || wants_stragglers) {
        return Ok(());
    }
    let mut attributions =
        attribute_waits(&collectives.calls, &collectives.matches, &collectives.clocks);
    if wants_arrivals || wants_stragglers {
        let totals = totals_since_previous(inputs, &collectives, &attributions)?;
        attributions.add_phases(&collectives.calls, &collectives.matches, &totals);
    }
    if wants_matches {
        write_matches(&collectives, &attributions, outputs)?;
    }
    if wants_arrivals {
        write_arrivals(&collectives, &attributions, outputs)?;
    }
    if wants_stragglers {
        let rows = stragglers::straggler_rows(inputs, &collectives, &attributions)?;
        outputs.write(STRAGGLERS.name, &rows)?;
    }
    Ok(())
}

struct MatchRow<'a> {
    number: i64,
    found: &'a CollectiveMatch,
    first: usize,
    attribution: Option<&'a Attribution>,
    details: &'a MatchDetails,
    missing: Option<String>,
    /// The first call whose name differs from that of most.
    divergent: Option<usize>,
    last_rank: Option<i64>,
}

fn write_matches(
    collectives: &MatchedCollectives,
    attributions: &Attributions,
    outputs: &mut ViewOutputs,
) -> Result<()> {
    let found = collectives.matches.iter().zip(&attributions.matches);
    let rows = found.zip(&collectives.details).enumerate().map(
        |(number, ((found, attribution), details))| MatchRow {
            number: number as i64,
            found,
            first: found.call(0),
            attribution: attribution.as_ref(),
            details,
            missing: missing(found),
            divergent: divergent_call(&collectives.calls, found),
            last_rank: attribution
                .map(|attribution| collectives.calls[found.call(attribution.last)].rank),
        },
    );
    outputs.write_rows(MATCHES.name, rows, |rows| match_rows(collectives, rows))
}

fn match_rows(collectives: &MatchedCollectives, rows: &[MatchRow<'_>]) -> Result<RecordBatch> {
    let group = |row: &MatchRow<'_>| collectives.group(row.first);
    BatchBuilder::of(rows)
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
        .text("phase", |r| collectives.phase(r.details))
        .int("rank_count", |r| Some(r.found.calls.len() as i64))
        .int("lowest_rank", |r| Some(collectives.calls[r.first].rank))
        .int("highest_rank", |r| Some(collectives.calls[r.found.calls().last()?].rank))
        .int("missing_count", |r| Some(r.found.missing_count as i64))
        .text("missing_ranks", |r| r.missing.as_deref())
        .int("message_bytes", |r| r.details.message_bytes)
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

/// The call of the lowest rank whose name is not the most frequent one; among equally frequent ones, that of the lowest
/// rank counts as such.
fn divergent_call(calls: &[RankCall], found: &CollectiveMatch) -> Option<usize> {
    if found.status != MatchStatus::NameMismatch {
        return None;
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for at in found.calls() {
        *counts.entry(calls[at].name).or_default() += 1;
    }
    let most = counts.values().max()?;
    let usual = found.calls().map(|at| calls[at].name).find(|name| counts[name] == *most)?;
    found.calls().find(|&at| calls[at].name != usual)
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

fn write_arrivals(
    collectives: &MatchedCollectives,
    attributions: &Attributions,
    outputs: &mut ViewOutputs,
) -> Result<()> {
    let of_matches = attributions.matches.iter().zip(&attributions.shares).enumerate();
    let rows = of_matches.flat_map(|(number, (attribution, shares))| {
        let of_match = attribution.as_ref().map(|attribution| {
            let found = &collectives.matches[number];
            let is_complete = collectives.is_complete(found);
            let of_ranks = found.calls().zip(shares).enumerate();
            of_ranks.map(move |(place, (call, share))| ArrivalRow {
                number: number as i64,
                call,
                attribution,
                share,
                is_last: place == attribution.last,
                is_complete,
            })
        });
        of_match.into_iter().flatten()
    });
    outputs.write_rows(ARRIVALS.name, rows, |rows| arrival_rows(collectives, rows))
}

fn arrival_rows(collectives: &MatchedCollectives, rows: &[ArrivalRow<'_>]) -> Result<RecordBatch> {
    let call = |row: &ArrivalRow<'_>| &collectives.calls[row.call];
    let interval = |row: &ArrivalRow<'_>| call(row).interval;
    let arrival_ns = |row: &ArrivalRow<'_>| collectives.clocks.arrival_ns(call(row));
    BatchBuilder::of(rows)
        .int("rank", |r| Some(call(r).rank))
        .int("collective", |r| Some(call(r).number))
        .int("match", |r| Some(r.number))
        .text("name", |r| Some(collectives.name(r.call)))
        .text("group_name", |r| collectives.group(r.call).name.as_deref())
        .int("step", |r| call(r).step)
        .int("ts_ns", |r| Some(interval(r)?.0))
        .int("dur_ns", |r| call(r).dur_ns())
        .int("arrival_ns", arrival_ns)
        .int("late_ns", |r| Some(arrival_ns(r)? - r.attribution.arrivals_ns?.0))
        .int("transfer_ns", |r| Some(r.attribution.transfer_ns))
        .int("wait_ns", |r| Some(call(r).dur_ns()? - r.attribution.transfer_ns))
        .int("waited_ns", |r| Some(r.share.waited_ns))
        .flag("is_last", |r| r.is_last)
        .text("last_by", |r| Some(evidence_name(r.attribution.evidence)))
        .flag("is_cause", |r| call(r).rank == r.attribution.cause)
        .int("cause_rank", |r| Some(r.attribution.cause))
        .int("gap_ns", |r| Some(r.share.since_previous?.gap_ns))
        .int("delay_ns", |r| Some(r.share.since_previous?.delay_ns))
        .text("delay_phase", |r| {
            let since = r.share.since_previous.filter(|since| since.delay_ns > 0)?;
            since.delay_phase.map(|phase| phases::PHASES[usize::from(phase)])
        })
        .flag("is_complete", |r| r.is_complete)
        .finish()
}

struct ClockRow<'a> {
    rank: i64,
    clock_source: &'a str,
}

fn clock_rows(collectives: &MatchedCollectives) -> Result<RecordBatch> {
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
