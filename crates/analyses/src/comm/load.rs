//! Input queries that views of matched collectives share, and the matching itself.

use std::collections::{BTreeMap, HashMap};

use query::rust_view::Result;
use query::view_error;

use super::argument_text::parse_ranks;
use super::clocks;
use super::matches::{CollectiveMatch, CollectiveTraits, RankCall, match_collectives};
use super::phase_totals::CollectiveTotalsColumns;
use super::wait_attribution::{Attributions, RankClocks, attribute_waits};
use query::columns::{Names, OptIntColumn, names as texts};
use query::rust_view::ViewInputs;

pub(super) const COLLECTIVES: (&str, &str) = (
    "collectives",
    "SELECT rank, collective, name, group_name, group_description, group_ranks, group_size, sequence,
        sequence_from, input_elements, message_bytes, host_ts_ns, ts_ns, dur_ns, timed_on, step, phase,
        CAST(is_complete AS BIGINT) AS is_complete
     FROM comm_collectives
     ORDER BY rank, collective",
);
pub(super) const RANKS: (&str, &str) = ("ranks", "SELECT rank, clock FROM ranks ORDER BY rank");
/// Time totals of ranks at the start and end of each collective, in the order of [`COLLECTIVES`].
pub(super) const PHASE_TOTALS: (&str, &str) =
    ("phase_totals", "SELECT * FROM comm_phase_totals ORDER BY rank, collective");

/// Identity of a process group as recorded.
#[derive(Debug, Default, Clone)]
pub(super) struct ProcessGroup {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) ranks: Option<String>,
    pub(super) size: Option<i64>,
}

/// Collectives of all ranks with their matches and clock offsets. Texts and sizes stay in columns, by call.
#[derive(Debug)]
pub(super) struct MatchedCollectives {
    pub(super) calls: Vec<RankCall>,
    names: Names,
    pub(super) groups: Vec<ProcessGroup>,
    pub(super) message_bytes: OptIntColumn,
    pub(super) phases: Names,
    pub(super) matches: Vec<CollectiveMatch>,
    pub(super) clocks: RankClocks,
    /// The `clock` column of `ranks`: how the trace relates the clock of each rank to others.
    pub(super) clock_sources: BTreeMap<i64, String>,
}

impl MatchedCollectives {
    pub(super) fn name(&self, call: usize) -> &str {
        self.names.get(call).unwrap_or_default()
    }

    pub(super) fn group(&self, call: usize) -> &ProcessGroup {
        &self.groups[self.calls[call].group as usize]
    }
}

/// Reads collectives, matches them across ranks, and estimates clock offsets.
pub(super) fn load_collectives(inputs: &ViewInputs<'_>) -> Result<MatchedCollectives> {
    let ranks = inputs.batch("ranks")?;
    let (rank, clock) = (OptIntColumn::of(ranks, "rank")?, texts(ranks, "clock")?);
    let source = |row| (rank.value_or_0(row), clock.get(row).unwrap_or_default().to_owned());
    let clock_sources: BTreeMap<i64, String> = (0..ranks.num_rows()).map(source).collect();

    let batch = inputs.batch("collectives")?;
    let int = |name| OptIntColumn::of(batch, name);
    let text = |name| texts(batch, name);
    let (rank, number, size) = (int("rank")?, int("collective")?, int("group_size")?);
    let (sequence, elements, message) =
        (int("sequence")?, int("input_elements")?, int("message_bytes")?);
    let (host, ts, dur) = (int("host_ts_ns")?, int("ts_ns")?, int("dur_ns")?);
    let (step, is_complete) = (int("step")?, int("is_complete")?);
    let (name, from, timed_on) = (text("name")?, text("sequence_from")?, text("timed_on")?);
    let (group_name, group_ranks) = (text("group_name")?, text("group_ranks")?);
    let (description, phase) = (text("group_description")?, text("phase")?);
    let mut calls = Vec::with_capacity(batch.num_rows());
    let mut groups: Vec<ProcessGroup> = Vec::new();
    let mut group_ids: HashMap<(u32, u32), u32> = HashMap::new();
    for row in 0..batch.num_rows() {
        let next = groups.len() as u32;
        let group = *group_ids.entry((group_name.ids[row], group_ranks.ids[row])).or_insert(next);
        if group == next {
            let own = |text: Option<&str>| text.map(str::to_owned);
            groups.push(ProcessGroup {
                name: own(group_name.get(row)),
                description: own(description.get(row)),
                ranks: own(group_ranks.get(row)),
                size: size.get(row),
            });
        }
        calls.push(RankCall {
            rank: rank.value_or_0(row),
            number: number.value_or_0(row),
            name: name.ids[row],
            traits: CollectiveTraits::of(name.get(row).unwrap_or_default()),
            group,
            has_group: group_name.get(row).is_some() || group_ranks.get(row).is_some(),
            sequence: sequence.get(row).filter(|_| from.get(row) == Some("metadata")),
            elements: elements.get(row),
            step: step.get(row),
            start_ns: host.get(row).or(ts.get(row)).unwrap_or_default(),
            interval: ts.get(row).zip(dur.get(row)).map(|(ts, dur)| (ts, ts.saturating_add(dur))),
            on_device: timed_on.get(row) == Some("device"),
            is_complete: is_complete.value_or_0(row) == 1,
        });
    }
    let group_ranks_by_id: BTreeMap<u32, Vec<i64>> = groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| Some((at as u32, parse_ranks(group.ranks.as_deref()?)?)))
        .collect();
    let matches = match_collectives(&calls, &group_ranks_by_id);
    let clocks = RankClocks {
        offsets: clocks::estimate_offsets(&calls, &matches),
        is_shared: clock_sources.values().all(|clock| clock != "relative"),
    };
    Ok(MatchedCollectives {
        calls,
        names: name,
        groups,
        message_bytes: message,
        phases: phase,
        matches,
        clocks,
        clock_sources,
    })
}

/// Attributes the waiting time of every match; needs the input [`PHASE_TOTALS`].
pub(super) fn attribute(
    inputs: &ViewInputs<'_>,
    collectives: &MatchedCollectives,
) -> Result<Attributions> {
    let totals = inputs.batch("phase_totals")?;
    if totals.num_rows() != collectives.calls.len() {
        return Err(view_error!(
            "comm_phase_totals and comm_collectives list different collectives"
        ));
    }
    let totals = CollectiveTotalsColumns::of(totals)?;
    let between = |then, now| totals.between(then, now);
    Ok(attribute_waits(&collectives.calls, &collectives.matches, &collectives.clocks, between))
}
