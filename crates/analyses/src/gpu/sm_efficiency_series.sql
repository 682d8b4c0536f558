--! question = "How many of the SMs are in use over time?"
--! row = "one interval of one device in which its SM efficiency is the same, and more than 0"
--! window = "recording"
--! needs = ["device_load"]
--! order = ["rank", "device", "ts_ns"]
--! requires = ["device_activity", "launch_sizes"]
--! when_empty = "no kernel of the trace says how many blocks it has"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! sm_efficiency_ratio = { doc = "blocks over SMs, added up over the kernels that run, at most 1", unit = "ratio" }
-- Stretches of the load that touch and are equal are one: islands are numbered by how many began so far.
WITH load AS (
    SELECT rank, device, ts_ns, dur_ns, round(least(blocks_per_sm, 1), 9) AS sm_efficiency_ratio
    FROM device_load
    WHERE blocks_per_sm > 1e-9
),
begins AS (
    SELECT
        *,
        CASE
            WHEN lag(sm_efficiency_ratio) OVER w = sm_efficiency_ratio AND lag(ts_ns + dur_ns) OVER w = ts_ns THEN 0
            ELSE 1
        END AS begins
    FROM load
    WINDOW w AS (PARTITION BY rank, device ORDER BY ts_ns)
),
islands AS (
    SELECT
        *,
        running_sum!(begins, PARTITION BY rank, device ORDER BY ts_ns) AS island
    FROM begins
)
SELECT
    rank, device, min(ts_ns) AS ts_ns, sum(dur_ns) AS dur_ns,
    min(sm_efficiency_ratio) AS sm_efficiency_ratio
FROM islands
GROUP BY rank, device, island
