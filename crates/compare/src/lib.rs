//! Two runs compared: what was added, removed, slower or faster, and what that did to a step.
//!
//! [`diff`] compares means over steps. By default these are all complete steps of the ranks that both
//! runs have; if they have none in common, all ranks of each, so that numbers are those of an average
//! rank. Steps need not have the same numbers, nor need there be as many.
//!
//! A step is compared in three ways that do not contradict each other:
//! * **host**: each moment of a step belongs to the innermost range that makes progress (view
//!   `diff_host_time`). These parts add up to the step on the host, so shares of its change do too.
//!   What remains in the mark of the step itself, or in nothing recorded, is *not explained*.
//! * **device**: each moment of a step is in one state, computation, exposed communication, exposed
//!   copies or idle (view `diff_device_time`); these add up to the step as well.
//! * **names**: calls and time of every name (view `diff_by_name`). On the device and for ranges around
//!   others these overlap and add up to nothing.
//!
//! Whether the median step got slower is a [`Verdict`], held against how much steps vary by themselves.
//!
//! Names are matched by [`Matched`]: the same name first, then names that differ only in what changes
//! with versions, vendors and installations. A match of the second kind is marked.

mod before_after;
mod categories;
mod hta;
mod level;
mod matching;
mod names;
mod options;
mod rows;
mod side;
mod summary;
mod tables;
mod verdict;

pub use before_after::Measure;
pub use categories::{Category, Group};
pub use hta::{DeviceType, compare_traces};
pub use level::Level;
pub use matching::Matched;
pub use options::{DiffOptions, SideOptions, Sort, Steps};
pub use rows::{Amounts, Change, Row};
pub use summary::{Explained, Side, StepPair, Summary, Unit};
pub use tables::metrics;
pub use verdict::{Outcome, Sample, Verdict};

use trace_model::{MetricTable, RecordBatch};

use self::side::{Chosen, Reading, Which, choose, ranks};
use query::Result;
use query::Session;

/// Two runs compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The step, and how much of its change is explained.
    pub summary: Summary,
    /// Where the time of a step goes; none if the recordings as a whole were compared.
    pub categories: Vec<Category>,
    /// Every name of either run.
    pub rows: Vec<Row>,
    /// Whether the step got slower.
    pub verdict: Verdict,
    /// What everybody asks for first.
    pub before_after: Vec<Measure>,
    /// What rules judge: [`metrics`].
    pub tables: Vec<MetricTable>,
}

impl Diff {
    /// The rows as an Arrow batch; the meaning of a column is in its field's metadata under `doc`.
    pub fn batch(&self) -> Result<RecordBatch> {
        rows::batch(&self.rows)
    }
}

/// A step that changes by less than this share did not change: shares of it would say nothing.
pub(crate) const SMALL_CHANGE: f64 = 0.005;

/// Compares two runs.
pub fn diff(before: &Session, after: &Session, options: &DiffOptions) -> Result<Diff> {
    let (b, a) = chosen(before, after, options)?;
    // Steps are compared with steps, a recording with a recording.
    let unit = if b.is_marked() && a.is_marked() { Unit::Step } else { Unit::Recording };
    let mixed = b.is_marked() != a.is_marked();
    let reading =
        Reading { short_names: options.short_names, as_written: false, whole_recording: mixed };
    let (b_names, a_names) = (side::names(before, &b, reading)?, side::names(after, &a, reading)?);
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
    let verdict = verdict::verdict((&b, &a), unit, summary.change_ratio, options.least_change);
    for (sample, side) in [(&verdict.before, "before"), (&verdict.after, "after")] {
        if let Some(n) = sample.as_ref().map(|s| s.warm_up_steps).filter(|n| *n > 0) {
            let steps =
                if n == 1 { "the first step".to_owned() } else { format!("the first {n} steps") };
            summary.notes.push(format!(
                "{side}: {steps} took more than 1.5 times as long as the rest; the verdict and the first table leave that out as warm-up"
            ));
        }
    }
    let run = |session, chosen, parts| before_after::Run { session, chosen, parts };
    let before_after = before_after::before_after(
        run(before, &b, parts.as_ref().map(|p| &p.0)),
        run(after, &a, parts.as_ref().map(|p| &p.1)),
        &verdict,
    )?;
    let tables = tables::tables(&verdict, &summary, &rows);
    if !options.levels.is_empty() {
        rows.retain(|row| options.levels.contains(&row.level));
    }
    rows::sort(&mut rows, options.sort);
    Ok(Diff { summary, categories, rows, verdict, before_after, tables })
}

/// The steps to compare. Where nobody says otherwise, ranks that both runs have.
fn chosen(before: &Session, after: &Session, options: &DiffOptions) -> Result<(Chosen, Chosen)> {
    let (b_ranks, a_ranks) = (ranks(before)?, ranks(after)?);
    let b_wanted = options.before.ranks.as_ref().unwrap_or(&b_ranks);
    let a_wanted = options.after.ranks.as_ref().unwrap_or(&a_ranks);
    let common: Vec<i32> = b_wanted.iter().copied().filter(|r| a_wanted.contains(r)).collect();
    let (b_ranks, a_ranks) =
        if common.is_empty() { (b_ranks, a_ranks) } else { (common.clone(), common) };
    Ok((
        choose(before, "before", &options.before, &b_ranks, Which::Complete)?,
        choose(after, "after", &options.after, &a_ranks, Which::Complete)?,
    ))
}

/// Mean length of the recordings of the ranks.
fn recording_ns(session: &Session, chosen: &Chosen) -> Result<f64> {
    let mut sum = 0.0;
    for batch in session.sql("SELECT rank, end_ns - start_ns AS dur_ns FROM ranks")? {
        let (rank, dur) = (side::ints(&batch, "rank")?, side::ints(&batch, "dur_ns")?);
        let mine = rank.values().iter().zip(dur.values());
        let mine = mine.filter(|(r, _)| chosen.ranks.contains(&(**r as i32)));
        sum += mine.map(|(_, ns)| *ns as f64).sum::<f64>();
    }
    Ok(sum / chosen.ranks.len().max(1) as f64)
}
