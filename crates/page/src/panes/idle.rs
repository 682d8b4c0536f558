//! Idle time: its causes, over time and by rank.

use std::collections::BTreeMap;

use trace_advisor::Error;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Area, BarRow, Bars, Block, Pane, Series, rounded};
use crate::words::value_in_words;

/// Parts of the recording that the chart over time has.
const BINS: i64 = 120;
/// Ranks with a bar of their own.
const MAX_RANKS: usize = 32;

/// Causes by name: the column of `gpu_idle_causes` ([`UNKNOWN`] has a name of its own), and the word of the bar of a step.
const CAUSES: &[(&str, &str)] = &[
    ("dataloader_ns", "data loading"),
    ("sync_ns", "synchronization"),
    ("dispatch_ns", "launching"),
    ("python_ns", "Python"),
    ("cpu_compute_ns", "CPU operators"),
    ("allocation_ns", "allocation"),
    ("collective_ns", "waiting for collectives"),
    ("other_stream_ns", "waiting for other streams"),
    ("dependency_ns", "gaps between kernels"),
    ("first_launch_ns", "first launches"),
    ("startup_ns", "start-up"),
    ("compiling_ns", "compiling"),
    ("profiler_ns", "profiler"),
    ("no_host_events_ns", "host not recorded"),
    ("unknown_ns", "unknown"),
];

/// Parts of the bars that stand for several causes of `idle_gap_causes`, or for one with another name.
const JOINED_CAUSES: &[(&str, &[&str])] = &[
    ("launching", &["op_dispatch", "launch_api", "copy_api", "launch_latency"]),
    ("CPU operators", &["cpu_compute"]),
    ("waiting for collectives", &["collective"]),
    ("waiting for other streams", &["other_stream"]),
    ("gaps between kernels", &["dependency"]),
    ("first launches", &["first_launch"]),
    ("host not recorded", &["no_host_events"]),
    (
        "unknown",
        &["unlinked", "graph_replay", "unrecorded_work", "stream_capture", "recording_end"],
    ),
];

/// Idle time whose cause cannot be told.
const UNKNOWN: &str =
    "unlinked_ns + graph_replay_ns + unrecorded_work_ns + stream_capture_ns + recording_end_ns";

const WAITS: &[(&str, &str)] = &[
    ("name", "Call, loader or operator"),
    ("cause", "Cause"),
    ("idle_ns", "Idle"),
    ("gap_count", "Gaps"),
    ("op_name", "Operator around it"),
    ("source", "Line"),
];

pub(super) fn idle(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    if let Some(bars) = by_rank(source)? {
        blocks.add("idle_gap_causes", over_time(source)?.map(Block::Area));
        blocks.add("gpu_idle_causes", [Block::Bars(bars)]);
        let grouped = format!(
            "(SELECT name, cause, op_name, source, count(*) AS gap_count, CAST(sum(dur_ns) AS BIGINT) AS idle_ns \
             FROM idle_gap_causes WHERE rank = {} GROUP BY name, cause, op_name, source)",
            source.rank
        );
        let order = "idle_ns DESC, cause, name, op_name, source";
        let table = source.table_where(
            "What is behind the idle time",
            &grouped,
            WAITS,
            "idle_ns > 0",
            order,
        )?;
        blocks.add("idle_gap_causes", table.map(Block::Table));
    }
    Ok(source.pane(
        "idle",
        "Idle time",
        "Why is the GPU idle, and when?",
        blocks,
        "gpu_idle_causes",
    ))
}

/// Idle time of each rank by cause.
fn by_rank(source: &Source<'_>) -> Result<Option<Bars>, Error> {
    let columns: Vec<&str> = CAUSES.iter().map(|(column, _)| *column).collect();
    let sql = format!(
        "SELECT rank, device, window_ns, idle_ns, {} FROM (SELECT *, {UNKNOWN} AS unknown_ns FROM gpu_idle_causes) ORDER BY idle_ns DESC, rank, device LIMIT {MAX_RANKS}",
        columns.join(", ")
    );
    let table = source.query(&sql)?;
    let mut bars: Vec<(i64, i64, BarRow)> = table
        .named_rows()
        .filter_map(|row| {
            let (rank, device) = (row.integer("rank")?, row.integer("device")?);
            let part = |(column, name): &(&str, &str)| {
                Some(((*name).to_owned(), rounded(row.number(column).filter(|ns| *ns > 0.0)?)))
            };
            let parts = CAUSES.iter().filter_map(part).collect();
            Some((rank, device, BarRow { label: format!("rank {rank}, GPU {device}"), parts }))
        })
        .collect();
    if bars.len() < MAX_RANKS {
        bars.sort_by_key(|(rank, device, _)| (*rank, *device));
    }
    let bars: Vec<BarRow> = bars.into_iter().map(|(.., row)| row).collect();
    let title = if bars.len() == MAX_RANKS {
        format!("Idle time by cause, of the {MAX_RANKS} GPUs with most of it")
    } else {
        "Idle time by cause".to_owned()
    };
    let bars = Bars { table_names: table_names(), ..Bars::new(title, "ns", bars, true) };
    Ok((!bars.rows.is_empty()).then_some(bars))
}

/// What the table says for each part of the bars.
fn table_names() -> BTreeMap<String, Vec<String>> {
    let words = |cause: &&str| value_in_words("cause", cause);
    let names = |causes: &[&str]| causes.iter().filter_map(words).collect();
    JOINED_CAUSES.iter().map(|(part, causes)| ((*part).to_owned(), names(causes))).collect()
}

/// Idle time over the recording by cause: the share of each part of it.
fn over_time(source: &Source<'_>) -> Result<Option<Area>, Error> {
    let device = source.report.breakdown.as_ref().map_or(0, |breakdown| breakdown.device);
    let sql = format!(
        "SELECT start_ns, end_ns FROM device_windows WHERE rank = {} AND device = {device}",
        source.rank
    );
    let window = source.query(&sql)?;
    let Some((start, end)) =
        window.first_row().and_then(|row| Some((row.integer("start_ns")?, row.integer("end_ns")?)))
    else {
        return Ok(None);
    };
    let width = ((end - start) / BINS).max(1);
    // Short gaps are added up in the parts that they begin and end in; long ones are kept, and split below.
    let part = format!("(ts_ns - {start}) / {width}");
    let short = format!("dur_ns < {width}");
    let here = format!("least(dur_ns, ({part} + 1) * {width} + {start} - ts_ns)");
    let sql = format!(
        "SELECT cause, CASE WHEN {short} THEN {part} * {width} + {start} ELSE ts_ns END AS at_ns, \
         CAST(sum(CASE WHEN {short} THEN {here} ELSE dur_ns END) AS BIGINT) AS idle_ns, \
         CAST(sum(CASE WHEN {short} THEN dur_ns - {here} ELSE 0 END) AS BIGINT) AS next_ns \
         FROM idle_gap_causes WHERE rank = {} AND device = {device} GROUP BY 1, 2, {short} ORDER BY 1, 2",
        source.rank
    );
    let table = source.query(&sql)?;
    if table.rows.is_empty() {
        return Ok(None);
    }
    let bins = BINS as usize;
    let mut by_cause: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for row in table.named_rows() {
        let (Some(at), Some(dur)) = (row.integer("at_ns"), row.integer("idle_ns")) else {
            continue;
        };
        let series = by_cause
            .entry(cause_number(row.text_or_empty("cause")))
            .or_insert_with(|| vec![0.0; bins]);
        let next = row.integer("next_ns").filter(|ns| *ns > 0);
        let next = next.map(|ns| (at.saturating_add(width), ns));
        for (at, dur) in std::iter::once((at, dur)).chain(next) {
            let (mut from, to) = (at.max(start), at.saturating_add(dur).min(end));
            while from < to {
                let bin = (((from - start) / width) as usize).min(bins - 1);
                let edge =
                    if bin == bins - 1 { to } else { (start + (bin as i64 + 1) * width).min(to) };
                series[bin] += (edge - from) as f64 / width as f64;
                from = edge.max(from + 1);
            }
        }
    }
    keep_below_whole(&mut by_cause);
    let x = (0..=BINS).map(|bin| (start + bin * width) as f64).collect();
    let series = by_cause.into_iter().map(|(cause, shares)| Series {
        name: CAUSES[cause].1.to_owned(),
        y: shares.into_iter().map(|share| Some(rounded(share))).collect(),
    });
    Ok(Some(Area {
        title: format!("Idle share over time, rank {}, GPU {device}", source.rank),
        x_label: "time".to_owned(),
        x_unit: "ns",
        unit: "ratio",
        is_stacked: true,
        is_small: false,
        x,
        series: series.collect(),
    }))
}

/// Scales the causes of each bin that add up to more than the bin: short gaps are placed in it as a sum.
fn keep_below_whole(by_cause: &mut BTreeMap<usize, Vec<f64>>) {
    for bin in 0..BINS as usize {
        let sum: f64 = by_cause.values().map(|shares| shares[bin]).sum();
        if sum > 1.0 {
            for shares in by_cause.values_mut() {
                shares[bin] /= sum;
            }
        }
    }
}

/// The place in [`CAUSES`] of a cause of `idle_gap_causes`.
fn cause_number(cause: &str) -> usize {
    let name = match cause {
        "data_loading" => "data loading",
        "synchronization" => "synchronization",
        "allocation" => "allocation",
        "copy_api" | "launch_api" | "op_dispatch" | "launch_latency" => "launching",
        "cpu_compute" => "CPU operators",
        "python" => "Python",
        "first_launch" => "first launches",
        "startup" => "start-up",
        "compiling" => "compiling",
        "profiler" => "profiler",
        "no_host_events" => "host not recorded",
        "dependency" => "gaps between kernels",
        "other_stream" => "waiting for other streams",
        "collective" => "waiting for collectives",
        _ => "unknown",
    };
    CAUSES.iter().position(|(_, cause)| *cause == name).unwrap_or(CAUSES.len() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{BINS, keep_below_whole};

    #[test]
    fn no_bin_is_idle_for_more_than_itself() {
        let bins = BINS as usize;
        let mut by_cause = BTreeMap::from([(0, vec![0.25; bins]), (3, vec![0.5; bins])]);
        by_cause.get_mut(&3).unwrap()[7] = 1.0;
        keep_below_whole(&mut by_cause);
        let is =
            |cause: usize, bin: usize, share: f64| (by_cause[&cause][bin] - share).abs() < 1e-12;
        assert!(is(0, 6, 0.25) && is(3, 6, 0.5));
        assert!(is(0, 7, 0.2) && is(3, 7, 0.8));
    }
}
