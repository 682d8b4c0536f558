//! Memory: its curve, who holds it at the peak, and what snapshots and exported timelines show.

use std::collections::BTreeMap;

use trace_advisor::Error;

use super::{POINTS, Source, held, pane, snapshots};
use crate::blocks::{Area, BarRow, Bars, Block, Pane, Series, rounded};
use crate::clean::short;

/// Memories with a curve of their own.
const MAX_MEMORIES: usize = 4;

const HOLDERS: &[(&str, &str)] = &[
    ("memory", "Memory"),
    ("bytes", "Bytes"),
    ("bytes_ratio", "Of the peak"),
    ("allocation_count", "Pieces"),
    ("origin", "Origin"),
    ("op_name", "Operator"),
    ("module", "Module"),
    ("phase", "Phase"),
    ("step", "Step"),
    ("min_age_ns", "Age"),
];

const OWNERS: &[(&str, &str)] = &[
    ("memory", "Memory"),
    ("owner", "Owner"),
    ("place", "Place"),
    ("bytes", "Bytes"),
    ("bytes_ratio", "Share"),
    ("allocation_count", "Pieces"),
    ("confidence", "Confidence"),
];

pub(super) fn memory(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Vec::new();
    blocks.extend(curves(source)?.into_iter().map(Block::Area));
    blocks.extend(snapshots::by_owner(source)?.into_iter().map(Block::Area));
    blocks.extend(snapshots::timelines(source)?.into_iter().map(Block::Area));
    blocks.extend(owners(source)?.map(Block::Bars));
    blocks.extend(held::stacks(source)?.map(Block::Boxes));
    blocks.extend(held::map(source)?.map(Block::Boxes));
    let of_peak = format!("rank = {} AND moment = 'peak'", source.rank);
    let owners = source.table_where(
        "Owners at the peak",
        "memory_owners",
        OWNERS,
        &of_peak,
        "bytes DESC, memory, owner, place",
    )?;
    blocks.extend(owners.map(Block::Table));
    let holders = source.table(
        "Holders at the peak",
        "memory_peak_holders",
        HOLDERS,
        "bytes DESC, memory, place",
    )?;
    blocks.extend(holders.map(Block::Table));
    blocks.extend(snapshots::stacks(source)?.map(Block::Table));
    Ok(pane(
        "memory",
        "Memory",
        "How much memory is in use, when, and who holds it?",
        source.scope(),
        blocks,
        "memory_owners",
    ))
}

/// Allocated and reserved memory over time.
fn curves(source: &Source<'_>) -> Result<Vec<Area>, Error> {
    let sql = format!(
        "SELECT memory, min(ts_ns) AS start_ns, max(ts_ns) AS end_ns FROM memory_curve WHERE rank = {} GROUP BY memory ORDER BY count(*) DESC, memory LIMIT {MAX_MEMORIES}",
        source.rank
    );
    let memories = source.query(&sql)?;
    let Some((start, end)) = memories
        .iter()
        .filter_map(|row| Some((row.int("start_ns")?, row.int("end_ns")?)))
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    else {
        return Ok(Vec::new());
    };
    let width = ((end - start) / POINTS).max(1);
    let sql = format!(
        "SELECT memory, (ts_ns - {start}) / {width} AS bin, max(coalesce(allocated_bytes, change_bytes)) AS allocated, \
         max(reserved_bytes) AS reserved, bool_or(allocated_bytes IS NULL) AS is_change \
         FROM memory_curve WHERE rank = {} GROUP BY memory, bin ORDER BY memory, bin",
        source.rank
    );
    let rows = source.query(&sql)?;
    let mut curves: BTreeMap<&str, [BTreeMap<i64, f64>; 2]> = BTreeMap::new();
    for row in rows.iter() {
        let Some(bin) = row.int("bin") else { continue };
        let curve = curves.entry(row.text("memory")).or_default();
        for (series, name) in curve.iter_mut().zip(["allocated", "reserved"]) {
            series.extend(row.num(name).map(|value| (bin, value)));
        }
    }
    let is_change = rows
        .iter()
        .any(|row| row.get("is_change") == Some(&trace_advisor::trace_model::Value::Bool(true)));
    let known: Vec<&str> = memories.iter().map(|row| row.text("memory")).collect();
    let areas =
        curves.into_iter().filter(|(memory, _)| known.contains(memory)).map(|(memory, curve)| {
            let names = if is_change {
                ["since the recording began", "reserved"]
            } else {
                ["allocated", "reserved"]
            };
            let series = names.into_iter().zip(curve).filter(|(_, points)| !points.is_empty());
            Area {
                title: if is_change {
                    format!("Memory over time: {}, since the recording began", short(memory))
                } else {
                    format!("Memory over time: {}", short(memory))
                },
                x_label: "time".to_owned(),
                x_unit: "ns",
                unit: "bytes",
                is_stacked: false,
                is_small: false,
                x: (0..=POINTS).map(|bin| (start + bin * width) as f64).collect(),
                series: series
                    .map(|(name, points)| Series { name: name.to_owned(), y: by_bin(&points) })
                    .collect(),
            }
        });
    Ok(areas.collect())
}

/// The value of each bin; bins without one keep that of the bin before.
fn by_bin(points: &BTreeMap<i64, f64>) -> Vec<Option<f64>> {
    let mut last = None;
    (0..=POINTS)
        .map(|bin| {
            last = points.get(&bin).map(|value| rounded(*value)).or(last);
            last
        })
        .collect()
}

/// Memory at the peak by owner.
fn owners(source: &Source<'_>) -> Result<Option<Bars>, Error> {
    let sql = format!(
        "SELECT memory, owner, CAST(sum(bytes) AS BIGINT) AS bytes FROM memory_owners WHERE rank = {} AND moment = 'peak' AND bytes > 0 \
         GROUP BY memory, owner ORDER BY memory, bytes DESC, owner",
        source.rank
    );
    let rows = source.query(&sql)?;
    let mut bars: Vec<BarRow> = Vec::new();
    for row in rows.iter() {
        let label = short(row.text("memory"));
        let part =
            (held::owner_in_words(row.text("owner")), rounded(row.num("bytes").unwrap_or(0.0)));
        match bars.last_mut().filter(|bar| bar.label == label) {
            Some(bar) => bar.parts.push(part),
            None => bars.push(BarRow { label, parts: vec![part] }),
        }
    }
    let title = "Memory at the peak by owner".to_owned();
    Ok((!bars.is_empty()).then_some(Bars { title, unit: "bytes", rows: bars, is_stacked: true }))
}
