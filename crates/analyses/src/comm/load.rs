//! What the views of matched collectives read, and the work they share.

use std::collections::{BTreeMap, HashMap};

use query::rust_view::Result;
use query::view_error;

use super::judge::{Clocks, Judged, judge};
use super::matches::{Call, Kind, Match, matches};
use super::spent;
use super::{clocks, names};
use query::columns::OptIntColumn;
use query::columns::names as texts;
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
/// What ranks spent their time on until their collectives began and ended, in the order of [`COLLECTIVES`].
pub(super) const SPENT: (&str, &str) =
    ("spent", "SELECT * FROM comm_phase_totals ORDER BY rank, collective");

/// What a process group is called.
#[derive(Debug, Default, Clone)]
pub(super) struct Group {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) ranks: Option<String>,
    pub(super) size: Option<i64>,
}

/// Collectives of all ranks, matched.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) calls: Vec<Call>,
    pub(super) names: Vec<String>,
    pub(super) groups: Vec<Group>,
    pub(super) message_bytes: Vec<Option<i64>>,
    pub(super) phases: Vec<Option<String>>,
    pub(super) matches: Vec<Match>,
    pub(super) clocks: Clocks,
    /// How the trace says the clock of each rank relates to others.
    pub(super) stated: BTreeMap<i64, String>,
}

impl Loaded {
    pub(super) fn name(&self, call: usize) -> &str {
        self.names.get(self.calls[call].name as usize).map_or("", String::as_str)
    }

    pub(super) fn group(&self, call: usize) -> &Group {
        &self.groups[self.calls[call].group as usize]
    }
}

/// Reads collectives, matches them and compares clocks.
pub(super) fn load(inputs: &ViewInputs<'_>) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    let ranks = inputs.batch("ranks")?;
    let (rank, clock) = (OptIntColumn::of(ranks, "rank")?, texts(ranks, "clock")?);
    for row in 0..ranks.num_rows() {
        loaded.stated.insert(rank.value_or_0(row), clock.get(row).unwrap_or_default().to_owned());
    }

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
    let mut groups: HashMap<(u32, u32), u32> = HashMap::new();
    for row in 0..batch.num_rows() {
        let next = loaded.groups.len() as u32;
        let group = *groups.entry((group_name.ids[row], group_ranks.ids[row])).or_insert(next);
        if group == next {
            let own = |text: Option<&str>| text.map(str::to_owned);
            loaded.groups.push(Group {
                name: own(group_name.get(row)),
                description: own(description.get(row)),
                ranks: own(group_ranks.get(row)),
                size: size.get(row),
            });
        }
        loaded.calls.push(Call {
            rank: rank.value_or_0(row),
            number: number.value_or_0(row),
            name: name.ids[row],
            kind: Kind::of(name.get(row).unwrap_or_default()),
            group,
            has_group: group_name.get(row).is_some() || group_ranks.get(row).is_some(),
            sequence: sequence.get(row).filter(|_| from.get(row) == Some("metadata")),
            elements: elements.get(row),
            step: step.get(row),
            at_ns: host.get(row).or(ts.get(row)).unwrap_or_default(),
            interval: ts.get(row).zip(dur.get(row)).map(|(ts, dur)| (ts, ts.saturating_add(dur))),
            on_device: timed_on.get(row) == Some("device"),
            is_complete: is_complete.value_or_0(row) == 1,
        });
        loaded.message_bytes.push(message.get(row));
        loaded.phases.push(phase.get(row).map(str::to_owned));
    }
    loaded.names = name.texts;
    let listed: BTreeMap<u32, Vec<i64>> = loaded
        .groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| Some((at as u32, names::ranks(group.ranks.as_deref()?)?)))
        .collect();
    loaded.matches = matches(&loaded.calls, &listed);
    loaded.clocks = Clocks {
        found: clocks::clocks(&loaded.calls, &loaded.matches),
        shared: loaded.stated.values().all(|clock| clock != "relative"),
    };
    Ok(loaded)
}

/// Who arrived last and why, of every match; needs [`SPENT`].
pub(super) fn judged(inputs: &ViewInputs<'_>, loaded: &Loaded) -> Result<Judged> {
    let spent = spent::read(inputs.batch("spent")?)?;
    if spent.len() != loaded.calls.len() {
        return Err(view_error!("comm_phase_totals is not about the same collectives"));
    }
    Ok(judge(&loaded.calls, &loaded.matches, &loaded.clocks, &spent))
}
