//! `system_metrics_by_step`: sampled metrics during each step; `system_input_limits`: whether disks and networks
//! give all they can while the loop waits for data.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::sampled_series::{Series, Span};
use query::columns::{Names, floats, ints, names};
use query::rust_view::ViewInputs;

const SAMPLES: &str = "SELECT rank, agent, metric, device, unit, ts_ns, value FROM system_metrics
     WHERE value IS NOT NULL AND NOT is_flawed
     ORDER BY rank, agent, metric, device, ts_ns";

pub(super) const BY_STEP_READS: &[(&str, &str)] = &[
    ("samples", SAMPLES),
    ("steps", "SELECT rank, step, ts_ns, dur_ns FROM step_time ORDER BY rank, ts_ns"),
];

pub(super) const LIMITS_READS: &[(&str, &str)] = &[
    ("samples", SAMPLES),
    (
        "waits",
        "SELECT rank, ts_ns, end_ns FROM host_waits WHERE cause = 'dataloader' ORDER BY rank, ts_ns",
    ),
    ("phases", "SELECT rank, dataloader_ratio, dataloader_idle_ratio FROM step_phases"),
];

/// The share of its own highest rate (its 99th percentile) from which on a source counts as giving all it can.
const PLATEAU: f64 = 0.8;
/// Rates below which nothing is slow, by unit: bytes and operations a second.
const LEAST_BYTES_PER_S: f64 = 10e6;
const LEAST_OPERATIONS_PER_S: f64 = 100.0;

/// A series with what it is of.
struct Sampled {
    rank: i64,
    agent: Option<String>,
    metric: String,
    device: Option<String>,
    unit: Option<String>,
    series: Series,
}

fn samples(batch: &RecordBatch) -> Result<Vec<Sampled>> {
    let (rank, ts) = (ints(batch, "rank")?, ints(batch, "ts_ns")?);
    let value = floats(batch, "value")?;
    let columns: Vec<Names> = ["agent", "metric", "device", "unit"]
        .into_iter()
        .map(|name| names(batch, name))
        .collect::<Result<_>>()?;
    let text = |column: usize, row: usize| columns[column].get(row).map(str::to_owned);
    let key = |row: usize| (rank.value(row), [0, 1, 2].map(|c: usize| columns[c].ids[row]));
    let mut all: Vec<Sampled> = Vec::new();
    let mut last = None;
    for row in 0..batch.num_rows() {
        if last != Some(key(row)) {
            last = Some(key(row));
            all.push(Sampled {
                rank: rank.value(row),
                agent: text(0, row),
                metric: text(1, row).unwrap_or_default(),
                device: text(2, row),
                unit: text(3, row),
                series: Series::default(),
            });
        }
        if let Some(sampled) = all.last_mut()
            && value.value(row).is_finite()
        {
            sampled.series.samples.push((ts.value(row), value.value(row)));
        }
    }
    Ok(all)
}

/// `system_metrics_by_step`.
pub(super) fn by_step(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let steps = inputs.batch("steps")?;
    let (rank, number) = (ints(steps, "rank")?, ints(steps, "step")?);
    let (ts, dur) = (ints(steps, "ts_ns")?, ints(steps, "dur_ns")?);
    let mut by_rank: BTreeMap<i64, (Vec<Span>, Vec<usize>)> = BTreeMap::new();
    for row in 0..steps.num_rows() {
        let (windows, rows) = by_rank.entry(rank.value(row)).or_default();
        windows.push((ts.value(row), ts.value(row) + dur.value(row)));
        rows.push(row);
    }
    let sampled = samples(inputs.batch("samples")?)?;
    // Which series, which step, and the mean.
    let mut rows: Vec<(&Sampled, usize, f64)> = Vec::new();
    for of in &sampled {
        let Some((windows, steps)) = by_rank.get(&of.rank) else { continue };
        let means = of.series.means(windows).into_iter().zip(steps);
        rows.extend(means.filter_map(|(mean, &step)| Some((of, step, mean?))));
    }
    let text = |of: fn(&Sampled) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(|(sampled, ..)| of(sampled)).collect::<StringArray>())
    };
    let step = |column: &Int64Array| -> ArrayRef {
        Arc::new(rows.iter().map(|&(_, row, _)| Some(column.value(row))).collect::<Int64Array>())
    };
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|(s, ..)| Some(s.rank as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("step", step(&number)),
        ("agent", text(|s| s.agent.as_deref())),
        ("metric", text(|s| Some(&s.metric))),
        ("device", text(|s| s.device.as_deref())),
        ("unit", text(|s| s.unit.as_deref())),
        ("step_ns", step(&dur)),
        ("mean_value", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>())),
    ])?)
}

/// `system_input_limits`.
pub(super) fn limits(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let waits = inputs.batch("waits")?;
    let (rank, ts, end) = (ints(waits, "rank")?, ints(waits, "ts_ns")?, ints(waits, "end_ns")?);
    let mut by_rank: BTreeMap<i64, Vec<Span>> = BTreeMap::new();
    for row in 0..waits.num_rows() {
        by_rank.entry(rank.value(row)).or_default().push((ts.value(row), end.value(row)));
    }
    let phases = inputs.batch("phases")?;
    let rank = ints(phases, "rank")?;
    let shares = [floats(phases, "dataloader_ratio")?, floats(phases, "dataloader_idle_ratio")?];
    let share = |of: i64, column: usize| {
        let row = rank.values().iter().position(|&r| r == of)?;
        shares[column].is_valid(row).then(|| shares[column].value(row))
    };

    let sampled = samples(inputs.batch("samples")?)?;
    let mut rows: Vec<(&Sampled, f64, i64, i64)> = Vec::new();
    for of in &sampled {
        let is_input = matches!(of.metric.as_str(), "disk_read" | "disk_iops" | "net_recv")
            && of.device.as_deref() != Some("lo");
        let Some(windows) = by_rank.get(&of.rank).filter(|_| is_input) else { continue };
        let Some(highest) = of.series.quantile(0.99) else { continue };
        let (covered, high) = of.series.at_least(PLATEAU * highest, windows);
        rows.push((of, highest, covered, high));
    }
    let text = |of: fn(&Sampled) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(|(sampled, ..)| of(sampled)).collect::<StringArray>())
    };
    let least = |sampled: &Sampled| match sampled.metric.as_str() {
        "disk_iops" => LEAST_OPERATIONS_PER_S,
        _ => LEAST_BYTES_PER_S,
    };
    // An idle source is at its highest rate all the time: nothing.
    let plateau = |&(sampled, highest, covered, high): &(&Sampled, f64, i64, i64)| {
        (covered > 0)
            .then(|| if highest >= least(sampled) { high as f64 / covered as f64 } else { 0.0 })
    };
    Ok(RecordBatch::try_from_iter([
        (
            "rank",
            Arc::new(rows.iter().map(|(s, ..)| Some(s.rank as i32)).collect::<Int32Array>())
                as ArrayRef,
        ),
        ("agent", text(|s| s.agent.as_deref())),
        ("metric", text(|s| Some(&s.metric))),
        ("device", text(|s| s.device.as_deref())),
        ("unit", text(|s| s.unit.as_deref())),
        ("highest_value", Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Float64Array>())),
        ("wait_ns", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>())),
        ("plateau_ratio", Arc::new(rows.iter().map(plateau).collect::<Float64Array>())),
        (
            "dataloader_ratio",
            Arc::new(rows.iter().map(|row| share(row.0.rank, 0)).collect::<Float64Array>()),
        ),
        (
            "dataloader_idle_ratio",
            Arc::new(rows.iter().map(|row| share(row.0.rank, 1)).collect::<Float64Array>()),
        ),
    ])?)
}
