//! System metrics: what was sampled of the machines, over time.

use std::collections::BTreeMap;

use trace_advisor::Error;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Area, Block, Pane, Series, rounded};
use crate::clean::short;

/// Charts, and series and points of each.
const MAX_CHARTS: usize = 10;
const MAX_SERIES: usize = 6;
const POINTS: i64 = 150;

const SUMMARY: &[(&str, &str)] = &[
    ("rank", "Rank"),
    ("agent", "Machine"),
    ("metric", "Metric"),
    ("device", "Part"),
    ("unit", "Unit"),
    ("sample_count", "Samples"),
    ("mean_value", "Mean"),
    ("min_value", "Least"),
    ("p95_value", "p95"),
    ("max_value", "Most"),
];

pub(super) fn system(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    // What was never more than zero comes last.
    let order = "coalesce(max_value, 0) = 0, metric, rank, agent, device";
    let summary = source.table_where(
        "Summary",
        "system_metrics_summary",
        SUMMARY,
        "sample_count > 0",
        order,
    )?;
    if let Some(table) = summary {
        blocks.add("system_metrics_summary", charts(source)?.into_iter().map(Block::Area));
        blocks.add("system_metrics_summary", [Block::Table(table)]);
    }
    Ok(source.pane_of_all_ranks(
        "system",
        "System metrics",
        "Are CPU, memory, disk or network of a machine exhausted?",
        blocks,
        "system_metrics_summary",
    ))
}

/// Unit, samples of the series by their names, and the number of samples.
type Chart = (String, BTreeMap<String, BTreeMap<i64, f64>>);

fn charts(source: &Source<'_>) -> Result<Vec<Area>, Error> {
    let range = source.query("SELECT min(ts_ns) AS start_ns, max(ts_ns) AS end_ns FROM system_metrics WHERE NOT is_flawed")?;
    let Some((start, end)) =
        range.first_row().and_then(|row| Some((row.integer("start_ns")?, row.integer("end_ns")?)))
    else {
        return Ok(Vec::new());
    };
    let width = ((end - start) / POINTS).max(1);
    let sql = format!(
        "SELECT metric, agent, device, rank, unit, (ts_ns - {start}) / {width} AS bin, avg(value) AS value FROM system_metrics \
         WHERE NOT is_flawed AND value IS NOT NULL GROUP BY metric, agent, device, rank, unit, bin ORDER BY metric, agent, device, rank, bin"
    );
    let table = source.query(&sql)?;
    let mut charts: BTreeMap<String, Chart> = BTreeMap::new();
    for row in table.named_rows() {
        let (Some(bin), Some(value)) = (row.integer("bin"), row.number("value")) else { continue };
        let rank = format!("rank {}", row.integer("rank").unwrap_or(0));
        let (agent, device) = (row.text_or_empty("agent"), row.text_or_empty("device"));
        let is_one = source.run.info().ranks.len() < 2;
        let machine = match agent {
            "" if is_one && !device.is_empty() => "",
            "" => &rank,
            agent => agent,
        };
        let name = format!("{machine} {device}").trim().to_owned();
        let chart = charts.entry(row.text_or_empty("metric").to_owned()).or_default();
        row.text_or_empty("unit").clone_into(&mut chart.0);
        chart.1.entry(name).or_default().insert(bin, value);
    }
    // What was never more than zero is in the table only.
    let peak = |samples: &BTreeMap<i64, f64>| samples.values().copied().fold(0.0, f64::max);
    let areas = charts.into_iter().filter_map(|(metric, (unit, series))| {
        let x = (0..=POINTS).map(|bin| (start + bin * width) as f64).collect();
        let mut series: Vec<_> = series.into_iter().filter(|(_, s)| peak(s) > 0.0).collect();
        series.sort_by(|a, b| peak(&b.1).total_cmp(&peak(&a.1)).then_with(|| a.0.cmp(&b.0)));
        if series.is_empty() {
            return None;
        }
        // One name has one color in all charts.
        series.truncate(MAX_SERIES);
        series.sort_by(|a, b| a.0.cmp(&b.0));
        let shown = series.into_iter().map(|(name, samples)| Series {
            name: short(&name),
            y: (0..=POINTS).map(|bin| samples.get(&bin).map(|value| rounded(*value))).collect(),
        });
        Some(Area {
            title: short(&format!("{metric} ({unit})")),
            x_label: "time".to_owned(),
            x_unit: "ns",
            unit: if unit.starts_with("bytes") { "bytes" } else { "number" },
            is_stacked: false,
            is_small: true,
            x,
            series: shown.collect(),
        })
    });
    Ok(areas.take(MAX_CHARTS).collect())
}
