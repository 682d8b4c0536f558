//! Input queries that views of matched collectives share, and the matching itself.

use std::collections::{BTreeMap, HashMap};

use query::columns::{Names, OptIntColumn, names as texts};
use query::rust_view::Result;
use query::{ViewInputs, view_error};
use trace_model::RecordBatch;

use super::argument_text::parse_ranks;
use super::clocks;
use super::matches::{CollectiveMatch, CollectiveTraits, Counting, RankCall, match_collectives};
use super::phase_totals::CollectiveTotalsColumns;
use super::phases::{PhaseTotals, TotalsAtCollective};
use super::wait_attribution::{Attributions, RankClocks};

pub(super) const COLLECTIVES: (&str, &str) = (
    "collectives",
    "SELECT rank, collective, name, group_name, group_description, group_ranks, group_size, sequence,
        sequence_from, input_elements, message_bytes, ts_ns, dur_ns, timed_on, step, phase,
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

/// Collectives of all ranks with their matches and clock offsets.
#[derive(Debug)]
pub(super) struct MatchedCollectives {
    /// In order of ranks.
    pub(super) calls: Vec<RankCall>,
    names: Texts,
    pub(super) groups: Vec<ProcessGroup>,
    pub(super) matches: Vec<CollectiveMatch>,
    /// Details of each match, if they were requested.
    pub(super) details: Vec<MatchDetails>,
    phases: Texts,
    pub(super) clocks: RankClocks,
    /// The `clock` column of `ranks`: how the trace relates the clock of each rank to others.
    pub(super) clock_sources: BTreeMap<i64, String>,
}

/// Properties of a match that are not needed to compare ranks.
#[derive(Debug)]
pub(super) struct MatchDetails {
    /// The message size, if all ranks agree on it.
    pub(super) message_bytes: Option<i64>,
    /// Index of the phase in which the host of the lowest rank called.
    phase: u32,
}

impl MatchedCollectives {
    pub(super) fn name(&self, call: usize) -> &str {
        self.names.get(self.calls[call].name).unwrap_or_default()
    }

    pub(super) fn group(&self, call: usize) -> &ProcessGroup {
        &self.groups[self.calls[call].group as usize]
    }

    /// Returns whether no rank's part of a collective may be cut off by the end of the recording.
    pub(super) fn is_complete(&self, found: &CollectiveMatch) -> bool {
        found.calls().all(|at| self.calls[at].is_complete)
    }

    pub(super) fn phase(&self, details: &MatchDetails) -> Option<&str> {
        self.phases.get(details.phase)
    }
}

/// Texts of several batches. Equal texts have equal indices, in order of their first rows.
#[derive(Debug, Default)]
struct Texts {
    texts: Vec<String>,
    known: HashMap<String, u32>,
}

impl Texts {
    /// The indices of the rows of a column.
    fn add(&mut self, column: &Names) -> Vec<u32> {
        let mut indices: Vec<Option<u32>> = vec![None; column.texts.len()];
        let mut index = |&id: &u32| match indices.get_mut(id as usize) {
            Some(index) => *index.get_or_insert_with(|| self.index(&column.texts[id as usize])),
            None => Names::NONE,
        };
        column.ids.iter().map(&mut index).collect()
    }

    fn index(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.known.get(text) {
            return index;
        }
        let index = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.known.insert(text.to_owned(), index);
        index
    }

    fn get(&self, index: u32) -> Option<&str> {
        self.texts.get(index as usize).map(String::as_str)
    }
}

/// Properties of calls that matching does not need, by call.
#[derive(Debug, Default)]
struct CallDetails {
    message_bytes: Vec<Option<i64>>,
    phases: Vec<u32>,
    phase_texts: Texts,
}

impl CallDetails {
    fn of_match(&self, found: &CollectiveMatch) -> MatchDetails {
        let bytes = self.message_bytes[found.call(0)];
        let message_bytes =
            bytes.filter(|_| found.calls().all(|at| self.message_bytes[at] == bytes));
        MatchDetails { message_bytes, phase: self.phases[found.call(0)] }
    }
}

/// Reads collectives batch by batch.
#[derive(Debug, Default)]
struct CallReader {
    calls: Vec<RankCall>,
    names: Texts,
    group_texts: Texts,
    groups: Vec<ProcessGroup>,
    /// Groups by the indices of their name and of their ranks.
    group_ids: HashMap<(u32, u32), u32>,
    details: Option<CallDetails>,
}

impl CallReader {
    /// Adds the rows of a batch of [`COLLECTIVES`].
    fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let int = |name| OptIntColumn::of(batch, name);
        let text = |name| texts(batch, name);
        let (rank, number, size) = (int("rank")?, int("collective")?, int("group_size")?);
        let (sequence, elements) = (int("sequence")?, int("input_elements")?);
        let (ts, dur) = (int("ts_ns")?, int("dur_ns")?);
        let (step, is_complete) = (int("step")?, int("is_complete")?);
        let (from, timed_on) = (text("sequence_from")?, text("timed_on")?);
        let description = text("group_description")?;
        let names = self.names.add(&text("name")?);
        let group_names = self.group_texts.add(&text("group_name")?);
        let group_ranks = self.group_texts.add(&text("group_ranks")?);
        for row in 0..batch.num_rows() {
            let next = self.groups.len() as u32;
            let (group_name, group_ranks) = (group_names[row], group_ranks[row]);
            let group = *self.group_ids.entry((group_name, group_ranks)).or_insert(next);
            if group == next {
                let own = |text: Option<&str>| text.map(str::to_owned);
                self.groups.push(ProcessGroup {
                    name: own(self.group_texts.get(group_name)),
                    description: own(description.get(row)),
                    ranks: own(self.group_texts.get(group_ranks)),
                    size: size.get(row),
                });
            }
            let counting = match sequence.get(row).filter(|_| from.get(row) == Some("metadata")) {
                Some(sequence) => Counting::BySequence(sequence),
                None => Counting::ByName { elements: elements.get(row) },
            };
            self.calls.push(RankCall {
                rank: rank.value_or_0(row),
                number: number.value_or_0(row),
                name: names[row],
                group,
                counting,
                step: step.get(row),
                interval: ts
                    .get(row)
                    .zip(dur.get(row))
                    .map(|(ts, dur)| (ts, ts.saturating_add(dur))),
                traits: CollectiveTraits::of(self.names.get(names[row]).unwrap_or_default()),
                has_group: group_name != Names::NONE || group_ranks != Names::NONE,
                on_device: timed_on.get(row) == Some("device"),
                is_complete: is_complete.value_or_0(row) == 1,
            });
        }
        if let Some(details) = &mut self.details {
            let message_bytes = int("message_bytes")?;
            details.message_bytes.extend((0..batch.num_rows()).map(|row| message_bytes.get(row)));
            details.phases.extend(details.phase_texts.add(&text("phase")?));
        }
        Ok(())
    }
}

/// Reads collectives, matches them across ranks, and estimates clock offsets.
pub(super) fn load_collectives(
    inputs: &ViewInputs<'_>,
    with_details: bool,
) -> Result<MatchedCollectives> {
    let ranks = inputs.all_rows("ranks")?;
    let (rank, clock) = (OptIntColumn::of(&ranks, "rank")?, texts(&ranks, "clock")?);
    let source = |row| (rank.value_or_0(row), clock.get(row).unwrap_or_default().to_owned());
    let clock_sources: BTreeMap<i64, String> = (0..ranks.num_rows()).map(source).collect();

    let count = inputs.row_count("collectives")?;
    if u32::try_from(count).is_err() {
        return Err(view_error!(
            "the run has {count} collectives; at most {} can be matched",
            u32::MAX
        ));
    }
    let mut reader = CallReader {
        calls: Vec::with_capacity(count),
        details: with_details.then(CallDetails::default),
        ..CallReader::default()
    };
    for batch in inputs.batches("collectives")? {
        reader.read(&batch?)?;
    }
    let CallReader { calls, names, groups, details, .. } = reader;
    let group_ranks_by_id: BTreeMap<u32, Vec<i64>> = groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| Some((at as u32, parse_ranks(group.ranks.as_deref()?)?)))
        .collect();
    let matches = match_collectives(&calls, &group_ranks_by_id);
    let (details, phases) = match details {
        Some(details) => {
            let of_matches = matches.iter().map(|found| details.of_match(found)).collect();
            (of_matches, details.phase_texts)
        }
        None => (Vec::new(), Texts::default()),
    };
    let clocks = RankClocks {
        offsets: clocks::estimate_offsets(&calls, &matches),
        is_shared: clock_sources.values().all(|clock| clock != "relative"),
    };
    Ok(MatchedCollectives { calls, names, groups, matches, details, phases, clocks, clock_sources })
}

/// Time of each rank per phase since the previous collective, by call. Reads the input [`PHASE_TOTALS`] rank by rank.
pub(super) fn totals_since_previous(
    inputs: &ViewInputs<'_>,
    collectives: &MatchedCollectives,
    attributions: &Attributions,
) -> Result<Vec<PhaseTotals>> {
    let calls = &collectives.calls;
    let differ =
        || view_error!("comm_phase_totals and comm_collectives list different collectives");
    if inputs.row_count("phase_totals")? != calls.len() {
        return Err(differ());
    }
    let previous = attributions.previous_calls(calls.len(), &collectives.matches);
    let mut since = vec![PhaseTotals::default(); calls.len()];
    // Totals of the rank that is read, and the index of its first call.
    let (mut of_rank, mut first) = (Vec::<TotalsAtCollective>::new(), 0);
    let mut finish_rank = |of_rank: &mut Vec<TotalsAtCollective>, first: usize| {
        for (place, now) in of_rank.iter().enumerate() {
            let Some(then) = previous[first + place] else { continue };
            // Both calls are of the same rank.
            let then = &of_rank[then as usize - first];
            since[first + place] = std::array::from_fn(|phase| now.start[phase] - then.end[phase]);
        }
        of_rank.clear();
    };
    let mut at = 0;
    for batch in inputs.batches("phase_totals")? {
        let batch = batch?;
        let totals = CollectiveTotalsColumns::of(&batch)?;
        let (rank, number) =
            (OptIntColumn::of(&batch, "rank")?, OptIntColumn::of(&batch, "collective")?);
        for row in 0..batch.num_rows() {
            if (rank.value_or_0(row), number.value_or_0(row)) != (calls[at].rank, calls[at].number)
            {
                return Err(differ());
            }
            if calls[at].rank != calls[first].rank {
                finish_rank(&mut of_rank, first);
                first = at;
            }
            of_rank.push(totals.at(row));
            at += 1;
        }
    }
    finish_rank(&mut of_rank, first);
    Ok(since)
}
