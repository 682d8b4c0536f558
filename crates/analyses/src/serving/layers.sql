--! question = "How long does each layer of the model take in an inference server, and what in it?"
--! row = "one layer in one kind of engine steps (prefill, decode, mixed) on one rank; what runs before the first layer and after the last are rows of their own"
--! window = "recording"
--! needs = ["serving_steps", "serving_work"]
--! order = ["rank", "kind", "layer", "place"]
--! when_empty = "the trace holds no steps of an inference engine, or no kernel that writes keys and values into its cache: reshape_and_cache, store_kvcache, concat_and_cache"
--! [columns]
--! rank = "rank"
--! kind = "prefill, decode or mixed"
--! place = "before (embedding, preparation), layer, or after (last norm, logits, sampling)"
--! layer = "number of the layer in the model, from 0; -1 before the layers; after them their number"
--! step_count = { doc = "steps that run the layer", unit = "count" }
--! kernel_count = { doc = "kernels, copies and fills", unit = "count" }
--! device_ns = { doc = "their time, overlap not merged; adds up to device_ns of serving_steps", unit = "ns" }
--! device_ratio = { doc = "share of the device time of these steps", unit = "ratio" }
--! attention_ns = { doc = "part of device_ns in attention", unit = "ns" }
--! cache_write_ns = { doc = "part that writes keys and values into the cache", unit = "ns" }
--! matmul_ns = { doc = "part in matmuls outside of experts", unit = "ns" }
--! expert_ns = { doc = "part in mixtures of experts: routing and grouped matmuls", unit = "ns" }
--! norm_ns = { doc = "part in norms", unit = "ns" }
--! communication_ns = { doc = "part in collectives", unit = "ns" }
--! other_ns = { doc = "all other kernels, copies and fills", unit = "ns" }
-- Kernels have no layer. Each layer writes the cache once. A layer begins with the norm before the projection before that write;
-- the last one ends where it has as many norms as the first.
WITH work AS (
    SELECT
        w.rank, w.mark, s.kind, w.event_id, w.ts_ns, w.dur_ns, w.part,
        row_number() OVER (PARTITION BY w.rank, w.mark ORDER BY w.ts_ns, w.event_id) AS number
    FROM serving_work w
    JOIN serving_steps s ON s.rank = w.rank AND s.event_id = w.mark
),
norms AS (
    SELECT
        *,
        running_max!(CASE WHEN part = 'norm' THEN number END, PARTITION BY rank, mark ORDER BY number) AS norm_number
    FROM work
),
projections AS (
    SELECT
        *,
        -- Its order is that of `number`: the highest so far belongs to the last matmul.
        running_max!(CASE WHEN part = 'matmul' THEN coalesce(norm_number, number) END, PARTITION BY rank, mark ORDER BY number)
            AS start_number
    FROM norms
),
starts AS (
    SELECT
        rank, mark, coalesce(start_number, number) AS number,
        row_number() OVER (PARTITION BY rank, mark ORDER BY number) - 1 AS layer
    FROM projections
    WHERE part = 'cache write'
),
-- Two writes with one start: keys and values apart.
layers AS (
    SELECT
        rank, mark, number,
        row_number() OVER (PARTITION BY rank, mark ORDER BY number) - 1 AS layer
    FROM (SELECT DISTINCT rank, mark, number FROM starts)
),
placed AS (
    SELECT
        w.*,
        running_max!(l.layer, PARTITION BY w.rank, w.mark ORDER BY w.number) AS layer
    FROM work w
    LEFT JOIN layers l ON l.rank = w.rank AND l.mark = w.mark AND l.number = w.number
),
counted AS (
    SELECT
        *,
        max(layer) OVER (PARTITION BY rank, mark) AS last_layer,
        running_sum!(CASE WHEN part = 'norm' THEN 1 ELSE 0 END, PARTITION BY rank, mark, layer ORDER BY number) AS norms_so_far
    FROM placed
),
norm_counts AS (
    SELECT rank, mark, max(norms_so_far) AS norm_count
    FROM counted
    WHERE layer = 0 AND last_layer > 0
    GROUP BY rank, mark
),
assigned AS (
    SELECT
        c.rank, c.mark, c.kind, c.part, c.dur_ns,
        CASE
            WHEN c.layer IS NULL THEN 'before'
            WHEN c.layer = c.last_layer AND c.norms_so_far > n.norm_count THEN 'after'
            ELSE 'layer'
        END AS place,
        CASE
            WHEN c.layer IS NULL THEN -1
            WHEN c.layer = c.last_layer AND c.norms_so_far > n.norm_count THEN c.layer + 1
            ELSE c.layer
        END AS layer
    FROM counted c
    LEFT JOIN norm_counts n ON n.rank = c.rank AND n.mark = c.mark
    WHERE c.last_layer IS NOT NULL
),
sums AS (
    SELECT
        rank, kind, place, layer,
        count(DISTINCT mark) AS step_count,
        count(*) AS kernel_count,
        sum(dur_ns) AS device_ns,
        sum_if!(dur_ns, part = 'attention') AS attention_ns,
        sum_if!(dur_ns, part = 'cache write') AS cache_write_ns,
        sum_if!(dur_ns, part = 'matmul') AS matmul_ns,
        sum_if!(dur_ns, part = 'expert') AS expert_ns,
        sum_if!(dur_ns, part = 'norm') AS norm_ns,
        sum_if!(dur_ns, part = 'communication') AS communication_ns,
        sum_if!(dur_ns, part = 'other') AS other_ns
    FROM assigned
    GROUP BY rank, kind, place, layer
)
SELECT
    rank, kind, place, layer, step_count, kernel_count, device_ns,
    ratio!(device_ns, sum(device_ns) OVER (PARTITION BY rank, kind)) AS device_ratio,
    attention_ns, cache_write_ns, matmul_ns, expert_ns, norm_ns, communication_ns, other_ns
FROM sums
