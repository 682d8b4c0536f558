//! Memory: its curve, who holds it at the peak, and what snapshots and exported timelines show.

use std::collections::BTreeMap;

use trace_advisor::Error;
use trace_advisor::compare::owner_phrase;

use super::coverage::Blocks;
use super::{LEAST_SHARE, POINTS, Source, held, snapshots};
use crate::blocks::{Area, BarRow, Bars, Block, Pane, Series, rounded};
use crate::clean::short;

/// The view of snapshots, which counts what they hold.
const SNAPSHOT: &str = "snapshot_peak";
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
    let mut blocks = Blocks::default();
    let has_snapshot = source.has_any(&["snapshots"]);
    // Owners are those of snapshots where there are any.
    let owned = if has_snapshot { SNAPSHOT } else { "memory_owners" };
    blocks.add("memory_log", curves(source)?.into_iter().map(Block::Area));
    blocks.add(owned, snapshots::by_owner(source)?.into_iter().map(Block::Area));
    if source.has_any(&["memory_timelines"]) {
        blocks.add(
            "memory_timeline_curve",
            snapshots::timelines(source)?.into_iter().map(Block::Area),
        );
    }
    blocks.add(owned, owners(source)?.map(Block::Bars));
    blocks.add(owned, held::stacks(source)?.map(Block::Boxes));
    if has_snapshot {
        blocks.add(owned, held::map(source)?.map(Block::Boxes));
    }
    let of_peak = format!("rank = {} AND moment = 'peak'", source.rank);
    let owners = source.table_where(
        "Owners at the peak",
        "memory_owners",
        OWNERS,
        &of_peak,
        "bytes DESC, memory, owner, place",
    )?;
    blocks.add(owned, owners.map(Block::Table));
    let holders = source.table(
        "Holders at the peak",
        "memory_peak_holders",
        HOLDERS,
        "bytes DESC, memory, place",
    )?;
    blocks.add("memory_peak_holders", holders.map(Block::Table));
    if has_snapshot {
        blocks.add(SNAPSHOT, snapshots::stacks(source)?.map(Block::Table));
    }
    Ok(source.pane(
        "memory",
        "Memory",
        "How much memory is in use, when, and who holds it?",
        blocks,
        owned,
    ))
}

/// Allocated and reserved memory over time: the most of each bin, of the memories with most events.
fn curves(source: &Source<'_>) -> Result<Vec<Area>, Error> {
    let sql = format!(
        "SELECT memory, start_ns, width_ns, (ts_ns - start_ns) / width_ns AS bin, count(*) AS events, \
         max(coalesce(allocated_bytes, change_bytes)) AS allocated, max(reserved_bytes) AS reserved, \
         bool_or(allocated_bytes IS NULL) AS is_change \
         FROM (SELECT min(ts_ns) AS start_ns, greatest((max(ts_ns) - min(ts_ns)) / {POINTS}, 1) AS width_ns \
         FROM memory_log WHERE rank = {0}) CROSS JOIN memory_log WHERE rank = {0} GROUP BY memory, start_ns, width_ns, bin ORDER BY memory, bin",
        source.rank
    );
    let table = source.query(&sql)?;
    let ends = table
        .first_row()
        .and_then(|row| Some((row.integer("start_ns")?, row.integer("width_ns")?)));
    let Some((start, width)) = ends else { return Ok(Vec::new()) };
    let mut curves: BTreeMap<&str, Curve> = BTreeMap::new();
    for row in table.named_rows() {
        let Some(bin) = row.integer("bin") else { continue };
        let curve = curves.entry(row.text_or_empty("memory")).or_default();
        curve.events += row.count("events");
        curve.allocated.extend(row.number("allocated").map(|value| (bin, value)));
        curve.reserved.extend(row.number("reserved").map(|value| (bin, value)));
    }
    let mut by_events: Vec<(i64, &str)> =
        curves.iter().map(|(memory, curve)| (-curve.events, *memory)).collect();
    by_events.sort_unstable();
    for (_, memory) in by_events.into_iter().skip(MAX_MEMORIES) {
        curves.remove(memory);
    }
    drop_negligible(&mut curves);
    let is_change = table.named_rows().any(|row| row.is_true("is_change"));
    let x: Vec<f64> = (0..=POINTS).map(|bin| (start + bin * width) as f64).collect();
    let area = |(memory, curve): (&str, Curve)| curve.area(memory, is_change, x.clone());
    Ok(curves.into_iter().map(area).collect())
}

/// Drops memories that hold next to nothing of what the largest holds: 8 bytes of a CPU are no curve to look at.
fn drop_negligible(curves: &mut BTreeMap<&str, Curve>) {
    let largest = curves.values().map(Curve::peak).fold(0.0, f64::max);
    curves.retain(|_, curve| curve.peak() >= largest * LEAST_SHARE);
}

/// The curve of one memory: values by bin.
#[derive(Default)]
struct Curve {
    events: i64,
    allocated: BTreeMap<i64, f64>,
    reserved: BTreeMap<i64, f64>,
}

impl Curve {
    /// The most that it says.
    fn peak(&self) -> f64 {
        let values = self.allocated.values().chain(self.reserved.values());
        values.copied().fold(0.0, f64::max)
    }

    /// `is_change`: what was allocated when the recording began is not known.
    fn area(&self, memory: &str, is_change: bool, x: Vec<f64>) -> Area {
        let (allocated, since) = if is_change {
            ("since the recording began", ", since the recording began")
        } else {
            ("allocated", "")
        };
        let named = [(allocated, &self.allocated), ("reserved", &self.reserved)];
        let series = named.into_iter().filter(|(_, points)| !points.is_empty());
        Area {
            title: format!("Memory over time: {}{since}", short(memory)),
            x_label: "time".to_owned(),
            x_unit: "ns",
            unit: "bytes",
            is_stacked: false,
            is_small: false,
            x,
            series: series
                .map(|(name, points)| Series { name: name.to_owned(), y: by_bin(points) })
                .collect(),
        }
    }
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
    let table = source.query(&sql)?;
    let mut bars: Vec<BarRow> = Vec::new();
    for row in table.named_rows() {
        let label = short(row.text_or_empty("memory"));
        let part =
            (owner_phrase(row.text_or_empty("owner")), rounded(row.number("bytes").unwrap_or(0.0)));
        match bars.last_mut().filter(|bar| bar.label == label) {
            Some(bar) => bar.parts.push(part),
            None => bars.push(BarRow { label, parts: vec![part] }),
        }
    }
    // Free memory is reserved but has no owner.
    let has_free =
        bars.iter().flat_map(|bar| &bar.parts).any(|(owner, _)| owner.starts_with("free"));
    let what = if has_free { "Reserved" } else { "Memory" };
    let title = format!("{what} at the peak by owner");
    Ok((!bars.is_empty()).then(|| Bars::new(title, "bytes", bars, true)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Curve, drop_negligible};

    #[test]
    fn memories_that_hold_next_to_nothing_have_no_curve() {
        let curve =
            |bytes: f64| Curve { allocated: BTreeMap::from([(0, bytes)]), ..Curve::default() };
        let mut curves = BTreeMap::from([("cpu", curve(8.0)), ("cuda:0", curve(2e9))]);
        drop_negligible(&mut curves);
        assert_eq!(curves.keys().copied().collect::<Vec<_>>(), ["cuda:0"]);
        let mut curves = BTreeMap::from([("cpu", curve(8.0))]);
        drop_negligible(&mut curves);
        assert_eq!(curves.len(), 1, "the only memory");
    }
}
