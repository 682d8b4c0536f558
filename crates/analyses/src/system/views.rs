//! `system_metrics_by_step`: sampled metrics during each step; `system_input_limits`: whether disks and networks run
//! at their limit while the loop waits for data.

use std::collections::BTreeMap;

use arrow::array::Array;
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::sampled_series::SampledSeries;
use crate::interval_set::Interval;
use query::BatchBuilder;
use query::columns::{Names, floats, ints, names};
use query::rust_view::ViewInputs;

const SAMPLES: &str = "SELECT rank, agent, metric, device, unit, ts_ns, value FROM system_metrics
     WHERE value IS NOT NULL AND NOT is_flawed
     ORDER BY rank, agent, metric, device, ts_ns";

pub(super) const BY_STEP_INPUTS: &[(&str, &str)] = &[
    ("samples", SAMPLES),
    ("steps", "SELECT rank, step, ts_ns, dur_ns FROM step_time ORDER BY rank, ts_ns"),
];

pub(super) const INPUT_LIMITS_INPUTS: &[(&str, &str)] = &[
    ("samples", SAMPLES),
    (
        "waits",
        "SELECT rank, ts_ns, end_ns FROM host_waits WHERE cause = 'dataloader' ORDER BY rank, ts_ns",
    ),
    ("phases", "SELECT rank, dataloader_ratio, dataloader_idle_ratio FROM step_phases"),
];

/// From this ratio of its own highest rate (99th percentile) on, a source counts as running at its limit.
const PLATEAU_RATIO: f64 = 0.8;
/// A source below these rates is idle, in bytes and operations per second.
const MIN_BYTES_PER_S: f64 = 10e6;
const MIN_OPERATIONS_PER_S: f64 = 100.0;

/// A series with its identity.
struct MetricSeries {
    rank: i64,
    agent: Option<String>,
    metric: String,
    device: Option<String>,
    unit: Option<String>,
    samples: SampledSeries,
}

fn load_series(batch: &RecordBatch) -> Result<Vec<MetricSeries>> {
    let (rank, ts) = (ints(batch, "rank")?, ints(batch, "ts_ns")?);
    let value = floats(batch, "value")?;
    let columns: Vec<Names> = ["agent", "metric", "device", "unit"]
        .into_iter()
        .map(|name| names(batch, name))
        .collect::<Result<_>>()?;
    let text = |column: usize, row: usize| columns[column].get(row).map(str::to_owned);
    let key = |row: usize| (rank.value(row), [0, 1, 2].map(|c: usize| columns[c].ids[row]));
    let mut all: Vec<MetricSeries> = Vec::new();
    let mut last = None;
    for row in 0..batch.num_rows() {
        if last != Some(key(row)) {
            last = Some(key(row));
            all.push(MetricSeries {
                rank: rank.value(row),
                agent: text(0, row),
                metric: text(1, row).unwrap_or_default(),
                device: text(2, row),
                unit: text(3, row),
                samples: SampledSeries::default(),
            });
        }
        if let Some(series) = all.last_mut()
            && value.value(row).is_finite()
        {
            series.samples.samples.push((ts.value(row), value.value(row)));
        }
    }
    Ok(all)
}

/// `system_metrics_by_step`.
pub(super) fn by_step(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let steps = inputs.batch("steps")?;
    let (rank, number) = (ints(steps, "rank")?, ints(steps, "step")?);
    let (ts, dur) = (ints(steps, "ts_ns")?, ints(steps, "dur_ns")?);
    let mut by_rank: BTreeMap<i64, (Vec<Interval>, Vec<usize>)> = BTreeMap::new();
    for row in 0..steps.num_rows() {
        let (windows, rows) = by_rank.entry(rank.value(row)).or_default();
        windows.push((ts.value(row), ts.value(row) + dur.value(row)));
        rows.push(row);
    }
    let all_series = load_series(inputs.batch("samples")?)?;
    // Series, row of the step, and mean.
    let mut rows: Vec<(&MetricSeries, usize, f64)> = Vec::new();
    for series in &all_series {
        let Some((windows, steps)) = by_rank.get(&series.rank) else { continue };
        let means = series.samples.means(windows).into_iter().zip(steps);
        rows.extend(means.filter_map(|(mean, &step)| Some((series, step, mean?))));
    }
    BatchBuilder::of(&rows)
        .int32("rank", |(s, ..)| s.rank)
        .int("step", |&(_, step, _)| Some(number.value(step)))
        .utf8("agent", |(s, ..)| s.agent.as_deref())
        .utf8("metric", |(s, ..)| Some(&s.metric))
        .utf8("device", |(s, ..)| s.device.as_deref())
        .utf8("unit", |(s, ..)| s.unit.as_deref())
        .int("step_ns", |&(_, step, _)| Some(dur.value(step)))
        .float("mean_value", |&(_, _, mean)| Some(mean))
        .finish()
}

/// One series of a disk or network during waits for data.
struct InputLimitRow<'a> {
    series: &'a MetricSeries,
    /// 99th percentile of the rates.
    highest: f64,
    /// Time of the waits that samples cover.
    covered_ns: i64,
    /// The part of it at [`PLATEAU_RATIO`] of the highest rate or more.
    plateau_ns: i64,
}

/// `system_input_limits`.
pub(super) fn limits(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let waits = inputs.batch("waits")?;
    let (rank, ts, end) = (ints(waits, "rank")?, ints(waits, "ts_ns")?, ints(waits, "end_ns")?);
    let mut by_rank: BTreeMap<i64, Vec<Interval>> = BTreeMap::new();
    for row in 0..waits.num_rows() {
        by_rank.entry(rank.value(row)).or_default().push((ts.value(row), end.value(row)));
    }
    let phases = inputs.batch("phases")?;
    let rank = ints(phases, "rank")?;
    let ratios = [floats(phases, "dataloader_ratio")?, floats(phases, "dataloader_idle_ratio")?];
    let wait_ratio = |of: i64, column: usize| {
        let row = rank.values().iter().position(|&r| r == of)?;
        ratios[column].is_valid(row).then(|| ratios[column].value(row))
    };

    let all_series = load_series(inputs.batch("samples")?)?;
    let mut rows: Vec<InputLimitRow<'_>> = Vec::new();
    for series in &all_series {
        let is_input = matches!(series.metric.as_str(), "disk_read" | "disk_iops" | "net_recv")
            && series.device.as_deref() != Some("lo");
        let Some(windows) = by_rank.get(&series.rank).filter(|_| is_input) else { continue };
        let Some(highest) = series.samples.quantile(0.99) else { continue };
        let (covered_ns, plateau_ns) =
            series.samples.time_at_least(PLATEAU_RATIO * highest, windows);
        rows.push(InputLimitRow { series, highest, covered_ns, plateau_ns });
    }
    let min_rate = |series: &MetricSeries| match series.metric.as_str() {
        "disk_iops" => MIN_OPERATIONS_PER_S,
        _ => MIN_BYTES_PER_S,
    };
    // An idle source is always at its highest rate, which is near zero: that is not a plateau.
    let plateau_ratio = |row: &InputLimitRow<'_>| {
        (row.covered_ns > 0).then(|| {
            let is_fast = row.highest >= min_rate(row.series);
            if is_fast { row.plateau_ns as f64 / row.covered_ns as f64 } else { 0.0 }
        })
    };
    BatchBuilder::of(&rows)
        .int32("rank", |r| r.series.rank)
        .utf8("agent", |r| r.series.agent.as_deref())
        .utf8("metric", |r| Some(&r.series.metric))
        .utf8("device", |r| r.series.device.as_deref())
        .utf8("unit", |r| r.series.unit.as_deref())
        .float("highest_value", |r| Some(r.highest))
        .int("wait_ns", |r| Some(r.covered_ns))
        .float("plateau_ratio", plateau_ratio)
        .float("dataloader_ratio", |r| wait_ratio(r.series.rank, 0))
        .float("dataloader_idle_ratio", |r| wait_ratio(r.series.rank, 1))
        .finish()
}
