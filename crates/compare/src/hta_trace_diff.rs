//! The comparison that Holistic Trace Analysis makes: `TraceDiff.compare_traces` and `ops_diff`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use trace_model::RecordBatch;

use crate::options::{DiffOptions, SideOptions, Sort, Steps};
use crate::rows::{assemble, documented};
use crate::run_totals::{
    SelectedSteps, StepFilter, TotalsOptions, name_totals, run_ranks, select_steps,
};
use query::{Result, Session};

/// The events that the comparison of HTA counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceType {
    /// Events of host and device; events with the same name are added up.
    #[default]
    All,
    /// Events of the host.
    Cpu,
    /// Events of the device.
    Gpu,
}

impl DeviceType {
    fn counts(self, is_device: bool) -> bool {
        match self {
            Self::All => true,
            Self::Cpu => !is_device,
            Self::Gpu => is_device,
        }
    }
}

/// Calls and time by name as HTA's `compare_traces` counts them: every recorded step may be selected,
/// names are as written and summed over levels, durations include calls inside. Defaults are HTA's
/// too: the smallest rank if the selection names none, and the first step with [`SideOptions::first`].
///
/// Columns: `name`, `before_count`, `before_dur_ns`, `after_count`, `after_dur_ns`, `diff_count`,
/// `diff_dur_ns`, `counts_change` (`+`, `-`, `=`), and the class of HTA's `ops_diff` in `change`
/// (`added`, `deleted`, `increased`, `decreased`, `unchanged`). Rows are ordered by name, or by
/// [`DiffOptions::sort`] where that is time or count.
pub fn compare_traces(
    before: &Session,
    after: &Session,
    options: &DiffOptions,
    device_type: DeviceType,
) -> Result<RecordBatch> {
    let sums = |session: &Session, side, selection: &SideOptions| {
        let all = run_ranks(session)?;
        let selected =
            select_steps(session, side, selection, &all[..all.len().min(1)], StepFilter::Recorded)?;
        by_name(session, &selected, options.short_names, device_type)
    };
    let before = sums(before, "before", &options.before)?;
    let after = sums(after, "after", &options.after)?;

    let mut rows: BTreeMap<String, [i64; 4]> = BTreeMap::new();
    for (name, (count, dur_ns)) in before {
        rows.insert(name, [count, dur_ns, 0, 0]);
    }
    for (name, (count, dur_ns)) in after {
        let row = rows.entry(name).or_default();
        (row[2], row[3]) = (count, dur_ns);
    }
    let mut rows: Vec<(String, [i64; 4])> = rows.into_iter().collect();
    let diff = |row: &(String, [i64; 4]), of: usize| row.1[of + 2] - row.1[of];
    match options.sort {
        Sort::Time => rows.sort_by_key(|row| -diff(row, 1).abs()),
        Sort::Count => rows.sort_by_key(|row| -diff(row, 0).abs()),
        Sort::Impact | Sort::Name => {}
    }
    batch(&rows)
}

impl SideOptions {
    /// HTA's default: the first step of the first rank.
    pub fn first() -> Self {
        Self { ranks: None, steps: Steps::First }
    }
}

fn by_name(
    session: &Session,
    selected: &SelectedSteps,
    short_names: bool,
    device_type: DeviceType,
) -> Result<BTreeMap<String, (i64, i64)>> {
    let totals_options = TotalsOptions { short_names, as_written: true, whole_recording: false };
    let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for ((level, name), sums) in name_totals(session, selected, totals_options)? {
        // HTA assigns device work to the step that launched it, and work without a launch to no step.
        let count = sums.count - sums.unlinked.0;
        if count > 0 && device_type.counts(level.is_device()) {
            let sum = found.entry(name).or_default();
            sum.0 += count;
            sum.1 += sums.dur_ns - sums.unlinked.1;
        }
    }
    Ok(found)
}

fn batch(rows: &[(String, [i64; 4])]) -> Result<RecordBatch> {
    let ints = |value: fn(&[i64; 4]) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, r)| Some(value(r))).collect::<Int64Array>())
    };
    let texts = |value: fn(&[i64; 4]) -> &'static str| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, r)| Some(value(r))).collect::<StringArray>())
    };
    let name: ArrayRef =
        Arc::new(rows.iter().map(|(n, _)| Some(n.as_str())).collect::<StringArray>());
    let columns = [
        ("name", "name as written", name),
        ("before_count", "calls, before", ints(|r| r[0])),
        ("before_dur_ns", "duration, before", ints(|r| r[1])),
        ("after_count", "calls, after", ints(|r| r[2])),
        ("after_dur_ns", "duration, after", ints(|r| r[3])),
        ("diff_count", "difference of calls", ints(|r| r[2] - r[0])),
        ("diff_dur_ns", "difference of durations", ints(|r| r[3] - r[1])),
        ("counts_change", "+, - or =: sign of diff_count", texts(|r| sign(r[2] - r[0]))),
        ("change", "added, deleted, increased, decreased or unchanged, by count", texts(change)),
    ];
    let fields =
        columns.iter().map(|(name, doc, a)| documented(name, a.data_type(), doc)).collect();
    assemble(fields, columns.into_iter().map(|(_, _, array)| array).collect())
}

fn sign(diff: i64) -> &'static str {
    match diff {
        0 => "=",
        1.. => "+",
        _ => "-",
    }
}

fn change([before, _, after, _]: &[i64; 4]) -> &'static str {
    match (before, after) {
        (0, _) => "added",
        (_, 0) => "deleted",
        (b, a) if a > b => "increased",
        (b, a) if a < b => "decreased",
        _ => "unchanged",
    }
}
