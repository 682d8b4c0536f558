//! The comparison in a few numbers and a sentence.

use std::fmt::Write as _;

use serde::Serialize;
use trace_model::number::plural;
use trace_model::time::human;

use crate::categories::{Category, Group, largest_changes};
use crate::level::Level;
use crate::memory::MemoryDiff;
use crate::names::STEP;
use crate::rows::Row;
use crate::run_totals::SelectedSteps;

/// The unit of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Mean steps.
    Step,
    /// Whole recordings, because at least one of the runs has no steps.
    Recording,
    /// Memory alone, because at least one of the runs has nothing but memory snapshots. All times are 0.
    Memory,
}

impl Unit {
    /// `step`, `recording` or `memory`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Recording => "recording",
            Self::Memory => "memory",
        }
    }
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Ranks compared.
    pub ranks: Vec<i32>,
    /// Steps compared, of the rank with most steps; 0 without steps.
    pub steps: usize,
    /// Mean step (or recording), until host and device have finished it.
    pub mean_ns: f64,
    /// Median step.
    pub median_ns: f64,
    /// Mean step on the host.
    pub host_ns: f64,
}

impl Side {
    /// The ranks and steps of the run: `2 ranks, 4 steps`; of memory alone `memory of rank 0`.
    pub fn phrase(&self, unit: Unit) -> String {
        let ranks = match self.ranks.as_slice() {
            [rank] => format!("rank {rank}"),
            ranks => plural(ranks.len(), "rank"),
        };
        match (unit, self.steps) {
            (Unit::Memory, _) => format!("memory of {ranks}"),
            (_, 0) => format!("{ranks}, no steps"),
            (_, steps) => format!("{ranks}, {}", plural(steps, "step")),
        }
    }
}

/// The part of the change of the step that named events explain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Explained {
    /// Change of the step.
    pub change_ns: f64,
    /// Part of it in ranges, calls and frames with a name, and in device work that outlasts the host.
    pub named_ns: f64,
    /// The rest: host time of the step in which nothing was recorded but the step itself.
    pub unrecorded_ns: f64,
    /// `named_ns` over `change_ns`; above 1 if the rest changed in the other direction. Absent if the step hardly
    /// changed.
    pub ratio: Option<f64>,
}

/// The n-th step of one run and the n-th of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StepPair {
    /// Rank before.
    pub before_rank: i32,
    /// Its step.
    pub before_step: i64,
    /// Its duration.
    pub before_ns: i64,
    /// Rank after.
    pub after_rank: i32,
    /// Its step.
    pub after_step: i64,
    /// Its duration.
    pub after_ns: i64,
}

/// The comparison in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The comparison in a sentence.
    pub headline: String,
    /// The unit of comparison.
    pub unit: Unit,
    /// The run before.
    pub before: Side,
    /// The run after.
    pub after: Side,
    /// Change of the mean step over the step before; absent if that is 0.
    pub change_ratio: Option<f64>,
    /// Change of the median step over the median before; absent if that is 0.
    pub median_change_ratio: Option<f64>,
    /// The explained part of the change; absent if recordings were compared because only one run has steps.
    pub explained: Option<Explained>,
    /// Pairs of steps by order, as many as the shorter run has.
    pub steps: Vec<StepPair>,
    /// Limitations of the comparison.
    pub notes: Vec<String>,
}

/// Relative changes of the step below this are too small to attribute shares of them.
const SMALL_CHANGE: f64 = 0.005;

impl Summary {
    /// Change of the mean step.
    pub fn change_ns(&self) -> f64 {
        self.after.mean_ns - self.before.mean_ns
    }

    /// The change of the mean step, if it is large enough to attribute shares of it.
    pub(super) fn change_for_shares(&self) -> Option<f64> {
        let change = self.change_ns();
        let large = change.abs() > SMALL_CHANGE * self.before.mean_ns && self.explained.is_some();
        large.then_some(change)
    }
}

/// `recordings` are the durations to compare if steps cannot be compared.
pub(super) fn summary(
    (before, after): (&SelectedSteps, &SelectedSteps),
    unit: Unit,
    recordings: Option<(f64, f64)>,
    rows: &[Row],
) -> Summary {
    let side = |selected: &SelectedSteps, recording: Option<f64>| Side {
        ranks: selected.ranks.clone(),
        steps: selected.steps_per_rank(),
        mean_ns: recording.unwrap_or_else(|| selected.mean(|s| s.dur_ns)),
        median_ns: recording.unwrap_or_else(|| selected.median_ns()),
        host_ns: recording.unwrap_or_else(|| selected.mean(|s| s.host_ns)),
    };
    let b = side(before, recordings.map(|r| r.0));
    let a = side(after, recordings.map(|r| r.1));
    let ratio = |b: f64, a: f64| (b > 0.0).then(|| (a - b) / b);
    let change_ns = a.mean_ns - b.mean_ns;
    let unrecorded_ns: f64 =
        rows.iter().filter(|r| is_unrecorded(r)).map(|r| r.after.step_ns - r.before.step_ns).sum();
    let named_ns = change_ns - unrecorded_ns;
    let large = change_ns.abs() > SMALL_CHANGE * b.mean_ns;
    let explained = recordings.is_none().then(|| Explained {
        change_ns,
        named_ns,
        unrecorded_ns,
        ratio: large.then(|| named_ns / change_ns),
    });
    Summary {
        headline: String::new(),
        unit,
        change_ratio: ratio(b.mean_ns, a.mean_ns),
        median_change_ratio: ratio(b.median_ns, a.median_ns),
        before: b,
        after: a,
        explained,
        steps: if unit == Unit::Step { step_pairs(before, after) } else { Vec::new() },
        notes: notes(before, after, unit),
    }
}

/// The summary of a comparison of memory alone.
pub(super) fn memory_summary(
    (before, after): (&[i32], &[i32]),
    memory: &MemoryDiff,
    sides_without_times: &str,
) -> Summary {
    let side = |ranks: &[i32]| Side {
        ranks: ranks.to_vec(),
        steps: 0,
        mean_ns: 0.0,
        median_ns: 0.0,
        host_ns: 0.0,
    };
    Summary {
        headline: memory
            .owners_phrase()
            .unwrap_or_else(|| "each owner holds as much as before".to_owned()),
        unit: Unit::Memory,
        before: side(before),
        after: side(after),
        change_ratio: None,
        median_change_ratio: None,
        explained: None,
        steps: Vec::new(),
        notes: vec![format!(
            "{sides_without_times} only memory snapshots: memory is compared, steps and operators are not"
        )],
    }
}

/// Whether a row is host time without a recorded event.
pub(super) fn is_unrecorded(row: &Row) -> bool {
    row.level == Level::None || row.name == STEP
}

fn step_pairs(before: &SelectedSteps, after: &SelectedSteps) -> Vec<StepPair> {
    let mut pairs = Vec::new();
    for (&b_rank, &a_rank) in before.ranks.iter().zip(&after.ranks) {
        let b = before.steps.iter().filter(|s| s.rank == b_rank);
        let a = after.steps.iter().filter(|s| s.rank == a_rank);
        pairs.extend(b.zip(a).map(|(b, a)| StepPair {
            before_rank: b.rank,
            before_step: b.step,
            before_ns: b.dur_ns,
            after_rank: a.rank,
            after_step: a.step,
            after_ns: a.dur_ns,
        }));
    }
    pairs
}

fn notes(before: &SelectedSteps, after: &SelectedSteps, unit: Unit) -> Vec<String> {
    let mut notes = Vec::new();
    if unit == Unit::Recording {
        let which = match (before.is_marked(), after.is_marked()) {
            (false, false) => "neither run marks steps",
            (true, _) => "the run after marks no steps",
            (false, true) => "the run before marks no steps",
        };
        notes.push(format!(
            "{which}: whole recordings are compared, which says little unless both runs did the same work"
        ));
    }
    if before.ranks != after.ranks {
        notes.push(format!(
            "the runs have different ranks (before: {}; after: {}): numbers are means over the ranks of each run",
            list(&before.ranks),
            list(&after.ranks)
        ));
    }
    for (selected, side) in [(before, "before"), (after, "after")] {
        if !selected.without_steps.is_empty() {
            notes.push(left_out_note(side, &selected.without_steps, "no steps are marked there"));
        }
    }
    notes
}

/// `before: ranks 2, 3 are left out: no steps are marked there`.
pub(super) fn left_out_note(side: &str, ranks: &[i32], why: &str) -> String {
    let (noun, be) = if ranks.len() == 1 { ("rank", "is") } else { ("ranks", "are") };
    format!("{side}: {noun} {} {be} left out: {why}", list(ranks))
}

fn list(ranks: &[i32]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
    if ranks.len() > SHOWN {
        text.push(format!("... {} in all", ranks.len()));
    }
    text.join(", ")
}

/// `mean step 178 ms -> 141 ms (-20.6 %): loading data -67.9 ms, forward +14.4 ms, the rest +16.9 ms = -36.5 ms; on the
/// GPU: idle -38.3 ms, computation +1.80 ms = -36.5 ms`.
pub(super) fn headline(summary: &Summary, categories: &[Category], rows: &[Row]) -> String {
    let (b, a) = (&summary.before, &summary.after);
    let what = match summary.unit {
        Unit::Step => "mean step",
        Unit::Recording | Unit::Memory => "recording",
    };
    let mut text = format!("{what} {} -> {}", human(b.mean_ns), human(a.mean_ns));
    let Some(ratio) = summary.change_ratio else { return text };
    let _ = write!(text, " ({:+.1} %)", ratio * 100.0);
    let Some(change_ns) = summary.change_for_shares() else {
        if summary.explained.is_some() {
            text.push_str(", about the same");
        }
        return text;
    };
    let host = largest_changes(categories, Group::Host);
    let mut clauses = vec![sum(&host, change_ns)];
    // For the data loader, the category is specific enough.
    if host.first().is_some_and(|(part, _)| *part != "loading data") {
        clauses.extend(most_of_host(change_ns, rows));
    }
    let device = sum(&largest_changes(categories, Group::Device), change_ns);
    if !device.is_empty() {
        clauses.push(format!("on the GPU: {device}"));
    }
    clauses.retain(|clause| !clause.is_empty());
    if !clauses.is_empty() {
        let _ = write!(text, ": {}", clauses.join("; "));
    }
    text
}

/// `loading data -44.0 ms, forward +14.4 ms = -29.6 ms`; no sum of a single part.
fn sum(parts: &[(&str, f64)], change_ns: f64) -> String {
    let terms: Vec<String> =
        parts.iter().map(|(part, ns)| format!("{part} {}", signed(*ns))).collect();
    let total = if terms.len() > 1 { format!(" = {}", signed(change_ns)) } else { String::new() };
    terms.join(", ") + &total
}

/// The name that the host spends most of the change on, if it is more than a third of the change.
fn most_of_host(change_ns: f64, rows: &[Row]) -> Option<String> {
    let diff = |row: &Row| row.after.step_ns - row.before.step_ns;
    let row = rows
        .iter()
        .filter(|r| !r.level.is_device() && !is_unrecorded(r))
        .max_by(|x, y| (diff(x) * change_ns).total_cmp(&(diff(y) * change_ns)))?;
    let is_most = diff(row) / change_ns > 1.0 / 3.0;
    is_most.then(|| format!("the largest by name: {} {}", row.name, signed(diff(row))))
}

/// `+1.20 ms`.
fn signed(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", human(ns)) } else { human(ns) }
}
