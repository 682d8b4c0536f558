--! question = "Which module does each collective of FSDP serve, and how much of it does computation hide?"
--! row = "one collective that FSDP called for one module"
--! window = "counted_steps"
--! needs = ["annotations", "comm_collectives", "kernels", "cpu_ops", "ranks", "device_steps"]
--! order = ["rank", "collective"]
--! when_empty = "the trace holds no ranges of FSDP (FSDP::all_gather, of fully_shard in PyTorch 2.4 and later) with collectives in complete steps"
--! [columns]
--! rank = "rank"
--! collective = "number of the collective on the rank, see comm_collectives"
--! name = "all_gather, reduce_scatter, all_reduce (of replicas, and where gloo reduces) and the like"
--! module = "name of the module whose parameters are gathered or whose gradients are reduced; (root) for what is in no wrapped layer"
--! pass = "forward or backward: the pass of the range of FSDP around it, or of the one before"
--! step = "step"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration: on the device, or of gloo on the host", unit = "ns" }
--! exposed_ns = { doc = "part of it in which the device computes nothing; on the host: in which no operator runs", unit = "ns" }
--! message_bytes = { doc = "size, see comm_collectives; absent where the trace does not tell it", unit = "bytes" }
-- The name of the innermost range states the module. Ranges of these names do not nest, and those of a rank follow each other.
WITH ranges AS (
    SELECT
        rank, ts_ns, ts_ns + dur_ns AS end_ns,
        coalesce(nullif(regexp_replace(CAST(name AS VARCHAR), '^FSDP::\w+ ?\(?([^)]*)\)?\z', '\1'), ''), '(root)') AS module,
        row_number() OVER (PARTITION BY rank ORDER BY ts_ns, event_id) AS number
    FROM annotations
    WHERE NOT on_device AND (name LIKE 'FSDP::all\_gather' OR name LIKE 'FSDP::all\_gather (%'
        OR name LIKE 'FSDP::post\_backward\_reduce%')
),
-- Odd numbers begin a part of backward.
passes AS (
    SELECT
        rank, ts_ns,
        2 * row_number() OVER (PARTITION BY rank ORDER BY ts_ns, event_id)
            + CASE WHEN name LIKE 'FSDP::pre\_forward%' OR name LIKE 'FSDP::root\_pre\_forward%' THEN 0 ELSE 1 END AS mark
    FROM annotations
    WHERE NOT on_device AND (name LIKE 'FSDP::pre\_forward%' OR name LIKE 'FSDP::root\_pre\_forward%'
        OR name LIKE 'FSDP::pre\_backward%' OR name LIKE 'FSDP::post\_backward%')
),
calls AS (
    SELECT c.rank, c.collective, c.name, c.step, c.host_ts_ns, c.ts_ns, c.dur_ns, c.message_bytes,
        CASE WHEN c.timed_on = 'device' THEN coalesce(c.device, CAST(-1 AS INT)) ELSE CAST(-2 AS INT) END AS device
    FROM comm_collectives c
    JOIN device_steps s ON s.rank = c.rank AND s.step = c.step
    WHERE c.timed_on IS NOT NULL AND c.rank IN (SELECT DISTINCT rank FROM ranges)
),
moments AS (
    SELECT rank, ts_ns, 0 AS is_call, number, end_ns, NULL AS collective, NULL AS mark FROM ranges
    UNION ALL
    SELECT rank, ts_ns, 0, NULL, NULL, NULL, mark FROM passes
    UNION ALL
    SELECT rank, host_ts_ns, 1, NULL, NULL, collective, NULL FROM calls
),
placed AS (
    SELECT
        rank, ts_ns, is_call, collective,
        running_max!(number, PARTITION BY rank ORDER BY ts_ns, is_call, collective) AS number,
        running_max!(end_ns, PARTITION BY rank ORDER BY ts_ns, is_call, collective) AS until_ns,
        running_max!(mark, PARTITION BY rank ORDER BY ts_ns, is_call, collective) AS mark
    FROM moments
),
owned AS (
    SELECT c.*, r.module, p.mark
    FROM placed p
    JOIN ranges r ON r.rank = p.rank AND r.number = p.number
    JOIN calls c ON c.rank = p.rank AND c.collective = p.collective
    WHERE p.is_call = 1 AND p.ts_ns < p.until_ns
),
-- Time without computation up to each moment; a collective has the part between its start and its end. Device -2 is the host.
points AS (
    SELECT rank, coalesce(device, CAST(-1 AS INT)) AS device, ts_ns, 1 AS change, NULL AS collective FROM kernels WHERE kind = 'computation'
    UNION ALL
    SELECT rank, coalesce(device, CAST(-1 AS INT)), ts_ns + dur_ns, -1, NULL FROM kernels WHERE kind = 'computation'
    UNION ALL
    SELECT o.rank, CAST(-2 AS INT), o.ts_ns, 1, NULL FROM cpu_ops o JOIN ranks r ON r.rank = o.rank WHERE r.vendor = 'cpu' AND o.name LIKE 'aten::%'
    UNION ALL
    SELECT o.rank, CAST(-2 AS INT), o.ts_ns + o.dur_ns, -1, NULL FROM cpu_ops o JOIN ranks r ON r.rank = o.rank WHERE r.vendor = 'cpu' AND o.name LIKE 'aten::%'
    UNION ALL
    SELECT rank, device, ts_ns, 0, collective FROM owned
    UNION ALL
    SELECT rank, device, ts_ns + dur_ns, 0, collective FROM owned
),
spans AS (
    SELECT
        rank, device, ts_ns, change, collective,
        running_sum!(change, PARTITION BY rank, device ORDER BY ts_ns, change, collective) AS computing,
        lead(ts_ns) OVER (PARTITION BY rank, device ORDER BY ts_ns, change, collective) - ts_ns AS dur_ns
    FROM points
),
elapsed AS (
    SELECT
        rank, device, ts_ns, collective,
        sum(CASE WHEN computing = 0 THEN dur_ns ELSE 0 END) OVER (
            PARTITION BY rank, device ORDER BY ts_ns, change, collective ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ns
    FROM spans
),
exposed AS (
    SELECT rank, collective, max(coalesce(idle_ns, 0)) - min(coalesce(idle_ns, 0)) AS exposed_ns
    FROM elapsed
    WHERE collective IS NOT NULL
    GROUP BY rank, collective
)
SELECT
    o.rank, o.collective, o.name, o.module,
    CASE WHEN coalesce(o.mark, 0) % 2 = 0 THEN 'forward' ELSE 'backward' END AS pass,
    o.step, o.ts_ns, o.dur_ns, e.exposed_ns, o.message_bytes
FROM owned o
JOIN exposed e ON e.rank = o.rank AND e.collective = o.collective
