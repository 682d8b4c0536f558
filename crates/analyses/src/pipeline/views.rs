//! `pipeline_stages`.

use std::collections::BTreeMap;

use query::BatchBuilder;
use query::columns::{OptIntColumn, names as texts};
use query::rust_view::{Result, RustView, ViewInputs};
use trace_model::RecordBatch;

use super::stages::{RankTraffic, RanksFrom, StageFrom, stages as find_stages};
use crate::comm::argument_text::parse_ranks;

pub(crate) const STAGES: RustView = RustView::new(
    "pipeline_stages",
    &[
        // The first message of each step, with each other rank and at all.
        (
            "first_messages",
            "WITH calls AS (
                 SELECT rank, step, direction, peer, group_peer, group_ranks, group_description, host_ts_ns, event_id
                 FROM pipeline_messages
                 WHERE step IS NOT NULL AND direction <> 'both'
             )
             SELECT rank, direction, peer, group_peer, group_ranks, group_description, 0 AS is_any, count(*) AS step_count
             FROM (
                 SELECT *, row_number() OVER (PARTITION BY rank, step, peer, group_peer, group_ranks ORDER BY host_ts_ns, event_id) AS place
                 FROM calls
                 WHERE peer IS NOT NULL OR group_peer IS NOT NULL OR group_ranks IS NOT NULL
             )
             WHERE place = 1
             GROUP BY rank, direction, peer, group_peer, group_ranks, group_description
             UNION ALL
             SELECT rank, direction, NULL, NULL, NULL, NULL, 1, count(*)
             FROM (SELECT *, row_number() OVER (PARTITION BY rank, step ORDER BY host_ts_ns, event_id) AS place FROM calls)
             WHERE place = 1
             GROUP BY rank, direction
             ORDER BY 1, 7, 2, 3, 4, 5, 6",
        ),
        (
            "passes",
            "SELECT DISTINCT rank, stage, CAST(named_by <> 'pattern' AS BIGINT) AS is_named
             FROM pipeline_microbatches ORDER BY rank, stage",
        ),
    ],
    stages,
);

fn stages(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut traffic: BTreeMap<i64, RankTraffic> = BTreeMap::new();
    let passes = inputs.batch("passes")?;
    let (rank, stage) = (OptIntColumn::of(passes, "rank")?, OptIntColumn::of(passes, "stage")?);
    let is_named = OptIntColumn::of(passes, "is_named")?;
    for row in 0..passes.num_rows() {
        let own = traffic.entry(rank.value_or_0(row)).or_default();
        own.named.extend(stage.get(row));
        own.has_names |= is_named.value_or_0(row) == 1;
    }
    let mut descriptions: BTreeMap<i64, String> = BTreeMap::new();
    let batch = inputs.batch("first_messages")?;
    let int = |name| OptIntColumn::of(batch, name);
    let (rank, peer, group_peer) = (int("rank")?, int("peer")?, int("group_peer")?);
    let (is_any, count) = (int("is_any")?, int("step_count")?);
    let (direction, ranks) = (texts(batch, "direction")?, texts(batch, "group_ranks")?);
    let description = texts(batch, "group_description")?;
    for row in 0..batch.num_rows() {
        // A rank without passes is not part of a pipeline, even if it sends messages.
        let Some(own) = traffic.get_mut(&rank.value_or_0(row)) else { continue };
        let group = ranks.get(row).and_then(parse_ranks).unwrap_or_default();
        if let Some(text) = description.get(row) {
            descriptions.entry(rank.value_or_0(row)).or_insert_with(|| text.to_owned());
        }
        // Without the group, a rank within it is taken for a rank of the run.
        let of_group = group_peer.get(row).map(|at| {
            usize::try_from(at).ok().and_then(|place| group.get(place)).copied().unwrap_or(at)
        });
        if description.get(row).is_some_and(is_pipeline_group) {
            own.group.clone_from(&group);
        }
        let first = if is_any.value_or_0(row) == 1 {
            &mut own.any
        } else if let Some(peer) = peer.get(row).or(of_group) {
            own.peers.entry(peer).or_default()
        } else {
            own.group = group;
            continue;
        };
        match direction.get(row) {
            Some("send") => first.sent += count.value_or_0(row),
            _ => first.received += count.value_or_0(row),
        }
    }
    let rows = find_stages(&traffic);
    BatchBuilder::of(&rows)
        .int("rank", |r| Some(r.rank))
        .int("pipeline", |r| Some(r.pipeline))
        .int("stage", |r| Some(r.stage))
        .int("stage_count", |r| Some(r.stage_count))
        .int("rank_count", |r| Some(r.rank_count))
        .int("read_count", |r| Some(r.read_count))
        .int("chunk_count", |r| Some(r.chunk_count))
        .text("stage_from", |r| {
            Some(match r.stage_from {
                StageFrom::Name => "name",
                StageFrom::Messages => "messages",
                StageFrom::RankOrder => "rank order",
            })
        })
        .text("ranks_from", |r| {
            Some(match r.ranks_from {
                RanksFrom::Messages => "messages",
                RanksFrom::Group => "group",
                RanksFrom::Run => "run",
            })
        })
        .text("group_description", |r| descriptions.get(&r.rank).map(String::as_str))
        .finish()
}

/// Returns whether a group is that of a pipeline: `PIPELINE_MODEL_PARALLEL_GROUP` of Megatron-LM, `mesh_pp`, `pp`.
fn is_pipeline_group(description: &str) -> bool {
    let description = description.to_ascii_lowercase();
    description.contains("pipeline")
        || description.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "pp")
}
