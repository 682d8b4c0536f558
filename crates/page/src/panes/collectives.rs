//! Collectives: their time, size and bandwidth, and who makes others wait.

use trace_advisor::Error;
use trace_advisor::trace_model::number::human_bytes;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Block, Pane, Point, Scatter, rounded};
use crate::clean::short;

/// Sizes of collectives that the chart shows.
const MAX_POINTS: usize = 300;

const BY_NAME: &[(&str, &str)] = &[
    ("rank", "Rank"),
    ("name", "Collective"),
    ("backend", "Backend"),
    ("call_count", "Calls"),
    ("comm_ns", "Time"),
    ("transfer_ns", "Data moves"),
    ("mean_comm_ns", "Mean"),
    ("input_bytes", "Bytes"),
    ("bus_gb_per_s", "Bus bandwidth"),
];

const STRAGGLERS: &[(&str, &str)] = &[
    ("rank", "Rank"),
    ("caused_wait_ns", "Others wait for it"),
    ("wait_share_ratio", "Share of all waiting"),
    ("own_wait_ns", "It waits"),
    ("last_ratio", "Arrives last"),
    ("late_step_count", "Late in steps"),
    ("delay_phase", "Falls behind in"),
    ("delay_ns", "Delay"),
];

pub(super) fn collectives(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let order = "comm_ns DESC NULLS LAST, rank, name, backend";
    // Planning the rest takes longer than this.
    let has_any = !source.query("SELECT 1 AS one FROM comm_collectives LIMIT 1")?.rows.is_empty();
    let by_name = has_any
        .then(|| source.table_where("By kind and rank", "comm_by_name", BY_NAME, "true", order))
        .transpose()?;
    if let Some(table) = by_name.flatten() {
        blocks.add("comm_collectives", bandwidth(source)?.map(Block::Scatter));
        let order = "caused_wait_ns DESC, rank";
        let stragglers = source.table_where(
            "Who makes the others wait",
            "comm_stragglers",
            STRAGGLERS,
            "true",
            order,
        )?;
        blocks.add("comm_stragglers", stragglers.map(Block::Table));
        blocks.add("comm_by_name", [Block::Table(table)]);
    }
    Ok(source.pane_of_all_ranks(
        "collectives",
        "Collectives",
        "How long do collectives take, and do they reach the bandwidth of the link?",
        blocks,
        "comm_by_name",
    ))
}

fn bandwidth(source: &Source<'_>) -> Result<Option<Scatter>, Error> {
    let sql = format!(
        "SELECT c.name AS name, c.message_bytes AS message_bytes, count(*) AS calls, \
         avg(coalesce(a.transfer_ns, c.dur_ns)) AS transfer_ns, CAST(sum(c.dur_ns) AS BIGINT) AS sum_ns, count(a.transfer_ns) AS matched \
         FROM (SELECT * FROM comm_collectives WHERE rank = {0} AND message_bytes > 0 AND dur_ns > 0) c \
         LEFT JOIN (SELECT rank, collective, transfer_ns FROM comm_arrivals WHERE rank = {0} AND transfer_ns > 0) a \
         ON a.rank = c.rank AND a.collective = c.collective \
         GROUP BY c.name, c.message_bytes ORDER BY sum_ns DESC, name, message_bytes LIMIT {MAX_POINTS}",
        source.rank
    );
    let table = source.query(&sql)?;
    let points: Vec<Point> = table
        .named_rows()
        .filter_map(|row| {
            let (size, ns) = (row.number("message_bytes")?, row.number("transfer_ns")?);
            let calls = row.integer("calls")?;
            let times = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
            let label = format!("{} of {}, {times}", row.text_or_empty("name"), human_bytes(size));
            Some(Point(
                rounded(size),
                rounded(size / ns.max(1.0)),
                rounded(row.number("sum_ns")?),
                short(row.text_or_empty("name")),
                short(&label),
            ))
        })
        .collect();
    let is_matched = table.named_rows().any(|row| row.count("matched") > 0);
    let over =
        if is_matched { "while data moves" } else { "over the whole call, waiting included" };
    Ok((!points.is_empty()).then_some(Scatter {
        title: format!("Size against bandwidth, rank {}", source.rank),
        x_label: "message size".to_owned(),
        x_unit: "bytes",
        y_label: format!("GB/s {over}"),
        y_unit: "gb_per_s",
        size_label: "time".to_owned(),
        size_unit: "ns",
        points,
        lines: Vec::new(),
    }))
}
