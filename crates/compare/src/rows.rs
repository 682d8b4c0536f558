//! The rows of a comparison: one name each, before and after.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use serde::Serialize;
use trace_model::RecordBatch;

use crate::level::Level;
use crate::matching::{Key, Matched, Pair};
use crate::options::Sort;
use crate::run_totals::NameTotals;
use query::{Error, Result};

/// The change of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the run after has it.
    Added,
    /// Only the run before has it.
    Removed,
    /// It takes more time per step than before, by more than the tolerance.
    Slower,
    /// It takes less time per step than before, by more than the tolerance.
    Faster,
    /// The same time in more calls.
    MoreCalls,
    /// The same time in fewer calls.
    FewerCalls,
    /// Neither time nor calls differ.
    Unchanged,
}

impl Change {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::MoreCalls => "more_calls",
            Self::FewerCalls => "fewer_calls",
            Self::Unchanged => "unchanged",
        }
    }
}

impl Matched {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::OtherLevel => "other_level",
            Self::Normalized => "normalized",
            Self::Alone => "alone",
        }
    }
}

/// Calls and time of a name in one run: means over the steps and ranks that are compared, and totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Amounts {
    /// Calls per step.
    pub count: f64,
    /// Duration per step, including calls inside.
    pub dur_ns: f64,
    /// Median of that over the steps.
    pub median_ns: f64,
    /// Standard error of the mean duration.
    pub error_ns: f64,
    /// Duration per step less that of direct children.
    pub self_ns: f64,
    /// Part of a step in which this is the innermost work of the host (view `diff_host_time`); 0 on the device.
    pub step_ns: f64,
    /// Device time per step of the work that it launched itself; 0 on the device.
    pub device_ns: f64,
    /// Calls in all steps together.
    pub total_count: i64,
    /// Duration in all steps together.
    pub total_dur_ns: i64,
}

impl Amounts {
    fn new(sums: &NameTotals, steps: usize) -> Self {
        let mean = |value: i64| value as f64 / steps.max(1) as f64;
        Self {
            count: mean(sums.count),
            dur_ns: mean(sums.dur_ns),
            median_ns: sums.median_ns(steps),
            error_ns: sums.error_ns(steps),
            self_ns: mean(sums.self_ns),
            step_ns: mean(sums.step_ns),
            device_ns: mean(sums.device_ns),
            total_count: sums.count,
            total_dur_ns: sums.dur_ns,
        }
    }
}

/// One name, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its level, in the run after if both have it.
    pub level: Level,
    /// Its name, in the run after if both have it.
    pub name: String,
    /// Its name in the run before, if that is different.
    pub renamed_from: Option<String>,
    /// The way the two names were matched.
    pub matched: Matched,
    /// The change.
    pub change: Change,
    /// In the run before; zeros if the run does not have it.
    pub before: Amounts,
    /// In the run after; zeros if the run does not have it.
    pub after: Amounts,
    /// Change of the step that this row accounts for, over the change of the step: of its part of the
    /// step on the host ([`Amounts::step_ns`]; these add up to the change of the step on the host), of
    /// its duration on the device (these overlap and do not add up). Absent where the step hardly
    /// changed, and for levels whose time is counted elsewhere.
    pub step_change_ratio: Option<f64>,
}

impl Row {
    /// Change of the step that the row accounts for, see [`Row::step_change_ratio`].
    pub fn impact_ns(&self) -> f64 {
        if self.level.is_device_work() {
            self.after.dur_ns - self.before.dur_ns
        } else {
            self.after.step_ns - self.before.step_ns
        }
    }
}

#[cfg(test)]
impl Row {
    /// A row of a name that both runs have.
    pub(crate) fn of_both(level: Level, name: &str, [before, after]: [Amounts; 2]) -> Self {
        Self {
            level,
            name: name.to_owned(),
            renamed_from: None,
            matched: Matched::Exact,
            change: Change::Slower,
            before,
            after,
            step_change_ratio: None,
        }
    }
}

/// The rows of all pairs.
pub(super) fn rows(
    pairs: &[Pair<'_>],
    before: (&BTreeMap<Key, NameTotals>, usize),
    after: (&BTreeMap<Key, NameTotals>, usize),
    tolerance: f64,
) -> Vec<Row> {
    let amounts = |key: Option<&Key>, (sums, steps): (&BTreeMap<Key, NameTotals>, usize)| {
        key.and_then(|k| sums.get(k)).map_or_else(Amounts::default, |s| Amounts::new(s, steps))
    };
    pairs
        .iter()
        .filter_map(|pair| {
            let (level, name) = pair.after.or(pair.before)?;
            let (b, a) = (amounts(pair.before, before), amounts(pair.after, after));
            let renamed_from = pair.before.map(|k| &k.1).filter(|old| *old != name).cloned();
            Some(Row {
                level: *level,
                name: name.clone(),
                renamed_from,
                matched: pair.matched,
                change: change(pair, &b, &a, tolerance),
                before: b,
                after: a,
                step_change_ratio: None,
            })
        })
        .collect()
}

fn change(pair: &Pair<'_>, before: &Amounts, after: &Amounts, tolerance: f64) -> Change {
    if pair.before.is_none() {
        return Change::Added;
    }
    if pair.after.is_none() {
        return Change::Removed;
    }
    // A call that began before the step has no duration in the step, only a part of its time.
    let time = |a: &Amounts| if a.count > 0.0 { a.dur_ns } else { a.step_ns + a.device_ns };
    let (b, a) = (time(before), time(after));
    // A nanosecond per step is not a change, however short the time was.
    if (a - b).abs() > (b * tolerance).max(1.0) {
        return if a > b { Change::Slower } else { Change::Faster };
    }
    let diff = after.count - before.count;
    if diff.abs() <= 1e-9 * before.count {
        Change::Unchanged
    } else if diff > 0.0 {
        Change::MoreCalls
    } else {
        Change::FewerCalls
    }
}

pub(super) fn sort(rows: &mut [Row], by: Sort) {
    let size = |row: &Row| match by {
        Sort::Impact => row.impact_ns().abs(),
        Sort::Time => (row.after.dur_ns - row.before.dur_ns).abs(),
        Sort::Count => (row.after.count - row.before.count).abs(),
        Sort::Name => 0.0,
    };
    rows.sort_by(|x, y| {
        size(y).total_cmp(&size(x)).then_with(|| {
            (&x.name, x.level, &x.renamed_from).cmp(&(&y.name, y.level, &y.renamed_from))
        })
    });
}

/// A column of [`super::Diff::batch`]: name, meaning, and source of the value.
type Column = (&'static str, &'static str, CellValue);

enum CellValue {
    Text(fn(&Row) -> Option<&str>),
    Int(fn(&Row) -> i64),
    Float(fn(&Row) -> Option<f64>),
}

/// The columns of the rows as an Arrow batch, with their meaning. Values are means over the steps and
/// ranks compared, unless they say `total`.
const COLUMNS: &[Column] = &[
    ("level", "what kind of thing it is", CellValue::Text(|r| Some(r.level.as_str()))),
    ("name", "name, in the run after if both have it", CellValue::Text(|r| Some(&r.name))),
    (
        "renamed_from",
        "name in the run before, where that is another",
        CellValue::Text(|r| r.renamed_from.as_deref()),
    ),
    (
        "matched",
        "exact, other_level, normalized (a guess), or alone",
        CellValue::Text(|r| Some(r.matched.as_str())),
    ),
    (
        "change",
        "added, removed, slower, faster, more_calls, fewer_calls or unchanged",
        CellValue::Text(|r| Some(r.change.as_str())),
    ),
    ("before_count", "calls a step, before", CellValue::Float(|r| Some(r.before.count))),
    ("after_count", "calls a step, after", CellValue::Float(|r| Some(r.after.count))),
    (
        "diff_count",
        "difference of calls a step",
        CellValue::Float(|r| Some(r.after.count - r.before.count)),
    ),
    ("before_dur_ns", "duration a step, before", CellValue::Float(|r| Some(r.before.dur_ns))),
    ("after_dur_ns", "duration a step, after", CellValue::Float(|r| Some(r.after.dur_ns))),
    (
        "diff_dur_ns",
        "difference of the duration a step",
        CellValue::Float(|r| Some(r.after.dur_ns - r.before.dur_ns)),
    ),
    (
        "before_median_ns",
        "median over the steps of the duration, before",
        CellValue::Float(|r| Some(r.before.median_ns)),
    ),
    (
        "after_median_ns",
        "median over the steps of the duration, after",
        CellValue::Float(|r| Some(r.after.median_ns)),
    ),
    (
        "before_self_ns",
        "duration a step less that of direct children, before",
        CellValue::Float(|r| Some(r.before.self_ns)),
    ),
    (
        "after_self_ns",
        "duration a step less that of direct children, after",
        CellValue::Float(|r| Some(r.after.self_ns)),
    ),
    (
        "before_step_ns",
        "part of a step in which the host does just that, before; absent on the device",
        CellValue::Float(|r| host(r, r.before.step_ns)),
    ),
    (
        "after_step_ns",
        "part of a step in which the host does just that, after; absent on the device",
        CellValue::Float(|r| host(r, r.after.step_ns)),
    ),
    (
        "diff_step_ns",
        "difference of that part",
        CellValue::Float(|r| host(r, r.after.step_ns - r.before.step_ns)),
    ),
    (
        "before_device_ns",
        "device time a step of what it launched itself, before; absent on the device",
        CellValue::Float(|r| host(r, r.before.device_ns)),
    ),
    (
        "after_device_ns",
        "device time a step of what it launched itself, after; absent on the device",
        CellValue::Float(|r| host(r, r.after.device_ns)),
    ),
    (
        "diff_device_ns",
        "difference of that device time",
        CellValue::Float(|r| host(r, r.after.device_ns - r.before.device_ns)),
    ),
    (
        "step_change_ratio",
        "diff_step_ns, or diff_dur_ns on the device, over the change of the step; absent where the step hardly changed",
        CellValue::Float(|r| r.step_change_ratio),
    ),
    ("before_total_count", "calls in all steps, before", CellValue::Int(|r| r.before.total_count)),
    ("after_total_count", "calls in all steps, after", CellValue::Int(|r| r.after.total_count)),
    (
        "before_total_dur_ns",
        "duration in all steps, before",
        CellValue::Int(|r| r.before.total_dur_ns),
    ),
    (
        "after_total_dur_ns",
        "duration in all steps, after",
        CellValue::Int(|r| r.after.total_dur_ns),
    ),
];

fn host(row: &Row, value: f64) -> Option<f64> {
    (!row.level.is_device()).then_some(value)
}

/// The rows as one batch; the meaning of each column is in the metadata of its field.
pub(super) fn batch(rows: &[Row]) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(COLUMNS.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(COLUMNS.len());
    for (name, doc, cell) in COLUMNS {
        let array: ArrayRef = match cell {
            CellValue::Text(text) => Arc::new(rows.iter().map(text).collect::<StringArray>()),
            CellValue::Int(int) => {
                Arc::new(rows.iter().map(|r| Some(int(r))).collect::<Int64Array>())
            }
            CellValue::Float(float) => Arc::new(rows.iter().map(float).collect::<Float64Array>()),
        };
        fields.push(documented(name, array.data_type(), doc));
        arrays.push(array);
    }
    assemble(fields, arrays)
}

pub(super) fn documented(name: &str, data_type: &DataType, doc: &str) -> Field {
    let doc = [("doc".to_owned(), doc.to_owned())];
    Field::new(name, data_type.clone(), true).with_metadata(doc.into())
}

pub(super) fn assemble(fields: Vec<Field>, arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| Error::Engine(e.into()))
}
