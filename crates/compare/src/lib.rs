//! Compares two runs: names that were added, removed, slower or faster, and their effect on the step.
//!
//! [`diff`] compares means over steps. By default these are all complete steps of the ranks that both runs have; without
//! common ranks, all ranks of each run, so that numbers are those of an average rank. The runs may differ in the number
//! and numbering of their steps.
//!
//! A step is compared in three consistent ways:
//! * **host**: each moment of a step belongs to the innermost range that makes progress (view `diff_host_time`). These
//!   parts add up to the step on the host, so shares of its change do too. Time in the mark of the step itself, or in
//!   no recorded event, is *not explained*.
//! * **device**: each moment of a step is in one state, computation, exposed communication, exposed
//!   copies or idle (view `diff_device_time`); these add up to the step as well.
//! * **names**: calls and time of every name (view `diff_by_name`). On the device and for ranges around other ranges these
//!   overlap and do not add up.
//!
//! Memory is compared by its owners at the peak ([`MemoryDiff`]). Runs that have nothing but memory snapshots are
//! compared by it alone.
//!
//! A [`Verdict`] tells whether the median step got slower, given the variation between steps.
//!
//! [`Difference`]s are of the runs as a whole: another GPU, other ranks, another batch. Runs that did different work are not
//! comparable; their numbers are there all the same.
//!
//! [`Matched`] describes how names were matched: equal names first, then names that differ only in parts that change
//! with versions, vendors and installations. Matches of the second kind are marked.

mod categories;
mod differences;
mod headline_measures;
mod hta_trace_diff;
mod level;
mod matching;
mod memory;
mod names;
mod options;
mod rows;
mod run_totals;
mod summary;
mod tables;
mod verdict;

pub use categories::{Category, Group};
pub use differences::Difference;
pub use headline_measures::Measure;
pub use hta_trace_diff::{DeviceType, compare_traces};
pub use level::Level;
pub use matching::Matched;
pub use memory::{
    BatchScaling, DeviceMemory, MemoryDiff, MemoryHolder, owner_phrase, signed_bytes,
};
pub use options::{DiffOptions, SideOptions, Sort, Steps};
pub use rows::{Amounts, Change, Row};
pub use summary::{Explained, Side, StepPair, Summary, Unit};
pub use tables::metrics;
pub use verdict::{Outcome, Sample, Verdict};

use trace_model::{MetricTable, RecordBatch};

use self::differences::ComparedRun;
use self::memory::RunMemory;
use self::run_totals::{
    SelectedSteps, StepFilter, TotalsOptions, has_steps, name_totals, run_ranks, select_steps,
};
use query::columns::ints;
use query::{Error, Result, Session};

/// The comparison of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Differences between the runs as a whole.
    pub differences: Vec<Difference>,
    /// The step, and how much of its change is explained.
    pub summary: Summary,
    /// The time of a step by category; empty if whole recordings were compared.
    pub categories: Vec<Category>,
    /// Every name of either run.
    pub rows: Vec<Row>,
    /// Whether the step got slower.
    pub verdict: Verdict,
    /// The headline measures of both runs.
    pub before_after: Vec<Measure>,
    /// Who holds memory at the peaks; absent if the runs did not both record it.
    pub memory: Option<MemoryDiff>,
    /// The metric tables that rules evaluate, see [`metrics`].
    pub tables: Vec<MetricTable>,
}

impl Diff {
    /// The rows as an Arrow batch, or what holds memory if memory alone was compared. The meaning of a column is in
    /// its field's metadata under `doc`.
    pub fn batch(&self) -> Result<RecordBatch> {
        match &self.memory {
            Some(memory) if self.summary.unit == Unit::Memory => memory.batch(),
            _ => rows::batch(&self.rows),
        }
    }
}

/// Compares two runs.
pub fn diff(before: &Session, after: &Session, options: &DiffOptions) -> Result<Diff> {
    let b_memory = RunMemory::read(before, &options.before)?;
    let a_memory = RunMemory::read(after, &options.after)?;
    let ranks = (b_memory.ranks(), a_memory.ranks());
    let memory = memory::compare(b_memory, a_memory);
    let has_times = (has_steps(before)?, has_steps(after)?);
    if let Some(memory) = &memory
        && has_times != (true, true)
    {
        let run = |session, ranks| ComparedRun { session, ranks, steps: None };
        let runs = [run(before, &ranks.0), run(after, &ranks.1)];
        return memory_diff(memory, runs, has_times, options);
    }
    if has_times.0 != has_times.1 {
        let (snapshots, times) =
            if has_times.1 { ("before", "after") } else { ("after", "before") };
        return Err(Error::Selection(format!(
            "the run {snapshots} has no events with a time, and the run {times} recorded no memory of the same devices: \
             there is nothing that both tell"
        )));
    }
    let (b, a, left_out) = select_both(before, after, options)?;
    // Steps are compared with steps, and recordings with recordings.
    let unit = if b.is_marked() && a.is_marked() { Unit::Step } else { Unit::Recording };
    let mixed = b.is_marked() != a.is_marked();
    let totals_options = TotalsOptions {
        short_names: options.short_names,
        as_written: false,
        whole_recording: mixed,
    };
    let b_names = name_totals(before, &b, totals_options)?;
    let a_names = name_totals(after, &a, totals_options)?;
    let pairs = matching::pairs(b_names.keys().collect(), a_names.keys().collect());
    let counts =
        if mixed { (b.ranks.len(), a.ranks.len()) } else { (b.steps.len(), a.steps.len()) };
    let mut rows =
        rows::rows(&pairs, (&b_names, counts.0), (&a_names, counts.1), options.tolerance);
    let parts = if mixed {
        None
    } else {
        Some((categories::parts(before, &b)?, categories::parts(after, &a)?))
    };
    let mut categories =
        parts.as_ref().map_or_else(Vec::new, |(b, a)| categories::categories(b, a));
    let times =
        if mixed { Some((recording_ns(before, &b)?, recording_ns(after, &a)?)) } else { None };
    let mut summary = summary::summary((&b, &a), unit, times, &rows);
    if let Some(change_ns) = summary.change_for_shares() {
        for row in &mut rows {
            let counts = row.level.is_device_work() || !row.level.is_device();
            row.step_change_ratio = counts.then(|| row.impact_ns() / change_ns);
        }
        for category in categories.iter_mut().filter(|c| c.unit == "ns") {
            category.step_change_ratio = Some(category.diff() / change_ns);
        }
    }
    summary.headline = summary::headline(&summary, &categories, &rows);
    summary.notes.extend(left_out);
    let runs = [(before, &b), (after, &a)].map(|(session, selected)| ComparedRun {
        session,
        ranks: &selected.ranks,
        steps: Some(selected),
    });
    let differences = differences::differences(runs, &rows, memory.as_ref())?;
    let verdict = verdict::verdict((&b, &a), unit, summary.change_ratio, options.least_change)
        .unless_not_comparable(&differences);
    for (selected, side) in [(&b, "before"), (&a, "after")] {
        if selected.left_out_steps > 0 {
            summary.notes.push(format!(
                "{side}: the first step is left out: it is warm-up, or its length does not compare (see `complete_steps`)"
            ));
        }
    }
    let note = verdict.mean_note(&summary, (&b, &a));
    summary.notes.extend(note);
    let run =
        |session, selected, parts| headline_measures::MeasuredRun { session, selected, parts };
    let before_after = headline_measures::headline_measures(
        run(before, &b, parts.as_ref().map(|p| &p.0)),
        run(after, &a, parts.as_ref().map(|p| &p.1)),
        &verdict,
    )?;
    let tables = tables::tables(&verdict, Some((&summary, &rows)), memory.as_ref());
    if !options.levels.is_empty() {
        rows.retain(|row| options.levels.contains(&row.level));
    }
    rows::sort(&mut rows, options.sort);
    Ok(Diff { differences, summary, categories, rows, verdict, before_after, memory, tables })
}

/// Compares memory alone. `has_times`: before, after.
fn memory_diff(
    memory: &MemoryDiff,
    runs: [ComparedRun<'_>; 2],
    has_times: (bool, bool),
    options: &DiffOptions,
) -> Result<Diff> {
    let sides = match has_times {
        (true, _) => "the run after has",
        (_, true) => "the run before has",
        _ => "the runs have",
    };
    let differences = differences::differences(runs, &[], Some(memory))?;
    let verdict =
        verdict::memory_verdict(memory, options.least_change).unless_not_comparable(&differences);
    Ok(Diff {
        differences,
        summary: summary::memory_summary((runs[0].ranks, runs[1].ranks), memory, sides),
        categories: Vec::new(),
        rows: Vec::new(),
        before_after: headline_measures::memory_measures(memory),
        tables: tables::tables(&verdict, None, Some(memory)),
        verdict,
        memory: Some(memory.clone()),
    })
}

/// The steps of both runs to compare, by default of the ranks that both runs have, and notes about the ranks that this
/// leaves out.
fn select_both(
    before: &Session,
    after: &Session,
    options: &DiffOptions,
) -> Result<(SelectedSteps, SelectedSteps, Vec<String>)> {
    let (b_ranks, a_ranks) = (run_ranks(before)?, run_ranks(after)?);
    let b_requested = options.before.ranks.as_ref().unwrap_or(&b_ranks);
    let a_requested = options.after.ranks.as_ref().unwrap_or(&a_ranks);
    let common: Vec<i32> =
        b_requested.iter().copied().filter(|r| a_requested.contains(r)).collect();
    let mut notes = Vec::new();
    let is_chosen = options.before.ranks.is_some() || options.after.ranks.is_some();
    for (side, other, ranks) in [("before", "after", &b_ranks), ("after", "before", &a_ranks)] {
        let alone: Vec<i32> = ranks.iter().copied().filter(|r| !common.contains(r)).collect();
        if !common.is_empty() && !alone.is_empty() && !is_chosen {
            let why = format!("the run {other} has no rank of that number");
            notes.push(summary::left_out_note(side, &alone, &why));
        }
    }
    let (b_ranks, a_ranks) =
        if common.is_empty() { (b_ranks, a_ranks) } else { (common.clone(), common) };
    Ok((
        select_steps(before, "before", &options.before, &b_ranks, StepFilter::Complete)?,
        select_steps(after, "after", &options.after, &a_ranks, StepFilter::Complete)?,
        notes,
    ))
}

/// Mean length of the recordings of the ranks.
fn recording_ns(session: &Session, selected: &SelectedSteps) -> Result<f64> {
    let mut sum = 0.0;
    for batch in session.sql("SELECT rank, end_ns - start_ns AS dur_ns FROM ranks")? {
        let (rank, dur) = (ints(&batch, "rank")?, ints(&batch, "dur_ns")?);
        let of_ranks = rank.values().iter().zip(dur.values());
        let of_ranks = of_ranks.filter(|(r, _)| selected.ranks.contains(&(**r as i32)));
        sum += of_ranks.map(|(_, ns)| *ns as f64).sum::<f64>();
    }
    Ok(sum / selected.ranks.len().max(1) as f64)
}
