//! One of the two runs: the selected steps, and totals by name over them.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::Array;

use crate::level::Level;
use crate::matching::Key;
use crate::names;
use crate::options::{SideOptions, Steps};
use query::Session;
use query::columns::{ints, texts};
use query::{Error, Result};

/// A step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepTime {
    pub(super) rank: i32,
    pub(super) step: i64,
    /// Whether the profiler or the optimizer marked it; else it is the whole recording.
    pub(super) is_marked: bool,
    /// Until host and device have finished it.
    pub(super) dur_ns: i64,
    /// On the host.
    pub(super) host_ns: i64,
    /// Whether means count it, see the view `complete_steps`.
    pub(super) is_counted: bool,
}

/// The steps to select from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepFilter {
    /// Steps whose device work was recorded to its end.
    Complete,
    /// All recorded steps.
    Recorded,
}

/// The steps of a run that are compared, in order of rank and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelectedSteps {
    pub(super) ranks: Vec<i32>,
    pub(super) steps: Vec<StepTime>,
    /// Whether the selection is exactly the steps that views count.
    pub(super) is_complete: bool,
    /// Number of first steps that are left out because they are warm-up or began before their device work.
    pub(super) left_out_steps: usize,
    /// Ranks that are left out because they have no steps while other ranks do.
    pub(super) without_steps: Vec<i32>,
}

impl SelectedSteps {
    pub(super) fn is_marked(&self) -> bool {
        self.steps.iter().any(|s| s.is_marked)
    }

    /// Mean of a value over steps and ranks.
    pub(super) fn mean(&self, value: impl Fn(&StepTime) -> i64) -> f64 {
        let sum: f64 = self.steps.iter().map(|s| value(s) as f64).sum();
        sum / self.steps.len().max(1) as f64
    }

    pub(super) fn median_ns(&self) -> f64 {
        let mut times: Vec<i64> = self.steps.iter().map(|s| s.dur_ns).collect();
        median(&mut times)
    }

    /// Number of steps of the rank with most steps.
    pub(super) fn steps_per_rank(&self) -> usize {
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        for step in self.steps.iter().filter(|s| s.is_marked) {
            *counts.entry(step.rank).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Positions of the steps by rank and number.
    pub(super) fn positions(&self) -> BTreeMap<(i32, i64), usize> {
        self.steps.iter().enumerate().map(|(at, s)| ((s.rank, s.step), at)).collect()
    }
}

pub(super) fn median(values: &mut [i64]) -> f64 {
    values.sort_unstable();
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2] as f64,
        n => f64::midpoint(values[n / 2 - 1] as f64, values[n / 2] as f64),
    }
}

/// The ranks of a run.
pub(super) fn run_ranks(session: &Session) -> Result<Vec<i32>> {
    let mut ranks = Vec::new();
    for batch in session.sql("SELECT rank FROM ranks ORDER BY rank")? {
        ranks.extend(ints(&batch, "rank")?.values().iter().map(|&r| r as i32));
    }
    Ok(ranks)
}

/// Selects the steps to compare. `side` is `before` or `after`, for errors; `ranks` are the ranks to select from if the
/// selection does not name any.
pub(super) fn select_steps(
    session: &Session,
    side: &str,
    selection: &SideOptions,
    ranks: &[i32],
    filter: StepFilter,
) -> Result<SelectedSteps> {
    let mut all = read_steps(session, filter)?;
    let known: BTreeSet<i32> = all.iter().map(|s| s.rank).collect();
    let mut ranks = match &selection.ranks {
        None => ranks.to_vec(),
        Some(wanted) => {
            if let Some(missing) = wanted.iter().find(|r| !known.contains(r)) {
                let existing: Vec<String> = known.iter().map(ToString::to_string).collect();
                let existing =
                    if existing.is_empty() { "none".to_owned() } else { existing.join(", ") };
                return Err(Error::Selection(format!(
                    "the run {side} has no rank {missing}; it has {existing}"
                )));
            }
            wanted.clone()
        }
    };
    ranks.retain(|r| known.contains(r));
    ranks.sort_unstable();
    ranks.dedup();
    all.retain(|s| ranks.contains(&s.rank));
    let mut without_steps = Vec::new();
    if all.iter().any(|s| s.is_marked) {
        without_steps = all.iter().filter(|s| !s.is_marked).map(|s| s.rank).collect();
        all.retain(|s| s.is_marked);
        ranks.retain(|r| !without_steps.contains(r));
    }
    let counted = all.iter().filter(|s| s.is_counted).count();
    let mut left_out: BTreeSet<i64> = BTreeSet::new();
    let numbers: BTreeSet<i64> = all.iter().map(|s| s.step).collect();
    match &selection.steps {
        Steps::All => all.retain(|s| {
            if !s.is_counted {
                left_out.insert(s.step);
            }
            s.is_counted
        }),
        Steps::First => {
            let mut first: BTreeMap<i32, i64> = BTreeMap::new();
            for step in &all {
                let at = first.entry(step.rank).or_insert(step.step);
                *at = step.step.min(*at);
            }
            all.retain(|s| first.get(&s.rank) == Some(&s.step));
        }
        steps @ Steps::Numbers(ranges) => {
            for &(from, to) in ranges {
                if numbers.range(from..=to).next().is_none() {
                    let existing: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                    let wanted = match (from, to) {
                        (from, to) if from == to => format!("step {from}"),
                        (from, i64::MAX) => format!("step from {from} on"),
                        (from, to) => format!("step from {from} to {to}"),
                    };
                    let complete = if filter == StepFilter::Complete { "complete " } else { "" };
                    return Err(Error::Selection(format!(
                        "the run {side} has no {complete}{wanted}; it has {}",
                        existing.join(", ")
                    )));
                }
            }
            all.retain(|s| steps.contains(s.step));
        }
    }
    if all.is_empty() {
        let reason = if left_out.is_empty() {
            "has no events to compare"
        } else {
            "has no step to compare: each is warm-up, lacks device work, or has a length that does not compare \
             (see `complete_steps`); select steps to compare them anyway"
        };
        return Err(Error::Selection(format!("the run {side} {reason}")));
    }
    let is_complete = all.len() == counted && all.iter().all(|s| s.is_counted);
    let left_out_steps = left_out.len();
    Ok(SelectedSteps { ranks, is_complete, left_out_steps, steps: all, without_steps })
}

/// Whether the run has steps or, without marks of them, recordings with times.
pub(super) fn has_steps(session: &Session) -> Result<bool> {
    Ok(!read_steps(session, StepFilter::Complete)?.is_empty())
}

fn read_steps(session: &Session, filter: StepFilter) -> Result<Vec<StepTime>> {
    let query = match filter {
        StepFilter::Complete => {
            "SELECT rank, step, source <> 'trace' AS is_marked, dur_ns, host_end_ns - host_ts_ns AS host_ns, is_counted \
             FROM complete_steps ORDER BY rank, host_ts_ns, step"
        }
        StepFilter::Recorded => {
            "SELECT rank, step, source <> 'trace' AS is_marked, dur_ns, dur_ns AS host_ns, true AS is_counted \
             FROM steps ORDER BY rank, ts_ns, step"
        }
    };
    let mut steps = Vec::new();
    for batch in session.sql(query)? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        let (dur, host) = (ints(&batch, "dur_ns")?, ints(&batch, "host_ns")?);
        let [marked, counted] = ["is_marked", "is_counted"].map(|name| ints(&batch, name));
        let (marked, counted) = (marked?, counted?);
        steps.extend((0..batch.num_rows()).map(|i| StepTime {
            rank: rank.value(i) as i32,
            step: step.value(i),
            is_marked: marked.value(i) != 0,
            dur_ns: dur.value(i),
            host_ns: host.value(i),
            is_counted: counted.value(i) != 0,
        }));
    }
    Ok(steps)
}

/// Totals of one name over the selected steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NameTotals {
    pub(super) count: i64,
    pub(super) dur_ns: i64,
    pub(super) self_ns: i64,
    pub(super) step_ns: i64,
    pub(super) device_ns: i64,
    /// Number and duration of the calls whose launch is not in the trace; part of `count` and `dur_ns`.
    pub(super) unlinked: (i64, i64),
    /// Duration by position of the step, without zeros.
    by_step: BTreeMap<usize, i64>,
}

impl NameTotals {
    /// Median duration over `steps` steps; steps without a call count as zero.
    pub(super) fn median_ns(&self, steps: usize) -> f64 {
        let mut values: Vec<i64> = self.by_step.values().copied().collect();
        values.resize(steps.max(values.len()), 0);
        median(&mut values)
    }

    /// Standard error of the mean duration over `steps` steps; steps without a call count as zero. Zero for one step.
    pub(super) fn error_ns(&self, steps: usize) -> f64 {
        let count = steps.max(self.by_step.len()) as f64;
        if count < 2.0 {
            return 0.0;
        }
        let values = || self.by_step.values().map(|ns| *ns as f64);
        let mean = values().sum::<f64>() / count;
        let without = (count - self.by_step.len() as f64) * mean * mean;
        let squares = values().map(|ns| (ns - mean).powi(2)).sum::<f64>() + without;
        (squares / (count - 1.0) / count).sqrt()
    }
}

/// The way events are summed up by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct TotalsOptions {
    /// Use short names, of kernels only unless `as_written`.
    pub(super) short_names: bool,
    /// Keep names as written, with step numbers and addresses.
    pub(super) as_written: bool,
    /// Count all events, whatever their step. Positions are then positions of ranks.
    pub(super) whole_recording: bool,
}

/// Totals by name over the selected steps.
pub(super) fn name_totals(
    session: &Session,
    selected: &SelectedSteps,
    options: TotalsOptions,
) -> Result<BTreeMap<Key, NameTotals>> {
    let positions = selected.positions();
    let mut sums: BTreeMap<Key, NameTotals> = BTreeMap::new();
    for batch in session.analyze("diff_by_name")? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        let (level, name) = (texts(&batch, "level")?, texts(&batch, "name")?);
        let (count, dur) = (ints(&batch, "event_count")?, ints(&batch, "dur_ns")?);
        let (own, part) = (ints(&batch, "self_ns")?, ints(&batch, "step_ns")?);
        let device = ints(&batch, "device_ns")?;
        let unlinked = (ints(&batch, "unlinked_count")?, ints(&batch, "unlinked_ns")?);
        for i in 0..batch.num_rows() {
            let rank = rank.value(i) as i32;
            let position = if options.whole_recording {
                selected.ranks.iter().position(|&r| r == rank)
            } else if step.is_null(i) {
                None
            } else {
                positions.get(&(rank, step.value(i))).copied()
            };
            let (Some(position), Some(level)) = (position, Level::parse(level.value(i))) else {
                continue;
            };
            let mut text = std::borrow::Cow::Borrowed(name.value(i));
            if !options.as_written {
                text = names::normalize_calls(level, name.value(i));
            }
            // HTA shortens all names. Names of ranges and frames are not C++, so otherwise only kernels are shortened.
            if options.short_names && (options.as_written || level == Level::Kernel) {
                text = names::shorten(&text).into_owned().into();
            }
            let sum = sums.entry((level, text.into_owned())).or_default();
            add(&mut sum.count, count.value(i));
            add(&mut sum.dur_ns, dur.value(i));
            add(&mut sum.self_ns, own.value(i));
            add(&mut sum.step_ns, part.value(i));
            add(&mut sum.device_ns, device.value(i));
            add(&mut sum.unlinked.0, unlinked.0.value(i));
            add(&mut sum.unlinked.1, unlinked.1.value(i));
            if dur.value(i) != 0 {
                add(sum.by_step.entry(position).or_default(), dur.value(i));
            }
        }
    }
    Ok(sums)
}

/// Adds without overflow: durations in a trace may be wrong by any amount.
fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}
