//! Memory snapshots and exported memory timelines: allocated bytes over time, by owner where that is known.

use std::collections::BTreeMap;

use trace_advisor::Error;
use trace_advisor::compare::owner_phrase;

use super::{LEAST_SHARE, POINTS, Source, held};
use crate::blocks::{Area, Series, Table, rounded};

/// Snapshots with a chart of their own.
const MAX_SNAPSHOTS: usize = 4;
/// Owners with an area of their own, those with most bytes first.
const MAX_OWNERS: usize = 9;

const STACKS: &[(&str, &str)] = &[
    ("snapshot", "Snapshot"),
    ("device", "GPU"),
    ("allocated_bytes", "Bytes"),
    ("allocated_ratio", "Of the peak"),
    ("allocation_count", "Pieces"),
    ("user_frame", "Line"),
    ("frames", "Stack"),
];

/// Categories of an exported memory timeline.
const CATEGORIES: [(&str, &str); 8] = [
    ("parameter_bytes", "parameter"),
    ("optimizer_state_bytes", "optimizer state"),
    ("gradient_bytes", "gradient"),
    ("activation_bytes", "activation"),
    ("input_bytes", "input"),
    ("temporary_bytes", "temporary"),
    ("autograd_detail_bytes", "autograd detail"),
    ("unknown_bytes", "unknown"),
];

/// Call stacks at the peak of a snapshot.
pub(super) fn stacks(source: &Source<'_>) -> Result<Option<Table>, Error> {
    let order = "allocated_bytes DESC, snapshot, device, place";
    source.table("Call stacks at the peak of the snapshot", "snapshot_peak", STACKS, order)
}

/// The bytes of each owner by position.
type Samples = BTreeMap<String, BTreeMap<i64, f64>>;

/// Allocated bytes by owner, as the view samples them.
pub(super) fn by_owner(source: &Source<'_>) -> Result<Vec<Area>, Error> {
    let sql = format!(
        "SELECT snapshot, memory, position, owner, bytes FROM memory_owner_series WHERE rank = {} ORDER BY snapshot, memory, position, owner",
        source.rank
    );
    let table = source.query(&sql)?;
    // By snapshot and memory, with their name.
    let mut charts: BTreeMap<(i64, String), (String, Samples)> = BTreeMap::new();
    for row in table.named_rows() {
        let (Some(position), Some(bytes)) = (row.integer("position"), row.number("bytes")) else {
            continue;
        };
        let key = (row.integer("snapshot").unwrap_or(-1), row.text_or_empty("memory").to_owned());
        let owner = owner_phrase(row.text_or_empty("owner"));
        let (_, owners) = charts.entry(key).or_insert_with(|| (held::place(row), Samples::new()));
        owners.entry(owner).or_default().insert(position, bytes);
    }
    let most =
        |owners: &Samples| owners.values().flat_map(BTreeMap::values).copied().fold(0.0, f64::max);
    let largest = charts.values().map(|(_, owners)| most(owners)).fold(0.0, f64::max);
    charts.retain(|_, (_, owners)| most(owners) >= largest * LEAST_SHARE);
    let areas = charts.into_values().take(MAX_SNAPSHOTS).map(|(place, owners)| {
        let mut positions: Vec<i64> = owners.values().flat_map(BTreeMap::keys).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        let mut largest: Vec<(String, BTreeMap<i64, f64>)> = owners.into_iter().collect();
        let peak = |points: &BTreeMap<i64, f64>| points.values().copied().fold(0.0, f64::max);
        largest.sort_by(|a, b| peak(&b.1).total_cmp(&peak(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let rest = largest.split_off(MAX_OWNERS.min(largest.len()));
        let mut series: Vec<Series> = largest
            .iter()
            .map(|(owner, points)| Series {
                name: owner.clone(),
                y: positions
                    .iter()
                    .map(|at| Some(rounded(points.get(at).copied().unwrap_or(0.0))))
                    .collect(),
            })
            .collect();
        if !rest.is_empty() {
            let sum = |at: &i64| rest.iter().filter_map(|(_, points)| points.get(at)).sum::<f64>();
            series.push(Series {
                name: "other".to_owned(),
                y: positions.iter().map(|at| Some(rounded(sum(at)))).collect(),
            });
        }
        Area {
            title: format!("Allocated bytes by owner: {place}"),
            x_label: "event of the allocator".to_owned(),
            x_unit: "count",
            unit: "bytes",
            is_stacked: true,
            is_small: false,
            x: positions.iter().map(|at| *at as f64).collect(),
            series,
        }
    });
    Ok(areas.collect())
}

/// Exported memory timelines: bytes by category over time.
pub(super) fn timelines(source: &Source<'_>) -> Result<Vec<Area>, Error> {
    let sql = format!(
        "SELECT timeline, max(position) AS last FROM memory_timeline_curve WHERE rank = {} GROUP BY timeline ORDER BY timeline LIMIT {MAX_SNAPSHOTS}",
        source.rank
    );
    let mut areas = Vec::new();
    for timeline in source.query(&sql)?.named_rows() {
        let Some((number, last)) = timeline.integer("timeline").zip(timeline.integer("last"))
        else {
            continue;
        };
        let width = (last / POINTS).max(1);
        let columns: Vec<String> =
            CATEGORIES.iter().map(|(column, _)| format!("max({column}) AS {column}")).collect();
        let sql = format!(
            "SELECT position / {width} AS bin, min(since_start_ns) AS at_ns, {} FROM memory_timeline_curve \
             WHERE rank = {} AND timeline = {number} GROUP BY bin ORDER BY bin",
            columns.join(", "),
            source.rank
        );
        let table = source.query(&sql)?;
        let series = CATEGORIES.iter().map(|(column, name)| Series {
            name: (*name).to_owned(),
            y: table.named_rows().map(|row| row.number(column).map(rounded)).collect(),
        });
        let series = series.filter(|s| s.y.iter().flatten().any(|bytes| *bytes > 0.0));
        areas.push(Area {
            title: format!("Exported memory timeline {number}: memory by category"),
            x_label: "time".to_owned(),
            x_unit: "ns",
            unit: "bytes",
            is_stacked: true,
            is_small: false,
            x: table.named_rows().map(|row| row.number("at_ns").unwrap_or(0.0)).collect(),
            series: series.collect(),
        });
    }
    Ok(areas)
}
